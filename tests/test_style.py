"""Checks of tests/style.py: each finds its own kind of fault and accepts plain text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import style

FAULTS = {
    "phrase": "# Whoever asks, asks anew.\n",
    "docstring": 'def f():\n    """What it returns."""\n',
    "variable": "for each in ():\n    pass\n",
    "function": "def f():\n" + "    pass\n" * style.MAX_FUNCTION_LINES,
}
PLAIN = '''"""Sizes of files."""


def size(text: str) -> int:
    """Return the size."""
    return sum(len(line) for line in text.splitlines())
'''


@pytest.mark.parametrize("rule", FAULTS)
def test_a_planted_fault_is_found(rule: str) -> None:
    assert rule in rules("shared/deniable/shared/size.py", FAULTS[rule])


def test_plain_code_passes() -> None:
    assert rules("shared/deniable/shared/size.py", PLAIN) == []


@pytest.mark.parametrize("name", ["once", "sealing", "held_reports_checked", "said"])
def test_participles_and_pronouns_are_no_module_names(name: str) -> None:
    assert rules(f"shared/deniable/shared/{name}.py", PLAIN) == ["module"]


@pytest.mark.parametrize("name", ["rating", "seed", "keys", "labels"])
def test_nouns_are_module_names(name: str) -> None:
    assert rules(f"shared/deniable/shared/{name}.py", PLAIN) == []


def test_long_paragraphs_are_found() -> None:
    short = "word " * style.MAX_PARAGRAPH_WORDS
    assert not list(style.paragraphs("README.md", f"{short}\n\n{short}\n- {short}\n"))
    (fault,) = style.paragraphs("README.md", f"{short}\n\n{short} more\n")
    assert (fault.rule, fault.path) == ("paragraph", "README.md")


def test_sizes_of_the_product_are_limited(tmp_path: Path) -> None:
    package = tmp_path / "shared" / "deniable" / "shared"
    (package / "survey").mkdir(parents=True)
    for number in range(style.MAX_MODULES_IN_PACKAGE + 1):
        (package / f"module{number}.py").write_text("", "utf-8")
    (package / "survey" / "module0.py").write_text("\n" * (style.MAX_LINES + 2), "utf-8")
    paths = [str(path.relative_to(tmp_path)) for path in package.rglob("*.py")]
    faults = [fault.rule for fault in style.sizes(tmp_path, paths)]
    assert faults == ["package", "file-name", "lines", "lines"]


def test_limits_only_go_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faults = [style.Fault("phrase", f"shared/{number}.md", 1, "") for number in range(3)]
    limits = tmp_path / "limits.json"
    monkeypatch.setattr(style, "all_faults", lambda _: faults)
    monkeypatch.setattr(style, "LIMITS", limits)
    limits.write_text('{"phrase": {"shared": 2}}', "utf-8")
    assert style.main([]) == 1
    assert style.main(["--lower"]) == 0
    assert json.loads(limits.read_text()) == {"phrase": {"shared": 2}}
    faults.pop()
    assert style.main([]) == 0
    faults.pop()
    style.main(["--lower"])
    assert json.loads(limits.read_text()) == {"phrase": {"shared": 1}}


def rules(path: str, text: str) -> list[str]:
    return [fault.rule for fault in (*style.phrases(path, text), *style.python_faults(path, text))][
        :1
    ]
