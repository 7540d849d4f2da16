"""Listing verbs: they show the contents of the store without loading any heavy library."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from deniable.server.store import FILE, Database, create_store
from tests.command import DENIABLE, asked_json, run
from tests.server.surveys import BIT, survey
from tests.server.world import World, world

LISTS = (("survey", "list"), ("token", "list"), ("keys", "list"))
HEAVY = ("numpy", "scipy", "flask", "msgspec", "cryptography", "psycopg")


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """Return a folder with open and closed surveys, enrolled and retired keys, and tokens."""
    with world(tmp_path / "data") as here:
        fill(here)
    return tmp_path / "data"


def fill(here: World) -> None:
    for name in ("first", "second"):
        here.publish(survey(BIT, name=name))
    here.store.enrol_key("ab" * 32)
    here.store.retire_key("ab" * 32)
    here.catalogue.close(here.catalogue.surveys()[0])
    for role in ("operator", "analyst", "app"):
        here.token(role)


def test_lists_show_what_is_stored_while_the_server_runs_and_after(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with world(data) as here:
        fill(here)
        listed = [asked_json(*verb, "--data", data) for verb in LISTS]
        surveys = here.catalogue.surveys()
        tokens = here.store.tokens()
    assert listed == [asked_json(*verb, "--data", data) for verb in LISTS]
    now = datetime.now(UTC)
    assert [(row["id"], row["name"], row["state"]) for row in listed[0]["surveys"]] == [
        (survey.id, survey.name, survey.state_at(now)) for survey in surveys
    ]
    assert [row["id"] for row in listed[1]["tokens"]] == [token.id for token in tokens]
    assert {row["state"] for row in listed[2]["keys"]} == {"enrolled", "retired"}
    lines = run("survey", "list", "--data", data).stdout.splitlines()
    assert lines == [
        f"{survey.id[:12]}  {survey.state_at(now):10}  "
        f"{survey.survey.opens} to {survey.survey.closes}  {survey.name}"
        for survey in surveys
    ]


def test_a_store_of_another_version_is_refused(filled: Path) -> None:
    with closing(sqlite3.connect(filled / FILE)) as db, db:
        db.execute("UPDATE about SET value = '999' WHERE key = 'schema'")
    assert "schema version 999" in run("survey", "list", "--data", filled).stderr


def test_a_file_that_is_not_a_database_is_refused_in_one_sentence(tmp_path: Path) -> None:
    for content in (None, b"", b"x" * 5_000):
        if content is not None:
            (tmp_path / FILE).write_bytes(content)
        done = run("keys", "list", "--data", tmp_path)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert not (tmp_path / "none").exists()


def test_the_contents_of_a_postgresql_database_are_listed(database: Database) -> None:
    with create_store(database) as store:
        store.enrol_key("cd" * 32)
    listed = json.loads(run("keys", "list", "--store", database.url, "--json").stdout)
    assert [row["key"] for row in listed["keys"]] == ["cd" * 32]


@pytest.mark.parametrize("verb", [*LISTS, ("--help",), ("survey", "--help"), ("plan", "--help")])
@pytest.mark.parametrize("serves", [False, True])
def test_lists_and_help_load_no_library(filled: Path, verb: tuple[str, ...], serves: bool) -> None:
    """Without those libraries the verbs stay fast; `./run bench --only start` measures the time."""
    where = ["--data", str(filled)] if verb[-1] == "list" else []
    code = DENIABLE[2].replace("raise SystemExit(main())", "import sys, atexit")
    code += (
        "; atexit.register(lambda: print('loaded', *("
        f"name for name in {(*HEAVY, 'importlib.metadata')} if name in sys.modules)))"
        "; sys.exit(main())"
    )
    command = [sys.executable, "-c", code, *verb, *where]
    if serves:
        with create_store(filled) as store:
            assert store.forget_order()
            done = subprocess.run(command, capture_output=True, text=True)
    else:
        done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "loaded", done.stdout[-300:]
