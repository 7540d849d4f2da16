"""Charts as data for the SVG templates: points, trends over rounds, distribution curves.

Horizontal positions are in per cent of the drawing's width and vertical ones in pixels, so a chart
fits a phone and a wide screen without a script, and its text keeps its size.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from deniable.server.estimation.statements import MAX_SEPARATE_LABELS
from deniable.server.results.display import STYLES, Figures, Style
from deniable.server.results.document import Distribution

Range = tuple[float, float]

LEFT, RIGHT, EDGE = 1.0, 99.0, 4.0  # positions in per cent of the width
PER_LETTER = 2.7  # width of a letter in a tick's text, in per cent of the narrowest drawing
MAX_TICKS = 7


# Axes and marks


@dataclass(frozen=True)
class Axis:
    """Range of values, and its position in the drawing."""

    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 3)

    def clamped(self, value: float) -> float:
        """Return the position of a value, or of the nearest end if it is outside the range."""
        return self.place(min(max(value, self.low), self.high))

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


class Tick(NamedTuple):
    at: float
    text: str
    anchor: str = "middle"


@dataclass(frozen=True)
class Mark:
    """Position of one label's estimate, in one round."""

    name: str
    text: Figures
    across: float
    at: float
    low: float
    high: float
    these: Range | None  # the part caused by the privacy noise
    reference: float | None
    cut: tuple[bool, bool]  # whether the interval is longer than the axis, below and above
    off: bool  # whether the estimate itself is outside the axis


def mark(name: str, row: Figures, across: float, axis: Axis, shows_noise: bool) -> Mark:
    low, high = (shows_noise and row.noise_alone) or (None, None)
    return Mark(
        name=name,
        text=row,
        across=across,
        at=axis.clamped(row.estimate),
        low=axis.clamped(row.low),
        high=axis.clamped(row.high),
        these=None if low is None or high is None else (axis.clamped(low), axis.clamped(high)),
        reference=None if row.reference is None else axis.clamped(row.reference),
        cut=(row.low < axis.low, row.high > axis.high),
        off=row.estimate not in axis,
    )


def reach(rows: Sequence[Figures]) -> Range:
    references = [row.reference for row in rows if row.reference is not None]
    lows, highs = [row.low for row in rows], [row.high for row in rows]
    return min(lows + references), max(highs + references)


def round_ticks(low: float, high: float, most: int = MAX_TICKS) -> tuple[float, ...]:
    """Return at most `most` round numbers, evenly spaced, within the range.

    >>> round_ticks(-0.03, 0.87)
    (0.0, 0.2, 0.4, 0.6, 0.8)
    """
    rough = (high - low) / (most - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return tuple(float(f"{step * number:.12g}") for number in range(first, last + 1))


def ticks(axis: Axis, style: Style, most: int = MAX_TICKS) -> tuple[Tick, ...]:
    """Return ticks with texts in this style; texts at the edges stay inside the drawing."""
    values = round_ticks(axis.low, axis.high, most)
    places = max(_places(style.factor * value) for value in values)
    made = []
    for value in values:
        at = axis.place(value)
        anchor = "start" if at < LEFT + EDGE else "end" if at > RIGHT - EDGE else "middle"
        made.append(Tick(at, style.text(value, places) + style.sign, anchor))
    return tuple(made)


def _places(value: float) -> int:
    return len(f"{value:.9f}".rstrip("0").partition(".")[2])


# One round: a mark for each label

NAME_HEIGHT, BAR_HEIGHT, AXIS_HEIGHT = 22, 24, 24
MAX_MARKS = MAX_SEPARATE_LABELS


@dataclass(frozen=True)
class Chart:
    marks: tuple[Mark, ...]
    ticks: tuple[Tick, ...]
    zero: float | None  # position where bars start; None for a mean

    @property
    def named(self) -> bool:
        """True if marks have names; a single mark needs none, because the headline names it."""
        return len(self.marks) > 1

    @property
    def bottom(self) -> int:
        return round(self.marks[-1].across) + BAR_HEIGHT // 2

    @property
    def height(self) -> int:
        return self.bottom + AXIS_HEIGHT


def picked(rows: Sequence[Figures]) -> tuple[Sequence[Figures], Sequence[Figures]]:
    """Split rows into those that are drawn and the others.

    If the list is too long, only rows clearly above zero are drawn, highest first.
    """
    if len(rows) <= MAX_MARKS:
        return rows, ()
    ordered = sorted(rows, key=lambda row: (not row.is_clear, -row.prominence))
    shown = sum(row.is_clear for row in ordered[:MAX_MARKS])
    return ordered[:shown], ordered[shown:]


def show_noise(rows: Iterable[Figures]) -> bool:
    """Return whether a figure shows the part caused by the noise: for all of its rows, or none.

    If only some rows showed it, they would look as if they had been selected.
    """
    return all(row.noise_alone for row in rows)


def chart(rows: Sequence[Figures], least: Range) -> Chart | None:
    """Return the chart, or None without estimates; the axis covers at least the range `least`."""
    if not rows:
        return None
    low, high = reach(rows)
    axis = Axis(min(low, least[0]), max(high, least[1]), LEFT, RIGHT)
    height, noise = BAR_HEIGHT + (NAME_HEIGHT if len(rows) > 1 else 0), show_noise(rows)
    return Chart(
        marks=tuple(
            mark(row.label, row, height * number - BAR_HEIGHT // 2, axis, noise)
            for number, row in enumerate(rows, 1)
        ),
        ticks=ticks(axis, rows[0].style),
        zero=axis.place(0) if rows[0].style.from_zero else None,
    )


# Over rounds: a panel for each label, all with the same scale, oldest round first

TREND_TOP, TREND_AXIS_HEIGHT, LINE_HEIGHT = 16, 30, 18
PLOT, TICKS = 150, 5
SMALL_PLOT, SMALL_TICKS = 80, 4  # size and ticks of one panel among several
MAX_STRETCH = 3  # median widths; wider intervals are cut instead of stretching the scale
MAX_NAMES = 3  # largest number of rounds with names
MAX_PANELS = 6
MAX_NAMED_EVENTS = 4  # other events are lines without words
MAX_NAMED_PERIODS = 5
MAX_SPARKLINE_POINTS = 60
MAX_TEXTS = 60  # points of a trend that show their values


class RoundFigures(NamedTuple):
    """Figures of one label in one round."""

    round: int
    name: str
    text: Figures
    forged: bool = False


class PeriodMark(NamedTuple):
    """Figures of one label in a period, from its first to its last round."""

    first: int
    last: int
    name: str
    text: Figures
    forged: bool
    begins: str  # short name of the first round


class Band(NamedTuple):
    """Interval of a period, across all of its rounds."""

    start: float
    width: float
    top: float
    height: float
    at: float
    mark: PeriodMark
    named: bool  # whether there is room for its estimate


class EventLine(NamedTuple):
    at: float
    words: str
    anchor: str
    y: int | None  # height of the words; None if there is no room for them


@dataclass(frozen=True)
class Trend:
    label: str
    points: tuple[Mark, ...]
    ticks: tuple[Tick, ...]
    names: tuple[Tick, ...]
    lines: tuple[EventLine, ...]
    bands: tuple[Band, ...]
    forged: tuple[Mark, ...]  # rounds with forged reports: marked, but without their estimates
    smooth: tuple[Mark, ...]  # smoothed estimates, if the survey has a model of changes
    top: int
    bottom: int
    small: bool  # whether it is one panel among several

    @property
    def height(self) -> int:
        return self.bottom + TREND_AXIS_HEIGHT

    @property
    def plain(self) -> bool:
        """True if points are drawn without their texts, to keep the page short."""
        return self.small or len(self.points) > MAX_TEXTS

    @property
    def elements(self) -> Iterator[Mark]:
        """Points with an element of their own, for their text, an arrow or a reference value."""
        for point in self.points:
            if not self.plain or point.off or any(point.cut) or point.reference is not None:
                yield point

    # All marks of one kind form one path, in per cent across and pixels down

    @property
    def path(self) -> str:
        line = self.smooth or self.points
        return "M" + "L".join(f"{point.across:g} {point.at:g}" for point in line)

    @property
    def area(self) -> str:
        """Interval of the smoothed estimates, as a band."""
        ends = [(p.across, p.high) for p in self.smooth]
        ends += [(p.across, p.low) for p in reversed(self.smooth)]
        return "M" + "L".join(f"{across:g} {at:g}" for across, at in ends) + "Z"

    @property
    def whiskers(self) -> str:
        return "".join(f"M{point.across:g} {point.low:g}V{point.high:g}" for point in self.points)

    @property
    def noise(self) -> str:
        parts = ((point.across, *point.these) for point in self.points if point.these)
        return "".join(f"M{across:g} {low:g}V{high:g}" for across, low, high in parts)

    @property
    def dots(self) -> str:
        return "".join(f"M{p.across:g} {p.at:g}h0" for p in self.points if not p.off)


def trends(
    panels: Sequence[Sequence[RoundFigures]],
    events: Mapping[int, str] | None = None,
    periods: Mapping[str, Sequence[PeriodMark]] | None = None,
    smooth: Mapping[str, Sequence[RoundFigures]] | None = None,
) -> tuple[Trend, ...]:
    """Return one trend for each label that has at least two rounds without forged reports.

    `events` are keyed by round number. The periods that are drawn as bands, and the smoothed
    estimates, are keyed by label.
    """
    panels = [panel for panel in panels if sum(not one.forged for one in panel) > 1]
    bands = periods or {}
    if not panels:
        return ()
    several = len(panels) > 1
    newest = sorted((events or {}).items(), reverse=True)
    top = TREND_TOP + (0 if several else LINE_HEIGHT * min(len(newest), MAX_NAMED_EVENTS))
    axis = _scale([*panels, *bands.values()], top, SMALL_PLOT if several else PLOT)
    scale = ticks(axis, panels[0][0].text.style, SMALL_TICKS if several else TICKS)
    return tuple(
        _trend(
            panel,
            axis,
            scale,
            several,
            newest,
            bands.get(panel[0].text.label, ()),
            (smooth or {}).get(panel[0].text.label, ()),
        )
        for panel in panels
    )


def _trend(
    panel: Sequence[RoundFigures],
    axis: Axis,
    scale: tuple[Tick, ...],
    several: bool,
    events: Sequence[tuple[int, str]],
    periods: Sequence[PeriodMark],
    smooth: Sequence[RoundFigures],
) -> Trend:
    left = 5 + PER_LETTER * max(len(tick.text) for tick in scale)
    start = min([panel[0].round, *(period.first for period in periods[:1])])
    rounds = Axis(start, panel[-1].round, left, RIGHT - 3)
    noise = show_noise(one.text for one in panel if not one.forged)
    marks = [(mark(one.name, one.text, rounds.place(one.round), axis, noise), one) for one in panel]
    points = tuple(point for point, one in marks if not one.forged)
    named = 0 if several else MAX_NAMED_EVENTS  # the newest events, from the top
    heights = {number: TREND_TOP + LINE_HEIGHT * number - 4 for number in range(named)}
    inside = [(rounds.place(number), words) for number, words in events if number in rounds]
    return Trend(
        label=panel[0].text.label,
        points=points,
        ticks=scale,
        names=_names(points, 2 if several else MAX_NAMES, periods[:1], rounds),
        lines=tuple(
            EventLine(at, words, "start" if at < 50 else "end", heights.get(number))
            for number, (at, words) in enumerate(inside)
        ),
        bands=tuple(_band(period, rounds, axis, len(periods)) for period in periods),
        forged=tuple(point for point, one in marks if one.forged),
        smooth=tuple(
            mark(one.name, one.text, rounds.place(one.round), axis, noise)
            for one in smooth
            if one.round in rounds
        ),
        top=round(axis.end),
        bottom=round(axis.start),
        small=several,
    )


def _band(period: PeriodMark, rounds: Axis, axis: Axis, periods: int) -> Band:
    """Return the band of a period, up to the middle between its rounds and the next."""
    start, end = rounds.clamped(period.first - 0.45), rounds.clamped(period.last + 0.45)
    top, bottom = axis.clamped(period.text.high), axis.clamped(period.text.low)
    return Band(
        start=start,
        width=round(end - start, 3),
        top=top,
        height=round(bottom - top, 3),
        at=axis.clamped(period.text.estimate),
        mark=period,
        named=periods <= MAX_NAMED_PERIODS,
    )


def _scale(panels: Sequence[Sequence[RoundFigures | PeriodMark]], top: int, plot: int) -> Axis:
    """Fit the scale to typical intervals, so that changes are visible; include a meaningful 0."""
    rows = [rounds.text for panel in panels for rounds in panel if not rounds.forged]
    usual = median(row.half for row in rows)
    low, high = reach([row for row in rows if row.half <= MAX_STRETCH * usual])
    room = (high - low) / 10 or 1.0
    floor = min(low, 0.0) if rows[0].style.from_zero else low - room
    return Axis(floor, high + room, top + plot, top)


def _names(
    points: Sequence[Mark], most: int, earliest: Sequence[PeriodMark], rounds: Axis
) -> tuple[Tick, ...]:
    """Name as many rounds as there is room for, including the first and the last.

    If there is an earliest period and it begins before the first point, name its first round.
    """
    for period in earliest:
        if rounds.place(period.first) < points[0].across:
            first = Tick(rounds.place(period.first), period.begins, "start")
            return first, Tick(points[-1].across, points[-1].name, "end")
    last, shown = len(points) - 1, min(most, len(points))
    chosen = [round(number * last / (shown - 1)) for number in range(shown)]
    anchors = {0: "start", last: "end"}
    return tuple(Tick(points[n].across, points[n].name, anchors.get(n, "middle")) for n in chosen)


class Sparkline(NamedTuple):
    """Sparkline, a trend the size of a word: paths in per cent across and pixels down."""

    box: str
    band: str  # the 95 % intervals
    line: str
    forged: str  # a line down at each round with forged reports


def sparkline(trend: Trend) -> Sparkline | None:
    """Return the newest points of a trend; None if there are fewer than two."""
    points = trend.points[-MAX_SPARKLINE_POINTS:]
    if len(points) < 2:
        return None
    first, width = points[0].across, points[-1].across - points[0].across
    outline = [(p.across, p.high) for p in points] + [(p.across, p.low) for p in reversed(points)]
    forged = (point.across for point in trend.forged if point.across >= first)
    return Sparkline(
        box=f"{first:g} {trend.top} {width:.1f} {trend.bottom - trend.top}",
        band=_line(outline),
        line=_line((point.across, point.at) for point in points),
        forged="".join(f"M{across:.1f} {trend.top}V{trend.bottom}" for across in forged),
    )


def _line(places: Iterable[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{across:.1f} {down:.0f}" for across, down in places)


# Distributions: the share at or below each value, with its band

CURVE_LEFT, CURVE_TOP, CURVE_BOTTOM, CURVE_HEIGHT = 14.0, 24, 190, 220


class Step(NamedTuple):
    """Band and curve between two neighbouring points of a distribution."""

    start: float
    end: float
    top: float
    bottom: float
    y_start: float
    y_end: float


@dataclass(frozen=True)
class Curve:
    """Curve of the share at or below each value, rising from 0 to 1, with its band."""

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
    return Curve(steps, tuple(quarters), ticks(values, STYLES["mean"]))
