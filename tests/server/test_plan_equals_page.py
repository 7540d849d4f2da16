"""A plan promises the margins that pages are expected to show, for any kind of question.

The expected margin of a page is a sum over the law of the counts, without simulation. Plans may
differ from it by 3 %. Twin: a margin of the noise alone, which is too small where ε is large.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import binom, multinomial, norm

from deniable.server.estimation import ESTIMATORS, Estimator
from deniable.server.estimation.frequent_texts import TESTED, Counts, _estimate
from deniable.server.estimation.statements import (
    CONFIDENCE,
    MAX_SEPARATE_LABELS,
    Reading,
    RoundSize,
    deviates,
    joint_confidence,
    largest_sampling,
)
from deniable.server.planning.display_gate import at_worst
from deniable.server.planning.forecast import Expected, people_for, plan
from deniable.server.planning.planned_question import read
from deniable.server.results import SurveyEstimates
from deniable.server.results.answers import question_rounds
from deniable.server.results.estimate_cache import Counts as RoundCounts
from deniable.server.results.estimate_cache import EstimateCache
from deniable.server.store import RoundTally
from deniable.server.store.records import SETTLING
from deniable.shared.privacy.encodings import UNIT
from deniable.shared.privacy.epsilon import ONE
from deniable.shared.survey.document import DAY, LOOKS
from deniable.shared.survey.kinds.base import Question
from deniable.shared.survey.kinds.text import FINAL
from deniable.shared.survey.questions import question_document
from tests.command import run
from tests.server.surveys import until_spring
from tests.server.world import World
from tests.survey_texts import bit
from tests.survey_texts import choice as choices
from tests.survey_texts import number as numbers

TOLERANCE = 0.03
EPSILONS = ("0.1", "0.5", "1", "2", "4", "8")
PEOPLE = (100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000)
READINGS = ((CONFIDENCE, False), (0.975, False), (0.975, True))  # confidence, any-time
MAX_COUNTS = 400  # of choices; more are thinned out evenly, since limits are smooth in the count

Array = npt.NDArray[np.float64]


def question(kind: str, epsilon: str, **fields: Any) -> Question:
    return read({"name": "it", "kind": kind, "epsilon": epsilon, **fields})


def choice(options: int, epsilon: str, mechanism: str | None = None) -> Question:
    fields = {"options": [f"option {n}" for n in range(options)]}
    return question("choice", epsilon, **fields, **({"mechanism": mechanism} if mechanism else {}))


def shown_margin(estimator: Estimator, confidence: float) -> Array:
    """Return half of the widths that a page shows for the first label, one for each tally."""
    statements = estimator.statements(confidence)
    labels = len(estimator.question.labels)
    low, high = statements.every if labels > MAX_SEPARATE_LABELS else statements.like
    return np.asarray((high - low)[..., 0] / 2)


def law(reports: int, rate: float, most: int) -> tuple[npt.NDArray[np.int64], Array]:
    """Return the likely counts of a binomial law, at most about `most`, and their weights."""
    first, last = (int(binom.ppf(tail, reports, rate)) for tail in (1e-9, 1 - 1e-9))
    counts = np.arange(first, last + 1, max(1, (last - first) // most))
    weights = binom.pmf(counts, reports, rate)
    return counts, weights / weights.sum()


def page(asked: Question, reports: int, share: float, confidence: float, looks: bool) -> float:
    """Return the expected margin of an option that this share of people hold."""
    design: Any = asked.mechanism
    bit = asked.first_label == 1
    rate = (design.lie + share * (design.keep - design.lie)) / ONE
    counts, weights = law(reports, rate, 10**6 if bit else MAX_COUNTS)
    cells = np.zeros((len(counts), design.cells), np.int64)
    cells[:, asked.first_label] = counts
    estimator = ESTIMATORS[asked.estimation](asked, cells, np.full(len(counts), reports), looks)
    return float(weights @ shown_margin(estimator, confidence))


def share_cells(epsilons: Sequence[str]) -> Iterator[tuple[Question, int, float | None]]:
    for epsilon in epsilons:
        for reports in PEOPLE:
            yield question("bit", epsilon), reports, None
            yield question("bit", epsilon), reports, 0.1
            yield choice(3, epsilon), reports, None
            yield choice(20, epsilon, "subset-selection"), reports, 0.04
            yield choice(64, epsilon, "unary"), reports, None
        yield choice(1_024, epsilon, "subset-selection"), 10_000, None


@pytest.mark.parametrize(
    "epsilons", [EPSILONS[2::3], pytest.param(EPSILONS, marks=pytest.mark.long)]
)
def test_plans_of_shares_equal_pages_in_over_80_cells_of_each_epsilon(
    epsilons: Sequence[str],
) -> None:
    cells, by_noise_alone = 0, 0
    for asked, reports, share in share_cells(epsilons):
        alone = norm.ppf((1 + CONFIDENCE) / 2) * asked.mechanism.predicted_error(reports)
        for confidence, looks in READINGS:
            expected = Expected(asked, share, confidence, looks).statement(reports)
            assert (expected.confidence, expected.looks) == (confidence, looks)
            shown = page(asked, reports, expected.value, confidence, looks)
            where = asked.kind, str(asked.epsilon), len(asked.labels), reports, confidence, looks
            assert expected.margin == pytest.approx(shown, rel=TOLERANCE), where
            cells += 1
            by_noise_alone += alone == pytest.approx(shown, rel=TOLERANCE)
    assert cells > 80 * len(epsilons)
    assert by_noise_alone < cells / 8  # the twin


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (20, 5, 1), (1,) * 30])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_plans_of_periods_equal_pages(epsilon: str, sizes: tuple[int, ...]) -> None:
    """At the share with the widest interval. Twin: the margin of one round with all reports."""
    alone, cells = 0, 0
    for reports, asked in product(
        (10_000, 1_000_000), (question("bit", epsilon), question("vector", epsilon, dimension=10))
    ):
        counts = np.array(sizes) * (reports // sum(sizes))
        number = int(counts.sum())
        for confidence, looks in READINGS:
            every = tuple(RoundSize(size, size) for size in counts.tolist())
            plan = at_worst(asked, Reading(confidence, looks), 1, every)
            assert plan is not None
            made = [number // 2] * 2
            if asked.kind == "vector":
                made = [0] * 10 + [number * UNIT // 10] * 10
            rows = np.array([made]), np.array([number]), looks, counts[None]
            estimator = ESTIMATORS[asked.estimation](asked, *rows)
            shown = float(shown_margin(estimator, confidence)[0])
            assert plan.margin(number) == pytest.approx(shown, rel=TOLERANCE)
            one_round = replace(plan, sizes=())
            alone += one_round.margin(number) == pytest.approx(shown, rel=TOLERANCE)
            cells += 1
    assert alone < cells if float(epsilon) < 1 else alone <= cells / 2


def page_of_period(plan: Expected, counts: npt.NDArray[np.int64], share: float) -> float:
    """Return the expected margin of an option that this share of people hold in every round."""
    design: Any = plan.question.mechanism
    values, weights = law(
        int(counts.sum()), (design.lie + share * (design.keep - design.lie)) / ONE, 60
    )
    rows = np.tile(counts, (len(values), 1))
    cells = np.zeros((len(values), design.cells), np.int64)
    cells[:, plan.question.first_label] = values
    made = ESTIMATORS["shares"](plan.question, cells, rows.sum(1), plan.looks, rows)
    return float(weights @ shown_margin(made, plan.confidence))


@pytest.mark.parametrize("sizes", [(10, 10, 10), (30, 5, 1), (7,) * 12])
@pytest.mark.parametrize("epsilon", EPSILONS[1::2])
def test_plans_of_short_periods_equal_pages_at_the_worst_share(
    epsilon: str, sizes: tuple[int, ...]
) -> None:
    """No share has a margin that is 5 % larger.

    Twin: the margin of one round and the sampling of the others, added as variances.
    """
    options = question("bit", epsilon), choice(6, epsilon, "unary"), choice(64, epsilon, "unary")
    below = 0
    for asked, times, reading in product(options, (1, 10), READINGS):
        counts = times * np.array(sizes)
        every = tuple(RoundSize(size, size) for size in counts.tolist())
        plan = at_worst(asked, Reading(*reading), 1, every)
        assert plan is not None
        assert plan.share is not None
        planned = plan.margin(int(counts.sum()))
        shown = page_of_period(plan, counts, plan.share)
        assert planned == pytest.approx(shown, rel=TOLERANCE), (asked, counts, reading)
        for share in (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0):
            assert page_of_period(plan, counts, share) <= 1.05 * planned
        if not plan.looks:
            below += added_variances(plan, counts) < shown / 1.1
    assert below > (0 if float(epsilon) > 1 else 2)


def added_variances(plan: Expected, counts: npt.NDArray[np.int64]) -> float:
    sure = joint_confidence(plan.joint, plan.confidence)
    sampling = largest_sampling(counts, counts, np.array(0.5)) - 1 / 4 / counts.sum()
    alone = replace(plan, share=plan.question.mechanism.worst_share, sizes=())
    return math.hypot(alone.margin(int(counts.sum())), deviates(sure) * math.sqrt(sampling))


def number(epsilon: str, mechanism: str) -> Question:
    return question("number", epsilon, low=-20, high=100, mechanism=mechanism)


def rates_of(asked: Question) -> Array:
    """Return the probabilities of the symbols, if numbers are uniform over the range."""
    table: Any = asked.mechanism
    inner = np.linspace(0, table.steps, 4_001)
    points = np.arange(table.steps + 1)
    held = np.maximum(0, 1 - np.abs(inner[:, None] - points)).mean(0)
    rates = held @ np.array([[units / ONE for units in row] for row in table.rows])
    return np.asarray(rates / rates.sum())


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("mechanism", ["one-bit-mean", "ternary", "optimal-table"])
def test_plans_of_means_equal_pages(epsilon: str, mechanism: str) -> None:
    """All tallies of two symbols are enumerated, and those of three symbols at n = 100.

    Other laws are replaced by 2 k points with the same means and covariances, which gives the
    expectation of any cubic polynomial exactly.
    """
    asked = number(epsilon, mechanism)
    rates = rates_of(asked)
    for reports in PEOPLE:
        if len(rates) == 2:
            counts, weights = law(reports, rates[1], 2_000)
            cells = np.stack([reports - counts, counts], axis=1)
        elif len(rates) == 3 and reports == 100:
            both = [(a, b, 100 - a - b) for a in range(101) for b in range(101 - a)]
            cells, weights = np.array(both), multinomial(100, rates).pmf(both)
        elif reports < 10_000:
            continue
        else:
            covariance = np.diag(rates) - np.outer(rates, rates) + 1e-12 * np.eye(len(rates))
            spread = np.linalg.cholesky(covariance)
            points = math.sqrt(len(rates) * reports) * spread.T
            cells = np.concatenate([reports * rates + points, reports * rates - points])
            weights = np.full(len(cells), 1 / len(cells))
        for confidence, looks in READINGS:
            kind = ESTIMATORS["mean"]
            low, high = kind(asked, cells, np.full(len(cells), reports), looks).like(confidence)
            shown = weights @ (high - low)[:, 0] / 2
            margin = Expected(asked, None, confidence, looks).margin(reports)
            assert margin == pytest.approx(shown, rel=TOLERANCE), (reports, confidence, looks)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("dimension", [10, 100])
def test_plans_of_vectors_equal_pages(epsilon: str, dimension: int) -> None:
    """Codewords are uniform on the sphere if directions are spread evenly.

    So a coordinate's mean m and mean square s are uncorrelated, with variances 1 / (d n) and
    2 (d - 1) / (d^2 (d + 2) n). Three points for each of them give the expectation of any
    polynomial of degree five.
    """
    asked = question("vector", epsilon, dimension=dimension)
    for reports in PEOPLE:
        of_mean = 1 / (dimension * reports)
        of_square = 2 * (dimension - 1) / (dimension**2 * (dimension + 2) * reports)
        cells, weights = [], []
        for far, weight in ((-math.sqrt(3), 1 / 6), (0.0, 2 / 3), (math.sqrt(3), 1 / 6)):
            for beyond, other in ((-math.sqrt(3), 1 / 6), (0.0, 2 / 3), (math.sqrt(3), 1 / 6)):
                square = 1 / dimension + beyond * math.sqrt(of_square)
                moments = [far * math.sqrt(of_mean)] * dimension + [square] * dimension
                cells.append([round(moment * reports * UNIT) for moment in moments])
                weights.append(weight * other)
        for confidence, looks in READINGS:
            counted = np.array(cells), np.full(len(cells), reports)
            estimator = ESTIMATORS["coordinates"](asked, *counted, looks)
            shown = float(np.array(weights) @ shown_margin(estimator, confidence))
            margin = Expected(asked, None, confidence, looks).margin(reports)
            assert margin == pytest.approx(shown, rel=TOLERANCE)


@pytest.mark.parametrize("epsilon", ["1", "2", "4"])
def test_plans_of_texts_equal_the_interval_of_the_rarest_text(epsilon: str) -> None:
    """Enumerate the counts of a text that is found alone among the candidates."""
    asked = question("text", epsilon, length=8)
    design: Any = asked.mechanism
    for reports in (100_000, 1_000_000, 10_000_000):
        expected = Expected(asked).statement(reports)
        gain = (design.each.keep - design.each.lie) / ONE
        empty = design.each.lie / ONE + gain / design.each.options
        gain *= 1 - 1 / design.each.options
        final = round(reports * FINAL / design.groups)
        counts, weights = law(final, empty + gain * expected.value, MAX_COUNTS)
        sure, of = 1 - (1 - CONFIDENCE) / TESTED, np.full(FINAL, final // FINAL)
        widths = []
        for count in counts.tolist():
            supports = np.zeros((FINAL, 1), np.int64)
            supports[0, 0] = count
            tally = Counts(supports, of, empty, gain)
            share = (count / of.sum() - empty) / gain
            buckets = np.zeros(FINAL, np.int64)
            made = _estimate(tally, "text", share, buckets, sure, (0.0, 0.0), reports, 0.0)
            widths.append((made.high - made.low) / 2)
        assert expected.margin == pytest.approx(float(weights @ widths), rel=TOLERANCE)


@pytest.mark.parametrize("looks", [False, True])
def test_the_stated_number_of_people_is_the_least(looks: bool) -> None:
    for asked in (question("bit", "1"), choice(64, "4"), number("2", "optimal-table")):
        expected = Expected(asked, None, CONFIDENCE, looks)
        for error in (0.1, 0.01):
            enough = expected.people_for(error * asked.span)
            assert expected.margin(enough) <= error * asked.span < expected.margin(enough - 1)
    assert people_for(lambda people: 1 / math.sqrt(people), 1e-9) == pytest.approx(1e18, rel=1e-6)


def test_the_command_and_the_results_agree() -> None:
    """Results of the expected counts have the margins that `deniable plan` prints."""
    texts = bit() + numbers(0, 100) + choices(64, "unary")
    published = until_spring(texts, minimum_reports=1)
    for looks in (False, True):
        for asked in published.questions:
            expected = Expected(asked, looks=looks)
            cells = [round(20_000 * rate) for rate in np.mean(rates_by_answer(asked), axis=0)]
            counts = [RoundCounts(np.array(cells), 20_000, Reading(any_time=looks))]
            (result,) = question_rounds(EstimateCache(), published, asked, counts)
            for row in result.rows:
                low, high = (
                    (row.low_all, row.high_all) if expected.joint > 1 else (row.low, row.high)
                )
                assert low is not None
                assert high is not None
                assert (high - low) / 2 == pytest.approx(expected.margin(20_000), rel=TOLERANCE)
    printed = json.loads(
        run("plan", *["--kind", "bit", "--epsilon", "1", "--people", "20000", "--json"]).stdout
    )
    assert printed["looks"] == published.looks == "any-time"
    assert printed["margin"] == Expected(published.questions[0], None, 0.975).margin(20_000)


@pytest.mark.parametrize("looks", LOOKS)
def test_a_plan_is_about_the_readings_of_a_survey(here: World, looks: str) -> None:
    """The default is a survey that sets no looks: at any time, and when a round is final."""
    texts = bit() + numbers(0, 100) + choices(64, "unary")
    changes: Any = {} if looks == LOOKS[0] else {"looks": looks}
    asked = until_spring(texts, name=f"read-{looks}", minimum_reports=1, **changes)
    published, number = here.publish(asked), asked.first_round
    cells = [rates_by_answer(question).mean(0) * 20_000 for question in asked.questions]
    tally = RoundTally(number, 20_000, np.rint(np.concatenate(cells)).astype(np.int64))
    times = asked.round_ends(number) - DAY, asked.first_look(number), asked.taken_until(number)
    for now in times:
        made = SurveyEstimates(published, [tally], now + SETTLING)
        (shown,) = made.estimated([number])
        final = now == times[-1] or looks == "twice"
        for question in asked.questions:
            row = shown.questions[question.name][0]
            if shown.covers == "nothing":
                assert (row.estimate, looks != "any-time") == (None, True)
                continue
            planned = plan(question_document(question), 20_000, None, **changes)
            margin = planned["margin" if final else "margin_until_final"]
            joint = planned["joint"] > 1
            low, high = (row.low_all, row.high_all) if joint else (row.low, row.high)
            assert low is not None
            assert high is not None
            assert margin == pytest.approx((high - low) / 2, rel=TOLERANCE)
            assert planned["confidence"] == shown.confidence
            twin = planned["margin_shown_once"] == pytest.approx(margin, rel=TOLERANCE)
            assert twin == (looks == "once")


def rates_by_answer(asked: Question) -> Array:
    """Return the rates of all cells for answers that are spread evenly."""
    if asked.statistic == "mean":
        return rates_of(asked)[None]
    return np.array([asked.mechanism.cell_rates(n) for n in range(asked.mechanism.answers)]) / ONE
