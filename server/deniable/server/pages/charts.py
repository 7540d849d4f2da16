"""One question in one round: a point for each label, its intervals as whiskers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deniable.server.pages.axes import LEFT, RIGHT, Axis, Range, Tick, Words, reach, ticks
from deniable.server.results.display import Figures

NAME_HEIGHT, BAR_HEIGHT, AXIS_HEIGHT = 22, 24, 24
MOST_MARKS = 20
LEAST_MARKS = 5  # of a long list of which nothing is told from 0


@dataclass(frozen=True)
class Mark:
    text: Figures
    name: Words
    top: int
    y: int
    at: float
    low: float
    high: float
    these: Range | None  # the noise alone
    known: float | None  # a value from elsewhere

    @property
    def row(self) -> int:
        """Where the next begins."""
        return self.y + BAR_HEIGHT // 2


@dataclass(frozen=True)
class Chart:
    marks: tuple[Mark, ...]
    ticks: tuple[Tick, ...]
    zero: float | None  # where bars begin; a mean has none

    @property
    def named(self) -> bool:
        """The only one needs no name and no figures beside it: the sentence has them."""
        return len(self.marks) > 1

    @property
    def bottom(self) -> int:
        return self.marks[-1].row

    @property
    def height(self) -> int:
        return self.bottom + AXIS_HEIGHT


def picked(rows: Sequence[Figures]) -> tuple[Sequence[Figures], Sequence[Figures]]:
    """Those that are drawn, and the others. Of more than have room, sorted, those are drawn that
    are told from 0."""
    if len(rows) <= MOST_MARKS:
        return rows, ()
    ordered = sorted(rows, key=lambda row: -row.notable)
    told = sum(row.told for row in ordered[:MOST_MARKS])
    shown = max(LEAST_MARKS, told)
    return ordered[:shown], ordered[shown:]


def chart(rows: Sequence[Figures], least: Range) -> Chart | None:
    """None where there is no estimate; `least` is what an axis shows at least."""
    if not rows:
        return None
    low, high = reach(rows)
    axis = Axis(min(low, least[0]), max(high, least[1]), LEFT, RIGHT)
    named = len(rows) > 1
    return Chart(
        marks=tuple(_mark(row, axis, number, named) for number, row in enumerate(rows)),
        ticks=ticks(axis, rows[0]),
        zero=axis.place(0) if rows[0].style.from_zero else None,
    )


def _mark(row: Figures, axis: Axis, number: int, named: bool) -> Mark:
    name = NAME_HEIGHT if named else 0
    top = (name + BAR_HEIGHT) * number
    alone = row.noise_alone
    return Mark(
        text=row,
        name=Words(row.label),
        top=top,
        y=top + name + BAR_HEIGHT // 2,
        at=axis.place(row.estimate),
        low=axis.place(row.low),
        high=axis.place(row.high),
        these=(axis.held(alone[0]), axis.held(alone[1])) if alone else None,
        known=None if row.known is None else axis.place(row.known),
    )
