"""Results of a survey: one document, and everything that is read from it.

`survey_estimates` turns tallies into the document (`document`), with the `answers` to each question
and the `round_details`, which `estimate_cache` keeps. `export` and the pages show it, in the
numbers of `display` and the `sentences`. `forgery_monitor` repeats the forgery check for the log;
`advice` is given before a survey is published.
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
