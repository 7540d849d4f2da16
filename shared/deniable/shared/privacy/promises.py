"""Promises: sentences that state ε as odds that a person can check.

Odds are rounded up, so the stated odds are never less than what a report reveals.
"""

from deniable.shared.privacy.epsilon import BILLION, decimal_text
from deniable.shared.privacy.thresholds import ONE, exp_interval

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


def suspicion_growth(billionths: int) -> str:
    """Return how far a report of this ε can raise a suspicion of 10 %.

    By Bayes, odds of 1 to 9 become at most e^ε to 9: the share e^ε / (e^ε + 9), in whole percent,
    rounded up.

    >>> suspicion_growth(1_000_000_000)
    'a suspicion of 10 % can grow to at most 24 % (ε 1)'
    >>> suspicion_growth(20_000_000_000)
    'a suspicion of 10 % can grow beyond 99 % (ε 20)'
    """
    bits, epsilon = 128, decimal_text(billionths)
    upper = exp_interval(min(billionths, LARGEST_TOLD), BILLION, bits).high
    share = -(-100 * upper // (upper + (9 << bits)))
    limit = f"to at most {share} %" if share < 100 else "beyond 99 %"
    return f"a suspicion of 10 % can grow {limit} (ε {epsilon})"


def percent(units: int) -> str:
    """A probability in units of 2^-64, with three digits, and never quite certain.

    >>> percent(2**63), percent(2**64 - 1), percent(0)
    ('50 %', 'over 99.9 %', 'under 0.001 %')
    """
    share = 100 * units / ONE
    if share > 99.9:
        return "over 99.9 %"
    return f"{share:.3g} %" if share >= 0.001 else "under 0.001 %"


def odds_change(billionths: int) -> str:
    """Return how much reports of this ε can change what anyone believes about a person.

    >>> odds_change(2_000_000_000)
    'by a factor of at most 7.4 (ε 2)'
    """
    return f"by a factor of at most {odds_factor(billionths)} (ε {decimal_text(billionths)})"


def round_promise(billionths: int, repeat_rounds: int = 1) -> str:
    """One round's, or that of so many rounds that share one report."""
    change = odds_change(billionths)
    rounds = f"{repeat_rounds} rounds that share a report" if repeat_rounds > 1 else "one round"
    return f"everything sent in {rounds} changes the odds about any respondent {change}"


def lifetime_promise(billionths: int, rounds: int, repeat_rounds: int = 1) -> str:
    """Return the promise for all rounds of a survey together."""
    count, draws = (
        f"its {rounds} rounds" if rounds > 1 else "its one round",
        -(-rounds // repeat_rounds),
    )
    return f"everything sent in {count} changes them {odds_change(billionths * draws)}"
