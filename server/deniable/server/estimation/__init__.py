"""Estimates from tallies: unbiased, with intervals that hold their coverage."""

from deniable.server.estimation.document import (
    question_facts,
    question_rows,
    rounds_so_far,
    state_at,
    survey_results,
)
from deniable.server.estimation.estimate import CONFIDENCE, Estimate
from deniable.server.estimation.questions import estimates
from deniable.server.estimation.rows import csv_text, flat_rows

__all__ = [
    "CONFIDENCE",
    "Estimate",
    "csv_text",
    "estimates",
    "flat_rows",
    "question_facts",
    "question_rows",
    "rounds_so_far",
    "state_at",
    "survey_results",
]
