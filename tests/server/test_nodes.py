"""Several nodes on one PostgreSQL: no acknowledged report is lost, and none is counted twice.

Clients send each batch to one of two servers, or to both simultaneously, and repeat it until one
acknowledges it. Meanwhile every connection to the database is cut repeatedly, and both nodes keep
settling (removing the order of arrival). The same check must find planted bugs.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from deniable.server.archive.fold import recount
from deniable.server.archive.manifest import digest_of, rounds_of
from deniable.server.archive.round_files import archive_round
from deniable.server.intake.commit import Outcome, commit
from deniable.server.store import Database, Event, PublishedSurvey, RoundTally, Upload
from deniable.server.store.label_counts import KEY_BYTES
from deniable.server.store.postgres.postgres_store import PostgresStore
from deniable.server.store.postgres.scrub import settle
from deniable.server.store.records import TOTAL, Connection, Released
from deniable.server.surveys.catalogue import Catalogue
from deniable.shared.envelope import Envelope, encode_report
from tests.eventually import PATIENCE, eventually
from tests.server.postgres import Cluster
from tests.server.surveys import BIT, DECEMBER, expected_cells, published, survey
from tests.server.test_kills import CLIENTS, PLANTED, Trial
from tests.server.test_writer import upload
from tests.server.world import Server, serving
from tests.survey_texts import label

NODES = 2
TO_BOTH = 0.2


@dataclass
class Nodes(Trial):
    """Trial that cuts all database connections instead of killing servers."""

    cluster: Cluster | None = None
    servers: list[Server] = field(default_factory=list)
    cut: int = 0

    @contextmanager
    def supervised(self) -> Iterator[None]:
        with ExitStack() as stack:
            self.servers = [
                stack.enter_context(serving(self.data, command=self.command)) for _ in range(NODES)
            ]
            yield
            assert not any("Traceback" in server.stop()[1] for server in self.servers)

    def kill_often(self) -> None:
        assert isinstance(self.data, Database)
        assert self.cluster is not None
        for number in range(self.kills):
            goal = self.batches * number / (self.kills + 1)
            eventually(partial(self.has_acknowledged, goal), "progress")
            self.cut += self.cluster.cut(self.data)

    def client(self, number: int) -> None:
        chance = random.Random(number)
        with ThreadPoolExecutor(NODES) as both:
            for batch in range(number, self.batches, CLIENTS):
                sent = self.envelope(batch)
                while not self.sent(sent, chance, both):
                    self.retries += 1
                    time.sleep(0.02)
                with self.lock:
                    self.acknowledged += 1

    def sent(self, envelope: Envelope, chance: random.Random, both: ThreadPoolExecutor) -> bool:
        """Send an envelope, and return True if one of the nodes acknowledged it."""
        ports = [server.port for server in self.servers]
        if chance.random() >= TO_BOTH:
            return self.send_to(chance.choice(ports), envelope)
        return any([*both.map(lambda port: self.send_to(port, envelope), ports)])


def command(bug: str) -> list[str]:
    return [sys.executable, str(PLANTED), bug, "serve"]


def trial(
    cluster: Cluster, database: Database, batches: int, cuts: int, bug: str = "none"
) -> Nodes:
    return Nodes(database, batches, cuts, command(bug), cluster=cluster)


def test_fifty_cuts_lose_and_duplicate_nothing(cluster: Cluster, database: Database) -> None:
    """The clients send 80,000 reports in 400 batches."""
    nodes = trial(cluster, database, batches=400, cuts=50)
    assert nodes.run() == nodes.truth()
    assert nodes.cut > 0
    assert nodes.retries > 0, "no cut interrupted a request"
    with psycopg.connect(database.url) as connection:
        rows = connection.execute("SELECT DISTINCT node FROM tallies").fetchall()
    assert len(rows) == NODES, "each node must have its own rows"


@pytest.mark.long
def test_five_hundred_cuts_lose_and_duplicate_nothing(cluster: Cluster, database: Database) -> None:
    """The clients send 1,600,000 reports in 8,000 batches."""
    nodes = trial(cluster, database, batches=8_000, cuts=500)
    assert nodes.run() == nodes.truth()


@pytest.mark.long
def test_the_trial_detects_counted_duplicates(cluster: Cluster, database: Database) -> None:
    nodes = trial(cluster, database, batches=100, cuts=1, bug="no-deduplication")
    assert nodes.run()[0] > nodes.truth()[0]


# One node acts while the other is between its write and its commit


@dataclass
class Pair:
    """Pair of nodes that share a survey."""

    one: PostgresStore
    other: PostgresStore
    pool: ThreadPoolExecutor
    asked: PublishedSurvey

    @contextmanager
    def halfway(self, *numbers: int, ends: bool = True) -> Iterator[None]:
        """Run the body between the first node's write and its commit."""
        with suppress(KeyError), self.one.transaction() as transaction:
            commit(transaction, [upload(self.asked, number) for number in numbers])
            yield
            if not ends:
                raise KeyError

    def meanwhile(
        self, act: Callable[[], Any], others: int = 0
    ) -> Future[Any]:  # Any: result of the call
        """Start a call on the other node; return once it has ended or waits for the first node."""
        future = self.pool.submit(act)
        eventually(lambda: future.done() or self.waiting() > others, "done, or waiting")
        return future

    def waiting(self) -> int:
        with psycopg.connect(self.one._database.url) as connection:
            query = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND "
            return len(connection.execute(query + "wait_event_type = 'Lock'").fetchall())

    def take(self, *numbers: int) -> list[Outcome]:
        with self.other.transaction() as transaction:
            return commit(transaction, [upload(self.asked, number) for number in numbers])

    def counted(self) -> int:
        return sum(tally.reports for tally in self.one.tallies(self.asked.sequence))


@pytest.fixture
def pair(database: Database) -> Iterator[Pair]:
    with (
        PostgresStore.create(database, "one") as one,
        PostgresStore.open(database, "other") as other,
        ThreadPoolExecutor(2) as pool,
    ):
        yield Pair(one, other, pool, published(one, survey()))


def test_nodes_never_wait_for_each_other(pair: Pair) -> None:
    pair.take(5)
    with pair.halfway(1, 2, 3):
        assert pair.take(4, 5) == ["accepted", "duplicates"]
    assert pair.counted() == 5
    with pair.one._reading() as connection:
        rows = connection.execute("SELECT node, reports FROM tallies ORDER BY node")
        assert [*rows] == [("one", 3), ("other", 2)]


@pytest.mark.parametrize(("ends", "outcome"), [(True, "duplicates"), (False, "accepted")])
def test_an_envelope_sent_to_two_nodes_simultaneously_counts_once(
    pair: Pair, ends: bool, outcome: str
) -> None:
    with pair.halfway(1, ends=ends):
        answer = pair.meanwhile(partial(pair.take, 1))
        assert not answer.done()
    assert answer.result(PATIENCE) == [outcome]
    assert pair.counted() == 1


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_nodes_count_once_at_every_default_isolation_level(
    cluster: Cluster, database: Database, level: str
) -> None:
    """A node that waits for another must see the other's rows afterwards, even after settling."""
    name = database.parameters()["dbname"]
    cluster.say(f"ALTER DATABASE {name} SET default_transaction_isolation TO '{level}'")
    with (
        PostgresStore.create(database, "one") as one,
        PostgresStore.open(database, "other") as other,
        ThreadPoolExecutor(2) as pool,
    ):
        pair = Pair(one, other, pool, published(one, survey()))
        with pair.halfway(1):
            settling = pair.meanwhile(partial(settle, other._pool))
            again = pair.meanwhile(partial(pair.take, 1), others=1)
        settling.result(PATIENCE)
        assert again.result(PATIENCE) == ["duplicates"]
        assert pair.counted() == 1
        eventually(partial(settle, one._pool), "settled")


def test_settling_does_not_hide_an_uncommitted_group(pair: Pair) -> None:
    pair.take(5)
    with pair.halfway(1):
        settling = pair.meanwhile(partial(settle, pair.other._pool))
        again = pair.meanwhile(partial(pair.take, 1), others=1)
    settling.result(PATIENCE)
    assert again.result(PATIENCE) == ["duplicates"]
    assert pair.counted() == 2


def test_sealing_a_round_waits_for_an_uncommitted_group(pair: Pair) -> None:
    with pair.halfway(1):
        sealing = pair.meanwhile(partial(pair.other.seal, pair.asked.sequence, [DECEMBER]))
    sealing.result(PATIENCE)
    assert pair.take(2) == ["late"]
    assert pair.other.purge(1).envelopes == 1


def test_a_round_whose_tally_is_damaged_at_one_node_keeps_its_envelopes(pair: Pair) -> None:
    """Only the envelopes make a recount possible."""
    pair.take(1)
    pair.one, pair.other = pair.other, pair.one
    pair.take(2)
    pair.other.seal(pair.asked.sequence, [DECEMBER])
    with pair.one._writing("damage a tally") as connection:
        damage = "UPDATE tallies SET reports = reports + {} WHERE node = '{}'"
        connection.execute(damage.format(1, pair.one._node))
    assert pair.other.purge(1).envelopes == 0
    with pair.one._writing("repair it") as connection:
        connection.execute(damage.format(-1, pair.one._node))
    assert pair.other.purge(1).envelopes == 2


def test_a_purge_does_not_wait_for_settling(pair: Pair) -> None:
    pair.take(1, 2)
    pair.other.seal(pair.asked.sequence, [DECEMBER])
    with suppress(KeyError), pair.one._writing("settle") as connection:
        connection.execute("DELETE FROM arrivals_0")
        purging = pair.meanwhile(partial(pair.other.purge, 1))
        assert purging.result(PATIENCE).rows == 0
        raise KeyError
    assert pair.other.purge(1).envelopes == 2


def test_two_servers_with_one_node_name_wait_for_each_other_and_lose_nothing(
    pair: Pair,
) -> None:
    pair.other._node = pair.one._node
    with pair.halfway(1):
        answer = pair.meanwhile(partial(pair.take, 2))
    assert answer.result(PATIENCE) == ["accepted"]
    assert pair.counted() == 2


def test_surveys_become_visible_in_the_order_of_their_sequence_numbers(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a node that has seen a higher sequence number would never read a lower one."""
    known: list[list[int]] = []

    add_entry = PostgresStore._add_entry

    def and_meanwhile(
        store: PostgresStore,
        connection: Connection,
        event: Event,
        survey_id: str,
        key: str,
        by: str,
    ) -> None:
        monkeypatch.setattr(PostgresStore, "_add_entry", add_entry)
        add_entry(store, connection, event, survey_id, key, by)
        second.append(pair.meanwhile(partial(published, pair.other, survey(name="second"))))
        known.append([row.sequence for row in pair.one.surveys()])

    second: list[Future[Any]] = []
    monkeypatch.setattr(PostgresStore, "_add_entry", and_meanwhile)
    published(pair.one, survey(name="first"))
    second[0].result(PATIENCE)
    known.append([row.sequence for row in pair.one.surveys()])
    assert known[1][: len(known[0])] == known[0]


def test_nodes_and_recounts_keep_the_same_values_of_an_open_label(
    pair: Pair, tmp_path: Path
) -> None:
    """Each node counts 800 of 1,600 versions, and 1,000 of them are kept apart."""
    asked = published(pair.one, survey(BIT + label("version", pattern=r"\d+"), name="labelled"))
    for index, store in enumerate((pair.one, pair.other)):
        (known,) = (one for one in Catalogue(store).surveys() if one.name == "labelled")
        assert known.label_key == asked.label_key
        reports = (
            encode_report(asked.survey, (1,), {"version": f"{n}"}) for n in range(index, 1_600, 2)
        )
        sent = Upload(known, DECEMBER, bytes([index] * 16), 800, b"".join(reports))
        with store.transaction() as transaction:
            commit(transaction, [sent])
    (total,) = pair.other.tallies(asked.sequence)
    assert (total.reports, len(total.labels), total.labels.key) == (1_600, 1_001, asked.label_key)
    archive_round(pair.one, asked, total, tmp_path / "archive")
    (again,) = recount(rounds_of(tmp_path / "archive"))[asked.id]
    assert digest_of(again) == digest_of(total)


def test_nodes_release_the_sum_of_all_nodes_at_one_moment(pair: Pair) -> None:
    """Neither a group that is being counted nor a release on another node is mixed in."""
    with pair.one.transaction() as transaction:
        commit(transaction, [upload(pair.asked, number) for number in (1, 2)])
    pair.take(3)
    key, seen = (pair.asked.sequence, DECEMBER), list[tuple[int, int]]()

    def change(counted: RoundTally, released: Released) -> Released:
        seen.append((counted.reports, released[TOTAL].reports if released else 0))
        time.sleep(0.05)  # a release that did not wait would read the same released counts
        return {TOTAL: counted}

    with pair.halfway(4, 5):
        pair.other.release(*key, change)
    (kept,) = pair.one.released(pair.asked.sequence)
    assert (kept.reports, kept.cells.tolist()) == (3, expected_cells(pair.asked.survey, [1, 2, 3]))
    pair.take(6)
    done = [pair.pool.submit(store.release, *key, change) for store in (pair.one, pair.other)]
    for release in done:
        release.result(PATIENCE)
    assert seen == [(3, 0), (6, 3), (6, 6)]
    assert pair.counted() == 6


def test_each_survey_of_a_store_has_a_label_key_of_its_own(pair: Pair) -> None:
    other = published(pair.other, survey(name="other"))
    keys = {row.label_key for row in pair.one.surveys()}
    assert keys == {pair.asked.label_key, other.label_key}
    assert len(keys) == 2
    assert {len(key) for key in keys} == {KEY_BYTES}
