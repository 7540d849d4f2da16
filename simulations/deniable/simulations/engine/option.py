"""Options of studies, defined once for the command line and for Python.

    Option("people", "1e3,1e6", several(whole(2, 10**9)), "numbers of people")

is `--people 1000,1e6` on the command line and `people=[1000, 1e6]` in Python. A reader takes the
option's name, as the user spells it, and the given text or object. It returns a JSON value or
raises WrongUse. Values of ε are exact decimals; whole numbers may be written like 1e6.

Private data of the caller stays in memory and is never written. `Redacted(digest(data), data)` is a
string that holds only a digest; the journal, run record, page and repr show that digest. Pickling
keeps the data, so that it reaches the workers of a pool or cluster. A journal resumes with the same
data and starts over with other data. The digest lets someone confirm a guess of the complete data,
and reveals nothing else.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Self

from deniable.shared.errors import InvalidEpsilon, WrongUse
from deniable.shared.privacy.epsilon import BILLION, Epsilon, decimal_text

MAX_PEOPLE = 10**9  # so that every count and every sum of noise fits numpy's whole numbers

Reader = Callable[[str, Any], Any]  # Any: user input; JSON values


class Option(NamedTuple):
    """Option of a study: `--name` on the command line, `name=` in Python."""

    name: str
    default: Any  # Any: input of the reader
    read: Reader
    help: str
    metavar: str = "LIST"
    positional: bool = False
    repeated: bool = False  # may be given several times, each time with a value


def read(
    options: Iterable[Option], given: Mapping[str, Any], spelled: Callable[[str], str] = str
) -> dict[str, Any]:
    """Return the value of every option; raise WrongUse for an unknown option."""
    known = {option.name: option for option in options}
    if unknown := [name for name in given if name not in known]:
        raise WrongUse(
            f"unknown option {spelled(unknown[0])}; choose from {', '.join(map(spelled, known))}"
        )
    return {
        name: option.read(spelled(name), given.get(name, option.default))
        for name, option in known.items()
    }


# Readers


def several(one: Reader) -> Reader:
    """Return a reader of lists: text with commas, a sequence, or one value. Repeats are dropped.

    >>> several(epsilon)("epsilon", "0.50,1, 1")
    ['0.5', '1']
    >>> several(epsilon)("epsilon", [0.5, 1])
    ['0.5', '1']
    """

    def read_all(name: str, given: Any) -> list[Any]:
        values = [one(name, value) for value in listed_values(given)]
        if not values:
            raise WrongUse(f"{name} needs at least one value; separate several values by commas")
        return list(dict.fromkeys(values))

    return read_all


def listed_values(given: Any) -> list[Any]:
    """Return the values of a text with commas or of a sequence, or a single value as a list."""
    if isinstance(given, str):
        return [part.strip() for part in given.split(",") if part.strip()]
    return list(given) if isinstance(given, Iterable) and not isinstance(given, type) else [given]


def epsilon(name: str, given: Any) -> str:
    """Read an ε into its shortest decimal text."""
    try:
        return str(Epsilon(str(given)))
    except InvalidEpsilon as error:
        raise WrongUse(f"{name}: {error}") from None


def whole(least: int, most: int) -> Reader:
    """Return a reader of whole numbers in a range.

    >>> whole(2, 10**9)("people", "1e6")
    1000000
    """
    words = f"a whole number from {least:,} to {most:,}"
    read = _number(lambda value: value.is_integer() and least <= value <= most, words)
    return lambda name, given: int(read(name, given))


def inside(low: float = 0.0, high: float = 1.0) -> Reader:
    """Return a reader of numbers strictly between two bounds.

    >>> inside()("power", "0.9")
    0.9
    """
    return _number(lambda value: low < value < high, f"above {low:g} and below {high:g}")


def _number(fits: Callable[[float], bool], words: str) -> Reader:
    def read_number(name: str, given: Any) -> float:
        try:
            value = float(given)
        except (TypeError, ValueError):
            value = math.nan
        if not math.isfinite(value) or not fits(value):
            raise WrongUse(f"{name} must be {words}, got {given!r}")
        return value

    return read_number


share = _number(lambda value: 0 <= value <= 1, "from 0 to 1")


def one_of(names: Iterable[str]) -> Reader:
    allowed = list(names)

    def read_name(name: str, given: Any) -> str:
        if given not in allowed:
            raise WrongUse(f"{name} must be one of {', '.join(allowed)}; got {given!r}")
        return str(given)

    return read_name


def pairs(_name: str, given: Any) -> list[str]:
    """Read texts like NAME=VALUE, or a mapping in Python."""
    if isinstance(given, Mapping):
        return [f"{key}={value}" for key, value in given.items()]
    return [str(text) for text in ([given] if isinstance(given, str) else given)]


def product(one: Epsilon, factor: Epsilon) -> str:
    """Return the shortest text of an ε times a decimal, rounded down to a billionth."""
    return decimal_text(one.billionths * factor.billionths // BILLION)


# Private data


class Redacted(str):
    """Text of a digest of private data, which also carries the data in memory."""

    __slots__ = ("data",)
    data: str

    def __new__(cls, digest: str, data: str) -> Self:
        self = super().__new__(cls, digest)
        self.data = data
        return self

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]  # of str: one string
        return str(self), self.data


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def content(text: object) -> str:
    """Return the data behind a redacted text, or the text itself."""
    return text.data if isinstance(text, Redacted) else str(text)


# Options that several studies have


def epsilons(default: str) -> Option:
    return Option("epsilon", default, several(epsilon), "values of ε, separated by commas")


def sizes(name: str, default: str, least: int, most: int, words: str) -> Option:
    return Option(name, default, several(whole(least, most)), words)


def people(default: str, least: int = 2, most: int = MAX_PEOPLE) -> Option:
    return sizes("people", default, least, most, "numbers of people, separated by commas")


def probability(name: str, default: float, words: str, metavar: str = "P") -> Option:
    return Option(name, default, inside(), words, metavar)


def delta(words: str = "probability that the shuffler's guarantee fails") -> Option:
    return probability("delta", 1e-6, words, "δ")


def repetitions(default: int, least: int = 2) -> Option:
    words = "simulated populations for each ε and number of people"
    return Option("repetitions", default, whole(least, 10**6), words, "N")
