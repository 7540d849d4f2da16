"""Ranges of values, and where they lie on a drawing.

Across, everything is in per cent of the drawing's width, and down in pixels: a figure fits a phone
and a wide screen without a script, and its text keeps its size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from deniable.server.results.display import Figures, plain

Range = tuple[float, float]

LEFT, RIGHT, EDGE = 1.0, 99.0, 4.0  # per cent of the width
PER_LETTER = 2.7  # of a tick's text, on the narrowest drawing
MOST_TICKS = 7
SHORT, LONG = 20, 60  # letters for which a phone has room, and a wide screen


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

    def held(self, value: float) -> float:
        """The same, and what lies outside at the end that is nearest."""
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
    """What stands in a drawing, whose text wraps nowhere: for a wide screen, and for a phone."""

    whole: str

    @property
    def long(self) -> str:
        return shortened(self.whole, LONG)

    @property
    def short(self) -> str:
        return shortened(self.whole, SHORT)


def reach(rows: Sequence[Figures]) -> Range:
    """As far as their intervals go, and what is known of them."""
    known = [row.known for row in rows if row.known is not None]
    lows, highs = [row.low for row in rows], [row.high for row in rows]
    return min(lows + known), max(highs + known)


def round_ticks(low: float, high: float, most: int = MOST_TICKS) -> tuple[float, ...]:
    """At most so many round numbers, evenly spaced, within the range.

    >>> round_ticks(-0.03, 0.87)
    (0.0, 0.2, 0.4, 0.6, 0.8)
    """
    rough = (high - low) / (most - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return tuple(float(f"{step * number:.12g}") for number in range(first, last + 1))


def ticks(axis: Axis, row: Figures, most: int = MOST_TICKS) -> tuple[Tick, ...]:
    """In the measure of this row's values."""
    values = round_ticks(axis.low, axis.high, most)
    places = max(_places(row.style.factor * value) for value in values)
    return tuple(
        Tick(at, row.style.text(value, places) + row.style.sign, _anchor(at))
        for value, at in ((value, axis.place(value)) for value in values)
    )


def plain_ticks(axis: Axis) -> tuple[Tick, ...]:
    values = round_ticks(axis.low, axis.high)
    places = max(map(_places, values))
    return tuple(Tick(axis.place(value), plain(value, places)) for value in values)


def shortened(text: str, most: int) -> str:
    """What of a text there is room for; the table has all of it.

    >>> shortened("an option with a name far too long", 26)
    'an option with a name far…'
    """
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def _anchor(at: float) -> str:
    """Text at an edge of the drawing stays inside."""
    return "start" if at < LEFT + EDGE else "end" if at > RIGHT - EDGE else "middle"


def _places(value: float) -> int:
    """How many decimals a round number has."""
    text = f"{value:.9f}".rstrip("0")
    return len(text) - text.index(".") - 1
