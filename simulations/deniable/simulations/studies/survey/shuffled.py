"""What a shuffler would tell of one question: 95 % half widths, by formula.

Its reports are at the ε₀ that n honest people make as private as the survey says, (ε, δ), by the
mechanism that such a question would have. Where each person is asked one of d
questions, so many fewer are mixed, and who is asked adds to the error.
"""

from __future__ import annotations

import math

from deniable.server.planning.shuffled import report_epsilon
from deniable.shared.survey.kinds.base import Question
from deniable.simulations.engine.comparison import Z95
from deniable.simulations.studies.survey.people import People


def shuffled_half_width(
    question: Question, people: People, truth: float, reports: int, drawn_from: int, delta: float
) -> float:
    """`truth` is that of the label: a share, or a mean in the question's units."""
    asked = reports / drawn_from
    mixed = report_epsilon(question.epsilon, int(asked), delta)
    noise, spread = people.shuffled_variance(mixed, truth)
    return Z95 * question.span * math.sqrt((noise + spread * (1 - 1 / drawn_from)) / asked)
