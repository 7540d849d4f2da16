"""Steps in which readers see the counts of a round that still accepts reports.

A reader who polled exact counts would see each report. So the store keeps *released* counts. To
release counts, the server copies some of a round's tally at a moment, a *boundary*: either the
round's counts, or those of some values of one label. With a survey's `step`:

- At least `step` reports arrive before the first boundary, and between any two.
- The round's counts are released when `step` more reports have arrived after their boundary.
- A value's counts are released if its own reports have grown by `step` since they were last
  released, and by `step` more after the boundary. A rare value delays nothing but itself. Arms are
  released together, because they are compared.

Why nobody can compute the counts of fewer reports. Each released count is a sum over reports, by
slot (the time between two boundaries) and label values. A combination of such sums counts a set of
reports only if it is 0 or 1 in each slot for each combination of values. Between two slots, it
changes by a constant (the round's counts) or by a function of one label.

- If the set contains all reports of a slot, it contains at least `step`.
- Otherwise it contains, in each slot, the reports that have some values of one label: a change from
  one label to another would need a slot without reports of the set. Each value enters and leaves
  the set at boundaries that released it. Between them, its reports grew by `step`.

The complete counts of a final round are one more release, at least `step` reports after the last
boundary. They also reveal how many reports each value has in the whole round; results fold values
with few into "other". A value that the store folds (`label_counts`) moves its reports into OTHER,
which then grows by what both gained.

Two limits: someone who knows that one label's value implies another's can subtract the two, as in
any table; and reports that an attacker knows, or forges, can fill a step.

Copies that wait are only in the memory of the node that made them. So on disk, released counts
always differ from the tally by `step` reports or more. After a restart, the next step is later.
"""

from __future__ import annotations

from dataclasses import dataclass

from deniable.server.store import (
    OTHER,
    Cells,
    LabelCounts,
    LabelValue,
    PublishedSurvey,
    RoundTally,
    Store,
)
from deniable.server.store.records import TOTAL, Released, Round
from deniable.shared.survey.document import Survey

BOUNDARY = "boundary"  # the part whose `reports` are the round's at the newest boundary
MAX_COPY_BYTES = 32 * 2**20  # of all copies together; a round without its copies is delayed


class Steps:
    """Steps of all rounds that this node counts. Only one thread may use it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rounds = dict[Round, RoundSteps]()

    def advance(self, published: PublishedSurvey, number: int) -> None:
        """Release what the reports of a round permit."""
        survey, of = published.survey, (published.sequence, number)
        steps = self._rounds.pop(of, None) or RoundSteps(survey)
        if self._store.report_count(*of) >= steps.due:
            self._store.release(*of, steps.advance)  # if it fails, the copies are dropped
        self._rounds[of] = steps
        while len(self._rounds) > 1 and sum(s.size for s in self._rounds.values()) > MAX_COPY_BYTES:
            del self._rounds[next(iter(self._rounds))]


class RoundSteps:
    """Copies of one round that wait until enough reports have followed."""

    def __init__(self, survey: Survey) -> None:
        self.survey, self.due = survey, survey.step  # nothing happens with fewer reports than `due`
        self.total: RoundTally | None = None
        self.values = dict[LabelValue, ValueCopy]()
        self.turns = [TOTAL, *map(str, range(len(survey.labels)))]  # the first may copy next

    @property
    def size(self) -> int:
        total = 0 if self.total is None else self.total.cells.nbytes
        return total + sum(copy.counts.nbytes for copy in self.values.values())

    def advance(self, counted: RoundTally, released: Released) -> Released:
        """Return the parts to replace, given a tally and all released parts."""
        separate = counted.labels.keys()  # a value that has since been folded spoils a copy
        self.values = {key: c for key, c in self.values.items() if c.separate <= separate}
        changed, step = self._followed(counted, released), self.survey.step
        self.due = counted.reports + step // 2
        if counted.reports >= _reports(released, BOUNDARY) + step:
            for part in [*self.turns]:
                if self._copy(part, counted, {**released, **changed}):
                    self.turns.remove(part)
                    self.turns.append(part)
                    empty = RoundTally(counted.round, counted.reports, counted.cells[:0])
                    return {**changed, BOUNDARY: empty}
        return changed

    def _followed(self, counted: RoundTally, released: Released) -> dict[str, RoundTally]:
        """Remove the copies that enough reports followed; return the parts that they change."""
        changed, step, total = dict[str, RoundTally](), self.survey.step, self.total
        if total and counted.reports >= total.reports + step:
            self.total = None
            if total.reports >= _reports(released, TOTAL) + step:
                changed[TOTAL] = total
        for label, definition in enumerate(self.survey.labels):
            part, arms = str(label), {(label, bytes([n])) for n in range(len(definition.arms))}
            before = released[part].labels if part in released else LabelCounts()
            ready = {
                key: self.values[key]
                for key in self.values
                if key[0] == label and self.values[key].is_followed(key, counted.labels, step)
            }
            if ready and ready.keys() >= arms & self.values.keys():
                after = LabelCounts(before, counted.labels.key)
                for key, copy in ready.items():
                    del self.values[key]
                    copy.replace(key, after, step)
                changed[part] = RoundTally(counted.round, 0, counted.cells[:0], after)
        return changed

    def _copy(self, part: str, counted: RoundTally, released: Released) -> bool:
        """Copy what has grown enough of a part, and return whether anything has."""
        if part == TOTAL:
            grown = self.total is None
            self.total = self.total or RoundTally(counted.round, counted.reports, counted.cells)
            return grown
        label, before = int(part), released[part].labels if part in released else LabelCounts()
        separate = frozenset(key for key in counted.labels if key[0] == label)
        arms = {(label, bytes([n])) for n in range(len(self.survey.labels[label].arms))}
        copies = {
            key: copy
            for key in separate - self.values.keys()
            if (copy := ValueCopy(counted.labels[key], separate)).has_grown(
                key, before, self.survey.step
            )
        }
        if arms and not copies.keys() >= arms:
            copies = {key: copy for key, copy in copies.items() if key not in arms}
        self.values |= copies
        return bool(copies)


@dataclass(frozen=True)
class ValueCopy:
    """Copied counts of a label's value, and the values that were separate from OTHER then."""

    counts: Cells
    separate: frozenset[LabelValue]

    def has_grown(self, key: LabelValue, released: LabelCounts, step: int) -> bool:
        """Return whether enough reports are in the copy that are not in the released counts."""
        known = [released[other] for other in released if other == key or self._folds(key, other)]
        return bool(self.counts[0] >= sum(int(counts[0]) for counts in known) + step)

    def is_followed(self, key: LabelValue, counted: LabelCounts, step: int) -> bool:
        """Return whether enough reports were counted after the copy."""
        return bool(counted[key][0] >= self.counts[0] + step)

    def replace(self, key: LabelValue, released: LabelCounts, step: int) -> None:
        """Replace a value's released counts, unless another node has released later ones."""
        if self.has_grown(key, released, step):
            for other in [other for other in released if self._folds(key, other)]:
                del released[other]
            released[key] = self.counts

    def _folds(self, key: LabelValue, other: LabelValue) -> bool:
        return key[1] == OTHER and other not in self.separate


def _reports(released: Released, part: str) -> int:
    return released[part].reports if part in released else 0
