"""The options of a study, once for the command line and for Python: what they are called, what
they are if nothing is said, and how a value is read.

    Option("people", "1e3,1e6", several(whole(2, 10**9)), "how many")

is `--people 1000,1e6` on the command line and `people=[1000, 1e6]` in Python. A reader gets the
option's name, as its user spells it, and what was given: a text, or an object. It returns what JSON
can hold, or raises WrongUse. ε are exact decimals, whole numbers may be written like 1e6.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from deniable.shared.errors import InvalidEpsilon, WrongUse
from deniable.shared.privacy.epsilon import BILLION, Epsilon, decimal_text

MOST_PEOPLE = 10**9  # up to here every count and every sum of noise fits numpy's whole numbers

Reader = Callable[[str, Any], Any]  # Any: what its user gives; what JSON can hold


@dataclass(frozen=True)
class Option:
    """One option of a study: `--name` on the command line, `name=` in Python."""

    name: str
    default: Any  # Any: what its reader reads, or None for an option that must be given
    read: Reader
    help: str
    metavar: str = "LIST"
    positional: bool = False
    repeated: bool = False  # each on the command line adds a value


def read(
    options: Iterable[Option], given: Mapping[str, Any], spelled: Callable[[str], str] = str
) -> dict[str, Any]:
    """Every option's value; raises WrongUse for what is none of them."""
    known = {option.name: option for option in options}
    if unknown := [name for name in given if name not in known]:
        raise WrongUse(
            f"there is no option {spelled(unknown[0])}; there are {', '.join(map(spelled, known))}"
        )
    return {
        name: option.read(spelled(name), given.get(name, option.default))
        for name, option in known.items()
    }


# Readers


def several(one: Reader) -> Reader:
    """A list of what `one` reads, each value once: a text with commas, a sequence, or one value.

    >>> several(epsilon)("epsilon", "0.50,1, 1")
    ['0.5', '1']
    >>> several(epsilon)("epsilon", [0.5, 1])
    ['0.5', '1']
    """

    def read_each(name: str, given: Any) -> list[Any]:
        values = [one(name, value) for value in listed_values(given)]
        if not values:
            raise WrongUse(f"{name}: at least one value, with commas between several")
        return list(dict.fromkeys(values))

    return read_each


def listed_values(given: Any) -> list[Any]:
    """The values in a text with commas, in a sequence, or the one that it is."""
    if isinstance(given, str):
        return [part.strip() for part in given.split(",") if part.strip()]
    return list(given) if isinstance(given, Iterable) and not isinstance(given, type) else [given]


def epsilon(name: str, given: Any) -> str:
    """In its shortest decimal text."""
    try:
        return str(Epsilon(str(given)))
    except InvalidEpsilon as error:
        raise WrongUse(f"{name}: {error}") from None


def whole(least: int, most: int) -> Reader:
    """Return a reader of whole numbers in a range.

    >>> whole(2, 10**9)("people", "1e6")
    1000000
    """

    def read_whole(name: str, given: Any) -> int:
        value = _float(given)
        if not value.is_integer() or not least <= value <= most:
            raise WrongUse(f"{name}: a whole number from {least:,} to {most:,}, got {given!r}")
        return int(value)

    return read_whole


def share(name: str, given: Any) -> float:
    value = _float(given)
    if not 0 <= value <= 1:
        raise WrongUse(f"{name} is from 0 to 1, got {given}")
    return value


def inside(low: float = 0.0, high: float = 1.0) -> Reader:
    """A number between both, and neither of them.

    >>> inside()("power", "0.9")
    0.9
    """

    def read_number(name: str, given: Any) -> float:
        value = _float(given)
        if not low < value < high:
            raise WrongUse(f"{name} is above {low:g} and below {high:g}, got {given}")
        return value

    return read_number


def one_of(names: Iterable[str]) -> Reader:
    listed = list(names)

    def read_name(name: str, given: Any) -> str:
        if given not in listed:
            raise WrongUse(f"{name} is one of {', '.join(listed)}; got {given!r}")
        return str(given)

    return read_name


def pairs(_name: str, given: Any) -> list[str]:
    """Texts like NAME=VALUE; a mapping in Python."""
    if isinstance(given, Mapping):
        return [f"{key}={value}" for key, value in given.items()]
    return [str(text) for text in ([given] if isinstance(given, str) else given)]


def _float(given: Any) -> float:
    try:
        value = float(given)
    except (TypeError, ValueError):
        return math.nan
    return value if math.isfinite(value) else math.nan


def product(one: Epsilon, factor: Epsilon) -> str:
    """As many times an ε as a decimal says, rounded down to a billionth, in its shortest text."""
    return decimal_text(one.billionths * factor.billionths // BILLION)


# Options that several studies have


def epsilons(default: str) -> Option:
    return Option("epsilon", default, several(epsilon), "ε, with commas")


def people(default: str, least: int = 2, most: int = MOST_PEOPLE) -> Option:
    return Option("people", default, several(whole(least, most)), "how many are asked")


def repetitions(default: int, least: int = 2) -> Option:
    words = "populations drawn for each ε and number of people"
    return Option("repetitions", default, whole(least, 10**6), words, "N")
