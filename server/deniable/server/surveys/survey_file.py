"""The survey file that people write: the template of `survey new`, and the reader of such a file.

The reader adds optimal tables. A number that names no mechanism gets one if it reduces the worst
answer's variance by at least two per cent against the best formula; less is not worth a longer
document. The table becomes part of the document, so readers of that do not need this module.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import date, timedelta
from typing import Any

from deniable.shared.errors import InvalidEpsilon, InvalidSurvey
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.families.number_table import NumberTable
from deniable.shared.privacy.mechanisms import OptimalTable, number_table
from deniable.shared.survey.document import Survey, parse_toml
from deniable.shared.survey.kinds import KINDS
from deniable.shared.survey.periods import PERIODS

WORTHWHILE_GAIN = 1.02
ReportProgress = Callable[[str], None]

ROUNDS = 3
_TEMPLATE = """\
# A survey. Once published it never changes: to change it, publish another with the same name.
# `deniable survey check FILE` reports its privacy cost and the expected margins of error.

[survey]
name = "app-health"               # what apps ask for: letters, digits, dashes
title = "How is the app doing?"
purpose = "Find crashes before users have to tell us."
owner = "Example Ltd, privacy@example.org"
opens = {opens}
closes = {closes}               # last day; a round that overlaps it in part counts as whole
round = "month"                   # {periods}: each install sends one report per round
grace_days = 14                   # how long after its round a report is still accepted
retention_days = 90               # how long the server then keeps reports; tallies stay
minimum_reports = 100             # below it no estimate is shown
# ask = 1                         # each install answers one question, drawn at random; a round then
#                                 # costs the largest epsilon below, not their sum
# repeat = "latched"              # the device keeps a report and sends it again: that costs its
# repeat_rounds = 3               # epsilon once in these rounds; changes within them do not show
# sealed_to = "..."               # reports are sealed to this key: deniable keys new --sealing FILE

# Every answer is randomized on the device. epsilon is the privacy cost of an answer: a report
# changes the odds about any respondent by a factor of at most 1.7 at 0.5, 2.8 at 1, 7.4 at 2.

[[question]]
name = "crashed"
kind = "bit"                      # yes or no
epsilon = "0.5"

[[question]]
name = "minutes"
kind = "number"                   # in a range; a value outside counts as the nearest end
low = 0
high = 120
epsilon = "1"

[[question]]
name = "browser"
kind = "choice"
options = ["firefox", "chrome", "safari", "edge", "other"]
other = "other"                   # stands for every answer that is not listed
epsilon = "0.5"

# [[question]]
# name = "gradient"
# kind = "vector"                 # of length at most 1; its mean is estimated
# dimension = 100                 # how many numbers it has, 2 to 1024
# epsilon = "1"

# [[question]]                    # an open question: frequent answers are found and shown
# name = "word"
# kind = "text"
# length = 8                      # only this many bytes count
# epsilon = "2"                   # `deniable survey check` reports how many people this needs
"""


def template(opens: date) -> str:
    """Return a survey of three rounds at ε 2, the total that an app's default policy allows."""
    after = opens.year * 12 + opens.month - 1 + ROUNDS  # the month after the last round
    closes = date(after // 12, after % 12 + 1, 1) - timedelta(days=1)
    return _TEMPLATE.format(
        opens=opens.isoformat(), closes=closes.isoformat(), periods=", ".join(PERIODS)
    )


def parse_survey_file(text: str, tell: ReportProgress = lambda _: None) -> Survey:
    """Return the survey in a file's text; `tell` receives progress of slow steps."""

    def complete(document: dict[str, Any]) -> dict[str, Any]:  # Any: TOML
        questions = document.get("question")
        if not isinstance(questions, list):
            return document
        return document | {"question": [with_table(question, tell) for question in questions]}

    return parse_toml(text, complete)


def best_table(epsilon: Epsilon, steps: int | None = None, name: str | None = None) -> NumberTable:
    """Return the named table, or the best one. Raise NoTable if a table was named and not found."""
    from deniable.server.surveys.optimal_table import optimal_table
    from deniable.server.surveys.table_search import NoTable

    size = OptimalTable.best_size(epsilon) if steps is None else steps
    if name == OptimalTable.name:
        return optimal_table(epsilon, size)
    formula = number_table(epsilon, steps, name)
    if name is None and size in OptimalTable.sizes:
        with suppress(NoTable):
            optimal = optimal_table(epsilon, size)
            if WORTHWHILE_GAIN * optimal.worst_variance(1) <= formula.worst_variance(1):
                return optimal
    return formula


def with_table(question: Any, tell: ReportProgress = lambda _: None) -> Any:  # Any: TOML
    """Return the question, with an optimal table where that is named or better.

    Mistakes stay as they are: the survey's reader reports them.
    """
    from deniable.server.surveys.table_search import NoTable

    if not isinstance(question, dict) or not _takes_table(question.get("kind")):
        return question
    name, grid = question.get("mechanism"), question.get("grid")
    may_choose = name in (None, OptimalTable.name) and "integers" not in question
    fits_size = grid is None or (isinstance(grid, int) and grid in OptimalTable.sizes)
    if not (may_choose and fits_size):
        return question
    try:
        epsilon = Epsilon(question["epsilon"])
    except (KeyError, InvalidEpsilon):
        return question
    tell(f"{question.get('name')}: looking for the best table at ε {epsilon}")
    try:
        table = best_table(epsilon, grid, name)
    except NoTable as error:
        raise InvalidSurvey("question.mechanism", f"{error}; name another mechanism") from None
    if not table.given:
        return question
    integers = [str(integer) for integer in table.integers]
    return question | {"mechanism": table.name, "grid": table.steps, "integers": integers}


def _takes_table(kind: Any) -> bool:  # Any: whatever TOML holds
    return isinstance(kind, str) and kind in KINDS and KINDS[kind].takes_optimal_table
