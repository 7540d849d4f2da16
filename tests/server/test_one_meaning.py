"""One place in each part prints a "±": the margin of a statement, so each has the same meaning."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PRODUCT = ("client", "server", "shared", "simulations")
SIGN = ("±", "&plusmn;", "\\u00b1", "\\xb1", "&#177;", "&#xb1;")
PRINTED_BY = {
    "server/deniable/server/results/display.py": ["margin"],  # of Style, for pages and commands
    "simulations/deniable/simulations/engine/presentation.py": ["margin"],  # for studies
    # the key `show_when` of a survey document
    "shared/deniable/shared/survey/document.py": ["render_document"],
    "shared/deniable/shared/survey/questions.py": ["SHOW_WHEN", "read_show_when"],
}
READ_BY = (  # likewise; the second file contains the first
    "client/javascript/src/survey.js",
    "server/deniable/server/pages/static/ask.js",
)


def printing(path: Path, text: str) -> Iterator[str]:
    """Yield the name of each function of a module that contains the sign outside docstrings."""
    if not any(sign in text.casefold() for sign in SIGN):
        return
    tree = ast.parse(text)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in docstrings:
            continue
        if isinstance(node.value, str) and "±" in node.value:
            inside = [f.name for f in functions if f.lineno <= node.lineno <= (f.end_lineno or 0)]
            yield inside[-1] if inside else text.splitlines()[node.lineno - 1].split(" =")[0]


def test_only_one_function_of_each_part_prints_a_margin() -> None:
    found = {}
    for part in PRODUCT:
        for path in sorted((ROOT / part / "deniable").rglob("*.py")):
            if names := sorted(set(printing(path, path.read_text("utf-8")))):
                found[str(path.relative_to(ROOT))] = names
    assert found == PRINTED_BY


def test_no_template_style_or_script_prints_a_margin() -> None:
    suffixes = (".html", ".svg", ".js", ".mjs", ".css")
    paths = [
        path
        for part in PRODUCT
        for path in (ROOT / part).rglob("*")
        if path.suffix in suffixes and "node_modules" not in path.parts
    ]
    assert len(paths) > 20
    for path in paths:
        if str(path.relative_to(ROOT)) in READ_BY:
            continue
        text = path.read_text("utf-8").casefold()
        assert not [sign for sign in SIGN if sign in text], path


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('def a() -> str:\n    """Return ±."""\n    return ""', []),
        ('def a(x: str) -> str:\n    return f"± {x}"', ["a"]),
        ('B = "\\u00b1"', ["B"]),
    ],
)
def test_the_search_finds_formatted_and_escaped_signs(text: str, names: list[str]) -> None:
    """The twin of the two tests above."""
    assert list(printing(Path("module.py"), text)) == names
