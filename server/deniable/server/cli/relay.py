"""`deniable relay`: pass sealed reports on, in shuffled batches and without addresses."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from deniable.server.cli.serve import warn_if_exposed
from deniable.server.process.settings import TOKEN
from deniable.shared.cli.verb import Verb, show
from deniable.shared.errors import WrongUse

if TYPE_CHECKING:
    from deniable.server.process.addresses import Address

HOURS, MEGABYTES = 24.0, 256


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--to", required=True, metavar="URL", help="the aggregation server")
    parser.add_argument(
        "--data",
        required=True,
        type=Path,
        metavar="DIR",
        help="folder that holds the waiting batch",
    )
    parser.add_argument(
        "--token", help=f"app token of the aggregation server; {TOKEN} in the environment is safer"
    )
    parser.add_argument(
        "--batch",
        type=int,
        metavar="N",
        help="send a batch when it holds at least N envelopes (default: 1000)",
    )
    parser.add_argument(
        "--hours",
        type=float,
        default=HOURS,
        help="send a smaller batch after this many hours (default: %(default)g)",
    )
    parser.add_argument(
        "--most",
        type=int,
        default=MEGABYTES,
        metavar="MB",
        help="hold at most this many megabytes; beyond that, ask senders to retry later "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--host", default="127.0.0.1", help="where to listen (default: %(default)s)"
    )
    parser.add_argument(
        "--port",
        type=int,
        default=8002,
        help="port to listen on; 0 picks any free port (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON when ready")


def run(args: Namespace) -> int:
    from deniable.server.process.server_requests import checked
    from deniable.server.relay.forwarder import Settings
    from deniable.server.relay.relay_process import relay
    from deniable.shared.sealed_envelope import BATCH

    token = args.token or os.environ.get(TOKEN)
    if not token:
        raise WrongUse(f"a relay needs an app token of the server: set {TOKEN}, or give --token")
    args.batch = BATCH if args.batch is None else args.batch
    if args.batch < 1 or args.most < 1 or not 0 < args.hours < float("inf"):
        raise WrongUse("--batch and --most must be 1 or more, and --hours above 0")
    settings = Settings(
        server=checked(args.to, "--to"),
        token=token.strip(),
        folder=args.data,
        batch=args.batch,
        longest_seconds=3600 * args.hours,
        max_bytes=args.most * 2**20,
    )
    relay(settings, args.host, args.port, partial(_say, args))
    if not args.json:
        print("deniable relay: stopped", file=sys.stderr)
    return 0


def _say(args: Namespace, address: Address) -> None:
    warn_if_exposed("relay", args.host)
    text = f"Relaying from {address.url} to {args.to}, {args.batch:,} or more at a time"
    show(args, {"url": address.url}, [text])


RELAY = Verb(
    "relay",
    "pass sealed reports on, in shuffled batches and without addresses",
    arguments,
    run,
    example="deniable relay --to https://stats.example.org --data ./held",
)
