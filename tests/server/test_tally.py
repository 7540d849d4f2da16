"""Counting: exact for every kind of question, and strict about input that no client sends."""

from __future__ import annotations

import math
import random
from pathlib import Path

import numpy as np
import pytest

from deniable.server.intake import tally as tallies
from deniable.server.intake.commit import commit
from deniable.server.intake.tally import (
    BLOCKS,
    FEW_SYMBOLS,
    ROWS,
    _set_bits,
    _weights,
    check,
    tally,
)
from deniable.server.store import SqliteStore, Upload
from deniable.shared.envelope import encode_report
from deniable.shared.errors import InvalidEnvelope
from deniable.shared.survey.document import Survey
from tests.server.surveys import (
    BIT,
    MIXED,
    NUMBER,
    choice,
    envelope,
    expected_cells,
    mixed,
    published,
    survey,
    symbols,
)

CROSS = [["crashed", "browser"], ["languages", "crashed"], ["languages", "regions"]]
SURVEYS = {
    "bit": survey(BIT),
    "number": survey(NUMBER),
    "few options": survey(choice(FEW_SYMBOLS, "k-randomized-response")),
    "more options": survey(choice(FEW_SYMBOLS + 1, "k-randomized-response")),
    "one full byte": survey(choice(256, "k-randomized-response")),
    "two bytes": survey(choice(257, "k-randomized-response")),
    "three bytes": survey(choice(65_536, "projective-geometry")),
    "unary, full bytes": survey(choice(16, "unary")),
    "unary, padded": survey(choice(17, "unary")),
    "two of them": survey(BIT + NUMBER),
    "together": mixed(),
    "one of them": mixed(ask=1),
    "crossed": survey(MIXED + choice(9, "unary", name="regions"), cross=CROSS),
}


def payload(asked: Survey, reports: int) -> bytes:
    return b"".join(encode_report(asked, symbols(asked, number)) for number in range(reports))


@pytest.mark.parametrize("shape", SURVEYS)
@pytest.mark.parametrize("reports", [1, 2, ROWS - 1, ROWS, ROWS + 1, 1_025])
def test_counts_equal_those_of_reports_counted_one_by_one(shape: str, reports: int) -> None:
    asked = SURVEYS[shape]
    cells = tally(asked, payload(asked, reports), reports)
    assert cells.dtype == np.int64
    assert cells.tolist() == expected_cells(asked, range(reports))


@pytest.mark.parametrize("reports", [255, 256, 257, 1_000])
def test_a_bit_that_every_report_sets_is_counted_in_every_report(reports: int) -> None:
    asked = SURVEYS["unary, full bytes"]
    assert tally(asked, b"\xff\xff" * reports, reports).tolist() == [reports] * 16


@pytest.mark.parametrize("shape", SURVEYS)
def test_a_single_report_is_checked_as_strictly_as_several(shape: str) -> None:
    """The fast path for one report and the counting path agree for every value of each byte."""
    asked = SURVEYS[shape]
    good = payload(asked, 1)
    for index in range(len(good)):
        for value in range(256):
            changed = good[:index] + bytes([value]) + good[index + 1 :]
            assert accepts(asked, changed, 1) == accepts(asked, changed * 2, 2)


def accepts(asked: Survey, sent: bytes, reports: int) -> bool:
    try:
        check(asked, sent, reports)
    except InvalidEnvelope:
        return False
    return True


@pytest.mark.parametrize("shape", SURVEYS)
def test_an_encoding_without_a_vectorized_counter_is_counted_by_its_own_method(
    shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tallies, "COUNTERS", {})
    asked = SURVEYS[shape]
    assert tally(asked, payload(asked, 20), 20).tolist() == expected_cells(asked, range(20))
    first = asked.questions[0].mechanism
    if not asked.asks_one and first.symbols < 256**first.payload_size:
        bad = first.symbols.to_bytes(first.payload_size, "little")
        with pytest.raises(InvalidEnvelope, match="out of range"):
            tally(asked, payload(asked, 20) + bad + payload(asked, 1)[len(bad) :], 21)


@pytest.mark.parametrize("more", [-1, 0, 1, 300])
@pytest.mark.parametrize("width", [1, 5, 16])
def test_many_rows_are_added_up_bit_by_bit(width: int, more: int) -> None:
    """Count random bits and set bits, for numbers of rows around the block size.

    The rows are cut from a wider payload, as if the survey had several questions.
    """
    rows = np.random.default_rng(width).integers(
        0, 256, (2 * BLOCKS * ROWS + more, width + 3), dtype=np.uint8
    )
    rows[:, 1] |= 0x81
    part = rows[:, 1 : width + 1]
    expected = np.unpackbits(part, axis=1, bitorder="little").sum(axis=0, dtype=np.int64)
    assert _set_bits(part).tolist() == expected.tolist()
    by_row = np.unpackbits(part, axis=1).sum(axis=1)
    assert (_weights(part) == by_row).all()


def test_one_bad_report_among_many_is_found_at_any_position() -> None:
    asked = SURVEYS["together"]
    good, size, chance = payload(asked, 600), asked.report_size, random.Random(1)
    for _ in range(50):
        place = (
            chance.randrange(600) * size + 6
        )  # the unary question's last byte: four padding bits
        bad = good[:place] + bytes([good[place] | 0x80]) + good[place + 1 :]
        with pytest.raises(InvalidEnvelope, match="languages"):
            tally(asked, bad, 600)


def test_an_invalid_group_is_found_among_many() -> None:
    asked = survey(
        '[[question]]\nname = "idea"\nkind = "text"\nover = "first"\nlength = 4\nepsilon = "1"\n'
        'mechanism = "grouped-k-randomized-response"\n'
    )
    (question,) = asked.questions
    groups = 5 + 6  # for the first 4 to 8 digits, and six for the whole text
    size = question.mechanism.payload_size
    last = bytes([groups - 1]).ljust(size, b"\0")
    assert tally(asked, last * 3, 3)[-1] == 3
    for group in (groups, groups + 1, 255):
        with pytest.raises(InvalidEnvelope, match="symbol out of range"):
            tally(asked, last + bytes([group]).ljust(size, b"\0") + last, 3)


def test_an_impossible_symbol_of_three_bytes_is_found_among_many() -> None:
    asked = survey(choice(65_536, "projective-geometry"))
    limit = asked.questions[0].mechanism.symbols
    assert 2**16 < limit < 2**24 - 1
    last = (limit - 1).to_bytes(3, "little")
    assert tally(asked, last * 3, 3)[-1] == 3
    for number in (limit, limit + 1, 2**24 - 1):
        wrong = last + number.to_bytes(3, "little") + last
        with pytest.raises(InvalidEnvelope, match="symbol out of range"):
            tally(asked, wrong, 3)


def test_sets_of_a_fixed_size_are_counted_and_others_rejected() -> None:
    """Count all sets of the right size from 13 options; reject sets with an option more or less."""
    asked = survey(choice(13, "subset-selection"))
    encoding = asked.questions[0].mechanism.encoding
    sets = list(encoding.symbols())
    size = sets[0].bit_count()
    assert len(sets) == math.comb(13, size) > ROWS
    sent = [encode_report(asked, [symbol]) for symbol in sets]
    assert tally(asked, b"".join(sent), len(sent)).tolist() == [math.comb(12, size - 1)] * 13
    for index in (0, ROWS - 1, ROWS, len(sets) - 1):
        for other in (sets[index] & sets[index] - 1, sets[index] | ~sets[index] & sets[index] + 1):
            assert other.bit_count() != size
            wrong = [*sent[:index], encode_report(asked, [other]), *sent[index + 1 :]]
            with pytest.raises(InvalidEnvelope, match="browser"):
                tally(asked, b"".join(wrong), len(wrong))


def test_a_commit_counts_payloads_that_admission_did_not(tmp_path: Path) -> None:
    with SqliteStore.create(tmp_path / "data") as store:
        asked = published(store, mixed())
        sent = [envelope(asked, number) for number in range(5)]
        counted = [tally(asked.survey, envelope.payload, 1) for envelope in sent[:3]]
        uploads = [
            Upload(asked, envelope.round, envelope.id, 1, envelope.payload, cells)
            for envelope, cells in zip(sent, [*counted, None, None], strict=True)
        ]
        with store.transaction() as transaction:
            assert commit(transaction, uploads) == ["accepted"] * 5
        (kept,) = store.tallies(asked.sequence)
        assert (kept.reports, kept.cells.tolist()) == (5, expected_cells(asked.survey, range(5)))
        unchanged = [expected_cells(asked.survey, [number]) for number in range(3)]
        assert [cells.tolist() for cells in counted] == unchanged


@pytest.mark.parametrize(("size", "reports"), [(0, 0), (5, 0), (0, 2), (9, 2), (11, 2), (10, 3)])
def test_a_payload_has_the_length_of_its_reports(size: int, reports: int) -> None:
    with pytest.raises(InvalidEnvelope, match=f"{reports} reports .* got {size}"):
        check(
            survey(BIT + choice(2**15 + 1) + choice(9, "unary", name="languages")),
            bytes(size),
            reports,
        )


def test_tallies_of_parts_add_up() -> None:
    asked = SURVEYS["together"]
    whole, size = payload(asked, 500), asked.report_size
    parts = tally(asked, whole[: 200 * size], 200) + tally(asked, whole[200 * size :], 300)
    assert (parts == tally(asked, whole, 500)).all()
