"""The distributions of a round's numbers, in the questions' own units."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deniable.server.estimation import distribution as estimation
from deniable.server.estimation.estimators import estimator
from deniable.server.results.counts import Counts, alike
from deniable.server.results.document import Distribution, Point, Quantile
from deniable.shared.survey.kinds.base import Question


def question_distributions(
    question: Question, rounds: Sequence[Counts]
) -> list[Distribution | None]:
    """Of a number in those rounds whose reports are enough."""
    found: list[Distribution | None] = [None] * len(rounds)
    table = estimator(question).table(question)
    if table is None:
        return found
    known = [n for n, each in enumerate(rounds) if each.enough]
    for places in alike(known, lambda n: rounds[n].looks, table.cells * estimation.MOST_PARTS):
        counts = np.array([rounds[place].cells for place in places], np.float64)
        some = estimation.distributions(table, counts, looks=rounds[places[0]].looks)
        for place, each in zip(places, some, strict=True):
            found[place] = _in_its_units(question, each) if each else None
    return found


def _in_its_units(question: Question, found: estimation.Distribution) -> Distribution:
    def place(position: float) -> float:
        return float(question.range[0]) + question.span * position

    columns = (
        *(found.share, *found.share_interval, found.share_consistent),
        *(found.below, *found.below_interval, found.below_consistent),
    )
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return Distribution(
        points=tuple(Point(place(n / found.parts), *row) for n, row in enumerate(rows)),
        quantiles=tuple(
            Quantile(each.level, place(each.estimate), place(each.low), place(each.high))
            for each in found.quantiles
        ),
    )
