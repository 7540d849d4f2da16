"""All that a round's counts say of a question: its estimates, and three intervals around each.

    like     about people like these: drawn at random, and so is the noise
    these    about these very people: they are fixed, and only the noise is drawn; narrower
    every    about people like these, and all of a question's labels at once: for whoever picks
             labels by their estimates

An interval of `every` has a confidence of 1 - (1 - confidence) / labels (Bonferroni), so all of
them hold at once in 95 % of cases, whatever is picked. With one label it is that of `like`. The
`floor` is the least estimate whose interval of `every` is above 0: what is below it is not told
from an option that nobody holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

import numpy as np
import numpy.typing as npt

from deniable.server.estimation import fixed_numbers, fixed_people, means, repeated_looks, vectors
from deniable.server.estimation import shares as share_estimates
from deniable.server.estimation.clopper_pearson import limits as rate_limits
from deniable.server.estimation.estimate import CONFIDENCE
from deniable.server.estimation.supports import supports
from deniable.shared.privacy.shapes.support import SupportDesign
from deniable.shared.privacy.thresholds import ONE
from deniable.shared.survey.questions import Bit, Choice, Number, Question, Text, Vector

Array = npt.NDArray[np.float64]
Cells = npt.NDArray[np.int64]
Interval = tuple[Array, Array]

AT_A_TIME = 50  # counts that are tried, to find the least that is told from none


@dataclass(frozen=True)
class Statements:
    """One number for each label in each array."""

    estimate: Array
    standard_error: Array
    consistent: Array
    like: Interval
    these: Interval
    every: Interval
    floor: float | None
    noise: Array  # the variance of an estimate about these people, at the most
    step: float  # what half a report moves it

    def of(self, places: list[int]) -> Statements:
        """Of some labels only."""
        like, these, every = (
            (low[places], high[places]) for low, high in (self.like, self.these, self.every)
        )
        return Statements(
            self.estimate[places],
            self.standard_error[places],
            self.consistent[places],
            like,
            these,
            every,
            self.floor,
            self.noise[places],
            self.step,
        )


def statements(
    question: Question,
    cells: Cells,
    reports: int,
    confidence: float = CONFIDENCE,
    looks: bool = False,
) -> Statements:
    """From at least one report. `looks` where its intervals are to hold at every look at once."""
    match question:
        case Number():
            return _of_mean(question, cells, confidence, looks)
        case Bit() | Choice():
            counts = supports(question.mechanism, cells)[question.first_label :]
            return _of_shares(counts, reports, question.mechanism, confidence, looks)
        case Vector():
            return _of_vector(question, cells, reports, confidence, looks)
        case Text():
            raise TypeError("what is found of a text has no labels beforehand: texts.found")
        case _:
            assert_never(question)


def at_once(labels: int, confidence: float) -> float:
    """The confidence of each, so that all hold at once with this one."""
    return 1 - (1 - confidence) / labels


def _of_mean(question: Number, cells: Cells, confidence: float, looks: bool) -> Statements:
    found, table = means.mean(cells, question, confidence), question.mechanism
    counts = cells.astype(np.float64)
    low, span = float(question.low), question.span
    like = np.array([found.low]), np.array([found.high])
    if looks:
        like = _scaled(repeated_looks.mean(table, counts, confidence), low, span)
        these = repeated_looks.mean_of_these(table, counts, confidence)
    else:
        these = fixed_numbers.limits(table, counts, confidence)
    return Statements(
        estimate=np.array([found.estimate]),
        standard_error=np.array([found.standard_error]),
        consistent=np.array([found.consistent]),
        like=like,
        these=_scaled(these, low, span),
        every=like,
        floor=None,
        noise=np.array([span**2 * fixed_numbers.noise(table, counts)]),
        step=span * fixed_numbers.step(table, found.reports),
    )


def _scaled(places: tuple[float, float], low: float, span: float) -> Interval:
    """From positions to the question's own units."""
    first, last = places
    return np.array([low + span * first]), np.array([low + span * last])


def _of_shares(
    counts: Cells, reports: int, design: SupportDesign, confidence: float, looks: bool
) -> Statements:
    """Of each different count once: a choice may have 65,536 options."""
    some, where = np.unique(counts, return_inverse=True)
    found = share_estimates.shares(some, reports, design, confidence)
    joint = at_once(len(counts), confidence)
    like, every = (found.low, found.high), _like(some, reports, design, joint, looks)
    if looks:
        like = _like(some, reports, design, confidence, looks)
    these = (repeated_looks.holders if looks else fixed_people.limits)(
        some, reports, design, confidence
    )
    return Statements(
        estimate=found.estimate[where],
        standard_error=found.standard_error[where],
        consistent=share_estimates.possible(found.estimate[where]),
        like=_each(like, where),
        these=_each(these, where),
        every=_each(every, where),
        floor=_floor(reports, design, joint, looks) if len(counts) > 1 else None,
        noise=fixed_people.noise(these, reports, design)[where],
        step=ONE / (2 * reports * (design.keep - design.lie)),
    )


def _each(interval: Interval, where: npt.NDArray[np.intp]) -> Interval:
    low, high = interval
    return low[where], high[where]


def _of_vector(
    question: Vector, cells: Cells, reports: int, confidence: float, looks: bool
) -> Statements:
    """What is said of people like these holds of these, too: the noise alone is less."""
    found = vectors.coordinates(cells, reports, question.mechanism)
    alone, joint = (
        found.within(vectors.deviations(reports, level, looks=looks))
        for level in (confidence, at_once(len(question.labels), confidence))
    )
    return Statements(
        estimate=found.estimate,
        standard_error=found.standard_error,
        consistent=found.possible,
        like=alone,
        these=alone,
        every=joint,
        floor=None,
        noise=found.standard_error**2,
        step=1 / (2 * reports * question.mechanism.gain),
    )


def _like(
    counts: Cells, reports: int, design: SupportDesign, confidence: float, looks: bool
) -> Interval:
    low, high = (repeated_looks.rates if looks else rate_limits)(counts, reports, confidence)
    unbiased = share_estimates.unbiased_share
    return unbiased(low, design), unbiased(high, design)


def _floor(reports: int, design: SupportDesign, confidence: float, looks: bool) -> float | None:
    """None where no number of reports would do."""

    first, last = 0, reports + 1
    while first < last:
        counts = np.unique(np.linspace(first, last - 1, AT_A_TIME).astype(np.int64))
        told = _like(counts, reports, design, confidence, looks)[0] > 0
        if told.any():
            last = int(counts[told.argmax()])
        first = int(counts[~told].max(initial=first - 1)) + 1
    if first > reports:
        return None
    return float(share_estimates.unbiased_share(np.array([first / reports]), design)[0])
