"""Where the marks of a chart go; the templates draw them.

Across, everything is in per cent of the drawing's width, and down in pixels: a chart fits a phone
and a wide screen without a script, and its text keeps its size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from deniable.server.results.display import Figures, plain
from deniable.server.results.document import Distribution

Range = tuple[float, float]

LEFT, RIGHT, EDGE = 1.0, 99.0, 4.0  # per cent of the width
MARK_HEIGHT, AXIS_HEIGHT = 48, 24
TREND_LEFT, TREND_TOP, TREND_BOTTOM, TREND_HEIGHT = 12.0, 24, 190, 220
MOST_MARKS = 20
MOST_NAMES = 3  # under a trend
LABEL_LETTERS = 26


@dataclass(frozen=True)
class Axis:
    """A range of values, and where it lies on the drawing."""

    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 3)


@dataclass(frozen=True)
class Tick:
    at: float
    text: str
    anchor: str = "middle"


@dataclass(frozen=True)
class Mark:
    text: Figures
    short: str
    top: int
    at: float
    low: float
    high: float


@dataclass(frozen=True)
class Chart:
    """One question in one round: a point for each label, its interval as whiskers."""

    marks: tuple[Mark, ...]
    ticks: tuple[Tick, ...]
    zero: float | None  # where bars begin; a mean has none
    left_out: int

    @property
    def bottom(self) -> int:
        return MARK_HEIGHT * len(self.marks)

    @property
    def height(self) -> int:
        return self.bottom + AXIS_HEIGHT


@dataclass(frozen=True)
class Point:
    name: str
    text: Figures
    at: float
    y: float
    y_low: float
    y_high: float


@dataclass(frozen=True)
class Trend:
    """One label over the rounds."""

    points: tuple[Point, ...]
    ticks: tuple[Tick, ...]
    names: tuple[Tick, ...]
    height: int = TREND_HEIGHT
    bottom: int = TREND_BOTTOM


@dataclass(frozen=True)
class Step:
    """Between two neighbouring points of a distribution: where the band is, and the curve."""

    start: float
    end: float
    top: float
    bottom: float
    y_start: float
    y_end: float


@dataclass(frozen=True)
class Curve:
    """The share below each value, rising from 0 to 1, with the band that holds all of it."""

    steps: tuple[Step, ...]
    ticks: tuple[Tick, ...]  # shares
    names: tuple[Tick, ...]  # values
    height: int = TREND_HEIGHT
    bottom: int = TREND_BOTTOM


def curve(found: Distribution) -> Curve:
    """Between two points the truth is at least what it is at the first, at most at the second."""
    points = found.points
    values = Axis(points[0].at, points[-1].at, TREND_LEFT, RIGHT - 3)
    shares = Axis(0, 1, TREND_BOTTOM, TREND_TOP)
    steps = tuple(
        Step(
            start=values.place(here.at),
            end=values.place(there.at),
            top=shares.place(there.below_high),
            bottom=shares.place(here.below_low),
            y_start=shares.place(here.below_consistent),
            y_end=shares.place(there.below_consistent),
        )
        for here, there in pairwise(points)
    )
    quarters = (Tick(shares.place(n / 4), f"{25 * n} %") for n in range(5))
    return Curve(steps, tuple(quarters), _values(values))


def _values(axis: Axis) -> tuple[Tick, ...]:
    ticks = round_ticks(axis.low, axis.high)
    places = max(map(_places, ticks))
    return tuple(Tick(axis.place(value), plain(value, places)) for value in ticks)


def chart(rows: Sequence[Figures], least: Range) -> Chart | None:
    """None where there is no estimate. Of many options, those with the highest estimates."""
    if not rows:
        return None
    shown = rows
    if len(rows) > MOST_MARKS:
        shown = sorted(rows, key=lambda row: -row.notable)[:MOST_MARKS]
    axis = _axis(shown, least)
    return Chart(
        marks=tuple(_mark(row, axis, number) for number, row in enumerate(shown)),
        ticks=_ticks(axis, shown[0]),
        zero=axis.place(0) if shown[0].style.from_zero else None,
        left_out=len(rows) - len(shown),
    )


def trend(rows: Sequence[tuple[str, Figures]]) -> Trend | None:
    """One label's rounds, each with its name, the oldest first; None without two to compare."""
    if len(rows) < 2:
        return None
    figures = [row for _, row in rows]
    axis = _tight_axis(figures)
    step = (RIGHT - 3 - TREND_LEFT) / (len(rows) - 1)
    points = tuple(
        _point(name, row, axis, round(TREND_LEFT + step * number, 3))
        for number, (name, row) in enumerate(rows)
    )
    return Trend(points, _ticks(axis, figures[0]), _names(points))


def _mark(row: Figures, axis: Axis, number: int) -> Mark:
    return Mark(
        text=row,
        short=shortened(row.label),
        top=MARK_HEIGHT * number,
        at=axis.place(row.estimate),
        low=axis.place(row.low),
        high=axis.place(row.high),
    )


def _point(name: str, row: Figures, axis: Axis, at: float) -> Point:
    return Point(name, row, at, axis.place(row.estimate), axis.place(row.low), axis.place(row.high))


def _axis(rows: Sequence[Figures], least: Range) -> Axis:
    """What the question wants shown at least, and as far as the intervals reach."""
    low, high = _reach(rows)
    return Axis(min(low, least[0]), max(high, least[1]), LEFT, RIGHT)


def _tight_axis(rows: Sequence[Figures]) -> Axis:
    """As far as the intervals reach, so that a change is seen; from 0 where 0 means something."""
    low, high = _reach(rows)
    room = (high - low) / 10 or 1.0
    floor = min(low, 0.0) if rows[0].style.from_zero else low - room
    return Axis(floor, high + room, TREND_BOTTOM, TREND_TOP)


def _reach(rows: Sequence[Figures]) -> Range:
    return min(row.low for row in rows), max(row.high for row in rows)


def round_ticks(low: float, high: float) -> tuple[float, ...]:
    """At most seven round numbers, evenly spaced, within the range.

    >>> round_ticks(-0.03, 0.87)
    (0.0, 0.2, 0.4, 0.6, 0.8)
    """
    rough = (high - low) / 6
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return tuple(float(f"{step * number:.12g}") for number in range(first, last + 1))


def _ticks(axis: Axis, row: Figures) -> tuple[Tick, ...]:
    values = round_ticks(axis.low, axis.high)
    places = max(_places(row.style.factor * value) for value in values)
    return tuple(
        Tick(at, row.style.text(value, places) + row.unit, _anchor(at))
        for value, at in ((value, axis.place(value)) for value in values)
    )


def _anchor(at: float) -> str:
    """Text at an edge of the drawing stays inside."""
    return "start" if at < LEFT + EDGE else "end" if at > RIGHT - EDGE else "middle"


def _places(value: float) -> int:
    """How many decimals a round number has."""
    text = f"{value:.9f}".rstrip("0")
    return len(text) - text.index(".") - 1


def _names(points: Sequence[Point]) -> tuple[Tick, ...]:
    """As many rounds as have room, the first and the last among them."""
    shown = min(MOST_NAMES, len(points))
    chosen = [round(number * (len(points) - 1) / (shown - 1)) for number in range(shown)]
    anchors = {0: "start", len(points) - 1: "end"}
    return tuple(Tick(points[n].at, points[n].name, anchors.get(n, "middle")) for n in chosen)


def shortened(label: str) -> str:
    """What of a label there is room for; the table has all of it.

    >>> shortened("an option with a name far too long")
    'an option with a name far…'
    """
    return label if len(label) <= LABEL_LETTERS else label[: LABEL_LETTERS - 1].rstrip() + "…"
