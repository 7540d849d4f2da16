"""`deniable results` and `deniable share`: the estimates of a survey, and pages that show them."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from deniable.server.cli.store_arguments import add_place, opened
from deniable.server.process.server_requests import TOKEN
from deniable.shared.cli.verb import Verb, add_json, show
from deniable.shared.errors import Refused

if TYPE_CHECKING:
    from deniable.server.alerts.rules import Rule
    from deniable.server.results import Results, Round
    from deniable.server.store import Share

DEFAULT_SHARE_DAYS = 30


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("survey", metavar="SURVEY", help="a name, an id or its beginning")
    add_place(parser).add_argument("--server", metavar="URL", help="ask a server over HTTP")
    parser.add_argument(
        "--token", help=f"an analyst's token for --server; {TOKEN} in the environment is safer"
    )
    parser.add_argument("--round", metavar="N", help="only this round: its number or a day in it")
    parser.add_argument("--from", dest="first", metavar="N", help="only this round and later ones")
    parser.add_argument("--until", dest="last", metavar="N", help="only this and earlier rounds")
    parser.add_argument(
        "--by", choices=("week", "month", "event", "all"), help="pool the rounds of each period"
    )
    parser.add_argument(
        "--language",
        default="",
        metavar="TAG",
        help="show the survey's own texts in this language, like de, if it has several",
    )
    parser.add_argument(
        "--against",
        metavar="SURVEY",
        help="show differences from this survey, or from a period like 2026-12-01..2026-12-07",
    )
    parser.add_argument(
        "--fail-if",
        action="append",
        default=[],
        metavar="RULE",
        help='exit with 1 if the whole interval is beyond the bound, like "crashed > 5 %%"; judges '
        "the newest of the rounds shown that has an estimate; may be repeated",
    )
    add_forms(parser)


def add_forms(parser: ArgumentParser) -> None:
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON document")
    form.add_argument("--csv", action="store_true", help="print a table in CSV")


def run(args: Namespace) -> int:
    from deniable.server.alerts.rules import Rule
    from deniable.server.analysis import local_estimates
    from deniable.server.results import csv_chunks, json_chunks
    from deniable.server.results.export import report_lines

    rules = [Rule.parse(text) for text in args.fail_if]
    if args.against:
        return _compare(args)
    if args.server:
        header, rounds = _from_server(args)
    else:
        estimates = local_estimates(args.data, args.survey, _rounds(args), args.by, args.language)
        header, rounds = estimates.header, estimates.rounds()
    status = 0
    if rules:  # before anything is printed
        rounds = [*rounds]
        status = max([_judge(rule, header, header.periods or rounds) for rule in rules])
    if args.json:
        sys.stdout.writelines(chunk.decode() for chunk in json_chunks(header, rounds))
        print()
    elif args.csv:
        sys.stdout.writelines(line.replace("\r\n", "\n") for line in csv_chunks(header, rounds))
    else:
        sys.stdout.writelines(f"{line}\n" for line in report_lines(header, rounds))
    return status


def _judge(rule: Rule, header: Results, rounds: Sequence[Round]) -> int:
    """Print the verdict on standard error; return 1 if the rule holds."""
    from deniable.server.alerts.rules import newest_verdict

    verdict = newest_verdict(rule, header, rounds)
    if verdict is None:
        judged = "not judged: no round has an estimate"
    else:
        judged = f"{'fails' if verdict.holds else 'passes'}: {verdict.sentence}"
    print(f"deniable results: {rule.text} {judged}", file=sys.stderr)
    return int(verdict is not None and verdict.holds)


def _compare(args: Namespace) -> int:
    import msgspec

    from deniable.server.analysis import stored_comparison
    from deniable.server.results.export import comparison_lines
    from deniable.shared.errors import WrongUse

    if args.server or args.csv or args.fail_if:
        raise WrongUse(
            "--against compares surveys or periods of one store: use --data, and neither --csv nor "
            "--fail-if"
        )
    compared = stored_comparison(args.data, args.survey, args.against, _rounds(args), args.language)
    if args.json:
        print(msgspec.json.encode(compared).decode())
    else:
        print("\n".join(comparison_lines(compared)))
    return 0


def _from_server(args: Namespace) -> tuple[Results, Iterable[Round]]:
    import msgspec

    from deniable.server.analysis import remote_results

    more = {"by": args.by, "language": args.language}
    asked = _rounds(args) | {key: text for key, text in more.items() if text}
    results = remote_results(args.server, args.survey, asked, args.token)
    return msgspec.structs.replace(results, rounds=()), results.rounds


def _rounds(args: Namespace) -> dict[str, str]:
    """Return the limits of the rounds that are given."""
    given = {"round": args.round, "from": args.first, "until": args.last}
    return {name: text for name, text in given.items() if text is not None}


# Shared pages


def share_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("survey", metavar="SURVEY", help="a name, an id or its beginning")
    parser.add_argument(
        "--days",
        type=int,
        default=DEFAULT_SHARE_DAYS,
        metavar="N",
        help="days for which the page can be read (default: %(default)s)",
    )
    view = parser.add_mutually_exclusive_group()
    view.add_argument("--round", metavar="N", help="show this round: its number or a day in it")
    view.add_argument(
        "--by", default="", choices=("week", "month", "event", "all"), help="show pooled periods"
    )
    parser.add_argument(
        "--language", default="", metavar="TAG", help="show the survey's texts in this language"
    )
    parser.add_argument(
        "--linked", action="store_true", help="link to it for people who have answered at /ask/"
    )
    action = parser.add_mutually_exclusive_group()
    action.add_argument(
        "--list", action="store_true", help="list the survey's shared pages instead"
    )
    action.add_argument(
        "--revoke",
        nargs="?",
        const="",
        metavar="ADDRESS",
        help="stop sharing the page at ADDRESS instead, or without one, all pages of the survey",
    )
    parser.add_argument(
        "--device-url",
        default="http://127.0.0.1:8000",
        metavar="URL",
        help="the server's URL for devices, as in `deniable serve` (default: %(default)s)",
    )
    add_place(parser)
    add_json(parser)


def run_share(args: Namespace) -> int:
    from deniable.server.results.periods import parse_round
    from deniable.server.store import COMMAND
    from deniable.server.surveys.shared_results import share_results

    now = datetime.now(UTC)
    with opened(args) as (store, catalogue):
        published = catalogue.find(args.survey).in_language(args.language)
        shares = [one for one in store.shares() if one.survey == published.sequence]
        if args.revoke is not None:
            chosen = [one for one in shares if args.revoke.endswith(one.path) or not args.revoke]
            if not chosen:
                raise Refused(f"{published.name} has no such shared page; use --list to see all")
            shares = [one for one in chosen if store.revoke_share(one.path, COMMAND)]
        elif not args.list:
            number = None if args.round is None else parse_round(published.survey, args.round)
            view = args.by, number, args.linked
            shares = [share_results(store, published, COMMAND, now, args.days, *view)]
    rows = [_row(one, args.device_url) for one in shares]
    done = "revoked" if args.revoke is not None else "until {expires}, by {actor} on {created}"
    lines = [f"{{address}}  {done}".format(**row) for row in rows]
    return show(args, {"shares": rows}, lines or [f"{published.name} has no shared pages"])


def _row(share: Share, url: str) -> dict[str, object]:
    return {
        "address": f"{url.rstrip('/')}{share.path}",
        "created": share.created.isoformat(),
        "expires": share.expires.isoformat(),
        "actor": share.actor,
        "by": share.division,
        "round": share.round,
        "language": share.language,
        "linked": share.is_linked,
    }


RESULTS = Verb(
    "results",
    "show a survey's estimates with their intervals",
    arguments,
    run,
    group="ask",
    example="deniable results app-health --data ./data",
)
SHARE = Verb(
    "share",
    "share a survey's results at a secret address",
    share_arguments,
    run_share,
    group="ask",
    example="deniable share app-health --days 7 --data ./data",
)
