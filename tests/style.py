"""Checks of language and size that no linter offers; `./run check` runs them as "style".

Each rule counts faults in each part of the tree. The largest allowed counts are in
`tests/style_limits.json` and may only go down. If a rule exceeds its limit, all its faults are
printed.

    .venv/bin/python tests/style.py             check; print the rules that are over their limits
    .venv/bin/python tests/style.py --all       print every fault, or only those under PATH ...
    .venv/bin/python tests/style.py --lower     lower the limits to the present counts
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
LIMITS = Path(__file__).with_name("style_limits.json")
PRODUCT = ("client", "server", "shared", "simulations")
SUFFIXES = (".py", ".md", ".txt", ".html", ".js", ".mjs")
NOT_OURS = re.compile(r"(^|/)(\.venv|golden|vectors|_static|node_modules)/")

MAX_FILES = 320
MAX_LINES = 42_000
MAX_MODULES_IN_PACKAGE = 13
MAX_PARAGRAPH_WORDS = 60
MAX_FUNCTION_LINES = 60

FIRST_WORDS = re.compile(
    r"(?:What|How|Whether|Which|Where|Why|Who|Whose|Whom|When|Of|As|By|From|That)\b"
)
NOUNS = frozenset(["string", "ping", "ring", "rating", "setting", "seed", "feed", "speed", "embed"])
ODD_NAMES = re.compile(
    "above|alone|anew|apart|below|elsewhere|found|glance|here|inside|known|line|once|others|outside|"
    "own|place|plain|possible|said|seen|some|supports|together|turn|withheld"
)
VAGUE_NAMES = re.compile("each|found|here|others|place|said|some|there|those|told")
DOCSTYLE = {
    "D205": "one line of summary, then a blank line",
    "D209": "closing quotes on a line of their own",
    "D401": "an imperative first line: Return, Raise, Write",
}
REPLACEMENTS = {
    r"\ball at once\b": "simultaneously",
    r"\banew\b": "again, new",
    r"\bat the (?:least|most)\b": "at least, at most",
    r"\bbeside\b": "next to",
    r"\bby itself\b": "alone, automatically",
    r"\bfor good\b": "permanently",
    r"\bforetold\b": "predicted",
    r"\bgo(?:es|ing)? on\b": "continue",
    r"\bin vain\b": "without effect",
    r"\bis (?:not )?told\b": "is shown, is known",
    r"\bis said\b|\bsaid of\b": "is stated, describes",
    r"\bkept no more\b": "no longer stored",
    r"\bmend(?:s|ed|ing|ings)?\b": "repair",
    r"\bMOST_(?!change\b)[A-Z]": "MAX_",  # `most_change` is a key of a survey
    r"\bsuch (?:a one|ones)\b": "name the thing",
    r"\btake along\b": "export",
    r"\bthere(?:of|in)\b|\bwhereby\b|\bhence\b": "of it, so, which",
    r"\btold apart\b": "distinguished",
    r"\bwhoever\b": "anyone who, the person who",
}
PHRASES = [(re.compile(pattern, re.IGNORECASE), new) for pattern, new in REPLACEMENTS.items()]


class Fault(NamedTuple):
    """Fault at a place: what is wrong there, and what to write instead."""

    rule: str
    path: str
    line: int
    message: str

    @property
    def part(self) -> str:
        first = self.path.split("/")[0]
        return first if first in (*PRODUCT, "tests") else "root"


def main(arguments: list[str]) -> int:
    paths = [argument for argument in arguments if not argument.startswith("--")]
    faults = [fault for fault in all_faults(ROOT) if fault.path.startswith(tuple(paths or [""]))]
    if "--all" in arguments:
        show(faults)
        return 0
    counts = Counter((fault.rule, fault.part) for fault in faults)
    limits = {(rule, part): n for rule, row in read_limits().items() for part, n in row.items()}
    if "--lower" in arguments:
        write_limits({key: min(counts[key], limits.get(key, counts[key])) for key in counts})
        return 0
    over = {key for key, count in counts.items() if count > limits.get(key, 0)}
    show([fault for fault in faults if (fault.rule, fault.part) in over])
    for rule, part in sorted(over):
        print(f"{part} {rule}: {counts[rule, part]} of at most {limits.get((rule, part), 0)}")
    return int(bool(over))


def all_faults(root: Path) -> list[Fault]:
    """Return every fault in the tree, by path and line."""
    texts = (path for path in tracked(root) if path.endswith(SUFFIXES))
    paths = [path for path in texts if not NOT_OURS.search(path)]
    faults = [*sizes(root, paths), *docstyle(root)]
    for path in paths:
        text = (root / path).read_text("utf-8")
        faults += phrases(path, text)
        if path.endswith(".py"):
            faults += python_faults(path, text)
        if path.endswith(".md"):
            faults += paragraphs(path, text)
    return sorted(faults, key=lambda fault: (fault.path, fault.line, fault.rule))


def tracked(root: Path) -> list[str]:
    command = ["git", "-c", "safe.directory=*", "ls-files", "--cached", "--others"]
    listed = subprocess.check_output([*command, "--exclude-standard"], cwd=root, text=True)
    return [path for path in listed.splitlines() if (root / path).is_file()]


# Rules


def phrases(path: str, text: str) -> Iterator[Fault]:
    """Find phrases that read as translated."""
    if path in ("tests/style.py", "tests/test_style.py"):
        return
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, replacement in PHRASES:
            if match := pattern.search(line):
                yield Fault("phrase", path, number, f"{match[0]!r}: write {replacement}")


def python_faults(path: str, text: str) -> Iterator[Fault]:
    """Find odd module names, docstrings and variables, and functions that are too long."""
    stem = Path(path).stem.removeprefix("test_").strip("_")
    if not path.startswith("tests/") and is_odd_name(stem):
        yield Fault("module", path, 1, f"{stem}: name the module by a noun")
    for node in ast.walk(ast.parse(text)):
        line = getattr(node, "lineno", 1)
        documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        text = (ast.get_docstring(node) or "") if isinstance(node, documented) else ""
        if first := FIRST_WORDS.match(text):
            message = f"{first[0]!r}: begin with a verb (function) or a noun (class, module)"
            yield Fault("docstring", path, line, message)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or line) - line + 1
            if length > MAX_FUNCTION_LINES:
                yield Fault("function", path, line, f"{node.name} has {length} lines; split it")
        if isinstance(node, ast.For | ast.comprehension):
            for target in (name for name in ast.walk(node.target) if isinstance(name, ast.Name)):
                if VAGUE_NAMES.fullmatch(target.id):
                    message = f"{target.id}: name the variable by what it holds"
                    yield Fault("variable", path, target.lineno, message)


def is_odd_name(stem: str) -> bool:
    """Return True for a participle, pronoun or adverb."""
    last = stem.rpartition("_")[2]
    return bool(ODD_NAMES.fullmatch(stem)) or (last not in NOUNS and last.endswith(("ing", "ed")))


def paragraphs(path: str, text: str) -> Iterator[Fault]:
    """Find paragraphs, list items and table cells that are too long."""
    prose = re.sub(r"```.*?```", lambda m: "\n" * m[0].count("\n"), text, flags=re.DOTALL)
    line = 1
    for block in re.split(r"(\n\s*\n|\n(?=\s*(?:[-*|]|\d+\.) ))", prose):
        for cell in block.split("|") if block.lstrip().startswith("|") else [block]:
            text = re.sub(r"^\s*(?:[-*]|\d+\.) ", "", cell)
            if (words := len(text.split())) > MAX_PARAGRAPH_WORDS:
                message = f"{words} words, more than {MAX_PARAGRAPH_WORDS}; split the paragraph"
                yield Fault("paragraph", path, line, message)
        line += block.count("\n")


def sizes(root: Path, paths: list[str]) -> Iterator[Fault]:
    """Find packages that are too large, repeated file names, and a product that is too large."""
    modules = [path for path in paths if path.endswith(".py") and path.startswith(PRODUCT)]
    packages: dict[Path, list[str]] = defaultdict(list)
    names: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path in modules:
        if "/deniable/" in path and not path.endswith("/__init__.py"):
            packages[Path(path).parent].append(path)
            names[path.split("/")[0], Path(path).name].append(path)
    for package, members in packages.items():
        if (extra := len(members) - MAX_MODULES_IN_PACKAGE) > 0:
            message = f"{len(members)} modules, more than {MAX_MODULES_IN_PACKAGE}; merge some"
            yield from [Fault("package", str(package), 1, message)] * extra
    for same in names.values():
        for path in same[1:]:
            yield Fault("file-name", path, 1, f"{same[0]} has the same name; rename one of them")
    lines = sum(len((root / path).read_text("utf-8").splitlines()) for path in modules)
    size = f"{len(modules)} product files of {MAX_FILES}, {lines} lines of {MAX_LINES}; cut some"
    yield from [Fault("files", "pyproject.toml", 1, size)] * max(0, len(modules) - MAX_FILES)
    yield from [Fault("lines", "pyproject.toml", 1, size)] * max(0, lines - MAX_LINES)


def docstyle(root: Path) -> Iterator[Fault]:
    """Run ruff for the pydocstyle rules that the tree does not pass yet."""
    ruff = Path(sys.executable).with_name("ruff")
    command = [str(ruff), "check", "--select", ",".join(DOCSTYLE), "--output-format", "json"]
    listed = subprocess.run([*command, "--exit-zero", *PRODUCT], cwd=root, capture_output=True)
    for fault in json.loads(listed.stdout):
        path = Path(fault["filename"]).relative_to(root)
        message = f"{fault['code']}: {DOCSTYLE[fault['code']]}"
        yield Fault(fault["code"], str(path), fault["location"]["row"], message)


# The limits


def read_limits() -> dict[str, dict[str, int]]:
    limits: dict[str, dict[str, int]] = json.loads(LIMITS.read_text("utf-8"))
    return limits


def write_limits(limits: dict[tuple[str, str], int]) -> None:
    table: dict[str, dict[str, int]] = defaultdict(dict)
    for (rule, part), count in sorted(limits.items()):
        table[rule][part] = count
    rows = ",\n".join(f' "{rule}": {json.dumps(row)}' for rule, row in table.items())
    LIMITS.write_text("{\n" + rows + "\n}\n", "utf-8")


def show(faults: list[Fault]) -> None:
    for fault in dict.fromkeys(faults):
        print(f"{fault.path}:{fault.line}: {fault.message}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
