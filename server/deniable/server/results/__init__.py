"""The results of a survey as one document, and how people read it."""

from deniable.server.results.document import (
    question_facts,
    question_rows,
    rounds_so_far,
    state_at,
    survey_results,
)
from deniable.server.results.table import csv_text, flat_rows

__all__ = [
    "csv_text",
    "flat_rows",
    "question_facts",
    "question_rows",
    "rounds_so_far",
    "state_at",
    "survey_results",
]
