"""The `deniable` command: in this process, as a start takes longer than what most verbs do; or in a
process of its own, where it would serve if it did not refuse to."""

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
    """In this process."""
    out, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(errors):
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as end:  # as a parser ends
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
    """In a process of its own."""
    command = [*DENIABLE, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)


def deniable(*arguments: str) -> dict[str, Any]:
    """Run a command alone, and return the JSON that it prints."""
    done = run_alone(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document
