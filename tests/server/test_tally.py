"""Counting: exact for every shape of question, and strict about what no client sends."""

from __future__ import annotations

import random

import numpy as np
import pytest

from deniable.server.intake.tally import FEW, ROWS, check, tally
from deniable.shared.envelope import encode_report
from deniable.shared.errors import InvalidEnvelope
from deniable.shared.survey.document import Survey
from tests.server.surveys import BIT, NUMBER, choice, expected_cells, mixed, survey, symbols

SURVEYS = {
    "bit": survey(BIT),
    "number": survey(NUMBER),
    "few options": survey(choice(FEW, "k-randomized-response")),
    "more options": survey(choice(FEW + 1, "k-randomized-response")),
    "one full byte": survey(choice(256, "k-randomized-response")),
    "two bytes": survey(choice(257, "k-randomized-response")),
    "unary, full bytes": survey(choice(16, "unary")),
    "unary, padded": survey(choice(17, "unary")),
    "all at once": mixed(),
}


def payload(asked: Survey, reports: int) -> bytes:
    return b"".join(encode_report(asked, symbols(asked, number)) for number in range(reports))


@pytest.mark.parametrize("shape", SURVEYS)
@pytest.mark.parametrize("reports", [1, 2, ROWS - 1, ROWS, ROWS + 1, 1_000])
def test_counts_are_those_of_counting_one_by_one(shape: str, reports: int) -> None:
    asked = SURVEYS[shape]
    cells = tally(asked, payload(asked, reports), reports)
    assert cells.dtype == np.int64
    assert cells.tolist() == expected_cells(asked, range(reports))


@pytest.mark.parametrize("shape", SURVEYS)
def test_one_report_is_checked_as_strictly_as_many(shape: str) -> None:
    """The quick way for one report, and the counting way, agree on every value of every byte."""
    asked = SURVEYS[shape]
    good = payload(asked, 1)
    for place in range(len(good)):
        for value in range(256):
            changed = good[:place] + bytes([value]) + good[place + 1 :]
            assert accepts(asked, changed, 1) == accepts(asked, changed * 2, 2)


def accepts(asked: Survey, sent: bytes, reports: int) -> bool:
    try:
        check(asked, sent, reports)
    except InvalidEnvelope:
        return False
    return True


def test_one_bad_report_among_many_is_found_wherever_it_is() -> None:
    asked = SURVEYS["all at once"]
    good, size, chance = payload(asked, 600), asked.report_size, random.Random(1)
    for _ in range(50):
        place = (
            chance.randrange(600) * size + 6
        )  # the unary question's last byte: four padding bits
        bad = good[:place] + bytes([good[place] | 0x80]) + good[place + 1 :]
        with pytest.raises(InvalidEnvelope, match="languages"):
            tally(asked, bad, 600)


def test_tallies_add() -> None:
    asked = SURVEYS["all at once"]
    whole, size = payload(asked, 500), asked.report_size
    parts = tally(asked, whole[: 200 * size], 200) + tally(asked, whole[200 * size :], 300)
    assert (parts == tally(asked, whole, 500)).all()
