"""One question, so many reports, some of them forged: intervals, coverage, and the shift.

Reports are drawn for the whole population at once; the estimates are those of the server, from the
same code. What a trusted server could say has the same ε for one person who answers otherwise:
noise on a count (geometric; on each bin with half the ε, since such a person moves two) or on a
sum.

A forger sends the report that counts most: yes, the least held option, the high end. With β the
forged share of reports that shifts an estimate by β (leverage - truth), the truth being a share, or
a place in the range.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from deniable.server.estimation import Estimate, estimates
from deniable.shared.survey.questions import Bit, Number, Question, parse_question
from deniable.shared.survey.reader import Reader
from deniable.simulations.central import BoundedMean, DiscreteLaplace, GeometricCounts
from deniable.simulations.central.geometric import REPLACE_ONE
from deniable.simulations.frame.study import Cell, Row
from deniable.simulations.frame.withheld import content
from deniable.simulations.population import fixed, grid_law, on_grid, rates, whole_people
from deniable.simulations.studies.survey.answers import Population

Counts = NDArray[np.int64]
MOST_PEOPLE = 10**10


def run(cell: Cell, generator: np.random.Generator) -> Sequence[Row]:
    question = parse_question(Reader("question", json.loads(str(cell["question"]))))
    population: Population = json.loads(content(cell["population"]))
    reports, times = int(cell["people"]), int(cell["repetitions"])
    forged = round(reports * float(cell["forged"]))
    weights = [weight for _, weight in population]
    held = whole_people(weights, reports - forged)
    counts = _tallies(question, population, held, times, generator)
    counts[:, _target_cell(question, population)] += forged
    found = [estimates(question, tally, reports) for tally in counts]
    return [
        _row(cell, question, place, [one[place] for one in found], truth, population)
        for place, truth in enumerate(_truths(question, population, held))
    ]


def _row(
    cell: Cell,
    question: Question,
    place: int,
    found: list[Estimate],
    truth: float,
    population: Population,
) -> Row:
    reports, forged, times = int(cell["people"]), float(cell["forged"]), len(found)
    middle = np.array([e.estimate for e in found])
    low, high = (np.array([getattr(e, end) for e in found]) for end in ("low", "high"))
    covered = float(((low <= truth) & (truth <= high)).mean())
    target = _target(question, population) in (place, None)
    return {
        "question": question.name,
        "label": question.labels[place],
        "kind": question.kind,
        "mechanism": question.mechanism.name,
        "epsilon": str(question.epsilon),
        "people": reports,
        "forged": forged,
        "repetitions": times,
        "truth": truth,
        "span": question.span if isinstance(question, Number) else 1.0,
        "low": float(low.mean()),
        "high": float(high.mean()),
        "half_width": float((high - low).mean() / 2),
        "covered": covered,
        "covered_error": math.sqrt(max(covered * (1 - covered), 1 / times) / times),
        "trusted": trusted_half_width(question, reports),
        "needed": None
        if forged
        else people_needed(question, population, place, float(cell["within"])),
        "leverage": question.mechanism.leverage,
        "target": int(target),
        "shift_exact": shift(question, truth, forged) if target else None,
        "shift_measured": float(middle.mean() - truth) if target else None,
        "shift_error": float(middle.std(ddof=1) / math.sqrt(times)) if target else None,
    }


def shift(question: Question, truth: float, forged: float) -> float:
    """What forged reports move the estimate of their target by, in its own units."""
    if isinstance(question, Number):
        place = (truth - question.low) / question.span
        return forged * (question.mechanism.leverage - place) * question.span
    return forged * (question.mechanism.leverage - truth)


def trusted_half_width(question: Question, people: int) -> float:
    """95 % of a trusted server's releases, at the same ε, would be no further off."""
    if isinstance(question, Number):
        trusted = BoundedMean(question.epsilon)
        return question.span * trusted.noise.radius(0.05) / (trusted.steps * people)
    sensitivity = 1 if isinstance(question, Bit) else REPLACE_ONE
    noise: DiscreteLaplace = GeometricCounts(question.epsilon, sensitivity).noise
    return noise.radius(0.05) / people


def people_needed(
    question: Question, population: Population, place: int, within: float
) -> int | None:
    """The fewest reports, to one part in a hundred, whose expected tally has an interval no wider
    than ± `within` of 1, or of the range; None where ten billion do not suffice."""
    span = question.span if isinstance(question, Number) else 1.0
    law = rates(question.mechanism, _law(question, population))

    def half_width(reports: int) -> float:
        if isinstance(question, Number):
            cells = whole_people(law.tolist(), reports)
        else:
            cells = np.rint(law * reports).astype(np.int64)
        found = estimates(question, cells, reports)[place]
        return (found.high - found.low) / 2

    few, many = 1, 100
    while half_width(many) > within * span:
        few, many = many, 4 * many
        if few > MOST_PEOPLE:
            return None
    while many - few > max(1, few // 100):
        middle = (few + many) // 2
        few, many = (few, middle) if half_width(middle) <= within * span else (middle, many)
    return many


def _tallies(
    question: Question,
    population: Population,
    held: Counts,
    times: int,
    generator: np.random.Generator,
) -> Counts:
    if not isinstance(question, Number):
        people = np.zeros(len(_law(question, population)), dtype=np.int64)
        for (place, _), count in zip(population, held.tolist(), strict=True):
            people[int(place)] += count
        return fixed(question.mechanism, people, times, generator).counts
    places = [place for place, _ in population]
    steps = len(question.mechanism.rows) - 1
    points = on_grid(places, held.tolist(), steps, times, generator)
    return fixed(question.mechanism, points, times, generator).counts


def _law(question: Question, population: Population) -> list[float]:
    """One person's chance of each answer, or of each point of the grid."""
    total = sum(weight for _, weight in population)
    shares = [weight / total for _, weight in population]
    places = [place for place, _ in population]
    if isinstance(question, Number):
        return grid_law(places, shares, len(question.mechanism.rows) - 1)
    law = [0.0] * (2 if isinstance(question, Bit) else len(question.labels))
    for place, share in zip(places, shares, strict=True):
        law[int(place)] += share
    return law


def _truths(question: Question, population: Population, held: Counts) -> list[float]:
    """Of the honest people who report, one for each label."""
    people = held.sum()
    if isinstance(question, Number):
        place = float(held @ [place for place, _ in population]) / people
        return [question.low + question.span * place]
    shares = [0.0] * (2 if isinstance(question, Bit) else len(question.labels))
    for (place, _), count in zip(population, held.tolist(), strict=True):
        shares[int(place)] += count / people
    return shares[1:] if isinstance(question, Bit) else shares


def _target(question: Question, population: Population) -> int | None:
    """The label that forgers push; None where there is only one."""
    if len(question.labels) == 1:
        return None
    law = _law(question, population)
    return law.index(min(law))


def _target_cell(question: Question, population: Population) -> int:
    target = _target(question, population)
    return question.mechanism.cells - 1 if target is None else target
