"""`deniable doctor`: diagnose why reports do not arrive, and how to fix it."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator

from deniable.shared.cli.verb import Finding, Verb, add_json, show_findings
from deniable.shared.errors import WrongUse
from deniable.shared.survey.participation import MAX_EPSILON

MAX_TIMEOUT_SECONDS = 3_600


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--server", metavar="URL", help="check the connection to a server and its list"
    )
    parser.add_argument(
        "--key", action="append", metavar="HEX", help="also check which surveys this key has signed"
    )
    parser.add_argument("--state", metavar="DIR", help="check an app's state folder")
    parser.add_argument("--person", metavar="ID", help="the app's id of a person in that folder")
    cap = "the app's cap of a quarter (%(default)s)"
    parser.add_argument("--max-epsilon", default=MAX_EPSILON, metavar="E", help=cap)
    parser.add_argument("--ca", metavar="FILE", help="trust only the authorities in FILE")
    parser.add_argument("--proxy", metavar="URL", help="an HTTP proxy")
    parser.add_argument(
        "--timeout", type=float, default=10.0, metavar="SECONDS", help="how long to wait"
    )
    add_json(parser)


def run(args: Namespace) -> int:
    if args.server is None and args.state is None:
        raise WrongUse("choose what to check: --server URL, --state DIR, or both")
    if not 0 < args.timeout <= MAX_TIMEOUT_SECONDS:
        allowed = f"above 0 and at most {MAX_TIMEOUT_SECONDS} seconds"
        raise WrongUse(f"--timeout must be {allowed}, got {args.timeout}")
    return show_findings(_findings(args), args)


def _findings(args: Namespace) -> Iterator[Finding]:
    if args.server is not None:
        from deniable.client.health_checks import check_server

        network = {"ca": args.ca, "proxy": args.proxy, "timeout": args.timeout}
        yield from check_server(args.server, args.key or [], **network)
    if args.state is not None:
        from deniable.client.health_checks import check_folder

        yield from check_folder(args.state, args.max_epsilon, args.person)


DOCTOR = Verb(
    "doctor",
    "diagnose why reports do not arrive",
    arguments,
    run,
    group="server",
    example="deniable doctor --server https://surveys.example --key KEY --state ./device",
)
