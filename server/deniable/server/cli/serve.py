"""`deniable serve`: the aggregation server."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from deniable.shared.cli.verb import Verb


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="the data folder")
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

    data: Path = chosen.data

    def ready(url: str, token: str | None) -> None:
        if chosen.json:
            print(json.dumps({"url": url, "token": token}), flush=True)
        else:
            print(_greeting(data, url, token), flush=True)

    serve(data, chosen.host, chosen.port, ready, trust_clock=chosen.trust_clock)
    if not chosen.json:
        print("deniable serve: stopped", file=sys.stderr)
    return 0


def _greeting(data: Path, url: str, token: str | None) -> str:
    if token is None:
        return (
            f"Serving {data} at {url}\n"
            "Sign in with a token; to make a new one: "
            f"deniable token create --role operator --data {data}"
        )
    return (
        f"Serving {data} at {url}\n"
        f"Open the dashboard, with the first operator's token, shown this once:\n"
        f"    {url}/?token={token}\n"
        f"Stop with Ctrl-C."
    )


SERVE = Verb("serve", "run the aggregation server", arguments, run)
