"""The survey file that people write: its template for `survey new`, and its reader.

The reader adds optimal tables. A number question that names no mechanism gets a table if it reduces
the worst answer's variance by at least 2 % compared with the best formula; a smaller gain is not
worth a longer document. The table becomes part of the document, so clients do not need this module.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from deniable.shared.errors import InvalidEpsilon, InvalidSurvey
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.families.number_table import NumberTable
from deniable.shared.privacy.mechanisms import OptimalTable, number_table
from deniable.shared.survey.document import PERIODS, Survey, parse_toml
from deniable.shared.survey.kinds import KINDS

WORTHWHILE_GAIN = 1.02
ReportProgress = Callable[[str], None]

ROUNDS = 3
TEMPLATE = Path(__file__).with_name("template.toml")


def template(opens: date) -> str:
    """Return a template that asks once in three months, or in each, as an app's policy allows."""
    after = opens.year * 12 + opens.month - 1 + ROUNDS  # the month after the last round
    closes = date(after // 12, after % 12 + 1, 1) - timedelta(days=1)
    return TEMPLATE.read_text("utf-8").format(
        opens=opens.isoformat(), closes=closes.isoformat(), periods=", ".join(PERIODS)
    )


def parse_survey_file(text: str, tell: ReportProgress = lambda _: None) -> Survey:
    """Parse a survey file. `tell` receives messages about slow steps."""

    def complete(document: dict[str, Any]) -> dict[str, Any]:  # Any: TOML
        questions = document.get("question")
        if not isinstance(questions, list):
            return document
        return document | {"question": [with_table(question, tell) for question in questions]}

    return parse_toml(text, complete)


def best_table(epsilon: Epsilon, steps: int | None = None, name: str | None = None) -> NumberTable:
    """Return the named table, or the best one. Raise NoTable if the named one is not found."""
    from deniable.server.surveys.optimal_table import NoTable, optimal_table

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
    """Return the question, with an optimal table if it names one or one is better.

    Leave mistakes unchanged: `parse_toml` reports them.
    """
    from deniable.server.surveys.optimal_table import NoTable

    if not isinstance(question, dict):
        return question
    kind = question.get("kind")
    if not (isinstance(kind, str) and kind in KINDS and KINDS[kind].takes_optimal_table):
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
