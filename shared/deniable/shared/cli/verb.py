"""A verb of the `deniable` command, and how verbs print: one JSON document, or lines of text."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, asdict, dataclass


@dataclass(frozen=True)
class Verb:
    """A verb. `run` returns the exit code: 0 for success, 1 for a finding.

    Each part lists its verbs in its `verbs.py`. Import heavy libraries inside `run`.
    """

    name: str
    summary: str
    arguments: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], int]
    _: KW_ONLY
    example: str  # a line for the shell that works as written
    option: str | None = None  # selects this verb where several parts bring the same name
    also: tuple[Verb, ...] = ()  # the verbs of the same name from other parts


@dataclass(frozen=True)
class Finding:
    """One check of `deniable doctor`, whichever part ran it."""

    check: str
    well: bool
    says: str
    cure: str = ""


def add_json(*parsers: ArgumentParser) -> None:
    """Add the option --json, which `show` reads."""
    for parser in parsers:
        parser.add_argument("--json", action="store_true", help="print one JSON document")


def show(args: Namespace, document: object, lines: Iterable[str]) -> int:
    """Print the document with --json, else the lines; return the exit code for success.

    Lines from a generator are computed only when they are printed.
    """
    if args.json:
        print(json.dumps(document, ensure_ascii=False))
    else:
        for line in lines:
            print(line)
    return 0


def show_findings(findings: Iterable[Finding], args: Namespace) -> int:
    """Print what `deniable doctor` found; return 1 if a check failed, else 0."""
    checks = list(findings)
    well = all(finding.well for finding in checks)
    lines = (line for finding in checks for line in _finding_lines(finding))
    show(args, {"well": well, "checks": [asdict(finding) for finding in checks]}, lines)
    return 0 if well else 1


def _finding_lines(finding: Finding) -> list[str]:
    line = f"{'ok   ' if finding.well else 'FAULT'}  {finding.check}: {finding.says}"
    return [line, f"       {finding.cure}"] if finding.cure else [line]
