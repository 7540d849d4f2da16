"""`deniable serve`: the aggregation server."""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from deniable.server.cli.store_arguments import add_place, option
from deniable.server.process.settings import is_loopback
from deniable.shared.cli.verb import Verb, show

if TYPE_CHECKING:
    from deniable.server.process.addresses import Address
    from deniable.server.store import Place

EXPOSED = (
    "deniable {verb}: warning: {host} is reached from other machines, and this server speaks no "
    "TLS: tokens and reports can be read on the way. Listen on 127.0.0.1 behind a proxy that does."
)


def arguments(parser: ArgumentParser) -> None:
    add_place(parser)
    _add_addresses(parser)
    _add_proxy(parser)
    parser.add_argument(
        "--limit",
        type=_limit,
        metavar="N",
        help="of each survey, at most N reports an hour from one /24 or /64 of addresses, unless "
        "they come with an app token (default: any number)",
    )
    parser.add_argument(
        "--sealing-key",
        action="append",
        default=[],
        metavar="FILE",
        help="open the reports that are sealed to this key; may be repeated",
    )
    parser.add_argument(
        "--public",
        action="store_true",
        help="a page about each survey for anyone, at /public/SURVEY: who asks, what an answer "
        "gives away, how to stop; no results",
    )
    parser.add_argument(
        "--known",
        type=Path,
        metavar="FILE",
        help="reference values, such as a census, to draw next to the estimates: CSV with "
        "the columns survey,round,question,label,value",
    )
    parser.add_argument(
        "--trust-clock", action="store_true", help="accept today's date even after a long pause"
    )
    parser.add_argument("--log-json", action="store_true", help="write the log as lines of JSON")
    parser.add_argument("--json", action="store_true", help="print one line of JSON when ready")


def run(args: Namespace) -> int:
    from deniable.server.process.roles import serve
    from deniable.server.process.settings import Settings
    from deniable.server.results.annotations import read_reference_values
    from deniable.shared.survey.keys import load_sealing_key

    for file in args.sealing_key:  # fail before anything starts; the worker reads the files again
        load_sealing_key(file)
    if args.known is not None:
        read_reference_values(args.known)
    people_port = args.port and args.port + 1
    if args.dashboard_port is not None:
        people_port = args.dashboard_port
    settings = Settings(
        limit=args.limit,
        proxies=tuple(args.proxy),
        sealing=tuple(map(str, args.sealing_key)),
        base_path=args.base_path or "",
        device_url=args.device_url or "",
        public=args.public,
        known=args.known,
        log_json=args.log_json,
        trust_clock=args.trust_clock,
    )
    people = args.dashboard_host, people_port
    serve(args.data, (args.host, args.port), people, partial(_announce, args), settings)
    if not args.json:
        print("deniable serve: stopped", file=sys.stderr)
    return 0


def _add_addresses(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--host", default="127.0.0.1", help="where to listen for devices (default: %(default)s)"
    )
    parser.add_argument(
        "--port",
        type=int,
        default=8000,
        help="port for devices; 0 picks any free port (default: %(default)s)",
    )
    parser.add_argument(
        "--dashboard-host",
        default="127.0.0.1",
        metavar="HOST",
        help="where to listen for people: dashboard, results, publishing (default: %(default)s)",
    )
    parser.add_argument(
        "--dashboard-port",
        type=int,
        metavar="PORT",
        help="port for people; 0 picks any free port (default: the port after --port)",
    )
    parser.add_argument(
        "--device-url",
        type=_url,
        metavar="URL",
        help="where devices reach the server, for the examples on its pages, like "
        "https://stats.example.org (default: where it listens)",
    )


def _add_proxy(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--proxy",
        type=_address,
        action="append",
        default=[],
        metavar="ADDRESS",
        help="trust this proxy to name senders (for --limit), the scheme and the host, in "
        "X-Forwarded-For, -Proto and -Host or in Forwarded; may be repeated",
    )
    parser.add_argument(
        "--base-path",
        type=_base_path,
        metavar="PATH",
        help="path prefix of the pages behind a proxy, like /stats; the proxy strips it",
    )


def warn_if_exposed(verb: str, host: str) -> None:
    """Warn an operator if other machines can reach the address."""
    if not is_loopback(host):
        print(EXPOSED.format(verb=verb, host=host), file=sys.stderr, flush=True)


def _limit(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) > 0):
        raise ArgumentTypeError(f"expected a whole number above 0, got {text!r}")
    return int(text)


def _base_path(text: str) -> str:
    """Parse a path, without its trailing slash."""
    if not re.fullmatch(r"(/[A-Za-z0-9._~-]+)+/?", text, re.ASCII):
        raise ArgumentTypeError(f"expected a path like /stats, got {text!r}")
    return text.rstrip("/")


def _address(text: str) -> str:
    from ipaddress import ip_address

    try:
        return str(ip_address(text))
    except ValueError:
        raise ArgumentTypeError(f"expected an IP address, got {text!r}") from None


def _url(text: str) -> str:
    """Parse a URL, without its trailing slash."""
    if not re.fullmatch(r"https?://[A-Za-z0-9._:\[\]-]+(/[A-Za-z0-9._~-]+)*/?", text, re.ASCII):
        raise ArgumentTypeError(f"expected an address like https://stats.example.org, got {text!r}")
    return text.rstrip("/")


def _announce(args: Namespace, devices: Address, people: Address, token: str | None) -> None:
    for address in (devices, people):
        warn_if_exposed("serve", address.host)
    urls = {"url": devices.url, "dashboard": people.url, "token": token}
    show(args, urls, [_greeting(args.data, devices.url, people.url, token)])


def _greeting(place: Place, devices: str, people: str, token: str | None) -> str:
    served = f"Serving {place}: devices send reports to {devices}\n"
    if token is None:
        return (
            f"{served}The dashboard is at {people}\n"
            "Sign in with a token; to make a new one: "
            f"deniable token create --role operator {option(place)}"
        )
    return (
        f"{served}Open the dashboard, with the first operator's token, shown only this once:\n"
        f"    {people}/?token={token}\n"
        f"Stop with Ctrl-C."
    )


SERVE = Verb(
    "serve",
    "run the aggregation server",
    arguments,
    run,
    example="deniable serve --data ./data --port 8000",
)
