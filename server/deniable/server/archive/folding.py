"""Counting an archive again: each part by itself, anywhere, by the functions that the server uses.

A part that is not what was written is named, once all others are counted, and then nothing is said
of its round: a recount gives all of it or none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from deniable.server.archive.layout import ArchivedRound, Part, digest_of
from deniable.server.archive.parquet import payloads
from deniable.server.intake.tally import empty_cells, tally
from deniable.server.store import Cells, RoundTally
from deniable.server.work.map_merge import map_merge
from deniable.shared.errors import InvalidEnvelope, Refused
from deniable.shared.survey.document import Survey, parse_document

NAMED = 5  # of several parts that are not whole

Totals = dict[tuple[str, int], RoundTally]  # by folder and round


class Fold(NamedTuple):
    """What one part comes to; or why it cannot be counted."""

    part: Part
    reports: int
    cells: Cells | None
    fault: str = ""


def fold_part(part: Part) -> Fold:
    try:
        content = _content(part)
        survey = _survey(part.document)
        reports, cells = 0, empty_cells(survey)
        for payload, count in payloads(content, survey.report_size):
            cells += tally(survey, payload, count)
            reports += count
    except (InvalidEnvelope, OSError) as error:
        return Fold(part, 0, None, str(error))
    if reports != part.file.reports:
        return Fold(part, 0, None, f"it holds {reports:,} reports, not {part.file.reports:,}")
    return Fold(part, reports, cells)


def recount(
    rounds: Sequence[ArchivedRound],
    where: str = "local",
    counted: Callable[[int], None] = lambda _parts: None,
    fold: Callable[[Part], Fold] = fold_part,
) -> dict[str, list[RoundTally]]:
    """The tallies of every round, by survey. `counted` is called with how many parts are done."""
    parts = [part for each in rounds for part in each.parts()]
    done, faults = 0, list[str]()

    def arrived(_: int, found: Fold) -> None:
        nonlocal done
        done += 1
        counted(done)
        if found.fault:
            faults.append(f"{found.part.name}: {found.fault}")

    total = map_merge(fold, parts, _add, Totals(), where, arrived)
    if faults:
        raise Refused(_said(sorted(faults)))
    return _checked(rounds, total)


def _add(total: Totals, found: Fold) -> Totals:
    if found.cells is not None:
        key = (found.part.folder, found.part.round)
        before = total.get(key, RoundTally(found.part.round, 0, 0 * found.cells))
        cells = before.cells + found.cells
        total[key] = RoundTally(before.round, before.reports + found.reports, cells)
    return total


def _checked(rounds: Sequence[ArchivedRound], total: Totals) -> dict[str, list[RoundTally]]:
    """Every round must come to what its manifest says."""
    tallies: dict[str, list[RoundTally]] = {}
    for each in rounds:
        number, survey = each.manifest.round, each.published.survey
        empty = RoundTally(number, 0, empty_cells(survey))
        found = total.get((str(each.folder), number), empty)
        if digest_of(found) != each.manifest.tally:
            raise Refused(
                f"round {number} of {each.published.name} does not come to what its manifest "
                "says: parts of it are missing or exchanged; use another copy of the archive"
            )
        tallies.setdefault(each.published.id, []).append(found)
    return tallies


def _content(part: Part) -> bytes:
    if part.path.stat().st_size != part.file.bytes:
        raise InvalidEnvelope("bad-payload", "its size is not what its manifest says")
    content = part.path.read_bytes()
    if hashlib.sha256(content).hexdigest() != part.file.sha256:
        raise InvalidEnvelope("bad-payload", "its digest is not what its manifest says")
    return content


@lru_cache(maxsize=4)
def _survey(document: bytes) -> Survey:
    """Once in each process: reading a document computes every probability."""
    return parse_document(document)


def _said(faults: Sequence[str]) -> str:
    named = "; ".join(faults[:NAMED])
    more = f"; and {len(faults) - NAMED} more" if len(faults) > NAMED else ""
    number = "1 part is" if len(faults) == 1 else f"{len(faults)} parts are"
    return (
        f"{number} not what was written, so nothing was counted: {named}{more}. "
        "Use another copy of them"
    )
