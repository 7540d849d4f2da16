"""Cell of a survey study: intervals, coverage and shift for one question with forged reports.

`pages/survey.txt` has the formulas, limits and sources, under "theory".
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import numpy as np
from numpy.random import Generator

from deniable.server.estimation import ESTIMATORS, Estimate, estimates
from deniable.server.estimation.statements import Reading, deviates, final_reading
from deniable.server.planning.forecast import TRUSTED, people_for
from deniable.server.shuffling.amplification import report_epsilon
from deniable.shared.survey.kinds.base import Question
from deniable.shared.survey.questions import parse_question
from deniable.shared.survey.reader import Reader
from deniable.simulations.engine.option import content
from deniable.simulations.engine.study import Cell, Row
from deniable.simulations.population import whole_people
from deniable.simulations.studies.survey.survey_people import Counts, People, people_of

MAX_PEOPLE = 10**10


def run(cell: Cell, generator: Generator) -> Sequence[Row]:
    question = parse_question(Reader("question", json.loads(str(cell["question"]))))
    people = people_of(question, json.loads(content(cell["population"])))
    reports, times = int(cell["people"]), int(cell["repetitions"])
    drawn_from = int(cell.get("drawn_from", 1))  # number of questions; each person gets one
    forged = round(reports * float(cell["forged"]))
    held = whole_people(people.weights, reports - forged)
    asked, counts = _honest(people, held, times, drawn_from, generator)
    encoding = question.mechanism.encoding  # a forged report counts in all cells of its symbol
    counts[:, list(encoding.cells_of(encoding.symbol_in(people.target_cell)))] += forged
    read = final_reading(str(cell["looks"]))
    repeated = [
        estimates(question, tally, honest + forged, read.confidence)
        for tally, honest in zip(counts, asked, strict=True)
    ]
    return [
        _row(cell, question, label, [one[label] for one in repeated], truth, people, drawn_from)
        for label, truth in enumerate(people.truths(held))
    ]


def _honest(
    people: People, held: Counts, times: int, drawn_from: int, generator: Generator
) -> tuple[list[int], Counts]:
    """Draw the number of honest people asked this question, and their tally, per repetition."""
    if drawn_from == 1:
        return [int(held.sum())] * times, people.tallies(held, times, generator)
    asked = generator.binomial(held, 1 / drawn_from, (times, len(held)))
    counts = np.concatenate([people.tallies(holders, 1, generator) for holders in asked])
    return asked.sum(axis=1).tolist(), counts


def _row(
    cell: Cell,
    question: Question,
    label: int,
    repeated: list[Estimate],
    truth: float,
    people: People,
    drawn_from: int,
) -> Row:
    reports, forged, times = int(cell["people"]), float(cell["forged"]), len(repeated)
    read, asked = final_reading(str(cell["looks"])), reports // drawn_from
    middle, low, high = np.array([[one.estimate, one.low, one.high] for one in repeated]).T
    covered = float(((low <= truth) & (truth <= high)).mean())
    is_target, within = people.target == label, float(cell["within"])
    errors = other_models(question, people, truth, reports, drawn_from, float(cell["delta"]))
    trusted, shuffled = (deviates(read.confidence) * error for error in errors)
    until_final = None
    if cell["looks"] == "any-time" and not forged:
        until_final = expected_margin(question, people, label, asked, read._replace(any_time=True))
    weight = forged / (forged + (1 - forged) / drawn_from)  # their share of this question
    return {
        "question": question.name,
        "label": question.labels[label],
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
        "until_final": until_final,
        "covered": covered,
        "covered_error": math.sqrt(max(covered * (1 - covered), 1 / times) / times),
        "trusted": trusted,
        "shuffled": shuffled,
        "needed": None
        if forged
        else people_needed(question, people, label, within, drawn_from, read),
        "leverage": question.mechanism.leverage,
        "target": int(is_target),
        "shift_exact": people.shift(truth, weight) if is_target else None,
        "shift_measured": float(middle.mean() - truth) if is_target else None,
        "shift_error": float(middle.std(ddof=1) / math.sqrt(times)) if is_target else None,
    }


def expected_margin(
    question: Question, people: People, label: int, reports: int, reading: Reading
) -> float:
    """Return the margin of error that the expected tally of some reports would have."""
    estimator = ESTIMATORS[question.estimation]
    made = estimator(question, people.expected(reports), reports, reading.any_time)
    low, high = made.like(reading.confidence)
    return float((high - low)[label] / 2)


def people_needed(
    question: Question,
    people: People,
    label: int,
    within: float,
    drawn_from: int,
    reading: Reading,
) -> int | None:
    """Return the number of people whose interval is at most ± `within`, of 1 or of the range.

    The result is None above ten billion people.
    """

    def margin(reports: int) -> float:
        return expected_margin(question, people, label, reports, reading)

    needed = drawn_from * people_for(margin, within * question.span)
    return needed if needed <= MAX_PEOPLE else None


def other_models(
    question: Question, people: People, truth: float, reports: int, drawn_from: int, delta: float
) -> tuple[float, float]:
    """Return the standard errors of a trusted server and with a shuffler, by formula.

    Like the interval, they are about the population: people are sampled. `truth` is the true share,
    or the true mean in the question's units.
    """
    asked, mechanism = reports / drawn_from, question.mechanism
    mixed = report_epsilon(question.epsilon, int(asked), delta)
    noise, spread = people.shuffled_variance(mixed, truth)
    central = TRUSTED.of(mechanism)(mechanism, reports) + spread / reports
    local = (noise + spread) / asked
    return question.span * math.sqrt(central), question.span * math.sqrt(local)
