"""Comparison of every tally with the envelopes that it counts, while they are kept.

A round is counted again only before its envelopes may have begun to be deleted. A tally that is
whole and counts more than is kept stays as it is: then envelopes are lost, and not counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import numpy as np

from deniable.server.intake.tally import empty_cells, tally
from deniable.server.intake.upkeep import purged_from
from deniable.server.store import Damaged, Kept, PublishedSurvey, RoundTally
from deniable.server.store.sqlite.inspection import Inspection, KeptTally
from deniable.shared.errors import InvalidEnvelope

BYTES_AT_ONCE = 2**20  # bytes of payloads that are counted together

Verdict = Literal[
    "equal", "sealed", "wrong", "missing", "damaged", "damaged-for-good", "envelopes-lost",
    "envelopes-damaged", "unknown-survey",
]  # fmt: skip
CURABLE = frozenset[Verdict]({"wrong", "missing", "damaged"})


@dataclass(frozen=True)
class Compared:
    """A round, its verdict, and the counts of its envelopes where they can be counted."""

    survey: int
    name: str
    round: int
    verdict: Verdict
    recount: RoundTally | None


def compare(
    inspection: Inspection, surveys: Mapping[int, PublishedSurvey], now: datetime
) -> Iterator[Compared]:
    """Yield every round that has a tally or envelopes."""
    kept = {(each.survey, each.round): each for each in inspection.tallies()}
    for sequence, number in sorted(kept.keys() | set(inspection.rounds())):
        published, before = surveys.get(sequence), kept.get((sequence, number))
        if published is None:
            yield Compared(sequence, f"survey {sequence}", number, "unknown-survey", None)
            continue
        may_be_gone = purged_from(published, number) <= now or (before and before.sealed)
        if may_be_gone:
            whole = before is not None and before.counts is not None
            verdict: Verdict = "sealed" if whole else "damaged-for-good"
            yield Compared(sequence, published.name, number, verdict, None)
            continue
        recount = _recount(inspection, published, number)
        yield Compared(sequence, published.name, number, _verdict(before, recount), recount)


def _verdict(before: KeptTally | None, recount: RoundTally | None) -> Verdict:
    if recount is None:
        return "envelopes-damaged"
    if before is None:
        return "missing"
    if before.counts is None:
        return "damaged"
    if before.counts.reports > recount.reports:
        return "envelopes-lost"
    same = before.counts.reports == recount.reports and np.array_equal(
        before.counts.cells, recount.cells
    )
    return "equal" if same else "wrong"


def _recount(inspection: Inspection, published: PublishedSurvey, number: int) -> RoundTally | None:
    """Return the counts of a round's envelopes; None if they are not what was written."""
    cells, reports = empty_cells(published.survey), 0
    try:
        for payload, count in _joined(inspection.envelopes(published.sequence, number)):
            cells += tally(published.survey, payload, count)
            reports += count
    except (Damaged, InvalidEnvelope):
        return None
    return RoundTally(number, reports, cells)


def _joined(envelopes: Iterable[Kept]) -> Iterator[tuple[bytes, int]]:
    """Yield payloads joined together, and how many reports they hold."""
    parts, count, size = list[bytes](), 0, 0
    for each in envelopes:
        parts.append(each.payload)
        count, size = count + each.reports, size + len(each.payload)
        if size >= BYTES_AT_ONCE:
            yield b"".join(parts), count
            parts, count, size = [], 0, 0
    if parts:
        yield b"".join(parts), count
