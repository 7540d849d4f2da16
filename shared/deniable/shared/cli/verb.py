"""Verbs of the `deniable` command, and their output: one JSON document, or lines of text."""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, asdict, dataclass
from typing import Literal, TypeVar

Item = TypeVar("Item")
Group = Literal["start", "ask", "app", "server", "research"]
TITLES: Mapping[Group, str] = {  # in the order of `deniable help`
    "start": "start here",
    "ask": "ask people, and read the results",
    "app": "build an app that answers",
    "server": "run a server or a relay",
    "research": "prove and simulate",
}
RED, GREEN, PLAIN = "\033[31m", "\033[32m", "\033[0m"


@dataclass(frozen=True)
class Verb:
    """Verb of the command. `run` returns the exit code: 0 for success, 1 for a finding.

    Each part lists its verbs in its `verbs.py`. Import heavy libraries inside `run`.
    """

    name: str
    summary: str
    arguments: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], int]
    _: KW_ONLY
    group: Group  # the readers who need it, for `deniable help`
    example: str  # a command line that works as printed
    option: str | None = None  # selects this verb if several parts have a verb of the same name
    also: tuple[Verb, ...] = ()  # other parts' verbs of the same name


@dataclass(frozen=True)
class Finding:
    """Result of one check of `deniable doctor`, in any part."""

    check: str
    well: bool
    says: str
    cure: str = ""


def add_json(*parsers: ArgumentParser) -> None:
    for parser in parsers:
        parser.add_argument("--json", action="store_true", help="print one JSON document")


def show(args: Namespace, document: object, lines: Iterable[str]) -> int:
    """Print the document with --json, else the lines; return the exit code for success.

    Lines from a generator are computed only when they are printed. The output is flushed, because
    `serve` continues to run.
    """
    if args.json:
        print(json.dumps(document, ensure_ascii=False))
    else:
        for line in lines:
            print(line)
    sys.stdout.flush()
    return 0


def coloured(text: str, colour: str) -> str:
    """Return the text in a colour if the output is a terminal that shows colours."""
    plain = not sys.stdout.isatty() or os.environ.get("TERM") == "dumb"
    return text if plain or os.environ.get("NO_COLOR") else f"{colour}{text}{PLAIN}"


def with_progress(items: Iterable[Item], noun: str) -> Iterator[Item]:
    """Yield the items, and count them on standard error if it is a terminal."""
    for number, item in enumerate(items, 1):
        if sys.stderr.isatty():
            print(f"\r{number} {noun}", end="", file=sys.stderr)
        yield item
    if sys.stderr.isatty():
        print(file=sys.stderr)


def show_findings(findings: Iterable[Finding], args: Namespace) -> int:
    """Print the findings of `deniable doctor`; return 1 if a check failed, else 0."""
    checks = list(findings)
    well = all(finding.well for finding in checks)
    lines = (line for finding in checks for line in _finding_lines(finding))
    show(args, {"well": well, "checks": [asdict(finding) for finding in checks]}, lines)
    return 0 if well else 1


def _finding_lines(finding: Finding) -> list[str]:
    mark = coloured("ok   ", GREEN) if finding.well else coloured("FAULT", RED)
    line = f"{mark}  {finding.check}: {finding.says}"
    return [line, f"       {finding.cure}"] if finding.cure else [line]
