"""`deniable relay`: pass sealed reports on, in shuffled batches and without addresses."""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser, Namespace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from deniable.server.cli.serve import EXPOSED, is_loopback
from deniable.server.process.settings import TOKEN
from deniable.shared.cli.verb import Verb
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


def run(chosen: Namespace) -> int:
    from deniable.server.process.server_requests import checked
    from deniable.server.relay.forwarder import Settings
    from deniable.server.relay.relay_process import relay
    from deniable.shared.sealed_envelope import BATCH

    token = chosen.token or os.environ.get(TOKEN)
    if not token:
        raise WrongUse(f"a relay needs an app token of the server: set {TOKEN}, or give --token")
    chosen.batch = BATCH if chosen.batch is None else chosen.batch
    if chosen.batch < 1 or chosen.most < 1 or not 0 < chosen.hours < float("inf"):
        raise WrongUse("--batch and --most must be 1 or more, and --hours above 0")
    settings = Settings(
        server=checked(chosen.to, "--to"),
        token=token.strip(),
        folder=chosen.data,
        batch=chosen.batch,
        longest_seconds=3600 * chosen.hours,
        max_bytes=chosen.most * 2**20,
    )
    relay(settings, chosen.host, chosen.port, partial(_say, chosen))
    if not chosen.json:
        print("deniable relay: stopped", file=sys.stderr)
    return 0


def _say(chosen: Namespace, address: Address) -> None:
    if not is_loopback(chosen.host):
        print(EXPOSED.format(verb="relay", host=chosen.host), file=sys.stderr, flush=True)
    text = f"Relaying from {address.url} to {chosen.to}, {chosen.batch:,} or more at a time"
    print(json.dumps({"url": address.url}) if chosen.json else text, flush=True)


RELAY = Verb(
    "relay",
    "pass sealed reports on, in shuffled batches and without addresses",
    arguments,
    run,
    example="deniable relay --to https://stats.example.org --data ./held",
)
