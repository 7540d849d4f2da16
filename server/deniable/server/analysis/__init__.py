"""Results in Python, for notebooks and scripts.

`open_results` reads a store or a server (`sources`) and returns a `SurveyResults` (`notebook`).
"""

from deniable.server.analysis.notebook import Answer, SurveyResults
from deniable.server.analysis.sources import open_results

__all__ = ["Answer", "SurveyResults", "open_results"]
