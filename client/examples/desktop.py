"""A desktop script that runs a program and reports whether it succeeded.

    python client/examples/desktop.py --survey app-health.json -- make test

It asks for consent once, on a terminal, in the survey's own words. It answers for every run, good
or bad, because an answer only after a crash would reveal the crash. Its exit code is that of the
program.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

from deniable.client import Client, Policy, state_folder

ASKED = {"crashed": "bit", "minutes": "number", "browser": "choice"}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--survey", type=Path, required=True, help="the shipped survey")
    parser.add_argument("--server", default="http://127.0.0.1:8000")
    parser.add_argument("program", nargs="+", help="the program to run")
    args = parser.parse_args()
    shipped = args.survey.read_bytes()
    policy = Policy(keys=[json.loads(shipped)["key"]], questions=ASKED)
    state = state_folder("deniable-desktop-example")
    begun = time.monotonic()
    code = subprocess.call(args.program)
    minutes = (time.monotonic() - begun) / 60
    with Client(args.server, policy=policy, state=state) as client:
        client.ask("app-health", shipped=shipped)
        outcome = client.answer("app-health", crashed=code != 0, minutes=minutes, browser=None)
    print(f"{outcome.status}: {outcome.detail}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
