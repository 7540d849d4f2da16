"""Writer: acknowledged envelopes are on disk, and none is counted twice."""

import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from deniable.server.intake import upkeep
from deniable.server.intake import writer as writing
from deniable.server.intake.commit import Outcome, commit
from deniable.server.intake.writer import Unavailable, Writer
from deniable.server.store import (
    PublishedSurvey,
    Purged,
    RoundTally,
    SqliteStore,
    Store,
    StoreLost,
    Upload,
)
from deniable.server.store.records import UploadKey
from deniable.server.store.sqlite import bucket
from deniable.server.store.sqlite.write_connection import SqliteTransaction
from deniable.server.surveys.catalogue import Catalogue
from deniable.shared.errors import StoreUnusable
from tests.eventually import PATIENCE, eventually
from tests.server.surveys import DECEMBER, envelope, expected_cells, published, survey
from tests.server.world import Hands, World


def upload(asked: PublishedSurvey, number: int) -> Upload:
    sent = envelope(asked, number)
    return Upload(asked, sent.round, sent.id, sent.count, sent.payload)


class Faulty(SqliteStore):
    """Real store whose next transactions raise the planned errors instead of committing."""

    faults: list[Exception]
    gate: threading.Event | None = None
    held = False
    clock: Hands | None = None
    took = timedelta()  # by the clock, for each transaction

    @contextmanager
    def transaction(self, *, later: bool = False) -> Iterator[SqliteTransaction]:
        if self.gate is not None:
            self.held = True
            self.gate.wait(PATIENCE)
        with super().transaction(later=later) as transaction:
            yield transaction
            if self.clock is not None:
                self.clock.time += self.took
            if self.faults:
                raise self.faults.pop(0)


def test_a_group_is_written_in_the_order_of_its_rounds(
    store: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise rows would be in the order of their arrival."""
    asked, written = published(store, survey(opens=date(2026, 9, 1))), list[int]()
    sent = [envelope(asked, n, round_number=n) for n in (DECEMBER, DECEMBER - 2, DECEMBER - 1)]
    with store.transaction() as transaction:
        insert = transaction.insert

        def noted(uploads: Sequence[Upload]) -> set[UploadKey]:
            written.extend(upload.round for upload in uploads)
            return insert(uploads)

        monkeypatch.setattr(transaction, "insert", noted)
        commit(transaction, [Upload(asked, e.round, e.id, e.count, e.payload) for e in sent])
    assert written == [DECEMBER - 2, DECEMBER - 1, DECEMBER]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Faulty]:
    with Faulty.create(tmp_path / "data") as made:
        made.faults = []
        yield made


@contextmanager
def writer_of(store: Store, clock: Hands | None = None) -> Iterator[Writer]:
    writer = Writer(store, Catalogue(store), clock or Hands())
    writer.start()
    try:
        yield writer
    finally:
        writer.stop()


def hold(
    store: Faulty, writer: Writer, pool: ThreadPoolExecutor, first: Upload
) -> Future[list[Outcome]]:
    """Keep the writer in a transaction with only this upload until the gate opens."""
    store.gate = threading.Event()
    answer = pool.submit(writer.write, [first])
    eventually(lambda: store.held, "the first is being written")
    return answer


def opened(store: Faulty) -> None:
    assert store.gate is not None
    store.gate.set()


def counted(store: Store, asked: PublishedSurvey) -> list[int]:
    """Return the number of reports and the cells of the only round."""
    tallies = store.tallies(asked.sequence)
    return [tallies[0].reports, *tallies[0].cells] if tallies else []


def test_many_requests_share_one_commit(store: Faulty) -> None:
    asked = published(store, survey())
    commits: list[float] = []
    with writer_of(store) as writer, ThreadPoolExecutor(50) as pool:
        writer.observe_commit = commits.append
        answers = [hold(store, writer, pool, upload(asked, 0))]
        answers += [pool.submit(writer.write, [upload(asked, n)]) for n in range(1, 50)]
        eventually(lambda: writer.waiting == 49, "49 requests wait for the first")
        opened(store)
        assert [answer.result(PATIENCE) for answer in answers] == [["accepted"]] * 50
    assert len(commits) == 2
    assert counted(store, asked) == [50, *expected_cells(asked.survey, range(50))]


@pytest.mark.parametrize(
    ("seconds", "took", "commits"), [(PATIENCE, 0.0, 3), (0.0, PATIENCE, 3), (0.0, 0.0, 5)]
)
def test_a_group_waits_for_as_many_requests_as_the_last_one_or_as_long_as_a_commit_takes(
    store: Faulty, monkeypatch: pytest.MonkeyPatch, seconds: float, took: float, commits: int
) -> None:
    """One request is sent alone, then three together, and then three one by one."""
    monkeypatch.setattr(writing, "GATHER_SECONDS", seconds)
    monkeypatch.setattr(writing, "MAX_GATHER_SECONDS", PATIENCE)
    asked, taken = published(store, survey()), list[float]()
    store.clock, store.took = Hands(), timedelta(seconds=took * writing.COMMITS_AVERAGED)
    with writer_of(store, store.clock) as writer, ThreadPoolExecutor(7) as pool:
        writer.observe_commit = taken.append
        answers = [hold(store, writer, pool, upload(asked, 0))]
        answers += [pool.submit(writer.write, [upload(asked, n)]) for n in (1, 2, 3)]
        eventually(lambda: writer.waiting == 3, "three wait for the first")
        opened(store)
        eventually(lambda: len(taken) == 2, "they are written")
        for number in (4, 5, 6):
            answers.append(pool.submit(writer.write, [upload(asked, number)]))
            waits = seconds + took > 0 and number < 6
            eventually(
                lambda: writer.waiting if waits else answers[-1].done(),  # noqa: B023
                "it waits for the others, or is written",
            )
        assert [answer.result(PATIENCE) for answer in answers] == [["accepted"]] * 7
    assert len(taken) == commits
    assert counted(store, asked)[0] == 7


@pytest.mark.parametrize("seconds", [writing.GATHER_SECONDS, PATIENCE])
def test_a_single_request_waits_briefly_or_until_the_writer_stops(
    store: Faulty, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setattr(writing, "GATHER_SECONDS", seconds)
    asked = published(store, survey())
    with writer_of(store) as writer, ThreadPoolExecutor(4) as pool:
        answers = [hold(store, writer, pool, upload(asked, 0))]
        answers += [pool.submit(writer.write, [upload(asked, n)]) for n in (1, 2, 3)]
        eventually(lambda: writer.waiting == 3, "three wait for the first")
        opened(store)
        assert [answer.result(PATIENCE) for answer in answers] == [["accepted"]] * 4
        alone, begin = pool.submit(writer.write, [upload(asked, 4)]), time.monotonic()
        if seconds == PATIENCE:
            eventually(lambda: writer.waiting == 1, "one waits for others")
            writer.stop()
        assert alone.result(PATIENCE) == ["accepted"]
        assert time.monotonic() - begin < PATIENCE / 2


def test_an_envelope_sent_simultaneously_by_many_threads_counts_once(store: Faulty) -> None:
    asked = published(store, survey())
    with writer_of(store) as writer, ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(lambda _: writer.write([upload(asked, 1)]), range(64)))
    assert sorted(answers) == [["accepted"]] + [["duplicates"]] * 63
    assert counted(store, asked) == [1, *expected_cells(asked.survey, [1])]


@pytest.mark.parametrize("fault", [StoreUnusable("the disk is full"), ValueError("a mistake")])
def test_a_failed_group_is_refused_whole_and_the_next_is_accepted(
    store: Faulty, fault: Exception
) -> None:
    asked = published(store, survey())
    with writer_of(store) as writer, ThreadPoolExecutor(20) as pool:
        first = hold(store, writer, pool, upload(asked, 0))
        others = [pool.submit(writer.write, [upload(asked, n)]) for n in range(1, 20)]
        eventually(lambda: writer.waiting == 19, "19 requests wait")
        store.faults = [fault]
        opened(store)
        assert isinstance(first.exception(PATIENCE), Unavailable)
        assert [other.result(PATIENCE) for other in others] == [["accepted"]] * 19
        assert counted(store, asked) == [19, *expected_cells(asked.survey, range(1, 20))]
        assert writer.write([upload(asked, 0)]) == ["accepted"]
    assert counted(store, asked) == [20, *expected_cells(asked.survey, range(20))]


def test_after_a_disk_error_nothing_is_acknowledged(here: World) -> None:
    """After an I/O error the disk's state is unknown, so only a restart accepts reports again."""
    asked = here.publish(survey())
    failing = Faulty(here.store.data)
    failing.faults = [StoreLost("the store could not record reports: disk I/O error")]
    here.writer._store = failing
    for number in (1, 2):
        answer = here.send(envelope(asked, number))
        assert answer.status_code == 503
        assert int(answer.headers["Retry-After"]) > 0
    assert here.client.get("/readyz").status_code == 503
    assert here.client.get("/healthz").status_code == 200
    assert here.tallies(asked) == {}


def test_a_full_queue_refuses_without_waiting(
    store: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "MAX_WAITING", 3)
    asked = published(store, survey())
    with writer_of(store) as writer, ThreadPoolExecutor(8) as pool:
        taken = [hold(store, writer, pool, upload(asked, 0))]
        taken += [pool.submit(writer.write, [upload(asked, n)]) for n in (1, 2, 3)]
        eventually(lambda: writer.waiting == 3, "three requests wait")
        with pytest.raises(Unavailable, match="the server is overloaded"):
            writer.write([upload(asked, 4)])  # nothing is written before the gate opens
        opened(store)
        assert [answer.result(PATIENCE) for answer in taken] == [["accepted"]] * 4
    assert counted(store, asked)[0] == 4


def test_the_queue_is_bounded_in_bytes(store: Faulty, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "MAX_WAITING_BYTES", 0)
    asked = published(store, survey())
    with writer_of(store) as writer, pytest.raises(Unavailable):
        writer.write([upload(asked, 1)])


def test_the_limits_equal_those_in_the_documents() -> None:
    assert (writing.MAX_REQUESTS, writing.MAX_UPLOADS) == (1_024, 16_384)
    assert (writing.MAX_WAITING, writing.MAX_WAITING_BYTES) == (4_096, 64 * 2**20)
    assert (writing.GATHER_SECONDS, writing.MAX_GATHER_SECONDS) == (0.0005, 0.02)


@pytest.mark.parametrize("limit", ["MAX_REQUESTS", "MAX_UPLOADS"])
def test_a_group_has_a_limit(store: Faulty, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    """One request is sent alone, then eight more, which are split into groups of at most four."""
    monkeypatch.setattr(writing, limit, 4)
    asked, commits = published(store, survey()), list[float]()
    with writer_of(store) as writer, ThreadPoolExecutor(9) as pool:
        writer.observe_commit = commits.append
        answers = [hold(store, writer, pool, upload(asked, 0))]
        answers += [pool.submit(writer.write, [upload(asked, n)]) for n in range(1, 9)]
        eventually(lambda: writer.waiting == 8, "they wait")
        opened(store)
        assert [answer.result(PATIENCE) for answer in answers] == [["accepted"]] * 9
    assert len(commits) == 3


def test_stopping_writes_waiting_uploads_and_refuses_later_ones(store: Faulty) -> None:
    asked = published(store, survey())
    with writer_of(store) as writer, ThreadPoolExecutor(8) as pool:
        waiting = [hold(store, writer, pool, upload(asked, 0))]
        waiting += [pool.submit(writer.write, [upload(asked, n)]) for n in range(1, 6)]
        eventually(lambda: writer.waiting == 5, "they wait")
        ending = pool.submit(writer.stop)
        eventually(lambda: not writer.running, "it stops")
        with pytest.raises(Unavailable):
            writer.write([upload(asked, 9)])
        opened(store)
        ending.result(PATIENCE)
        assert [answer.result(PATIENCE) for answer in waiting] == [["accepted"]] * 6
    assert counted(store, asked)[0] == 6


def test_counters_reach_the_store_after_a_second_and_at_the_end(store: Faulty) -> None:
    asked, clock = published(store, survey()), Hands()
    with writer_of(store, clock) as writer:
        writer.count({(asked.sequence, "accepted"): 3})
        clock.pass_(seconds=upkeep.FLUSH_SECONDS)
        eventually(lambda: store.counters(asked.sequence) == {"accepted": 3}, "flushed")
        writer.count({(asked.sequence, "accepted"): 2, (asked.sequence, "late"): 1})
    assert store.counters(asked.sequence) == {"accepted": 5, "late": 1}


def test_counters_that_cannot_be_written_wait_for_the_next_time(
    store: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = published(store, survey())
    fails = [True]
    add = store.add_counters

    def add_counters(outcomes: dict[tuple[int, str], int]) -> None:
        if fails.pop() if fails else False:
            raise StoreUnusable("the store could not add to its counters: busy")
        add(outcomes)

    monkeypatch.setattr(store, "add_counters", add_counters)
    clock = Hands()
    with writer_of(store, clock) as writer:
        writer.count({(asked.sequence, "accepted"): 3})
        clock.pass_(seconds=upkeep.FLUSH_SECONDS)
        eventually(lambda: not fails, "the first flush fails")
    assert store.counters(asked.sequence) == {"accepted": 3}


# Retention


def rows(data: Path) -> int:
    with sqlite3.connect(data / "deniable.sqlite3") as connection:
        buckets = connection.execute("SELECT rows FROM envelopes").fetchall()
    connection.close()
    return sum(bucket.rows(rows) for (rows,) in buckets)


def test_envelopes_are_deleted_after_their_time_and_tallies_stay(store: Faulty) -> None:
    """December's reports are accepted until 14 days after the 31st, and kept 90 days longer."""
    asked = published(store, survey())
    end = datetime(2027, 1, 1, tzinfo=UTC) + timedelta(days=14 + 90)
    with writer_of(store) as writer:
        writer.write([upload(asked, 1), upload(asked, 2)])
    upkeep.seal_ended(store, Catalogue(store), end)
    assert store.purge(upkeep.ROWS_PER_SLICE).envelopes == 0
    assert rows(store.data) == 2
    store.keep_day(end.date())
    with writer_of(store, Hands(end + timedelta(hours=2))):
        eventually(lambda: rows(store.data) == 0, "a start deletes them")
    assert counted(store, asked) == [2, *expected_cells(asked.survey, [1, 2])]


@pytest.mark.parametrize("by", ["command", "server"])
def test_a_slice_that_completes_no_envelope_is_not_the_last(store: Faulty, by: str) -> None:
    """Each envelope fills some seventy rows; only the first of them counts as an envelope."""
    asked, large = published(store, survey()), bytes(60_000)
    envelopes = [Upload(asked, DECEMBER, bytes([n]) * 16, len(large), large) for n in range(8)]
    with store.transaction() as transaction:
        commit(transaction, envelopes)
    store.seal(asked.sequence, [DECEMBER])
    if by == "command":
        assert upkeep.purge_sealed(store)
    else:
        with writer_of(store):
            eventually(lambda: rows_of_envelopes(store.data) == 0, "a start deletes them")
    assert rows_of_envelopes(store.data) == 0


def test_a_purged_round_accepts_nothing_even_if_the_clock_goes_back(store: Faulty) -> None:
    """The ids are deleted, so an envelope that is sent again would count twice."""
    asked = published(store, survey())
    with writer_of(store) as writer:
        assert writer.write([upload(asked, 1)]) == ["accepted"]
        store.seal(asked.sequence, [DECEMBER])
        assert store.purge(upkeep.ROWS_PER_SLICE).envelopes == 1
        assert writer.write([upload(asked, 1), upload(asked, 2)]) == ["late", "late"]
    assert counted(store, asked)[0] == 1


def test_the_bytes_of_purged_reports_are_removed_from_the_file(tmp_path: Path) -> None:
    mark = bytes(range(64, 128)) * 10  # fits into one page
    with SqliteStore.create(tmp_path / "data") as store:
        asked = published(store, survey())
        with store.transaction() as transaction:
            transaction.insert([Upload(asked, DECEMBER, bytes(16), len(mark), mark)])
        assert mark in b"".join(file.read_bytes() for file in store.data.iterdir())
        with store.transaction() as transaction:
            transaction.add(asked.sequence, RoundTally(DECEMBER, 1, np.ones(2, np.int64)))
        store.seal(asked.sequence, [DECEMBER])
        assert store.purge(upkeep.ROWS_PER_SLICE).envelopes == 1
        assert store.forget_order()
        left = b"".join(file.read_bytes() for file in store.data.iterdir())
    assert mark not in left


def test_uploads_never_wait_for_more_than_a_slice_of_a_purge(tmp_path: Path) -> None:
    """While 30,000 envelopes are deleted, each upload that arrives is the next to be committed."""
    events: list[str] = []

    class Purging(SqliteStore):
        """Store in which another upload is waiting at the end of each slice of a purge."""

        def purge(self, most: int) -> Purged:
            answers.append(pool.submit(writer.write, [upload(now, len(answers))]))
            eventually(lambda: writer.waiting == 1, "it waits")
            before = rows_of_envelopes(self.data)
            gone = super().purge(most)
            assert before - rows_of_envelopes(self.data) <= upkeep.ROWS_PER_SLICE
            events.append("slice")
            return gone

        @contextmanager
        def transaction(self, *, later: bool = False) -> Iterator[SqliteTransaction]:
            with super().transaction(later=later) as transaction:
                yield transaction
            events.append("commit")

    answers: list[Future[list[Outcome]]] = []
    with Purging.create(tmp_path / "data") as store, ThreadPoolExecutor(2) as pool:
        old, now = published(store, survey(name="old")), published(store, survey(name="now"))
        with store.transaction() as transaction:
            commit(transaction, [upload(old, number * 2**100) for number in range(30_000)])
        store.seal(old.sequence, [DECEMBER])
        events.clear()
        writer = Writer(store, Catalogue(store), Hands())
        writer.start()  # starts to purge
        try:
            eventually(lambda: rows(store.data) == len(answers), "all are deleted")
            assert {tuple(answer.result(PATIENCE)) for answer in answers} == {("accepted",)}
        finally:
            writer.stop()
    slices = len(answers)
    assert slices > 8
    assert events[: 2 * slices] == ["slice", "commit"] * slices


def rows_of_envelopes(data: Path) -> int:
    with closing(sqlite3.connect(data / "deniable.sqlite3")) as connection:
        (number,) = connection.execute("SELECT count(*) FROM envelopes").fetchone()
    return int(number)
