"""Reference of the public names, read from the source and stored next to each part.

    python -m tests.reference    rewrites client/REFERENCE.md and the others, and the tables that
                                 the JavaScript client shares with Python

A name is public if its package lists it in `__all__`. Signatures and docstrings are copied from the
source text, so that every version of Python writes the same reference.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from importlib import import_module
from pathlib import Path
from typing import get_args

from deniable.client import disclosure, outcome
from deniable.client.net import delivery, survey_list, surveys, transport
from deniable.client.state import ledger, outbox
from deniable.shared.privacy.mechanisms import mechanisms
from deniable.shared.survey import document as survey_document
from deniable.shared.survey import labels, languages, phrases, questions, reader
from deniable.shared.survey.document import EPOCH, PERIODS, Period
from deniable.shared.survey.kinds import KINDS, number, vector
from deniable.shared.survey.phrases import ABOUT_SURVEYS
from tests.reference_tables import tables

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {
    "client": "deniable.client",
    "server": "deniable.server.analysis",
    "shared": "deniable.shared.mechanisms",
    "simulations": "deniable.simulations",
}
READERS = {
    "deniable.client": (
        "*For developers whose app answers surveys.* After these names come "
        "[the command](#the-command) and [the environment](#environment)."
    ),
    "deniable.shared.mechanisms": (
        "*For people who try out a mechanism.* After these names comes [the command](#the-command)."
    ),
    "deniable.server.analysis": (
        "*For people who run a server, write surveys or read results.* After these names come "
        "[the command](#the-command), [HTTP](#http), [metrics](#metrics) and [limits](#limits)."
    ),
    "deniable.simulations": (
        "*For people who run studies.* After these names comes [the command](#the-command)."
    ),
}
JAVASCRIPT = ROOT / "client" / "javascript" / "src"
PHRASES, TABLES = JAVASCRIPT / "phrases.js", JAVASCRIPT / "tables.js"
NUMBERS = {  # constants that both clients have, by module
    survey_document: ["MAX_QUESTIONS", "MAX_DOCUMENT_BYTES", "MIN_GRACE_DAYS"],
    questions: [
        *("MAX_TITLE_CHARACTERS", "MAX_UNIT_CHARACTERS", "MAX_LABEL_CHARACTERS", "MAX_ROUNDS"),
        *("MAX_PAIRS", "MAX_PAIR_CELLS"),
    ],
    languages: ["MAX_LANGUAGES"],
    reader: ["MAX_TEXT_CHARACTERS"],
    labels: ["MAX_LABELS", "MAX_VALUES", "MAX_VALUE_BYTES", "MAX_PATTERN_CHARACTERS", "NOT_GIVEN"],
    number: ["LARGEST_BOUND"],
    vector: ["MAX_COORDINATE"],
    survey_list: ["MAX_LISTED", "MAX_NAME_OFFSET"],
    surveys: ["FRESH_SECONDS", "MAX_PAUSE_SECONDS"],
    transport: ["MAX_LIST_BYTES", "MAX_REPLY_BYTES"],
    outbox: ["MAX_TRIES"],
}
LINE = 90
MADE_ELSEWHERE = "Made by `"  # in a docstring: users do not call the class
Documented = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Name:
    """Public class or function, and its location in the source."""

    name: str
    node: Documented
    source: str

    @property
    def methods(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        body = self.node.body if isinstance(self.node, ast.ClassDef) else []
        return [
            node for node in body if isinstance(node, FUNCTIONS) and not node.name.startswith("_")
        ]

    @property
    def fields(self) -> list[ast.AnnAssign]:
        body = self.node.body if isinstance(self.node, ast.ClassDef) else []
        return [node for node in body if isinstance(node, ast.AnnAssign)]

    @property
    def bases(self) -> list[str]:
        return [ast.unparse(base) for base in getattr(self.node, "bases", [])]


def public(package: str) -> list[Name]:
    module = import_module(package)
    return [_found(name, getattr(module, name)) for name in sorted(module.__all__)]


def _found(name: str, thing: object) -> Name:
    assert inspect.isclass(thing) or inspect.isfunction(thing)
    source = textwrap.dedent(inspect.getsource(thing))
    (node,) = ast.parse(source).body
    assert isinstance(node, (ast.ClassDef, *FUNCTIONS))
    return Name(name, node, source)


def undocumented(package: str) -> Iterator[str]:
    """Return the public names, and their public methods, that have no docstring."""
    for name in public(package):
        if not ast.get_docstring(name.node):
            yield name.name
        yield from (f"{name.name}.{m.name}" for m in name.methods if not ast.get_docstring(m))


def javascript_phrases() -> str:
    """Return the sentences about surveys as a module of the JavaScript client."""
    rows = []
    for key, text in ABOUT_SURVEYS.items():
        row = f"  {key}: {json.dumps(text, ensure_ascii=False)},\n"
        is_long = len(row) > 101  # deno breaks such a line
        rows.append(row.replace(": ", ":\n    ", 1) if is_long else row)
    head = "/** Sentences and limits of a description, written by `python -m tests.reference`. */\n"
    limits = [
        f"export const {name} = {value:.17g};\n"
        for name, value in {
            "MAX_SHOWN_CHARACTERS": disclosure.MAX_TEXT_CHARACTERS,
            "MAX_SHOWN_OPTIONS": phrases.MAX_SHOWN_OPTIONS,
            "FINGERPRINT_BITS": phrases.FINGERPRINT_BITS,
            "MAX_SPREAD_DAYS": survey_document.MAX_SPREAD_DAYS,
        }.items()
    ]
    return f"{head}\nexport const ENGLISH = {{\n{''.join(rows)}}};\n\n{''.join(limits)}"


def javascript_tables() -> str:
    """The tables of kinds, mechanisms, periods, statuses, refusals and limits, in the same way."""
    statuses = " | ".join(json.dumps(status) for status in get_args(outcome.Status))
    numbers = ((name, vars(module)[name]) for module, names in NUMBERS.items() for name in names)
    parts = [
        "/** Tables that both clients share, written by `python -m tests.reference`. */",
        f"/** @typedef {{{statuses}}} Status */",
        "/** @typedef {{overs: string[], unit: boolean}} Kind */",
        "/** @typedef {{kind: string, sizes: number[], step?: number}} Sizes */",
        "/** @typedef {{days?: number, shift?: number, months?: number}} Period */",
        _table(
            "KINDS", "overs: what `over` may be @type {Record<string, Kind>}", map(_kind, KINDS)
        ),
        _table(
            "SIZES",
            "sizes: the smallest and largest; step: their distance @type {Record<string, Sizes>}",
            map(_mechanism, mechanisms()),
        ),
        _table(
            "PERIODS",
            "a round has so many days or months; shift: days from the first round to 1970-01-01 "
            "@type {Record<string, Period>}",
            map(_period, PERIODS.values()),
        ),
        _list("ROBOTS", "variables that continuous integration sets", ledger.ROBOTS),
        _list("RESERVED", "names that no question may have", questions.RESERVED),
        _list("FINAL", "statuses after which nothing is sent again", sorted(delivery.FINAL)),
        _list("PASSING", "refusals after which a report is sent again", sorted(delivery.PASSING)),
        "".join(f"export const {name} = {value:.17g};\n" for name, value in numbers).rstrip(),
    ]
    return "\n\n".join(parts) + "\n"


def _table(name: str, comment: str, rows: Iterable[str]) -> str:
    return "\n".join([f"/** {comment} */", f"export const {name} = {{", *rows, "};"])


def _list(name: str, comment: str, values: Iterable[object]) -> str:
    rows = (f"  {json.dumps(value)}," for value in values)
    return "\n".join([f"/** {comment} */", f"export const {name} = [", *rows, "];"])


def _kind(name: str) -> str:
    kind = KINDS[name]
    return f"  {name}: {{ overs: {json.dumps(kind.overs)}, unit: {json.dumps(kind.has_unit)} }},"


def _mechanism(name: str) -> str:
    sizes, kind = mechanisms()[name].sizes, mechanisms()[name].kind
    step = f", step: {sizes.step}" if sizes.step > 1 else ""
    row = f"kind: {json.dumps(kind)}, sizes: [{sizes[0]}, {sizes[-1]}]{step}"
    return f"  {json.dumps(name)}: {{ {row} }},"


def _period(period: Period) -> str:
    """Return the length of a period's rounds in days or months; check it for forty years."""
    first_day = period.first_day
    if first_day is None:
        return f"  {period.name}: {{}},"
    days = (first_day(1) - first_day(0)).days
    shift, months = (EPOCH - first_day(0)).days, first_day(1).month - first_day(0).month
    if all(first_day(n) == EPOCH + timedelta(days * n - shift) for n in range(15_000 // days)):
        return f"  {period.name}: {{ days: {days}, shift: {shift} }},"
    for n in range(480 // months):
        month = n * months
        assert first_day(n) == date(1970 + month // 12, month % 12 + 1, 1)
    return f"  {period.name}: {{ months: {months} }},"


# Markdown


def document(package: str) -> str:
    """Return the reference of a package, sorted by name."""
    names = public(package)
    parts = [part for name in names for part in _of(name, {n.name for n in names})]
    links = " · ".join(f"[{name.name}](#{name.name.lower()})" for name in names)
    head = f"# Public names of `{package}`\n"
    source = "Generated from the source by `python -m tests.reference`.\n"
    source = f"{READERS[package]} {source}"
    names_text = "\n".join([head, source, links, "", *parts]).rstrip() + "\n"
    return names_text + tables(next(part for part in PACKAGES if PACKAGES[part] == package))


def _of(each: Name, known: set[str]) -> Iterator[str]:
    said = ast.get_docstring(each.node) or ""
    yield f"## {each.name}\n"
    if (call := _call(each)) and MADE_ELSEWHERE not in said:
        yield f"    {call}\n"
    if shared := [base for base in each.bases if base in known]:
        yield f"Is also a `{shared[0]}`.\n"
    yield prose(said)
    yield from (_field(field, each.source) for field in each.fields)
    if each.fields:
        yield ""
    for method in each.methods:
        yield f"### `{_head(method)}`\n"
        yield prose(ast.get_docstring(method) or "")


def _call(each: Name) -> str | None:
    """Return the signature of a function or of a class's `__init__`, or None.

    None stands for an error, which users do not construct, and for a class that its fields
    describe.
    """
    if isinstance(each.node, FUNCTIONS):
        return _head(each.node)
    if any(base.endswith("Error") for base in each.bases):
        return None
    for inside in each.node.body:
        if isinstance(inside, ast.FunctionDef) and inside.name == "__init__":
            return f"{each.name}({_arguments(inside)})"
    return None


def _head(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    if any("property" in ast.unparse(decorator) for decorator in node.decorator_list):
        return f"{node.name} -> {ast.unparse(node.returns)}" if node.returns else node.name
    awaited = "await " if isinstance(node, ast.AsyncFunctionDef) else ""
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{awaited}{node.name}({_arguments(node)}){returns}"


def _arguments(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Return the arguments as the formatter writes them: one per line if there are many."""
    given = node.args
    ahead = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(ahead) - len(given.defaults)) + list(given.defaults)
    words = [_argument(*argument) for argument in zip(ahead, defaults, strict=True)]
    if given.posonlyargs:
        words.insert(len(given.posonlyargs), "/")
    if given.kwonlyargs:
        words.append("*")
    words += map(_argument, given.kwonlyargs, given.kw_defaults)
    if given.kwarg:
        words.append(f"**{ast.unparse(given.kwarg)}")
    words = words[2 if words[1:2] == ["/"] else 1 :] if words[:1] == ["self"] else words
    if sum(map(len, words)) < LINE:
        return ", ".join(words)
    return "".join(f"\n        {word}," for word in words) + "\n    "


def _argument(given: ast.arg, default: ast.expr | None) -> str:
    between = " = " if given.annotation else "="
    return ast.unparse(given) + ("" if default is None else between + ast.unparse(default))


def _field(node: ast.AnnAssign, source: str) -> str:
    """Return a field with the comment on its line."""
    line = source.splitlines()[node.lineno - 1]
    comment = line.partition("  # ")[2] if node.lineno == node.end_lineno else ""
    comment = re.sub(r"(^|; )Any: .*", "", comment)  # readers need no reason for Any
    if isinstance(node.value, ast.Call):
        node = ast.AnnAssign(node.target, node.annotation, None, node.simple)
    return f"- `{ast.unparse(node)}`" + (f": {comment}" if comment else "")


def prose(docstring: str) -> str:
    """Return a docstring as Markdown: paragraphs unchanged, columns and doctests as code blocks."""
    return (
        "".join(
            f"{_block(paragraph)}\n\n" for paragraph in re.split(r"\n\s*\n", docstring)
        ).rstrip()
        + "\n"
    )


def _block(paragraph: str) -> str:
    if re.search(r"\S {3,}\S|^    |^>>>", paragraph, re.MULTILINE):
        return f"```\n{textwrap.dedent(paragraph)}\n```"
    return paragraph


if __name__ == "__main__":
    for part, package in PACKAGES.items():
        (ROOT / part / "REFERENCE.md").write_text(document(package), "utf-8")
    PHRASES.write_text(javascript_phrases(), "utf-8")
    TABLES.write_text(javascript_tables(), "utf-8")
