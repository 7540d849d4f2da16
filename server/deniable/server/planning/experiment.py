"""Number of people that an experiment needs to detect an effect.

Two arms of equal size answer the question. A two-sided test at 5 % (2.5 % if results are also shown
before they are final) finds the effect with a probability (power) of 90 %. With V(f) = n times the
variance of an estimate of the share f, each arm needs this number of people:

    ((z √(2 V(f + effect / 2)) + z' √(V(f) + V(f + effect))) / effect)^2,   z = 1.96, z' = 1.28

The first root belongs to two equal arms, the second to arms that differ [1]. With p and q the
mechanism's rates of support and r = q + f (p - q), V(f) = r (1 - r) / (p - q)^2; for direct
answers, f (1 - f). V of a mean is taken at the worst position, for answers distributed evenly.

This is the textbook test. The interval on a page holds at every number of people, so it is a
little wider, and finds the effect with a probability between 87 and 90 %.

[1] Fleiss, Levin, Paik 2003, "Statistical Methods for Rates and Proportions", chapter 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from statistics import NormalDist
from typing import Any

from deniable.server.estimation.statements import CONFIDENCE, deviates
from deniable.server.planning.planned_question import WrongField
from deniable.shared.privacy.epsilon import ONE
from deniable.shared.privacy.families.number_table import RANGE
from deniable.shared.survey.kinds.base import MeanQuestion, Question, ShareQuestion

POWER = 0.9
SMALLEST_EFFECT = 1e-6  # as a part of the question's range
PER_CENT = ("points", "point", "%")


def experiment(
    question: Question, effect: str, share: str | None = None, confidence: float = CONFIDENCE
) -> dict[str, Any]:
    """Return the people needed in both arms, deniably and asked openly. Any: JSON values.

    `share` is that of the first arm. Both are texts such as "2 points", or numbers in the
    question's unit. `confidence` is that of the final results.
    """
    wanted, first = amount("effect", effect), 0.0
    if isinstance(question, ShareQuestion):
        if not share:
            raise WrongField("share", 'give the share in the first arm, such as "10%"')
        first = amount("share", share)
        if not (0 <= first <= 1 and 0 <= first + wanted <= 1):
            raise WrongField("effect", "both arms need a share from 0 % to 100 %")
    elif not isinstance(question, MeanQuestion):
        raise WrongField("effect", f"an experiment cannot be planned for a {question.kind}")
    if not SMALLEST_EFFECT <= abs(wanted) / question.span <= 1:
        raise WrongField(
            "effect", "it must be within the question's range, and at least a millionth of it"
        )
    people, openly = (
        2 * math.ceil(_in_an_arm(of, first, wanted, confidence)) for of in _variances(question)
    )
    made = {"effect": wanted, "power": POWER, "confidence": confidence, "people": people}
    made["people_asked_openly"] = openly
    return made | ({"share": first} if isinstance(question, ShareQuestion) else {})


def experiment_sentence(made: Mapping[str, Any], unit: str) -> str:
    """Return the people needed as a sentence. Any: JSON values."""
    effect, share = made["effect"], made.get("share")
    wanted = f"an effect of {f'{abs(effect):.4g} {unit}'.rstrip()}"
    if share is not None:
        wanted = f"a change from {100 * share:.4g} % to {100 * (share + effect):.4g} %"
    power, error = 100 * made["power"], 100 * (1 - made["confidence"])
    early = (
        ""
        if made["confidence"] == CONFIDENCE
        else " once the round is final, and as much for earlier looks"
    )
    return (
        f"To detect {wanted} you need {made['people']:,} people, half of them in each arm (power "
        f"{power:.0f} %, {error:.3g} % two-sided{early}). Asked openly, "
        f"{made['people_asked_openly']:,} would do."
    )


def amount(field: str, text: str) -> float:
    """Read a share or an effect.

    >>> amount("share", "10%"), amount("effect", "-2 points"), amount("effect", "0.5")
    (0.1, -0.02, 0.5)
    """
    units = [unit for unit in PER_CENT if text.endswith(unit)]
    try:
        number = float(text.removesuffix(units[0])) / 100 if units else float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise WrongField(field, f'write a number, such as "10%", "2 points" or 0.02, not {text!r}')
    return number


def _in_an_arm(
    variance: Callable[[float], float], share: float, effect: float, confidence: float
) -> float:
    equal, different = 2 * variance(share + effect / 2), variance(share) + variance(share + effect)
    normal = deviates(confidence) * math.sqrt(equal)
    normal += NormalDist().inv_cdf(POWER) * math.sqrt(different)
    return (normal / effect) ** 2


def _variances(question: Question) -> tuple[Callable[[float], float], Callable[[float], float]]:
    """Return n times the variance at a share: of deniable answers, and of direct ones."""
    mechanism = question.mechanism
    if isinstance(question, ShareQuestion):
        keep, lie = question.mechanism.keep / ONE, question.mechanism.lie / ONE

        def deniable(share: float) -> float:
            rate = lie + share * (keep - lie)
            return rate * (1 - rate) / (keep - lie) ** 2

        return deniable, lambda share: share * (1 - share)
    unit = (question.span / RANGE) ** 2
    direct = question.span**2 * mechanism.variances(None)[0]
    noisy = unit * mechanism.n_variance() + direct
    return lambda _: noisy, lambda _: direct
