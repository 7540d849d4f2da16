"""Many rounds: exact probabilities compared with sums that do not use the code under test."""

import itertools
import json
import math
import random

import pytest

from deniable.shared.cli.command import main
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.simulations.studies.repetition import SCHEMES, Scheme
from tests.plausible import assert_implausible, assert_plausible


def scheme(name: str, epsilon: str = "1", lasting: str = "2") -> Scheme:
    return Scheme(name, Epsilon(epsilon), Epsilon(lasting))


def report_probability(
    name: str, epsilon: str, lasting: str, answers: tuple[int, ...], reports: tuple[int, ...]
) -> float:
    """Return P[reports | answers] as a sum over all kept reports."""
    p = 1 / (1 + math.exp(-float(epsilon)))
    a, b = math.exp(float(lasting)), math.exp(float(epsilon))
    again = (a * b - 1) / (a - b) / ((a * b - 1) / (a - b) + 1)
    first = 1 / (1 + math.exp(-float(lasting))) if name == "two-stage" else p

    def coin(same: bool, probability: float) -> float:
        return probability if same else 1 - probability

    if name == "fresh":
        return math.prod(coin(r == x, p) for r, x in zip(reports, answers, strict=True))
    if name == "latched":
        return coin(reports[0] == answers[0], p) * all(r == reports[0] for r in reports)
    total = 0.0
    for kept in itertools.product((0, 1), repeat=2):
        probability = coin(kept[0] == 0, first) * coin(kept[1] == 1, first)
        for report, answer in zip(reports, answers, strict=True):
            same = report == kept[answer]
            probability *= coin(same, again) if name == "two-stage" else float(same)
        total += probability
    return total


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("rounds", [1, 2, 5, 6])
def test_every_probability_equals_the_sum_over_all_report_histories(name: str, rounds: int) -> None:
    """Enumerate all histories of reports that name the answer, or that name the change."""

    def distribution(answers: tuple[int, ...]) -> list[float]:
        every = itertools.product((0, 1), repeat=rounds)
        return [report_probability(name, "1", "2", answers, reports) for reports in every]

    yes, no, half = (1,) * rounds, (0,) * rounds, rounds // 2
    best = sum(map(max, distribution(yes), distribution(no))) / 2
    assert scheme(name).guess_right(rounds) == pytest.approx(best, rel=1e-12)
    changed = (1,) * half + (0,) * (rounds - half) if half else yes
    best = sum(map(max, distribution(yes), distribution(changed))) / 2
    assert scheme(name).flip_right(rounds) == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("rounds", [2, 5, 6])
def test_the_worst_ratio_is_the_largest_over_all_reports_and_changes(rounds: int) -> None:
    worst = 0.0
    for change, reports in itertools.product(
        range(1, rounds), itertools.product((0, 1), repeat=rounds)
    ):
        flipped = (1,) * change + (0,) * (rounds - change)
        ratio = report_probability(
            "two-stage", "1", "2", (1,) * rounds, reports
        ) / report_probability("two-stage", "1", "2", flipped, reports)
        worst = max(worst, abs(math.log(ratio)))
    assert scheme("two-stage").flip_epsilon(rounds) == pytest.approx(worst, rel=1e-9)


@pytest.mark.parametrize(("epsilon", "probabilities"), [
    ("0.5", (62.25, 75.24, 83.63, 91.87)), ("1", (73.11, 91.06, 97.32, 99.70)),
    ("2", (88.08, 99.48, 99.99, 100.00)),
])  # fmt: skip
def test_fresh_noise_averages_away(epsilon: str, probabilities: tuple[float, ...]) -> None:
    for rounds, probability in zip((1, 7, 15, 31), probabilities, strict=True):
        assert 100 * scheme("fresh", epsilon, "4").guess_right(rounds) == pytest.approx(
            probability, abs=0.005
        )


def test_one_change_of_answer_is_visible_in_kept_reports() -> None:
    for epsilon, shown in (("1", 0.61), ("2", 0.79), ("4", 0.96)):
        kept = scheme("kept", epsilon, "8")
        e = math.exp(float(epsilon))
        assert kept.flip_shown == pytest.approx((1 + e * e) / (1 + e) ** 2, rel=1e-12)
        assert kept.flip_shown == pytest.approx(shown, abs=0.005)
        assert kept.flip_epsilon(2) == math.inf


def test_two_stage_noise_reveals_a_change_as_epsilon_grows() -> None:
    for rounds, joint in ((4, 2.95), (12, 8.54), (52, 36.70)):
        assert scheme("two-stage").flip_epsilon(rounds) == pytest.approx(joint, abs=0.005)


def test_latched_noise_keeps_its_epsilon_over_any_number_of_rounds() -> None:
    latched = scheme("latched")
    for rounds in (1, 12, 104):
        assert latched.guarantee(rounds) == 1
        assert latched.guess_right(rounds) == pytest.approx(1 / (1 + math.exp(-1)), rel=1e-12)
        assert latched.flip_epsilon(rounds) == 0
        assert latched.flip_right(rounds) == 0.5


@pytest.mark.parametrize("name", SCHEMES)
def test_no_guess_beats_the_guarantee(name: str) -> None:
    """Bound the rate of right guesses about a constant answer by e^E / (1 + e^E)."""
    for rounds in (1, 3, 10, 50):
        bound = 1 / (1 + math.exp(-scheme(name).guarantee(rounds)))
        assert scheme(name).guess_right(rounds) <= bound + 1e-12


def test_a_single_two_stage_report_spends_epsilon() -> None:
    assert scheme("two-stage").guess_right(1) == pytest.approx(1 / (1 + math.exp(-1)), rel=1e-12)


def test_devices_with_fresh_noise_are_guessed_at_the_stated_rate() -> None:
    """Guess by the majority of seven fresh reports; false alarm at most 1e-9. Twin: six reports."""
    mechanism, draw, n = (
        RandomizedResponse(Epsilon("1")),
        random.Random(20261118).getrandbits,
        20_000,
    )
    right = sum(sum(mechanism.randomize(1, draw) for _ in range(7)) > 3 for _ in range(n))
    assert_plausible(right, n, scheme("fresh").guess_right(7))
    assert_implausible(right, n, scheme("fresh").guess_right(5))


def test_the_study_prints_a_missing_limit_as_null(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "repeat", "--rounds", "1,4", "--epsilon", "1", "--json"]) == 0
    cells = json.loads(capsys.readouterr().out)["rows"]
    limits = {(c["scheme"], c["rounds"]): c["flip_epsilon"] for c in cells}
    assert limits["kept", 4] is None
    assert limits["latched", 4] == 0
    assert limits["two-stage", 4] == pytest.approx(2.9488, abs=1e-4)


def test_a_kept_report_must_spend_more_than_a_single_report(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["simulate", "repeat", "--lasting", "1"]) == 2
    assert "--lasting must be above 1" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--rounds", "1"], ["--epsilon", "20"], ["--epsilon", "0.001"]])
def test_extreme_options_work(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Run a single round without changes, and ε 20, whose kept report has twice that ε."""
    assert main(["simulate", "repeat", *words]) == 0
    printed = capsys.readouterr().out
    assert ("only the answer itself can leak" in printed) == ("--rounds" in words)
    assert "nan" not in printed


def test_a_kept_report_above_the_limit_of_devices_follows_the_formula() -> None:
    """At ε 20 and 40, a single report is wrong with probability 1 / (1 + e^20), to 1e-6."""
    two = Scheme("two-stage", Epsilon("20"), 40.0)
    assert 1 - two.guess_right(1) == pytest.approx(1 / (1 + math.exp(20)), rel=1e-6)
    assert two.flip_epsilon(2) == pytest.approx(20, rel=0.05)
