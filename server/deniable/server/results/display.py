"""Figures as people read them: as many digits as the error leaves meaning to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median_low

from deniable.server.results.document import Difference, Quantile, Row, WholeVector
from deniable.shared.survey.kinds.base import Statistic

MOST_DECIMALS = 9
MINUS = "−"


@dataclass(frozen=True)
class Style:
    """How the values of a statistic are shown."""

    factor: float
    sign: str  # behind every value; a question's own unit takes its place
    points: str  # what a margin counts, where no unit says it
    digits: int  # of a margin that is expected, not measured
    from_zero: bool  # whether 0 means something: bars begin there, and axes show it
    labels: str  # what the labels of the rows are
    range: str  # said of the question, with its ends
    sentence: str = ""  # of the only label there is
    either_way: bool = False  # whether what is far below 0 is notable too
    signed: bool = False  # whether what is above 0 has its sign

    def text(self, value: float, places: int) -> str:
        text = plain(self.factor * value, places)
        above = self.signed and value > 0 and any(digit in text for digit in "123456789")
        return f"+{text}" if above else text

    def behind(self, unit: str) -> str:
        return f" {unit}" if unit else self.sign

    def expected(self, margin: float, unit: str) -> str:
        """A margin that is expected, not measured."""
        return f"± {self.factor * margin:.{self.digits}g}{self.behind_margin(unit)}"

    def behind_margin(self, unit: str) -> str:
        return f" {unit}" if unit else self.points


STYLES: Mapping[Statistic, Style] = {
    "share": Style(
        100.0,
        " %",
        " points",
        2,
        True,
        "option",
        "",
        "{value} say {label}, between {low} and {high}.",
    ),
    "mean": Style(
        1.0,
        "",
        "",
        3,
        False,
        "",
        "mean, between {} and {}",
        "The mean is {value}, between {low} and {high}.",
    ),
    "coordinate": Style(
        1.0,
        "",
        " a coordinate",
        3,
        True,
        "coordinate",
        "mean vector, in the unit ball",
        either_way=True,
    ),
}


@dataclass(frozen=True)
class Figures:
    """One row that has an estimate: its numbers, and the same in words."""

    label: str
    estimate: float
    low: float
    high: float
    low_these: float | None  # nothing is said of them where questions are crossed
    high_these: float | None
    consistent: float
    style: Style
    unit: str  # behind a value
    places: int | None = None  # decimals, where others stand in its column
    known: float | None = None  # the value, if it is known from elsewhere

    @property
    def half(self) -> float:
        """Of the interval, in the statistic's own measure."""
        return (self.high - self.low) / 2

    @property
    def told(self) -> bool:
        """Whether it is told from 0."""
        return self.low > 0 or (self.style.either_way and self.high < 0)

    @property
    def noise_alone(self) -> tuple[float, float] | None:
        """The interval about these very people, where it is within the other: that of an open
        number is not always."""
        low, high = self.low_these, self.high_these
        if low is None or high is None or low < self.low or high > self.high:
            return None
        return low, high

    @property
    def notable(self) -> float:
        return abs(self.estimate) if self.style.either_way else self.estimate

    def text(self, value: float) -> str:
        """A value of this row, with as many decimals as its margin leaves meaning to."""
        return self.style.text(value, self.meaningful if self.places is None else self.places)

    @cached_property
    def meaningful(self) -> int:
        """How many decimals."""
        return decimals(self.style.factor * self.half)

    @property
    def margin(self) -> str:
        """Half of the interval."""
        return self.text(self.half).removeprefix("+")

    @property
    def whole(self) -> str:
        return f"{self.text(self.estimate)}{self.unit}"

    @property
    def bounds(self) -> str:
        return f"{self.text(self.low)} to {self.text(self.high)}"

    @property
    def known_text(self) -> str:
        return "" if self.known is None else self.text(self.known)

    @property
    def bounds_in_words(self) -> str:
        return f"{self.text(self.low)} and {self.text(self.high)}{self.unit}"

    @property
    def these(self) -> str:
        """The interval about these very people."""
        if self.low_these is None or self.high_these is None:
            return ""
        return f"{self.text(self.low_these)} to {self.text(self.high_these)}"

    @property
    def interval(self) -> str:
        return f"{self.bounds}{self.unit}"


def figures(row: Row, statistic: Statistic, unit: str = "", joint: bool = False) -> Figures | None:
    """None where there is no estimate. `joint` where labels are picked by their estimates: then the
    interval is the one that holds for all of them at once."""
    low, high = (row.low_all, row.high_all) if joint else (row.low, row.high)
    if row.estimate is None or row.consistent is None or low is None or high is None:
        return None
    style = STYLES[statistic]
    return Figures(
        label=row.label,
        estimate=row.estimate,
        low=low,
        high=high,
        low_these=row.low_these,
        high_these=row.high_these,
        consistent=row.consistent,
        style=style,
        unit=style.behind(unit),
    )


def known_figures(
    rows: Sequence[Row], statistic: Statistic, unit: str = "", joint: bool = False
) -> list[Figures]:
    """Of the rows that have an estimate, for a column."""
    return aligned([found for row in rows if (found := figures(row, statistic, unit, joint))])


def aligned(rows: Sequence[Figures]) -> list[Figures]:
    """With one number of decimals: that of the middle margin."""
    places = median_low([row.meaningful for row in rows] or [0])
    return [replace(row, places=places) for row in rows]


def difference_figures(
    found: Sequence[Difference], statistic: Statistic, unit: str = ""
) -> list[Figures]:
    """By how much estimates are above others, with their signs."""
    style = STYLES[statistic]
    signed = replace(style, sign="", from_zero=True, either_way=True, signed=True)
    return aligned(
        [
            Figures(
                label=each.label,
                estimate=each.estimate,
                low=each.low,
                high=each.high,
                low_these=each.low_these,
                high_these=each.high_these,
                consistent=each.estimate,
                style=signed,
                unit=style.behind_margin(unit),
            )
            for each in found
        ]
    )


def quantile_text(found: Quantile, unit: str) -> str:
    """Return a quantile with its interval as text.

    >>> quantile_text(Quantile(0.5, 12.34, 10, 15), "min")
    '50 % are below 12.3 min (10.0 to 15.0)'
    """
    estimate, low, high = quantile_figures(found)
    behind = f" {unit}" if unit else ""
    return f"{plain(100 * found.level, 0)} % are below {estimate}{behind} ({low} to {high})"


def quantile_figures(found: Quantile, places: int | None = None) -> tuple[str, str, str]:
    """Estimate, low and high, with so many decimals, or as many as have a meaning."""
    places = quantile_places(found) if places is None else places
    estimate, low, high = (plain(v, places) for v in (found.estimate, found.low, found.high))
    return estimate, low, high


def quantile_places(found: Quantile) -> int:
    return decimals((found.high - found.low) / 2)


def whole_text(vector: WholeVector) -> str:
    """A sentence about a mean vector as one.

    >>> whole_text(WholeVector(length=0.51234, error=0.0234))
    'The mean vector has a length of about 0.512; the estimate is off by about 0.023 as a whole.'
    """
    places = decimals(vector.error)
    return (
        f"The mean vector has a length of about {plain(vector.length, places)}; the estimate is "
        f"off by about {plain(vector.error, places)} as a whole."
    )


def decimals(margin: float) -> int:
    """So many that the margin shows two digits that are not leading zeros.

    >>> decimals(0.0123), decimals(1.23), decimals(123)
    (3, 1, 0)
    """
    if margin <= 0:
        return 1
    return min(MOST_DECIMALS, max(0, 1 - math.floor(math.log10(margin))))


def plain(value: float, places: int) -> str:
    """With a true minus sign and thousands apart; never minus zero.

    >>> plain(-1234.56, 1), plain(-0.01, 1)
    ('−1,234.6', '0.0')
    """
    text = f"{abs(value):,.{places}f}"
    negative = value < 0 and any(digit in text for digit in "123456789")
    return MINUS + text if negative else text
