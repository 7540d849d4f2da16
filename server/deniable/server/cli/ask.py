"""`deniable ask` and `deniable invite`: publish a survey, and print links that people open."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from deniable.server.cli.serve import (
    add_addresses,
    add_limit,
    people_address,
    url_of_a_server,
    warn_if_exposed,
)
from deniable.server.cli.store_arguments import add_place, opened, option
from deniable.server.cli.survey import (
    KEY_FILE,
    add_publishing,
    add_template,
    create,
    publish,
    read_survey,
    today_in_utc,
)
from deniable.server.process.server_requests import is_loopback
from deniable.shared.cli.verb import Verb, add_json, show
from deniable.shared.errors import Refused, WrongUse, quantity

if TYPE_CHECKING:
    from deniable.server.process.addresses import Address, ServerAddresses
    from deniable.server.store import PublishedSurvey
    from deniable.server.surveys.link_surveys import Draft
    from deniable.shared.survey.document import Survey

FOLDER = "deniable-data"
MAX_INVITATIONS = 100_000
EPSILONS = ("0.5", "1", "2")
NO_TERMINAL = (
    "there is no terminal on which to ask you; pass a survey file, or start from a template: "
    "deniable ask --template yes-no"
)
REACHES = {
    "machine": "It works on this machine only. To reach phones, put a TLS proxy or tunnel in front "
    "(RECIPES.md, “Ask by link with TLS”), and add --url https://…",
    "network": "It reaches people on this network.",
    "everyone": "It reaches everyone.",
    "no one else": "It works on this machine only: over plain http, browsers on other machines "
    "refuse the cryptography that the page needs. Put a proxy with TLS or a tunnel in front "
    "(RECIPES.md, “Ask by link with TLS”), and add --url https://…",
}
STEPS_OF_RESULTS = (
    "For about {} (--people N), estimates appear after about {} answers and change in steps of "
    "about {}; all answers count once the survey is closed."
)
RECOMMENDED = (
    "ε {} is recommended: each report leaves real doubt about its sender, and a hundred reports "
    "still show a clear majority."
)
OWN_KEY = (
    "The server signs its surveys with its own key: anyone who breaks into it can publish surveys. "
    "To keep the key elsewhere, publish with --key FILE."
)
HAND_OUT = (
    "Each link counts one answer. Hand them out without a list of who got which: the person who "
    "gives someone a code, working together with the server, may know which report is theirs. "
    "The links are shown only now, because the store keeps only hashes."
)


def _ask_arguments(parser: ArgumentParser) -> None:
    parser.description = (
        "Publish a survey and print the link at which people answer it. Without a file or a "
        "template, ask for the title, the question, its options and ε, and write the file."
    )
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="the survey, in TOML")
    add_template(parser)
    parser.add_argument(
        "--people",
        metavar="N",
        help="about how many people will answer; sets the `step` of the file that is written",
    )
    parser.add_argument(
        "--url",
        type=url_of_a_server,
        metavar="URL",
        help="public address of the server, like https://ask.example.org, if a proxy or a tunnel "
        "forwards to it",
    )
    parser.add_argument(
        "--export",
        type=Path,
        metavar="DIR",
        help="write the page's files to DIR, for another host, instead of starting a server",
    )
    add_publishing(parser)
    add_place(parser, otherwise=FOLDER)
    add_addresses(parser)
    add_limit(parser)
    add_json(parser)


def _ask(args: Namespace) -> int:
    from deniable.server.process.addresses import running_server
    from deniable.server.surveys.link_surveys import obstacle

    survey = read_survey(_survey_file(args))
    if problem := obstacle(survey):
        raise Refused(f"people cannot answer this survey by link: {problem}")
    published, caveats = publish(args, survey)
    for caveat in caveats:
        print(f"warning: {caveat}", file=sys.stderr)
    running = running_server(args.data) if isinstance(args.data, Path) else None
    if args.export is not None:
        return _export(args, published, args.url or (running and running.devices))
    return _serve(args, published) if running is None else _show(args, published, running)


def _export(args: Namespace, published: PublishedSurvey, server: str | None) -> int:
    """Write a copy of the respondent page for another host; it sends reports to the server."""
    from deniable.server.pages.respondent.hosted_page import export_page

    if not server:
        raise WrongUse("no server is running; name the one that takes the reports: --url https://…")
    try:
        page = export_page(published, server, args.export)
    except OSError as error:
        raise WrongUse(f"{args.export} cannot be written: {error.strerror}") from None
    check = f"deniable doctor --page https://HOST/{page.name} --server {server}"
    lines = [
        f"wrote {page} and its files; reports go to {server}",
        f"Put the folder on any static host, and compare it with the register: {check}",
    ]
    return show(args, {"page": str(page), "server": server}, lines)


def _survey_file(args: Namespace) -> Path:
    """Return the survey's file, after writing it from a template or from answers if necessary."""
    from deniable.server.surveys.link_surveys import TEMPLATES
    from deniable.server.surveys.survey_file import parse_survey_file

    if args.file is not None and args.template is None:
        if args.people is not None:
            raise WrongUse("--people sets the step of a new file; write `step` in this one instead")
        return Path(args.file)
    if args.template is None and not sys.stdin.isatty():
        raise WrongUse(NO_TERMINAL)
    people = None if args.people is None else _whole(args.people)
    draft = TEMPLATES[args.template] if args.template else _asked_draft(people)
    draft = replace(draft, people=people or draft.people)
    file = args.file or Path(f"{draft.name}.toml")
    text = draft.toml(today_in_utc(), str(file))
    parse_survey_file(text)  # a mistake must leave no file
    create(file, text)
    group = quantity(draft.people, "person", "people")
    step = STEPS_OF_RESULTS.format(group, draft.first_shown, draft.step)
    more = [step, *epsilon_lines(draft)] if args.template else [step]
    print(f"wrote {file}", *more, sep="\n", file=sys.stderr)
    return Path(file)


def _serve(args: Namespace, published: PublishedSurvey) -> int:
    """Run the server until Ctrl-C. Print the link once the server is ready."""
    from deniable.server.process.addresses import ServerAddresses
    from deniable.server.process.roles import Settings, serve

    def announce(devices: Address, people: Address, token: str | None) -> None:
        for address in (devices, people):
            warn_if_exposed("ask", address)
        here = ServerAddresses(args.url or devices.url, people.url, devices.url)
        _show(args, published, here, token)
        if not args.json:
            print("Stop with Ctrl-C; to start again: deniable serve", option(args.data), flush=True)

    own_key = args.data / KEY_FILE if args.key is None else None
    settings = Settings(
        limit=args.limit,
        proxies=tuple(args.proxy),
        device_url=args.url or "",
        signing_key=own_key,
    )
    serve(args.data, (args.host, args.port), people_address(args), announce, settings)
    return 0


def _show(
    args: Namespace, published: PublishedSurvey, server: ServerAddresses, token: str | None = None
) -> int:
    """Print the link, its QR code, who can open it, and where the results are."""
    url, survey = args.url or server.devices, published.survey
    link, results = f"{url}/ask/{published.name}", f"{server.people}/surveys/{published.id}"
    results += f"?token={token}" if token else ""
    document = {
        "id": published.id,
        "name": published.name,
        "link": link,
        "reaches": reach(url),
        "by_invitation": survey.by_invitation,
        "results": results,
        "token": token,
    }
    lines = [survey.title, *_invitation_lines(args, published, url), f"Ask with this link: {link}"]
    if survey.by_invitation:
        lines.pop()
    else:
        lines += ["", qr_code(link)]
    lines += [REACHES[reach(url)], "", f"Results: {results}", _end(survey, published, args)]
    return show(args, document, [*lines, *([] if args.key else [OWN_KEY])])


def _invitation_lines(args: Namespace, published: PublishedSurvey, url: str) -> list[str]:
    if not published.survey.by_invitation:
        return []
    command = f"deniable invite {published.name} --count 30 --url {url} {option(args.data)}"
    return [f"Each answer needs a code. Print links with codes: {command}"]


def _end(survey: Survey, published: PublishedSurvey, args: Namespace) -> str:
    enough = f", or after {quantity(survey.close_at, 'answer')}" if survey.close_at else ""
    close = f"deniable survey close {published.name} {option(args.data)}"
    return f"It closes after {survey.closes}{enough}. To close it now: {close}"


def reach(url: str) -> str:
    """Return who can open a link, as a key of REACHES."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if is_loopback(host):
        return "machine"
    if parts.scheme != "https":
        return "no one else"
    try:
        return "network" if ip_address(host).is_private else "everyone"
    except ValueError:
        return "network" if "." not in host or host.endswith((".local", ".lan")) else "everyone"


def qr_code(link: str) -> str:
    """Return a QR code as text, two rows of squares in each line."""
    import io

    import segno

    text = io.StringIO()
    segno.make_qr(link, error="m").terminal(out=text, compact=True)
    return text.getvalue().rstrip("\n")


# Questions to the author


def _asked_draft(people: int | None) -> Draft:
    """Ask for title, question, options, people, ε and name, one after another."""
    from deniable.server.surveys.link_surveys import USUAL_PEOPLE, Draft, LinkQuestion

    try:
        title = _input("Title of the survey")
        question = _input("Your question")
        options = _input("Options, separated by commas", "yes or no").split(",")
        kind = "bit" if len(options) == 1 else "choice"
        asked = LinkQuestion(question, kind, [option.strip() for option in options])
        people = people or _whole(_input("About how many people will answer", str(USUAL_PEOPLE)))
        draft = Draft(title, [asked], people=people)
        print(*epsilon_lines(draft), RECOMMENDED.format(draft.epsilon), sep="\n")
        draft = replace(draft, epsilon=_input("ε", draft.epsilon))
        return replace(draft, owner=_input("Who asks, as shown to respondents", draft.owner))
    except EOFError:
        raise WrongUse("the input ended; nothing was written") from None


def epsilon_lines(draft: Draft) -> list[str]:
    """Return what each ε would mean for a respondent, and for the results."""
    from deniable.server.planning.small_groups import people_sentences
    from deniable.server.surveys.survey_file import parse_survey_file
    from deniable.shared.survey.phrases import ENGLISH, question_odds

    number = len(draft.questions)
    lines = ["ε limits what one report can reveal about a person. A smaller ε protects better:"]
    for epsilon in EPSILONS:
        survey = parse_survey_file(replace(draft, epsilon=epsilon).toml(today_in_utc()))
        odds = question_odds(survey.round_billionths, 1, ENGLISH).strip()
        each = f" for each of {number} questions" if number > 1 else ""
        lines.append(f"  ε {epsilon}{each}: {odds[0].lower()}{odds[1:]}")
        lines += [f"         {says}" for says in people_sentences(survey, draft.people)]
    return lines


def _input(prompt: str, otherwise: str = "") -> str:
    while True:
        text = input(f"{prompt}{f' [{otherwise}]' if otherwise else ''}: ").strip() or otherwise
        if text:
            return text
        print("Type at least one character.")


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) > 0):
        raise WrongUse(f"expected a whole number of people above 0, got {text!r}")
    return int(text)


# Invitations


def _invite_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("survey", metavar="SURVEY", help="a name, an id, or its beginning")
    parser.add_argument(
        "--count", type=int, required=True, metavar="N", help="number of single-use links to print"
    )
    place = parser.add_mutually_exclusive_group()
    place.add_argument(
        "--url",
        type=url_of_a_server,
        default="http://127.0.0.1:8000",
        metavar="URL",
        help="public address of the server (default: %(default)s, for this machine only)",
    )
    place.add_argument(
        "--page",
        type=_page_address,
        metavar="URL",
        help="address of a copy of the page on another host, or of a page that embeds the survey",
    )
    add_place(parser, otherwise=FOLDER)
    add_json(parser)


def _page_address(text: str) -> str:
    parts = urlsplit(text)
    if "#" in text or not parts.hostname or parts.scheme not in ("http", "https"):
        raise ArgumentTypeError(
            "expected the address of a page, like https://host.example/late.html"
        )
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise ArgumentTypeError("browsers can answer only over https, or on this machine")
    return text


def _invite(args: Namespace) -> int:
    from deniable.server.http.tokens import invitation_hash, new_invitation

    if not 1 <= args.count <= MAX_INVITATIONS:
        raise WrongUse(f"--count must be from 1 to {MAX_INVITATIONS:,}, got {args.count}")
    with opened(args) as (store, catalogue):
        published = catalogue.find(args.survey)
        if not published.survey.by_invitation:
            raise Refused(
                f"{published.name} is open to everyone with its link; to ask by invitation, write "
                "invitation = true in its [survey] table, and publish it again"
            )
        codes = [new_invitation() for _ in range(args.count)]
        store.invite(published.sequence, [invitation_hash(code) for code in codes])
    page = args.page or f"{args.url}/ask/{published.name}"
    links = [f"{page}#{code}" for code in codes]
    print(HAND_OUT, file=sys.stderr)
    return show(args, {"id": published.id, "name": published.name, "links": links}, links)


ASK = Verb(
    "ask",
    "publish a survey and print the link where people answer it",
    _ask_arguments,
    _ask,
    group="ask",
    example="deniable ask --template yes-no",
)
INVITE = Verb(
    "invite",
    "print single-use links to a survey by invitation",
    _invite_arguments,
    _invite,
    group="ask",
    example="deniable invite our-team --count 200 --url https://ask.example.org",
)
