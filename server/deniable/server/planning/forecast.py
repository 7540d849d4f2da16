"""Forecast for a question, with the mechanism that a survey would use and with all others.

`n_variance` is n times the variance that noise and rounding add: to an option's share if all shares
are equal, or to the mean of numbers that are all at the worst position, with the range as [-1, 1].
A text counts as an option among as many as there are buckets, in the reports of the final groups;
`floor` is the share that it needs to be found. How close that is to the optimum is unknown.

Expected statements refer to the population and include noise and sampling, and hold for the looks
of a survey: by default, at any time, and when a round is final. The estimator itself
computes what the page is expected to show, by number of reports. By default, answers are
spread evenly: half say yes, each option has the same share, numbers are uniform over the range, and
vectors over all directions. An option in a list of more than MAX_SEPARATE_LABELS has a joint
interval, as on the page.

With σ^2 the variance of one answer and V that of the noise of its report at this share, n deniable
answers are worth n σ^2 / (σ^2 + V) open ones, which would have the margin √(σ^2 / (σ^2 + V)) times.

Three models of trust:

    local      no trust is needed: each report on its own is ε-private
    shuffled   a trusted shuffler mixes the reports of n honest people, so each may be ε₀-private,
               with the largest ε₀ for which the mixed reports are (ε, δ)-private
    trusted    a trusted server knows the answers, and adds noise to what it publishes

A trusted server's noise is discrete Laplace. It adds these variances to those of sampling:

    a whole number that changes by up to Δ  2 a / (a - 1)^2          a = e^(ε / Δ)
    an option's share of n people           the same / n^2
    the mean of n numbers, of the range     the same / (n steps)^2   Δ = steps, of a public grid
    a coordinate of a mean vector           (d + 1) / (n ε)^2        noise of gamma length

n is public: neighbouring data differ in one person's answer [1]. With a fine grid a mean's variance
is slightly below 2 / (n ε)^2, the variance of Laplace noise. Only simulations draw the noise
itself.

The least variance, times n, that noise and rounding can add in any local mechanism:

    yes or no   e^ε / (e^ε - 1)^2, which randomized response attains
    k options   ((k - 1)^2 / T - (k - 1) / k) / k for each, if all shares are equal, for many
                people [2]; T = max over d of k d (k - d) (e^ε - 1)^2 / (d e^ε + k - d)^2
    a number    the variance of the optimal table on its grid (`surveys/optimal_table.py`), at the
                worst position, without the error of rounding to the grid; range [-1, 1]
    a vector    1 / m^2 - 1, all coordinates together, if each person's vector has length 1; m is
                the mean along the vector of a report of the best cap (PrivUnit)

T is the largest information of one report about k equal shares: the trace of its information
matrix, which is convex in each column of the report's probabilities, so largest if they have two
values. For a random sample of people, (k - 1)^2 / (n T) is the least sum of squared errors.

[1] Ghosh, Roughgarden, Sundararajan 2009, "Universally utility-maximizing privacy mechanisms",
STOC,
    for counts.
[2] Ye, Barg 2019, arXiv:1810.07283.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np

from deniable.server.estimation import ESTIMATORS
from deniable.server.estimation.statements import (
    CONFIDENCE,
    MAX_SEPARATE_LABELS,
    RoundSize,
    Statement,
    deviates,
    final_reading,
    halved,
    joint_confidence,
)
from deniable.server.planning.planned_question import Asked, choose, others, undecided
from deniable.server.planning.small_groups import MAX_PEOPLE, told_apart, told_apart_sentence
from deniable.server.shuffling.accountant import largest_report_epsilon
from deniable.server.shuffling.amplification import report_epsilon, usual_delta
from deniable.shared.errors import quantity
from deniable.shared.privacy.epsilon import BILLION, Epsilon, decimal_text, parse_billionths
from deniable.shared.privacy.families.number_table import RANGE, NumberTable
from deniable.shared.privacy.families.support import SupportDesign
from deniable.shared.privacy.families.vector_design import VectorDesign
from deniable.shared.privacy.mechanism import FamilyTable, Mechanism
from deniable.shared.privacy.mechanisms import MORE_VARIANCE, KRandomizedResponse, OptimalTable
from deniable.shared.survey.document import LOOKS, PERIODS
from deniable.shared.survey.kinds.base import Over, Question, ShareQuestion
from deniable.shared.survey.participation import MAX_EPSILON_PER_SURVEY
from deniable.shared.survey.phrases import ENGLISH, two_digits

WIDER = deviates(halved(CONFIDENCE)) / deviates(CONFIDENCE) - 1  # of final results after others
LOOKS_WORDS = {  # labels of a choice
    "any-time": "At any time; the margins are wider, especially until the round is final",
    "twice": f"Twice: early, and when the round is final; the margins are {WIDER:.0%} wider",
    "once": "Once, when the round is final; the margins are the narrowest",
}
LOOKS_SENTENCES = {
    "any-time": "This margin is for final results. Until the round is final, results are shown at "
    "any time, with {0}: an interval that holds however often you look is wider. For {1} before "
    "the round is final, you need {2:,} people.",
    "twice": "Results are shown twice, each time with this margin for as many answers: a day after "
    "the round, or in the middle of its grace period if answers arrive after the round; and when "
    "the round is final.",
    "once": "Results are shown only once, when the round is final.",
}
SHOWN_ONCE = ' Shown only once, when the round is final (looks = "once"), it would be {}.'

ADD_OR_DELETE, REPLACE_ONE = 1, 2  # total change of the counts of options by one person
FINE = 2**20  # steps
MAX_SHUFFLED_PEOPLE = 10**9  # with more people, ε₀ is even larger
MAX_PEOPLE_SEARCHED = 10**13
FORGED_SHARE = 0.01
FAR = 5.0  # margins of error: forged reports that move a result farther are pointed out
EVENLY = {
    "mean": "if answers are spread evenly",
    "coordinate": "if all directions are equally common",
}
AT_ENDS = "if {:.3g} % are at the high end of the range, and the others at the low end"
USUAL_DAY = date(2026, 5, 1)  # its quarter has 91 days, 13 weeks and 3 months

Forecast = Mapping[str, Any]  # the result of `plan`; Any: JSON values


@dataclass(frozen=True)
class Expected:
    """Expected statements about one question, by the number of reports."""

    question: Question
    share: float | None = None  # as in `Mechanism.variances`; None: answers are spread evenly
    confidence: float = CONFIDENCE
    looks: bool = False
    values: int = 1  # number of a label's values, each with a joint interval
    sizes: tuple[RoundSize, ...] = ()  # of a period's rounds, in any proportion to its reports

    @property
    def joint(self) -> int:
        """Number of intervals that hold jointly."""
        labels = len(self.question.labels)
        is_joint = self.values > 1 or labels > MAX_SEPARATE_LABELS
        return max(1, labels) * self.values if is_joint else 1

    def statement(self, reports: int) -> Statement:
        """Return what the page is expected to show after this many reports."""
        sure = joint_confidence(self.joint, self.confidence)
        estimator = ESTIMATORS[self.question.estimation]
        total = sum(size.reports for size in self.sizes)
        reports = max(reports, len(self.sizes))
        sizes = [*(np.array(self.sizes).T * reports / total)] if self.sizes else []
        ends = estimator.expected(self.question, reports, self.share, sure, self.looks, sizes)
        return Statement(
            *ends, reports, confidence=self.confidence, looks=self.looks, joint=self.joint
        )

    def margin(self, reports: int) -> float:
        return self.statement(reports).margin

    def people_for(self, error: float) -> int:
        return people_for(self.margin, error)

    def worth(self, reports: int) -> float:
        """Return the number of open answers with the precision of these reports."""
        share = self.statement(reports).value if self.question.statistic == "share" else self.share
        answer, noise = self.question.mechanism.variances(share)
        return reports * answer / (answer + noise)

    def margin_asked_openly(self, reports: int) -> float:
        return self.margin(reports) * math.sqrt(self.worth(reports) / reports)

    def margin_of_trusted_server(self, people: int) -> float:
        noise = TRUSTED.of(self.question.mechanism)(self.question.mechanism, people)
        sure = joint_confidence(self.joint, self.confidence)
        by_noise = NormalDist().inv_cdf((1 + sure) / 2) * math.sqrt(noise) * self.question.span
        return math.hypot(self.margin_asked_openly(people), by_noise)


def people_for(margin: Callable[[int], float], error: float) -> int:
    """Return the least number of people whose margin of error is at most `error`."""
    few, many, guess, steps = 0, MAX_PEOPLE_SEARCHED, 1, 0
    while many - few > 1:
        width, steps = margin(guess), steps + 1
        few, many = (few, guess) if width <= error else (guess, many)
        needed = math.ceil(guess * (width / error) ** 2)  # margins shrink with the square root
        if needed > MAX_PEOPLE_SEARCHED:
            return needed
        if steps % 4 == 0 and many < MAX_PEOPLE_SEARCHED:  # in case they do not
            needed = (few + many) // 2
        guess = min(max(needed, few + 1), many - 1)
    return many


def plan(
    asked: Asked,
    people: int | None,
    error: float | None,
    max_bytes: int | None = None,
    values: int = 1,
    share: float | None = None,
    looks: str = LOOKS[0],
    crowd: int | None = None,
) -> dict[str, Any]:
    """Return the forecast for a number of people, or for a margin of error in the question's unit.

    `max_bytes` limits the report. `values` is the number of a label's values that divide the people
    evenly. A shuffler mixes the reports of `crowd` people (default: of all). Margins are those of
    final results, for a survey with these `looks`. Any: JSON values.
    """
    expected = Expected(choose(asked, max_bytes), share, final_reading(looks).confidence)
    question, mechanism = expected.question, expected.question.mechanism
    enough = people if error is None else expected.people_for(error)
    count = enough if people is None else people
    assert count is not None, "the command requires one of the two"
    assert enough is not None, "likewise"
    statement, least = expected.statement(count), least_n_variance(mechanism)
    wanted = statement.margin / 2 if error is None or people is None else error
    if question.statistic == "share":
        expected = replace(expected, share=statement.value)  # the same for all mechanisms
    by_value = replace(expected, values=values)
    return {
        "kind": question.kind,
        "statistic": question.statistic,
        "epsilon": str(question.epsilon),
        "people": count,
        "share": expected.share,
        "assumed": _assumed(expected),
        "confidence": expected.confidence,
        "looks": looks,
        "joint": statement.joint,
        **_facts(expected, count),
        **_told_apart(expected, count),
        "error": wanted,
        "people_needed": expected.people_for(wanted),
        **_shown_early_or_once(expected, count, wanted, looks),
        "over": question.over,
        "values": values,
        "margin_of_value": by_value.margin(max(1, count // values)),
        "people_needed_by_value": values * by_value.people_for(wanted),
        "installs_for": enough,
        "installs": installs_needed(question.epsilon.billionths, enough),
        **_shifts(question, values),
        "limit_ratio": None if least is None else mechanism.n_variance() / least,
        "worth_asked_openly": round(expected.worth(count)),
        "margin_asked_openly": expected.margin_asked_openly(count),
        "margin_of_trusted_server": expected.margin_of_trusted_server(count),
        **shuffled(asked, expected, count, max_bytes, crowd).facts(),
        "alternatives": [
            _facts(replace(expected, question=other), count)
            for other in others(asked, question, max_bytes)
        ],
    }


def _shifts(question: Question, values: int) -> dict[str, float]:
    """Return what forged reports can change, and what they can if all name one value of a label."""
    of_value = FORGED_SHARE / (FORGED_SHARE + (1 - FORGED_SHARE) / values)
    return {
        "shift_by_forgery": shift_by_forgery(question),
        "shift_of_value_by_forgery": shift_by_forgery(question, of_value),
    }


def _shown_early_or_once(
    expected: Expected, people: int, wanted: float, looks: str
) -> dict[str, Any]:
    """Return the figures of results before the round is final, and if they are shown once."""
    watched = replace(expected, looks=True) if looks == "any-time" else None
    return {
        "margin_until_final": watched and watched.margin(people),
        "people_needed_until_final": watched and watched.people_for(wanted),
        "margin_shown_once": replace(expected, confidence=CONFIDENCE).margin(people),
    }


def _told_apart(expected: Expected, people: int) -> dict[str, Any]:
    """Return the shares that a small group distinguishes; nothing for others and large groups."""
    question = expected.question
    if not isinstance(question, ShareQuestion) or people > MAX_PEOPLE:
        return {}
    return {"told_apart": told_apart(question.mechanism, people, expected.confidence)}


def _assumed(expected: Expected) -> str:
    """Return the answers that a plan assumes, as text."""
    if expected.share is None:
        return EVENLY[expected.question.statistic]
    words = "for a share of {:.3g} %" if expected.question.statistic == "share" else AT_ENDS
    return words.format(100 * expected.share)


def _facts(expected: Expected, people: int) -> dict[str, Any]:
    mechanism = expected.question.mechanism
    floor = mechanism.floor(people)
    return {
        "mechanism": mechanism.name,
        "payload_bytes": mechanism.payload_size,
        "n_variance": mechanism.n_variance(),
        "margin": expected.margin(people),
        "leverage": mechanism.leverage,
        **({} if floor is None else {"floor": floor}),
    }


def sentences(forecast: Forecast, margin: Callable[[float], str]) -> list[str]:
    """Return sentences: the margin of error, people needed, equivalent number of open answers.

    `margin` formats a margin of error in the question's unit.
    """
    people, width, wanted = forecast["people"], margin(forecast["margin"]), forecast["error"]
    if (floor := forecast.get("floor")) is not None:
        if floor >= 1:
            return [f"Too few to find any text: {quantity(people, 'person', 'people')}."]
        texts = f"With {people:,} people, a text that {math.ceil(floor * people):,} or more give"
        return [f"{texts} is found with a probability of 99 %, and its share is known to {width}."]
    sure = f"{100 * CONFIDENCE:g} %"
    jointly = f", jointly for all {forecast['joint']:,}" if forecast["joint"] > 1 else ""
    ratio = forecast["limit_ratio"]
    above = "" if ratio is None else f" Noise: {ratio:.3f} times the smallest possible variance."
    enough, openly = margin(wanted), margin(forecast["margin_asked_openly"])
    deniably = (
        f"{quantity(people, 'person gives', 'people give')} {width} ({sure}{jointly}) "
        f"{forecast['assumed']}; for {enough} you need {forecast['people_needed']:,}.{above}"
    )
    shown = LOOKS_SENTENCES[forecast["looks"]]
    if (early := forecast["margin_until_final"]) is not None:
        shown = shown.format(margin(early), enough, forecast["people_needed_until_final"])
    if forecast["looks"] != "once":
        shown += SHOWN_ONCE.format(margin(forecast["margin_shown_once"]))
    asked_openly = (
        f"Asked openly, they would give {openly}: their answers are worth about "
        f"{forecast['worth_asked_openly']:,} asked openly."
    )
    shifts = [forecast["shift_by_forgery"], forecast["shift_of_value_by_forgery"]]
    forged = _forged(*map(margin, shifts if forecast["values"] > 1 else shifts[:1]))
    if shifts[0] >= FAR * forecast["margin"]:
        forged += f" The shift is {shifts[0] / forecast['margin']:.0f} times the margin of error."
    lines = [deniably, shown, asked_openly, forged, _counted(forecast["over"])]
    rows = [forecast, *forecast["alternatives"]]
    facts = [(row["mechanism"], row["payload_bytes"], row["n_variance"]) for row in rows]
    lines += filter(None, [choice_sentence(*facts)])
    if "told_apart" in forecast:
        pair = forecast["told_apart"]
        lines.insert(1, told_apart_sentence(people, forecast["epsilon"], pair))
    if (values := forecast["values"]) > 1:
        lines.append(
            f"A label with {values} equally common values leaves "
            f"{quantity(people // values, 'person', 'people')} and "
            f"{margin(forecast['margin_of_value'])} for each value, jointly; for {enough} in each "
            f"you need {forecast['people_needed_by_value']:,} people."
        )
    return lines


def choice_sentence(chosen: tuple[str, int, float], *others: tuple[str, int, float]) -> str:
    """State what a shorter report costs, given each mechanism's name, bytes and variance."""
    name, size, variance = chosen
    least, longer, best = min(others, key=lambda row: row[2], default=chosen)
    if longer <= size or not best < variance <= MORE_VARIANCE * best:
        return ""
    return (
        f"{name} needs {quantity(size, 'byte')} for each report instead of the {longer:,} of "
        f"{least}, and has {100 * (variance / best - 1):.1f} % more variance."
    )


def shift_by_forgery(question: Question, forged: float = FORGED_SHARE) -> float:
    """Return how far this share of forged reports can move a result, in the question's unit."""
    return min(1.0, forged * question.mechanism.leverage) * question.span


def _forged(shift: str, of_value: str = "") -> str:
    """State the shifts of a result of all reports, and of one of a single label value."""
    one = f" (if all have the same label value, its result by {of_value})" if of_value else ""
    return (
        f"If {100 * FORGED_SHARE:g} % of the reports are forged by someone who knows the survey, "
        f"these alone can move a result by {shift}{one}, and the server may not notice it. App "
        "tokens and --limit make forging harder."
    )


def _counted(over: Over) -> str:
    """Return the part of a round that is asked about, and who counts among the people."""
    words = ENGLISH[f"over_{over}"]
    asked = (
        f'In each round this asks {"" if "whether" in words else "for "}{words} (over = "{over}").'
    )
    again = " Count only people whose app runs again after the round, within its grace period."
    return asked + again * (over != "first")


# Installs, of which only some answer each round


def installs_needed(billionths: int, answers: int) -> dict[str, int]:
    """Return how many installs this many answers per round need, by period, with default limits.

    Empty if the default limits refuse a round of this ε.
    """
    budget = parse_billionths(MAX_EPSILON_PER_SURVEY)
    if billionths > budget:
        return {}
    installs = dict[str, int]()
    for name, calendar in PERIODS.items():
        block = None if calendar.first_day is None else calendar.block_of(USUAL_DAY)
        drawn = (1, 1) if block is None else (len(block.rounds), block.answered(billionths, budget))
        installs[name] = -(-answers * drawn[0] // drawn[1])
    return installs


def installs_sentence(forecast: Forecast) -> str:
    answers, installs = forecast["installs_for"], forecast["installs"]
    if not installs:
        return f"By default, apps refuse a round above ε {MAX_EPSILON_PER_SURVEY}."
    needed = (
        f"{two_digits(count):,} if {'asked once' if name == 'once' else f'each {name}'}"
        for name, count in installs.items()
    )
    return (
        f"By default, an install answers as many rounds in a quarter as ε {MAX_EPSILON_PER_SURVEY} "
        f"allows. Installs needed for {quantity(answers, 'answer')} in each round: "
        f"{', '.join(needed)}."
    )


# With a shuffler


@dataclass(frozen=True)
class Shuffled:
    margin: float
    people: int  # whose reports are mixed
    delta: float
    epsilon: Epsilon  # ε₀

    def facts(self) -> dict[str, Any]:
        return {
            "margin_shuffled": self.margin,
            "shuffled_people": self.people,
            "shuffled_delta": self.delta,
            "shuffled_report_epsilon": str(self.epsilon),
        }


def shuffled(
    asked: Asked,
    expected: Expected,
    people: int,
    max_bytes: int | None = None,
    crowd: int | None = None,
    *,
    coarse: bool = False,
) -> Shuffled:
    """Return the margin of what is `expected`, with the default mechanism at ε₀.

    Each report is mixed with those of `crowd` people (default: of all). For a choice, each
    mechanism has the largest ε₀ that it allows, and the best mechanism is used.

    `coarse` rounds ε₀ down to a whole number if that is above ε, so that the search for optimal
    tables runs less often.
    """
    delta, epsilon = usual_delta(people), Epsilon(asked["epsilon"])
    mixed = min(people, crowd or people)
    crowd = min(mixed, MAX_SHUFFLED_PEOPLE)
    if asked["kind"] == "choice" and not coarse:
        named = undecided(asked), {**undecided(asked), "mechanism": KRandomizedResponse.name}
        made = [_shuffled_choice(one, epsilon, crowd, delta, max_bytes) for one in named]
        question = min(made, key=lambda question: question.mechanism.predicted_error(1))
        margin = replace(expected, question=question).margin(people)
        return Shuffled(margin, mixed, delta, question.epsilon)
    alone = report_epsilon(epsilon, crowd, delta)
    if coarse:
        whole = alone.billionths // BILLION * BILLION
        alone = max(epsilon, Epsilon(decimal_text(max(1, whole))))
    question = choose({**undecided(asked), "epsilon": str(alone)}, max_bytes)
    return Shuffled(replace(expected, question=question).margin(people), mixed, delta, alone)


def _shuffled_choice(
    asked: Asked, epsilon: Epsilon, people: int, delta: float, max_bytes: int | None
) -> Question:
    """Return the question at the largest ε₀, with the mechanism that it names, or the default."""

    def at(larger: Epsilon) -> Question:
        return choose({**asked, "epsilon": str(larger)}, max_bytes)

    found = largest_report_epsilon(
        lambda larger: at(larger).mechanism, epsilon, people, delta, coarse=True
    )
    return at(found)


# Variances of a trusted server's noise


def noise_variance(epsilon: Epsilon, sensitivity: int) -> float:
    decay = -float(epsilon) / sensitivity
    return 2 * math.exp(decay) / math.expm1(decay) ** 2


def share_variance(epsilon: Epsilon, people: int, sensitivity: int) -> float:
    return noise_variance(epsilon, sensitivity) / people**2


def mean_variance(epsilon: Epsilon, people: int) -> float:
    """Return the variance of the mean as a share of the range, for given grid positions."""
    return noise_variance(epsilon, FINE) / (people * FINE) ** 2


# Any: each function takes the family of its key
TRUSTED: FamilyTable[Callable[[Any, int], float]] = FamilyTable(
    {
        Mechanism: lambda mechanism, people: share_variance(
            mechanism.epsilon, people, ADD_OR_DELETE if mechanism.size == 2 else REPLACE_ONE
        ),
        NumberTable: lambda table, people: mean_variance(table.epsilon, people),
        VectorDesign: lambda design, people: (
            (design.dimension + 1) / (people * float(design.epsilon)) ** 2
        ),
    }
)


# The least variance of any local mechanism


def least_n_variance(mechanism: Mechanism) -> float | None:
    """Return a lower bound for all mechanisms for this question, or None if none is known."""
    return LEAST.of(mechanism)(mechanism)


@lru_cache(maxsize=256)
def least_of_a_share(epsilon: float, options: int) -> float:
    """Return ((k - 1)^2 / T - (k - 1) / k) / k without a subtraction that loses digits."""
    e, k = math.exp(epsilon), options
    return min(
        (d * (d - 1) * e**2 + 2 * d * (k - d) * e + (k - d) * (k - d - 1)) / (d * (k - d))
        for d in range(1, k)
    ) * ((k - 1) / k / math.expm1(epsilon) ** 2)


def largest_information(epsilon: float, options: int) -> float:
    """Return T, the largest information of one report about equal shares."""
    e, k = math.exp(epsilon), options
    return max(k * d * (k - d) * (e - 1) ** 2 / (d * e + k - d) ** 2 for d in range(1, k))


@lru_cache(maxsize=32)
def least_of_a_number(epsilon: Epsilon) -> float | None:
    """Return the least variance of a mean, or None if the search finds no table at this ε."""
    from deniable.server.surveys.optimal_table import MAX_SEARCH_EPSILON, NoTable, optimal_table

    steps = OptimalTable.best_size(epsilon)
    try:
        table = optimal_table(epsilon, steps)
    except NoTable:
        return None
    least = RANGE**2 * max(table.variance(1, point / steps) for point in range(steps + 1))
    return least if float(epsilon) <= MAX_SEARCH_EPSILON else None


# Any: each function takes the family of its key
LEAST: FamilyTable[Callable[[Any], float | None]] = FamilyTable(
    {
        Mechanism: lambda _: None,
        SupportDesign: lambda design: least_of_a_share(float(design.epsilon), design.options),
        NumberTable: lambda table: least_of_a_number(table.epsilon),
        VectorDesign: lambda design: design.least_error**2 - 1,
    }
)
