"""A number's distribution as a curve: the share below each value, with the band that holds it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from deniable.server.pages.axes import RIGHT, Axis, Tick, plain_ticks
from deniable.server.results.document import Distribution

CURVE_LEFT, CURVE_TOP, CURVE_BOTTOM, CURVE_HEIGHT = 14.0, 24, 190, 220


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
    height: int = CURVE_HEIGHT
    bottom: int = CURVE_BOTTOM


def curve(found: Distribution) -> Curve:
    """Between two points the truth is at least what it is at the first, at most at the second."""
    points = found.points
    values = Axis(points[0].at, points[-1].at, CURVE_LEFT, RIGHT - 3)
    shares = Axis(0, 1, CURVE_BOTTOM, CURVE_TOP)
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
    return Curve(steps, tuple(quarters), plain_ticks(values))
