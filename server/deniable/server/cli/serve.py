"""`deniable serve`, the aggregation server, and `deniable relay`, which forwards sealed reports."""

from __future__ import annotations

import os
import re
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from deniable.server.cli.store_arguments import add_place, option
from deniable.server.process.server_requests import TOKEN, checked, is_loopback
from deniable.shared.cli.verb import Verb, show
from deniable.shared.errors import WrongUse

if TYPE_CHECKING:
    from deniable.server.process.addresses import Address

MAX_HOURS = 100_000
EXPOSED = (
    "deniable {verb}: warning: other machines can reach {host}, and this server does not use TLS: "
    "tokens and reports can be read in transit. Listen on 127.0.0.1, behind a proxy with TLS."
)


def serve_arguments(parser: ArgumentParser) -> None:
    add_place(parser)
    add_addresses(parser)
    parser.add_argument(
        "--device-url",
        type=url_of_a_server,
        metavar="URL",
        help="the server's URL for devices, shown in the examples on its pages, like "
        "https://stats.example.org (default: the address for devices)",
    )
    add_limit(parser)
    parser.add_argument(
        "--base-path",
        type=_base_path,
        metavar="PATH",
        help="path prefix of the pages behind a proxy, like /stats; the proxy strips it",
    )
    parser.add_argument(
        "--sealing-key",
        action="append",
        default=[],
        metavar="FILE",
        help="open reports that are sealed to this key; may be repeated",
    )
    parser.add_argument(
        "--relay-key",
        type=_public_key,
        action="append",
        default=[],
        metavar="KEY",
        help="public key of a relay, which `deniable relay` prints; may be repeated",
    )
    parser.add_argument(
        "--signing-key",
        type=Path,
        metavar="FILE",
        help="let operators publish surveys from the dashboard, signed with this key; anyone who "
        "breaks into the server can then publish surveys, too",
    )
    parser.add_argument(
        "--public",
        action="store_true",
        help="show anyone a page about each survey at /public/SURVEY: who asks, what an answer "
        "reveals, and how to stop; no results",
    )
    _add_files(parser)
    parser.add_argument(
        "--trust-clock", action="store_true", help="accept today's date even after a long pause"
    )
    parser.add_argument("--log-json", action="store_true", help="write the log as lines of JSON")
    parser.add_argument("--json", action="store_true", help="print one line of JSON when ready")


def add_addresses(parser: ArgumentParser) -> None:
    _add_address(parser, 8000)
    parser.add_argument(
        "--dashboard-host",
        default="127.0.0.1",
        metavar="HOST",
        help="address for people: dashboard, results, publishing (default: %(default)s)",
    )
    parser.add_argument(
        "--dashboard-port",
        type=int,
        metavar="PORT",
        help="port for people; 0 picks any free port (default: the port after --port)",
    )


def people_address(args: Namespace) -> tuple[str, int]:
    port = args.dashboard_port
    return args.dashboard_host, (args.port and args.port + 1) if port is None else port


def _add_files(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--known",
        type=Path,
        metavar="FILE",
        help="reference values, for example from a census, to show next to the estimates: CSV "
        "with the columns survey,round,question,label,value",
    )
    parser.add_argument(
        "--alerts",
        type=Path,
        metavar="FILE",
        help="log, and post to a webhook, when a rule begins or ceases to hold, a result changes, "
        "reports are forged or none arrive; TOML with webhook, silent_rounds and [[rule]] tables",
    )


def add_limit(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--limit",
        type=_limit,
        metavar="N",
        help="accept at most N reports of each survey per hour from one /24 or /64 of addresses, "
        "unless they come with an app token or a valid invitation (default: no limit)",
    )
    _add_trusted_proxy(
        parser,
        "trust this proxy to name senders (for --limit), the scheme and the host, in "
        "X-Forwarded-For, -Proto and -Host or in Forwarded",
    )


def _add_trusted_proxy(parser: ArgumentParser, aim: str) -> None:
    parser.add_argument(
        "--proxy",
        type=_address,
        action="append",
        default=[],
        metavar="ADDRESS",
        help=f"{aim}; may be repeated",
    )


def run_serve(args: Namespace) -> int:
    from deniable.server.alerts.rules import read_alerts
    from deniable.server.process.roles import Settings, serve
    from deniable.server.process.webhook import Webhook
    from deniable.server.results.annotations import read_reference_values
    from deniable.shared.survey.keys import load_key, load_sealing_key

    for file in args.sealing_key:  # fail before anything starts; the worker reads the files again
        load_sealing_key(file)
    if args.signing_key is not None:
        load_key(str(args.signing_key))
    if args.known is not None:
        read_reference_values(args.known)
    if args.alerts is not None and (webhook := read_alerts(args.alerts).webhook):
        Webhook(webhook)  # refuses an address without TLS
    settings = Settings(
        limit=args.limit,
        proxies=tuple(args.proxy),
        sealing=tuple(map(str, args.sealing_key)),
        relays=frozenset(args.relay_key),
        base_path=args.base_path or "",
        device_url=args.device_url or "",
        public=args.public,
        signing_key=args.signing_key,
        known=args.known,
        alerts=args.alerts,
        log_json=args.log_json,
        trust_clock=args.trust_clock,
    )
    devices, people = (args.host, args.port), people_address(args)
    serve(args.data, devices, people, partial(_announce, args), settings)
    if not args.json:
        print("deniable serve: stopped", file=sys.stderr)
    return 0


def relay_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--to", required=True, metavar="URL", help="the aggregation server")
    parser.add_argument(
        "--data", required=True, type=Path, metavar="DIR", help="folder that holds waiting reports"
    )
    parser.add_argument(
        "--token", help=f"app token of the aggregation server; {TOKEN} in the environment is safer"
    )
    parser.add_argument(
        "--batch",
        type=int,
        metavar="N",
        help="a batch has at least N envelopes of one survey and round (default: 1000)",
    )
    parser.add_argument(
        "--per-network",
        type=int,
        metavar="N",
        help="at most N envelopes of a batch come from one /24 or /64 of addresses, and the others "
        "wait for the next batch (default: a fiftieth of --batch)",
    )
    parser.add_argument(
        "--hours",
        type=float,
        default=2.0,
        help="send the last batch of a round this many hours before the server stops accepting its "
        "reports (default: %(default)g)",
    )
    parser.add_argument(
        "--most",
        type=int,
        default=256,
        metavar="MB",
        help="hold at most this many megabytes; beyond that, ask senders to retry later "
        "(default: %(default)s)",
    )
    _add_address(parser, 8002)
    _add_trusted_proxy(parser, "trust this proxy to name senders in X-Forwarded-For")
    parser.add_argument(
        "--app-tokens",
        type=Path,
        metavar="FILE",
        help="tokens, one per line, of apps that send for many people from one address: "
        "--per-network does not apply to them",
    )
    parser.add_argument(
        "--metrics",
        type=Path,
        metavar="FILE",
        help="write metrics for Prometheus to this file every minute",
    )
    parser.add_argument("--log-json", action="store_true", help="write the log as lines of JSON")
    parser.add_argument("--json", action="store_true", help="print one line of JSON when ready")


def run_relay(args: Namespace) -> int:
    from deniable.server.relay.forwarder import Settings
    from deniable.server.relay.relay_process import relay
    from deniable.shared.sealed_envelope import BATCH
    from deniable.shared.survey.keys import public_hex

    token = args.token or os.environ.get(TOKEN)
    if not token:
        raise WrongUse(f"a relay needs an app token of the server: set {TOKEN}, or give --token")
    batch = BATCH if args.batch is None else args.batch
    per_network = max(1, batch // 50) if args.per_network is None else args.per_network
    if min(batch, per_network, args.most) < 1 or not 0 < args.hours < MAX_HOURS:
        raise WrongUse(
            "--batch, --per-network and --most must be 1 or more, and --hours above 0 and below "
            f"{MAX_HOURS:,}"
        )
    settings = Settings(
        server=checked(args.to, "--to"),
        token=token.strip(),
        folder=args.data,
        batch=batch,
        per_network=per_network,
        last_seconds=3600 * args.hours,
        max_bytes=args.most * 2**20,
        proxies=tuple(args.proxy),
        app_tokens=_read_tokens(args.app_tokens),
        metrics=args.metrics,
        log_json=args.log_json,
    )

    def announce(address: Address) -> None:
        warn_if_exposed("relay", address)
        key = public_hex(settings.key())
        text = (
            f"Relaying from {address.url} to {args.to}, in batches of {batch:,} or more\n"
            f"The server must know this relay: deniable serve --relay-key {key}"
        )
        show(args, {"url": address.url, "key": key}, [text])

    relay(settings, args.host, args.port, announce)
    if not args.json:
        print("deniable relay: stopped", file=sys.stderr)
    return 0


def _read_tokens(file: Path | None) -> frozenset[str]:
    try:
        return frozenset(file.read_text("ascii").split()) if file else frozenset()
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUse(f"{file} cannot be read as a list of tokens: {error}") from None


def _add_address(parser: ArgumentParser, port: int) -> None:
    parser.add_argument(
        "--host", default="127.0.0.1", help="address for devices (default: %(default)s)"
    )
    parser.add_argument(
        "--port",
        type=int,
        default=port,
        help="port for devices; 0 picks any free port (default: %(default)s)",
    )


def warn_if_exposed(verb: str, address: Address) -> None:
    if not is_loopback(address.host):
        print(EXPOSED.format(verb=verb, host=address.host), file=sys.stderr, flush=True)


def _limit(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) > 0):
        raise ArgumentTypeError(f"expected a whole number above 0, got {text!r}")
    return int(text)


def _public_key(text: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{64}", text, re.ASCII):
        raise ArgumentTypeError(f"expected a public key of 64 hex digits, got {text!r}")
    return text


def _base_path(text: str) -> str:
    if not re.fullmatch(r"(/[A-Za-z0-9._~-]+)+/?", text, re.ASCII):
        raise ArgumentTypeError(f"expected a path like /stats, got {text!r}")
    return text.rstrip("/")


def _address(text: str) -> str:
    try:
        return str(ip_address(text))
    except ValueError:
        raise ArgumentTypeError(f"expected an IP address, got {text!r}") from None


def url_of_a_server(text: str) -> str:
    if not re.fullmatch(r"https?://[A-Za-z0-9._:\[\]-]+(/[A-Za-z0-9._~-]+)*/?", text, re.ASCII):
        raise ArgumentTypeError(f"expected a URL like https://stats.example.org, got {text!r}")
    return text.rstrip("/")


def _announce(args: Namespace, devices: Address, people: Address, token: str | None) -> None:
    for address in (devices, people):
        warn_if_exposed("serve", address)
    text = f"Serving {args.data}: devices send reports to {devices.url}\n"
    if token is None:
        text += (
            f"The dashboard is at {people.url}\n"
            "Sign in with a token; to create one: "
            f"deniable token create --role operator {option(args.data)}"
        )
    else:
        text += (
            "Open the dashboard with the first operator token, which is shown only once:\n"
            f"    {people.url}/?token={token}\n"
            "Stop with Ctrl-C."
        )
    show(args, {"url": devices.url, "dashboard": people.url, "token": token}, [text])


SERVE = Verb(
    "serve",
    "run the aggregation server",
    serve_arguments,
    run_serve,
    group="server",
    example="deniable serve --data ./data --port 8000",
)
RELAY = Verb(
    "relay",
    "forward sealed reports in shuffled batches, without addresses",
    relay_arguments,
    run_relay,
    group="server",
    example="deniable relay --to https://stats.example.org --data ./held",
)
