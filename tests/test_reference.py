"""The reference of the public names is what the source says now, and every name says something."""

import ast
from pathlib import Path

import pytest

from tests import reference
from tests.reference import PACKAGES, ROOT, Name, document, public, undocumented


@pytest.mark.parametrize("part", PACKAGES)
def test_the_reference_is_what_the_source_says(part: str) -> None:
    written = (ROOT / part / "REFERENCE.md").read_text("utf-8")
    assert written == document(PACKAGES[part]), "write it again: python -m tests.reference"


@pytest.mark.parametrize("package", PACKAGES.values())
def test_every_public_name_says_what_it_is(package: str) -> None:
    assert list(undocumented(package)) == []
    assert all(f"## {name.name}\n" in document(package) for name in public(package))


def test_the_test_above_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = Name("Silent", *_parsed("class Silent:\n    def says(self) -> None: ...\n"))
    monkeypatch.setattr(reference, "public", lambda package: [silent])
    assert list(undocumented("any")) == ["Silent", "Silent.says"]


def _parsed(source: str) -> tuple[reference.Documented, str]:
    node = ast.parse(source).body[0]
    assert isinstance(node, reference.Documented)
    return node, source


def test_every_part_of_the_package_has_one() -> None:
    assert {path.parent.name for path in Path(ROOT).glob("*/REFERENCE.md")} == set(PACKAGES)
