"""`deniable archive` and `deniable recount`: rounds as files, and their results from the files."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from deniable.server.cli.place import add_place
from deniable.shared.cli.verb import Verb
from deniable.shared.errors import Refused

if TYPE_CHECKING:
    from deniable.server.results import Results
    from deniable.server.store import PublishedSurvey, RoundTally, Store

    Round = tuple[PublishedSurvey, RoundTally]

LOGGED = "somebody reads the store: until that ends, its files still hold what was deleted"


def archive_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "survey", nargs="?", metavar="SURVEY", help="a name, an id or its beginning (else all)"
    )
    add_place(parser)
    parser.add_argument("--to", type=Path, required=True, metavar="DIR", help="the archive")
    parser.add_argument("--round", type=int, metavar="N", help="only this round")
    parser.add_argument(
        "--purge", action="store_true",
        help="and delete these reports from the store, before their retention is over",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def recount_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("archive", type=Path, metavar="DIR", help="an archive, or a part of one")
    parser.add_argument(
        "--on",
        default="local",
        metavar="WHERE",
        help="local, pool, dask, or dask:ADDRESS of a scheduler (default %(default)s)",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON document")
    form.add_argument("--csv", action="store_true", help="print a table for other programs")


def run_archive(chosen: Namespace) -> int:
    from deniable.server.intake.recovery import open_recovered
    from deniable.server.intake.upkeep import purge_sealed

    with open_recovered(chosen.data) as store:
        done = [_archived(store, each, chosen) for each in _over(store, chosen)]
        if chosen.purge and done and not purge_sealed(store):
            print(LOGGED, file=sys.stderr)
    if chosen.json:
        print(json.dumps({"rounds": done}))
    elif not done:
        print("no round is over whose reports are kept: there is nothing to archive")
    else:
        gone = ", and deleted from the store" if chosen.purge else ""
        for each in done:
            print(
                f"round {each['round']} of {each['name']}: {each['reports']:,} reports in "
                f"{each['parts']} parts{gone}"
            )
    return 0


def run_recount(chosen: Namespace) -> int:
    import msgspec

    from deniable.server.results import csv_text
    from deniable.server.results.text import lines

    results = recounted(chosen.archive, chosen.on)
    if chosen.json:
        print(msgspec.json.encode({"surveys": results}).decode())
    elif chosen.csv:
        for each in results:
            sys.stdout.write(csv_text(each).replace("\r\n", "\n"))
    else:
        print("\n\n".join("\n".join(lines(each)) for each in results))
    return 0


def recounted(archive: Path, where: str) -> list[Results]:
    """What `deniable results` says of each survey, of the rounds that are archived."""
    from datetime import UTC, datetime

    import msgspec

    from deniable.server.archive import recount, rounds_of
    from deniable.server.parallel import progress
    from deniable.server.results import survey_results

    rounds = rounds_of(archive)
    parts = sum(len(each.manifest.parts) for each in rounds)
    with progress("recount", parts, "parts") as counted:
        tallies = recount(rounds, where, counted)
    published = {each.published.id: each.published for each in rounds}
    found: list[Results] = []
    for identifier, kept in tallies.items():
        results = survey_results(published[identifier], kept, datetime.now(UTC))
        numbers = {tally.round for tally in kept}
        only = tuple(each for each in results.rounds if each.round in numbers)
        found.append(msgspec.structs.replace(results, rounds=only))
    return found


def _over(store: Store, chosen: Namespace) -> list[Round]:
    """The rounds that take no more reports, and whose reports are kept."""
    from deniable.server.intake.calendar import Calendar
    from deniable.server.intake.upkeep import MARGIN
    from deniable.server.surveys.catalogue import Catalogue
    from deniable.server.surveys.clock import Clock

    catalogue, kept, clock = Catalogue(store), store.unsealed_rounds(), Clock()
    if doubt := Calendar(store, clock).doubt():
        raise Refused(f"{doubt}; nothing was archived")
    chosen_ones = [catalogue.find(chosen.survey)] if chosen.survey else catalogue.surveys()
    rounds = [
        (published, tally)
        for published in chosen_ones
        for tally in store.tallies(published.sequence)
        if tally.round in kept.get(published.sequence, ())
        and chosen.round in (None, tally.round)
        and published.survey.taken_until(tally.round) + MARGIN <= clock.now()
    ]
    if chosen.round is not None and not rounds:
        raise Refused(
            f"no round {chosen.round} is over, with its grace, whose reports are kept; nothing was "
            "archived"
        )
    return rounds


def _archived(store: Store, each: Round, chosen: Namespace) -> dict[str, object]:
    """What is purged has been read again from the files."""
    from deniable.server.archive import archive_round, recount, rounds_of
    from deniable.server.archive.manifest import digest_of, round_folder

    published, tally = each
    folder = round_folder(chosen.to, published, tally.round)
    if folder.exists():
        manifest = rounds_of(folder)[0].manifest
        if manifest.tally != digest_of(tally):
            raise Refused(f"{folder} holds another count of this round; name another archive")
    else:
        print(f"archiving round {tally.round} of {published.name}", file=sys.stderr)
        manifest = archive_round(store, published, tally, chosen.to)
    if chosen.purge:
        recount(rounds_of(folder))
        store.seal(published.sequence, [tally.round])
    return {
        "survey": published.id,
        "name": published.name,
        "round": tally.round,
        "reports": manifest.reports,
        "parts": len(manifest.parts),
    }


ARCHIVE = Verb(
    "archive",
    "write rounds that are over to files, in random order",
    archive_arguments,
    run_archive,
    example="deniable archive --data ./data --to ./archive",
)
RECOUNT = Verb(
    "recount",
    "count archived rounds again, here or on a cluster",
    recount_arguments,
    run_recount,
    example="deniable recount ./archive --on dask",
)
