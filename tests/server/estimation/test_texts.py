"""Texts found without a list: all that are above the floor, and none that nobody wrote."""

from __future__ import annotations

import random
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from deniable.server.estimation import Estimate, estimates, frequent_texts
from deniable.server.estimation.forgery_test import FALSE_ALARM
from deniable.server.estimation.frequent_texts import (
    FALSE_DISCOVERY,
    NEVER,
    counts_of,
    following,
    whole,
)
from deniable.server.estimation.frequent_texts import FIRST_BYTE as FIRST_STATE
from deniable.shared.survey.document import parse_toml
from deniable.shared.survey.kinds.text import FINAL, Text
from deniable.simulations.population import text_tally
from tests.plausible import assert_implausible, assert_plausible
from tests.server.estimation.single import fit
from tests.survey_texts import question as in_toml
from tests.survey_texts import survey_text

Cells = npt.NDArray[np.int64]
PEOPLE = 100_000
WORDS = {"oslo": 2_000, "rome": 1_800, "mün": 1_500, "東": 1_300, "a": 1_200}


@cache
def asking(epsilon: str = "4", salt: str = "town", **more: Any) -> Text:  # Any: what TOML holds
    if more.get("buckets", 0) <= 8_192:  # subsets of more options are too long
        more.setdefault("mechanism", "grouped-subset-selection")
    asked = in_toml("town", "text", epsilon, length=4, salt=salt, **more)
    (question,) = parse_toml(survey_text(asked)).questions
    assert isinstance(question, Text)
    return question


def tally(question: Text, people: dict[str, int], seed: int = 20261119) -> Cells:
    alone = PEOPLE - sum(people.values())
    return text_tally(question, people, alone, np.random.default_rng(seed))


SURVEYS: list[dict[str, Any]] = [
    {},
    {"mechanism": "grouped-projective-geometry"},
    {"buckets": 65_536},
]


@cache
def found(number: int = 0) -> tuple[Estimate, ...]:
    asked = asking(**SURVEYS[number])
    return estimates(asked, tally(asked, WORDS), PEOPLE)


@pytest.mark.parametrize("number", range(len(SURVEYS)))
def test_every_text_above_the_floor_is_found_and_no_other(number: int) -> None:
    """Texts have every length and several scripts; most people write a text of their own."""
    floor = asking(**SURVEYS[number]).mechanism.floor(PEOPLE) * PEOPLE
    assert 0.95 * min(WORDS.values()) < floor < min(WORDS.values())
    assert {text.label for text in found(number)} == set(WORDS)


@pytest.mark.parametrize("number", range(len(SURVEYS)))
def test_intervals_contain_the_true_shares(number: int) -> None:
    for text in found(number):
        share = WORDS[text.label] / PEOPLE
        assert text.low < share < text.high
        assert abs(text.estimate - share) < 5 * text.standard_error
        assert text.high - text.low < 0.02
        assert text.reports == PEOPLE


def test_texts_are_listed_by_frequency_with_their_p_values() -> None:
    shares = [text.estimate for text in found()]
    assert shares == sorted(shares, reverse=True)
    for text in found():
        assert text.note is not None
        assert float(text.note.removeprefix("p-value ")) <= FALSE_DISCOVERY


@pytest.mark.parametrize("others", [0, PEOPLE])
def test_no_text_is_found_if_nobody_shares_one(others: int) -> None:
    people = {} if others else {f"{n:04d}": PEOPLE // 1_000 for n in range(1_000)}
    assert estimates(asking(), tally(asking(), people, 2), PEOPLE) == ()


def test_the_test_above_can_fail() -> None:
    """Without a significance test, any candidate would be listed."""
    question, cells = asking(), tally(asking(), {}, 2)
    scores = counts_of(question.mechanism, cells)
    digits = frequent_texts.candidates(
        (scores.shares / scores.errors)[:-FINAL], question.beginnings, 1_000
    )
    assert len(digits) == 1_000


def test_an_empty_tally_finds_no_text() -> None:
    question = asking()
    nothing = np.zeros(question.mechanism.cells, np.int64)
    assert estimates(question, nothing, 0) == ()


# Intervals


CROWD, NEAR, OFTEN = 30_000_000, 816, 150


def shown_and_missed(*, apart: bool, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Count the shown texts and the intervals that miss, over four seeds.

    Of the texts, 150 are far above the floor and 816 are at .3 of it. With `apart`, the intervals
    ignore shared buckets and allow for the noise alone.
    """
    if apart:
        monkeypatch.setattr(frequent_texts, "reach", lambda *_: (0.0, 0.0))
    shown = missed = 0
    for seed in range(4):
        question, generator = asking(salt=f"{seed}"), np.random.default_rng((7, seed))
        floor = question.mechanism.floor(CROWD) * CROWD
        numbers = generator.choice(0x10000, NEAR + OFTEN, replace=False)
        texts = [f"{n:04x}" for n in numbers]
        people = {text: int(floor * (8 if n < OFTEN else 0.3)) for n, text in enumerate(texts)}
        cells = text_tally(question, people, CROWD - sum(people.values()), generator)
        rows = frequent_texts.found(question, cells, CROWD, 0.95)
        shown += len(rows)
        missed += sum(not row.low <= people.get(row.label, 0) / CROWD <= row.high for row in rows)
    return shown, missed


def test_intervals_allow_for_texts_that_share_a_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most 5 % of the intervals miss."""
    shown, missed = shown_and_missed(apart=False, monkeypatch=monkeypatch)
    assert shown > 150
    assert missed <= 0.05 * shown


def test_intervals_that_ignore_shared_buckets_fail_the_same_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Twin: nearly half of the intervals miss if they allow for the noise alone."""
    shown, missed = shown_and_missed(apart=True, monkeypatch=monkeypatch)
    assert missed > 0.05 * shown
    assert_implausible(missed, shown, 0.05)


def test_without_shared_texts_buckets_vary_no_more_than_their_noise() -> None:
    question, cells = asking(), tally(asking(), {}, 3)
    counts = counts_of(question.mechanism, cells)
    final = counts.shares[-FINAL:]
    weights = counts.reports[-FINAL:] / counts.reports[-FINAL:].sum()
    spread = float(np.sqrt((weights**2) @ (counts.errors[-FINAL:, 0] ** 2)))
    for beyond in (0.025, 1e-3, 1e-6):
        below, above = frequent_texts.reach(final, weights, beyond)
        normal = -NormalDist().inv_cdf(beyond) * spread
        assert below == pytest.approx(normal, rel=0.06)
        assert above == pytest.approx(normal, rel=0.06)


# p-values


def random_scores(crowded: int) -> npt.NDArray[np.float64]:
    """Return bucket scores that are noise, except for a few buckets that hold many people."""
    rng = np.random.default_rng(3)
    scores = rng.normal(size=(FINAL, 4_096))
    scores[:, :crowded] += 11.0
    return scores


@pytest.mark.parametrize("crowded", [0, 3, 40])
def test_p_values_of_texts_that_nobody_wrote_are_uniform_or_larger(crowded: int) -> None:
    """Draw buckets as the hash would. The false-alarm probability is at most 1e-9 per level."""
    scores, rng, drawn = random_scores(crowded), np.random.default_rng(4), 200_000
    p = frequent_texts.p_values(scores, rng.integers(0, 4_096, (FINAL, drawn)))
    for level in (0.5, 0.1, 1e-2, 1e-3, 1e-4):
        below = int((p <= level).sum())
        if below > level * drawn:
            assert_plausible(below, drawn, level)


def test_p_values_are_not_far_above_uniform() -> None:
    scores, rng = random_scores(3), np.random.default_rng(4)
    p = frequent_texts.p_values(scores, rng.integers(0, 4_096, (FINAL, 200_000)))
    assert (p <= 1e-2).mean() > 0.8e-2


def test_the_test_of_p_values_can_fail() -> None:
    """Compared with noise alone, crowded buckets would give too many small p-values."""
    scores, rng, drawn = random_scores(40), np.random.default_rng(4), 200_000
    buckets = rng.integers(0, 4_096, (FINAL, drawn))
    without = frequent_texts.p_values(random_scores(0), buckets)
    capped = np.minimum(np.take_along_axis(scores, buckets, axis=1), frequent_texts.MAX_SCORE).sum(
        axis=0
    )
    normal = np.sqrt(FINAL) * 3.72  # a standard normal exceeds this with probability 1e-4
    with pytest.raises(AssertionError, match="probability below"):
        assert_plausible(int((capped > normal).sum()), drawn, 1e-4)
    assert len(without) == drawn


# Digits that can follow a beginning


def test_every_text_can_be_spelled_digit_by_digit() -> None:
    draw = random.Random(5)
    for _ in range(3_000):
        text = "".join(
            chr(
                draw.choice(
                    (
                        draw.randrange(32, 127),
                        draw.randrange(0xA1, 0x3000),
                        draw.randrange(0x10000, 0x20000),
                    )
                )
            )
            for _ in range(3)
        )
        state = spelled(text.encode() + b"\0\0")
        assert bool(whole(np.array([state]))[0])


@pytest.mark.parametrize(
    "beginning",
    [
        b"\0",
        b"\x1b",
        b"\x7f",
        b"a\nb",
        b"\x80",
        b"\xc0\x80",
        b"\xed\xa0",
        b"\xf5",
        b"a\0b",
        b"\xe0\x80",
        b"\xf0\x80",
        b"\xf4\x90",
        b"\xc3a",
    ],
)
def test_digits_that_spell_no_text_are_rejected(beginning: bytes) -> None:
    assert spelled(beginning) == NEVER


def test_a_truncated_character_is_not_a_whole_text() -> None:
    assert not whole(np.array([spelled("ü".encode()[:1])]))[0]


def spelled(text: bytes) -> int:
    state = FIRST_STATE
    for digit in text.hex():
        state = int(following()[state, int(digit, 16)]) if state != NEVER else NEVER
    return state


# Forged reports


def test_impossible_counts_are_flagged_in_their_group() -> None:
    """Honest counts are not flagged; a bucket that all reports of a group name is flagged."""
    mechanism, cells = asking().mechanism, tally(asking(), WORDS)
    assert fit(mechanism, cells, PEOPLE).p_value > FALSE_ALARM
    assert fit(mechanism, cells, PEOPLE).forged == 0
    forged = cells.copy()
    forged[5] = forged[-mechanism.groups]  # all reports of the first group
    assert fit(mechanism, forged, PEOPLE).forged > 0
