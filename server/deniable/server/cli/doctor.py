"""`deniable doctor --data`: whether a data folder is what was written, and counts put right."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from deniable.server.cli.place import add_place, folder
from deniable.shared.cli.verb import Finding, Verb, show_findings
from deniable.shared.errors import DeniableError, StoreUnusable, WrongUse

if TYPE_CHECKING:
    from deniable.server.intake.recount import Compared
    from deniable.server.store import PublishedSurvey, SurveyRow

RESTORE = (
    "restore the newest backup from before: deniable restore FILE --data NEW; "
    "what was accepted since is lost"
)
IF_NOT_WHOLE = f"if the next lines find the database or a round damaged, {RESTORE}"
ROOM = "make room on that disk, then once more: a full one damages nothing"
ASIDE = (
    "{name} was set aside: it holds reports, a log also the order in which they came, and neither "
    "retention nor `survey delete` reaches it"
)
DONE = "when you are done with it, delete it: rm {file}"
NO_FOLDER = (
    "only a data folder is checked here: of a database, PostgreSQL's own tools say whether it is "
    "whole, such as pg_amcheck"
)
REPAIR = "stop the server, then: deniable doctor --data DIR --repair"
WORDS = {
    "wrong": "its tally is not what its envelopes say",
    "missing": "its tally is missing, and its envelopes are there",
    "damaged": "its tally is damaged, and its envelopes are whole",
    "damaged-for-good": "its tally is damaged or missing, and its envelopes are deleted or may be",
    "envelopes-damaged": "envelopes of it are damaged, and no more are taken where these lie",
    "envelopes-lost": "its tally stays, but envelopes of it are lost: sent again, they count again",
    "unknown-survey": "it is of a survey that is not there or cannot be read",
}


def arguments(parser: ArgumentParser) -> None:
    add_place(parser, required=False)
    parser.add_argument(
        "--repair",
        action="store_true",
        help="and set damaged files aside, and count damaged rounds anew from their envelopes",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(chosen: Namespace) -> int:
    if getattr(chosen, "server", None) is not None or getattr(chosen, "state", None) is not None:
        raise WrongUse("--data is a server's folder: look at --server and --state by themselves")
    data = folder(chosen.data, NO_FOLDER)
    with _alone(data, chosen.repair):
        found = chain(_findings(data, chosen.repair), _asides(data))
        return show_findings(found, chosen)


@contextmanager
def _alone(data: Path, repair: bool) -> Iterator[None]:
    """A repair waits for nobody: refused while a server serves the folder."""
    import os

    from deniable.server.process.lock import take_lock
    from deniable.server.store import damaged_files, open_store

    if not any(damaged_files(data)):
        open_store(data).close()  # which says what is wrong with a folder that is none
    if not repair:
        yield
        return
    handle = take_lock(data, patience=0)
    try:
        yield
    finally:
        os.close(handle)


def _findings(data: Path, repair: bool) -> Iterator[Finding]:
    from deniable.server.intake.commit import open_recovered
    from deniable.server.store import Inspection, damaged_files, set_aside, wants_room

    try:
        if repair:
            for name, says, well in set_aside(data):
                yield Finding("file", well, f"{name}: {says}", "" if well else IF_NOT_WHOLE)
        elif damaged := list(damaged_files(data)):
            for name, says in damaged:
                yield Finding("file", False, f"{name}: {says}", f"{REPAIR}; or {RESTORE}")
            return
        with Inspection.of(data) as inspection:
            damage = inspection.damage()
        cure = RESTORE if damage else ""
        yield Finding("file", damage is None, damage or "the database is whole", cure)
        if repair:
            with open_recovered(data):
                pass
        surveys, unread = _surveys(data)
        yield from unread
        yield Finding("surveys", not unread, f"whole and signed: {len(surveys)}")
        yield _register(data, surveys)
        yield from _rounds(data, surveys, repair)
    except StoreUnusable as error:
        yield Finding("file", False, str(error), ROOM if wants_room(error) else RESTORE)


def _asides(data: Path) -> Iterator[Finding]:
    from deniable.server.store import asides

    for name in asides(data):
        yield Finding("aside", True, ASIDE.format(name=name), DONE.format(file=data / name))


def _surveys(data: Path) -> tuple[dict[int, PublishedSurvey], list[Finding]]:
    """By sequence; and those that are not what was published."""
    from deniable.server.store import open_store

    surveys: dict[int, PublishedSurvey] = {}
    unread: list[Finding] = []
    with open_store(data) as store:
        for row in store.surveys():
            try:
                surveys[row.sequence] = _read(row)
            except DeniableError as error:
                unread.append(Finding("survey", False, str(error), RESTORE))
    return surveys, unread


def _register(data: Path, surveys: dict[int, PublishedSurvey]) -> Finding:
    """Whether its chain fits together, and names every survey that is there."""
    from deniable.server.store import first_fault, open_store

    with open_store(data) as store:
        entries = store.register()
    missing = {each.id for each in surveys.values()} - {each.survey for each in entries}
    fault = first_fault(entries) or ("it lacks a survey that is published" if missing else None)
    cure = RESTORE if fault else ""
    return Finding("register", fault is None, fault or f"whole: {len(entries)} entries", cure)


def _read(row: SurveyRow) -> PublishedSurvey:
    from deniable.server.store import PublishedSurvey
    from deniable.shared.survey.document import parse_document

    row.check_signed()
    return PublishedSurvey(**vars(row), survey=parse_document(row.document))


def _rounds(data: Path, surveys: dict[int, PublishedSurvey], repair: bool) -> Iterator[Finding]:
    from datetime import UTC, datetime

    from deniable.server.intake.recount import CURABLE, compare
    from deniable.server.store import Inspection

    well = {"equal": 0, "sealed": 0}
    with Inspection.of(data, writes=repair) as inspection:
        for each in list(compare(inspection, surveys, datetime.now(UTC))):
            if each.verdict in well:
                well[each.verdict] += 1
            elif repair and each.verdict in CURABLE and each.recount is not None:
                counts = each.recount
                inspection.count_as(each.survey, each.round, counts.reports, counts.cells)
                yield Finding(
                    "round", True, f"{_named(each)}: counted anew, {counts.reports:,} reports"
                )
            else:
                cure = REPAIR if each.verdict in CURABLE else RESTORE
                yield Finding("round", False, f"{_named(each)}: {WORDS[each.verdict]}", cure)
    says = f"as their envelopes say: {well['equal']}"
    more = f"; whole, with their envelopes deleted: {well['sealed']}"
    yield Finding("tallies", True, says + (more if well["sealed"] else ""))


def _named(each: Compared) -> str:
    return f"round {each.round} of {each.name}"


DOCTOR = Verb(
    "doctor",
    "check a server's data folder",
    arguments,
    run,
    option="data",
    example="deniable doctor --data ./data",
)
