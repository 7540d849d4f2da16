"""Copies of the data: `deniable archive` and `recount`, `deniable backup` and `restore`."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deniable.server.cli.results_verb import add_forms
from deniable.server.cli.store_arguments import STILL_READ, add_place, folder
from deniable.shared.cli.verb import Verb, add_json, show
from deniable.shared.errors import Refused, quantity

if TYPE_CHECKING:
    from deniable.server.results import Results
    from deniable.server.store import PublishedSurvey, RoundTally, Store

BY_PG_DUMP = (
    "back up a database with PostgreSQL's own tools, even while servers use it: "
    "pg_dump --format=custom --file=FILE DATABASE"
)
BY_PG_RESTORE = (
    "restore a database with PostgreSQL's own tools, into a new one: createdb NEW, then "
    "pg_restore --exit-on-error --dbname=NEW FILE"
)


def archive_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "survey", nargs="?", metavar="SURVEY", help="a name, an id or its beginning (default: all)"
    )
    add_place(parser)
    parser.add_argument(
        "--to", type=Path, required=True, metavar="DIR", help="folder of the archive"
    )
    parser.add_argument("--round", metavar="N", help="only this round: its number or a day in it")
    parser.add_argument(
        "--purge", action="store_true",
        help="also delete these reports from the store, before their retention ends",
    )  # fmt: skip
    add_json(parser)


def recount_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("archive", type=Path, metavar="DIR", help="an archive, or a folder in one")
    parser.add_argument(
        "--on",
        default="local",
        metavar="WHERE",
        help="local, pool, dask, or dask:ADDRESS of a scheduler (default: %(default)s)",
    )
    add_forms(parser)


def run_archive(args: Namespace) -> int:
    from deniable.server.intake.commit import open_recovered
    from deniable.server.intake.upkeep import purge_sealed

    with open_recovered(args.data) as store:
        rows = [_archived(store, *ended, args) for ended in _ended_rounds(store, args)]
        if args.purge and rows and not purge_sealed(store):
            print(STILL_READ, file=sys.stderr)
    purged = ", and deleted from the store" if args.purge else ""
    lines = [
        f"round {row['round']} of {row['name']}: {quantity(row['reports'], 'report')} in "
        f"{quantity(row['parts'], 'part')}{purged}"
        for row in rows
    ]
    return show(args, {"rounds": rows}, lines or ["nothing to archive: no ended round has reports"])


def run_recount(args: Namespace) -> int:
    import msgspec

    from deniable.server.results import csv_chunks
    from deniable.server.results.export import report_lines

    results = recounted(args.archive, args.on)
    if args.json:
        print(msgspec.json.encode({"surveys": results}).decode())
    elif args.csv:
        for document in results:
            sys.stdout.writelines(
                line.replace("\r\n", "\n") for line in csv_chunks(document, document.rounds)
            )
    else:
        print("\n\n".join("\n".join(report_lines(document)) for document in results))
    return 0


def recounted(archive: Path, where: str) -> list[Results]:
    """Return the results of each survey, with only the archived rounds."""
    from datetime import UTC, datetime

    import msgspec

    from deniable.server.archive import recount, rounds_of
    from deniable.server.parallel import progress
    from deniable.server.results import survey_results

    rounds = rounds_of(archive)
    parts = sum(len(archived.manifest.parts) for archived in rounds)
    with progress("recount", parts, "parts") as counted:
        tallies = recount(rounds, where, counted)
    published = {archived.published.id: archived.published for archived in rounds}
    crowds = {(a.published.id, a.manifest.round): a.manifest.crowd for a in rounds}
    documents: list[Results] = []
    for identifier, kept in tallies.items():
        numbers = {tally.round for tally in kept}
        among = {number: crowds[identifier, number] for number in numbers}
        results = survey_results(published[identifier], kept, datetime.now(UTC), crowds=among)
        archived_rounds = tuple(row for row in results.rounds if row.round in numbers)
        documents.append(msgspec.structs.replace(results, rounds=archived_rounds))
    return documents


def _ended_rounds(store: Store, args: Namespace) -> list[tuple[PublishedSurvey, RoundTally]]:
    """Return the rounds that no longer accept reports and whose reports are still stored."""
    from deniable.server.intake.upkeep import MARGIN, Calendar
    from deniable.server.results.periods import parse_round
    from deniable.server.surveys.catalogue import Catalogue
    from deniable.server.surveys.clock import Clock

    catalogue, kept, clock = Catalogue(store), store.unsealed_rounds(), Clock()
    if fault := Calendar(store, clock).clock_fault():
        raise Refused(f"{fault}; nothing was archived")
    surveys = [catalogue.find(args.survey)] if args.survey else catalogue.surveys()
    rounds = [
        (published, tally)
        for published in surveys
        for tally in store.tallies(published.sequence)
        if tally.round in kept.get(published.sequence, ())
        and (args.round is None or parse_round(published.survey, args.round) == tally.round)
        and published.survey.taken_until(tally.round) + MARGIN <= clock.now()
    ]
    if args.round is not None and not rounds:
        raise Refused(
            f"round {args.round} has not ended (including its grace period), or its reports are "
            "deleted; nothing was archived"
        )
    return rounds


def _archived(
    store: Store, published: PublishedSurvey, tally: RoundTally, args: Namespace
) -> dict[str, Any]:  # Any: JSON
    """Archive a round; before a purge, recount it from the files."""
    from deniable.server.archive import archive_round, recount, rounds_of
    from deniable.server.archive.manifest import digest_of, round_folder

    folder = round_folder(args.to, published, tally.round)
    if folder.exists():
        manifest = rounds_of(folder)[0].manifest
        if manifest.tally != digest_of(tally):
            raise Refused(f"{folder} has other counts for this round; name another archive")
    else:
        print(f"archiving round {tally.round} of {published.name}", file=sys.stderr)
        manifest = archive_round(store, published, tally, args.to)
    if args.purge:
        recount(rounds_of(folder))
        store.seal(published.sequence, [tally.round])
    return {
        "survey": published.id,
        "name": published.name,
        "round": tally.round,
        "reports": manifest.reports,
        "parts": len(manifest.parts),
    }


def backup_arguments(parser: ArgumentParser) -> None:
    add_place(parser)
    parser.add_argument("--to", type=Path, required=True, metavar="FILE", help="the file to create")
    add_json(parser)


def restore_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="the backup")
    add_place(parser)
    add_json(parser)


def run_backup(args: Namespace) -> int:
    from deniable.server.intake.commit import open_recovered
    from deniable.server.store.sqlite.backup_file import back_up

    data = folder(args.data, BY_PG_DUMP)
    with open_recovered(data):
        size = back_up(data, args.to)
    text = f"{args.to}: {size:,} bytes, checked. It holds reports and hashed tokens: "
    return show(args, {"file": str(args.to), "bytes": size}, [f"{text}keep it private."])


def run_restore(args: Namespace) -> int:
    from deniable.server.store.sqlite.backup_file import restore

    reports = restore(args.file, folder(args.data, BY_PG_RESTORE))
    counted = quantity(reports, "report")
    text = (
        f"restored {args.data}, with {counted} counted. Reports acknowledged after the backup are "
        f"lost: devices do not send them again.\nTo serve it: deniable serve --data {args.data}"
    )
    return show(args, {"data": str(args.data), "reports": reports}, [text])


ARCHIVE = Verb(
    "archive",
    "write the reports of ended rounds to files, in random order",
    archive_arguments,
    run_archive,
    group="server",
    example="deniable archive --data ./data --to ./archive",
)
RECOUNT = Verb(
    "recount",
    "count archived rounds again, here or on a cluster",
    recount_arguments,
    run_recount,
    group="server",
    example="deniable recount ./archive --on dask",
)
BACKUP = Verb(
    "backup",
    "copy the store to a file, even while a server runs",
    backup_arguments,
    run_backup,
    group="server",
    example="deniable backup --data ./data --to backup.sqlite3",
)
RESTORE = Verb(
    "restore",
    "create a data folder from a backup",
    restore_arguments,
    run_restore,
    group="server",
    example="deniable restore backup.sqlite3 --data ./restored",
)
