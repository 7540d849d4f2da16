"""One question, so many reports, some of them forged: intervals, coverage, and the shift.

Reports are drawn for the whole population at once; the estimates are those of the server, from the
same code. What a trusted server could say has the same ε for one person who answers otherwise:
noise on a count (geometric; on each bin with half the ε, since such a person moves two) or on a
sum.

A forger sends the report that counts most: yes, the least held option, the high end. With β the
forged share of reports that shifts an estimate by β (leverage - truth), the truth being a share, or
a place in the range.

Where each person is asked one of d questions, those who hold an answer are asked this one by a
binomial of probability 1 / d, anew in each repetition: exactly the one draw of each person. The
truth stays that of all people. Forgers choose this question, so β is their share of its reports.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import numpy as np

from deniable.server.estimation import Estimate, estimates
from deniable.shared.survey.kinds.base import Question
from deniable.shared.survey.questions import parse_question
from deniable.shared.survey.reader import Reader
from deniable.simulations.engine.redaction import content
from deniable.simulations.engine.study import Cell, Row
from deniable.simulations.population import whole_people
from deniable.simulations.studies.survey.people import Counts, People, people_of
from deniable.simulations.studies.survey.shuffled import shuffled_half_width

MOST_PEOPLE = 10**10


def run(cell: Cell, generator: np.random.Generator) -> Sequence[Row]:
    question = parse_question(Reader("question", json.loads(str(cell["question"]))))
    people = people_of(question, json.loads(content(cell["population"])))
    reports, times = int(cell["people"]), int(cell["repetitions"])
    forged = round(reports * float(cell["forged"]))
    held = whole_people(people.weights, reports - forged)
    asked, counts = _honest(people, held, times, _drawn_from(cell), generator)
    counts[:, _forged_cells(question, people)] += forged
    found = [
        estimates(question, tally, honest + forged)
        for tally, honest in zip(counts, asked, strict=True)
    ]
    return [
        _row(cell, question, place, [one[place] for one in found], truth, people)
        for place, truth in enumerate(people.truths(held))
    ]


def _drawn_from(cell: Cell) -> int:
    """Of how many questions each person is asked one; 1 where all are asked."""
    return int(cell.get("drawn_from", 1))


def _honest(
    people: People, held: Counts, times: int, drawn_from: int, generator: np.random.Generator
) -> tuple[list[int], Counts]:
    """How many are asked this question, and their tally, in each repetition."""
    if drawn_from == 1:
        return [int(held.sum())] * times, people.tallies(held, times, generator)
    asked = generator.binomial(held, 1 / drawn_from, (times, len(held)))
    counts = np.concatenate([people.tallies(some, 1, generator) for some in asked])
    return asked.sum(axis=1).tolist(), counts


def _forged_cells(question: Question, people: People) -> list[int]:
    """A report that the server takes: where it must name several options, those that follow."""
    encoding = question.mechanism.encoding
    return list(encoding.cells_of(encoding.symbol_in(people.target_cell)))


def _row(
    cell: Cell,
    question: Question,
    place: int,
    found: list[Estimate],
    truth: float,
    people: People,
) -> Row:
    reports, forged, times = int(cell["people"]), float(cell["forged"]), len(found)
    middle = np.array([e.estimate for e in found])
    low, high = (np.array([getattr(e, end) for e in found]) for end in ("low", "high"))
    covered = float(((low <= truth) & (truth <= high)).mean())
    target = people.target == place
    within, drawn_from = float(cell["within"]), _drawn_from(cell)
    needed = None if forged else people_needed(question, people, place, within, drawn_from)
    weight = forged / (forged + (1 - forged) / drawn_from)  # in the reports of this question
    return {
        "question": question.name,
        "label": question.labels[place],
        "kind": question.kind,
        "statistic": question.statistic,
        "mechanism": question.mechanism.name,
        "epsilon": str(question.epsilon),
        "people": reports,
        "forged": forged,
        "repetitions": times,
        "truth": truth,
        "span": question.span,
        "low": float(low.mean()),
        "high": float(high.mean()),
        "half_width": float((high - low).mean() / 2),
        "covered": covered,
        "covered_error": math.sqrt(max(covered * (1 - covered), 1 / times) / times),
        "trusted": people.trusted_half_width(reports),
        "shuffled": shuffled_half_width(
            question, people, truth, reports, drawn_from, float(cell["delta"])
        ),
        "needed": needed,
        "leverage": question.mechanism.leverage,
        "target": int(target),
        "shift_exact": people.shift(truth, weight) if target else None,
        "shift_measured": float(middle.mean() - truth) if target else None,
        "shift_error": float(middle.std(ddof=1) / math.sqrt(times)) if target else None,
    }


def people_needed(
    question: Question, people: People, place: int, within: float, drawn_from: int = 1
) -> int | None:
    """The fewest people, to one part in a hundred, whose expected tally has an interval no wider
    than ± `within` of 1, or of the range; None where ten billion do not suffice."""

    def half_width(reports: int) -> float:
        found = estimates(question, people.expected(reports), reports)[place]
        return (found.high - found.low) / 2

    few, many = 1, 100
    while half_width(many) > within * question.span:
        few, many = many, 4 * many
        if few * drawn_from > MOST_PEOPLE:
            return None
    while many - few > max(1, few // 100):
        middle = (few + many) // 2
        enough = half_width(middle) <= within * question.span
        few, many = (few, middle) if enough else (middle, many)
    return many * drawn_from
