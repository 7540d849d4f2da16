"""`deniable survey delete`: it removes one whole survey and nothing else, and keeps the id."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import date
from pathlib import Path

import psycopg
import pytest

from deniable.server.cli.survey import delete
from deniable.server.intake import upkeep
from deniable.server.intake.commit import commit
from deniable.server.store import (
    FILE,
    Database,
    Place,
    PublishedSurvey,
    Upload,
    create_store,
    open_store,
)
from deniable.server.store.postgres import scrub
from deniable.server.store.postgres.postgres_store import PostgresStore
from deniable.server.surveys.catalogue import Catalogue
from deniable.shared.errors import StoreUnusable
from tests.command import run
from tests.eventually import eventually
from tests.server.postgres import Cluster
from tests.server.surveys import envelope, published, survey
from tests.server.test_verbs import refused
from tests.server.world import NOON, World, world

WORDS = "Beekeeping, by the unusual words of this survey"


def fill(place: Place) -> list[PublishedSurvey]:
    with create_store(place) as store:
        asked = [published(store, survey(title=title)) for title in (WORDS, "Another one")]
        for target in asked:
            take(place, target, range(300))
        store.add_counters({(target.sequence, "accepted"): 300 for target in asked})
    return asked


def take(place: Place, asked: PublishedSurvey, numbers: range) -> None:
    sent = [envelope(asked, number) for number in numbers]
    with open_store(place) as store, store.transaction() as transaction:
        list(commit(transaction, [Upload(asked, e.round, e.id, e.count, e.payload) for e in sent]))


def option(place: Place) -> tuple[str, object]:
    return ("--data", place) if isinstance(place, Path) else ("--store", place.url)


def test_a_survey_is_deleted_with_all_its_data_and_the_other_stays(place: Place) -> None:
    gone, stays = fill(place)
    run("survey", "close", gone.id, *option(place))
    done = run("survey", "delete", gone.id, "--yes", *option(place))
    assert done.returncode == 0, done.stderr
    assert "Not deleted: its id" in done.stderr
    with open_store(place) as store:
        assert [survey.id for survey in Catalogue(store).surveys()] == [stays.id]
        assert (store.tallies(gone.sequence), store.counters(gone.sequence)) == ([], {})
        assert not list(store.envelopes(gone.sequence, 683))
        assert len(list(store.envelopes(stays.sequence, 683))) == 300
        assert store.report_totals() == {stays.sequence: 300}
        assert store.counters(stays.sequence) == {"accepted": 300}
        events = [(e.event, e.survey) for e in store.register()]
        assert events[2:] == [("closed", gone.id), ("deleted", gone.id)]
        store.add_counters({(gone.sequence, "late"): 1})  # written by a server a moment later
        assert store.counters(gone.sequence) == {}


def test_no_trace_of_a_deleted_survey_is_left_in_the_folder(tmp_path: Path) -> None:
    data = tmp_path / "data"
    gone, _ = fill(data)
    words = WORDS.encode()
    assert any(words in path.read_bytes() for path in data.iterdir())
    run("survey", "close", gone.id, "--data", data)
    assert run("survey", "delete", gone.id, "--yes", "--data", data).returncode == 0
    for path in data.iterdir():
        content = path.read_bytes()
        assert words not in content, path
        assert gone.signature.encode() not in content
    assert gone.id.encode() in (data / FILE).read_bytes()  # in the register


def test_an_ambiguous_or_open_survey_is_not_deleted(tmp_path: Path) -> None:
    data = tmp_path / "data"
    asked = fill(data)
    several = refused(3, "survey", "delete", "app-health", "--yes", "--data", data)
    assert all(survey.id[:12] in several for survey in asked)
    first = asked[0].id
    still = refused(3, "survey", "delete", first[:12], "--yes", "--data", data)
    assert "close it first" in still
    run("survey", "close", first, "--data", data)
    done = run("survey", "delete", first, "--data", data)
    assert done.returncode == 2
    assert "--yes" in done.stderr
    with open_store(data) as store:
        assert len(store.surveys()) == 2


@pytest.mark.parametrize(("typed", "code"), [("id", 0), ("name", 3), ("few", 3), ("other", 3)])
def test_deletion_must_be_confirmed_by_typing_the_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str, code: int
) -> None:
    data = tmp_path / "data"
    gone, other = fill(data)
    run("survey", "close", gone.id, "--data", data)
    words = {"id": gone.id[:12], "name": gone.name, "few": gone.id[:6], "other": other.id}
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda _: words[typed])
    assert run("survey", "delete", gone.id, "--data", data).returncode == code
    with open_store(data) as store:
        assert len(store.surveys()) == (1 if code == 0 else 2)


def test_a_running_server_accepts_no_more_reports_for_a_deleted_survey(place: Place) -> None:
    with world(place) as here:
        gone, stays = here.publish(survey(name="gone")), here.publish(survey(name="stays"))
        assert sent(here, gone, 1) == (1, [])
        here.store.close_survey(gone.sequence, NOON)
        delete(here.store, gone)
        here.clock.pass_(seconds=1)
        assert sent(here, gone, 2) == (0, ["unknown-survey"])
        assert sent(here, stays, 1) == (1, [])
        assert here.client.get(f"/v1/surveys/{gone.id}").status_code == 404
        eventually(here.store.forget_order, "settled")


def sent(here: World, asked: PublishedSurvey, number: int) -> tuple[int, list[str]]:
    answer = here.send(envelope(asked, number)).json
    return answer["accepted"], [refusal["code"] for refusal in answer["refused"]]


def test_an_ended_survey_needs_no_closing(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with create_store(data) as store:
        gone = published(store, survey(opens=date(2024, 12, 1), closes=date(2024, 12, 31)))
    done = run("survey", "delete", gone.name, "--yes", "--data", data, "--json")
    assert json.loads(done.stdout)["state"] == "deleted"


def test_no_trace_of_a_deleted_survey_is_left_in_a_database(
    cluster: Cluster, database: Database
) -> None:
    """The write-ahead log is excluded, because its contents stay until it is recycled."""
    gone, last = fill(database)
    assert in_tables(cluster, database, gone.signature)
    for deleted in (gone, last):
        run("survey", "close", deleted.id, *option(database))
        done = run("survey", "delete", deleted.id, "--yes", *option(database))
        assert (done.returncode, "somebody reads" in done.stderr) == (0, False)
    assert not in_tables(cluster, database, gone.signature)
    assert in_tables(cluster, database, gone.id)  # in the register


def in_tables(cluster: Cluster, database: Database, words: str) -> bool:
    """Return True if the tables of this database contain the words.

    Other databases of the cluster may contain them too.
    """
    name = database.parameters()["dbname"]
    query = "SELECT oid FROM pg_database WHERE datname = %s"
    ((number,),) = cluster.connection.execute(query, [name]).fetchall()
    cluster.say("CHECKPOINT")
    found = []
    for path in (cluster.data / "base" / str(number)).iterdir():
        with suppress(FileNotFoundError):  # the file of a table that has just been rewritten
            found.append(words.encode() in path.read_bytes())
    return any(found)


READERS = {  # long reads: one has locked the tables, as a dump does, and one has only a snapshot
    "locks": [f"SELECT count(*) FROM {table}" for table in scrub.REWRITTEN],
    "sees": ["SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "SELECT count(*) FROM tokens"],
}


@pytest.mark.parametrize("reads", READERS)
def test_a_long_read_delays_neither_deletion_nor_other_nodes(
    cluster: Cluster, database: Database, monkeypatch: pytest.MonkeyPatch, reads: str
) -> None:
    """The files shrink after the long read ends, even if no node writes anything."""
    monkeypatch.setattr(upkeep, "FORGET_SECONDS", 0.2)
    gone, _ = fill(database)
    with (
        psycopg.connect(database.url) as reader,
        PostgresStore.open(database, "one") as one,
        PostgresStore.open(database, "other") as other,
        ThreadPoolExecutor(1) as pool,
    ):
        eventually(other.forget_order, "all order is forgotten")
        for statement in READERS[reads]:
            reader.execute(statement)
        done = pool.submit(delete, one, gone)
        slowest = 0.0
        try:
            while not done.done() and slowest < 2:
                began = time.monotonic()
                asked_in_time(other)
                slowest = max(slowest, time.monotonic() - began)
            assert slowest < 2
            assert done.result(0) is False  # the data still exist, and the command says so
            # Neither of a table's two files is complete while the table is being rewritten.
            eventually(
                lambda: in_tables(cluster, database, gone.signature), "its rows are still there"
            )
        finally:
            reader.rollback()
        assert other.purge(1).envelopes == 0  # servers purge every hour
        eventually(other.forget_order, "settled")
        assert not in_tables(cluster, database, gone.signature)


def asked_in_time(store: PostgresStore) -> None:
    """Run a query that fails after a timeout instead of waiting indefinitely."""
    with suppress(StoreUnusable), store._reading() as connection:
        connection.execute("SET LOCAL statement_timeout = 3000")
        connection.execute("SELECT count(*) FROM surveys")
        connection.execute("SELECT count(*) FROM counters")
