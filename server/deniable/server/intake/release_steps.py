"""Steps in which readers see the counts of a round that still accepts reports.

A reader who polled exact counts would see each report. So the store keeps *released* counts. To
release counts, the server copies a part of a round's tally at some moment, a *boundary*: either the
round's counts, or those of some values of one label. With a survey's `step`:

- At least `step` reports arrive before the first boundary, and between any two.
- The round's counts are released when `step` more reports have arrived after their boundary.
- A value's counts are released if its own reports have grown by `step` since they were last
  released, and by `step` more after the boundary. A rare value delays nothing but itself. Arms are
  released together, because they are compared.

If each install is asked one question, only a question's own reports change its counts. So each
question must have `step` more reports, wherever others must have them in total.

Proof that no one can compute the counts of fewer reports: each released count is a sum over
reports, by slot (the time between two boundaries) and label values. A combination of such sums
counts a set of reports only if it is 0 or 1 in each slot for each combination of values. Between
two slots, it changes by a constant (the round's counts) or by a function of one label.

- If the set contains all reports of a slot, it contains at least `step`.
- Otherwise it contains, in each slot, the reports that have some values of one label: a change from
  one label to another would need a slot without reports of the set. Each value enters and leaves
  the set at boundaries that released it. Between them, its reports grew by `step`.

The complete counts of a final round are one more release, at least `step` reports after the last
boundary. They also reveal how many reports each value has in the whole round; results fold values
with few into "other". A value that the store folds (`label_counts`) moves its reports into OTHER.
Because enough reports followed both when they were released, OTHER then gains at least `step` too.

Two limits: someone who knows that one label's value implies another's can subtract the two, as in
any table; and reports that an attacker knows, or forges, can fill a step.

Waiting copies exist only in the memory of the node that made them. So on disk, released counts
always differ from the tally by `step` reports or more. After a restart, the next step comes later.
"""

from __future__ import annotations

import numpy as np

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

BOUNDARY = "boundary"  # the part with the numbers of reports at the newest boundary
MAX_COPY_BYTES = 32 * 2**20  # of all copies together; a round without its copies is delayed
MIN_ROUND_BYTES = 2**10  # memory of a round without copies
NO_CELLS: Cells = np.zeros(0, np.int64)


class Steps:
    """Steps of all rounds that this node counts. Only one thread may use it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rounds = dict[Round, RoundSteps]()

    def advance(self, published: PublishedSurvey, number: int) -> None:
        """Release the counts that a round's reports permit; on failure, drop its copies."""
        of = published.sequence, number
        steps = self._rounds.pop(of, None) or RoundSteps(published.survey)
        self._store.release(*of, steps.advance)
        self._rounds[of] = steps
        while len(self._rounds) > 1 and sum(s.size for s in self._rounds.values()) > MAX_COPY_BYTES:
            del self._rounds[next(iter(self._rounds))]


class RoundSteps:
    """Copies of one round that wait until enough reports have followed."""

    def __init__(self, survey: Survey) -> None:
        self.survey = survey
        self.total: RoundTally | None = None
        self.values = dict[LabelValue, Cells]()
        self.separate = frozenset[LabelValue]()  # the values that were not folded last time
        self.turns = [TOTAL, *map(str, range(len(survey.labels)))]  # the first may copy next

    @property
    def size(self) -> int:
        copies = [*self.values.values(), *([self.total.cells] if self.total else [])]
        return MIN_ROUND_BYTES + sum(counts.nbytes for counts in copies)

    def advance(self, counted: RoundTally, released: Released) -> Released:
        """Return the parts to replace, given a tally and all released parts."""
        for value in self.separate - counted.labels.keys():
            self.values.pop(value, None)
            self.values.pop((value[0], OTHER), None)  # this copy lacks the folded value's reports
        self.separate = frozenset(counted.labels)
        changed = self._followed(counted, released)
        if self._has_grown(_counts(counted), _counts(released.get(BOUNDARY))):
            for part in [*self.turns]:
                if self._copy(part, counted, {**released, **changed}):
                    self.turns.remove(part)
                    self.turns.append(part)
                    cells = counted.cells if self.survey.asks_one else NO_CELLS
                    changed[BOUNDARY] = RoundTally(counted.round, counted.reports, cells)
                    break
        return changed

    def _followed(self, counted: RoundTally, released: Released) -> dict[str, RoundTally]:
        """Remove the copies that enough reports followed; return the parts that they change."""
        changed, total = dict[str, RoundTally](), self.total
        if total and self._has_grown(_counts(counted), _counts(total)):
            self.total = None
            if self._has_grown(_counts(total), _counts(released.get(TOTAL))):
                changed[TOTAL] = total
        for label in range(len(self.survey.labels)):
            waiting = {key: copy for key, copy in self.values.items() if key[0] == label}
            ready = {k for k, copy in waiting.items() if self._has_grown(counted.labels[k], copy)}
            if ready and ready >= self._arms(label) & waiting.keys():
                after = LabelCounts(_values(label, released), counted.labels.key)
                for key in ready:
                    self._replace(key, after)
                changed[str(label)] = RoundTally(counted.round, 0, NO_CELLS, after)
        return changed

    def _replace(self, key: LabelValue, released: LabelCounts) -> None:
        """Replace a value's counts by its copy, unless another node has released later ones."""
        copy = self.values.pop(key)
        if self._has_grown(copy, released.get(key)):
            released[key] = copy
            for folded in released.keys() - self.separate if key[1] == OTHER else ():
                del released[folded]

    def _copy(self, part: str, counted: RoundTally, released: Released) -> bool:
        """Copy the counts of a part that have grown enough, and return whether there are any."""
        if part == TOTAL:
            is_free = self.total is None
            self.total = self.total or RoundTally(counted.round, counted.reports, counted.cells)
            return is_free
        label, before = int(part), _values(int(part), released)
        grown = {
            key
            for key, counts in counted.labels.items()
            if key[0] == label
            and key not in self.values
            and self._has_grown(counts, before.get(key))
        }
        arms = self._arms(label)
        grown -= set() if grown >= arms else arms
        self.values |= {key: counted.labels[key] for key in grown}
        return bool(grown)

    def _has_grown(self, counts: Cells, before: Cells | None) -> bool:
        """Return whether `step` reports are new: of each question, if a report answers only one."""
        own = slice(-len(self.survey.questions), None) if self.survey.asks_one else slice(1)
        return bool(
            (counts[own] >= (0 if before is None else before[own]) + self.survey.step).all()
        )

    def _arms(self, label: int) -> set[LabelValue]:
        return {(label, bytes([n])) for n in range(len(self.survey.labels[label].arms))}


def _values(label: int, released: Released) -> LabelCounts:
    return released[str(label)].labels if str(label) in released else LabelCounts()


def _counts(tally: RoundTally | None) -> Cells:
    """Return a round's counts in the form of a label value's: reports, then cells."""
    return np.zeros(1, np.int64) if tally is None else np.append(tally.reports, tally.cells)
