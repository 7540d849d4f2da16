"""ε as the exact decimal that people write, never as a float.

Whole billionths of ε are what is stored, summed and compared: sums of charges are exact integers,
so a cap of 0.3 holds three charges of 0.1.
"""

import re
from dataclasses import dataclass

from deniable.shared.errors import InvalidEpsilon

BILLION = 10**9
MOST = 20
_DECIMAL = re.compile(r"(\d{1,9})(?:\.(\d{1,9}))?", re.ASCII)


@dataclass(frozen=True, order=True, slots=True, init=False)
class Epsilon:
    """Privacy cost of one answer, or of one round of answers.

    >>> Epsilon("0.5"), Epsilon("0.50") == Epsilon("0.5")
    (Epsilon('0.5'), True)
    """

    billionths: int

    def __init__(self, text: str) -> None:
        billionths = parse_billionths(text)
        if not 0 < billionths <= MOST * BILLION:
            raise InvalidEpsilon(f"ε must be above 0 and at most {MOST}, got {text}")
        object.__setattr__(self, "billionths", billionths)

    @property
    def ratio(self) -> tuple[int, int]:
        """ε as numerator and denominator."""
        return self.billionths, BILLION

    def __str__(self) -> str:
        return decimal_text(self.billionths)

    def __repr__(self) -> str:
        return f"Epsilon({str(self)!r})"

    def __float__(self) -> float:
        return self.billionths / BILLION


def parse_billionths(text: object) -> int:
    """Decimal text as whole billionths, exactly; up to nine digits on either side of the point."""
    match = _DECIMAL.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise InvalidEpsilon(
            f'ε is written as decimal text with at most nine decimals, like "0.5"; got {text!r}'
        )
    whole, decimals = match.groups(default="")
    return int(whole) * BILLION + int(decimals.ljust(9, "0"))


def decimal_text(billionths: int) -> str:
    """The shortest decimal text of a number of billionths.

    >>> decimal_text(500_000_000), decimal_text(2_000_000_000)
    ('0.5', '2')
    """
    whole, rest = divmod(billionths, BILLION)
    return f"{whole}.{rest:09d}".rstrip("0").rstrip(".")
