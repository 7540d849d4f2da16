"""Mechanisms of a new family: one class and one line, correct in every part before they are fast.

Each test registers a class that the product does not contain, and follows it from the device to the
page, the planner, the certificate and the simulator.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deniable.server.estimation import forgery_test
from deniable.server.estimation.crosstab import PairCounts, unbiased_shares
from deniable.server.estimation.shares import support_counts
from deniable.server.intake.tally import tally
from deniable.shared.cli.command import main
from deniable.shared.envelope import encode_report
from deniable.shared.errors import InvalidSurvey
from deniable.shared.privacy.epsilon import Epsilon, decimal_text
from deniable.shared.privacy.families.support import SupportDesign
from deniable.shared.privacy.mechanism import Mechanism
from deniable.shared.privacy.mechanisms import OneBitMean, RandomizedResponse, mechanisms
from deniable.shared.privacy.verification import refusal
from deniable.shared.survey.document import parse_toml
from deniable.simulations.population import JOINT, fixed, rates
from deniable.simulations.population.tallies import Sampler
from tests.asked import survey
from tests.contract.extensions import DESIGNS, NegativeSurvey, registered
from tests.end_to_end.test_every_mechanism import ShoutedResponse, here, walk
from tests.server.estimation.single import counted
from tests.server.world import World
from tests.survey_texts import bit, choice, survey_text

__all__ = ["here"]

EPSILON, OPTIONS = Epsilon("1"), 11
HELD = [30_000, 0, 10_000, 5_000, 5_000, *[0] * 6]  # out of 50,000 people
SHARES = [Fraction(people, sum(HELD)) for people in HELD]
NEW = [design(EPSILON, OPTIONS) for design in DESIGNS]


@pytest.fixture(params=DESIGNS, ids=lambda design: design.name)
def name(request: pytest.FixtureRequest) -> Iterator[str]:
    with registered(request.param):
        yield request.param.name


@pytest.fixture(params=NEW, ids=lambda design: design.name)
def design(request: pytest.FixtureRequest) -> SupportDesign:
    made: SupportDesign = request.param
    return made


def test_a_mechanism_of_a_new_family_works_end_to_end(
    name: str, here: World, tmp_path: Path
) -> None:
    """The path has the device, both encodings, tally, results and page."""
    walk(name, here, tmp_path)


def test_expected_counts_of_a_new_family_reproduce_the_truth_exactly(design: SupportDesign) -> None:
    """Computed in rational numbers, from the average contribution of one report to each cell."""
    expected = [
        sum(share * design.weight(cell, answer) for answer, share in enumerate(SHARES))
        for cell in range(design.cells)
    ]
    supported = support_counts(design, np.array(expected, object))
    assert [design.unbiased_share(rate) for rate in supported] == SHARES
    found = rates(design, [float(share) for share in SHARES])
    assert found == pytest.approx([float(rate) for rate in expected], abs=1e-15)


def test_the_truth_lies_within_the_server_s_intervals(name: str) -> None:
    """Simulate people. Both intervals have a joint confidence of 1 - 1e-9.

    Twin: if cells are treated as options, as for a design without `supported_by`, the truth is
    missed.
    """
    (question,) = parse_toml(survey([name])).questions
    cells = fixed(question.mechanism, HELD, 1, np.random.default_rng(5)).counts[0]
    statement = counted(question, cells, sum(HELD)).statements(1 - 1e-9)
    truth = np.array([float(share) for share in SHARES])
    for low, high in (statement.these, statement.every):
        assert (low < truth).all()
        assert (truth < high).all()
    wrong = question.mechanism.unbiased_share(cells[:OPTIONS] / sum(HELD))  # type: ignore[attr-defined]  # a design
    assert np.abs(wrong - truth).max() > 0.3


def test_crossed_questions_give_the_joint_share_of_a_new_family(design: SupportDesign) -> None:
    """Computed exactly, with everybody saying yes and holding option 2."""
    other = RandomizedResponse(EPSILON)
    both = np.array(
        [[design.weight(a, 2) * other.weight(b, 1) for b in (0, 1)] for a in range(design.cells)]
    )
    scale = 2**192
    whole = np.array([[int(p * scale) for p in row] for row in both], object)
    pair = PairCounts.of((design, other), (whole.sum(1), whole.sum(0)), whole, scale)
    shares = np.array(unbiased_shares(pair)).reshape(OPTIONS, 2)
    assert shares.tolist() == [[0, int(option == 2)] for option in range(OPTIONS)]


def test_crossed_reports_are_counted_by_cell_in_any_encoding() -> None:
    """In a class that derives from WholeNumber, symbols 1, 3, 5 ... have cells 0, 1, 2 ..."""
    with registered(ShoutedResponse):
        text = survey_text(
            choice(3, "shouted", name="one") + bit("other"), cross=[["one", "other"]]
        )
        asked = parse_toml(text)
        symbols = [(2 * option + 1, option % 2) for option in range(3) for _ in range(option + 1)]
        payload = b"".join(encode_report(asked, list(pair)) for pair in symbols)
        cells = tally(asked, payload, len(symbols))
    assert cells.tolist() == [1, 2, 3, 4, 2, 1, 0, 0, 2, 3, 0]


def test_honest_reports_are_not_flagged_and_forged_ones_are(design: SupportDesign) -> None:
    honest = fixed(design, HELD, 20, np.random.default_rng(7)).counts
    reports = np.full(20, sum(HELD))
    assert all(fit.forged == 0 for fit in forgery_test.fits(design, honest, reports))
    forged = honest.copy()
    forged[:, 0] += 60_000
    found = forgery_test.fits(design, forged, reports + 60_000)
    assert all(0 < fit.forged <= 60_000 for fit in found)


def test_the_sampler_of_every_family_agrees_with_the_general_sampler() -> None:
    """Compare the mean contribution of one report to each cell.

    The general sampler uses only the mechanism's probabilities.
    """
    checked = []
    for made in mechanisms().values():
        size = next(size for size in made.proved_sizes if size > 2 or size == made.sizes[-1])
        mechanism: Mechanism = made(EPSILON, size)
        if mechanism.encoding.public_bits or mechanism.encoding.limit > 10_000:
            continue
        shares = np.random.default_rng(1).dirichlet(np.ones(mechanism.answers))
        general = Sampler(mechanism).rates(shares)
        assert rates(mechanism, shares.tolist()) == pytest.approx(general, abs=1e-12)
        checked.append(made.name)
    assert len(checked) > 10


def test_the_general_sampler_draws_from_the_joint_distribution(design: SupportDesign) -> None:
    tallies = fixed(design, HELD, 400, np.random.default_rng(3))
    assert tallies.exactness == JOINT
    assert (tallies.counts.sum(1) == sum(HELD)).all()
    means = tallies.counts.mean(0) / sum(HELD)
    expected = rates(design, [float(share) for share in SHARES])
    assert np.abs(means - expected).max() < 7 * np.sqrt(0.25 / sum(HELD) / 400)


@pytest.mark.parametrize("verb", ["plan", "certify"])
def test_the_planner_and_the_certificate_accept_a_new_family(
    name: str, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [verb, "--kind", "choice", "--options", "11", "--mechanism", name, "--json"]
    more = ["--people", "20000"] if verb == "plan" else []
    assert main([*words, *more]) == 0
    assert json.loads(capsys.readouterr().out)["mechanism"] == name


def test_the_error_of_a_new_family_is_as_the_planner_predicts(
    design: SupportDesign,
) -> None:
    """In 400 rounds, the mean squared error over all options is within 6 standard errors."""
    held, people = [1_000] * OPTIONS, 1_000 * OPTIONS
    counts = fixed(design, held, 400, np.random.default_rng(11)).counts
    found = design.unbiased_share(support_counts(design, counts) / people) - 1 / OPTIONS
    squares = (found**2).mean(axis=1)
    error = 6 * squares.std() / 20
    assert abs(squares.mean() - design.predicted_error(people) ** 2) < error


class Loose(NegativeSurvey):
    """Planted fault: it spends three times its ε, and states so."""

    name = label = "loose"

    def __init__(self, epsilon: Epsilon, options: int) -> None:
        super().__init__(Epsilon(str(3 * float(epsilon))), options)
        self.epsilon = epsilon


class Silent(Loose):
    """Planted fault: it spends three times its ε, and does not state it."""

    name = label = "silent"

    def worst_ratio(self) -> tuple[int, int]:
        return 1, 1


class Truthful(NegativeSurvey):
    name = label = "truthful"

    def weight(self, symbol: int, answer: int) -> Fraction:
        return Fraction(symbol == answer)

    def worst_ratio(self) -> tuple[int, int]:
        return 1, 0


@pytest.mark.parametrize("bad", [Loose, Silent])
def test_an_excess_is_stated_as_a_multiple(bad: type[SupportDesign]) -> None:
    problem: Any = refusal(bad(EPSILON, OPTIONS))
    assert "spends 3.00 times its ε of 1" in problem
    assert refusal(NegativeSurvey(EPSILON, OPTIONS)) is None
    assert "private at no ε" in str(refusal(Truthful(EPSILON, OPTIONS)))


@pytest.mark.parametrize(("bad", "says"), [(Loose, "3.00 times"), (Truthful, "private at no ε")])
def test_a_mechanism_that_overspends_is_refused_in_surveys(
    bad: type[SupportDesign], says: str
) -> None:
    with registered(bad), pytest.raises(InvalidSurvey, match=says):
        parse_toml(survey([bad.name]))


@pytest.mark.parametrize(
    ("bad", "says"), [(Loose, "3.00 times"), (Silent, "3.00 times"), (Truthful, "private at no ε")]
)
def test_a_mechanism_that_overspends_is_not_simulated(
    bad: type[SupportDesign], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = f"{__name__}:{bad.__name__}"
    words = ["--mechanisms", path, "--people", "1000", "--options", "8", "--repetitions", "2"]
    assert main(["simulate", "histogram", "--epsilon", "1", *words]) == 2
    assert says in capsys.readouterr().err


class LooseBit(OneBitMean):
    """Planted fault: a mechanism for numbers that spends three times its stated ε."""

    name = label = "loose-bit"

    def __init__(self, epsilon: Epsilon, steps: int = 1) -> None:
        super().__init__(Epsilon(decimal_text(3 * epsilon.billionths)), steps)
        self.epsilon = epsilon


def test_a_number_s_mechanism_that_overspends_is_not_simulated(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["--mechanisms", f"{__name__}:LooseBit", "--people", "1000", "--repetitions", "2"]
    assert main(["simulate", "mean", "--epsilon", "1", *words]) == 2
    assert "3.00 times" in capsys.readouterr().err


def test_a_user_s_mechanism_of_a_new_family_is_simulated(
    capsys: pytest.CaptureFixture[str],
) -> None:
    paths = ",".join(f"{design.__module__}:{design.__qualname__}" for design in DESIGNS)
    words = ["--mechanisms", paths, "--people", "10000", "--options", "8", "--repetitions", "200"]
    assert main(["simulate", "histogram", "--epsilon", "1", *words, "--json"]) == 0
    local = [row for row in json.loads(capsys.readouterr().out)["rows"] if ":" in row["estimator"]]
    assert len(local) == len(DESIGNS)
    for row in local:
        assert abs(row["measured"] - row["exact"]) <= 6.5 * row["error"]
