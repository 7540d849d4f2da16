"""Charts as data for the SVG templates: points, trends over rounds, distribution curves.

Horizontal positions are in per cent of the drawing's width and vertical ones in pixels, so a chart
fits a phone and a wide screen without a script, and its text keeps its size.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from deniable.server.results.display import Figures, plain
from deniable.server.results.document import Distribution

Range = tuple[float, float]

LEFT, RIGHT, EDGE = 1.0, 99.0, 4.0  # per cent of the width
PER_LETTER = 2.7  # per cent of the narrowest drawing, for a tick's text
MAX_TICKS = 7
SHORT, LONG = 20, 60  # letters that fit on a phone, and on a wide screen


# Axes and texts


@dataclass(frozen=True)
class Axis:
    """A range of values, and its place on the drawing."""

    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 3)

    def clamped(self, value: float) -> float:
        """Place a value; one outside the range is placed at the nearest end."""
        return self.place(min(max(value, self.low), self.high))

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True)
class Tick:
    at: float
    text: str
    anchor: str = "middle"


@dataclass(frozen=True)
class Words:
    """A text in a drawing, where nothing wraps: shortened for a wide screen, and for a phone."""

    whole: str

    @property
    def long(self) -> str:
        return shortened(self.whole, LONG)

    @property
    def short(self) -> str:
        return shortened(self.whole, SHORT)


def shortened(text: str, most: int) -> str:
    """Cut a text that is too long.

    >>> shortened("an option with a name far too long", 26)
    'an option with a name far…'
    """
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def reach(rows: Sequence[Figures]) -> Range:
    """Return the range of the intervals and reference values."""
    references = [row.reference for row in rows if row.reference is not None]
    lows, highs = [row.low for row in rows], [row.high for row in rows]
    return min(lows + references), max(highs + references)


def round_ticks(low: float, high: float, most: int = MAX_TICKS) -> tuple[float, ...]:
    """Return at most so many round numbers, evenly spaced, within the range.

    >>> round_ticks(-0.03, 0.87)
    (0.0, 0.2, 0.4, 0.6, 0.8)
    """
    rough = (high - low) / (most - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return tuple(float(f"{step * number:.12g}") for number in range(first, last + 1))


def ticks(axis: Axis, row: Figures, most: int = MAX_TICKS) -> tuple[Tick, ...]:
    """Return ticks in the measure of this row's values."""
    values = round_ticks(axis.low, axis.high, most)
    places = max(_places(row.style.factor * value) for value in values)
    texts = (row.style.text(value, places) + row.style.sign for value in values)
    return tuple(
        Tick(at, text, _anchor(at)) for at, text in zip(map(axis.place, values), texts, strict=True)
    )


def plain_ticks(axis: Axis) -> tuple[Tick, ...]:
    values = round_ticks(axis.low, axis.high)
    places = max(map(_places, values))
    return tuple(Tick(axis.place(value), plain(value, places)) for value in values)


def _anchor(at: float) -> str:
    """Keep text at an edge inside the drawing."""
    return "start" if at < LEFT + EDGE else "end" if at > RIGHT - EDGE else "middle"


def _places(value: float) -> int:
    """Return the number of decimals of a round number."""
    text = f"{value:.9f}".rstrip("0")
    return len(text) - text.index(".") - 1


# One round: a point for each label, with its intervals

NAME_HEIGHT, BAR_HEIGHT, AXIS_HEIGHT = 22, 24, 24
MAX_MARKS = 20
MIN_MARKS = 5  # of a long list without any estimate clearly above zero


@dataclass(frozen=True)
class Mark:
    text: Figures
    name: Words
    top: int
    y: int
    at: float
    low: float
    high: float
    these: Range | None  # the part caused by the privacy noise
    reference: float | None

    @property
    def bottom(self) -> int:
        return self.y + BAR_HEIGHT // 2


@dataclass(frozen=True)
class Chart:
    marks: tuple[Mark, ...]
    ticks: tuple[Tick, ...]
    zero: float | None  # where bars begin; None for a mean

    @property
    def named(self) -> bool:
        """Return whether marks have names: a single one needs none, as the headline has it."""
        return len(self.marks) > 1

    @property
    def bottom(self) -> int:
        return self.marks[-1].bottom

    @property
    def height(self) -> int:
        return self.bottom + AXIS_HEIGHT


def picked(rows: Sequence[Figures]) -> tuple[Sequence[Figures], Sequence[Figures]]:
    """Split rows into those that are drawn and the others.

    Of a list that is too long, those are drawn that are clearly above zero, the highest first.
    """
    if len(rows) <= MAX_MARKS:
        return rows, ()
    ordered = sorted(rows, key=lambda row: -row.prominence)
    shown = max(MIN_MARKS, sum(row.is_clear for row in ordered[:MAX_MARKS]))
    return ordered[:shown], ordered[shown:]


def chart(rows: Sequence[Figures], least: Range) -> Chart | None:
    """Return None where there is no estimate; `least` is the smallest range of the axis."""
    if not rows:
        return None
    low, high = reach(rows)
    axis = Axis(min(low, least[0]), max(high, least[1]), LEFT, RIGHT)
    name_height = NAME_HEIGHT if len(rows) > 1 else 0
    return Chart(
        marks=tuple(_mark(row, axis, number, name_height) for number, row in enumerate(rows)),
        ticks=ticks(axis, rows[0]),
        zero=axis.place(0) if rows[0].style.from_zero else None,
    )


def _mark(row: Figures, axis: Axis, number: int, name_height: int) -> Mark:
    top = (name_height + BAR_HEIGHT) * number
    return Mark(
        text=row,
        name=Words(row.label),
        top=top,
        y=top + name_height + BAR_HEIGHT // 2,
        at=axis.place(row.estimate),
        low=axis.place(row.low),
        high=axis.place(row.high),
        these=_clamped(row.noise_alone, axis),
        reference=None if row.reference is None else axis.place(row.reference),
    )


def _clamped(interval: Range | None, axis: Axis) -> Range | None:
    return interval and (axis.clamped(interval[0]), axis.clamped(interval[1]))


# Over rounds: a panel for each label, all with the same scale, the oldest round first

TREND_TOP, TREND_AXIS_HEIGHT, LINE_HEIGHT = 16, 30, 18
PLOT, TICKS = 150, 5
SMALL_PLOT, SMALL_TICKS = 80, 4  # one panel among several
MAX_STRETCH = 3  # medians; a wider interval does not stretch the scale: it is cut
MAX_NAMES = 3  # of rounds
MAX_PANELS = 6
MAX_NAMED_EVENTS = 4  # the others are lines without words


@dataclass(frozen=True)
class RoundFigures:
    """One label in one round."""

    round: int
    name: str
    text: Figures


@dataclass(frozen=True)
class TrendPoint:
    name: str
    text: Figures
    at: float
    y: float
    y_low: float
    y_high: float
    y_these: Range | None  # the part caused by the privacy noise
    y_reference: float | None
    cut: tuple[bool, bool]  # whether the interval is longer, below and above
    off: bool  # the estimate itself is outside the scale


@dataclass(frozen=True)
class EventLine:
    at: float
    words: Words
    anchor: str
    y: int | None  # of the words, where there is room for them


@dataclass(frozen=True)
class Trend:
    label: str
    points: tuple[TrendPoint, ...]
    ticks: tuple[Tick, ...]
    names: tuple[Tick, ...]
    lines: tuple[EventLine, ...]
    top: int
    bottom: int
    small: bool  # one among several

    @property
    def height(self) -> int:
        return self.bottom + TREND_AXIS_HEIGHT

    # All marks of one sort are one path, in per cent across and pixels down

    @property
    def path(self) -> str:
        return "M" + "L".join(f"{point.at:g} {point.y:g}" for point in self.points)

    @property
    def whiskers(self) -> str:
        return "".join(f"M{p.at:g} {p.y_low:g}V{p.y_high:g}" for p in self.points)

    @property
    def noise(self) -> str:
        return "".join(
            f"M{p.at:g} {p.y_these[0]:g}V{p.y_these[1]:g}" for p in self.points if p.y_these
        )

    @property
    def dots(self) -> str:
        return "".join(f"M{p.at:g} {p.y:g}h0" for p in self.points if not p.off)


def trends(
    panels: Sequence[Sequence[RoundFigures]], events: Mapping[int, str] | None = None
) -> tuple[Trend, ...]:
    """Return one trend for each label that has at least two rounds; `events` are by round."""
    panels = [panel for panel in panels if len(panel) > 1]
    if not panels:
        return ()
    several = len(panels) > 1
    lines = sorted((events or {}).items(), reverse=True)
    top = TREND_TOP + (0 if several else LINE_HEIGHT * min(len(lines), MAX_NAMED_EVENTS))
    axis = _scale(panels, top, SMALL_PLOT if several else PLOT)
    return tuple(_trend(panel, axis, top, several, lines) for panel in panels)


def _trend(
    panel: Sequence[RoundFigures],
    axis: Axis,
    top: int,
    several: bool,
    events: Sequence[tuple[int, str]],
) -> Trend:
    scale = ticks(axis, panel[0].text, SMALL_TICKS if several else TICKS)
    left = 5 + PER_LETTER * max(len(tick.text) for tick in scale)
    rounds = Axis(panel[0].round, panel[-1].round, left, RIGHT - 3)
    points = tuple(_point(each, rounds.place(each.round), axis) for each in panel)
    inside = [event for event in events if event[0] in rounds]
    return Trend(
        label=panel[0].text.label,
        points=points,
        ticks=scale,
        names=_round_names(points, 2 if several else MAX_NAMES),
        lines=tuple(_line(n, event, rounds, several) for n, event in enumerate(inside)),
        top=top,
        bottom=round(axis.start),
        small=several,
    )


def _scale(panels: Sequence[Sequence[RoundFigures]], top: int, plot: int) -> Axis:
    """Fit the usual intervals, so that a change is visible; from 0 where 0 has a meaning."""
    rows = [each.text for panel in panels for each in panel]
    usual = median(row.half for row in rows)
    low, high = reach([row for row in rows if row.half <= MAX_STRETCH * usual])
    room = (high - low) / 10 or 1.0
    floor = min(low, 0.0) if rows[0].style.from_zero else low - room
    return Axis(floor, high + room, top + plot, top)


def _point(each: RoundFigures, at: float, axis: Axis) -> TrendPoint:
    row = each.text
    return TrendPoint(
        name=each.name,
        text=row,
        at=at,
        y=axis.clamped(row.estimate),
        y_low=axis.clamped(row.low),
        y_high=axis.clamped(row.high),
        y_these=_clamped(row.noise_alone, axis),
        y_reference=None if row.reference is None else axis.clamped(row.reference),
        cut=(row.low < axis.low, row.high > axis.high),
        off=row.estimate not in axis,
    )


def _line(number: int, event: tuple[int, str], rounds: Axis, several: bool) -> EventLine:
    """Place the words of the newest event highest."""
    at = rounds.place(event[0])
    has_room = not several and number < MAX_NAMED_EVENTS
    y = TREND_TOP + LINE_HEIGHT * number - 4 if has_room else None
    return EventLine(at, Words(event[1]), "start" if at < 50 else "end", y)


def _round_names(points: Sequence[TrendPoint], most: int) -> tuple[Tick, ...]:
    """Name as many rounds as fit, among them the first and the last."""
    shown = min(most, len(points))
    chosen = [round(number * (len(points) - 1) / (shown - 1)) for number in range(shown)]
    anchors = {0: "start", len(points) - 1: "end"}
    return tuple(Tick(points[n].at, points[n].name, anchors.get(n, "middle")) for n in chosen)


# Distributions: the share at or below each value, with its band

CURVE_LEFT, CURVE_TOP, CURVE_BOTTOM, CURVE_HEIGHT = 14.0, 24, 190, 220


@dataclass(frozen=True)
class Step:
    """The band and the curve between two neighbouring points of a distribution."""

    start: float
    end: float
    top: float
    bottom: float
    y_start: float
    y_end: float


@dataclass(frozen=True)
class Curve:
    """The share at or below each value, rising from 0 to 1, with the band that contains it."""

    steps: tuple[Step, ...]
    ticks: tuple[Tick, ...]  # shares
    names: tuple[Tick, ...]  # values
    height: int = CURVE_HEIGHT
    bottom: int = CURVE_BOTTOM


def curve(distribution: Distribution) -> Curve:
    """Return the steps of the curve and of its band.

    Between two points, the band reaches from the lower end at the first to the upper end at the
    second, because the true curve rises.
    """
    points = distribution.points
    values = Axis(points[0].at, points[-1].at, CURVE_LEFT, RIGHT - 3)
    shares = Axis(0, 1, CURVE_BOTTOM, CURVE_TOP)
    steps = tuple(
        Step(
            start=values.place(point.at),
            end=values.place(following.at),
            top=shares.place(following.below_high),
            bottom=shares.place(point.below_low),
            y_start=shares.place(point.below_consistent),
            y_end=shares.place(following.below_consistent),
        )
        for point, following in pairwise(points)
    )
    quarters = (Tick(shares.place(n / 4), f"{25 * n} %") for n in range(5))
    return Curve(steps, tuple(quarters), plain_ticks(values))
