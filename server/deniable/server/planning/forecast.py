"""Forecast for a question, with the mechanism that a survey would use and with all others.

`n_variance` is n times the variance that noise and rounding add: to an option's share if all shares
are equal, or to the mean of numbers that are all at the worst position, with the range as [-1, 1].
A text counts as an option among as many as there are buckets, in the reports of the final groups;
`floor` is the share that it needs to be found. How close that is to the optimum is unknown.

The equivalent number of direct answers depends on how people differ. Here their answers are
distributed uniformly over the options, the range or all directions. With σ^2 the variance of one
answer, n deniable answers are worth n σ^2 / (σ^2 + n_variance) direct ones, at the worst position.

The half widths of the 95 % interval are in the question's units, in each of three models:

    local      no trust is needed: each report on its own is ε-private
    shuffled   a trusted shuffler mixes the reports of n honest people, so each may be ε₀-private,
               with the largest ε₀ for which the mixed reports are (ε, δ)-private
    trusted    a trusted server knows the answers, and adds noise to what it publishes

In the first two, people are at the worst position and all shares are equal. A trusted server's only
error is its noise, discrete Laplace with these variances:

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
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Any

from deniable.server.planning.planned_question import Asked, choose, others, undecided
from deniable.server.shuffling.amplification import report_epsilon, usual_delta
from deniable.shared.privacy.epsilon import BILLION, Epsilon, decimal_text, parse_billionths
from deniable.shared.privacy.families.number_table import RANGE, NumberTable
from deniable.shared.privacy.families.support import SupportDesign
from deniable.shared.privacy.families.vector_design import VectorDesign
from deniable.shared.privacy.mechanism import FamilyTable, Mechanism
from deniable.shared.privacy.mechanisms import OptimalTable
from deniable.shared.survey.document import PERIODS
from deniable.shared.survey.kinds.base import Over, Question
from deniable.shared.survey.participation import MAX_EPSILON_PER_SURVEY
from deniable.shared.survey.phrases import ENGLISH, two_digits

ADD_OR_DELETE, REPLACE_ONE = 1, 2  # total change of the counts of options by one person
FINE = 2**20  # steps
Z95 = 1.96
MAX_SHUFFLED_PEOPLE = 10**9  # with more people, ε₀ is even larger
USUAL_DAY = date(2026, 5, 1)  # its quarter has 91 days, 13 weeks and 3 months

Forecast = Mapping[str, Any]  # the result of `plan`; Any: JSON values


def plan(
    asked: Asked,
    people: int | None,
    error: float | None,
    max_bytes: int | None = None,
    values: int = 1,
) -> dict[str, Any]:
    """Return the forecast for a number of people, or for a margin of error in the question's unit.

    `max_bytes` limits the report. `values` is the number of a label's values that divide the people
    evenly. Any: JSON values.
    """
    question = choose(asked, max_bytes)
    mechanism = question.mechanism
    enough = people if error is None else people_for(question, error)
    count = enough if people is None else people
    assert count is not None, "the command requires one of the two"
    assert enough is not None, "likewise"
    least = least_n_variance(mechanism)
    mixed = shuffled_half_width(asked, count, max_bytes)
    return {
        "kind": question.kind,
        "epsilon": str(question.epsilon),
        "people": count,
        **_facts(question, count),
        "people_for_error": enough,
        "over": question.over,
        "values": values,
        "half_width_95_of_value": half_width(question, max(1, count // values)),
        "installs": installs_needed(question.epsilon.billionths, enough),
        "limit_ratio": None if least is None else mechanism.n_variance() / least,
        "direct_equivalent": direct_equivalent(mechanism, count),
        "central_half_width_95": trusted_half_width(question, count),
        "shuffled_half_width_95": mixed.half_width,
        "shuffled_delta": mixed.delta,
        "shuffled_report_epsilon": str(mixed.epsilon),
        "alternatives": [_facts(other, count) for other in others(asked, question, max_bytes)],
    }


def people_for(question: Question, error: float) -> int:
    """Return the number of people for which the margin of error (95 %) is `error`."""
    return max(1, math.ceil((half_width(question, 1) / error) ** 2 * (1 - 1e-12)))


def direct_equivalent(mechanism: Mechanism, people: int) -> int:
    """Return the equivalent number of direct answers."""
    one = mechanism.answer_variance
    return round(people * one / (one + mechanism.n_variance()))


def _facts(question: Question, people: int) -> dict[str, Any]:
    mechanism = question.mechanism
    floor = mechanism.floor(people)
    return {
        "mechanism": mechanism.name,
        "payload_bytes": mechanism.payload_size,
        "n_variance": mechanism.n_variance(),
        "standard_error": mechanism.predicted_error(people) * question.span,
        "half_width_95": half_width(question, people),
        "leverage": mechanism.leverage,
        **({} if floor is None else {"floor": floor}),
    }


def sentences(forecast: Forecast, margin: Callable[[float], str]) -> list[str]:
    """Return sentences: the margin of error, people needed, equivalent number of direct answers.

    `margin` formats a margin of error in the question's unit, with ±.
    """
    people, width = forecast["people"], forecast["half_width_95"]
    if (floor := forecast.get("floor")) is not None:
        if floor >= 1:
            return [f"{people:,} people are too few to find any text."]
        texts = f"With {people:,} people, a text that {math.ceil(floor * people):,} or more give"
        known = f"is found with a probability of 99 %, and its share is known to {margin(width)}."
        return [f"{texts} {known}"]
    ratio, enough, worth = (
        forecast[key] for key in ("limit_ratio", "people_for_error", "direct_equivalent")
    )
    above = "" if ratio is None else f", at {ratio:.3f} times the smallest possible variance"
    wanted, needed = margin(width * math.sqrt(people / enough)), enough
    if enough == people:
        wanted, needed = "half of that", 4 * people
    lines = [
        f"{people:,} people give {margin(width)} (95 %){above}; for {wanted} you need {needed:,}.",
        f"{people:,} deniable answers are worth about {worth:,} asked openly.",
        _counted(forecast["over"]),
    ]
    if (values := forecast["values"]) > 1:
        own = margin(forecast["half_width_95_of_value"])
        lines.append(
            f"A label with {values} equally common values leaves {people // values:,} people and "
            f"{own} for each value; for {wanted} in each you need {values * needed:,} people."
        )
    return lines


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
    answers, installs = forecast["people_for_error"], forecast["installs"]
    if not installs:
        return f"By default, apps refuse a round above ε {MAX_EPSILON_PER_SURVEY}."
    needed = (
        f"{two_digits(count):,} if {'asked once' if name == 'once' else f'each {name}'}"
        for name, count in installs.items()
    )
    return (
        f"By default, an install answers as many rounds in a quarter as ε {MAX_EPSILON_PER_SURVEY} "
        f"allows. Installs needed for {answers:,} answers in each round: {', '.join(needed)}."
    )


# Half widths of the 95 % interval


@dataclass(frozen=True)
class Shuffled:
    half_width: float
    delta: float
    epsilon: Epsilon  # ε₀


def half_width(question: Question, people: int) -> float:
    return Z95 * question.mechanism.predicted_error(people) * question.span


def shuffled_half_width(
    asked: Asked, people: int, max_bytes: int | None = None, *, coarse: bool = False
) -> Shuffled:
    """Return the half width with the default mechanism at ε₀.

    `coarse` rounds ε₀ down to a whole number if that is above ε, so that the search for optimal
    tables runs less often.
    """
    delta, epsilon = usual_delta(people), Epsilon(asked["epsilon"])
    alone = report_epsilon(epsilon, min(people, MAX_SHUFFLED_PEOPLE), delta)
    if coarse:
        whole = alone.billionths // BILLION * BILLION
        alone = max(epsilon, Epsilon(decimal_text(max(1, whole))))
    question = choose({**undecided(asked), "epsilon": str(alone)}, max_bytes)
    return Shuffled(half_width(question, people), delta, alone)


def trusted_half_width(question: Question, people: int) -> float:
    variance = TRUSTED.of(question.mechanism)(question.mechanism, people)
    return Z95 * math.sqrt(variance) * question.span


# Variances of a trusted server's noise


def noise_variance(epsilon: Epsilon, sensitivity: int) -> float:
    decay = -float(epsilon) / sensitivity
    return 2 * math.exp(decay) / math.expm1(decay) ** 2


def share_variance(epsilon: Epsilon, people: int, sensitivity: int) -> float:
    return noise_variance(epsilon, sensitivity) / people**2


def mean_variance(epsilon: Epsilon, people: int, steps: int = FINE) -> float:
    """Return the variance of the mean as a share of the range, for given grid positions."""
    return noise_variance(epsilon, steps) / (people * steps) ** 2


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
