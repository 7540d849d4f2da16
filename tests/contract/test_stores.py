"""Contract of stores, for every entry in the table of stores and for an in-memory store.

The in-memory store implements the protocol and nothing else, which is all that intake, results and
pages need. Tests about rows in tables apply only to stores that have tables.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from deniable.server.intake.commit import commit
from deniable.server.intake.writer import Writer
from deniable.server.store import (
    NO_SURVEY,
    STORES,
    Annotation,
    Database,
    Epoch,
    LabelCounts,
    Place,
    PublishedSurvey,
    Purged,
    RoundTally,
    Share,
    Store,
    Upload,
    create_store,
    open_store,
    records,
)
from deniable.server.store.label_counts import label_hash
from deniable.server.store.records import TOTAL, Released, TallyRow
from deniable.server.store.sql_store import SqlSnapshot, SqlStore
from deniable.server.surveys.catalogue import Catalogue
from deniable.shared.envelope import encode_report
from deniable.shared.errors import Refused, StoreUnusable
from tests import survey_texts as texts
from tests.contract.memory_store import Memory, MemoryStore
from tests.eventually import eventually
from tests.server.surveys import BIT, DECEMBER, envelope, expected_cells, published, survey
from tests.server.world import NOON, Hands, World, world

PLACES: dict[type, Callable[[pytest.FixtureRequest, Path], Any]] = {  # Any: types of locations
    Path: lambda _, folder: folder / "data",
    Database: lambda request, _: request.getfixturevalue("cluster").new_schema(),
    Memory: lambda *_: Memory("here"),
}


@pytest.fixture(params=[*STORES, Memory])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, eager: None, monkeypatch: pytest.MonkeyPatch
) -> Place:
    """Return the location of a store that does not exist yet, for every kind of store."""
    monkeypatch.setitem(STORES, Memory, "tests.contract.memory_store:MemoryStore")
    new: Place = PLACES[request.param](request, tmp_path)
    return new


@pytest.fixture(params=[*STORES])
def sql_place(request: pytest.FixtureRequest, tmp_path: Path, eager: None) -> Place:
    """Return the location of a new store, for every kind of store that has tables."""
    new: Place = PLACES[request.param](request, tmp_path)
    return new


@pytest.fixture
def sql_store(sql_place: Place) -> Iterator[Store]:
    with create_store(sql_place) as made:
        yield made


@pytest.fixture
def store(place: Place) -> Iterator[Store]:
    with create_store(place) as made:
        yield made


@pytest.fixture
def served(place: Place) -> Iterator[World]:
    with world(place) as made:
        yield made


def upload(asked: PublishedSurvey, number: int, batch: bytes = b"") -> Upload:
    sent = envelope(asked, number)
    return Upload(asked, sent.round, sent.id, sent.count, sent.payload, batch=batch)


def take(store: Store, asked: PublishedSurvey, *numbers: int) -> list[str]:
    with store.transaction() as transaction:
        return list(commit(transaction, [upload(asked, number) for number in numbers]))


def fail_halfway(store: Store, asked: PublishedSurvey, numbers: Sequence[int]) -> None:
    with suppress(KeyError), store.transaction() as transaction:
        commit(transaction, [upload(asked, number) for number in numbers])
        raise KeyError


def counted(store: Store, asked: PublishedSurvey) -> list[int]:
    """Return the number of reports and the cells of the only round."""
    tallies = store.tallies(asked.sequence)
    return [tallies[0].reports, *tallies[0].cells.tolist()] if tallies else []


def execute(store: Store, statement: str) -> int:
    """Execute a statement, as an intruder with access to the database could."""
    assert isinstance(store, SqlStore)
    with store._writing("change it") as connection:
        return connection.execute(statement).rowcount


def test_the_in_memory_store_has_exactly_the_methods_of_the_protocol() -> None:
    def methods(of: type) -> set[str]:
        return {name for name in dir(of) if not name.startswith("_")}

    assert methods(MemoryStore) == methods(Store)
    as_store: type[Store] = MemoryStore  # checked by mypy
    assert as_store


# Opening


def test_opening_a_missing_store_does_not_create_it(place: Place) -> None:
    for _ in range(2):
        with pytest.raises(
            StoreUnusable, match=r"no deniable data; create a store: deniable serve"
        ):
            open_store(place)
    assert not isinstance(place, Path) or not place.exists()


def test_creating_an_existing_store_keeps_its_contents(place: Place) -> None:
    with create_store(place) as first:
        asked = published(first, survey())
        take(first, asked, 1)
    with create_store(place) as second:
        assert [row.id for row in second.surveys()] == [asked.id]
        assert counted(second, asked)[0] == 1


@pytest.mark.parametrize("version", ["99", "1", "0", "x"])
def test_a_store_of_another_version_is_refused(sql_place: Place, version: str) -> None:
    with create_store(sql_place) as store:
        execute(store, f"UPDATE about SET value = '{version}' WHERE key = 'schema'")
    for opening in (open_store, create_store):
        with pytest.raises(StoreUnusable, match=r"schema version.*use the version of.*Nothing"):
            opening(sql_place)


# Surveys, tokens, counters, and the latest day


def test_surveys_keep_their_order_and_the_mark_changes_with_new_ones(store: Store) -> None:
    marks = [store.surveys_mark()]
    asked = [published(store, survey(name=name)) for name in ("one", "other")]
    marks.append(store.surveys_mark())
    assert published(store, survey(name="one")).sequence == asked[0].sequence
    assert store.surveys_mark() == marks[-1]
    assert [row.id for row in store.surveys()] == [survey.id for survey in asked]
    assert [row.id for row in store.surveys(asked[0].sequence)] == [asked[1].id]
    store.close_survey(asked[1].sequence, datetime(2026, 12, 9, tzinfo=UTC))
    store.close_survey(asked[1].sequence, datetime(2026, 12, 10, tzinfo=UTC))
    assert [*store.survey_states().items()] == [
        (asked[0].sequence, None), (asked[1].sequence, date(2026, 12, 9))
    ]  # fmt: skip
    assert [row.closed for row in store.surveys()] == [None, date(2026, 12, 9)]
    assert store.closings() == {asked[1].sequence: datetime(2026, 12, 9, tzinfo=UTC)}
    marks.append(store.surveys_mark())
    assert len(set(marks)) == 3


def test_the_epochs_of_a_survey_are_replaced_and_enter_the_register(store: Store) -> None:
    one, other = published(store, survey()), published(store, survey(name="other"))
    assert store.epochs() == {}
    mark, epoch = store.surveys_mark(), Epoch(683, 1, "ab" * 64)
    store.reconcile(other.sequence, [epoch], "ci")
    assert store.epochs() == {other.sequence: (epoch,)}
    assert [row.epochs for row in store.surveys()] == [(), (epoch,)]
    assert store.register(mark)[0].event == "reconciled"
    store.reconcile(other.sequence, [Epoch(683, 2, "cd" * 64)])
    store.delete_survey(one.sequence)
    assert store.epochs() == {other.sequence: (Epoch(683, 2, "cd" * 64),)}


def test_tokens_have_a_role_until_they_expire(store: Store) -> None:
    store.add_token("secret", "analyst", NOON, NOON + timedelta(days=1))
    (token,) = store.tokens()
    assert token.role == "analyst"
    assert store.valid_token("secret", NOON) == token
    assert store.valid_token("Secret", NOON) is None
    assert store.valid_token("secret", NOON + timedelta(days=1)) is None
    store.revoke_token(token.id)
    assert store.valid_token("secret", NOON) is None


def test_a_token_with_a_label_is_revoked_first_and_then_deleted(store: Store) -> None:
    end = NOON + timedelta(days=1)
    store.add_token("secret", "app", NOON, end, "ci", label="channel=ci")
    (token,) = store.tokens()
    store.revoke_token(token.id)
    assert store.valid_token("secret", NOON) is None
    assert [(kept.name, kept.label) for kept in store.tokens()] == [(token.id, "channel=ci")]
    store.add_token("new", "app", NOON, end, "ci", label="channel=ci")  # the name is free again
    store.revoke_token(token.id)
    assert [kept.name for kept in store.tokens()] == ["ci"]


def test_a_token_keeps_its_class_of_installs_and_its_limit(store: Store) -> None:
    end = NOON + timedelta(days=1)
    store.add_token("first", "app", NOON, end, "shop", label="channel=play=store", limit=2**40)
    store.add_token("second", "app", NOON, end, "relay")
    first, second = (store.valid_token(text, NOON) for text in ("first", "second"))
    assert first is not None
    assert second is not None
    assert (first.class_of_installs, first.limit) == (("channel", "play=store"), 2**40)
    assert (second.class_of_installs, second.limit) == (("", ""), 0)


def test_tokens_have_distinct_names_and_the_day_of_their_last_use(store: Store) -> None:
    end = NOON + timedelta(days=1)
    store.add_token("first", "analyst", NOON, end, "ci")
    store.add_token("second", "app", NOON, end)
    with pytest.raises(Refused, match="a token has the name 'ci'"):
        store.add_token("third", "app", NOON, end, "ci")
    first, second = (store.valid_token(text, NOON) for text in ("first", "second"))
    assert first is not None
    assert second is not None
    assert (first.name, first.used, second.name) == ("ci", None, second.id)
    store.note_use(first.id, NOON.date())
    assert {token.name: token.used for token in store.tokens()} == {
        "ci": NOON.date(),
        second.id: None,
    }
    store.revoke_token(first.id)
    store.add_token("third", "app", NOON, end, "ci")  # the name is free again


def test_every_change_enters_the_audit_log_with_actor_and_day_only(store: Store) -> None:
    """A second change of the same kind on the same day adds nothing, so no order is stored."""
    asked = published(store, survey())
    store.close_survey(asked.sequence, NOON, "ci")
    store.close_survey(asked.sequence, NOON, "late")  # changes nothing
    store.add_token("secret", "app", NOON, NOON + timedelta(days=1), "relay", "ci")
    store.revoke_token(store.tokens()[0].id, "ci")
    store.retire_key(asked.key)
    store.retire_key(asked.key)
    for _ in range(2):
        store.record_sign_in("analyst")
    store.delete_survey(asked.sequence)
    entries, survey_id, key = store.audit(), asked.id[:12], asked.key[:12]
    assert [(entry.actor, entry.action, entry.subject) for entry in entries] == [
        ("analyst", "signed in", ""),
        ("ci", "closed a survey", survey_id),
        ("ci", "created a token", "relay (app)"),
        ("ci", "revoked a token", "relay (app)"),
        ("command", "deleted a survey", survey_id),
        ("command", "enrolled a key", key),
        ("command", "published a survey", survey_id),
        ("command", "retired a key", key),
    ]
    (day,) = {entry.day for entry in entries}
    assert type(day) is date
    store.purge_audit(day)
    assert len(store.audit()) == 8
    store.purge_audit(day + timedelta(days=1))
    assert store.audit() == []


def test_only_one_caller_changes_the_state_of_an_alert(store: Store) -> None:
    sequence = published(store, survey()).sequence
    assert store.change_alert(sequence, "crashed > 5 %", "", "holds")
    assert not store.change_alert(sequence, "crashed > 5 %", "", "holds")
    assert not store.change_alert(sequence, "crashed > 5 %", "ceased", "holds")
    assert store.change_alert(sequence, "crashed > 5 %", "holds", "ceased")
    assert store.alert_states() == {(sequence, "crashed > 5 %"): "ceased"}
    store.close_survey(sequence, NOON)
    store.delete_survey(sequence)
    assert store.alert_states() == {}


def test_annotations_are_stored_once_and_deleted_with_their_survey(store: Store) -> None:
    asked, other = (published(store, survey(name=name)) for name in ("one", "other"))
    late, early = Annotation(date(2026, 12, 9), "2.4"), Annotation(date(2026, 12, 2), "outage")
    for annotation in (late, early, late):
        store.annotate(asked.sequence, annotation)
    store.annotate(other.sequence, late)
    assert store.annotations(asked.sequence) == [early, late]
    assert store.remove_annotation(asked.sequence, late)
    assert not store.remove_annotation(asked.sequence, late)
    assert store.annotations(asked.sequence) == [early]
    assert store.annotations(other.sequence) == [late]
    store.close_survey(other.sequence, datetime(2026, 12, 9, tzinfo=UTC))
    store.delete_survey(other.sequence)
    assert store.annotations(other.sequence) == []
    assert store.annotations(asked.sequence) == [early]


def test_a_shared_page_is_read_at_its_path_until_it_expires_or_is_revoked(store: Store) -> None:
    asked, other = (published(store, survey(name=name)) for name in ("one", "other"))
    first, last = NOON.date(), NOON.date() + timedelta(days=30)
    shares = [
        Share("/shared/a", asked.sequence, "ci", first, last, "week", None, "de"),
        Share("/shared/b", asked.sequence, "ci", first, last, "", 683, "", is_linked=True),
        Share("/shared/c", other.sequence, "ci", first, first, "", None, ""),
    ]
    for share in shares:
        store.share(share)
        assert store.shared_page(share.path, first) is None, "not published yet"
        store.set_shared_page(share.path, share.path.encode())
    assert store.shares() == [shares[2], *shares[:2]]
    assert [store.shared_page("/shared/a", day) for day in (first, last)] == [b"/shared/a"] * 2
    for path in ("/shared/", "/shared/A", "/shared/a%", "/shared/_"):
        assert store.shared_page(path, first) is None
    assert store.shared_page("/shared/a", last + timedelta(days=1)) is None
    assert store.revoke_share("/shared/a", "ci")
    assert not store.revoke_share("/shared/a", "ci")
    store.set_shared_page("/shared/a", b"late")
    assert store.shared_page("/shared/a", first) is None
    store.purge_shares(first)
    assert len(store.shares()) == 2
    store.purge_shares(last)
    assert store.shares() == shares[1:2]
    store.delete_survey(asked.sequence)
    assert store.shares() == []
    recorded = {tuple(entry)[1:] for entry in store.audit() if "shar" in entry.action}
    assert recorded == {
        ("ci", "shared results", asked.id[:12]),
        ("ci", "shared results", other.id[:12]),
        ("ci", "stopped sharing results", asked.id[:12]),
    }, "without the secret path"


def test_counters_and_the_day_are_stored(store: Store) -> None:
    assert store.latest_day() is None
    asked = published(store, survey())
    for day in (date(2026, 12, 15), date(2026, 12, 16)):
        store.keep_day(day)
        assert store.latest_day() == day
    for _ in range(2):
        store.add_counters({(asked.sequence, "late"): 2, (NO_SURVEY, "unknown-survey"): 1})
    assert store.counters(asked.sequence) == {"late": 4}
    assert store.counters(NO_SURVEY) == {"unknown-survey": 2}


# Reports


def test_a_snapshot_does_not_change(store: Store) -> None:
    asked = published(store, survey())
    take(store, asked, 1)
    with store.snapshot() as reader:
        assert reader.report_totals() == {asked.sequence: 1}
        take(store, asked, 2)
        store.enrol_key("ab" * 32)
        assert [tally.reports for tally in reader.tallies(asked.sequence)] == [1]
        assert "ab" * 32 not in reader.enrolled_keys()
        assert reader.surveys() == store.surveys()
    with store.snapshot() as reader:
        assert reader.report_totals() == {asked.sequence: 2}
        assert not hasattr(reader, "transaction")


def test_a_snapshot_refuses_statements_that_write(sql_store: Store) -> None:
    statement = "INSERT INTO keys (key) VALUES ('00')"
    with pytest.raises(StoreUnusable, match=r"read-?only"), sql_store.snapshot() as reader:
        cast(SqlSnapshot, reader)._connection.execute(statement)


def test_an_envelope_counts_once_whether_settled_or_not(store: Store) -> None:
    asked = published(store, survey())
    assert take(store, asked, 1, 2, 1) == ["accepted", "accepted", "duplicates"]
    assert take(store, asked, 2, 3) == ["duplicates", "accepted"]
    eventually(store.forget_order, "settled")
    assert take(store, asked, 1, 2, 3, 4) == ["duplicates"] * 3 + ["accepted"]
    assert counted(store, asked) == [4, *expected_cells(asked.survey, range(1, 5))]
    assert store.report_totals() == {asked.sequence: 4}


def test_crowds_count_distinct_reports_by_batch(store: Store) -> None:
    asked, other = (published(store, survey(name=name)) for name in ("one", "other"))
    first, second = [upload(asked, n, batch=b"first") for n in range(5)], upload(asked, 9, b"2")
    groups = [first[:3], [*first, second], [upload(asked, 0, b"2"), upload(asked, 20)],
              [upload(other, 0, b"first")]]  # fmt: skip
    for group in groups:
        with store.transaction() as transaction:
            commit(transaction, group)
    store.count_dropped(asked.sequence, DECEMBER, b"third", 7)
    store.count_dropped(asked.sequence, DECEMBER, b"third", 7)
    store.count_dropped(asked.sequence, DECEMBER + 1, b"fourth", 1)
    assert store.crowds(asked.sequence) == {DECEMBER: (1, 6, 7, ()), DECEMBER + 1: (0, 0, 1, ())}
    assert store.crowds(other.sequence) == {DECEMBER: (1, 1, 0, ())}
    store.delete_survey(asked.sequence)
    assert store.crowds(asked.sequence) == {}


def test_crowds_are_counted_by_labels(store: Store) -> None:
    """One label has three values in two batches; another is the same for all."""
    labels = (
        '[[label]]\nname = "version"\npattern = "[0-9]"\n[[label]]\nname = "arm"\nvalues = ["a"]\n'
    )
    asked = published(store, survey(labels + BIT))
    sent = [(b"one", "1", 3), (b"one", "2", 5), (b"other", "1", 4), (b"other", "3", 1)]
    for number, (batch, version, reports) in enumerate(sent):
        payload = encode_report(asked.survey, (0,), {"version": version, "arm": "a"})
        with store.transaction() as transaction:
            commit(transaction, [
                Upload(asked, DECEMBER, bytes([number, n]) * 8, 1, payload, batch=batch)
                for n in range(reports)
            ])  # fmt: skip
    (crowd,) = store.crowds(asked.sequence).values()
    assert (crowd.smallest, crowd.reports) == (1, 13)
    versions = {
        version: label_hash(0, version.encode().ljust(32, b"\0"), asked.label_key, DECEMBER)
        for version in "123"
    }
    assert {hashes[:8]: fewest for hashes, fewest in crowd.by_labels} == {
        versions["1"]: 3, versions["2"]: 5, versions["3"]: 1,
    }  # fmt: skip
    assert {hashes[8:] for hashes, _ in crowd.by_labels} == {
        label_hash(1, b"\0", asked.label_key, DECEMBER)
    }


def test_hashes_of_labels_do_not_link_two_rounds(store: Store) -> None:
    asked = published(store, survey('[[label]]\nname = "version"\npattern = "[0-9]"\n' + BIT))
    payload = encode_report(asked.survey, (0,), {"version": "1"})
    for number in (DECEMBER, DECEMBER + 1):
        with store.transaction() as transaction:
            commit(transaction, [Upload(asked, number, bytes(16), 1, payload, batch=b"one")])
    one, other = (crowd.by_labels for crowd in store.crowds(asked.sequence).values())
    assert {hashes for hashes, _ in one}.isdisjoint(hashes for hashes, _ in other)


def test_surveys_and_rounds_are_counted_separately(store: Store) -> None:
    one, other = published(store, survey(name="one")), published(store, survey(name="other"))
    take(store, one, 1)
    take(store, other, 1, 2)
    later = envelope(one, 1, round_number=DECEMBER + 1)
    with store.transaction() as transaction:
        commit(transaction, [Upload(one, later.round, later.id, later.count, later.payload)])
    assert [(t.round, t.reports) for t in store.tallies(one.sequence)] == [
        (DECEMBER, 1), (DECEMBER + 1, 1)
    ]  # fmt: skip
    assert counted(store, other)[0] == 2
    assert store.unsealed_rounds() == {
        one.sequence: [DECEMBER, DECEMBER + 1], other.sequence: [DECEMBER]
    }  # fmt: skip


# Released counts


def shown(store: Store, asked: PublishedSurvey) -> list[tuple[int, int, list[int]]]:
    return [(t.round, t.reports, t.cells.tolist()) for t in store.released(asked.sequence)]


def everything(counted: RoundTally, _: Released) -> Released:
    return {TOTAL: counted}


def test_released_counts_stay_while_others_are_counted(store: Store) -> None:
    asked, other = (published(store, survey(name=name)) for name in ("one", "other"))
    take(store, asked, 1, 2, 3)
    take(store, other, 1)
    assert shown(store, asked) == []
    store.release(asked.sequence, DECEMBER, everything)
    kept = [(DECEMBER, 3, expected_cells(asked.survey, [1, 2, 3]))]
    take(store, asked, 4, 5)
    assert shown(store, asked) == kept
    assert shown(store, other) == []
    rounds = range(DECEMBER, DECEMBER + 1)
    assert store.report_totals({asked.sequence: rounds}) == {asked.sequence: 3, other.sequence: 1}
    assert counted(store, asked)[0] == store.report_totals()[asked.sequence] == 5
    assert store.released(asked.sequence, DECEMBER + 1) == []
    assert store.released(asked.sequence, None, DECEMBER - 1) == []
    store.release(asked.sequence, DECEMBER, everything)
    assert shown(store, asked)[0][1] == 5


def test_parts_are_replaced_one_by_one_and_read_together(store: Store) -> None:
    platform = texts.label("platform", values=["linux", "mac"])
    asked = published(store, survey(BIT + platform))
    with store.transaction() as transaction:
        for value, reports in ((b"\0", 2), (b"\1", 3)):
            labels = LabelCounts({(0, value): np.array([reports, 0, reports])}, asked.label_key)
            cells = np.array([0, reports])
            transaction.add(asked.sequence, RoundTally(DECEMBER, reports, cells, labels))
    seen = list[set[str]]()

    def part(name: str, *values: bytes) -> Callable[[RoundTally, Released], Released]:
        def change(tally: RoundTally, released: Released) -> Released:
            seen.append({*released})
            labels = {(0, value): tally.labels[0, value] for value in values}
            made = LabelCounts(labels, tally.labels.key)
            return {name: RoundTally(tally.round, tally.reports, tally.cells, made)}

        return change

    store.release(asked.sequence, DECEMBER, part("0", b"\0"))
    assert shown(store, asked) == [], "a label's counts are not shown without the round's"
    store.release(asked.sequence, DECEMBER, part(TOTAL))
    store.release(asked.sequence, DECEMBER, part("0", b"\0", b"\1"))
    (tally,) = store.released(asked.sequence)
    assert {key: counts.tolist() for key, counts in tally.labels.items()} == {
        (0, b"\0"): [2, 0, 2], (0, b"\1"): [3, 0, 3]
    }  # fmt: skip
    assert (tally.reports, seen) == (5, [set(), {"0"}, {"0", TOTAL}])


def test_a_round_without_reports_releases_nothing(store: Store) -> None:
    asked = published(store, survey())
    store.release(asked.sequence, DECEMBER, everything)
    assert shown(store, asked) == []


def test_released_counts_are_deleted_with_their_survey_and_only_then(store: Store) -> None:
    asked, other = (published(store, survey(name=name)) for name in ("one", "other"))
    for survey_ in (asked, other):
        take(store, survey_, 1)
        store.release(survey_.sequence, DECEMBER, everything)
    store.seal(asked.sequence, [DECEMBER])
    while store.purge(10).rows:
        pass
    assert len(shown(store, asked)) == 1, "like the tally of the round"
    store.delete_survey(asked.sequence)
    assert shown(store, asked) == []
    assert len(shown(store, other)) == 1


def test_neither_a_damaged_tally_nor_damaged_released_counts_are_shown(sql_store: Store) -> None:
    store, asked = sql_store, published(sql_store, survey())
    take(store, asked, 1)
    execute(store, "UPDATE tallies SET reports = 2")
    store.release(asked.sequence, DECEMBER, everything)
    execute(store, "UPDATE tallies SET reports = 1")
    assert shown(store, asked) == []
    store.release(asked.sequence, DECEMBER, everything)
    assert len(shown(store, asked)) == 1
    execute(store, "UPDATE released SET reports = 2")
    assert shown(store, asked) == []
    store.release(asked.sequence, DECEMBER, everything)
    assert shown(store, asked) == [], "what was shown before is unknown"
    assert counted(store, asked)[0] == 1, "the final results stay readable"


def test_a_group_that_fails_halfway_changes_nothing(store: Store) -> None:
    asked = published(store, survey())

    fail_halfway(store, asked, [1])
    assert counted(store, asked) == []
    assert take(store, asked, 1) == ["accepted"]


def test_a_purged_round_is_deleted_in_slices_and_accepts_nothing_more(store: Store) -> None:
    asked = published(store, survey())
    take(store, asked, *range(3_000))
    eventually(store.forget_order, "settled")
    take(store, asked, *range(3_000, 3_100))
    store.seal(asked.sequence, [DECEMBER])
    slices = list(iter(partial(store.purge, 32), Purged(0, 0)))
    assert sum(part.envelopes for part in slices) == 3_100
    assert len(slices) > 1
    assert take(store, asked, 1, 5_000) == ["late", "late"]
    assert counted(store, asked) == [3_100, *expected_cells(asked.survey, range(3_100))]
    assert store.unsealed_rounds() == {}


def test_a_purge_reads_only_rounds_that_still_have_envelopes(
    sql_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A purge runs between two groups, so its cost must not grow with past rounds."""
    asked, rounds = published(sql_store, survey()), range(DECEMBER - 200, DECEMBER + 1)
    with sql_store.transaction() as transaction:
        for number in rounds[:-1]:
            transaction.add(asked.sequence, RoundTally(number, 1, np.ones(2, np.int64)))
    take(sql_store, asked, 1)
    sql_store.seal(asked.sequence, rounds)
    read, whole, statements = list[int](), records.is_whole, list[str]()

    def is_whole(row: TallyRow) -> bool:
        read.append(row.round)
        return whole(row)

    monkeypatch.setattr(records, "is_whole", is_whole)
    with listening(sql_store, statements):
        assert [sql_store.purge(32).envelopes for _ in range(2)] == [1, 0]
    assert read == [DECEMBER]
    assert len(statements) < 20


@contextmanager
def listening(store: Store, statements: list[str]) -> Iterator[None]:
    assert isinstance(store, SqlStore)
    writing = store._writing

    class Noting:
        def __init__(self, connection: Any) -> None:  # Any: connection of either store
            self.connection = connection

        def execute(self, statement: str, *values: Any) -> Any:  # Any: the driver's
            statements.append(statement)
            return self.connection.execute(statement, *values)

        def __getattr__(self, name: str) -> Any:  # Any: the driver's
            return getattr(self.connection, name)

    @contextmanager
    def noted(aim: str) -> Iterator[Noting]:
        with writing(aim) as connection:
            yield Noting(connection)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(store, "_writing", noted)
        yield
    assert statements


def test_counts_by_label_are_added_with_the_others_and_sealed(store: Store) -> None:
    asked = published(store, survey())
    groups = [{(0, b"a"): [1, 1, 0]}, {(0, b"a"): [1, 0, 1], (1, b"3.0"): [2, 2, 0]}]
    for group in groups:
        counts = {key: np.array(cells) for key, cells in group.items()}
        labels = LabelCounts(counts, asked.label_key)
        with store.transaction() as transaction:
            transaction.add(asked.sequence, RoundTally(DECEMBER, 2, np.ones(2, np.int64), labels))
    undone = LabelCounts({(0, b"a"): np.ones(3, np.int64)}, asked.label_key)
    with suppress(KeyError), store.transaction() as transaction:
        transaction.add(asked.sequence, RoundTally(DECEMBER, 1, np.ones(2, np.int64), undone))
        raise KeyError
    store.seal(asked.sequence, [DECEMBER])
    (tally,) = store.tallies(asked.sequence)
    stored = {key: counts.tolist() for key, counts in tally.labels.items()}
    assert stored == {(0, b"a"): [2, 1, 1], (1, b"3.0"): [2, 2, 0]}
    assert (tally.reports, tally.cells.tolist()) == (4, [2, 2])


@pytest.mark.parametrize("change", ["reports = reports + 1", "round = round - 1", "labels = cells"])
def test_a_damaged_tally_is_neither_shown_nor_added_to_nor_purged(
    sql_store: Store, change: str
) -> None:
    asked = published(sql_store, survey())
    take(sql_store, asked, 1)
    assert execute(sql_store, f"UPDATE tallies SET {change}") == 1
    with sql_store.transaction() as transaction:
        transaction.add(asked.sequence, RoundTally(DECEMBER, 1, np.ones(2, np.int64)))
    sql_store.seal(asked.sequence, [DECEMBER, DECEMBER - 1])
    for read in (partial(sql_store.tallies, asked.sequence), sql_store.report_totals):
        with pytest.raises(StoreUnusable, match="is damaged"):
            read()


@pytest.mark.parametrize("seed", range(3))
def test_any_order_of_groups_repeats_and_faults_counts_each_envelope_once(
    place: Place, seed: int
) -> None:
    """Compare with a set of accepted ids over 60 random steps, some of which are restarts."""
    chance, taken = random.Random(seed), set[int]()
    store = create_store(place)
    asked = published(store, survey())
    for _ in range(60):
        numbers = [chance.randrange(200) for _ in range(chance.randrange(1, 9))]
        match chance.randrange(8):
            case 0:
                store.close()
                store = open_store(place, f"node-{chance.randrange(3)}")
            case 1:
                store.forget_order()
            case 2:
                fail_halfway(store, asked, numbers)
            case _:
                new = [n not in taken and n not in numbers[:i] for i, n in enumerate(numbers)]
                assert [verdict == "accepted" for verdict in take(store, asked, *numbers)] == new
                taken |= set(numbers)
    assert counted(store, asked) == [len(taken), *expected_cells(asked.survey, sorted(taken))]
    store.close()


def test_an_envelope_sent_simultaneously_by_many_threads_counts_once(store: Store) -> None:
    asked = published(store, survey())
    writer = Writer(store, Catalogue(store), Hands())
    writer.start()
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: writer.write([upload(asked, 1)]), range(32)))
    writer.stop()
    assert sorted(answers) == [["accepted"]] + [["duplicates"]] * 31
    assert counted(store, asked) == [1, *expected_cells(asked.survey, [1])]


# Over HTTP


def test_reports_results_and_readiness_over_http(served: World) -> None:
    asked = served.publish(survey(minimum_reports=1))
    answer = served.send(envelope(asked, 1), envelope(asked, 2), envelope(asked, 1), app=True)
    assert (answer.json["accepted"], answer.json["duplicates"]) == (2, 1)
    assert served.tallies(asked)[DECEMBER] == (2, expected_cells(asked.survey, [1, 2]))
    assert served.client.get("/readyz").json["status"] == "ready"
    address = f"/v1/surveys/{asked.id}/results"
    results = served.client.get(address, headers=served.bearer("analyst")).json
    assert results["rounds"][0]["reports"] == 2
    for path in ("/", f"/surveys/{asked.id}"):
        page = served.client.get(path, headers=served.bearer("analyst"))
        assert page.status_code == 200
        assert asked.survey.title in page.text


def test_the_first_page_explains_how_to_name_the_store(served: World, place: Place) -> None:
    option = {Path: "--data", Database: "--store"}
    named = next((word for kind, word in option.items() if isinstance(place, kind)), "--memory")
    page = served.client.get("/", headers=served.bearer("operator"))
    assert f"{named} {place}" in page.text.replace("&amp;", "&")
