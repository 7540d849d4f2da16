"""`deniable answer`: one answer from a shell, for cron and for devices without a Python app.

Neither its output nor its exit code depends on an answer: a value that does not fit is answered
like any other.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from contextlib import suppress
from typing import TYPE_CHECKING

from deniable.shared.cli.verb import Verb, add_json, show
from deniable.shared.errors import WrongUse
from deniable.shared.survey.participation import LIFETIME, QUARTER

if TYPE_CHECKING:
    from deniable.client import Client, Outcome
    from deniable.client.policy import Policy
    from deniable.shared.survey.document import Survey

DEFAULT_FOLDER = "~/.local/state/deniable"
EPILOG = """\
Write answers as name=value: yes or no (also true, false, 1, 0), a number, or the text of an option.
A value that does not fit is answered at random, at the same charge, without a message. Every user
of the machine can see a command line: name=- reads that value from standard input, and a single -
reads all of them as one JSON object.

Exit codes, whatever the answers are:
  0  queued (and sent, unless stated otherwise), already answered, or not drawn for this round
  1  budget-spent, closed, no-survey or no-consent
  2  wrong use
  3  refused, or unavailable: no list of surveys, or a state that cannot be used
"""
MAX_DIGITS = 1_000  # Python refuses longer numbers, so the value would decide the exit code
EXIT_CODES = {"queued": 0, "already-answered": 0, "not-drawn": 0, "refused": 3, "unavailable": 3}
CAPS = ("max_epsilon", "max_epsilon_per_survey", "max_epsilon_per_round", "per")


def arguments(parser: ArgumentParser) -> None:
    parser.epilog, parser.formatter_class = EPILOG, RawDescriptionHelpFormatter
    parser.add_argument("survey", metavar="SURVEY", help="a survey's name or id")
    parser.add_argument("answers", nargs="*", metavar="NAME=VALUE", help="an answer; see below")
    parser.add_argument("--server", required=True, metavar="URL", help="address of the server")
    parser.add_argument(
        "--key", required=True, action="append", metavar="HEX", help="a public key to trust"
    )
    parser.add_argument(
        "--state",
        default=DEFAULT_FOLDER,
        metavar="DIR",
        help=f"the state folder ({DEFAULT_FOLDER})",
    )
    parser.add_argument(
        "--max-epsilon", metavar="E", help="the maximum ε to spend in this folder each quarter"
    )
    parser.add_argument("--max-epsilon-per-survey", metavar="E", help="the same for one survey")
    parser.add_argument("--max-epsilon-per-round", metavar="E", help="the same for one round")
    parser.add_argument(
        "--per", choices=(QUARTER, LIFETIME), help="how long these limits hold (quarter)"
    )
    parser.add_argument(
        "--ca", metavar="FILE", help="a file of certificates that replaces the usual authorities"
    )
    parser.add_argument("--proxy", metavar="URL", help="an HTTP proxy")
    parser.add_argument(
        "--timeout", type=_seconds, default=10.0, metavar="SECONDS", help="how long to wait"
    )
    parser.add_argument(
        "--yes", action="store_true", help="do not ask for consent: the person has already agreed"
    )
    parser.add_argument(
        "--allow-ci", action="store_true", help="answer also in continuous integration"
    )
    add_json(parser)


def run(args: Namespace) -> int:
    from deniable.client import Client, Policy

    answers = _given_answers(args.answers)
    given = {name: getattr(args, name) for name in CAPS}
    policy = Policy(args.key, **{name: cap for name, cap in given.items() if cap is not None})
    network = {"ca": args.ca, "proxy": args.proxy, "timeout": args.timeout}
    network["allow_ci"] = args.allow_ci
    with Client(args.server, policy=policy, state=args.state, **network) as client:
        _ask_for_consent(client, args, policy)
        outcome = _answer(client, args, answers)
        waiting = client.flush(args.timeout)
    _print(args, outcome, waiting)
    return EXIT_CODES.get(outcome.status, 1)


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ArgumentTypeError("give seconds, like 10") from None  # it may be an answer


def _given_answers(arguments: list[str]) -> dict[str, object]:
    """Parse the answers. No message repeats one."""
    if arguments == ["-"]:
        return _from_json()
    answers: dict[str, object] = {}
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not equals or not name or name in answers:
            raise WrongUse("write each answer once, as name=value; or a single - for JSON")
        answers[name] = value
    piped = [name for name, value in answers.items() if value == "-"]
    if len(piped) > 1:
        raise WrongUse("only one answer can be read from standard input; use a single - for JSON")
    return answers | {name: sys.stdin.readline().strip() if sys.stdin else "" for name in piped}


def _from_json() -> dict[str, object]:
    import json

    try:
        text = sys.stdin.read() if sys.stdin else ""  # None if it is closed
        answers = json.loads(text, parse_int=lambda digits: int(digits[:MAX_DIGITS]))
    except (ValueError, RecursionError):
        answers = None
    if not isinstance(answers, dict):
        raise WrongUse('standard input is not one JSON object, like {"crashed": true}')
    return answers


def _ask_for_consent(client: Client, args: Namespace, policy: Policy) -> None:
    """Ask once. A refusal or withdrawal stays, unless the person consents here."""
    from deniable.client import Budget
    from deniable.shared.survey.phrases import suspicion_growth

    if client.consented:
        return
    if args.yes:
        if client.consented is None:
            client.consent(True)
        return
    if not (sys.stdin and sys.stdin.isatty()):
        if client.consented is None and isinstance(client.budget(), Budget):  # it can be read
            raise WrongUse("no one has agreed yet: run this once on a terminal, or pass --yes")
        return
    of_quarter = " of one quarter" * policy.renews
    print(
        f"Answer surveys of {args.server} from this device? Each answer is randomized first.\n"
        f"For someone who sees every report{of_quarter}, {suspicion_growth(policy.total_cap)}.",
        file=sys.stderr,
    )
    with suppress(EOFError):  # no choice
        client.consent(input("Type yes to agree: ").strip().lower() == "yes")


def _answer(client: Client, args: Namespace, answers: dict[str, object]) -> Outcome:
    """Fetch a list first if there is none: the survey determines how a text is read."""
    from deniable.client import Outcome

    survey = client.survey(args.survey)
    if isinstance(survey, Outcome):
        client.prefetch(args.timeout)
        survey = client.survey(args.survey)
    values = answers if isinstance(survey, Outcome) else _values(survey, answers)
    return client.answer(args.survey, **values)


def _values(survey: Survey, answers: dict[str, object]) -> dict[str, object]:
    questions = {question.name: question for question in survey.questions}
    values = dict(answers)
    for name, text in answers.items():
        if name in questions and isinstance(text, str):
            try:
                values[name] = questions[name].answer_of(text)
            except ValueError:
                continue  # leave an answer that does not fit as text
    return values


def _print(args: Namespace, outcome: Outcome, waiting: int) -> None:
    result = {"status": outcome.status, "detail": outcome.detail, "survey": outcome.survey}
    lines = [f"{outcome.status}: {outcome.detail}"]
    if waiting:
        lines.append(f"reports still waiting to be sent: {waiting}; the next call tries again")
    show(args, result | {"round": outcome.round, "waiting": waiting}, lines)


ANSWER = Verb(
    "answer",
    "answer a survey from a shell, once in each round",
    arguments,
    run,
    group="app",
    example="deniable answer app-health crashed=no --server https://surveys.example --key KEY",
)
