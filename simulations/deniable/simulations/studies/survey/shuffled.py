"""What a shuffler would tell of one question: 95 % half widths, by formula.

Its reports are at the ε₀ that n honest people make as private as the survey says, (ε, δ), by the
mechanism that such a question would have. Where each person is asked one of d
questions, so many fewer are mixed, and who is asked adds to the error. Not known for other kinds.
"""

from __future__ import annotations

import math

from deniable.server.planning.shuffled import report_epsilon
from deniable.shared.privacy.mechanisms import number_table, support_design
from deniable.shared.survey.questions import Bit, Choice, Question
from deniable.simulations.engine.comparison import Z95
from deniable.simulations.studies.survey.people import Numbers, People


def shuffled_half_width(
    question: Question, people: People, truth: float, reports: int, drawn_from: int, delta: float
) -> float | None:
    """`truth` is that of the label: a share, or a mean in the question's units."""
    asked = reports / drawn_from
    mixed = report_epsilon(question.epsilon, int(asked), delta)
    if isinstance(people, Numbers):
        table = number_table(mixed)
        held = list(zip(people.places, people.shares, strict=True))
        noise = math.fsum(share * table.variance(1, place) for place, share in held)
        mean = math.fsum(share * place for place, share in held)
        spread = math.fsum(share * (place - mean) ** 2 for place, share in held)
    elif isinstance(question, Bit | Choice):
        options = question.mechanism.options
        noise = support_design(question.kind, mixed, options).variance(1, truth)
        spread = truth * (1 - truth)
    else:
        return None
    return Z95 * question.span * math.sqrt((noise + spread * (1 - 1 / drawn_from)) / asked)
