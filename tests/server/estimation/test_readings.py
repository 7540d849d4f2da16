"""Readings: coverage of everything that is ever shown of a round, summed exactly, and its width.

A `path` follows a round report by report. `alive` holds the probability of each count as long as no
interval that was shown has missed the truth. Counts that are rarer than RARE together are dropped,
and count as missed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from deniable.server.estimation import ESTIMATORS
from deniable.server.estimation.shares import clopper_pearson
from deniable.server.estimation.statements import CONFIDENCE, Reading, halved, reading
from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.shared.survey.document import Survey
from deniable.shared.survey.kinds.base import Question
from tests.server.surveys import survey
from tests.survey_texts import bit

Array = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Interval = tuple[Array, Array]
Stops = Callable[[int, Counts], npt.NDArray[np.bool_]]

RARE = 1e-13
EPSILONS = ("0.25", "1", "2", "8")
SHARES = (0.0, 0.04, 0.3, 0.5)
ORDERS = ("every third", "first", "last")
ENDS, OVER = (datetime(2026, 12, day, 12, tzinfo=UTC) for day in (15, 31))
ROUND = 20790  # the day 2026-12-03


def daily(looks: str) -> Survey:
    """Return a survey whose round ROUND ends on 4 December and whose grace ends on the 18th."""
    return survey(bit(), round="day", opens=date(2026, 12, 1), looks=looks)


@cache
def question(epsilon: str) -> Question:
    (made,) = survey(bit(epsilon=epsilon)).questions
    return made


@dataclass(frozen=True)
class Crowd:
    """People who answer a bit one after another, and the claim of a statement about them.

    Without `holders`, the statement is about the population; with them, about these people, of whom
    those that are True hold the answer, in the order of arrival.
    """

    epsilon: str
    share: float
    holders: npt.NDArray[np.bool_] | None = None

    @property
    def question(self) -> Question:
        return question(self.epsilon)

    def rate(self, number: int) -> float:
        """Return the probability that the report with this number says yes."""
        design = RandomizedResponse(Epsilon(self.epsilon))
        share = self.share if self.holders is None else float(self.holders[number - 1])
        return (share * design.keep + (1 - share) * design.lie) / ONE

    def limits(self, read: Reading, counts: Counts, number: int) -> Interval:
        """Return the limits of results with these counts of yes among so many reports."""
        cells = np.stack([number - counts, counts], axis=-1)
        reports = np.full(len(counts), number)
        estimator = ESTIMATORS["shares"](self.question, cells, reports, read.any_time)
        limits = estimator.like if self.holders is None else estimator.these
        low, high = limits(read.confidence)
        return low[:, 0], high[:, 0]

    def holds(self, read: Reading, counts: Counts, number: int) -> npt.NDArray[np.bool_]:
        low, high = self.limits(read, counts, number)
        truth = self.share if self.holders is None else self.holders[:number].mean()
        return np.asarray((low <= truth) & (truth <= high))


def these(epsilon: str, order: str, people: int) -> Crowd:
    number = np.arange(people)
    orders = {"every third": number % 3 == 0, "first": number < 60, "last": number > people - 60}
    return Crowd(epsilon, 0.0, orders[order])


def at(looks: str, now: datetime, closed: date | None = None) -> Reading:
    return reading(daily(looks), ROUND, now, closed)


# When a round is read, and how


def test_a_round_is_read_as_its_document_says() -> None:
    first, final = datetime(2026, 12, 5, tzinfo=UTC), datetime(2026, 12, 18, tzinfo=UTC)
    before = timedelta(seconds=1)
    kinds = {
        looks: [at(looks, now) for now in (first - before, first, final - before, final)]
        for looks in ("any-time", "twice", "once")
    }
    watched, half = Reading(0.975, any_time=True), Reading(0.975)
    nothing, snapshot = half._replace(covers="nothing"), half._replace(covers="first look")
    assert kinds == {
        "any-time": [watched, watched, watched, half],
        "twice": [nothing, snapshot, snapshot, half],
        "once": [*[Reading(covers="nothing")] * 3, Reading()],
    }
    assert Reading().confidence == CONFIDENCE == 0.95


def test_the_first_look_is_in_the_middle_of_the_grace_if_reports_arrive_after_the_round() -> None:
    asked = survey(bit(over="any"), looks="twice", grace_days=9)
    assert asked.first_look(683) == datetime(2027, 1, 5, 12, tzinfo=UTC)
    asked = survey(bit(), looks="twice", grace_days=9)
    assert asked.first_look(683) == datetime(2027, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("looks", "confidence"), [("any-time", 0.975), ("twice", 0.975), ("once", 0.95)]
)
def test_a_round_that_closing_ended_keeps_intervals_for_every_look(
    looks: str, confidence: float
) -> None:
    wide = Reading(confidence, any_time=True)
    for closed in (date(2026, 12, 3), date(2026, 12, 17)):
        assert {at(looks, now, closed) for now in (ENDS + timedelta(days=3), OVER)} == {wide}
    assert at(looks, OVER, date(2026, 12, 18)) == Reading(confidence), "it was final before"


# Coverage


def missed(
    crowd: Crowd,
    people: int,
    shown: Callable[[int], list[Reading]],
    stops: Stops = lambda _, counts: counts < 0,
    finally_: Reading | None = None,
) -> float:
    """Return the probability that any interval that is ever shown of a round misses its truth.

    After each report, the intervals of `shown` are seen, and where `stops` holds, somebody closes
    the survey: then only that of `finally_` follows, which any later page shows.
    """
    alive, first, kept = np.ones(1), 0, 0.0
    for number in range(1, people + 1):
        rate = crowd.rate(number)
        alive = np.append(alive, 0) * (1 - rate) + np.append(0, alive) * rate
        left = np.flatnonzero(alive > RARE / people)
        first, alive = first + int(left[0]), alive[left[0] : left[-1] + 1]
        counts = first + np.arange(len(alive))
        for read in shown(number):
            alive = np.where(crowd.holds(read, counts, number), alive, 0)
        stopped = stops(number, counts)
        if stopped.any():
            assert finally_ is not None
            ended = np.where(stopped & crowd.holds(finally_, counts, number), alive, 0)
            kept, alive = kept + float(ended.sum()), np.where(stopped, 0, alive)
    return 1 - kept - float(alive.sum())


def every_look_and_final(people: int) -> Callable[[int], list[Reading]]:
    watched, final = at("any-time", ENDS), at("any-time", OVER)
    return lambda number: [watched, final] if number == people else [watched]


def both_looks(first: int, people: int) -> Callable[[int], list[Reading]]:
    readings = {first: [at("twice", ENDS)], people: [at("twice", OVER)]}
    return lambda number: readings.get(number, [])


@pytest.mark.parametrize("people", [50, pytest.param(300, marks=pytest.mark.long)])
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("share", SHARES)
def test_every_look_and_the_final_one_cover_jointly(
    epsilon: str, share: float, people: int
) -> None:
    crowd = Crowd(epsilon, share)
    assert missed(crowd, people, every_look_and_final(people)) <= 1 - CONFIDENCE


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("order", ORDERS)
def test_intervals_about_these_people_cover_jointly(epsilon: str, order: str) -> None:
    crowd = these(epsilon, order, 200)
    assert missed(crowd, 200, every_look_and_final(200)) <= 1 - CONFIDENCE
    assert missed(crowd, 200, both_looks(150, 200)) <= 1 - CONFIDENCE


def likely(people: int, rate: float) -> Counts:
    """Return the counts within 12 standard deviations; all others have probability below RARE."""
    middle, reach = people * rate, 12 * np.sqrt(people * rate * (1 - rate)) + 40
    return np.arange(max(0, int(middle - reach)), min(people, int(middle + reach)) + 1)


def looks_miss(crowd: Crowd, first: int, people: int, one: Reading, final: Reading) -> float:
    """Return the probability that the first look or the final one misses, from binomials."""
    rate = crowd.rate(1)
    before, counts = likely(first, rate), likely(people, rate)
    seen = stats.binom.pmf(before, first, rate) * crowd.holds(one, before, first)
    good = np.flatnonzero(crowd.holds(final, counts, people))
    lowest, highest = int(counts[good[0]]), int(counts[good[-1]])
    assert len(good) == highest - lowest + 1, "they are adjacent"
    later = stats.binom.cdf(highest - before, people - first, rate)
    later = later - stats.binom.cdf(lowest - 1 - before, people - first, rate)
    return 1 - float(seen @ later)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("share", SHARES)
def test_both_of_two_looks_cover_jointly(epsilon: str, share: float) -> None:
    one, final, crowd = at("twice", ENDS), at("twice", OVER), Crowd(epsilon, share)
    for people in (50, 1_000, 30_000, 1_000_000):
        for part in (0.1, 0.5, 0.9, 1.0):
            first = max(1, round(part * people))
            assert looks_miss(crowd, first, people, one, final) <= 1 - CONFIDENCE


def surprising(crowd: Crowd, every: int) -> Stops:
    """Return the worst rule for narrow intervals: close once the running one misses the truth."""

    def stops(number: int, counts: Counts) -> npt.NDArray[np.bool_]:
        if number % every:
            return counts < 0
        return ~crowd.holds(Reading(), counts, number)

    return stops


@pytest.mark.parametrize(
    ("looks", "epsilon"),
    [
        pytest.param(
            looks,
            epsilon,
            marks=[pytest.mark.long] * (looks == "any-time" and epsilon not in EPSILONS[::3]),
        )
        for looks, epsilon in product(("any-time", "twice"), EPSILONS)
    ],
)
def test_closing_because_of_what_was_seen_covers(looks: str, epsilon: str) -> None:
    """The worst case for any rule: everyone sees the running counts, even where pages hide them."""
    closed = at(looks, OVER, date(2026, 12, 4))

    def shown(number: int) -> list[Reading]:
        if looks == "any-time":
            return [at("any-time", ENDS)]
        return [at("twice", ENDS)] if number == 190 else []

    for crowd in (Crowd(epsilon, 0.5), these(epsilon, "every third", 300)):
        assert missed(crowd, 300, shown, surprising(crowd, 20), closed) <= 1 - CONFIDENCE


def test_intervals_that_spend_their_error_twice_are_caught() -> None:
    """Twins: two parts that each have the whole error probability."""
    watched, final, crowd = Reading(any_time=True), Reading(), Crowd("1", 0.5)
    both = missed(crowd, 1_000, lambda number: [watched, *[final] * (number == 1_000)])
    assert both > 1 - CONFIDENCE
    assert looks_miss(crowd, 500, 1_000, final, final) > 1 - CONFIDENCE


def test_a_narrow_interval_after_an_early_closing_is_caught() -> None:
    """Twin at ε 1 and a share of 4 %, where somebody looks every 200 reports."""
    crowd = Crowd("1", 0.04)
    assert missed(crowd, 4_000, lambda _: [], surprising(crowd, 200), Reading()) > 0.2
    assert missed(crowd, 400, lambda _: [], surprising(crowd, 20), at("twice", OVER)) > 0.05
    kept = at("any-time", OVER, date(2026, 12, 4))
    assert missed(crowd, 4_000, lambda _: [], surprising(crowd, 200), kept) <= 1 - CONFIDENCE


# Width


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("people", [50, 1_000, 30_000, 1_000_000])
def test_two_looks_are_at_most_1_15_times_as_wide_as_one(epsilon: str, people: int) -> None:
    design = RandomizedResponse(Epsilon(epsilon))
    for share in SHARES:
        crowd = Crowd(epsilon, share)
        count = round(people * crowd.rate(1))
        if count == 0:
            continue
        low, high = crowd.limits(at("twice", OVER), np.array([count]), people)
        lowest = stats.beta.ppf(0.025, count, people - count + 1)
        highest = stats.beta.ppf(0.975, count + 1, people - count)
        width = (highest - lowest) * ONE / (design.keep - design.lie)
        assert float(high[0] - low[0]) <= 1.15 * width


def test_the_limit_of_a_count_of_zero_is_at_most_1_19_times_as_high() -> None:
    """With no support, the limits are those of an exponential: log(2 / .025) / log(2 / .05)."""
    for people in (50, 1_000, 1_000_000):
        _, high = clopper_pearson(np.array([0]), np.array([people]), at("twice", OVER).confidence)
        assert float(high[0]) <= 1.19 * (1 - 0.025 ** (1 / people))


def test_half_of_the_error_probability_is_left_for_each_part() -> None:
    assert halved(CONFIDENCE) == 0.975
    assert 2 * (1 - at("twice", ENDS).confidence) == pytest.approx(1 - CONFIDENCE)
