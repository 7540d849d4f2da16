"""Error against people, both in powers of ten, for three models; across in per cent, down in
pixels, as in `axes.py`.

What a shuffler leaves at ε₀ takes a search for a number's table, so ε₀ is taken down to a whole
number here, and the line is a little above what the figures beside it say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from deniable.server.pages.axes import Axis, Tick
from deniable.server.pages.plan_form import Form
from deniable.server.planning.models import half_width, shuffled_half_width, trusted_half_width
from deniable.server.results.display import Style
from deniable.shared.survey.kinds.base import Question

LEFT, RIGHT, TOP, BOTTOM, HEIGHT = 12.0, 78.0, 24, 290, 322
REACH = 2  # powers of ten on either side of the people
LEAST, MOST = 1, 12
APART = 18  # pixels between two labels
NAMES = {"local": "devices", "shuffled": "shuffled", "trusted": "trusted"}
KEYS = {"local": "", "shuffled": "shuffled_", "trusted": "central_"}


@dataclass(frozen=True)
class Line:
    model: str
    name: str
    points: tuple[tuple[float, float], ...]
    here: tuple[float, float]  # of so many people
    label_y: float
    told: str

    @property
    def steps(self) -> list[tuple[tuple[float, float], tuple[float, float]]]:
        return list(pairwise(self.points))


@dataclass(frozen=True)
class PlanChart:
    lines: tuple[Line, ...]
    people: tuple[Tick, ...]
    errors: tuple[Tick, ...]
    at: float
    height: int = HEIGHT
    top: int = TOP
    bottom: int = BOTTOM
    right: float = RIGHT


def plan_chart(form: Form, question: Question, found: Mapping[str, Any], style: Style) -> PlanChart:
    """`found` is what is planned for so many people; Any: what JSON holds."""
    people = found["people"]
    middle = min(max(math.log10(people), LEAST + REACH), MOST - REACH)
    first, last = math.floor(middle - REACH), math.ceil(middle + REACH)
    counts = [10**power for power in range(first, last + 1)]
    models: dict[str, Callable[[int], float]] = {
        "local": lambda n: half_width(question, n),
        "shuffled": lambda n: _shuffled(form, n),
        "trusted": lambda n: trusted_half_width(question, n),
    }
    drawn = {name: [model(n) for n in counts] for name, model in models.items()}
    here = {name: found[f"{KEYS[name]}half_width_95"] for name in models}
    across = Axis(first, last, LEFT, RIGHT)
    every = [math.log10(v) for values in drawn.values() for v in values]
    down = Axis(math.floor(min(every)), math.ceil(max(every)), BOTTOM, TOP)
    labels = _apart({name: down.place(math.log10(values[-1])) for name, values in drawn.items()})
    at = across.place(math.log10(people))
    lines = tuple(
        Line(
            name,
            NAMES[name],
            tuple(
                (across.place(math.log10(n)), down.place(math.log10(value)))
                for n, value in zip(counts, values, strict=True)
            ),
            (at, down.place(math.log10(here[name]))),
            labels[name],
            style.expected(here[name], question.unit),
        )
        for name, values in drawn.items()
    )
    return PlanChart(lines, _people(across, counts), _errors(down, style), at)


def _shuffled(form: Form, people: int) -> float:
    return shuffled_half_width(form.asked, people, form.most_bytes, coarse=True).half_width


def _apart(wanted: dict[str, float]) -> dict[str, float]:
    """Labels beside the ends of their lines, none on another."""
    found, last = dict[str, float](), -math.inf
    for name, y in sorted(wanted.items(), key=lambda each: each[1]):
        found[name] = last = max(y + 4, last + APART)
    return found


def _people(across: Axis, counts: Sequence[int]) -> tuple[Tick, ...]:
    places = [(across.place(math.log10(n)), people_text(n)) for n in counts]
    return tuple(Tick(at, text) for at, text in places)


def _errors(down: Axis, style: Style) -> tuple[Tick, ...]:
    powers = range(round(down.low), round(down.high) + 1)
    step = math.ceil(len(powers) / 7)
    shift = round(math.log10(style.factor))
    return tuple(Tick(down.place(each), _power(each + shift)) for each in powers[::step])


def _power(exponent: int) -> str:
    """Return a power of ten as text.

    >>> _power(3), _power(0), _power(-2)
    ('1,000', '1', '0.01')
    """
    return f"{10**exponent:,}" if exponent >= 0 else f"{10.0**exponent:.{-exponent}f}"


def people_text(count: int) -> str:
    """Return a number of people as text.

    >>> people_text(100), people_text(10**7), people_text(10**9)
    ('100', '10 million', '1 billion')
    """
    for size, word in ((10**9, "billion"), (10**6, "million")):
        if count >= size and count % size == 0:
            return f"{count // size:,} {word}"
    return f"{count:,}"
