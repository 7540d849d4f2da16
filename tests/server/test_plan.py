"""Forecasts for a question, compared with formulas from other sources."""

import json
import math
import re
from functools import partial
from statistics import NormalDist
from typing import Any

import pytest

from deniable.server.planning import forecast
from deniable.server.planning.planned_question import read
from deniable.server.results.advice import describe
from deniable.server.shuffling.amplification import report_epsilon
from deniable.shared.cli.command import main
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import KClosest, KRandomizedResponse, mechanisms
from deniable.shared.survey.document import LOOKS
from deniable.shared.survey.questions import question_document
from tests.command import run
from tests.server.surveys import choice, survey

KEYS = [
    *("mechanism", "payload_bytes", "n_variance", "margin", "confidence", "share", "joint"),
    *("people", "error", "people_needed", "leverage", "limit_ratio"),
    *("margin_asked_openly", "worth_asked_openly"),
    *("margin_of_trusted_server", "margin_shuffled", "alternatives"),
]
VECTOR = {"name": "it", "kind": "vector", "epsilon": "1"}
NUMBER = {"name": "it", "kind": "number", "low": 0, "high": 120}
plan = partial(forecast.plan, looks="once")  # formulas are about one look


def planned(arguments: str, looks: str = "once") -> dict[str, Any]:
    done = run("plan", *arguments.split(), "--looks", looks, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert set(KEYS) <= set(found)
    assert isinstance(found, dict)
    return found


def test_a_bit_has_the_minimum_variance() -> None:
    """The variance is exactly e^ε / (e^ε - 1)^2. At ε 1, 4.68 answers are worth a direct one."""
    found = planned("--kind bit --epsilon 1 --people 10000")
    assert found["n_variance"] == pytest.approx(0.92067, rel=1e-5)
    assert found["limit_ratio"] == pytest.approx(1, rel=1e-9)
    assert found["worth_asked_openly"] == round(10_000 * math.tanh(0.5) ** 2)
    half_a_report = 0.5 / 10_000
    openly = 1.96 * 0.5 / 100 + half_a_report
    assert found["margin_asked_openly"] == pytest.approx(openly, rel=1e-3)
    noise = 1.96 * math.sqrt(1.8413) / 1e4
    both = math.hypot(found["margin_asked_openly"], noise)
    assert found["margin_of_trusted_server"] == pytest.approx(both, rel=1e-6)


@pytest.mark.parametrize(
    ("epsilon", "worst", "limit"),
    [
        ("1", 3.994, 3.990),
        pytest.param("2", 0.8688, 0.8649, marks=pytest.mark.long),
        pytest.param("4", 0.1303, 0.1264, marks=pytest.mark.long),
        ("6", 0.02795, 0.02695),
    ],
)
def test_a_number_has_nearly_the_minimum_variance_of_any_table(
    epsilon: str, worst: float, limit: float
) -> None:
    """Compare with independently computed limits, for the mechanism that a survey would use."""
    found = plan({**NUMBER, "epsilon": epsilon}, 1_000, None)
    assert found["mechanism"] == "optimal-table"
    assert found["n_variance"] == pytest.approx(worst, rel=0.01)
    assert found["n_variance"] / found["limit_ratio"] == pytest.approx(limit, rel=0.001)
    at_most = 1.96 * 120 * math.sqrt((worst / 4 + 1 / 12) / 10**6)
    margin = plan({**NUMBER, "epsilon": epsilon}, 10**6, None)["margin"]
    assert 0.98 * at_most < margin < 1.001 * at_most  # the noise is less at other positions
    others = [other["mechanism"] for other in found["alternatives"]]
    assert set(others) == set(mechanisms("number")) - {"optimal-table"}


@pytest.mark.parametrize(("dimension", "limit"), [(10, 59.73), (100, 629.35), (1_000, 6_326.4)])
def test_a_vector_is_within_two_per_cent_of_the_minimum_error(dimension: int, limit: float) -> None:
    """Compare with independently computed limits.

    The noise of a trusted server, summed over all coordinates, is 4 d (d + 1) / (n ε)^2; each of
    the d coordinates has an equal part. Intervals of more than 20 coordinates hold jointly.
    """
    found = plan({**VECTOR, "dimension": dimension}, 10_000, None)
    z = NormalDist().inv_cdf(1 - 0.025 / (dimension if dimension > 20 else 1))
    assert found["mechanism"] == "k-closest"
    spread, ratio = found["n_variance"], found["limit_ratio"]
    assert spread / ratio == pytest.approx(limit, rel=1e-4)
    assert 1 < ratio < 1.02
    along, gain, n = KClosest(Epsilon("1"), dimension).along, 1 / math.sqrt(spread + 1), 10_000
    factor = z * (1 + (z**2 + 1) / (4 * n))
    unseen = factor**2 / n * (along - (1 - along) / (dimension - 1))
    reach = factor * math.sqrt((1 / dimension + unseen) / (n + factor**2))
    step = max(1, (factor**2 - 1) / 3) * math.sqrt(min(1, 3 * along)) * (1 + gain) / 2 / n
    assert found["margin"] == pytest.approx((reach + step) / gain)
    assert found["margin"] < 1.02 * z / gain / math.sqrt(dimension * n)
    assert found["worth_asked_openly"] == round(1e4 / (spread + 1))
    asked_openly = (reach + step) / gain / math.sqrt(spread + 1)
    trusted = math.hypot(z * math.sqrt(4 * (dimension + 1) / 1e8), asked_openly)
    assert found["margin_of_trusted_server"] == pytest.approx(trusted, rel=1e-4)


@pytest.mark.parametrize(
    ("epsilon", "people", "deviation", "alone"),
    [("0.1", 10**3, 42.2, 0.73), ("0.1", 10**4, 47.7, 1.83), ("1", 10**4, 6.52, 5.47)],
)
def test_a_shuffled_bit_has_independently_computed_figures(
    epsilon: str, people: int, deviation: float, alone: float
) -> None:
    """Compare standard deviations of a count's noise, in people, at δ 1e-6.

    With fewer people, δ would be 1e-5 or more. Sampling adds half of the people's root, and whole
    counts add half of a report.
    """
    asked = {"name": "it", "kind": "bit", "epsilon": epsilon}
    found = plan(asked, people, None)
    half_a_report = 0.5 / math.tanh(alone / 2)
    both = (1.96 * math.hypot(deviation, math.sqrt(people) / 2) + half_a_report) / people
    assert found["margin_shuffled"] == pytest.approx(both, rel=3e-3)
    assert float(found["shuffled_report_epsilon"]) == pytest.approx(alone, abs=0.006)
    assert found["shuffled_delta"] == 1e-6
    assert plan(asked, 10**6, None)["shuffled_delta"] == 1e-8


def test_a_report_hides_among_the_people_of_a_batch(capsys: pytest.CaptureFixture[str]) -> None:
    asked = {"name": "it", "kind": "bit", "epsilon": "1"}
    found = plan(asked, 20_000, None, crowd=1_000)
    alone, delta = found["shuffled_report_epsilon"], found["shuffled_delta"]
    assert (found["shuffled_people"], delta) == (1_000, 5e-7)
    assert alone == str(report_epsilon(Epsilon("1"), 1_000, delta))
    whole = plan(asked, 20_000, None)
    assert whole["shuffled_people"] == 20_000
    assert found["margin_shuffled"] > whole["margin_shuffled"]
    assert plan(asked, 500, None, crowd=1_000)["shuffled_people"] == 500
    words = ["plan", "--kind", "bit", "--people", "20000", "--crowd", "1000"]
    assert main(words) == 0
    assert f"(among 1,000 people: ε 1, δ 5e-07), and ε {alone} for" in capsys.readouterr().out
    assert main([*words[:-1], "0"]) == 2


@pytest.mark.parametrize(("options", "alone"), [(64, 5.699), (1_024, 6.62)])
def test_a_shuffled_choice_has_the_mechanism_and_epsilon_with_the_least_error(
    options: int, alone: float
) -> None:
    """For any randomizer, ε₀ is 5.47. Subsets of 1,024 options reach 6.32, with a larger error."""
    labels = [f"option {number}" for number in range(options)]
    asked = {"name": "it", "kind": "choice", "epsilon": "1", "options": labels}
    found = plan(asked, 10**4, None)
    assert float(found["shuffled_report_epsilon"]) == pytest.approx(alone, abs=0.004)


@pytest.mark.parametrize(
    "asked",
    [
        {"name": "it", "kind": "bit", "epsilon": "1"},
        {**NUMBER, "epsilon": "0.5"},
        {"name": "it", "kind": "choice", "epsilon": "2", "options": list("abcdefgh")},
        {**VECTOR, "dimension": 10},
        {"name": "it", "kind": "text", "length": 4, "epsilon": "2"},
    ],
    ids=lambda asked: asked["kind"],
)
def test_the_shuffled_error_lies_between_the_other_two(
    asked: dict[str, object],
) -> None:
    found = plan(asked, 10**5, None)
    order = [found[f"margin{of}"] for of in ("_of_trusted_server", "_shuffled", "")]
    assert order == sorted(order)
    assert order[0] < order[1] < order[2]


def test_a_plan_is_for_the_looks_that_are_named() -> None:
    """The final look of a survey that is read more than once has half of the error."""
    asked = "--kind bit --epsilon 1 --people 10000"
    once, twice, always = (planned(asked, looks) for looks in LOOKS[::-1])
    z, z_of_one = (NormalDist().inv_cdf(level) for level in (0.9875, 0.975))
    assert twice["margin"] / once["margin"] == pytest.approx(z / z_of_one, rel=1e-3)
    assert always["margin"] == twice["margin"]
    assert {plan["margin_shown_once"] for plan in (once, twice, always)} == {once["margin"]}
    assert once["margin_until_final"] is twice["margin_until_final"] is None
    assert always["margin_until_final"] > 1.6 * always["margin"]
    assert json.loads(run("plan", *asked.split(), "--json").stdout) == always


def test_only_mechanisms_whose_reports_fit_are_planned() -> None:
    """Subset selection of 120 options takes 15 bytes, so a limit of 3 bytes excludes it."""
    wide = "--kind choice --options 120 --epsilon 4 --people 10000"
    best, short = planned(wide), planned(f"{wide} --bytes 3")
    assert best["payload_bytes"] == 15
    assert short["payload_bytes"] <= 3
    assert short["margin"] >= best["margin"]
    assert all(other["payload_bytes"] <= 3 for other in short["alternatives"])
    wide = "--kind choice --options 1024 --epsilon 3 --people 10000"
    done = run("plan", *wide.split(), "--bytes", "1")
    assert (done.returncode, done.stdout) == (2, "")
    assert "needs 2 bytes per report, more than the 1 allowed" in done.stderr
    done = run("plan", *wide.split(), "--bytes", "9", "--mechanism", "unary")
    assert done.returncode == 2


def test_the_command_plans_a_vector_and_asks_for_its_dimension() -> None:
    found = planned("--kind vector --dimension 10 --epsilon 1 --people 10000")
    assert found["payload_bytes"] == 9
    done = run("plan", *["--kind", "vector", "--people", "100"])
    assert done.returncode == 2
    assert "--dimension" in done.stderr


@pytest.mark.parametrize("options", [2, 3, 10, 64])
@pytest.mark.parametrize("epsilon", ["0.5", "2", "4"])
def test_no_mechanism_for_a_choice_is_below_the_limit_and_subset_selection_reaches_it(
    epsilon: str, options: int
) -> None:
    listed = [f"option {number}" for number in range(options)]
    asked = {"name": "it", "kind": "choice", "epsilon": epsilon, "options": listed}
    best = plan({**asked, "mechanism": "subset-selection"}, 1_000, None)
    assert best["limit_ratio"] == pytest.approx(1, rel=1e-9)
    for other in best["alternatives"]:
        assert other["n_variance"] >= best["n_variance"] * (1 - 1e-9)


@pytest.mark.parametrize("epsilon", ["0.5", "3"])
def test_the_stated_number_of_people_is_enough(epsilon: str) -> None:
    """One person fewer would not be enough."""
    asked = {**NUMBER, "epsilon": epsilon}
    enough = plan(asked, None, 0.75)["people"]
    assert plan(asked, enough, None)["margin"] <= 0.75
    assert plan(asked, enough - 1, None)["margin"] > 0.75
    assert plan(asked, 10, 0.75)["people_needed"] == enough


def test_the_planned_question_equals_the_published_one() -> None:
    question = question_document(read({**NUMBER, "epsilon": "2"}))
    assert (question["mechanism"], question["grid"]) == ("optimal-table", 16)


def test_the_command_prints_a_table_and_six_sentences() -> None:
    asked = "--kind number --epsilon 1 --error 0.02"
    found, done = planned(asked, "any-time"), run("plan", *asked.split())
    lines = done.stdout.splitlines()
    assert lines[1].split()[0] == "optimal-table"
    assert len(lines) == len(mechanisms("number")) + 12
    enough, worth = found["people"], found["worth_asked_openly"]
    evenly = "(95 %) if answers are spread evenly"
    assert f"{enough:,} people give ± 0.0200 {evenly}; for ± 0.0100 you need " in lines[-6]
    assert found["people_needed"] == pytest.approx(4 * enough, rel=0.01)
    both = run("plan", *asked.split(), "--people", "1000").stdout.splitlines()
    assert f"for ± 0.02 you need {enough:,}." in both[-6]
    early = found["people_needed_until_final"]
    assert f"For ± 0.0100 before the round is final, you need {early:,} people." in lines[-5]
    assert f"their answers are worth about {worth:,} asked openly." in lines[-4]
    assert "If 1 % of the reports are forged" in lines[-3]
    assert f"Installs needed for {enough:,} answers in each round: " in lines[-1]
    assert lines[-2] == (
        'In each round this asks for the last answer (over = "last"). Count only '
        "people whose app runs again after the round, within its grace period."
    )


@pytest.mark.parametrize("options", [2, 20, 300])
def test_a_plan_states_what_a_hundredth_of_forged_reports_can_do(options: int) -> None:
    """The worst forger names one option in each report. 20 options: 5 % become 30 % or more."""
    mechanism = KRandomizedResponse(Epsilon("0.5"), options)
    asked = {"kind": "choice", "options": options, "epsilon": "0.5"}
    words = (f"--{name} {value}" for name, value in asked.items())
    found = planned(" ".join((*words, "--mechanism k-randomized-response --people 1000")), "once")
    keep, lie = mechanism.keep / 2**64, mechanism.lie / 2**64
    honest = 0.05 * keep + 0.95 * lie  # rate of reports that name an option of 5 %
    shift = (0.99 * honest + 0.01 - honest) / (keep - lie)
    most = min(1, 0.01 * (1 - lie) / (keep - lie))
    assert min(1, shift) <= found["shift_by_forgery"] == pytest.approx(most)
    assert options < 20 or shift > 0.25


def test_a_plan_points_out_forgery_that_is_far_beyond_the_margin() -> None:
    """A thousand times as many people have a margin some thirty times as small."""
    asked = "plan --kind choice --options 20 --epsilon 1 --looks once --people"
    assert "times the margin of error" not in run(*asked.split(), "1000").stdout
    found = planned(asked.removeprefix("plan ") + " 1000000")
    ratio = found["shift_by_forgery"] / found["margin"]
    assert ratio > 5
    words = run(*asked.split(), "1000000").stdout
    assert f"The shift is {ratio:.0f} times the margin of error." in words


def test_a_plan_and_a_check_state_what_the_short_report_costs() -> None:
    """No sentence where the default has the least variance, or no shorter report than the best."""
    words = (
        "projective-geometry needs 2 bytes for each report instead of the 128 of subset-selection, "
        "and has 0.3 % more variance."
    )
    asked = "plan --kind choice --epsilon 1 --people 1000 --options"
    assert words in run(*asked.split(), "1024").stdout
    assert words in "\n".join(describe(survey(choice(1024, None))))
    assert "instead of the" not in run(*asked.split(), "20", "--epsilon", "5").stdout
    assert "instead of the" not in "\n".join(describe(survey(choice(1024, "unary"))))


def test_a_plan_states_what_forged_reports_of_one_label_value_can_do() -> None:
    """1 forged report next to 99 honest ones of 50 values: a third of those of one value."""
    asked = "--kind bit --epsilon 1 --people 10000"
    found = planned(f"{asked} --values 50", "once")
    leverage = found["shift_by_forgery"] / 0.01
    most = min(1, leverage * 1 / (1 + 99 / 50))
    assert found["shift_of_value_by_forgery"] == pytest.approx(most)
    words = run("plan", *asked.split(), "--values", "50").stdout
    assert f"(if all have the same label value, its result by ± {100 * most:.0f} points)" in words
    assert "same label value" not in run("plan", *asked.split()).stdout


def test_a_plan_names_the_part_of_a_round_that_was_chosen() -> None:
    first = run("plan", "--kind", "bit", "--people", "100", "--over", "first").stdout
    assert 'asks for the first answer (over = "first").\n' in first
    assert planned("--kind bit --people 100")["over"] == "any"
    done = run("plan", "--kind", "number", "--people", "100", "--over", "any")
    assert (done.returncode, done.stdout) == (2, "")
    assert "'any' applies only to bits" in done.stderr


def test_a_plan_by_label_needs_as_many_people_for_each_value() -> None:
    asked = "--kind bit --epsilon 1"
    one, of_five = planned(f"{asked} --people 4000"), planned(f"{asked} --people 20000 --values 5")
    jointly = NormalDist().inv_cdf(1 - 0.025 / 5) / NormalDist().inv_cdf(0.975)
    assert of_five["margin_of_value"] == pytest.approx(jointly * one["margin"], rel=0.003)
    assert of_five["margin"] == planned(f"{asked} --people 20000")["margin"]
    arguments = f"{asked} --error 0.01 --people 20000 --values 5"
    lines = run("plan", *arguments.split(), "--looks", "once").stdout
    enough = int(5 * jointly**2 * planned(f"{asked} --error 0.01")["people"])
    found = re.search(r"for ± 1 point in each you need ([\d,]+) people\.", lines)
    assert found
    assert int(found[1].replace(",", "")) == pytest.approx(enough, rel=0.01)
    assert "leaves 4,000 people and ± 4.4 points for each value, jointly" in lines


def test_a_plan_is_about_the_share_that_is_given() -> None:
    """At ε 4, where the noise is small, a rare answer needs fewer people than an even one."""
    even, rare = (planned(f"--kind bit --epsilon 4 --people 5000{s}") for s in ("", " --share 0.1"))
    assert (even["share"], rare["share"]) == (0.5, 0.1)
    for made in (even, rare):
        answer, noise = made["share"] * (1 - made["share"]), 0.01901
        margin = 1.96 * math.sqrt((answer + noise) / 5_000)
        assert made["margin"] == pytest.approx(margin, rel=0.02)
        worth = 5_000 * answer / (answer + noise)
        assert made["worth_asked_openly"] == pytest.approx(worth, rel=1e-3)
    assert "for a share of 10 %" in rare["assumed"]
    ends = planned("--kind number --epsilon 4 --people 5000 --share 0.1")["assumed"]
    assert ends == "if 10 % are at the high end of the range, and the others at the low end"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("--kind bit", "--people N"),
        ("--kind bit --people 0", "--people: 1 to"),
        ("--kind bit --error 0", "above 0"),
        ("--kind bit --error nan", "above 0"),
        ("--kind bit --people 9 --values 0", "--values: 1 to 1,000"),
        ("--kind bit --people 9 --share 1.5", "--share: write a number from 0 to 1"),
        ("--kind vector --dimension 9 --people 9 --share 1", "--share: a vector has no share"),
        ("--kind choice --people 9", "--options"),
        ("--kind choice --people 9 --options 1", "--options"),
        ("--kind number --people 9 --low 3 --high 3", "high"),
        ("--kind number --people 9 --mechanism unary", "mechanism"),
        ("--kind number --people 9 --epsilon 0", "above 0"),
    ],
)
def test_a_wrong_option_is_reported_in_one_line(arguments: str, says: str) -> None:
    done = run("plan", *arguments.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr


@pytest.mark.parametrize(
    ("epsilon", "installs"),
    [
        ("0.1", {"once": 1_000, "day": 4_550, "week": 1_000, "month": 1_000}),
        ("1", {"once": 1_000, "day": 45_500, "week": 6_500, "month": 1_500}),
        ("2.01", {}),
    ],
)
def test_installs_that_answer_some_rounds_are_counted(
    epsilon: str, installs: dict[str, int]
) -> None:
    """91 days, 13 weeks and 3 months of a quarter, over the rounds that ε 2 pays for."""
    found = planned(f"--kind bit --epsilon {epsilon} --people 1000")
    assert found["installs"] == installs
