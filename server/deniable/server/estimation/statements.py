"""Statements about one question: estimates, three intervals around each, and differences.

    like     for the population: both the people and the noise are random
    these    for the respondents: they are fixed, and only the noise is random; narrower
    every    for the population, jointly for all of a question's labels: for readers who pick
             labels by their estimates

An interval of `every` has a confidence of 1 - (1 - confidence) / labels (Bonferroni), so all of
them hold jointly in 95 % of cases, whichever labels are picked. With one label it equals the
interval of `like`. The `floor` is the smallest estimate whose interval of `every` is above 0: an
estimate below it cannot be distinguished from 0.

Periods: the counts of several rounds are added up. Given the answers, the noise of all reports is
independent, even between reports of one person, so the limits for the respondents need no change.
They are about the answers in these reports, and hold if answers and participation do not react to
published noise. For the population, the same people may be in all T rounds. With N the noise at the
worst share within the limits for the respondents, and s² the variance of sampling at the worst
share f that an average round allows:

    estimate  +-  z √(N + s²) + half a report            s² = S(f) / reports

Let w_t be the rounds' parts of the reports, f_t their shares, and f = Σ w_t f_t. If people answer a
question m_t times in round t, and m_u times in a later round u with n_u people, then at most
m_t m_u / max(m_t, n_u) people are expected to answer it in both. Without `ask`, m_u = n_u, and this
is the smaller of the two. With `ask = 1`, each of the n_u people draws a new question, so the
m_u of them are a random sample, even if earlier draws or answers decided who takes part again.

The answers of one person have at most the covariance √(f_t (1 - f_t) f_u (1 - f_u)), which is at
most the mean of both variances. So the variance is at most Σ r_t f_t (1 - f_t) / reports, with
r_t = w_t Σ_u m_u / max(m_t, n_u), where t is the earlier round; the term of u = t is 1. For any
f_t, its largest value is

    S(f) = min over λ >= 0 of  Σ (r_t - λ w_t)₊² / (4 r_t) + λ f            (f <= 1/2)

by Lagrange's multiplier. For rounds of equal size it equals T f (1 - f), and with one of d
questions asked (1 + (T - 1) / d) f (1 - f). At f = 1/2, no overlap of people gives a larger
variance; at small f, the largest variance of shares that differ might be slightly smaller.

Differences between two rounds, periods or surveys: the noise of both is independent, and an unknown
number of people may be in both, so that the errors of sampling add up at worst:

    respondents   difference  +-  z √(N₁ + N₂) + half a report of each
    population    difference  +-  z √(N₁ + N₂ + (s₁ + s₂)²) + half a report of each

The tests compute the coverage exactly: it was never below 95 %. If limits must hold at every look,
variances do not help: the interval then extends from the first side's lower limit minus the
second's upper limit to the reverse, each with half of the error probability. The population limits
of a period then combine the capitals M_t of its rounds: Π M_t^(1/T) is the capital of an average
round, and it is below T / error unless one of them is not (`share_limits`).

Differences between two groups of people who are certainly disjoint, such as the arms of an
experiment, for the population and for the effect on everyone alike:

    difference  +-  z √(variance of the first + variance of the second) + half a report of each

The variances are upper bounds for a random sample of people, from each group's own limits. At high
confidences the skewness of the counts matters, so half a report becomes (z² - 1) / 6 of one, the
term of Cornish and Fisher for the most skewed count. This interval is about √2 times narrower than
one that subtracts limits. If it must hold at every look, limits at half of the error probability
are subtracted.

Follow-up surveys: results of an earlier survey chose the questions. The noise is fresh, so the
limits for the respondents hold regardless. Those for the population would not: the same people may
have affected the choice. So all three intervals are then for the respondents.

The survey's `looks` determines how a round is read:

    any-time   at every look while the round accepts reports, and afterwards
    twice      at a first look and, once the round accepts no further reports, at a final one
    once       only once the round accepts no further reports

In the first two cases, each of the two parts gets half of the error probability, so everything that
is ever shown of a round holds jointly with CONFIDENCE. The times of two looks do not depend on any
report. If the survey was closed before the end of a round's grace, the number of the round's
reports may depend on published results. Its final intervals must then hold at every look, too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from deniable.shared.privacy.families.number_table import NumberTable

if TYPE_CHECKING:
    from deniable.shared.survey.document import Survey

Array = npt.NDArray[np.float64]
Cells = npt.NDArray[np.int64]
Interval = tuple[Array, Array]

CONFIDENCE = 0.95
MAX_SEPARATE_LABELS = 20  # in longer lists readers pick labels, so intervals hold jointly


@dataclass(frozen=True, slots=True)
class Statement:
    """Value, or expected value, with its interval and everything that the interval depends on.

    Every "±", number of people needed and number of open answers is printed from a statement, so
    numbers next to each other are about the same people and the same looks.
    """

    value: float
    low: float
    high: float
    reports: int
    people: Literal["population", "respondents"] = "population"
    confidence: float = CONFIDENCE
    looks: bool = False  # whether it holds at every look
    joint: int = 1  # number of intervals that hold jointly with this confidence

    @property
    def margin(self) -> float:
        """Margin of error: half of the interval's width."""
        return (self.high - self.low) / 2


class RoundSize(NamedTuple):
    """Size of a round in a period, for one question."""

    reports: int
    people: int  # more than reports if each of them was asked one of several questions


class Reading(NamedTuple):
    """Kind of intervals with which a round is read, and the reports that they are about."""

    confidence: float = CONFIDENCE
    any_time: bool = False  # whether the intervals must hold at every look
    covers: Literal["all", "first look", "nothing"] = "all"


def final_reading(looks: str) -> Reading:
    """Return how a round is read once it is final."""
    return Reading() if looks == "once" else Reading(halved(CONFIDENCE))


def reading(survey: Survey, number: int, now: datetime, closed: date | None) -> Reading:
    """Return how a round is read now; `closed` is the day on which its survey was closed.

    Readers see an open round in steps, whose ends depend on numbers of reports, never on their
    content. Intervals that hold at every look therefore hold at every step too, if the order in
    which reports of a survey arrive does not depend on their content (they are exchangeable).
    """
    end, read = survey.taken_until(number), final_reading(survey.looks)
    if closed and closed < end.date():
        return read._replace(any_time=True)
    if closed or now >= end:
        return read
    if survey.looks == "any-time":
        return read._replace(any_time=True)
    first_look = survey.looks == "twice" and now >= survey.first_look(number)
    return read._replace(covers="first look" if first_look else "nothing")


LEAST_NOISE = 10.0  # variance of the noise, in squared people, above which adding variances is best


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimate in the question's units.

    `estimate`, `low` and `high` may leave the possible range: they are never clipped, since
    clipping would bias sums and differences. `consistent` is the closest possible version: shares
    from 0 to 1 that add up to 1, or a mean within its range. Each interval has its confidence on
    its own, at one look. Without reports, `estimate`, `consistent` and `standard_error` are NaN,
    and the interval contains all values that the mechanism allows.
    """

    label: str
    estimate: float
    low: float
    high: float
    standard_error: float
    reports: int
    confidence: float
    consistent: float
    note: str | None = None


@dataclass(frozen=True)
class Points:
    """Estimates as arrays, with a number for each label and a row for each of several rounds."""

    estimate: Array
    standard_error: Array
    consistent: Array


class Whole(NamedTuple):
    """Length of a mean vector, and the error of its estimate."""

    length: float  # corrected for the noise in its square
    error: float  # root mean squared length of the estimate's error


class _Column:
    """Descriptor that returns one array of a table of statements."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __get__(self, statements: Statements, owner: type) -> Array:
        return np.asarray(statements.table[self._number])


@dataclass(frozen=True)
class Statements:
    """Arrays with one number for each label; for several rounds, one row for each round."""

    table: Array  # all labels, one after another
    floor: Array  # NaN if there is none

    estimate, standard_error, consistent = map(_Column, (0, 7, 8))
    noise = _Column(9)  # upper bound on the variance of an estimate for the respondents
    step = _Column(10)  # change of an estimate by half a report; for a mean, by a whole report
    sampling = _Column(11)  # upper bound on the variance of sampling; infinite where unsuitable

    @property
    def columns(self) -> Array:
        """Estimate, the ends of the three intervals, standard error and consistent estimate."""
        return np.asarray(self.table[:9])

    @property
    def like(self) -> Interval:
        return self.table[1], self.table[2]

    @property
    def these(self) -> Interval:
        return self.table[3], self.table[4]

    @property
    def every(self) -> Interval:
        return self.table[5], self.table[6]

    @classmethod
    def of_rounds(cls, rounds: Sequence[Statements]) -> Statements:
        tables = np.stack([statements.table for statements in rounds], axis=1)
        return cls(tables, np.array([statements.floor for statements in rounds]))

    def rounds(self) -> Iterator[Statements]:
        """Yield each round as a copy, so that the others can be freed."""
        for index, floor in enumerate(self.floor):
            yield Statements(self.table[:, index].copy(), floor)


def joint_confidence(labels: int, confidence: float) -> float:
    """Return the confidence of each interval for all to hold jointly with `confidence`."""
    return 1 - (1 - confidence) / labels


class Estimator(ABC):
    """Lazy estimator for the counts of one question, with a row for each of several rounds.

    Each row may also be a period, whose rounds have `sizes` reports from at most as many `people`,
    or from more people if each was asked one of several questions. Any: the questions whose
    `estimation` names this estimator.
    """

    method: ClassVar[str]  # description of the method in results
    noise_has_sampling: ClassVar[bool] = False  # whether `noise` includes that of sampling

    def __init__(
        self,
        question: Any,
        cells: Cells,
        reports: int | Cells,
        looks: bool = False,
        sizes: Array | Cells | None = None,
        people: Array | Cells | None = None,
    ) -> None:
        self.question, self.mechanism, self.looks = question, question.mechanism, looks
        self.cells, self.reports = cells, np.asarray(reports)[..., None]
        self.sizes = self.reports if sizes is None else sizes
        self.people = self.sizes if people is None else people
        self.rounds = self.sizes.shape[-1]

    @classmethod
    def estimates(
        cls, question: Any, cells: Cells, reports: int, confidence: float
    ) -> tuple[Estimate, ...]:
        estimator = cls(question, cells, reports)
        points = estimator.points
        arrays = points.estimate, *estimator.like(confidence), points.standard_error
        columns = (array.tolist() for array in (*arrays, points.consistent))
        return tuple(
            Estimate(label, raw, low, high, error, reports, confidence, near)
            for label, raw, low, high, error, near in zip(question.labels, *columns, strict=True)
        )

    @staticmethod
    @abstractmethod
    def expected(
        question: Any,
        reports: int,
        share: float | None,
        confidence: float,
        looks: bool,
        sizes: Sequence[Array] = (),
    ) -> tuple[float, float, float]:
        """Return the true value and the expected limits for the population, as `like` has them.

        `share` and the answers that it stands for are those of `Mechanism.variances`. In a period,
        `sizes` holds the reports and the people of each round.
        """

    @staticmethod
    def whole(question: Any, cells: Cells, reports: int) -> Whole | None:  # noqa: ARG004 # of vectors only
        """Return the length of a mean vector and its error, from at least two reports."""
        return None

    @staticmethod
    def table(question: Any) -> NumberTable | None:  # noqa: ARG004 # only means have one
        """Return the table whose counts also determine a distribution."""
        return None

    @property
    @abstractmethod
    def points(self) -> Points: ...

    def like(self, confidence: float) -> Interval:
        """Return limits for the population, whether or not the same people are in all rounds."""
        if self.rounds == 1 or self.looks:
            return self.average_round(joint_confidence(self.rounds, confidence))
        noise = self.noise(self.these(confidence), confidence)
        sampling = self.sampling(self.average_round(confidence))
        half_width = reach(noise, sampling, self.step * skewness(confidence), confidence)
        return self.points.estimate - half_width, self.points.estimate + half_width

    @abstractmethod
    def average_round(self, confidence: float) -> Interval:
        """Return limits for the population from the counts divided by the number of rounds."""

    @abstractmethod
    def sampling(self, like: Interval) -> Array:
        """Return an upper bound on the variance of sampling, within the population's limits.

        It holds even if the same people are in every round.
        """

    def largest_sampling(self, share: Array) -> Array:
        """Return S(f) / reports for each of a row's shares f, from 0 to 1."""
        if self.rounds == 1:
            return np.asarray(share * (1 - share) / self.reports)
        if self.sizes.ndim == 1:  # all rows have rounds of the same sizes
            return largest_sampling(self.sizes, self.people, share)
        rows = zip(self.sizes, self.people, share, strict=True)
        return np.reshape([largest_sampling(*row) for row in rows], share.shape)

    @property
    @abstractmethod
    def noise_of_a_report(self) -> float:
        """Least variance of the noise of one report, as a share of the squared range."""

    def likes(self, confidence: float, joint: float) -> tuple[Interval, Interval]:
        """Return the limits for the population at two confidences, which may be equal."""
        like = self.like(confidence)
        return like, like if joint == confidence else self.like(joint)

    @abstractmethod
    def these(self, confidence: float) -> Interval:
        """Return limits for the respondents."""

    @abstractmethod
    def noise(self, these: Interval, confidence: float) -> Array:
        """Return an upper bound on the variance for the respondents, within their limits."""

    def variance(self, confidence: float) -> Array:
        """Return the variance for the population that the farther limit would have if normal."""
        return self.variance_of(self.like(confidence), confidence)

    def variance_of(self, limits: Interval, confidence: float) -> Array:
        """Return the variance of a normal distribution with the farther of these limits."""
        (low, high), middle = limits, self.points.estimate
        return np.asarray((np.maximum(high - middle, middle - low) / deviates(confidence)) ** 2)

    def group(self, confidence: float) -> Array:
        """Return the three rows that `disjoint` needs: the estimate, and both of its errors.

        For repeated looks these are limits, otherwise a variance and a step.
        """
        limits = (
            self.like(halved(confidence)) if self.looks else (self.variance(confidence), self.step)
        )
        return np.stack(np.broadcast_arrays(self.points.estimate, *limits), axis=-2)

    @property
    @abstractmethod
    def step(self) -> Array:
        """Change of an estimate by half a report; for a mean, by a whole report."""

    def floor(self, confidence: float) -> Array:  # noqa: ARG002 # only shares need it
        return np.full(self.points.estimate.shape[:-1], np.nan)

    def statements(
        self, confidence: float, values: int = 1, respondents: bool = False
    ) -> Statements:
        """Return the statements; those of `every` hold jointly for this many values of a label.

        With `respondents`, all of them are about exactly the respondents.
        """
        points, these = self.points, self.these(confidence)
        labels = points.estimate.shape[-1]
        joint = joint_confidence(labels * values, confidence)
        like, every = (these, self.these(joint)) if respondents else self.likes(confidence, joint)
        people = self.reports / self.rounds
        is_noisy = self.noise_of_a_report * people >= LEAST_NOISE
        sampling = np.where(is_noisy & (not self.looks), self.sampling(like), np.inf)
        arrays = (
            *(points.estimate, *like, *these, *every),
            *(points.standard_error, points.consistent),
            *(self.noise(these, confidence), self.step, sampling),
        )
        return Statements(np.stack(np.broadcast_arrays(*arrays)), self.floor(joint))


@dataclass(frozen=True)
class Side:
    """Side of a comparison: several rounds, with limits at half of the error probability."""

    statements: Statements
    like: Interval
    these: Interval | None  # set if either side must hold at every look: then variances do not help

    def of(self, labels: list[int]) -> Side:
        """Return this side restricted to some labels."""
        (low, high), these = self.like, self.these
        return Side(
            Statements(self.statements.table[..., labels], self.statements.floor),
            (low[:, labels], high[:, labels]),
            these and (these[0][:, labels], these[1][:, labels]),
        )


@dataclass(frozen=True)
class Differences:
    """Differences as arrays: a row for each pair of rounds, and a number for each label."""

    estimate: Array
    like: Interval
    these: Interval


def halved(confidence: float) -> float:
    """Return the confidence that each of two intervals needs for both to hold."""
    return (1 + confidence) / 2


def differences(now: Side, then: Side, confidence: float = CONFIDENCE) -> Differences:
    """Subtract the earlier side from the later one."""
    first, second = now.statements, then.statements
    middle, steps = first.estimate - second.estimate, first.step + second.step
    like = _apart(now.like, then.like)
    if now.these and then.these:
        return Differences(middle, like, _apart(now.these, then.these))
    sampling = (np.sqrt(first.sampling) + np.sqrt(second.sampling)) ** 2
    half_width = reach(first.noise, second.noise + sampling, steps, confidence)
    added = middle - half_width, middle + half_width
    low, high = (np.where(np.isfinite(sampling), *ends) for ends in zip(added, like, strict=True))
    half_width = reach(first.noise, second.noise, steps, confidence)
    return Differences(middle, (low, high), (middle - half_width, middle + half_width))


def reach(now: Array, then: Array, steps: float | Array, confidence: float) -> Array:
    """Return the half width of a difference's interval, from the variances of both sides."""
    return deviates(confidence) * np.sqrt(now + then) + steps


def disjoint(one: Array, other: Array, looks: bool, confidence: float) -> tuple[Array, Interval]:
    """Subtract the other group from the one; both are from `Estimator.group`."""
    (middle, *errors), (subtracted, *others) = np.moveaxis(one, -2, 0), np.moveaxis(other, -2, 0)
    if looks:
        (low, high), (other_low, other_high) = errors, others
        return middle - subtracted, _apart((low, high), (other_low, other_high))
    (variance, step), (other_variance, other_step) = errors, others
    steps = (step + other_step) * skewness(confidence)
    half_width = reach(variance, other_variance, steps, confidence)
    difference = middle - subtracted
    return difference, (difference - half_width, difference + half_width)


def largest_sampling(sizes: Array | Cells, people: Array | Cells, share: Array) -> Array:
    """Return S(f) / reports of one period, whose rounds are in order."""
    reports, sizes, people = sizes.sum(), sizes[sizes > 0], people[sizes > 0]
    larger = np.triu(np.maximum(sizes[:, None], people), 1)
    larger = larger + larger.T + np.diag(sizes)
    times = (sizes / larger).sum(1)  # r_t / w_t: the order in which the terms become positive
    order = np.argsort(-times, kind="stable")
    weights = sizes[order] / reports
    overlap = weights * times[order]
    terms = overlap / 4, weights / 2, weights**2 / overlap / 4
    constant, linear, square = (np.cumsum(term) for term in terms)
    positive_from = linear - 2 * square * overlap / weights  # each term's share f
    rare = np.minimum(share, 1 - share)
    last = np.maximum(np.searchsorted(positive_from, rare, "right") - 1, 0)
    middle = (linear[last] - rare) ** 2 / (4 * square[last])
    return np.asarray(np.maximum(constant[last] - middle, 0) / reports)


def deviates(confidence: float) -> float:
    """Return the half width of a normal interval, in standard deviations."""
    return NormalDist().inv_cdf((1 + confidence) / 2)


def _apart(now: Interval, then: Interval) -> Interval:
    return now[0] - then[1], now[1] - then[0]


def skewness(confidence: float) -> float:
    """Return the number of half reports that the counts' skewness needs at this confidence."""
    return max(1.0, (deviates(confidence) ** 2 - 1) / 3)
