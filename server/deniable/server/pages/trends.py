"""A question over the rounds: a panel for each label, all of one scale, the oldest round first.

A round with few reports has an interval that would squash all others: what is wider than
`MOST_TIMES` the middle one does not stretch the scale, and is drawn cut, with an arrow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from deniable.server.pages.axes import (
    PER_LETTER,
    RIGHT,
    Axis,
    Range,
    Tick,
    Words,
    reach,
    ticks,
)
from deniable.server.results.display import Figures

TOP, PLOT, AXIS_HEIGHT, LINE_HEIGHT = 16, 150, 30, 18
TICKS = 5
SMALL_PLOT, SMALL_TICKS = 80, 4  # of one among several
MOST_TIMES = 3
MOST_NAMES = 3  # of rounds
MOST_PANELS = 6
MOST_NOTED = 4  # annotations with their words in the figure; the others are lines only


@dataclass(frozen=True)
class Told:
    """What one round says of one label."""

    round: int
    name: str
    text: Figures


@dataclass(frozen=True)
class Point:
    name: str
    text: Figures
    at: float
    y: float
    y_low: float
    y_high: float
    y_these: Range | None  # the noise alone
    y_known: float | None  # a value from elsewhere
    cut: tuple[bool, bool]  # whether its interval goes on, below and above
    off: bool  # the estimate itself is not on the scale


@dataclass(frozen=True)
class Line:
    """Something that happened."""

    at: float
    words: Words
    anchor: str
    y: int | None  # of the words, where there is room for them


@dataclass(frozen=True)
class Trend:
    label: str
    points: tuple[Point, ...]
    ticks: tuple[Tick, ...]
    names: tuple[Tick, ...]
    lines: tuple[Line, ...]
    top: int
    bottom: int
    small: bool  # one among several

    @property
    def height(self) -> int:
        return self.bottom + AXIS_HEIGHT

    # All marks of a kind as one path, across in per cent and down in pixels

    @property
    def path(self) -> str:
        return "M" + "L".join(f"{each.at:g} {each.y:g}" for each in self.points)

    @property
    def whiskers(self) -> str:
        return "".join(f"M{each.at:g} {each.y_low:g}V{each.y_high:g}" for each in self.points)

    @property
    def noise(self) -> str:
        """As far as the noise alone reaches."""
        return "".join(
            f"M{each.at:g} {each.y_these[0]:g}V{each.y_these[1]:g}"
            for each in self.points
            if each.y_these
        )

    @property
    def dots(self) -> str:
        return "".join(f"M{each.at:g} {each.y:g}h0" for each in self.points if not each.off)


def trends(
    panels: Sequence[Sequence[Told]], happened: Mapping[int, str] | None = None
) -> tuple[Trend, ...]:
    """One for each label that has at least two rounds to compare. `happened` is by round."""
    panels = [panel for panel in panels if len(panel) > 1]
    if not panels:
        return ()
    several = len(panels) > 1
    lines = sorted((happened or {}).items(), reverse=True)
    top = TOP + (0 if several else LINE_HEIGHT * min(len(lines), MOST_NOTED))
    axis = _scale(panels, top, SMALL_PLOT if several else PLOT)
    return tuple(_trend(panel, axis, top, several, lines) for panel in panels)


def _trend(
    panel: Sequence[Told], axis: Axis, top: int, several: bool, happened: Sequence[tuple[int, str]]
) -> Trend:
    scale = ticks(axis, panel[0].text, SMALL_TICKS if several else TICKS)
    left = 5 + PER_LETTER * max(len(tick.text) for tick in scale)
    rounds = Axis(panel[0].round, panel[-1].round, left, RIGHT - 3)
    points = tuple(_point(told, rounds.place(told.round), axis) for told in panel)
    inside = [each for each in happened if each[0] in rounds]
    return Trend(
        label=panel[0].text.label,
        points=points,
        ticks=scale,
        names=_names(points, 2 if several else MOST_NAMES),
        lines=tuple(_line(n, each, rounds, several) for n, each in enumerate(inside)),
        top=top,
        bottom=round(axis.start),
        small=several,
    )


def _scale(panels: Sequence[Sequence[Told]], top: int, plot: int) -> Axis:
    """As far as usual intervals reach, so that a change is seen; from 0 where 0 means something."""
    rows = [told.text for panel in panels for told in panel]
    usual = median(row.half for row in rows)
    low, high = reach([row for row in rows if row.half <= MOST_TIMES * usual])
    room = (high - low) / 10 or 1.0
    floor = min(low, 0.0) if rows[0].style.from_zero else low - room
    return Axis(floor, high + room, top + plot, top)


def _point(told: Told, at: float, axis: Axis) -> Point:
    row, alone = told.text, told.text.noise_alone
    return Point(
        name=told.name,
        text=row,
        at=at,
        y=axis.held(row.estimate),
        y_low=axis.held(row.low),
        y_high=axis.held(row.high),
        y_these=(axis.held(alone[0]), axis.held(alone[1])) if alone else None,
        y_known=None if row.known is None else axis.held(row.known),
        cut=(row.low < axis.low, row.high > axis.high),
        off=row.estimate not in axis,
    )


def _line(number: int, happened: tuple[int, str], rounds: Axis, several: bool) -> Line:
    """The newest first, whose words stand highest."""
    at = rounds.place(happened[0])
    has_room = not several and number < MOST_NOTED
    y = TOP + LINE_HEIGHT * number - 4 if has_room else None
    return Line(at, Words(happened[1]), "start" if at < 50 else "end", y)


def _names(points: Sequence[Point], most: int) -> tuple[Tick, ...]:
    """As many rounds as have room, the first and the last among them."""
    shown = min(most, len(points))
    chosen = [round(number * (len(points) - 1) / (shown - 1)) for number in range(shown)]
    anchors = {0: "start", len(points) - 1: "end"}
    return tuple(Tick(points[n].at, points[n].name, anchors.get(n, "middle")) for n in chosen)
