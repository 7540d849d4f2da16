"""Estimates for texts next to a very frequent one: shares are unbiased, and intervals hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import numpy as np
import numpy.typing as npt
import pytest

from deniable.server.estimation import estimates, frequent_texts
from deniable.server.estimation.frequent_texts import Counts, counts_of
from deniable.shared.privacy.epsilon import ONE
from deniable.shared.survey.kinds.text import FINAL, Text
from deniable.simulations.population import text_tally
from tests.bench.texts import PEOPLE, zipf
from tests.bench.texts import asking as asking_zipf
from tests.plausible import assert_implausible, assert_plausible
from tests.server.estimation.test_texts import asking

Cells = npt.NDArray[np.int64]

# With expected counts


EACH = 2**32  # minimum reports per group, so that rounding moves a share by less than 7e-10
MIXED = {
    "one that most answer": (0.8, 0.06, 0.05),
    "hardly anybody else": (0.5, 0.499),
    "nobody else": (0.7, 0.2, 0.1),
    "many alike": (0.04,) * 24,
    "rare ones": (0.003, 0.002),
}


@pytest.mark.parametrize("shared", [False, True], ids=["apart", "in one bucket"])
@pytest.mark.parametrize("shares", MIXED.values(), ids=MIXED)
@pytest.mark.parametrize(("epsilon", "buckets"), [("1", 1_024), ("4", 4_096)])
def test_expected_counts_reproduce_each_share(
    epsilon: str, buckets: int, shares: tuple[float, ...], *, shared: bool
) -> None:
    """Shares are exact for every set of found texts, with and without shared buckets."""
    people = {f"{n:04x}": share for n, share in enumerate(shares)}
    question = meeting(people, epsilon, buckets, shared=shared)
    cells = expected(question, people)
    rows = estimates(question, cells, int(cells[-question.mechanism.groups :].sum()))
    assert {row.label: row.estimate for row in rows} == pytest.approx(people, abs=1e-9)
    assert all(row.low < people[row.label] < row.high for row in rows)


def test_texts_found_by_one_look_are_used_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once every text is found, the remainder is equal in all buckets."""
    p = iter(np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 1.0, 1.0]]))
    monkeypatch.setattr(frequent_texts, "p_values", lambda *_: next(p))
    people = dict(zip(("most", "some", "few"), MIXED["one that most answer"], strict=True))
    shares, _, left = frequent_texts._standing_out(*final(asking(buckets=1_024), people))
    assert shares.tolist() == pytest.approx(list(people.values()), abs=1e-9)
    assert np.abs(left).max() < 1e-9


def test_two_texts_with_the_same_buckets_share_their_count_equally() -> None:
    """Such pairs hardly ever occur by chance, but a forger can look for one."""
    counts, buckets = final(asking(), {"most": 0.8})
    shares, _ = frequent_texts._taken_out(counts, buckets[:, [0, 0]])
    assert shares.tolist() == pytest.approx([0.4, 0.4])


def final(question: Text, people: dict[str, float]) -> tuple[Counts, Cells]:
    """Return the expected counts of the final groups, and each text's buckets in these groups."""
    counts = counts_of(question.mechanism, expected(question, people))
    own = np.array([question.place(text) for text in people])
    counted = counts.supports[-FINAL:], counts.reports[-FINAL:]
    return Counts(*counted, counts.empty, counts.gain), own.T[-FINAL:]


def meeting(texts: dict[str, float], epsilon: str, buckets: int, *, shared: bool) -> Text:
    """Return a question in which some of these texts share a final bucket, or none do."""
    for salt in count():
        question = asking(epsilon, salt=f"{salt}", buckets=buckets)
        own = np.array([question.place(text) for text in texts])
        if shared == any(len(set(group)) < len(texts) for group in own.T[-FINAL:].tolist()):
            return question
    raise AssertionError


def expected(question: Text, people: dict[str, float]) -> Cells:
    """Return expected counts for groups of two sizes; other texts are spread evenly."""
    design, groups = question.mechanism.each, np.arange(question.mechanism.groups)
    sizes = EACH + groups % 2 * EACH // 2
    held = np.full((len(groups), design.options), (1 - sum(people.values())) / design.options)
    for text, share in people.items():
        held[groups, question.place(text)] += share
    rates = (design.lie + (design.keep - design.lie) * held) / ONE
    return np.append(np.rint(sizes[:, None] * rates), sizes).astype(np.int64)


# With noise and random hashes


CROWDS = (30_000_000, 1_000_000_000)


def shown_and_missed(buckets: int, crowd: int) -> tuple[int, int]:
    """Count the texts shown and the intervals that miss, at three ε with four hashes each.

    Three texts are frequent; thirty others have shares that fall as 1 / n.
    """
    shown = missed = 0
    for epsilon in ("1", "2", "4"):
        for seed in range(4):
            question = asking(epsilon, salt=f"{seed}", buckets=buckets)
            shares = (0.8, 0.06, 0.05, *(0.01 / n for n in range(1, 31)))
            people = {f"{n:04x}": int(share * crowd) for n, share in enumerate(shares)}
            generator = np.random.default_rng((seed, buckets, crowd))
            cells = text_tally(question, people, crowd - sum(people.values()), generator)
            rows = frequent_texts.found(question, cells, crowd, 0.95)
            shown += len(rows)
            missed += sum(
                not row.low <= people.get(row.label, 0) / crowd <= row.high for row in rows
            )
    return shown, missed


@contextmanager
def all_spread(buckets: int) -> Iterator[None]:
    """Patch the overlaps as if each found text were spread over all buckets."""
    right = frequent_texts._overlaps
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            frequent_texts,
            "_overlaps",
            lambda *given: ((buckets - 1) * right(*given) + 1) / buckets,
        )
        yield


@pytest.mark.parametrize(
    ("buckets", "crowd"),
    [
        *(
            pytest.param(*cell, marks=pytest.mark.long)
            for cell in ((1_024, CROWDS[0]), (1_024, CROWDS[1]), (4_096, CROWDS[0]))
        ),
        (4_096, CROWDS[1]),
    ],
)
def test_intervals_hold_next_to_a_very_frequent_text(buckets: int, crowd: int) -> None:
    """At most 5 % of the intervals miss. The false-alarm probability is at most 1e-9."""
    shown, missed = shown_and_missed(buckets, crowd)
    assert shown >= 3 * 3 * 4
    if missed > 0.05 * shown:
        assert_plausible(missed, shown, 0.05)


@pytest.mark.parametrize(
    ("buckets", "crowd"),
    [pytest.param(1_024, CROWDS[0], marks=pytest.mark.long), (4_096, CROWDS[1])],
)
def test_the_test_above_can_fail(buckets: int, crowd: int) -> None:
    with all_spread(buckets):
        shown, missed = shown_and_missed(buckets, crowd)
    assert_implausible(missed, shown, 0.05)


@pytest.mark.parametrize("exponent", [1.0, pytest.param(1.2, marks=pytest.mark.long)])
def test_intervals_widen_by_less_than_one_percent_without_a_frequent_text(exponent: float) -> None:
    generator, question = np.random.default_rng(20261119), asking_zipf("wide")
    people, others = zipf(generator, exponent)
    cells = text_tally(question, people, others, generator)
    rows = frequent_texts.found(question, cells, PEOPLE, 0.95)
    with all_spread(4_096):
        before = {row.label: row for row in frequent_texts.found(question, cells, PEOPLE, 0.95)}
    assert rows
    for row in rows:
        was = before[row.label]
        assert row.high - row.low < 1.01 * (was.high - was.low)
