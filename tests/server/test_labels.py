"""Counts by label value: exact, bounded, independent of order, and kept wherever tallies are."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deniable.server.archive.fold import recount as recount_archive
from deniable.server.archive.manifest import rounds_of
from deniable.server.archive.round_files import archive_round
from deniable.server.intake.recount import compare
from deniable.server.intake.tally import check, empty_cells, label_counts, round_tally, tally
from deniable.server.store import (
    NO_LABELS,
    OTHER,
    Cells,
    LabelCounts,
    LabelValue,
    PublishedSurvey,
    RoundTally,
)
from deniable.server.store.label_counts import added, packed_labels, read_labels
from deniable.server.store.sqlite.inspection import Inspection
from deniable.shared.envelope import Envelope, encode_report, json_envelope
from deniable.shared.errors import InvalidEnvelope
from deniable.shared.survey.document import Survey
from tests.server.surveys import BIT, DECEMBER, MIXED, choice, symbols
from tests.server.surveys import survey as unlabelled
from tests.server.world import NOON, World, world
from tests.survey_texts import label

PLATFORM = label("platform", values=["linux", "mac"])
VERSION = label("version", pattern=r"[0-9.]+")
ARMS = label("search", arms=["control", "new"])
LABELS = PLATFORM + VERSION + ARMS
QUESTIONS = BIT + choice(("firefox", "chrome", "other"), "unary")
Labels = dict[str, str | None]
KEY = bytes(range(16))


def survey(questions: str = BIT, of: str = LABELS, **changes: object) -> Survey:
    return unlabelled(questions + of, **changes)


def labels_of(number: int) -> Labels:
    """Return some labels; every third report has no version."""
    return {
        "platform": ("linux", "mac", None, "beos")[number % 4],
        "version": f"{number % 7}.0" if number % 3 else None,
        "search": ("control", "new")[number % 2],
    }


def report(asked: Survey, number: int) -> bytes:
    return encode_report(asked, symbols(asked, number), labels_of(number))


def envelope(asked: PublishedSurvey, number: int, count: int = 1) -> Envelope:
    payload = b"".join(report(asked.survey, number + n) for n in range(count))
    return Envelope(asked.id, DECEMBER, number.to_bytes(16, "big"), count, payload)


def expected(asked: Survey, numbers: Sequence[int]) -> dict[tuple[int, bytes], list[int]]:
    """Return the counts by label value, computed as a separate tally of each value's reports."""
    members: dict[tuple[int, bytes], list[int]] = {}
    for number in numbers:
        labels = labels_of(number)
        platform = (
            ("linux", "mac").index(p) if (p := labels["platform"]) in ("linux", "mac") else 255
        )
        version = labels["version"]
        for key in (
            (0, bytes([platform])),
            (1, version.encode() if version else OTHER),
            (2, bytes([number % 2])),
        ):
            members.setdefault(key, []).append(number)
    cells = asked.cells
    return {
        key: [len(own), *tally(asked, b"".join(report(asked, n) for n in own), len(own))[:cells]]
        for key, own in members.items()
    }


def listed(labels: LabelCounts) -> dict[tuple[int, bytes], list[int]]:
    return {key: counts.tolist() for key, counts in labels.items()}


@pytest.mark.parametrize("changes", [{}, {"ask": 1}, {"cross": [["crashed", "browser"]]}])
@pytest.mark.parametrize("reports", [1, 40, 2_000])
def test_counts_by_label_are_those_of_the_label_s_own_reports(
    changes: dict[str, object], reports: int
) -> None:
    asked = survey(QUESTIONS, LABELS, **changes)
    payload = b"".join(report(asked, n) for n in range(reports))
    counts = label_counts(asked, payload, reports, KEY)
    assert listed(counts) == expected(asked, range(reports))


@pytest.mark.parametrize("reports", [1, 500])
def test_labels_change_no_overall_count(reports: int) -> None:
    asked, plain = survey(MIXED), unlabelled(MIXED)
    with_labels = tally(asked, b"".join(report(asked, n) for n in range(reports)), reports)
    without = b"".join(encode_report(plain, symbols(plain, n)) for n in range(reports))
    assert with_labels.tolist() == tally(plain, without, reports).tolist()


BAD = {
    "no such value": (0, b"\2"),
    "not the pattern": (1, b"x".ljust(32, b"\0")),
    "no padding": (1, b"1".ljust(32)),
    "after the padding": (1, b"1\0001".ljust(32, b"\0")),
    "no such arm": (33, b"\2"),
    "no arm": (33, b"\xff"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("count", [1, 30])
def test_a_report_with_a_faulty_label_is_refused(name: str, count: int) -> None:
    asked, (start, content) = survey(), BAD[name]
    whole = bytearray(b"".join(report(asked, n) for n in range(count)))
    place = (count - 1) * asked.report_size + start
    whole[place : place + len(content)] = content
    for refuse in (check, tally):
        with pytest.raises(InvalidEnvelope, match="label"):
            refuse(asked, bytes(whole), count)


# Open sets


def of_values(values: Sequence[bytes]) -> LabelCounts:
    return LabelCounts({(0, value): np.array([1, 1, 0]) for value in values}, KEY)


@given(st.lists(st.sampled_from([b"1", b"2", b"3", b"4", b"5", b"6"]), max_size=30), st.randoms())
def test_the_choice_of_kept_values_does_not_depend_on_the_order(
    values: list[bytes], chance: random.Random
) -> None:
    """The kept values are counted exactly; all others are counted as OTHER."""
    totals = []
    for _ in range(3):
        chance.shuffle(values)
        total = LabelCounts()
        for value in values:
            total = added(total, of_values([value]), limit=3)
        totals.append(packed_labels(total))
        kept = {key[1] for key in total} - {OTHER}
        assert len(kept) == min(3, len(set(values)))
        assert all(total[0, value][0] == values.count(value) for value in kept)
        assert sum(counts[0] for counts in total.values()) == len(values)
    assert len(set(totals)) == 1


def test_the_counts_of_several_nodes_add_up_to_those_of_one_node() -> None:
    values = [b"%d" % n for n in range(12)]
    halves = [added(NO_LABELS, of_values(half), 4) for half in (values[:6], values[6:])]
    whole = added(NO_LABELS, of_values(values), 4)
    for one, other in permutations(halves):
        assert packed_labels(added(one, other, 4)) == packed_labels(whole)


def test_a_round_keeps_at_most_a_thousand_values_of_an_open_set() -> None:
    asked = survey(of=VERSION)
    reports = [encode_report(asked, (1,), {"version": str(n)}) for n in range(3_000)]
    counts = round_tally(asked, DECEMBER, [(r, 1) for r in reports], KEY).labels
    at_once = round_tally(asked, DECEMBER, [(b"".join(reports), 3_000)], KEY).labels
    assert len(counts) == 1_001
    assert counts[0, OTHER].tolist() == [2_000, 0, 2_000]
    assert listed(counts) == listed(at_once)


def test_a_forger_cannot_choose_values_that_displace_others() -> None:
    """The twin knows the key, and displaces every real value with a thousand forged ones."""
    asked, other = survey(of=VERSION), bytes(16)
    values = [f"9.{n}" for n in range(20_000)]
    ranked = sorted(values, key=lambda value: LabelCounts(key=other).rank((0, value.encode())))
    forged, real = ranked[:1_000], [f"1.{n}" for n in range(10)]
    payload = b"".join(encode_report(asked, (1,), {"version": v}) for v in [*forged, *real])
    kept = {
        key: {value for _, value in label_counts(asked, payload, 1_010, key)}
        for key in (KEY, other)
    }
    assert len(kept[KEY] & {value.encode() for value in real}) >= 8
    assert not kept[other] & {value.encode() for value in real}


@given(
    st.dictionaries(
        st.tuples(st.integers(0, 7), st.binary(min_size=1, max_size=32)),
        st.lists(st.integers(0, 2**62), min_size=1, max_size=4).map(np.array),
    )
)
def test_packed_counts_survive_a_round_trip(values: dict[LabelValue, Cells]) -> None:
    labels = LabelCounts(values, KEY)
    again = read_labels(packed_labels(labels)) if labels else labels
    assert (listed(again), again.key) == (listed(labels), KEY)


# The store


@contextmanager
def asked_world(data: Path) -> Iterator[tuple[World, PublishedSurvey]]:
    with world(data) as here:
        yield here, here.publish(survey(MIXED, grace_days=0))


def stored(here: World, asked: PublishedSurvey) -> RoundTally:
    (found,) = here.store.tallies(asked.sequence)
    return found


def packed(tally: RoundTally) -> tuple[int, list[int], bytes]:
    return tally.reports, tally.cells.tolist(), packed_labels(tally.labels)


def test_reports_are_counted_by_label_once_in_either_encoding(tmp_path: Path) -> None:
    with asked_world(tmp_path) as (here, asked):
        for number in range(20):
            sent = envelope(asked, number)
            twin = {"envelopes": [json_envelope(asked.survey, sent)]}
            for response in (here.send(sent), here.client.post("/v1/envelopes", json=twin)):
                assert response.status_code == 200
        assert here.send(envelope(asked, 100, 500), app=True).json["accepted"] == 500
        numbers = [*range(20), *range(100, 600)]
        assert listed(stored(here, asked).labels) == expected(asked.survey, numbers)
        with here.store.snapshot() as reader:
            (again,) = reader.tallies(asked.sequence)
        assert packed(again) == packed(stored(here, asked))


def test_a_recount_finds_and_repairs_wrong_counts_by_label(tmp_path: Path) -> None:
    with asked_world(tmp_path) as (here, asked):
        here.send(*(envelope(asked, 50 * n, 50) for n in range(4)), app=True)
        before = stored(here, asked)
        surveys = {asked.sequence: asked}
        with Inspection.of(tmp_path) as inspection:
            assert [c.verdict for c in compare(inspection, surveys, NOON)] == ["equal"]
        wrong = LabelCounts({(0, b"\0"): before.labels[0, b"\0"] + 1}, asked.label_key)
        with here.store.transaction() as transaction:
            nothing = 0 * before.cells
            transaction.add(asked.sequence, RoundTally(DECEMBER, 0, nothing, wrong))
        with Inspection.of(tmp_path, writes=True) as inspection:
            (compared,) = compare(inspection, surveys, NOON)
            assert compared.verdict == "wrong"
            assert compared.recount is not None
            inspection.count_as(asked.sequence, compared.recount)
        assert packed(stored(here, asked)) == packed(before)


def test_an_archive_counts_labels_too(tmp_path: Path) -> None:
    with asked_world(tmp_path / "data") as (here, asked):
        here.send(*(envelope(asked, 50 * n, 50) for n in range(4)), app=True)
        kept = stored(here, asked)
        here.clock.pass_(days=40)
        archive_round(here.store, asked, kept, tmp_path / "archive")
    (again,) = recount_archive(rounds_of(tmp_path / "archive"))[asked.id]
    assert packed(again) == packed(kept)
    assert again.labels


def test_deletion_and_the_end_of_retention_leave_no_label(tmp_path: Path) -> None:
    with asked_world(tmp_path) as (here, asked):
        here.send(envelope(asked, 0, 300), app=True)
        before = stored(here, asked)
        here.clock.pass_(days=30 + 90 + 1)
        here.store.seal(asked.sequence, [DECEMBER])
        here.store.purge(1_000)
        assert packed(stored(here, asked)) == packed(before), "tallies outlive the envelopes"
        here.store.delete_survey(asked.sequence)
        assert here.store.tallies(asked.sequence) == []
        assert here.store.forget_order()
        content = b"".join(file.read_bytes() for file in tmp_path.iterdir() if file.is_file())
        # Three bytes may occur by chance, but hardly those of most versions.
        content = content.replace(str(tmp_path).encode(), b"")
        assert sum(f"{number}.0".encode() in content for number in range(7)) < 4


def test_an_empty_round_has_no_labels() -> None:
    empty = round_tally(survey(), DECEMBER, (), KEY)
    assert (empty.reports, dict(empty.labels)) == (0, {})
    assert empty.cells.tolist() == empty_cells(survey()).tolist() == [0, 0]
