"""Results of a survey as one document, which JSON, CSV, pages, the command and Python share.

`survey_estimates` makes the document (`document`) from tallies: the `answers` to each question and
the `round_details`. `estimate_cache` keeps the estimates. `export`, `display` and `sentences` write
results as text, and `advice` helps authors before they publish a survey.
"""

from deniable.server.results.document import Results, Round
from deniable.server.results.estimate_cache import EstimateCache
from deniable.server.results.export import csv_chunks
from deniable.server.results.survey_estimates import (
    SurveyEstimates,
    json_chunks,
    select_rounds,
    stored_estimates,
    survey_results,
)

__all__ = [
    "EstimateCache", "Results", "Round", "SurveyEstimates", "csv_chunks", "json_chunks",
    "select_rounds", "stored_estimates", "survey_results",
]  # fmt: skip
