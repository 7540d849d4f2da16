"""Errors: one tree, one sentence for each mistake on the command line, and no traceback."""

from __future__ import annotations

import importlib
import pkgutil
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import deniable.client
import deniable.server
import deniable.shared
import deniable.simulations
from deniable.shared import errors
from deniable.shared.errors import DeniableError
from tests.command import run

PARTS = (deniable.client, deniable.server, deniable.shared, deniable.simulations)

MISTAKES = [
    "survey new /proc/none/survey.toml",
    "survey check {folder}",
    "survey publish {survey} --data /dev/null",
    "survey publish {survey} --data {folder}/data --key {folder}",
    "survey list --data /dev/null",
    "survey annotate app-health 2026-99-99 release --data {folder}",
    "keys new /proc/none/key.pem",
    "keys new --sealing /proc/none/key.pem",
    "keys show {folder}",
    "register --data {folder} --check {folder}",
    "recount {folder} --on nowhere",
    "results app-health --data /dev/null",
    "backup --data {folder} --to /proc/none",
    "restore {survey} --data {folder}/restored",
    "token list --data /dev/null",
    "doctor --data /dev/null",
    "doctor --server http://127.0.0.1:1 --timeout 1e400",
    "doctor --server http://127.0.0.1:1 --timeout nan",
    "plan --kind bit --epsilon 1 --people 0",
    "plan --kind bit --epsilon 1 --people 999999999999999999999999999999999999",
    "plan --kind bit --epsilon 1 --error nan",
    "certify --kind choice --options 99999999999999999999",
    "certify --kind number --low nan",
    "odds 1e400",
    "simulate bit --people 1e400",
    "simulate bit --out /proc/none",
    "simulate mean --mechanisms nowhere:Nothing",
    "demo --people 0 --exit",
    "serve --data /dev/null",
    "serve --data {folder}/data --port 99999999",
    "completion fish",
]


def modules() -> Iterator[ModuleType]:
    for part in PARTS:
        for module in pkgutil.walk_packages(part.__path__, f"{part.__name__}."):
            yield importlib.import_module(module.name)


def exceptions() -> set[type[BaseException]]:
    """Return every exception class that a module of the product defines."""
    return {
        value
        for module in modules()
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, BaseException)
        and value.__module__ == module.__name__
    }


def test_every_error_is_in_the_tree() -> None:
    outside = {error for error in exceptions() if not issubclass(error, DeniableError)}
    assert outside == set()


def test_the_documented_tree_of_errors_is_current() -> None:
    """In the docstring, each line names a class, and its indent is the depth of the class."""
    drawn = dict[str, int]()
    for line in (errors.__doc__ or "").splitlines():
        if match := re.match(r"    ((?:[│ ]   )*)[├└]── (\w+)", line):
            drawn[match[2]] = len(match[1]) // 4
    actual = {error.__name__: depth(error) for error in exceptions() - {DeniableError}}
    assert drawn == actual


def depth(error: type[BaseException]) -> int:
    return sum(issubclass(base, DeniableError) for base in error.__mro__) - 2


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_one_sentence_and_exit_code_2(mistake: str, tmp_path: Path) -> None:
    """The mistakes include a path that cannot be written and a number out of range."""
    survey = tmp_path / "survey.toml"
    assert run("survey", "new", survey).returncode == 0
    done = run(*shlex.split(mistake.format(folder=tmp_path, survey=survey)))
    assert (done.returncode, done.stdout) == (2, "")
    *usage, sentence = done.stderr.splitlines()
    assert re.match(r"deniable( \w+)?: ", sentence)
    assert all(line.startswith(("usage: ", " ")) for line in usage)
    assert "Traceback" not in done.stderr


def test_a_bug_still_shows_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twin: an error outside the tree is a bug, and is not reduced to a sentence."""
    monkeypatch.setattr("deniable.shared.cli.odds.odds", lambda _: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        run("odds", "1")
