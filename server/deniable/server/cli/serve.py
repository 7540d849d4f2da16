"""`deniable serve`: the aggregation server."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from deniable.server.cli.place import add_place, option
from deniable.shared.cli.verb import Verb

if TYPE_CHECKING:
    from deniable.server.store import Place


def arguments(parser: ArgumentParser) -> None:
    add_place(parser)
    parser.add_argument(
        "--host", default="127.0.0.1", help="where to listen (default: %(default)s)"
    )
    parser.add_argument(
        "--port", type=int, default=8000, help="0: any free port (default: %(default)s)"
    )
    parser.add_argument(
        "--trust-clock", action="store_true", help="today's date is right, also after a long pause"
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON when ready")


def run(chosen: Namespace) -> int:
    from deniable.server.process.serving import serve

    place: Place = chosen.data

    def ready(url: str, token: str | None) -> None:
        if chosen.json:
            print(json.dumps({"url": url, "token": token}), flush=True)
        else:
            print(_greeting(place, url, token), flush=True)

    serve(place, chosen.host, chosen.port, ready, trust_clock=chosen.trust_clock)
    if not chosen.json:
        print("deniable serve: stopped", file=sys.stderr)
    return 0


def _greeting(place: Place, url: str, token: str | None) -> str:
    if token is None:
        return (
            f"Serving {place} at {url}\n"
            "Sign in with a token; to make a new one: "
            f"deniable token create --role operator {option(place)}"
        )
    return (
        f"Serving {place} at {url}\n"
        f"Open the dashboard, with the first operator's token, shown this once:\n"
        f"    {url}/?token={token}\n"
        f"Stop with Ctrl-C."
    )


SERVE = Verb("serve", "run the aggregation server", arguments, run)
