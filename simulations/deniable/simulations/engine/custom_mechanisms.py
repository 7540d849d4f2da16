"""Mechanisms of a study: built-in ones by name, custom ones as a class or `package.module:Class`.

A custom mechanism is a NumberTable or a SupportDesign in a module that this process and every
worker process can import. Exact arithmetic verifies that it keeps its ε before anything is drawn
from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from deniable.server.surveys.optimal_table import NoTable
from deniable.server.surveys.survey_file import best_table
from deniable.shared.errors import WrongUse
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.families.number_table import NumberTable
from deniable.shared.privacy.families.support import SupportDesign
from deniable.shared.privacy.mechanism import Mechanism
from deniable.shared.privacy.mechanisms import mechanisms, support_design
from deniable.shared.privacy.verification import refusal
from deniable.simulations.engine import option
from deniable.simulations.engine.estimators import Estimator, Rows, number
from deniable.simulations.engine.figures import Look, distinct_looks
from deniable.simulations.engine.study import Row

FAMILIES = (NumberTable, SupportDesign)


def mechanisms_option(kind: str | None, names: str = "") -> option.Option:
    """Return the option `mechanisms`; its default is `names`, or all mechanisms of this kind."""

    def read(name: str, given: Any) -> str:  # Any: a class, or its name
        if isinstance(given, type):
            given = f"{given.__module__}:{given.__qualname__}"
        find(kind, str(given), name)
        return str(given)

    words = "mechanisms by name; custom ones as package.module:Class"
    default = names or ",".join(mechanisms(kind))
    return option.Option("mechanisms", default, option.several(read), words)


def find(kind: str | None, text: str, name: str = "mechanisms") -> type[Mechanism]:
    """Return the class of a mechanism of this kind, or any kind; errors name the option `name`."""
    if text in mechanisms(kind):
        return mechanisms(kind)[text]
    module, _, path = text.partition(":")
    if not path:
        known = ", ".join(mechanisms(kind))
        raise WrongUse(
            f"{name}: unknown mechanism {text!r}; use one of {known}, or package.module:Class"
        )
    try:
        mechanism: Any = import_module(module)  # Any: any object of the module
        for part in path.split("."):
            mechanism = getattr(mechanism, part)
    except ModuleNotFoundError as error:
        hint = "if the module is in this folder, run `python -m deniable simulate`"
        raise WrongUse(f"{name}: cannot import {text}: {error}; {hint}") from None
    except (ImportError, AttributeError) as error:
        raise WrongUse(f"{name}: cannot import {text}: {error}") from None
    if not (isinstance(mechanism, type) and issubclass(mechanism, FAMILIES)) or (
        kind not in (None, mechanism.kind)
    ):
        raise WrongUse(f"{name}: {text} is not a mechanism for {kind or 'any'} questions")
    return mechanism


def label(kind: str | None, row: Row) -> str:
    return find(kind, str(row["estimator"])).label


def best_values(
    kind: str, cell: Rows, central: Estimator
) -> dict[str, Any]:  # Any: rows, texts, numbers
    """Return the best local mechanism, its label, and its prices against a central estimator."""
    best, trusted = cell.best("local"), cell.one(central)
    keys = {"price": "exact", "drawn_price": "exact_drawn"}
    prices = {name: number(best, key) / number(trusted, key) for name, key in keys.items()}
    return {"local": best, "label": label(kind, best), **prices}


def local_estimators(
    kind: str | None, names: Sequence[str], taken: Sequence[Look]
) -> list[Estimator]:
    """Return local estimators for these mechanisms, with looks that are still free."""
    looks = distinct_looks(len(names), taken)
    return [
        Estimator("local", name, find(kind, name).label, look)
        for name, look in zip(names, looks, strict=True)
    ]


def number_mechanism(text: str, epsilon: Epsilon) -> NumberTable:
    if text in mechanisms("number"):
        try:
            return best_table(epsilon, name=text)
        except NoTable:
            raise WrongUse(
                f"mechanisms: no table of {text} is found at ε {epsilon}; leave {text} out"
            ) from None
    mechanism = find("number", text)
    made: NumberTable = _proved(mechanism(epsilon, mechanism.best_size(epsilon)), text)
    return made


def choice_mechanism(text: str, epsilon: Epsilon, options: int) -> SupportDesign:
    if text in mechanisms("choice"):
        return support_design("choice", epsilon, options, text)
    made: SupportDesign = _proved(find("choice", text)(epsilon, options), text)
    return made


def _proved(made: Mechanism, text: str) -> Any:  # Any: the family that `find` has checked
    """Return the mechanism, or raise WrongUse if it exceeds its ε."""
    if problem := refusal(made):
        raise WrongUse(f"mechanisms: {text}: {problem}; a mechanism must not exceed its ε")
    return made
