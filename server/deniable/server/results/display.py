"""Number formatting: as many digits as the margin of error makes meaningful."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property, lru_cache
from statistics import median_low
from typing import NamedTuple, TypeVar

import msgspec

from deniable.server.results.document import (
    About,
    ChangePoint,
    Difference,
    Effect,
    Period,
    Quantile,
    Row,
    Smoothed,
    WholeVector,
)
from deniable.shared.survey.kinds.base import Statistic

MAX_DECIMALS = 9
MINUS = "−"

Interval = TypeVar("Interval", Row, Difference, Smoothed)


@dataclass(frozen=True)
class Style:
    """Display style of a statistic's values."""

    labels: str  # heading for the labels of the rows
    range: str = ""  # description of the question's range, with its ends
    sentence: str = ""  # headline for a question with one label
    factor: float = 1.0
    sign: str = ""  # shown after each value if the question has no unit
    points: str = ""  # shown after each margin if the question has no unit
    digits: int = 3  # significant digits of an expected margin
    from_zero: bool = True  # whether bars start at 0, and axes show it
    either_way: bool = False  # whether values far below 0 are notable too
    signed: bool = False  # whether values above 0 have a plus sign

    def text(self, value: float, places: int) -> str:
        text = plain(self.factor * value, places)
        above = self.signed and value > 0 and any(digit in text for digit in "123456789")
        return f"+{text}" if above else text

    def behind(self, unit: str) -> str:
        return f" {unit}" if unit else self.sign

    def behind_margin(self, unit: str) -> str:
        return f" {unit}" if unit else self.points

    def margin(self, margin: float, unit: str | None = "", places: int | None = None) -> str:
        """Format the margin of a `Statement`, or a round one that is wanted.

        No other code prints a "±". With None as the unit, the text is for use next to an estimate.
        """
        value, behind = self.factor * margin, "" if unit is None else self.behind_margin(unit)
        if places is None:
            is_round = math.isclose(value, float(f"{value:.1g}"), rel_tol=1e-9)
            digits = 1 if is_round else self.digits
            places = decimals(float(f"{value:.{digits}g}"), digits)
        text = plain(value, places)
        return f"± {text}{behind.removesuffix('s') if text == '1' and not unit else behind}"


STYLES: Mapping[Statistic, Style] = {
    "share": Style(
        "option",
        sentence="{value} say {label}, between {low} and {high}.",
        factor=100.0,
        sign=" %",
        points=" points",
        digits=2,
    ),
    "mean": Style(
        "",
        "mean, between {} and {}",
        "The mean is {value}, between {low} and {high}.",
        from_zero=False,
    ),
    "coordinate": Style(
        "coordinate", "mean vector, in the unit ball", points=" a coordinate", either_way=True
    ),
}


@dataclass(frozen=True)
class Figures:
    """Numbers of a row with an estimate, and their texts."""

    label: str
    estimate: float
    low: float
    high: float
    low_these: float | None  # None in cross tables
    high_these: float | None
    consistent: float
    style: Style
    unit: str  # shown after a value
    places: int | None = None  # number of decimals, if a whole column shares it
    reference: float | None = None

    @property
    def half(self) -> float:
        """Half of the interval's width, in the statistic's units."""
        return (self.high - self.low) / 2

    @property
    def is_clear(self) -> bool:
        """Return whether the estimate can be distinguished from 0."""
        return self.low > 0 or (self.style.either_way and self.high < 0)

    @property
    def noise_alone(self) -> tuple[float, float] | None:
        """Interval for exactly the respondents, if it lies inside the population's."""
        low, high = self.low_these, self.high_these
        if low is None or high is None or low < self.low or high > self.high:
            return None
        return low, high

    @property
    def prominence(self) -> float:
        return abs(self.estimate) if self.style.either_way else self.estimate

    def text(self, value: float) -> str:
        """Format a value with the decimals of its column, or as many as its margin supports."""
        return self.style.text(value, self.meaningful if self.places is None else self.places)

    @cached_property
    def meaningful(self) -> int:
        return decimals(self.style.factor * self.half)

    @property
    def margin(self) -> str:
        places = self.meaningful if self.places is None else self.places
        return self.style.margin(self.half, None, places)

    @cached_property
    def whole(self) -> str:
        return f"{self.text(self.estimate)}{self.unit}"

    @cached_property
    def bounds(self) -> str:
        return f"{self.text(self.low)} to {self.text(self.high)}"

    @property
    def interval(self) -> str:
        return f"{self.bounds}{self.unit}"

    @property
    def these(self) -> str:
        """Interval for exactly the respondents."""
        if self.low_these is None or self.high_these is None:
            return ""
        return f"{self.text(self.low_these)} to {self.text(self.high_these)}"

    @property
    def reference_text(self) -> str:
        return "" if self.reference is None else self.text(self.reference)


def figures(row: Row, statistic: Statistic, unit: str, joint: bool = False) -> Figures | None:
    """Return a row's figures, or None without an estimate.

    Use `joint` if you pick labels by their estimates: then all intervals hold jointly.
    """
    low, high = (row.low_all, row.high_all) if joint else (row.low, row.high)
    if row.estimate is None or row.consistent is None or low is None or high is None:
        return None
    these, style = (row.low_these, row.high_these), STYLES[statistic]
    return Figures(
        row.label, row.estimate, low, high, *these, row.consistent, style, style.behind(unit)
    )


def smoothed_figures(row: Smoothed, about: About) -> Figures:
    style, ends = STYLES[about.statistic], (row.low, row.high, row.low_these, row.high_these)
    unit = style.behind(about.unit)
    return Figures(row.label, row.estimate, *ends, row.estimate, style, unit)


def known_figures(
    rows: Sequence[Row], statistic: Statistic, unit: str, joint: bool = False
) -> list[Figures]:
    """Return the figures of the rows that have an estimate."""
    return aligned(_unaligned(rows, statistic, unit, joint))


def _unaligned(
    rows: Sequence[Row], statistic: Statistic, unit: str, joint: bool = False
) -> list[Figures]:
    return [made for row in rows if (made := figures(row, statistic, unit, joint))]


def aligned(rows: Sequence[Figures], fewer: int = 0) -> list[Figures]:
    """Give all rows the number of decimals of the median margin, or `fewer` decimals."""
    places = max(0, median_low([row.meaningful for row in rows] or [0]) - fewer)
    return [replace(row, places=places) for row in rows]


def difference_figures(
    differences: Sequence[Difference], statistic: Statistic, unit: str
) -> list[Figures]:
    """Return the figures of differences between estimates, with signs."""
    ends = ((d.low, d.high, d.low_these, d.high_these) for d in differences)
    return aligned(_signed(differences, ends, statistic, unit))


def effect_figures(effects: Sequence[Effect], statistic: Statistic, unit: str) -> list[Figures]:
    """Return the figures of differences between two values of a label; the intervals are joint."""
    ends = ((effect.low_all, effect.high_all, None, None) for effect in effects)
    return aligned(_signed(effects, ends, statistic, unit))


def _signed(
    rows: Sequence[Difference | Effect],
    ends: Iterable[tuple[float, float, float | None, float | None]],
    statistic: Statistic,
    unit: str,
) -> list[Figures]:
    style = STYLES[statistic]
    signed = replace(style, sign="", from_zero=True, either_way=True, signed=True)
    unit = style.behind_margin(unit)
    pairs = zip(rows, ends, strict=True)
    return [Figures(d.label, d.estimate, *four, d.estimate, signed, unit) for d, four in pairs]


# Periods


class PeriodFigures(NamedTuple):
    """One label in one period, and its difference from the period before, for the respondents."""

    period: Period
    value: Figures
    change: Figures | None  # None also if either period contains forged reports
    reports: int
    forged: bool

    @property
    def change_text(self) -> str:
        if self.forged:
            return "forged reports"
        return f"{self.change.whole} ({self.change.bounds})" if self.change else "–"


def period_figures(periods: Sequence[Period], name: str, about: About) -> list[PeriodFigures]:
    """Return the figures of every period and label with an estimate."""
    made, statistic = list[PeriodFigures](), about.statistic
    forged_periods = {period.round for period in periods if period.forged_rounds}
    for period in periods:
        rows = [of_respondents(row) for row in period.questions[name]]
        reports = rows[0].reports
        since = period.change.since if period.change else period.round
        forged = not forged_periods.isdisjoint((period.round, since))
        compared = period.change if not forged else None
        changed = compared.questions.get(name, ()) if compared else ()
        ends = ((one.low_these, one.high_these) * 2 for one in changed)
        listed = _signed(changed, ends, statistic, about.unit)
        changes = {row.label: row for row in listed}
        known = _unaligned(rows, statistic, about.unit)
        made += (
            PeriodFigures(period, row, changes.get(row.label), reports, forged) for row in known
        )
    return [
        row._replace(
            value=rounded, change=row.change and replace(row.change, places=rounded.places)
        )
        for row, rounded in zip(made, aligned([row.value for row in made], 1), strict=True)
    ]


def of_respondents(row: Interval) -> Interval:
    """Replace the interval for the population by the one for exactly the respondents."""
    return msgspec.structs.replace(row, low=row.low_these, high=row.high_these)


def change_words(change: ChangePoint) -> str:
    """Describe a located change."""
    day = days_text(change.day, change.day)
    return f"{change.direction} from {day} on (within {days_text(change.earliest, change.latest)})"


def period_name(period: Period, year: bool = True) -> str:
    """Return the days of a period, and the event that begins it."""
    event = f" ({period.event})" if period.event else ""
    return f"{days_text(period.first_day, period.last_day, year)}{event}"


@lru_cache(maxsize=1024)
def days_text(first: str, last: str, year: bool = True) -> str:
    """Return two days as text, without what they have in common.

    >>> days_text("2026-11-08", "2026-11-12"), days_text("2026-12-30", "2027-01-02")
    ('8 – 12 Nov 2026', '30 Dec 2026 – 2 Jan 2027')
    """
    start, end = map(date.fromisoformat, (first, last))
    texts = [f"{day.day} {day:%b}" for day in (start, end)]
    if start.year != end.year:
        texts[0] += f" {start.year}"
    elif start.month == end.month:
        texts[0] = f"{start.day}"
    shown = f" {end.year}" if year or start.year != end.year else ""
    return f"{texts[1]}{shown}" if start == end else f"{texts[0]} – {texts[1]}{shown}"


def quantile_text(quantile: Quantile, unit: str) -> str:
    """Return a quantile with its interval as text.

    >>> quantile_text(Quantile(0.5, 12.34, 10, 15), "min")
    '50 % are below 12.3 min (10.0 to 15.0)'
    """
    estimate, low, high = quantile_figures(quantile)
    behind = f" {unit}" if unit else ""
    return f"{plain(100 * quantile.level, 0)} % are below {estimate}{behind} ({low} to {high})"


def quantile_figures(quantile: Quantile, places: int | None = None) -> tuple[str, str, str]:
    """Format the estimate and its interval, with `places` decimals or as many as are meaningful."""
    places = quantile_places(quantile) if places is None else places
    ends = quantile.estimate, quantile.low, quantile.high
    estimate, low, high = (plain(value, places) for value in ends)
    return estimate, low, high


def quantile_places(quantile: Quantile) -> int:
    return decimals((quantile.high - quantile.low) / 2)


def whole_text(vector: WholeVector) -> str:
    """Describe a mean vector as a whole.

    >>> whole_text(WholeVector(length=0.51234, error=0.0234))
    'The mean vector has a length of about 0.512; the estimate is off by about 0.023 as a whole.'
    """
    places = decimals(vector.error)
    return (
        f"The mean vector has a length of about {plain(vector.length, places)}; the estimate is "
        f"off by about {plain(vector.error, places)} as a whole."
    )


def decimals(margin: float, digits: int = 2) -> int:
    """Return the number of decimals at which the margin has this many significant digits.

    >>> decimals(0.0123), decimals(1.23), decimals(123)
    (3, 1, 0)
    """
    if margin <= 0:
        return 1
    return min(MAX_DECIMALS, max(0, digits - 1 - math.floor(math.log10(margin))))


def plain(value: float, places: int) -> str:
    """Format a number with a true minus sign and thousands separators; never minus zero.

    >>> plain(-1234.56, 1), plain(-0.01, 1)
    ('−1,234.6', '0.0')
    """
    text = f"{abs(value):,.{places}f}"
    negative = value < 0 and any(digit in text for digit in "123456789")
    return MINUS + text if negative else text
