"""Results of a survey: one document, and everything that is read from it.

`survey_results` turns tallies into the document (`document`), with the estimates of `answers`,
`comparison` and `forgery`, which `estimate_cache` keeps. `export`, `text_report` and the pages show
it, in the numbers of `display` and the sentences of `headlines` and `notes`.
"""

from deniable.server.results.document import Results, Round
from deniable.server.results.estimate_cache import EstimateCache
from deniable.server.results.export import csv_chunks, json_chunks
from deniable.server.results.round_selection import select_rounds, state_at
from deniable.server.results.survey_results import (
    SurveyEstimates,
    stored_estimates,
    survey_results,
)

__all__ = [
    "EstimateCache", "Results", "Round", "SurveyEstimates", "csv_chunks", "json_chunks",
    "select_rounds", "state_at", "stored_estimates", "survey_results",
]  # fmt: skip
