"""Order of arrival in PostgreSQL: the attack of test_order.py on all that a database reveals.

Besides positions in a dump and in the database's files, it uses ctid, the position of a row, and
xmin, the transaction that wrote it. With 10 traces of at most 20 lists each, 17 or more links have
probability below 200 / 17! < 6e-13 if the lists reveal nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from deniable.server.intake.commit import commit
from deniable.server.store import Database, PublishedSurvey
from deniable.server.store.postgres import scrub
from deniable.server.store.postgres.postgres_database import ARRIVALS, ENVELOPES, TIERS
from deniable.server.store.postgres.postgres_store import PostgresStore
from deniable.server.store.postgres.scrub import ALL, settle
from tests.eventually import eventually
from tests.server.order_attack import CATALOGUE_CACHE, Adversary
from tests.server.postgres import Cluster
from tests.server.surveys import published, survey
from tests.server.test_order import TOO_MANY, Install, crowd, max_links, upload

ROWS = "SELECT id, ctid::text, xmin::text::bigint FROM {} ORDER BY id"


@dataclass
class Attacked:
    """Store that gets a report from each install for each of two surveys."""

    store: PostgresStore
    cluster: Cluster
    database: Database
    surveys: list[PublishedSurvey]
    folder: Path

    def send(self, installs: Sequence[Install]) -> None:
        """Send at most 400 groups to each survey; up to 400 installs arrive one by one."""
        size = -(-len(installs) // 400)
        for start in range(0, len(installs), size):
            group = zip(*installs[start : start + size], strict=True)
            for asked, identifiers in zip(self.surveys, group, strict=True):
                uploads = [upload(asked, identifier) for identifier in identifiers]
                with self.store.transaction() as transaction:
                    assert commit(transaction, uploads) == ["accepted"] * len(uploads)

    def settle(self) -> None:
        eventually(lambda: settle(self.store._pool), "settled")

    def links(self, installs: Sequence[Install]) -> int:
        """Return the number of links by the best attack on a dump, hidden columns and files."""
        digits = [(one.hex().encode(), other.hex().encode()) for one, other in installs]
        self.cluster.say("CHECKPOINT")
        return max(
            *(max_links(ranking, digits) for ranking in (self.dump(), *self.hidden())),
            *(max_links(file, installs) for file in self.files()),
        )

    def dump(self) -> Path:
        target = self.folder / "dump"
        target.write_text(self.cluster.program("pg_dump", f"--dbname={self.database.url}"))
        return target

    def hidden(self) -> Iterator[Path]:
        """Yield lists of ids by position and by transaction; ties are sorted by id."""
        for table in ENVELOPES:
            with psycopg.connect(self.database.url) as connection:
                query = sql.SQL(ROWS).format(sql.Identifier(table))
                rows = connection.execute(query).fetchall()
            by_place = sorted(rows, key=lambda row: [int(n) for n in row[1].strip("()").split(",")])
            for name, listed in (("ctid", by_place), ("xmin", sorted(rows, key=lambda r: r[2]))):
                target = self.folder / f"{table}-{name}"
                target.write_text("\n".join(bytes(row[0]).hex() for row in listed))
                yield target

    def files(self) -> list[Path]:
        """Return the files of the database, without PostgreSQL's cache of its catalogue."""
        return [file for file in self.base().iterdir() if file.name != CATALOGUE_CACHE]

    def base(self) -> Path:
        with psycopg.connect(self.database.url) as connection:
            query = "SELECT oid FROM pg_database WHERE datname = current_database()"
            ((number,),) = connection.execute(query).fetchall()
        return self.cluster.data / "base" / str(number)

    def log(self) -> Path:
        """Return all segments of the write-ahead log, joined."""
        folder, target = self.cluster.data / "pg_wal", self.folder / "log"
        segments = sorted(path for path in folder.iterdir() if path.is_file())
        target.write_bytes(b"".join(segment.read_bytes() for segment in segments))
        return target

    def has(self, content: bytes) -> bool:
        """Return True if any of the files contains the bytes."""
        self.cluster.say("CHECKPOINT")
        return any(content in file.read_bytes() for file in self.files())


@pytest.fixture
def attacked(cluster: Cluster, database: Database, tmp_path: Path) -> Iterator[Attacked]:
    with PostgresStore.create(database) as store:
        surveys = [published(store, survey(name=name)) for name in ("one", "other")]
        yield Attacked(store, cluster, database, surveys, tmp_path)


@pytest.mark.parametrize(
    ("number", "at_once"), [(30, 3), pytest.param(120, 60, marks=pytest.mark.long)]
)
def test_no_copy_of_the_database_links_two_surveys(
    attacked: Attacked, number: int, at_once: int
) -> None:
    """The store settles often with a few installs, or rarely with many."""
    installs = crowd(number, number)
    for start in range(0, number, at_once):
        attacked.send(installs[start : start + at_once])
        attacked.settle()
    assert attacked.links(installs) < TOO_MANY
    assert all(attacked.has(identifier) for install in installs for identifier in install)


LONG = (4, 24), (6, 16), (400, 2), (10_000, 1)  # number of installs, and of trials


@pytest.mark.parametrize(
    ("installs", "trials"),
    [(12, 8), (120, 2), *(pytest.param(*sizes, marks=pytest.mark.long) for sizes in LONG)],
)
def test_an_adversary_orders_and_links_only_unsettled_reports(
    attacked: Attacked, installs: int, trials: int
) -> None:
    """Each trial has surveys of its own, and settles. The adversary sees all files."""
    arrived = [crowd(100 * installs + trial, installs) for trial in range(trials)]
    before, after = Adversary(), Adversary()
    for trial, installs_of_trial in enumerate(arrived):
        attacked.surveys = [published(attacked.store, survey(name=f"{s}-{trial}")) for s in "ab"]
        attacked.send(installs_of_trial)
        attacked.cluster.say("CHECKPOINT")
        before.see(attacked.base(), [*zip(*installs_of_trial, strict=True)])
        attacked.settle()
    attacked.cluster.say("CHECKPOINT")
    for installs_of_trial in arrived:
        after.see(attacked.base(), [*zip(*installs_of_trial, strict=True)])
    assert before.wins("order"), before.best("order")
    assert not after.wins(), after.best()


@pytest.mark.parametrize("tiers", range(1, ALL + 1))
def test_an_adversary_orders_no_reports_of_the_same_tier(attacked: Attacked, tiers: int) -> None:
    """After each install, all reports are merged with these tiers. The last one holds others."""
    trials = [crowd(1_000 * tiers + trial, 12) for trial in range(3)]
    attacked.send(crowd(9, 20))
    attacked.settle()
    adversary = Adversary()
    for trial, installs in enumerate(trials):
        attacked.surveys = [published(attacked.store, survey(name=f"{s}-{trial}")) for s in "ab"]
        for install in installs:
            attacked.send([install])
            eventually(lambda: settle(attacked.store._pool, tiers), "merged")
        attacked.cluster.say("CHECKPOINT")
        adversary.see(attacked.base(), [*zip(*installs, strict=True)])
    assert not adversary.wins(), adversary.best()
    assert [name for name in TIERS[tiers - 1] if rows_of(attacked.database, name)]


def rows_of(database: Database, table: str) -> int:
    with psycopg.connect(database.url) as connection:
        query = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table))
        ((rows,),) = connection.execute(query).fetchall()
    return int(rows)


def test_a_reader_delays_the_settling_of_few_arrivals_only(attacked: Attacked) -> None:
    """A dump may take hours. Meanwhile, arrivals move on, and nothing counts as settled."""
    attacked.send(crowd(1, 5))
    attacked.settle()
    pool = attacked.store._pool
    with psycopg.connect(attacked.database.url) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        reader.execute("SELECT count(*) FROM surveys").fetchall()
        for number in range(2, 8):
            attacked.send(crowd(number, 5))
            assert not settle(pool)
        assert sum(rows_of(attacked.database, table) for table in ARRIVALS) <= 20
    attacked.send(crowd(8, 5))
    attacked.settle()
    assert [rows_of(attacked.database, table) for table in ARRIVALS] == [0, 0]
    assert sum(rows_of(attacked.database, table) for table in TIERS[-1]) == 2 * 8 * 5


def test_nothing_is_settled_while_either_arrival_table_waits(
    attacked: Attacked, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = attacked.store._pool
    attacked.send(crowd(1, 5))
    with monkeypatch.context() as patched:
        patched.setattr(scrub, "_merge", lambda *_: False)
        assert not settle(pool)
    attacked.send(crowd(2, 5))
    assert not settle(pool), "the other table has reports in the order of their arrival"
    attacked.settle()
    assert [rows_of(attacked.database, table) for table in ARRIVALS] == [0, 0]


STORED = (
    "INSERT INTO {} SELECT 9, 683, sha256(n::text::bytea), 1, 'x' FROM generate_series(1, {}) n"
)


def written_by_settling(attacked: Attacked, tiers: int, seed: int) -> float:
    """Return how many bytes of log a merge of 100 arrivals writes."""
    attacked.send(crowd(seed, 50))
    attacked.cluster.say("CHECKPOINT")
    place = "SELECT pg_current_wal_lsn() - '0/0'::pg_lsn"
    with psycopg.connect(attacked.database.url, autocommit=True) as connection:
        before, after = (0.0, 0.0)
        ((before,),) = connection.execute(place).fetchall()
        eventually(lambda: settle(attacked.store._pool, tiers), "merged")
        ((after,),) = connection.execute(place).fetchall()
    return float(after - before)


def test_a_merge_of_arrivals_costs_the_same_at_any_size(attacked: Attacked) -> None:
    """The twin merges all tiers: its cost grows with the number of stored envelopes."""
    cheap, whole = [], []
    for number, stored in enumerate((300, 30_000)):
        with psycopg.connect(attacked.database.url) as connection:
            name, count = sql.Identifier("settled_0"), sql.Literal(stored)
            connection.execute(sql.SQL(STORED).format(name, count))
        cheap.append(written_by_settling(attacked, 1, 10 + number))
        whole.append(written_by_settling(attacked, ALL, 20 + number))
        with psycopg.connect(attacked.database.url, autocommit=True) as connection:
            connection.execute(f"TRUNCATE {', '.join(ENVELOPES)}")
    assert cheap[1] < 2 * cheap[0]
    assert whole[1] > 5 * whole[0]


def test_a_store_merges_all_tiers_if_it_has_time(attacked: Attacked) -> None:
    """A small store is always due for a merge of all tiers, and is then settled."""
    attacked.send(crowd(11, 3))
    eventually(attacked.store.forget_order, "settled")
    tables = [name for name in ENVELOPES if rows_of(attacked.database, name)]
    assert len(tables) == 1
    assert tables[0] in TIERS[-1]


def test_a_store_merges_the_first_tiers_while_the_last_is_not_due(attacked: Attacked) -> None:
    """It does so once for each write."""
    settler = attacked.store._settler
    settler._due[-1] = float("inf")
    attacked.send(crowd(12, 3))
    eventually(lambda: attacked.store.forget_order() or settler.merged == 2, "merged")
    settler.wait(10)
    assert rows_of(attacked.database, "recent_0") == 6
    thread = settler._thread
    assert not attacked.store.forget_order()
    assert settler._thread is thread
    settler._due[-1] = 0.0
    eventually(attacked.store.forget_order, "settled")
    assert rows_of(attacked.database, "recent_0") == 0


def test_the_attack_links_unsettled_reports(attacked: Attacked) -> None:
    """Each trace alone reveals the order: dump, ctid, xmin and files."""
    installs = crowd(2, 30)
    attacked.send(installs)
    digits = [(one.hex().encode(), other.hex().encode()) for one, other in installs]
    assert max_links(attacked.dump(), digits) >= TOO_MANY
    found = {ranking.name: max_links(ranking, digits) for ranking in attacked.hidden()}
    assert min(found["arrivals_0-ctid"], found["arrivals_0-xmin"]) >= TOO_MANY
    attacked.cluster.say("CHECKPOINT")
    assert max(max_links(file, installs) for file in attacked.files()) >= TOO_MANY


@pytest.mark.long
def test_the_write_ahead_log_still_reveals_the_order(attacked: Attacked) -> None:
    """GUARANTEES.md states this, and the settings that limit the duration: until a checkpoint."""
    installs = crowd(3, 60)
    attacked.send(installs)
    attacked.settle()
    log = attacked.log()
    content = log.read_bytes()  # misses ids that cross the end of a page
    whole = [install for install in installs if install[0] in content and install[1] in content]
    assert max_links(log, whole) >= TOO_MANY
    for statement in ("SELECT pg_switch_wal()", "CHECKPOINT"):
        attacked.cluster.say(statement)
    content = attacked.log().read_bytes()
    assert not any(identifier in content for install in installs for identifier in install)


def test_old_versions_of_tallies_are_removed_too(attacked: Attacked) -> None:
    """Consecutive versions differ by the reports of a group."""
    digests = []
    for install in crowd(4, 5):
        attacked.send([install])
        with attacked.store._reading() as connection:
            query = "SELECT digest FROM tallies ORDER BY survey"
            digests += [bytes(row[0]) for row in connection.execute(query)]
    assert all(map(attacked.has, digests))
    attacked.settle()
    assert [digest for digest in digests if attacked.has(digest)] == digests[-2:]


def test_purged_reports_are_removed_from_the_files(attacked: Attacked) -> None:
    old, new = crowd(5, 20), crowd(6, 1)
    attacked.send(old)
    attacked.settle()
    attacked.store.seal(attacked.surveys[0].sequence, [683])
    assert attacked.store.purge(32).envelopes == len(old)
    attacked.settle()
    assert not any(attacked.has(one) for one, _ in old)
    assert all(attacked.has(other) for _, other in old)
    with attacked.store.transaction() as transaction:
        assert commit(transaction, [upload(attacked.surveys[1], new[0][1])]) == ["accepted"]


def test_a_reader_delays_settling_and_sees_one_snapshot(attacked: Attacked) -> None:
    """The reader keeps its first snapshot, as pg_dump does."""
    installs = crowd(7, 10)
    attacked.send(installs)
    with psycopg.connect(attacked.database.url) as reader:
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        assert everything(reader) == 20
        assert not settle(attacked.store._pool)
        attacked.send(crowd(8, 2))
        assert not settle(attacked.store._pool)
        assert everything(reader) == 20
        reader.rollback()
        assert everything(reader) == 24
    attacked.settle()
    assert attacked.links(installs) < TOO_MANY


def test_no_table_receives_rows_before_its_deleted_rows_are_gone(attacked: Attacked) -> None:
    """A reader keeps the deleted rows of each merge in the files."""
    installs = crowd(13, 3)
    with psycopg.connect(attacked.database.url) as reader:
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        for install in installs:
            attacked.send([install])
            everything(reader)
            assert not settle(attacked.store._pool)
    attacked.settle()
    attacked.cluster.say("CHECKPOINT")
    content = b"".join(file.read_bytes() for file in attacked.files())
    assert {content.count(id_) for install in installs for id_ in install} == {2}  # row and index


def everything(connection: psycopg.Connection) -> int:
    counts = (
        connection.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table)))
        for table in ENVELOPES
    )
    return sum(int(row[0]) for count in counts for row in count.fetchall())
