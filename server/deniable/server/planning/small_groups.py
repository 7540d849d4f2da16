"""Shares that the results of a small group can distinguish.

A result distinguishes a share from another one if its final interval for the population excludes
the other share. The probability of this (the power) must be at least 90 % in both directions. It is
exact: a sum over all possible counts, with the interval that the page shows for each of them. The
two shares are as far below one half as above it, where shares are the hardest to distinguish.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deniable.server.estimation.shares import population_limits
from deniable.server.estimation.statements import Array, final_reading
from deniable.server.planning.experiment import POWER, experiment, experiment_sentence
from deniable.shared.errors import quantity
from deniable.shared.privacy.epsilon import ONE
from deniable.shared.privacy.families.support import SupportDesign
from deniable.shared.survey.document import LOOKS, Survey
from deniable.shared.survey.kinds.base import ShareQuestion

MAX_PEOPLE = 2_000  # beyond that, a margin of error is enough
STEP = 5  # in percentage points
HALF = 50
SHARE, EFFECT = "30%", "40 points"  # the example of an effect between two arms


def told_apart(design: SupportDesign, people: int, confidence: float) -> tuple[float, float] | None:
    """Return the closest two shares that are distinguished, as all wider pairs are, or None."""
    found = None
    for points in range(HALF, 0, -STEP):
        low, high = (HALF - points) / 100, (HALF + points) / 100
        if (
            min(power(design, people, *pair, confidence) for pair in ((low, high), (high, low)))
            < POWER
        ):
            return found
        found = low, high
    return found


def power(
    design: SupportDesign, people: int, share: float, other: float, confidence: float
) -> float:
    """Return the probability that the final interval excludes `other`, if the truth is `share`."""
    counts = np.arange(people + 1)
    low, high = population_limits(design, counts, people, confidence, looks=False)
    return float(probabilities(design, people, share)[(other < low) | (other > high)].sum())


def probabilities(design: SupportDesign, people: int, share: float) -> Array:
    """Return the probability of each count of supporting reports, for a random sample of people."""
    from scipy.stats import binom

    rate = (design.lie + share * (design.keep - design.lie)) / ONE
    return np.asarray(binom.pmf(np.arange(people + 1), people, rate))


def people_sentences(survey: Survey, people: int) -> list[str]:
    """Return what this many people can show about each question of a survey with shares."""
    questions = [question for question in survey.questions if isinstance(question, ShareQuestion)]
    if survey.arms and len(survey.arms.arms) == 2:
        confidence = final_reading(survey.looks).confidence
        plans = [experiment(question, EFFECT, SHARE, confidence) for question in questions]
        sentences = [experiment_sentence(plan, "") for plan in plans]
    elif survey.arms or people > MAX_PEOPLE:
        return []
    else:
        sentences = [group_sentence(question, people, survey.looks) for question in questions]
    if len(questions) == 1:
        return sentences
    return [f"{of.title} {says}" for of, says in zip(questions, sentences, strict=True)]


def group_sentence(question: ShareQuestion, people: int, looks: str = LOOKS[0]) -> str:
    """Return what this many people can show about a question with shares."""
    pair = told_apart(question.mechanism, people, final_reading(looks).confidence)
    return told_apart_sentence(people, str(question.epsilon), pair)


def told_apart_sentence(people: int, epsilon: str, pair: Sequence[float] | None) -> str:
    """Return what a group can show, for someone who has not asked yet.

    >>> told_apart_sentence(30, "2", (0.25, 0.75))
    'With 30 people at ε 2 you can tell 25 % from 75 %, but not 30 % from 70 %.'
    """
    group = f"With {quantity(people, 'person', 'people')} at ε {epsilon} you"
    if pair is None:
        return f"{group} cannot even tell 0 % from 100 %: ask more people, or choose a larger ε."
    low, high = (round(100 * share) for share in pair)
    told = f"{group} can tell {low} % from {high} %"
    return (
        f"{told}."
        if high - low == 2 * STEP
        else (f"{told}, but not {low + STEP} % from {high - STEP} %.")
    )
