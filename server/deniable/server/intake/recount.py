"""Comparison of every tally with the envelopes that it counts, while they are kept.

A round is recounted only while none of its envelopes can have been purged. An intact tally that
counts more reports than are kept stays unchanged: envelopes were lost, not counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Literal, NamedTuple

from deniable.server.intake.tally import joined, round_tally
from deniable.server.intake.upkeep import purged_from
from deniable.server.store import Damaged, PublishedSurvey, RoundTally
from deniable.server.store.records import TallyRow, is_whole, read_tally, row_of
from deniable.server.store.sqlite.inspection import Inspection
from deniable.shared.errors import InvalidEnvelope

BYTES_PER_STEP = 2**20  # payloads of this size are counted together

Verdict = Literal[
    "equal", "sealed", "wrong", "missing", "damaged", "damaged-for-good", "envelopes-lost",
    "envelopes-damaged", "unknown-survey",
]  # fmt: skip
REPAIRABLE = frozenset[Verdict]({"wrong", "missing", "damaged"})


class Compared(NamedTuple):
    """Round with its verdict, and the counts of its envelopes if they can be counted."""

    survey: int
    name: str
    round: int
    verdict: Verdict
    recount: RoundTally | None


def compare(
    inspection: Inspection, surveys: Mapping[int, PublishedSurvey], now: datetime
) -> Iterator[Compared]:
    """Compare every round that has a tally or envelopes."""
    kept = {(row.survey, row.round): row for row in inspection.tallies()}
    for sequence, number in sorted(kept.keys() | set(inspection.rounds())):
        published, before = surveys.get(sequence), kept.get((sequence, number))
        if published is None:
            yield Compared(sequence, f"survey {sequence}", number, "unknown-survey", None)
            continue
        may_be_gone = purged_from(published, number) <= now or (before and before.sealed)
        if may_be_gone:
            verdict: Verdict = "sealed" if before and is_whole(before) else "damaged-for-good"
            yield Compared(sequence, published.name, number, verdict, None)
            continue
        recount = _recount(inspection, published, number)
        yield Compared(sequence, published.name, number, _verdict(before, recount), recount)


def _verdict(before: TallyRow | None, recount: RoundTally | None) -> Verdict:
    if recount is None:
        return "envelopes-damaged"
    if before is None:
        return "missing"
    if (counts := read_tally(before)) is None:
        return "damaged"
    if counts.reports > recount.reports:
        return "envelopes-lost"
    return "equal" if before == row_of(before.survey, before.node, recount) else "wrong"


def _recount(inspection: Inspection, published: PublishedSurvey, number: int) -> RoundTally | None:
    """Return the counts of a round's envelopes, or None if they are damaged."""
    try:
        envelopes = inspection.envelopes(published.sequence, number)
        parts = joined(envelopes, BYTES_PER_STEP)
        return round_tally(published.survey, number, parts, published.label_key)
    except (Damaged, InvalidEnvelope):
        return None
