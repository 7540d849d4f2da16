"""The mechanisms of a study: ours by name, and own ones, a class or `package.module:Class`.

An own mechanism is a NumberTable or a SupportDesign, which need not be installed: the module that
it stands in can be imported, here and in every process of a pool. It is held to its ε by exact
arithmetic before anything is drawn from it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from deniable.server.surveys.survey_file import best_table
from deniable.shared.errors import WrongUse
from deniable.shared.privacy.certify import refusal
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.families.number_table import NumberTable
from deniable.shared.privacy.families.support import SupportDesign
from deniable.shared.privacy.mechanism import Mechanism
from deniable.shared.privacy.mechanisms import mechanisms, support_design
from deniable.simulations.engine import option

SHAPES = (NumberTable, SupportDesign)


def mechanisms_option(kind: str, names: str = "") -> option.Option:
    """`names` are the mechanisms where nothing is said; all of this kind if they are none."""

    def read(name: str, given: Any) -> str:  # Any: a class, or its name
        if isinstance(given, type):
            given = f"{given.__module__}:{given.__qualname__}"
        find(kind, str(given), name)
        return str(given)

    words = "mechanisms, own ones as package.module:Class"
    default = names or ",".join(mechanisms(kind))
    return option.Option("mechanisms", default, option.several(read), words)


def find(kind: str, text: str, name: str = "mechanisms") -> type[Mechanism]:
    """The mechanism of this text; WrongUse, under this name, where there is none."""
    if text in mechanisms(kind):
        return mechanisms(kind)[text]
    module, _, path = text.partition(":")
    if not path:
        known = ", ".join(mechanisms(kind))
        raise WrongUse(
            f"{name}: {text!r} is none of {known}; an own mechanism is package.module:Class"
        )
    try:
        found: Any = import_module(module)  # Any: whatever stands there
        for part in path.split("."):
            found = getattr(found, part)
    except ModuleNotFoundError as error:
        here = "a module of this folder is found by `python -m deniable simulate`"
        raise WrongUse(f"{name}: there is no {text}: {error}; {here}") from None
    except (ImportError, AttributeError) as error:
        raise WrongUse(f"{name}: there is no {text}: {error}") from None
    if not (isinstance(found, type) and issubclass(found, SHAPES) and found.kind == kind):
        raise WrongUse(f"{name}: {text} is no mechanism for a question of the kind {kind}")
    return found


def label(kind: str, text: str) -> str:
    return find(kind, text).label


def number_mechanism(text: str, epsilon: Epsilon) -> NumberTable:
    """On the grid where it errs least."""
    if text in mechanisms("number"):
        return best_table(epsilon, name=text)
    mechanism = find("number", text)
    made: NumberTable = _proved(mechanism(epsilon, mechanism.best_size(epsilon)), text)
    return made


def choice_mechanism(text: str, epsilon: Epsilon, options: int) -> SupportDesign:
    if text in mechanisms("choice"):
        return support_design("choice", epsilon, options, text)
    made: SupportDesign = _proved(find("choice", text)(epsilon, options), text)
    return made


def _proved(made: Mechanism, text: str) -> Any:  # Any: of the family that `find` has checked
    """Refuse a mechanism that does not keep its ε."""
    if problem := refusal(made):
        raise WrongUse(f"mechanisms: {text}: {problem}; no mechanism may give away more than its ε")
    return made
