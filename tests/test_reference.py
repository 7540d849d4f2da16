"""Reference of the public names: it matches the source, and every name has a description."""

import ast
from pathlib import Path

import pytest

from tests import reference
from tests.reference import PACKAGES, ROOT, Name, document, public, undocumented


@pytest.mark.parametrize("part", PACKAGES)
def test_the_reference_matches_the_source(part: str) -> None:
    written = (ROOT / part / "REFERENCE.md").read_text("utf-8")
    assert written == document(PACKAGES[part]), "rewrite it: python -m tests.reference"


@pytest.mark.parametrize("package", PACKAGES.values())
def test_every_public_name_has_a_description(package: str) -> None:
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


def test_every_part_of_the_package_has_a_reference() -> None:
    assert {path.parent.name for path in Path(ROOT).glob("*/REFERENCE.md")} == set(PACKAGES)
