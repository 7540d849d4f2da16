"""Sentences with a stated error rate: each is false in at most 5 % of cases.

A share of 6 % among 20,000 draws has probability below 1e-9 if the true rate is 5 % (Chernoff), so
the tests allow 6 %. Each has a twin whose sentences are false far more often.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from deniable.server.estimation.statements import (
    CONFIDENCE,
    Side,
    differences,
    disjoint,
    halved,
    joint_confidence,
)
from deniable.server.results.display import STYLES, Figures
from deniable.server.results.sentences import change, several_labels
from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.mechanisms import KRandomizedResponse, RandomizedResponse
from deniable.shared.survey.kinds.choice import Bit, Choice
from tests.server.estimation.single import counted, statements

Array = npt.NDArray[np.float64]

DRAWS, MAX_FALSE = 20_000, 0.06
LONG = 20  # options that a headline names


def question(epsilon: str, options: int) -> Choice:
    labels = tuple(f"o{number}" for number in range(options))
    return Choice("it", KRandomizedResponse(Epsilon(epsilon), options), labels, None)


def draw(asked: Choice, shares: Sequence[float], reports: int, seed: int) -> npt.NDArray[np.int64]:
    keep, lie = asked.mechanism.keep / ONE, asked.mechanism.lie / ONE
    rates = lie + np.array(shares) * (keep - lie)
    return np.random.default_rng(seed).multinomial(reports, rates / rates.sum(), size=DRAWS)


def headlines(asked: Choice, cells: npt.NDArray[np.int64], kind: str) -> list[str]:
    """Return the headline of each round, from intervals of this kind; "none" has no width."""
    made = statements(asked, cells, np.full(len(cells), cells[0].sum()))
    ends = (made.estimate, made.estimate) if kind == "none" else getattr(made, kind)
    columns = (array.tolist() for array in (made.estimate, *ends))
    return [
        several_labels(
            [
                Figures(label, middle, low, high, None, None, middle, STYLES["share"], " %", 1)
                for label, middle, low, high in zip(asked.labels, *row, strict=True)
            ],
            LONG,
        )
        for row in zip(*columns, strict=True)
    ]


def false_leads(found: Sequence[str], leaders: Sequence[str]) -> float:
    """Return how often a headline names a leader that is none, or leaves out a leader."""

    def is_false(headline: str) -> bool:
        if " is first (" in headline:
            return [headline.partition(" ")[0]] != [*leaders]
        if " lead. " in headline:
            named = headline.partition(" lead.")[0].replace(" and ", ", ").split(", ")
            return not {*leaders} <= {*named}
        return False

    return sum(map(is_false, found)) / len(found)


@pytest.mark.parametrize("epsilon", ["1", "4"])
@pytest.mark.parametrize(
    ("shares", "leaders"),
    [
        ([0.35, 0.35, 0.2, 0.1], ["o0", "o1"]),
        ([0.36, 0.34, 0.2, 0.1], ["o0"]),
        pytest.param([0.25] * 4, ["o0", "o1", "o2", "o3"], marks=pytest.mark.long),
    ],
)
def test_a_leader_is_named_wrongly_in_at_most_5_per_cent(
    shares: list[float], leaders: list[str], epsilon: str
) -> None:
    asked = question(epsilon, 4)
    cells = draw(asked, shares, 3_000, 5)
    assert false_leads(headlines(asked, cells, "every"), leaders) <= MAX_FALSE


def test_a_leader_by_estimates_alone_is_often_wrong() -> None:
    asked = question("4", 4)
    found = headlines(asked, draw(asked, [0.35, 0.35, 0.2, 0.1], 3_000, 5), "none")
    assert false_leads(found, ["o0", "o1"]) > 0.9


@pytest.mark.parametrize(
    ("kind", "is_sound"), [("every", True), pytest.param("like", False, marks=pytest.mark.long)]
)
def test_options_that_no_one_holds_are_rarely_called_above_zero(kind: str, is_sound: bool) -> None:
    """With 30 options of which 28 are empty, single intervals would call some of them clear."""
    asked = question("4", 30)
    cells = draw(asked, [0.6, 0.4] + [0.0] * 28, 3_000, 6)
    found = headlines(asked, cells, kind)
    false = sum(not headline.startswith("2 of 30 options") for headline in found) / DRAWS
    assert (false <= MAX_FALSE) is is_sound


@pytest.mark.parametrize(
    "epsilon", ["1", *(pytest.param(more, marks=pytest.mark.long) for more in ("0.5", "4"))]
)
@pytest.mark.parametrize("is_the_same", [True, False])
def test_an_unchanged_share_is_rarely_called_higher_or_lower(
    epsilon: str, is_the_same: bool
) -> None:
    """The same people give the same answers in two rounds, or other people with the same share do.

    Twin: the difference of two estimates, without a margin.
    """
    asked = Bit("it", RandomizedResponse(Epsilon(epsilon)))
    keep, lie = asked.mechanism.keep / ONE, asked.mechanism.lie / ONE
    rng, people = np.random.default_rng(10), 2_000
    held = rng.binomial(people, 0.3, DRAWS)
    again = held if is_the_same else rng.binomial(people, 0.3, DRAWS)
    sides = []
    for holders in (again, held):
        counts = rng.binomial(holders, keep) + rng.binomial(people - holders, lie)
        cells, reports = np.stack([people - counts, counts], axis=1), np.full(DRAWS, people)
        like = counted(asked, cells, reports).like(halved(CONFIDENCE))
        sides.append(Side(statements(asked, cells, reports), like, None))
    made = differences(sides[0], sides[1])
    for (low, high), is_sound in ((made.like, True), ((made.estimate, made.estimate), False)):
        ends = zip(low[:, 0].tolist(), high[:, 0].tolist(), strict=True)
        rows = zip(made.estimate[:, 0].tolist(), ends, strict=True)
        said = [
            change(Figures("", d, *ends, None, None, d, STYLES["share"], " points", 1), "May")
            for d, ends in rows
        ]
        false = sum(not words.startswith("No clear change since May") for words in said) / DRAWS
        assert (false <= MAX_FALSE) is is_sound


@pytest.mark.parametrize(("compared", "is_sound"), [(8, True), (1, False)])
def test_equal_arms_are_rarely_called_different(compared: int, is_sound: bool) -> None:
    """Three arms and four options: 8 differences, whose intervals must hold jointly."""
    asked = question("2", 4)
    arms = [
        counted(asked, draw(asked, [0.4, 0.3, 0.2, 0.1], 2_000, seed), np.full(DRAWS, 2_000)).group(
            joint_confidence(compared, 0.95)
        )
        for seed in (7, 8, 9)
    ]
    clear = np.zeros(DRAWS, bool)
    for arm in arms[1:]:
        confidence = joint_confidence(compared, 0.95)
        low, high = disjoint(arm, arms[0], looks=False, confidence=confidence)[1]
        clear |= ((low > 0) | (high < 0)).any(-1)
    assert bool(clear.mean() <= MAX_FALSE) is is_sound
