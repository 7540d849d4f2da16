"""Steps: nobody can compute the counts of fewer reports than a step from what is released.

The tests enumerate all short histories of reports, and for each all sets of reports whose counts
follow from the released ones by adding and subtracting.
"""

from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest

from deniable.server.intake.release_steps import BOUNDARY, RoundSteps
from deniable.server.store import OTHER, LabelCounts, RoundTally
from deniable.server.store.label_counts import KEY_BYTES, LabelValue, added
from deniable.server.store.records import TOTAL, Released
from tests import survey_texts as texts
from tests.server.surveys import BIT, DECEMBER, survey

STEP = 2
Report = tuple[bytes, ...]  # the value of each label
Sum = frozenset[tuple[int, Report]]  # reports by slot, numbered from 0, and values
Matrix = npt.NDArray[np.int64]

LISTED = texts.label("platform", values=["linux", "mac"])
ARMS = texts.label("search", arms=["old", "new"])
VENDOR = texts.label("vendor", values=["one", "other"])
OPEN = texts.label("version", pattern=r"\d")
VALUES = b"\0", b"\1"
CASES: dict[str, tuple[str, list[Report], int]] = {
    "no label": (BIT, [()], 11),
    "a listed label": (BIT + LISTED, [(value,) for value in (*VALUES, OTHER)], 9),
    "arms": (BIT + ARMS, [(value,) for value in VALUES], 11),
    "two labels": (BIT + LISTED + VENDOR, [*product(VALUES, VALUES)], 8),
    "an open set that folds": (BIT + OPEN, [(b"1",), (b"2",), (b"3",)], 9),
}


def counted(report: Report, limit: int, before: RoundTally | None) -> RoundTally:
    """Add a report to a tally, of which `limit` values of each label stay separate."""
    labels = LabelCounts(key=bytes(KEY_BYTES))
    for number, value in enumerate(report):
        labels[number, value] = np.array([1, 1])
    if before is None:
        return RoundTally(DECEMBER, 1, np.array([1]), added(LabelCounts(), labels, limit))
    labels = added(before.labels, labels, limit)
    return RoundTally(DECEMBER, before.reports + 1, before.cells + 1, labels)


def sum_of(part: str | LabelValue, labels: LabelCounts, reports: list[Report], slots: int) -> Sum:
    """Return the reports, by slot and values, that are counted in a tally or in one value of it."""
    if isinstance(part, str):
        return frozenset(product(range(slots), reports))
    label, value = part
    kept = [r for r in reports if ((label, r[label]) in labels or value == OTHER)]
    kept = [r for r in kept if (r[label] if (label, r[label]) in labels else OTHER) == value]
    return frozenset(product(range(slots), kept))


def copied(steps: RoundSteps) -> RoundSteps:
    new = RoundSteps(steps.survey)
    new.total, new.values, new.turns = steps.total, dict(steps.values), list(steps.turns)
    return new


@cache
def computable(known: frozenset[Sum], atoms: tuple[tuple[int, Report], ...]) -> Matrix:
    """Return every set of atoms that is a linear combination of the known sums, as rows of 0, 1."""
    sums = np.array([[atom in one for atom in atoms] for one in known], float)
    _, sizes, basis = np.linalg.svd(sums)
    others = basis[np.count_nonzero(sizes > 1e-9) :]  # orthogonal to all combinations
    subsets = (np.arange(1, 2 ** len(atoms))[:, None] >> np.arange(len(atoms))) & 1
    return np.asarray(subsets[(np.abs(subsets @ others.T) < 1e-6).all(axis=1)])


@cache
def few_reports(known: frozenset[Sum], held: frozenset[tuple[tuple[int, Report], int]]) -> Matrix:
    """Return the computable sets of 1 to STEP - 1 reports."""
    atoms = tuple(sorted(frozenset[tuple[int, Report]]().union(*known)))
    sets, counts = computable(known, atoms), dict(held)
    sizes = sets @ np.array([counts.get(atom, 0) for atom in atoms])
    return np.asarray(sets[(sizes > 0) & (sizes < STEP)])


def by_slot(
    history: list[Report], boundaries: list[int]
) -> frozenset[tuple[tuple[int, Report], int]]:
    """Return the number of reports in each slot, by their values."""
    slots = np.searchsorted(boundaries, np.arange(len(history)), side="right").tolist()
    return frozenset(Counter(zip(slots, history, strict=True)).items())


@pytest.mark.parametrize("case", CASES)
def test_no_computable_set_has_fewer_reports_than_a_step(case: str) -> None:
    """Only the complete counts of a final round reveal fewer, and then of the whole round."""
    questions, reports, length = CASES[case]
    asked = replace(survey(questions), step=STEP)
    limit = 2 if "open" in case else 1_000
    seen = Counter[str]()

    def explore(
        history: list[Report],
        tally: RoundTally | None,
        steps: RoundSteps,
        released: Released,
        boundaries: list[int],
        waiting: dict[str | LabelValue, Sum],
        known: frozenset[Sum],
    ) -> None:
        """Check a history, and continue it by each possible report."""
        held = by_slot(history, boundaries)
        assert not known or not few_reports(known, held).size, history
        if tally is not None:
            slots = len(boundaries) + (boundaries[-1:] != [len(history)])
            complete = (sum_of(key, tally.labels, reports, slots) for key in [TOTAL, *tally.labels])
            few = few_reports(known.union(complete), held).reshape(-1, slots, len(reports))
            assert (few == few[:, :1]).all(), history
        for report in reports if len(history) < length else ():
            after, kept = counted(report, limit, tally), copied(steps)
            changed = kept.advance(after, released)
            new = known
            for part, values in changed.items():
                before = released[part].labels if part in released else LabelCounts()
                keys = [key for key in values.labels if before.get(key) is not values.labels[key]]
                new = new.union(waiting[key] for key in ([part] if part == TOTAL else keys))
                seen[part] += part == TOTAL or bool(keys)
            ends, sums = boundaries, waiting
            if BOUNDARY in changed:
                ends = [*boundaries, after.reports]
                fresh = [k for k, v in kept.values.items() if v is not steps.values.get(k)]
                names: list[str | LabelValue] = [*fresh]
                names += [TOTAL] if kept.total is not steps.total else []
                sums = waiting | {n: sum_of(n, after.labels, reports, len(ends)) for n in names}
            explore([*history, report], after, kept, {**released, **changed}, ends, sums, new)

    explore([], None, RoundSteps(asked), {}, [], {}, frozenset())
    assert seen.keys() >= {TOTAL, *map(str, range(len(asked.labels)))}, "each is released"
