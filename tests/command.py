"""Runs of the `deniable` command, in this process or in a separate one.

A run in this process saves the start of a new one, which takes longer than most verbs. Use a
separate process for a command that must refuse to serve: if it served instead, it would not return.
"""

import io
import json
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any

from deniable.shared.cli.command import main
from tests.eventually import PATIENCE

DENIABLE = [
    sys.executable,
    "-c",
    "from deniable.shared.cli.command import main; raise SystemExit(main())",
]


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


def run(*arguments: object) -> Done:
    """Run a command in this process."""
    out, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(errors):
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as end:  # raised by the parser
            code = end.code if isinstance(end.code, int) else 1
    return Done(code, out.getvalue(), errors.getvalue())


def asked_json(*arguments: object) -> dict[str, Any]:
    """Run with --json and return the document, which must be all that standard output contains."""
    done = run(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    table = json.loads(done.stdout)
    assert isinstance(table, dict)
    return table


def run_alone(*arguments: object) -> "subprocess.CompletedProcess[str]":
    """Run a command in a separate process."""
    command = [*DENIABLE, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)


def deniable(*arguments: str) -> dict[str, Any]:
    """Run a command in a separate process, and return the JSON that it prints."""
    done = run_alone(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document
