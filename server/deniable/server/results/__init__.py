"""The results of a survey as one document, and how people read it."""

from deniable.server.results.answers import about, floors, question_results
from deniable.server.results.assembly import rounds_so_far, state_at, survey_results
from deniable.server.results.comparing import comparison
from deniable.server.results.crossing import crossings
from deniable.server.results.distributions import question_distributions
from deniable.server.results.document import (
    About,
    Change,
    Comparison,
    Crossed,
    Difference,
    Distribution,
    Fit,
    Floor,
    QuestionResult,
    Results,
    Round,
    RoundFacts,
    Row,
    WholeVector,
)
from deniable.server.results.forgery import round_fits, warning
from deniable.server.results.table import csv_text
from deniable.server.results.window import Window, window
from deniable.server.surveys.clock import State

__all__ = [
    "About",
    "Change",
    "Comparison",
    "Crossed",
    "Difference",
    "Distribution",
    "Fit",
    "Floor",
    "QuestionResult",
    "Results",
    "Round",
    "RoundFacts",
    "Row",
    "State",
    "WholeVector",
    "Window",
    "about",
    "comparison",
    "crossings",
    "csv_text",
    "floors",
    "question_distributions",
    "question_results",
    "round_fits",
    "rounds_so_far",
    "state_at",
    "survey_results",
    "warning",
    "window",
]
