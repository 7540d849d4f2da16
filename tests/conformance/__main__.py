"""Check a client against the protocol: python -m tests.conformance [--only CHECK,...] COMMAND..."""

from __future__ import annotations

import argparse

from tests.conformance.checks import run
from tests.conformance.claims import CHECKS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("--only", default="", help="names of checks, with commas between")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="what starts the client")
    options = parser.parse_args()
    failed = 0
    for name in options.only.split(",") if options.only else CHECKS:
        wrong = run(options.command, name)
        failed += wrong is not None
        print("ok     " if wrong is None else "FAILED ", name, wrong or "", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
