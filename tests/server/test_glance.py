"""What listing verbs read by SQLite alone is what the store says."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from deniable.server import glance as glances
from deniable.server.glance import _by_sqlite, glance, of_store
from deniable.server.results import state_at
from deniable.server.store import FILE, Database, create_store
from deniable.server.store.sqlite.schema import VERSION
from deniable.shared.errors import StoreUnusable
from deniable.shared.survey.document import render_document
from tests.command import DENIABLE
from tests.server.surveys import BIT, survey
from tests.server.world import World, world

LISTS = (("survey", "list"), ("token", "list"), ("keys", "list"))
MOMENTS = [datetime(year, month, 1, tzinfo=UTC) for year in (2026, 2027) for month in range(1, 13)]
HEAVY = ("sqlalchemy", "numpy", "scipy", "flask", "msgspec", "cryptography")


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """Surveys open and closed, keys enrolled and retired, tokens."""
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


def test_it_sees_what_the_store_says_while_the_server_runs_and_after(tmp_path: Path) -> None:
    with world(tmp_path / "data") as here:
        fill(here)
        for seen in (_by_sqlite(tmp_path / "data" / FILE), glance(tmp_path / "data")):
            assert seen == of_store(here.store)
        first, second = of_store(here.store).surveys
        published = {each.id: each for each in here.catalogue.surveys()}
        for each in (first, second):
            known = published[each.id]
            assert render_document(each.survey) == known.document
            for now in MOMENTS:
                assert each.state(now) == state_at(known, now)
            said = (each.said["name"], each.said["opens"], each.said["closes"])
            assert said == (known.name, str(known.survey.opens), str(known.survey.closes))
    assert len(glance(tmp_path / "data").tokens) == 3


def test_its_columns_are_those_of_this_version() -> None:
    assert (FILE, str(VERSION)) == (glances.FILE, glances.SCHEMA)


def test_another_version_is_left_to_the_store(filled: Path) -> None:
    with closing(sqlite3.connect(filled / FILE)) as db, db:
        db.execute("UPDATE about SET value = '999' WHERE key = 'schema'")
    assert _by_sqlite(filled / FILE) is None
    with pytest.raises(StoreUnusable, match="schema version 999"):
        glance(filled)


def test_what_is_no_database_is_left_to_the_store(tmp_path: Path) -> None:
    for content in (None, b"", b"x" * 5_000):
        if content is not None:
            (tmp_path / FILE).write_bytes(content)
        with pytest.raises(StoreUnusable):
            glance(tmp_path)
    assert not (tmp_path / "none").exists()


def test_a_database_elsewhere_is_asked_by_the_store(database: Database) -> None:
    with create_store(database) as store:
        store.enrol_key("cd" * 32)
    assert glance(database).enrolled == {"cd" * 32}


@pytest.mark.parametrize("verb", [*LISTS, ("--help",), ("survey", "--help"), ("plan", "--help")])
def test_lists_and_help_load_no_library(filled: Path, verb: tuple[str, ...]) -> None:
    """Which is what makes them fast; `./run bench --only start` says how fast."""
    where = ["--data", str(filled)] if verb[-1] == "list" else []
    code = DENIABLE[2].replace("raise SystemExit(main())", "import sys, atexit")
    code += (
        "; atexit.register(lambda: print('loaded', *("
        f"name for name in {(*HEAVY, 'importlib.metadata')} if name in sys.modules)))"
        "; sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *verb, *where], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "loaded", done.stdout[-300:]
