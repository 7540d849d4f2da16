"""Recount of an archive, part by part, on any machine, with the server's own functions.

A recount returns complete rounds or nothing. If a part differs from what was written, all other
parts are still checked, and then an error names the faulty ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from deniable.server.archive.manifest import ArchivedRound, Part, digest_of
from deniable.server.archive.round_files import payloads
from deniable.server.intake.tally import empty_cells, round_tally
from deniable.server.parallel import map_merge
from deniable.server.store import RoundTally
from deniable.shared.errors import InvalidEnvelope, Refused, quantity
from deniable.shared.survey.document import Survey, parse_document

MAX_NAMED_FAULTS = 5

Totals = dict[tuple[str, int], RoundTally]  # by folder and round


class Fold(NamedTuple):
    """Counts of one part, or the fault that prevents counting it."""

    part: Part
    tally: RoundTally | None
    fault: str = ""


def fold_part(part: Part) -> Fold:
    try:
        content = _content(part)
        survey = _survey(part.document)
        parts = payloads(content, survey.report_size)
        tally = round_tally(survey, part.round, parts, part.label_key)
    except (InvalidEnvelope, OSError) as error:
        return Fold(part, None, str(error))
    if tally.reports != part.file.reports:
        fault = f"the part holds {quantity(tally.reports, 'report')}, not {part.file.reports:,}"
        return Fold(part, None, fault)
    return Fold(part, tally)


def recount(
    rounds: Sequence[ArchivedRound],
    where: str = "local",
    counted: Callable[[int], None] = lambda _parts: None,
    fold: Callable[[Part], Fold] = fold_part,
) -> dict[str, list[RoundTally]]:
    """Return the tallies of the rounds by survey; `counted` receives the number of parts done."""
    parts = [part for archived in rounds for part in archived.parts()]
    done, faults = 0, list[str]()

    def arrived(_: int, counts: Fold) -> None:
        nonlocal done
        done += 1
        counted(done)
        if counts.fault:
            faults.append(f"{counts.part.name}: {counts.fault}")

    total = map_merge(fold, parts, _add, Totals(), where, arrived)
    if faults:
        raise Refused(_message(sorted(faults)))
    return _checked(rounds, total)


def _add(total: Totals, counts: Fold) -> Totals:
    if (tally := counts.tally) is not None:
        key = (counts.part.folder, counts.part.round)
        total[key] = total[key] + tally if key in total else tally
    return total


def _checked(rounds: Sequence[ArchivedRound], total: Totals) -> dict[str, list[RoundTally]]:
    """Return the tallies by survey; raise Refused if a round differs from its manifest."""
    tallies: dict[str, list[RoundTally]] = {}
    for archived in rounds:
        number, survey = archived.manifest.round, archived.published.survey
        counts = total.get((str(archived.folder), number))
        counts = counts or RoundTally(number, 0, empty_cells(survey))
        if digest_of(counts) != archived.manifest.tally:
            raise Refused(
                f"round {number} of {archived.published.name} differs from its manifest: parts "
                f"are missing or swapped; use another copy of the archive"
            )
        tallies.setdefault(archived.published.id, []).append(counts)
    return tallies


def _content(part: Part) -> bytes:
    if part.path.stat().st_size != part.file.bytes:
        raise InvalidEnvelope("bad-payload", "the size differs from the manifest")
    content = part.path.read_bytes()
    if hashlib.sha256(content).hexdigest() != part.file.sha256:
        raise InvalidEnvelope("bad-payload", "the digest differs from the manifest")
    return content


@lru_cache(maxsize=4)
def _survey(document: bytes) -> Survey:
    """Parse a survey, and memoize it: parsing computes every probability."""
    return parse_document(document)


def _message(faults: Sequence[str]) -> str:
    named = "; ".join(faults[:MAX_NAMED_FAULTS])
    more = f"; and {len(faults) - MAX_NAMED_FAULTS} more" if len(faults) > MAX_NAMED_FAULTS else ""
    differ = quantity(len(faults), "part differs", "parts differ")
    return (
        f"{differ} from what was written, so nothing was counted: {named}{more}. "
        "Use another copy of the archive"
    )
