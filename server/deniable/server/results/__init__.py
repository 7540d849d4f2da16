"""Results of a survey: one document, and everything that is read from it.

`survey_results` turns tallies into the document (`document`), with the estimates of `answers`,
`comparison` and `forgery`, which `estimate_cache` keeps. `export`, `text_report` and the pages show
it, in the numbers of `display` and the sentences of `headlines` and `notes`.
"""

from deniable.server.results.comparison import comparison
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
from deniable.server.results.estimate_cache import EstimateCache
from deniable.server.results.export import csv_chunks, json_chunks
from deniable.server.results.round_selection import RoundSelection, select_rounds, state_at
from deniable.server.results.survey_results import (
    SurveyEstimates,
    check_round,
    stored_estimates,
    survey_results,
)
from deniable.server.surveys.clock import State

__all__ = [
    "About",
    "Change",
    "Comparison",
    "Crossed",
    "Difference",
    "Distribution",
    "EstimateCache",
    "Fit",
    "Floor",
    "QuestionResult",
    "Results",
    "Round",
    "RoundFacts",
    "RoundSelection",
    "Row",
    "State",
    "SurveyEstimates",
    "WholeVector",
    "check_round",
    "comparison",
    "csv_chunks",
    "json_chunks",
    "select_rounds",
    "state_at",
    "stored_estimates",
    "survey_results",
]
