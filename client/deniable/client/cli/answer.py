"""`deniable answer`: one answer from a shell, for cron and for devices without Python of their own.

Nothing that it prints, nor its exit code, depends on an answer: a value that does not fit is
answered like any other.
"""

from __future__ import annotations

import sys
from argparse import (
    ArgumentParser,
    ArgumentTypeError,
    Namespace,
    RawDescriptionHelpFormatter,
)
from typing import TYPE_CHECKING

from deniable.shared.cli.verb import Verb
from deniable.shared.errors import WrongUse

if TYPE_CHECKING:
    from deniable.client import Client, Outcome
    from deniable.client.policy import Policy
    from deniable.shared.survey.document import Survey

FOLDER = "~/.local/state/deniable"
EPILOG = """\
Answers are written name=value, as the survey has them: yes or no (also true, false, 1, 0), a
number, or the text of an option. A value that does not fit is answered at random, at the same
charge, and nothing here tells. What stands on a command line is seen by every user of the machine:
name=- reads that value from standard input, and a lone - reads all of them as one JSON object.

Exit codes, whatever the answers are:
  0  queued (and sent, unless said otherwise), or already answered in this round
  1  budget-spent, closed, no-survey or no-consent
  2  wrong use
  3  refused, or unavailable: no list of surveys, or a state that cannot be used
"""
EXIT_CODES = {"queued": 0, "already-answered": 0, "refused": 3, "unavailable": 3}


def arguments(parser: ArgumentParser) -> None:
    parser.epilog, parser.formatter_class = EPILOG, RawDescriptionHelpFormatter
    parser.add_argument("survey", metavar="SURVEY", help="a survey's name or id")
    parser.add_argument("answers", nargs="*", metavar="NAME=VALUE", help="an answer; see below")
    parser.add_argument("--server", required=True, metavar="URL")
    parser.add_argument(
        "--key", required=True, action="append", metavar="HEX", help="a public key to trust"
    )
    parser.add_argument(
        "--state", default=FOLDER, metavar="DIR", help=f"the state folder ({FOLDER})"
    )
    parser.add_argument(
        "--max-epsilon", metavar="E", help="the most that is ever spent in this folder"
    )
    parser.add_argument("--max-epsilon-per-round", metavar="E", help="and in one round of a survey")
    parser.add_argument("--ca", metavar="FILE", help="authorities, instead of the usual ones")
    parser.add_argument("--proxy", metavar="URL", help="an HTTP proxy")
    parser.add_argument("--timeout", type=_seconds, default=10.0, metavar="SECONDS")
    parser.add_argument("--yes", action="store_true", help="the person has agreed; asked otherwise")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(chosen: Namespace) -> int:
    from deniable.client import Client, Policy

    said = _said(chosen.answers)
    caps = {
        name: value
        for name in ("max_epsilon", "max_epsilon_per_round")
        if (value := getattr(chosen, name)) is not None
    }
    policy = Policy(chosen.key, **caps)
    network = {"ca": chosen.ca, "proxy": chosen.proxy, "timeout": chosen.timeout}
    with Client(chosen.server, policy=policy, state=chosen.state, **network) as client:
        _ask_for_consent(client, chosen, policy)
        outcome = _answer(client, chosen, said)
        waiting = client.flush(chosen.timeout)
    _print(outcome, waiting, chosen.json)
    return EXIT_CODES.get(outcome.status, 1)


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ArgumentTypeError("give seconds, like 10") from None  # it may be an answer


def _said(arguments: list[str]) -> dict[str, object]:
    """The answers as they were written. No message repeats one."""
    if arguments == ["-"]:
        return _from_json()
    said: dict[str, object] = {}
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not equals or not name or name in said:
            raise WrongUse("write each answer once, as name=value; or a lone - for JSON")
        said[name] = value
    piped = [name for name, value in said.items() if value == "-"]
    if len(piped) > 1:
        raise WrongUse("only one answer can be read from standard input; use a lone - for JSON")
    return said | {name: sys.stdin.readline().strip() for name in piped}


def _from_json() -> dict[str, object]:
    import json

    try:
        said = json.loads(sys.stdin.read())
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise WrongUse('standard input is not one JSON object, like {"crashed": true}')
    return said


def _ask_for_consent(client: Client, chosen: Namespace, policy: Policy) -> None:
    """Once: what was refused or withdrawn stays so, unless a person says otherwise here."""
    from deniable.client import Budget
    from deniable.shared.privacy.promises import odds_change

    if client.consented:
        return
    if chosen.yes:
        if client.consented is None:
            client.consent(True)
        return
    if not sys.stdin.isatty():
        if client.consented is None and isinstance(client.budget(), Budget):  # it can be read
            raise WrongUse("nobody has agreed yet: run it once on a terminal, or state it by --yes")
        return
    print(
        f"Answer surveys of {chosen.server} from this device? Each answer is randomized first.\n"
        f"Everything that is ever sent changes the odds about you {odds_change(policy.total_cap)}.",
        file=sys.stderr,
    )
    client.consent(input("Type yes to agree: ").strip().lower() == "yes")


def _answer(client: Client, chosen: Namespace, said: dict[str, object]) -> Outcome:
    """The list is fetched first, as what a text stands for is told by the survey."""
    from deniable.client import Outcome

    client.prefetch(chosen.timeout)
    survey = client.survey(chosen.survey)
    values = said if isinstance(survey, Outcome) else _values(survey, said)
    return client.answer(chosen.survey, **values)


def _values(survey: Survey, said: dict[str, object]) -> dict[str, object]:
    questions = {question.name: question for question in survey.questions}
    values = dict(said)
    for name, text in said.items():
        if name in questions and isinstance(text, str):
            try:
                values[name] = questions[name].answer_of(text)
            except ValueError:
                continue  # it does not fit, and is answered so
    return values


def _print(outcome: Outcome, waiting: int, as_json: bool) -> None:
    if as_json:
        import json

        said = {"status": outcome.status, "detail": outcome.detail, "survey": outcome.survey}
        print(json.dumps(said | {"round": outcome.round, "waiting": waiting}))
        return
    print(f"{outcome.status}: {outcome.detail}")
    if waiting:
        print(f"reports that still wait to be sent: {waiting}; the next call tries again")


ANSWER = Verb(
    "answer",
    "answer a survey from a shell, once in each round",
    arguments,
    run,
    example="deniable answer app-health crashed=no --server https://surveys.example --key KEY",
)
