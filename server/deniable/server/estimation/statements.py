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

from bisect import bisect_left
from dataclasses import dataclass
from typing import assert_never

import numpy as np
import numpy.typing as npt

from deniable.server.estimation import fixed_numbers, fixed_people, means
from deniable.server.estimation import shares as share_estimates
from deniable.server.estimation.clopper_pearson import limits as rate_limits
from deniable.server.estimation.estimate import CONFIDENCE
from deniable.shared.privacy.shapes.support import SupportDesign
from deniable.shared.survey.questions import Bit, Choice, Number, Question

Array = npt.NDArray[np.float64]
Cells = npt.NDArray[np.int64]
Interval = tuple[Array, Array]


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


def statements(
    question: Question, cells: Cells, reports: int, confidence: float = CONFIDENCE
) -> Statements:
    """From at least one report."""
    match question:
        case Number():
            return _of_mean(question, cells, confidence)
        case Bit() | Choice():
            counts = cells[question.first_label :]
            return _of_shares(counts, reports, question.mechanism, confidence)
        case _:
            assert_never(question)


def at_once(labels: int, confidence: float) -> float:
    """The confidence of each, so that all hold at once with this one."""
    return 1 - (1 - confidence) / labels


def _of_mean(question: Number, cells: Cells, confidence: float) -> Statements:
    found = means.mean(cells, question, confidence)
    low_end, span = float(question.low), float(question.span)
    place = (found.estimate - low_end) / span
    ends = fixed_numbers.limits(question.mechanism, found.reports, place, confidence)
    like = np.array([found.low]), np.array([found.high])
    return Statements(
        estimate=np.array([found.estimate]),
        standard_error=np.array([found.standard_error]),
        consistent=np.array([found.consistent]),
        like=like,
        these=(np.array([low_end + span * ends[0]]), np.array([low_end + span * ends[1]])),
        every=like,
        floor=None,
    )


def _of_shares(counts: Cells, reports: int, design: SupportDesign, confidence: float) -> Statements:
    found = share_estimates.shares(counts, reports, design, confidence)
    joint = at_once(len(counts), confidence)
    low, high = rate_limits(counts, reports, joint)
    return Statements(
        estimate=found.estimate,
        standard_error=found.standard_error,
        consistent=found.consistent,
        like=(found.low, found.high),
        these=fixed_people.limits(counts, reports, design, confidence),
        every=(
            share_estimates.unbiased_share(low, design),
            share_estimates.unbiased_share(high, design),
        ),
        floor=_floor(reports, design, joint) if len(counts) > 1 else None,
    )


def _floor(reports: int, design: SupportDesign, confidence: float) -> float | None:
    """None where no number of reports would do."""

    def told_from_none(count: int) -> bool:
        low, _ = rate_limits(np.array([count]), reports, confidence)
        return bool(share_estimates.unbiased_share(low, design)[0] > 0)

    least = bisect_left(range(reports + 1), True, key=told_from_none)
    if least > reports:
        return None
    return float(share_estimates.unbiased_share(np.array([least / reports]), design)[0])
