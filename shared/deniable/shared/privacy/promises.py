"""What ε means, in words that a person can check: odds, and nothing that is not true.

Odds are rounded up: what is said is never less than what is given away.
"""

from deniable.shared.privacy.epsilon import BILLION, decimal_text
from deniable.shared.privacy.thresholds import exp_interval

LARGEST_TOLD = 30 * BILLION  # beyond, e^ε is a number without meaning for anyone


def odds_factor(billionths: int) -> str:
    """e^ε with two digits, rounded up.

    >>> odds_factor(2_000_000_000), odds_factor(500_000_000), odds_factor(6_000_000_000)
    ('7.4', '1.7', '410')
    """
    if billionths > LARGEST_TOLD:
        return "more than a trillion"
    bits = 128
    upper = exp_interval(billionths, BILLION, bits).high
    tenths = -(-10 * upper >> bits)
    if tenths < 100:
        return f"{tenths // 10}.{tenths % 10}".removesuffix(".0")
    whole = -(-upper >> bits)
    unit = 10 ** (len(str(whole)) - 2)
    return f"{-(-whole // unit) * unit:,}"


def round_promise(billionths: int) -> str:
    """What one round's reports can do to what anyone believes of a person."""
    return (
        f"everything sent in one round changes the odds about anyone at most "
        f"{odds_factor(billionths)} times (ε {decimal_text(billionths)})"
    )


def lifetime_promise(billionths: int, rounds: int) -> str:
    """The same for all the rounds of a survey."""
    total = billionths * rounds
    count = f"its {rounds} rounds" if rounds > 1 else "its one round"
    return (
        f"everything sent in {count} changes them at most {odds_factor(total)} times "
        f"(ε {decimal_text(total)})"
    )
