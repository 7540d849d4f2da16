"""Results in Python, for notebooks and scripts."""

from deniable.server.analysis.opening import open_results
from deniable.server.analysis.reading import Answer, SurveyResults

__all__ = ["Answer", "SurveyResults", "open_results"]
