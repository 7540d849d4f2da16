"""`deniable survey`: write, check, publish, list, show, annotate, close and delete surveys."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from deniable.server.cli import annotating, deleting
from deniable.server.cli.place import add_place, folder, option
from deniable.shared.cli.verb import Verb
from deniable.shared.errors import Refused, WrongUse

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from deniable.server.store import PublishedSurvey
    from deniable.shared.survey.document import Survey

KEY_FILE = "signing-key.pem"
NO_FOLDER = (
    "a database keeps no signing key: make one elsewhere with deniable keys new FILE, and publish "
    "with --key FILE"
)


def arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    new = actions.add_parser("new", help="write a commented survey to begin with")
    new.add_argument("file", nargs="?", type=Path, default=Path("survey.toml"), metavar="FILE")
    check = actions.add_parser("check", help="say what a survey gives away and what it will tell")
    publish = actions.add_parser("publish", help="sign a survey and publish it")
    publish.add_argument(
        "--key", metavar="FILE", help="the signing key (else one in the data folder)"
    )
    publish.add_argument(
        "--replace",
        action="store_true",
        help="also where other questions are open under the same name",
    )
    for action in (check, publish):
        action.add_argument("file", type=Path, metavar="FILE", help="the survey, in TOML")
    show = actions.add_parser(
        "show", help="say what a published survey asks, or print its document"
    )
    close = actions.add_parser("close", help="take no more reports of a survey, for good")
    noted = actions.add_parser("annotate", help="draw a line in its figures: a release, an outage")
    noted.add_argument("--remove", action="store_true", help="take it away again")
    gone = actions.add_parser("delete", help="delete a survey and all its data, for good")
    gone.add_argument("--yes", action="store_true", help="without asking for its id")
    for action in (show, close, noted, gone):
        action.add_argument("survey", metavar="SURVEY", help="a name, an id, or its beginning")
    noted.add_argument("day", metavar="DATE", help="on which it happened: 2026-12-01")
    noted.add_argument("words", metavar="WORDS", help='what happened: "2.4 released"')
    listed = actions.add_parser("list", help="list what is published")
    for action in (publish, show, close, noted, gone, listed):
        add_place(action)
    for action in (check, publish, show, close, noted, gone, listed):
        action.add_argument("--json", action="store_true", help="print one JSON document")


def run(chosen: Namespace) -> int:
    actions = {
        "new": _new,
        "check": _check,
        "publish": _publish,
        "list": _list,
        "show": _show,
        "close": _close,
        "annotate": annotating.run,
        "delete": deleting.run,
    }
    return actions[chosen.action](chosen)


def _new(chosen: Namespace) -> int:
    from deniable.server.surveys.survey_file import template

    text = template(_today())
    try:
        with chosen.file.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise WrongUse(f"{chosen.file} already exists; name a new file") from None
    print(f"{chosen.file}: edit it, then: deniable survey check {chosen.file}")
    return 0


def _check(chosen: Namespace) -> int:
    from deniable.server.results.advice import describe, facts, warnings
    from deniable.server.surveys.listing import check_size
    from deniable.shared.survey.document import render_document

    survey = _read(chosen.file)
    check_size(render_document(survey))
    found = warnings(survey, _today())
    if chosen.json:
        print(json.dumps(facts(survey) | {"warnings": found}, ensure_ascii=False))
    else:
        print("\n".join(describe(survey)))
        _warn(found)
    return 0


def _publish(chosen: Namespace) -> int:
    from deniable.server.results.advice import describe, facts, warnings
    from deniable.server.store import create_store
    from deniable.server.surveys.catalogue import Catalogue
    from deniable.server.surveys.replacement import asked_again, refusal, survey_to_replace
    from deniable.shared.survey.document import render_document
    from deniable.shared.survey.keys import public_hex, sign

    survey = _read(chosen.file)
    document = render_document(survey)
    with create_store(chosen.data) as store:
        catalogue = Catalogue(store)
        earlier = survey_to_replace(catalogue.surveys(), survey, document, _today())
        if earlier and not chosen.replace and (reason := refusal(earlier, survey)):
            raise Refused(f"{reason} Publish with --replace, or under another name.")
        key = _signing_key(chosen)
        store.enrol_key(public_hex(key))
        published = catalogue.publish(document, sign(document, key), public_hex(key))
    found = warnings(survey, _today()) + ([asked_again(earlier, survey)] if earlier else [])
    if chosen.json:
        identity = {"id": published.id, "key": published.key, "state": _state(published)}
        print(json.dumps(facts(survey) | identity | {"warnings": found}, ensure_ascii=False))
        return 0
    print("\n".join(describe(survey)))
    _warn(found)
    if published.closed:
        print("warning: this survey was closed, and stays closed: change anything in it")
    print(f"published as {published.id}\nsigned by the key {published.key}")
    return 0


def _signing_key(chosen: Namespace) -> Ed25519PrivateKey:
    from deniable.shared.survey.keys import create_key, load_key, public_hex

    if chosen.key is not None:
        return load_key(chosen.key)
    file = folder(chosen.data, NO_FOLDER) / KEY_FILE
    if file.exists():
        return load_key(str(file))
    key = create_key(str(file))
    print(
        f"made a signing key in {file}, for first steps: with it, anyone who breaks into the\n"
        "server can publish surveys. Before you ask real people, make one elsewhere with\n"
        "deniable keys new FILE, and publish with --key FILE.\n"
        f"Apps trust this one by Policy(keys=[{public_hex(key)!r}], ...)",
        file=sys.stderr,
    )
    return key


def _list(chosen: Namespace) -> int:
    from deniable.server.glance import glance

    surveys, now = glance(chosen.data).surveys, datetime.now(UTC)
    if chosen.json:
        rows = [
            {
                "id": each.id,
                "name": each.survey.name,
                "state": each.state(now),
                "opens": each.survey.opens.isoformat(),
                "closes": each.survey.closes.isoformat(),
                "epsilon": {
                    "round": each.survey.round_epsilon,
                    "survey": each.survey.lifetime_epsilon,
                },
            }
            for each in surveys
        ]
        print(json.dumps({"surveys": rows}, ensure_ascii=False))
        return 0
    for each in surveys:
        said = each.said
        days = f"{said['opens']} to {said['closes']}"
        print(f"{each.id[:12]}  {each.state(now):7}  {days}  {said['name']}")
    if not surveys:
        print(
            "nothing is published yet; begin with: deniable survey new, then "
            f"deniable survey publish FILE {option(chosen.data)}"
        )
    return 0


def _show(chosen: Namespace) -> int:
    from msgspec import to_builtins

    from deniable.server.results.advice import describe
    from deniable.server.store import open_store
    from deniable.server.surveys.catalogue import Catalogue, entry

    with open_store(chosen.data) as store:
        published = Catalogue(store).find(chosen.survey)
    if chosen.json:
        shown = to_builtins(entry(published)) | {
            "name": published.name,
            "state": _state(published),
        }
        print(json.dumps(shown, ensure_ascii=False))
        return 0
    print("\n".join(describe(published.survey)))
    print(f"{_state(published)}, id {published.id}\nsigned by the key {published.key}")
    return 0


def _close(chosen: Namespace) -> int:
    from deniable.server.store import open_store
    from deniable.server.surveys.catalogue import Catalogue

    with open_store(chosen.data) as store:
        published = Catalogue(store).to_close(chosen.survey)
        store.close_survey(published.sequence)
    if chosen.json:
        print(json.dumps({"id": published.id, "name": published.name, "state": "closed"}))
    elif published.closed:
        print(f"{published.name} ({published.id[:12]}) was closed before")
    else:
        print(f"closed {published.name} ({published.id[:12]}): its reports are refused from now on")
    return 0


def _read(file: Path) -> Survey:
    from deniable.server.surveys.survey_file import parse_survey_file

    try:
        return parse_survey_file(file.read_text("utf-8"), _tell)
    except FileNotFoundError:
        raise WrongUse(
            f"there is no survey at {file}; write one: deniable survey new {file}"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUse(f"{file} cannot be read as text in UTF-8: {error}") from None


def _tell(progress: str) -> None:
    if sys.stderr.isatty():
        print(progress, file=sys.stderr)


def _warn(found: Sequence[str]) -> None:
    for warning in found:
        print(f"warning: {warning}")


def _state(published: PublishedSurvey) -> str:
    from deniable.server.results import state_at

    return state_at(published, datetime.now(UTC))


def _today() -> date:
    return datetime.now(UTC).date()


SURVEY = Verb(
    "survey",
    "write, check, publish, list, show, close and delete surveys",
    arguments,
    run,
    example="deniable survey publish app-health.toml --data ./data",
)
