"""`deniable survey`: write, check, publish, list, show, annotate, follow up, close and delete."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from deniable.server.cli.store_arguments import STILL_READ, add_place, folder, opened, option
from deniable.shared.cli.verb import RED, Verb, add_json, coloured, show
from deniable.shared.errors import Refused, WrongUse, quantity
from deniable.shared.survey.participation import MAX_EPSILON_PER_SURVEY

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from deniable.server.store import Place, PublishedSurvey, RoundTally, Store, SurveyRow
    from deniable.shared.survey.document import Survey

ID_DIGITS = 12  # digits of an id that are shown, and typed to delete a survey
KEY_FILE = "signing-key.pem"
TEMPLATE_NAMES = ("yes-no", "rating", "number", "choice", "two-questions", "did-you-ever", "ab")
NO_FOLDER = (
    "a database stores no signing key: create one on another machine with deniable keys new FILE, "
    "and publish with --key FILE"
)
MISMATCH = "it does NOT follow from the counts"
DELETED = """\
{0.name}: {1}
id {0.id}, {0.state}
Permanently deleted: its document, its stored reports, its tallies and so all its results, and its
counters. Their pages in the store are overwritten.
Not deleted: its id and the key that signed it, in the public register; backups and archives, which
you must delete yourself; and the data on devices."""


def arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    new = actions.add_parser("new", help="write a survey with comments to start from")
    words = "the file to create (default: %(default)s)"
    new.add_argument(
        "file", nargs="?", type=Path, default=Path("survey.toml"), metavar="FILE", help=words
    )
    add_template(new)
    check = actions.add_parser(
        "check", help="report a survey's privacy cost and expected margins of error"
    )
    check.add_argument(
        "--crowd",
        type=int,
        metavar="N",
        help="also state what one report reveals if a relay shuffles it among N people",
    )
    publish = actions.add_parser("publish", help="sign a survey and publish it")
    add_publishing(publish)
    for action in (check, publish):
        action.add_argument("file", type=Path, metavar="FILE", help="the survey, in TOML")
    next_ = actions.add_parser(
        "next", help="draft a follow-up survey from the final results of another"
    )
    _add_choices(next_)
    show_ = actions.add_parser(
        "show", help="describe a published survey; --json prints its document"
    )
    close = actions.add_parser("close", help="close a survey permanently: refuse further reports")
    annotate = actions.add_parser(
        "annotate", help="mark an event in a survey's charts, such as a release or an outage"
    )
    annotate.add_argument("--remove", action="store_true", help="remove this event")
    delete = actions.add_parser("delete", help="delete a survey and all its data permanently")
    delete.add_argument("--yes", action="store_true", help="do not ask for its id")
    show_.add_argument(
        "--language", default="", metavar="TAG", help="show its texts in this language, like de"
    )
    for action in (next_, show_, close, annotate, delete):
        action.add_argument("survey", metavar="SURVEY", help="a name, an id, or its beginning")
    annotate.add_argument("day", metavar="DATE", help="the day of the event: 2026-12-01")
    annotate.add_argument("words", metavar="WORDS", help='the event: "2.4 released"')
    listed = actions.add_parser("list", help="list published surveys")
    in_a_store = (publish, show_, close, annotate, delete, listed)
    for action in (next_, *in_a_store):
        add_place(action)
    add_place(check, required=False)
    add_json(check, *in_a_store)


def add_publishing(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--key", metavar="FILE", help="the signing key (default: the one in the data folder)"
    )
    parser.add_argument(
        "--replace",
        action="store_true",
        help="publish even if an open survey of this name has other questions",
    )


def add_template(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--template",
        choices=TEMPLATE_NAMES,
        metavar="NAME",
        help=f"start from a template for asking by link: {', '.join(TEMPLATE_NAMES)}",
    )


def _add_choices(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--quantile",
        metavar="Q",
        default="0.5",
        help="quantile of numbers to ask about (default: %(default)s, the median)",
    )
    parser.add_argument(
        "--budget",
        metavar="E",
        default=MAX_EPSILON_PER_SURVEY,
        help="ε that your app allows a survey in a quarter (default: %(default)s)",
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the draft to a new file")


def run(args: Namespace) -> int:
    actions = {
        "new": _new,
        "check": _check,
        "next": _next,
        "publish": _publish,
        "list": _list,
        "show": _show,
        "close": _close,
        "annotate": _annotate,
        "delete": _delete,
    }
    return actions[args.action](args)


def _new(args: Namespace) -> int:
    from deniable.server.surveys.link_surveys import TEMPLATES
    from deniable.server.surveys.survey_file import template

    today, file = today_in_utc(), args.file
    create(
        file, TEMPLATES[args.template].toml(today, str(file)) if args.template else template(today)
    )
    print(f"{args.file}: edit it, then: deniable survey check {args.file}")
    return 0


def create(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise WrongUse(f"{path} already exists; name a new file") from None


def _next(args: Namespace) -> int:
    from deniable.server.planning.follow_up import QUANTILES, drafted, epsilons, follow_up
    from deniable.shared.privacy.epsilon import Epsilon

    if args.quantile not in QUANTILES:
        raise WrongUse(f"--quantile must be one of {', '.join(QUANTILES)}, got {args.quantile}")
    budget, today = Epsilon(args.budget).billionths, today_in_utc()
    with opened(args) as (store, catalogue):
        published = catalogue.find(args.survey)
        tally = _final_tally(store, published)
    choices = follow_up(published.survey, tally, args.quantile)
    if not choices.questions:
        reasons = "; ".join(f"{name}: {why}" for name, why in choices.left_out.items())
        raise Refused(f"the results of {published.name} lead to no further question: {reasons}")
    epsilon = epsilons(published.survey, [*choices.questions], budget, today)
    draft = drafted(published, tally, args.quantile, choices, epsilon, budget, today)
    if args.output is None:
        print(draft, end="")
        return 0
    create(args.output, draft)
    place = option(args.data)
    print(f"{args.output}: edit it, then: deniable survey check {args.output} {place}")
    return 0


def _final_tally(store: Store, published: PublishedSurvey) -> RoundTally:
    """Return the newest round that is final and has enough reports."""
    survey, now = published.survey, datetime.now(UTC)
    for tally in reversed(store.tallies(published.sequence)):
        is_final = published.round_state(tally.round, now) == "final"
        if is_final and tally.reports >= survey.minimum_reports:
            return tally
    raise Refused(
        f"{published.name} has no final results of {quantity(survey.minimum_reports, 'report')} "
        f"yet: its first round is final on {survey.taken_until(survey.first_round).date()}, or "
        "once you close the survey"
    )


def _check(args: Namespace) -> int:
    from deniable.server.results.advice import describe, facts, warnings
    from deniable.server.results.sentences import crowd_facts, crowd_sentences
    from deniable.server.surveys.public_list import check_size
    from deniable.shared.survey.document import render_document

    survey = read_survey(args.file)
    check_size(render_document(survey))
    followed = _recomputed(survey, args.data)
    caveats = warnings(survey, today_in_utc())
    crowd = {} if args.crowd is None else crowd_facts(survey, args.crowd)
    document = facts(survey) | {"warnings": caveats} | crowd
    document |= {"follows": followed} if followed else {}
    among = crowd_sentences(survey, crowd) if crowd else ()
    lines = [*describe(survey), *among, *followed, *_warnings(caveats)]
    return show(args, document, lines) or int(MISMATCH in "".join(followed))


def _warnings(caveats: Iterable[str]) -> list[str]:
    return [f"{coloured('warning:', RED)} {caveat}" for caveat in caveats]


def _recomputed(survey: Survey, place: Place | None) -> tuple[str, ...]:
    """Return whether the questions of a follow-up survey are those that its counts lead to."""
    from deniable.server.planning.follow_up import mismatch, rule_of
    from deniable.server.store import open_store
    from deniable.server.surveys.catalogue import Catalogue

    if (chosen := survey.follows) is None:
        return ()
    about = (
        f"it follows {chosen.survey[:ID_DIGITS]} ({chosen.rule}): its intervals are about exactly "
        "its respondents, and usually narrower than the margins above"
    )
    if place is None:
        return about, "add --data DIR to compute its questions again from the counts"
    _, number = rule_of(chosen)
    with open_store(place) as store:
        published = Catalogue(store).find(chosen.survey)
        tally = next(iter(store.tallies(published.sequence, number, number)), None)
    if difference := mismatch(survey, published.survey, tally):
        return about, f"{MISMATCH}: {difference}"
    return about, "its questions are those that the counts lead to"


def _publish(args: Namespace) -> int:
    from deniable.server.results.advice import describe, facts

    survey = read_survey(args.file)
    published, caveats = publish(args, survey)
    identity = {
        "id": published.id,
        "key": published.key,
        "state": published.state_at(datetime.now(UTC)),
    }
    summary = facts(survey) | identity | {"warnings": caveats}
    receipt = f"published as {published.id}\nsigned by the key {published.key}"
    return show(args, summary, [*describe(survey), *_warnings(caveats), receipt])


def publish(args: Namespace, survey: Survey) -> tuple[PublishedSurvey, list[str]]:
    """Sign and publish a survey; return it with the warnings about it."""
    from deniable.server.results.advice import warnings
    from deniable.server.store import create_store
    from deniable.server.surveys.catalogue import Catalogue
    from deniable.server.surveys.replacement import asked_again, refusal, survey_to_replace
    from deniable.shared.survey.document import render_document
    from deniable.shared.survey.keys import public_hex, sign

    document = render_document(survey)
    with create_store(args.data) as store:
        catalogue = Catalogue(store)
        earlier = survey_to_replace(catalogue.surveys(), survey, document, today_in_utc())
        if earlier and not args.replace and (reason := refusal(earlier, survey)):
            raise Refused(f"{reason} Use --replace to publish anyway, or choose another name.")
        key = _signing_key(args)
        store.enrol_key(public_hex(key))
        published = catalogue.publish(document, sign(document, key), public_hex(key))
    caveats = warnings(survey, today_in_utc()) + ([asked_again(earlier, survey)] if earlier else [])
    if published.closed:
        caveats.append(
            "this survey was closed and stays closed; to reopen it, change anything in it"
        )
    return published, caveats


def _signing_key(args: Namespace) -> Ed25519PrivateKey:
    from deniable.shared.survey.keys import create_key, load_key, public_hex

    if args.key is not None:
        return load_key(args.key)
    file = folder(args.data, NO_FOLDER) / KEY_FILE
    if file.exists():
        return load_key(str(file))
    key = create_key(str(file))
    print(
        f"created a signing key in {file}, for trying things out: anyone who breaks into the\n"
        "server can publish surveys with it. Before you ask real people, create a key on another\n"
        "machine with deniable keys new FILE, and publish with --key FILE.\n"
        f"Apps trust this key with Policy(keys=[{public_hex(key)!r}], ...)",
        file=sys.stderr,
    )
    return key


def _list(args: Namespace) -> int:
    from deniable.server.store import open_store

    now = datetime.now(UTC)
    with open_store(args.data) as store:
        surveys = store.surveys()
    if args.json:  # only JSON needs parsed surveys; parsing is slow
        return show(args, {"surveys": [_row(row, now) for row in surveys]}, ())
    publish = f"deniable survey publish FILE {option(args.data)}"
    empty = f"no survey is published yet; start with: deniable survey new, then {publish}"
    return show(args, None, [_line(row, now) for row in surveys] or [empty])


def _line(row: SurveyRow, now: datetime) -> str:
    from deniable.shared.survey.document import PERIODS

    header = row.header()
    opens, closes = (date.fromisoformat(header[key]) for key in ("opens", "closes"))
    calendar = PERIODS[header["round"]]
    state = row.state_between(opens, closes, header["grace_days"], calendar, now)
    return f"{row.id[:ID_DIGITS]}  {state:10}  {opens} to {closes}  {header['name']}"


def _row(row: SurveyRow, now: datetime) -> dict[str, object]:
    from deniable.server.store import PublishedSurvey
    from deniable.shared.survey.document import parse_document

    row.header()  # checks that the document is the one that was published
    survey = parse_document(row.document)
    return {
        "id": row.id,
        "name": survey.name,
        "state": PublishedSurvey(**vars(row), survey=survey).state_at(now),
        "opens": survey.opens.isoformat(),
        "closes": survey.closes.isoformat(),
        "epsilon": {"round": survey.round_epsilon, "survey": survey.lifetime_epsilon},
    }


def _show(args: Namespace) -> int:
    from msgspec import to_builtins

    from deniable.server.results.advice import describe
    from deniable.server.surveys.catalogue import entry

    with opened(args) as (_, catalogue):
        published = catalogue.find(args.survey).in_language(args.language)
    state = published.state_at(datetime.now(UTC))
    document = to_builtins(entry(published)) | {"name": published.name, "state": state}
    closed = f", closed on {published.closed}" if published.closed else ""
    identity = f"{state}{closed}, id {published.id}\nsigned by the key {published.key}"
    return show(args, document, [*describe(published.survey), identity])


def _close(args: Namespace) -> int:
    with opened(args) as (_, catalogue):
        published = catalogue.to_close(args.survey)
        catalogue.close(published)
    document = {"id": published.id, "name": published.name, "state": "closed"}
    named = f"{published.name} ({published.id[:ID_DIGITS]})"
    done = (
        f"closed {named}: its reports are refused from now on; rounds that still accepted reports "
        "keep intervals that hold for repeated looks"
    )
    return show(args, document, [f"{named} was already closed" if published.closed else done])


def _delete(args: Namespace) -> int:
    with opened(args) as (store, catalogue):
        published = catalogue.to_delete(args.survey)
        survey, digits = published.survey, published.id[:ID_DIGITS]
        if not published.closed and datetime.now(UTC) < survey.taken_until(survey.last_round):
            raise Refused(
                f"{published.name} ({digits}) still accepts reports; close it first: "
                f"deniable survey close {digits}"
            )
        print(DELETED.format(published, survey.title), file=sys.stderr)
        if not args.yes:
            if not sys.stdin.isatty():
                raise WrongUse("there is no terminal to confirm at; add --yes to delete the survey")
            typed = input(f"To delete it, type the first {ID_DIGITS} digits of its id: ").strip()
            if len(typed) < ID_DIGITS or not published.id.startswith(typed):
                raise Refused("that is not the survey's id; nothing was deleted")
        purged = delete(store, published)
    if not purged:
        print(STILL_READ, file=sys.stderr)
    document = {"id": published.id, "name": published.name, "state": "deleted"}
    return show(args, document, [f"deleted {published.name} ({digits})"])


def delete(store: Store, published: PublishedSurvey) -> bool:
    """Delete a survey, its envelopes first, in slices.

    From now on, a server of the same store refuses its reports. Return whether the store's logs
    hold no trace of the survey either.
    """
    from deniable.server.intake.upkeep import purge_sealed

    store.close_survey(published.sequence, datetime.now(UTC))
    store.seal(published.sequence, store.unsealed_rounds().get(published.sequence, ()))
    purge_sealed(store)
    store.delete_survey(published.sequence)
    return purge_sealed(store)


def _annotate(args: Namespace) -> int:
    from deniable.server.results.annotations import parse_annotation

    annotation = parse_annotation(args.day, args.words)
    with opened(args) as (store, catalogue):
        published = catalogue.find(args.survey)
        if not args.remove:
            store.annotate(published.sequence, annotation)
        elif not store.remove_annotation(published.sequence, annotation):
            raise Refused(f"{published.name} has no such event on {annotation.day}")
        left = store.annotations(published.sequence)
    listed = [{"day": day.isoformat(), "words": words} for day, words in left]
    document = {"id": published.id, "name": published.name, "annotations": listed}
    events = [f"  {day}  {words}" for day, words in left] or ["  no events"]
    return show(args, document, [f"{published.name}:", *events])


def read_survey(file: Path) -> Survey:
    """Return the survey in a file: TOML, or JSON as a server publishes it."""
    from deniable.server.surveys.survey_file import parse_survey_file

    try:
        text = file.read_text("utf-8")
        is_published = text.lstrip().startswith("{")
        return _published(file, text) if is_published else parse_survey_file(text, _show_progress)
    except FileNotFoundError:
        raise WrongUse(
            f"the file {file} does not exist; to create it: deniable survey new {file}"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUse(f"{file} cannot be read as text in UTF-8: {error}") from None


def _published(file: Path, text: str) -> Survey:
    from deniable.shared.survey.document import parse_document

    try:
        document = str(json.loads(text)["document"]).encode()
    except (ValueError, KeyError, TypeError):
        raise WrongUse(
            f"{file} is not a survey in the form that `deniable survey show --json` prints"
        ) from None
    return parse_document(document)


def _show_progress(progress: str) -> None:
    if sys.stderr.isatty():
        print(progress, file=sys.stderr)


def today_in_utc() -> date:
    return datetime.now(UTC).date()


SURVEY = Verb(
    "survey",
    "write, check, publish, list, show, close and delete surveys",
    arguments,
    run,
    group="ask",
    example="deniable survey publish app-health.toml --data ./data",
)
