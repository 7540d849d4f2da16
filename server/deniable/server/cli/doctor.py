"""`deniable doctor`: check a data folder or a database, and repair a folder's damaged tallies."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from deniable.server.cli.store_arguments import add_place, folder
from deniable.shared.cli.verb import Finding, Verb, add_json, show_findings
from deniable.shared.errors import DeniableError, StoreUnusable, WrongUse, quantity

if TYPE_CHECKING:
    from deniable.server.store import Place, PublishedSurvey

RESTORE = (
    "restore the newest backup from before the damage: deniable restore FILE --data NEW; "
    "reports accepted since then are lost"
)
IF_NOT_WHOLE = f"if the checks below report a damaged database or round, {RESTORE}"
ROOM = "free space on that disk, then run this again: a full disk damages nothing"
ASIDE = (
    "{name} was set aside. It holds reports, and a log also shows their order of arrival; neither "
    "retention nor `survey delete` removes them"
)
NO_FOLDER = "--repair works only on data folders; for a database, use PostgreSQL's own tools"
OWN_TOOLS = "its files are not checked here; use PostgreSQL's own tools, such as pg_amcheck"
LOST_FIX = (
    "if you have a newer copy of the files, put it back before you start the server or repair, "
    "because both record the loss"
)
REPAIR = "stop the server, then: deniable doctor --data DIR --repair"
WORDS = {
    "wrong": "its tally differs from its envelopes",
    "missing": "its tally is missing, but its envelopes are intact",
    "damaged": "its tally is damaged, but its envelopes are intact",
    "damaged-for-good": "its tally is damaged or missing, and its envelopes may be deleted",
    "envelopes-damaged": "some of its envelopes are damaged; they cannot be sent again",
    "envelopes-lost": "its tally is intact, but some of its envelopes are lost; if they are "
    "sent again, they are counted twice",
    "unknown-survey": "its survey is missing or cannot be read",
}


def arguments(parser: ArgumentParser) -> None:
    add_place(parser, required=False)
    parser.add_argument(
        "--repair",
        action="store_true",
        help="set damaged files aside, and recount damaged rounds from their envelopes",
    )
    add_json(parser)


def run(args: Namespace) -> int:
    if getattr(args, "server", None) is not None or getattr(args, "state", None) is not None:
        raise WrongUse("check --data, --server and --state in separate commands")
    if not (isinstance(args.data, Path) or args.repair):
        return show_findings(_database_findings(args.data), args)
    data = folder(args.data, NO_FOLDER)
    with _alone(data, args.repair):
        return show_findings(_findings(data, args.repair), args)


def _database_findings(place: Place) -> Iterator[Finding]:
    from deniable.server.store import open_store

    with open_store(place) as store:
        risk = store.failover_risk()
    yield Finding("database", True, f"it can be read; {OWN_TOOLS}")
    synchronous = "a report is acknowledged once a synchronous standby has it"
    yield Finding("standbys", risk is None, risk or synchronous)


@contextmanager
def _alone(data: Path, repair: bool) -> Iterator[None]:
    """Check that this is a data folder, and lock it for a repair, so that no server uses it."""
    import os

    from deniable.server.process.addresses import take_lock
    from deniable.server.store import open_store
    from deniable.server.store.sqlite.damaged_files import damaged_files

    if not any(damaged_files(data)):
        open_store(data).close()  # explains why a folder is not a data folder
    if not repair:
        yield
        return
    handle = take_lock(data, patience=0)
    try:
        yield
    finally:
        os.close(handle)


def _findings(data: Path, repair: bool) -> Iterator[Finding]:
    from deniable.server.store.sqlite.damaged_files import asides, is_disk_full

    try:
        yield from _checks(data, repair)
    except StoreUnusable as error:
        yield Finding("file", False, str(error), ROOM if is_disk_full(error) else RESTORE)
    for name in asides(data):
        advice = f"delete it when you no longer need it: rm {data / name}"
        yield Finding("aside", True, ASIDE.format(name=name), advice)


def _checks(data: Path, repair: bool) -> Iterator[Finding]:
    from deniable.server.intake.commit import open_recovered
    from deniable.server.store.sqlite.damaged_files import damaged_files, set_aside
    from deniable.server.store.sqlite.inspection import Inspection

    aside = list(set_aside(data)) if repair else []
    if repair:
        for name, says, well in aside:
            yield Finding("file", well, f"{name}: {says}", "" if well else IF_NOT_WHOLE)
    elif damaged := list(damaged_files(data)):
        for name, says in damaged:
            yield Finding("file", False, f"{name}: {says}", f"{REPAIR}; or {RESTORE}")
        return
    with Inspection.of(data) as inspection:
        damage = inspection.damage()
    fix = RESTORE if damage else ""
    yield Finding("file", damage is None, damage or "the database is intact", fix)
    yield _receipts(data, repair, known=not all(well for _, _, well in aside))
    if repair:
        with open_recovered(data):
            pass
    surveys: dict[int, PublishedSurvey] = {}
    yield from _surveys(data, surveys)
    yield from _rounds(data, surveys, repair)


def _receipts(data: Path, repair: bool, known: bool) -> Finding:
    """Compare the reports in the files with the number that was acknowledged.

    A repair records a loss. It is no fault if a file that was set aside explains it (`known`).
    """
    from deniable.server.store import FILE
    from deniable.server.store.sqlite.inspection import record_loss
    from deniable.server.store.sqlite.receipt_count import loss_of

    loss = loss_of(data / FILE)
    if loss is not None and not repair:
        return Finding("receipts", False, str(loss), LOST_FIX)
    says = record_loss(data) or "no acknowledged report is missing"
    return Finding("receipts", loss is None or known, says, "" if known else RESTORE)


def _surveys(data: Path, surveys: dict[int, PublishedSurvey]) -> Iterator[Finding]:
    """Check the surveys and their register; add the intact surveys, by sequence."""
    from deniable.server.store import PublishedSurvey, first_fault, open_store
    from deniable.shared.survey.document import parse_document

    with open_store(data) as store, store.snapshot() as reader:
        rows, entries = reader.surveys(), reader.register()
    for row in rows:
        try:
            row.check_signed()
            survey = parse_document(row.document)
            surveys[row.sequence] = PublishedSurvey(**vars(row), survey=survey)
        except DeniableError as error:
            yield Finding("survey", False, str(error), RESTORE)
    yield Finding("surveys", len(surveys) == len(rows), f"intact and signed: {len(surveys)}")
    missing = {row.id for row in surveys.values()} - {entry.survey for entry in entries}
    fault = first_fault(entries) or ("a published survey is missing from it" if missing else None)
    fix = RESTORE if fault else ""
    yield Finding(
        "register",
        fault is None,
        fault or f"intact: {quantity(len(entries), 'entry', 'entries')}",
        fix,
    )


def _rounds(data: Path, surveys: dict[int, PublishedSurvey], repair: bool) -> Iterator[Finding]:
    from datetime import UTC, datetime

    from deniable.server.intake.recount import REPAIRABLE, compare
    from deniable.server.store.sqlite.inspection import Inspection

    well = {"equal": 0, "sealed": 0}
    with Inspection.of(data, writes=repair) as inspection:
        for compared in list(compare(inspection, surveys, datetime.now(UTC))):
            name, verdict = f"round {compared.round} of {compared.name}", compared.verdict
            if verdict in well:
                well[verdict] += 1
            elif repair and verdict in REPAIRABLE and (counts := compared.recount) is not None:
                inspection.count_as(compared.survey, counts)
                yield Finding(
                    "round", True, f"{name}: recounted, {quantity(counts.reports, 'report')}"
                )
            else:
                fix = REPAIR if verdict in REPAIRABLE else RESTORE
                yield Finding("round", False, f"{name}: {WORDS[verdict]}", fix)
    says = f"equal to their envelopes: {well['equal']}"
    more = f"; intact, with their envelopes deleted: {well['sealed']}"
    yield Finding("tallies", True, says + (more if well["sealed"] else ""))


DOCTOR = Verb(
    "doctor",
    "check a server's data folder or database",
    arguments,
    run,
    option="data",
    group="server",
    example="deniable doctor --data ./data",
)
