"""Options that take lists with commas: ε as exact decimals, whole numbers of people like 1e6."""

from __future__ import annotations

from deniable.shared.errors import WrongUse
from deniable.shared.privacy.epsilon import BILLION, Epsilon, decimal_text

MOST_PEOPLE = 10**9  # up to here every count and every sum of noise fits numpy's whole numbers


def epsilons(text: str) -> list[str]:
    """Each ε in its shortest decimal text.

    >>> epsilons("0.50,1")
    ['0.5', '1']
    """
    return [str(Epsilon(part.strip())) for part in text.split(",")]


def people(text: str, least: int = 2) -> list[int]:
    """
    >>> people("100,1e6")
    [100, 1000000]
    """
    return [_whole(part.strip(), least, MOST_PEOPLE, "people") for part in text.split(",")]


def whole(text: str | int, least: int, most: int, what: str) -> int:
    return _whole(str(text), least, most, what)


def _whole(text: str, least: int, most: int, what: str) -> int:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not number.is_integer() or not least <= number <= most:
        raise WrongUse(f"{what}: a whole number from {least:,} to {most:,}, got {text!r}")
    return int(number)


def product(epsilon: Epsilon, factor: Epsilon) -> Epsilon:
    """An ε as many times another as a decimal says, rounded down to a billionth."""
    return Epsilon(decimal_text(epsilon.billionths * factor.billionths // BILLION))
