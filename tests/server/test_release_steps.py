"""Steps: no one can compute counts of fewer reports than a step from the released counts.

The tests enumerate all short histories of reports, and for each all sets of reports whose counts
follow from the released ones by adding and subtracting.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise, product

import numpy as np
import numpy.typing as npt
import pytest

from deniable.server.intake.release_steps import BOUNDARY, RoundSteps
from deniable.server.store import OTHER, LabelCounts, RoundTally
from deniable.server.store.label_counts import KEY_BYTES, LabelValue, added
from deniable.server.store.records import TOTAL, Released
from deniable.shared.survey.document import Survey
from tests import survey_texts as texts
from tests.server.surveys import BIT, DECEMBER, survey

STEP = 2
EMPTY = RoundTally(DECEMBER, 0, np.zeros(0, np.int64))
Report = tuple[bytes, ...]  # the value of each label and, if each answers one, its question
Sum = frozenset[tuple[int, Report]]  # reports by slot, numbered from 0, and values
Matrix = npt.NDArray[np.int64]

LISTED = texts.label("platform", values=["linux", "mac"])
ARMS = texts.label("search", arms=["old", "new"])
VENDOR = texts.label("vendor", values=["one", "other"])
OPEN = texts.label("version", pattern=r"\d")
VALUES = b"\0", b"\1"
CASES: dict[str, tuple[str, list[Report], int, int]] = {  # survey, reports, length, nodes
    "no label": (BIT, [()], 11, 1),
    "a listed label": (BIT + LISTED, [(value,) for value in (*VALUES, OTHER)], 8, 1),
    "arms": (BIT + ARMS, [(value,) for value in VALUES], 11, 1),
    "two labels": (BIT + LISTED + VENDOR, [*product(VALUES, VALUES)], 8, 1),
    "an open set that folds": (BIT + OPEN, [(b"1",), (b"2",), (b"3",)], 8, 1),
    "two nodes": (BIT + LISTED, [(VALUES[0],)], 11, 2),
    "one of two questions": (BIT + texts.bit("froze"), [(b"\0",), (b"\1",)], 13, 1),
    "one of two questions, and a label": (
        BIT + texts.bit("froze") + LISTED,
        [(VALUES[0], b"\0"), (VALUES[0], b"\1")],
        13,
        1,
    ),
}


def counted(asked: Survey, report: Report, limit: int, before: RoundTally | None) -> RoundTally:
    """Add a report to a tally, of which `limit` values of each label stay separate."""
    labels = LabelCounts(key=bytes(KEY_BYTES))
    cells = np.eye(2, dtype=np.int64)[report[-1][0]] if asked.asks_one else np.array([1])
    for number, value in enumerate(report[: len(asked.labels)]):
        labels[number, value] = np.array([1, *cells])
    if before is None:
        return RoundTally(DECEMBER, 1, cells, added(LabelCounts(), labels, limit))
    labels = added(before.labels, labels, limit)
    return RoundTally(DECEMBER, before.reports + 1, before.cells + cells, labels)


def by_question(asked: Survey, known: Iterable[Sum]) -> Iterator[Sum]:
    """Yield what each question counts of these sums, if each report answers one."""
    for one in known:
        for question in {report[-1] for _, report in one if asked.asks_one}:
            yield frozenset(atom for atom in one if atom[1][-1] == question)
        if not asked.asks_one:
            yield one


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
    new.separate = steps.separate
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


@dataclass(frozen=True)
class Node:
    """Steps of a node, and the reports that its waiting copies count."""

    steps: RoundSteps
    copies: dict[str | LabelValue, Sum]


@pytest.mark.parametrize("case", CASES)
def test_no_computable_set_has_fewer_reports_than_a_step(case: str) -> None:
    """Only the complete counts of a final round can reveal fewer: those of the whole round."""
    questions, reports, length, nodes = CASES[case]
    asked = replace(survey(questions), step=STEP, asks_one="one of two" in case)
    limit = 2 if "open" in case else 1_000
    seen = Counter[str]()

    def explore(
        history: list[Report],
        tally: RoundTally | None,
        servers: tuple[Node, ...],
        released: Released,
        boundaries: list[int],
        known: frozenset[Sum],
    ) -> None:
        """Check a history, and continue it by each possible report, which any node may count."""
        held = by_slot(history, boundaries)
        assert not known or not few_reports(known, held).size, history
        if tally is not None:
            slots = len(boundaries) + (boundaries[-1:] != [len(history)])
            complete = (sum_of(key, tally.labels, reports, slots) for key in [TOTAL, *tally.labels])
            few = few_reports(known.union(by_question(asked, complete)), held).reshape(
                -1, slots, len(reports)
            )
            assert (few == few[:, :1]).all(), history
        if len(history) == length:
            return
        firsts = 1 if case == "two labels" and not history else None  # by symmetry
        for report, node in product(reports[:firsts], servers):
            after, steps = counted(asked, report, limit, tally), copied(node.steps)
            changed, copies, ends, new = (
                steps.advance(after, released),
                node.copies,
                boundaries,
                known,
            )
            for part, values in changed.items():
                before = released[part].labels if part in released else LabelCounts()
                keys = {key for key in values.labels if before.get(key) is not values.labels[key]}
                assert all(values.labels[key][0] > before.get(key, [0])[0] for key in keys)
                assert part != TOTAL or values.reports > (released.get(TOTAL) or EMPTY).reports
                assert case != "arms" or part != "0" or keys == {(0, value) for value in VALUES}
                shown = [copies[key] for key in ([part] if part == TOTAL else keys)]
                new = new.union(by_question(asked, shown))
                seen[part] += part == TOTAL or bool(keys)
            if BOUNDARY in changed:
                ends = [*boundaries, after.reports]
                made: list[str | LabelValue] = (
                    [TOTAL] if steps.total is not node.steps.total else []
                )
                made += [k for k, v in steps.values.items() if v is not node.steps.values.get(k)]
                sums = {name: sum_of(name, after.labels, reports, len(ends)) for name in made}
                copies = copies | sums
            others = tuple(other for other in servers if other is not node)
            now = {**released, **changed}
            explore([*history, report], after, (Node(steps, copies), *others), now, ends, new)

    servers = tuple(Node(RoundSteps(asked), {}) for _ in range(nodes))
    explore([], None, servers, {}, [], frozenset())
    assert seen.keys() >= {TOTAL, *map(str, range(len(asked.labels)))}, "each is released"


def folded_tally(asked: Survey, **reports: int) -> RoundTally:
    """Return a tally with these values of the only label, and `other`."""
    labels = LabelCounts(key=bytes(KEY_BYTES))
    for name, count in reports.items():
        value = OTHER if name == "other" else name.encode()
        labels[0, value] = np.array([count, count])
    total = sum(reports.values())
    return RoundTally(DECEMBER, total, np.array([total]), labels)


def test_a_folded_value_is_shown_until_other_contains_it() -> None:
    """The value b is released, and then folded while a copy of OTHER waits."""
    asked, released = replace(survey(BIT + OPEN), step=STEP), dict[str, RoundTally]()
    steps, seen = RoundSteps(asked), list[dict[str, int]]()
    counts = [{"b": n, "other": m} for n, m in ((2, 0), (4, 0), (6, 0), (7, 2), (8, 3), (9, 3))]
    counts += [{"a": 2, "other": n} for n in (12, 13, 14, 15, 16, 17)]
    for reports in counts:
        released.update(steps.advance(folded_tally(asked, **reports), released))
        labels = released["0"].labels if "0" in released else {}
        seen.append({key[1].decode("latin-1"): int(n[0]) for key, n in labels.items()})
    folded = seen[6:]
    assert folded[0].keys() == {"b"}
    assert folded[-1].keys() == {"ÿ"}, "b is a part of OTHER"
    totals = [sum(values.values()) for values in seen]
    assert totals == sorted(totals)
    shown = [totals[0], *(after for before, after in pairwise(totals) if after > before)]
    assert all(after - before >= STEP for before, after in pairwise(shown))
