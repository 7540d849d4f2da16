"""Order of arrival is not stored: a stolen data folder does not link the reports of an install.

Each install sends one report to each of two surveys in succession, so the installs arrive in the
same order at both. The attacker copies the folder, sorts each survey's ids by some trace of time,
and links the ids at equal positions. If the traces reveal nothing, the links are a random
permutation: P[k or more of n are correct] <= 1 / k!. With at most 60 traces in at most 10 copies,
17 or more correct links have probability below 600 / 17! < 2e-12.
"""

import random
import shutil
import sqlite3
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import permutations, product
from pathlib import Path
from typing import Any

import pytest

from deniable.server.intake.writer import Writer
from deniable.server.store import Damaged, PublishedSurvey, SqliteStore, Upload
from deniable.server.store.records import Kept
from deniable.server.store.sqlite import bucket, envelope_rows, part_slots
from deniable.server.store.sqlite.backup_file import back_up
from deniable.server.surveys.catalogue import Catalogue
from tests.plausible import assert_implausible, assert_plausible
from tests.server.order_attack import Adversary
from tests.server.surveys import DECEMBER, published, survey

INSTALLS, COPIES = 120, 10
TOO_MANY = 17
PAGES = 1_024, 4_096  # our page size, and SQLite's default
WAL_HEAD, FRAME_HEAD = 32, 24
Install = tuple[bytes, bytes]  # the ids of its envelopes in the two surveys
Trace = Callable[[bytes, bytes], tuple[int, ...]]


# The attacker


def _position(content: bytes, identifier: bytes) -> tuple[int, ...]:
    return (content.find(identifier),)


def _last_position(content: bytes, identifier: bytes) -> tuple[int, ...]:
    return (content.rfind(identifier),)


def _from_the_page_s_end(page: int, content: bytes, identifier: bytes) -> tuple[int, ...]:
    """Order by page, and within a page from its end to its beginning, as SQLite adds cells."""
    place = content.find(identifier)
    return place // page, -place


def _in_any_page(page: int, content: bytes, identifier: bytes) -> tuple[int, ...]:
    return (-(content.find(identifier) % page),)


def _frames(content: bytes, identifier: bytes) -> tuple[int, ...]:
    """Return how many versions of the page the write-ahead log contains."""
    return (content.count(identifier),)


TRACES: tuple[Trace, ...] = (
    _position,
    _last_position,
    *(partial(_from_the_page_s_end, page) for page in PAGES),
    *(partial(_in_any_page, page) for page in PAGES),
    _frames,
)


def max_links(copy: Path, installs: Sequence[Install]) -> int:
    """Return how many installs the best attack links, in a copy of a folder or a backup."""
    files = copy.iterdir() if copy.is_dir() else [copy]
    found = [_links(ranks, installs) for file in files for ranks in _rankings(file, installs)]
    return max(found, default=0)


def _rankings(file: Path, installs: Sequence[Install]) -> Iterator[list[list[bytes]]]:
    """Yield the ids of both surveys in the order of each trace; missing ids are left out."""
    content = file.read_bytes()
    there = [[one[side] for one in installs if one[side] in content] for side in (0, 1)]
    for trace, backwards in product(TRACES, (False, True)):
        yield [
            # Equal traces reveal nothing, so ids with equal traces are sorted by id.
            sorted(
                ids, key=lambda each: (trace(content, each), each), reverse=backwards
            )  # in one sort
            for ids in there
        ]


def _links(ranks: list[list[bytes]], installs: Sequence[Install]) -> int:
    true = dict(installs)
    return sum(true[one] == other for one, other in zip(*ranks, strict=False))


# Stores under attack


def crowd(seed: int, number: int = INSTALLS) -> list[Install]:
    chance = random.Random(seed)
    return [(chance.randbytes(16), chance.randbytes(16)) for _ in range(number)]


def upload(asked: PublishedSurvey, identifier: bytes) -> Upload:
    return Upload(asked, DECEMBER, identifier, 1, bytes([identifier[0] % 2]))


def copied(data: Path, target: Path) -> Path:
    return Path(shutil.copytree(data, target))


class Watched(SqliteStore):
    """Store that copies its folder after chosen calls of `forget_order`."""

    copies: list[Path]
    wanted: set[int]
    turns = 0

    def forget_order(self) -> bool:
        done = super().forget_order()
        self.turns += 1
        if self.turns in self.wanted:
            self.copies.append(copied(self.data, self.data.with_name(f"copy-{self.turns}")))
        return done


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Watched]:
    with Watched.create(tmp_path / "data") as made:
        made.copies, made.wanted = [], set(range(9, 2 * INSTALLS, 2 * INSTALLS // COPIES))
        yield made


def sent_one_by_one(store: SqliteStore, installs: Sequence[Install]) -> None:
    """Send each report in its own group through the real writer: the worst case."""
    surveys = [published(store, survey(name=name)) for name in ("one", "other")]
    writer = Writer(store, Catalogue(store))
    writer.start()
    for install in installs:
        for asked, identifier in zip(surveys, install, strict=True):
            assert writer.write([upload(asked, identifier)]) == ["accepted"]
    writer.stop()


@pytest.mark.parametrize("number", [30, INSTALLS])  # these fill one bucket, or several
def test_no_copy_of_the_folder_links_two_surveys(
    store: Watched, tmp_path: Path, number: int
) -> None:
    installs = crowd(number, number)
    sent_one_by_one(store, installs)
    back_up(store.data, tmp_path / "backup")
    assert len(store.copies) >= 3
    for copy in (*store.copies, store.data, tmp_path / "backup"):
        assert max_links(copy, installs) < TOO_MANY, copy.name
    content = (store.data / "deniable.sqlite3").read_bytes()
    assert all(identifier in content for install in installs for identifier in install)


OLD = """
CREATE TABLE envelopes (number INTEGER PRIMARY KEY, survey, round, id, payload);
CREATE UNIQUE INDEX envelope_once ON envelopes (survey, round, id);
"""
BY_KEY = """
CREATE TABLE envelopes (number, survey, round, id, payload, PRIMARY KEY (survey, round, id))
WITHOUT ROWID;
"""


@pytest.mark.parametrize(("layout", "number"), [(OLD, INSTALLS), (BY_KEY, 30)])
def test_the_attack_finds_rows_in_the_order_of_arrival(
    tmp_path: Path, layout: str, number: int
) -> None:
    """The attack works even if only the positions within a page reveal the order."""
    installs, data = crowd(2, number), tmp_path / "data"
    data.mkdir()
    with closing(sqlite3.connect(data / "deniable.sqlite3", isolation_level=None)) as connection:
        connection.executescript(layout)
        insert = "INSERT INTO envelopes VALUES (NULL, ?, 683, ?, x'00')"
        for install in installs:
            for side in (0, 1):
                connection.execute(insert, (side, install[side]))
    assert max_links(data, installs) >= TOO_MANY


@pytest.mark.long
def test_the_attack_finds_the_order_of_commits_in_a_log(
    store: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SqliteStore, "forget_order", lambda _: True)
    installs = crowd(3)
    sent_one_by_one(store, installs)
    assert max(max_links(copy, installs) for copy in (*store.copies, store.data)) >= TOO_MANY


def test_a_log_contains_at_most_one_group(store: Watched) -> None:
    """The folder is copied at the worst moment, between a group's commit and the next step."""
    sent_one_by_one(store, crowd(4, 40))
    asked = Catalogue(store).surveys()[0]
    for group in (crowd(5, 20), crowd(6, 20)):
        with store.transaction() as transaction:
            transaction.insert([upload(asked, one) for one, _ in group])
        before = copied(store.data, store.data.with_name(f"before-{store.turns}"))
        assert (before / "deniable.sqlite3-wal").stat().st_size > 0
        assert not any(one in (before / "deniable.sqlite3").read_bytes() for one, _ in group)
        assert store.forget_order()
        log = (store.data / "deniable.sqlite3-wal").read_bytes()
        assert not any(one in log for one, _ in group)


def test_the_index_of_the_log_names_no_page_that_has_changed(store: Watched) -> None:
    """The index is a separate file, which SQLite does not empty together with the log."""
    asked = published(store, survey())
    for group in (crowd(7, 400), crowd(8, 1)):
        with store.transaction() as transaction:
            transaction.insert([upload(asked, one) for one, _ in group])
        content = (store.data / "deniable.sqlite3-shm").read_bytes()
        assert _pages_named(content) - {1}
        assert store.forget_order()
    content = (store.data / "deniable.sqlite3-shm").read_bytes()
    assert _pages_named(content) == {1}
    log = store.data / "deniable.sqlite3-wal"
    assert log.stat().st_size == WAL_HEAD + FRAME_HEAD + PAGES[0]
    times = log.stat().st_mtime_ns
    assert store.forget_order()
    assert log.stat().st_mtime_ns == times, "wrote to the log without new envelopes"


def _pages_named(index: bytes) -> set[int]:
    return set(struct.unpack_from("<4062I", index, 136)) - {0}


def test_a_reader_delays_emptying_the_log_but_the_store_does_not_wait(store: Watched) -> None:
    asked = published(store, survey())
    with closing(sqlite3.connect(store.data / "deniable.sqlite3")) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM envelopes").fetchone()
        with store.transaction() as transaction:
            transaction.insert([upload(asked, bytes(16))])
        assert not store.forget_order()
    assert store.forget_order()


# Bytes that depend only on their contents


@pytest.mark.parametrize("seed", range(3))
def test_stored_bytes_depend_only_on_the_set_of_envelopes(tmp_path: Path, seed: int) -> None:
    """Two servers get the same 400 envelopes in different orders; their backups are equal.

    The groups differ as well. A few envelopes fill a bucket. The parts of larger envelopes are in
    a random order instead.
    """
    chance = random.Random(seed)
    ids = [chance.randbytes(16) for _ in range(400)]
    backups = []
    for name in ("one", "other"):
        with SqliteStore.create(tmp_path / name) as store:
            asked = published(store, survey())
            with closing(sqlite3.connect(tmp_path / name / "deniable.sqlite3")) as database:
                database.execute(
                    "UPDATE surveys SET label_key = zeroblob(16)"
                )  # each store has its own
                database.commit()
            uploads = [
                Upload(asked, DECEMBER, id_, size, bytes(size))
                for id_ in ids
                for size in (1 if id_[0] > 8 else 681 + id_[1],)
            ]
            chance.shuffle(uploads)
            while uploads:
                group = [uploads.pop() for _ in range(min(len(uploads), chance.randint(1, 90)))]
                with store.transaction() as transaction:
                    assert len(transaction.insert(group)) == len(group)
                    assert transaction.insert(group[:3]) == set()
        back_up(tmp_path / name, tmp_path / f"{name}.backup")
        backups.append((tmp_path / f"{name}.backup").read_bytes())
    assert backups[0] == backups[1]


def test_a_bucket_survives_a_round_trip() -> None:
    chance = random.Random(4)
    kept = sorted(
        Kept(chance.randbytes(16), count, chance.randbytes(size))
        for count, size in [(1, 0), (1, 1), (65_536, 65_536), (2, 900), (1, 3)]
    )
    assert bucket.unpack(bucket.pack(kept)) == kept
    assert bucket.rows(bucket.pack(kept)) == 5
    assert len(bucket.pack(kept[:0])) == bucket.SIZE


def test_an_id_counts_once_for_every_size_of_envelope(
    store: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sizes are mixed, some ids are sent again with another size, and bucket numbers collide."""
    number = envelope_rows._number
    monkeypatch.setattr(envelope_rows, "_number", lambda *of: number(*of) % 400)
    asked, chance = published(store, survey()), random.Random(9)
    ids = [chance.randbytes(16) for _ in range(30)] + [bytes([7] * 15 + [end]) for end in range(6)]
    sizes = (1, 460, 936, 937, 1_000, 2_000)
    kept: dict[bytes, Kept] = {}
    for _ in range(120):
        group = {id_: chance.choice(sizes) for id_ in chance.sample(ids, chance.randint(1, 4))}
        uploads = [
            Upload(asked, DECEMBER, id_, of, bytes([of % 256]) * of) for id_, of in group.items()
        ]
        with store.transaction() as transaction:
            new = transaction.insert(uploads)
        assert new == {upload.key for upload in uploads if upload.id not in kept}
        kept |= {e.id: Kept(e.id, e.count, e.payload) for e in uploads if e.id not in kept}
    assert sorted(store.envelopes(asked.sequence, DECEMBER)) == sorted(kept.values())
    assert {len(kept_envelope.payload) for kept_envelope in kept.values()} == {*sizes}


@pytest.mark.parametrize("size", [460, 912, 913, 936, 937])
def test_envelopes_of_any_size_are_read_when_ids_differ_in_the_last_bit(
    store: Watched, size: int
) -> None:
    """Large envelopes are stored between the small ones."""
    asked = published(store, survey())
    ids = [bytes([7] * 15 + [end]) for end in range(4)]
    with store.transaction() as transaction:
        transaction.insert([Upload(asked, DECEMBER, id_, size, bytes(size)) for id_ in ids])
    assert sorted(envelope.id for envelope in store.envelopes(asked.sequence, DECEMBER)) == ids


@pytest.mark.parametrize(
    "size", [1_000, *(pytest.param(n, marks=pytest.mark.long) for n in (700, 3_000, 8_000))]
)
def test_the_position_of_a_large_envelope_reveals_no_time(store: Watched, size: int) -> None:
    """The size is that of a unary report of 8,000 options; the last bytes reveal no time either."""
    installs = crowd(size)
    surveys = [published(store, survey(name=name)) for name in ("one", "other")]
    for install in installs:
        for asked, identifier in zip(surveys, install, strict=True):
            payload = bytes(size - 16) + identifier[::-1]
            with store.transaction() as transaction:
                transaction.insert([Upload(asked, DECEMBER, identifier, 1, payload)])
            store.forget_order()
    ends = [(one[::-1], other[::-1]) for one, other in installs]
    assert max_links(store.data, installs) < TOO_MANY
    assert max_links(store.data, ends) < TOO_MANY


SIZES = {4: 24, 6: 16, 12: 8, 120: 2}  # number of installs, and of trials


def seen(
    tmp_path: Path, installs: int, size: int | Callable[[bytes], int], trials: int
) -> Adversary:
    """Let each install send a report of this size to two surveys, alone; show all files."""
    adversary = Adversary()
    for trial in range(trials):
        folder = tmp_path / f"{installs}-{trial}"
        with SqliteStore.create(folder) as store:
            surveys = [published(store, survey(name=name)) for name in ("one", "other")]
            arrived = crowd(1_000 * installs + trial, installs)
            for asked, identifier in (
                (a, i) for one in arrived for a, i in zip(surveys, one, strict=True)
            ):
                payload = bytes(size if isinstance(size, int) else size(identifier))
                with store.transaction() as transaction:
                    transaction.insert([Upload(asked, DECEMBER, identifier, 1, payload)])
                store.forget_order()
            back_up(folder, folder / "backup")
            adversary.see(folder, [*zip(*arrived, strict=True)])
    return adversary


@pytest.mark.parametrize(
    ("installs", "size"),
    [
        *((installs, size) for installs in (4, 6, 12) for size in (1, 460, 1_000, 3_000)),
        *((120, size) for size in (1, 460, 3_000)),
        (400, 1_000),
        pytest.param(120, 9_000, marks=pytest.mark.long),
        *(pytest.param(10_000, size, marks=pytest.mark.long) for size in (1, 460, 1_000)),
    ],
)
def test_an_adversary_with_every_trace_is_at_chance(
    tmp_path: Path, installs: int, size: int
) -> None:
    """No trace orders or links more pairs than chance explains. False alarm at most 1e-9.

    The adversary wins if it orders 51.7 % of the pairs of 10,000 installs, or 58.5 % of 400.
    """
    adversary = seen(tmp_path, installs, size, SIZES.get(installs, 1))
    assert not adversary.wins(), adversary.best()


@pytest.mark.parametrize("installs", [4, 120])
def test_an_adversary_can_only_guess_if_sizes_differ(tmp_path: Path, installs: int) -> None:
    """Sizes are between 1 byte and 3 parts. False alarm at most 1e-9."""
    adversary = seen(tmp_path, installs, lambda id_: 1 + id_[0] * 20, SIZES[installs])
    assert not adversary.wins(), adversary.best()


def test_the_adversary_orders_large_reports_by_their_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part keeps its first slot: the attack of the tests above wins."""
    monkeypatch.setattr(part_slots, "randbelow", lambda slots: slots - 1)
    adversary = seen(tmp_path, 120, 1_000, 1)
    assert adversary.wins("order"), adversary.best("order")


def permutation(driver: sqlite3.Connection) -> tuple[int, ...]:
    """Insert three envelopes and return their order in the slots."""
    driver.execute("DELETE FROM parts")
    for number in range(3):
        envelope = Kept(bytes([number]) * 16, 1, bytes([number]))
        part_slots.insert_parts(driver, (1, 683), [envelope], lambda _owner, _slots: [])
    slots = driver.execute("SELECT slot, content FROM parts ORDER BY slot").fetchall()
    return tuple(part_slots.unpacked_part(*row).content[0] for row in slots)


def permutations_of_slots() -> tuple[int, Counter[tuple[int, ...]]]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as driver:
        driver.execute("CREATE TABLE parts (slot INTEGER PRIMARY KEY, content BLOB NOT NULL)")
        trials = 3_000
        return trials, Counter(permutation(driver) for _ in range(trials))


def test_every_order_of_slots_is_equally_likely() -> None:
    """False alarm at most 6e-9 over 6 orders, each at 1e-9 or less."""
    trials, counts = permutations_of_slots()
    for order in permutations(range(3)):
        assert_plausible(counts[order], trials, 1 / 6, 1e-10)


def test_a_new_part_that_never_takes_the_last_slot_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(part_slots, "randbelow", lambda slots: random.randrange(max(1, slots - 1)))
    trials, counts = permutations_of_slots()
    assert_implausible(counts[0, 1, 2], trials, 1 / 6)


def test_large_payloads_are_read_after_any_insertions_and_deletions(store: Watched) -> None:
    """The largest payloads have lists of slots, in one or two parts. Deleting leaves no bytes."""
    chance, most = random.Random(12), bucket.MAX_SLOTS * bucket.PART
    payload_sizes = 900, 937, most, most + 1, 60_000, 1_000_000
    surveys = [published(store, survey(name=name)) for name in ("one", "other")]
    stored: dict[tuple[int, int], list[Kept]] = {}
    ends: list[bytes] = []
    for turn in range(30):
        of = chance.choice(surveys), DECEMBER + chance.randrange(2)
        sizes = chance.sample(payload_sizes, 2)
        group = [Kept(chance.randbytes(16), 1, chance.randbytes(size)) for size in sizes]
        with store.transaction() as transaction:
            new = transaction.insert(
                [Upload(*of, kept.id, kept.reports, kept.payload) for kept in group]
            )
        assert len(new) == len(group)
        ends += [kept.payload[-16:] for kept in group]
        stored.setdefault((of[0].sequence, of[1]), []).extend(group)
        if chance.random() < 0.2:
            rounds = [stored.popitem()[0]]
            with store._writing("delete envelopes") as driver:
                while envelope_rows.delete_envelopes(driver, rounds, 3).rows:
                    pass
        for of_round, envelopes in stored.items() if turn % 6 == 5 else ():
            assert list(store.envelopes(*of_round)) == sorted(envelopes)
        slots = [slot for (slot,) in stored_rows(store, "SELECT slot FROM parts ORDER BY slot")]
        assert slots == [*range(1, len(slots) + 1)]
    with store._writing("delete envelopes") as driver:
        while envelope_rows.delete_envelopes(driver, stored, 100).rows:
            pass
    assert stored_rows(store, "SELECT slot FROM parts") == []
    assert store.forget_order()
    content = b"".join(file.read_bytes() for file in store.data.iterdir())
    assert not any(end in content for end in ends)


def parts_stored(store: Watched) -> int:
    return len(stored_rows(store, "SELECT slot FROM parts"))


@pytest.mark.parametrize("rows", [1, 7, 1_000])
def test_a_deletion_leaves_no_part_behind(store: Watched, rows: int) -> None:
    """A deletion moves parts of envelopes in buckets that are deleted later in the same slice."""
    chance = random.Random(5)
    surveys = [published(store, survey(name=name)) for name in ("one", "other")]
    sizes = dict.fromkeys([(asked.sequence, DECEMBER) for asked in surveys], 0)
    for asked in surveys * 60:
        payload = bytes(chance.randrange(100, 3_000))
        with store.transaction() as transaction:
            transaction.insert([Upload(asked, DECEMBER, chance.randbytes(16), 1, payload)])
        if len(payload) > bucket.MAX_PAYLOAD_BYTES:
            sizes[asked.sequence, DECEMBER] += bucket.part_count(len(payload))
    assert parts_stored(store) == sum(sizes.values())
    for of in list(sizes):
        sizes.pop(of)
        with store._writing("delete envelopes") as driver:
            while envelope_rows.delete_envelopes(driver, [of], rows).rows:
                pass
        assert parts_stored(store) == sum(sizes.values())


def test_a_damaged_entry_does_not_stop_other_uploads(store: Watched) -> None:
    """A new part would move one of the damaged envelope, whose new slot could not be listed."""
    surveys = [published(store, survey(name=name)) for name in ("one", "other")]
    uploads = [
        [Upload(asked, DECEMBER, random.randbytes(16), 1, bytes(2_000)) for _ in range(40)]
        for asked in surveys
    ]
    for upload in uploads[0]:
        with store.transaction() as transaction:
            transaction.insert([upload])
    with store._writing("damage an entry") as driver:
        driver.execute("UPDATE envelopes SET rows = zeroblob(length(rows))")
    for upload in uploads[1]:
        with store.transaction() as transaction:
            assert transaction.insert([upload])
    assert len(list(store.envelopes(surveys[1].sequence, DECEMBER))) == 40


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE parts SET content = zeroblob(length(content)) WHERE slot = 24",
        "UPDATE envelopes SET rows = zeroblob(960) WHERE round = {}",
    ],
)
def test_damage_in_one_round_does_not_delay_other_purges(store: Watched, damage: str) -> None:
    """A purge would move the last part, but a disk has damaged it, or the entry that lists it."""
    asked = published(store, survey())
    uploads = [Upload(asked, DECEMBER + n % 2, bytes([n]) * 16, 1, bytes(4_000)) for n in range(8)]
    with store.transaction() as transaction:
        transaction.insert(uploads)
    ((content,),) = stored_rows(store, "SELECT content FROM parts WHERE slot = 24")
    number = part_slots.unpacked_part(24, content).owner.round
    healthy = asked.sequence, 2 * DECEMBER + 1 - number
    with store._writing("damage a row") as driver:
        driver.execute(damage.format(number))
        while envelope_rows.delete_envelopes(driver, [healthy], 3).rows:
            pass
    assert list(store.envelopes(*healthy)) == []
    with pytest.raises(Damaged):
        list(store.envelopes(asked.sequence, number))


def test_a_part_of_another_envelope_is_damage(store: Watched) -> None:
    asked = published(store, survey())
    uploads = [Upload(asked, DECEMBER, bytes([n]) * 16, 1, bytes(937)) for n in range(2)]
    with store.transaction() as transaction:
        transaction.insert(uploads)
    with store._writing("exchange parts") as driver:
        first, second = part_slots.part_at(driver, 1), part_slots.part_at(driver, 2)
        for slot, part in ((2, first), (1, second)):
            driver.execute(part_slots.PUT, (slot, part.pack(slot)))
    with pytest.raises(Damaged):
        list(store.envelopes(asked.sequence, DECEMBER))


def test_a_damaged_part_stays_in_its_slot(store: Watched) -> None:
    asked = published(store, survey())
    uploads = [Upload(asked, DECEMBER, bytes([n]) * 16, 1, bytes(4_000)) for n in range(30)]
    with store.transaction() as transaction:
        transaction.insert(uploads[:1])
    with store._writing("damage a part") as driver:
        driver.execute("UPDATE parts SET content = zeroblob(length(content)) WHERE slot = 2")
    with store.transaction() as transaction:
        transaction.insert(uploads[1:])
    ((content,),) = stored_rows(store, "SELECT content FROM parts WHERE slot = 2")
    assert not any(content)
    with store._writing("delete a damaged envelope") as driver:
        while envelope_rows.delete_envelopes(driver, [(asked.sequence, DECEMBER)], 9).rows:
            pass
    assert stored_rows(store, "SELECT slot FROM parts") == []


INDEXED = """
CREATE TABLE envelopes (number INTEGER PRIMARY KEY, survey, id, payload);
CREATE UNIQUE INDEX bucket ON envelopes (survey, id);
"""


@pytest.mark.parametrize("installs", [4, 6, 12])
def test_the_adversary_orders_and_links_ids_in_an_index(tmp_path: Path, installs: int) -> None:
    """The rows are in the order of a hash, and their payloads are outside the page."""
    adversary, chance = Adversary(), random.Random(installs)
    for trial in range(SIZES[installs]):
        arrived, data = crowd(trial, installs), tmp_path / f"{trial}"
        data.mkdir()
        with closing(sqlite3.connect(data / "one.sqlite3", isolation_level=None)) as connection:
            connection.execute("PRAGMA page_size = 1024")
            connection.executescript(INDEXED)
            for side, identifier in ((s, i) for one in arrived for s, i in enumerate(one)):
                row = chance.getrandbits(62), side, identifier, bytes(900)
                connection.execute("INSERT INTO envelopes VALUES (?, ?, ?, ?)", row)
        adversary.see(data, [*zip(*arrived, strict=True)])
    for aim in ("order", "links"):
        assert adversary.wins(aim), adversary.best(aim)


@pytest.mark.parametrize("seed", range(5))
def test_the_last_envelope_added_to_a_bucket_leaves_no_trace(seed: int) -> None:
    """Adding it gives the same bytes as packing all envelopes in any order."""
    chance = random.Random(seed)
    kept, grown = list[Kept](), bucket.EMPTY
    while True:
        one = Kept(chance.randbytes(16), chance.randint(1, 9), chance.randbytes(seed * 9))
        more = bucket.with_one_more(grown, one)
        packed = bucket.pack(sorted([*kept, one]))
        if more is None:
            break
        assert more == packed
        assert bucket.with_one_more(more, one) is more, (
            "changed a bucket that already contains the envelope"
        )
        kept, grown = [*kept, one], more
    assert len(kept) > 10
    assert len(packed) > bucket.SIZE


def test_chosen_ids_are_stored_without_empty_buckets(store: Watched) -> None:
    """The ids differ only in their last bits, except for one that is far away."""
    ids = [number.to_bytes(16, "big") for number in (*range(1_000), 2**127)]
    asked = published(store, survey())
    for start in (7, 0):
        with store.transaction() as transaction:
            new = transaction.insert([upload(asked, id_) for id_ in ids[start::3]])
            assert len(new) == len(ids[start::3])
    stored = [stored for _, rows in buckets(store) for stored in bucket.unpack(rows)]
    assert [row.id for row in stored] == sorted({*ids[7::3], *ids[0::3]})
    assert len(buckets(store)) < 2 * len(stored) * 23 / bucket.SIZE + 2


def test_buckets_whose_numbers_collide_stay_separate(
    store: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chosen ids can give two buckets the same number; here 40 numbers serve 30 buckets."""
    number = envelope_rows._number
    monkeypatch.setattr(envelope_rows, "_number", lambda *of: number(*of) % 40)
    asked = published(store, survey())
    ids = [one for one, _ in crowd(8, 700)]
    for start in range(0, 700, 50):
        with store.transaction() as transaction:
            new = transaction.insert([upload(asked, id_) for id_ in ids[start : start + 50]])
            assert len(new) == 50
    with store.transaction() as transaction:
        assert transaction.insert([upload(asked, id_) for id_ in ids]) == set()
    stored = [stored.id for _, rows in buckets(store) for stored in bucket.unpack(rows)]
    assert stored == sorted(ids)
    assert 20 < len(buckets(store)) < 40


def buckets(store: SqliteStore) -> list[tuple[bytes, bytes]]:
    return stored_rows(store, "SELECT place, rows FROM envelopes ORDER BY place")


def stored_rows(store: SqliteStore, query: str) -> list[Any]:  # Any: columns of many types
    with closing(sqlite3.connect(store.data / "deniable.sqlite3")) as connection:
        return connection.execute(query).fetchall()
