"""A survey file as people write it, with the tables made that no formula gives.

A number that names no mechanism gets an optimal table wherever that is better than the best formula
by two per cent of the worst answer's variance; less is not worth a longer document. From here on it
stands in the document: whoever reads it needs neither this module nor what it is made with.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from deniable.shared.errors import InvalidEpsilon, InvalidSurvey
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.families.number_table import NumberTable
from deniable.shared.privacy.mechanisms import OptimalTable, number_table
from deniable.shared.survey.document import Survey, parse_toml

WORTH_IT = 1.02
Tell = Callable[[str], None]


def parse_authored(text: str, tell: Tell = lambda _: None) -> Survey:
    """`tell` is told what takes a moment."""

    def complete(document: dict[str, Any]) -> dict[str, Any]:  # Any: whatever TOML holds
        questions = document.get("question")
        if not isinstance(questions, list):
            return document
        return document | {"question": [with_table(each, tell) for each in questions]}

    return parse_toml(text, complete)


def best_table(epsilon: Epsilon, steps: int | None = None, name: str | None = None) -> NumberTable:
    """The named table, or the one that is chosen where none is named. NoTable if it has to be made
    and cannot be."""
    from deniable.server.surveys.optimal_table import optimal_table
    from deniable.server.surveys.table_search import NoTable

    size = OptimalTable.best_size(epsilon) if steps is None else steps
    if name == OptimalTable.name:
        return optimal_table(epsilon, size)
    formula = number_table(epsilon, steps, name)
    if name is None and size in OptimalTable.sizes:
        with suppress(NoTable):
            made = optimal_table(epsilon, size)
            if WORTH_IT * made.worst_variance(1) <= formula.worst_variance(1):
                return made
    return formula


def with_table(question: Any, tell: Tell = lambda _: None) -> Any:  # Any: whatever TOML holds
    """The question, with its table where one has to be made, or is chosen.

    What is not as it should be stays as it is: the reader says what is wrong with it."""
    from deniable.server.surveys.table_search import NoTable

    if not isinstance(question, dict) or question.get("kind") != "number":
        return question
    name, grid = question.get("mechanism"), question.get("grid")
    open_choice = name in (None, OptimalTable.name) and "integers" not in question
    its_size = grid is None or (isinstance(grid, int) and grid in OptimalTable.sizes)
    if not (open_choice and its_size):
        return question
    try:
        epsilon = Epsilon(question["epsilon"])
    except (KeyError, InvalidEpsilon):
        return question
    tell(f"{question.get('name')}: looking for the best table at ε {epsilon}")
    try:
        table = best_table(epsilon, grid, name)
    except NoTable as error:
        raise InvalidSurvey("question.mechanism", f"{error}; name another") from None
    if not table.given:
        return question
    integers = [str(integer) for integer in table.integers]
    return question | {"mechanism": table.name, "grid": table.steps, "integers": integers}
