"""What privacy costs a question: said beside its estimates."""

from __future__ import annotations

import math

from deniable.server.planning.figures import direct_equivalent, people_for
from deniable.server.planning.models import half_width, trusted_half_width
from deniable.server.results.display import STYLES, decimals, plain
from deniable.shared.survey.kinds.base import Question

ROUND_PEOPLE = 2  # digits of a number of people that is expected, not counted


def price(question: Question, reports: int, asked_one_of: int = 1) -> str:
    """How many direct answers tell as much, how many people a smaller error takes, and the error of
    a trusted server: as planned, at the worst place. Where each install is asked one of several
    questions, so many times the people."""
    style = STYLES[question.statistic]
    worth = direct_equivalent(question.mechanism, reports)
    smaller = smaller_error(style.factor * half_width(question, reports)) / style.factor
    people = asked_one_of * people_for(question, smaller)
    trusted = style.factor * trusted_half_width(question, reports)
    wanted = f"{style.factor * smaller:g}"
    unit = style.behind_margin(question.unit)
    point = unit.removesuffix("s") if wanted == "1" and not question.unit else unit
    return (
        f"So many deniable answers tell as much as {_direct(worth)}; for "
        f"± {wanted}{point} it takes {_about(people)}; a trusted server would "
        f"have had ± {plain(trusted, max(0, decimals(trusted) - 1))}."
    )


def smaller_error(error: float) -> float:
    """A round number, at most half of it.

    >>> smaller_error(2.8), smaller_error(1.2), smaller_error(0.3), smaller_error(20)
    (1.0, 0.5, 0.1, 10.0)
    """
    power = 10.0 ** math.floor(math.log10(error / 2) + 1e-9)
    return float(f"{max(m * power for m in (1, 2, 5) if m * power <= error / 2 + 1e-12):.12g}")


def _direct(worth: int) -> str:
    if worth < 1:
        return "less than one direct one"
    return f"{_about(worth)} direct one{'' if worth == 1 else 's'}"


def _about(people: int) -> str:
    """Return a number of people, rounded, as text.

    >>> _about(160_080), _about(1_134), _about(87)
    ('160,000', '1,100', '87')
    """
    digits = max(0, len(str(people)) - ROUND_PEOPLE)
    return f"{round(people, -digits):,}"
