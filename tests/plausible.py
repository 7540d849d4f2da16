"""Statistical assertion that all tests use, with a bound on its false alarms.

An assertion at alpha = 1e-9 fails a correct program at most once in 1e9 runs, for every number of
trials and every rate, because each tail of a binomial obeys

    P[X/n beyond r] <= exp(-n KL(r || rate))

(Chernoff 1952; Hoeffding 1963). The bound also holds for sums of independent draws with different
rates.
"""

import math

import pytest

ALPHA = 1e-9


def assert_plausible(successes: int, trials: int, rate: float, alpha: float = ALPHA) -> None:
    """Fail if this number of successes would hardly ever come from `trials` draws at this rate."""
    surprise = trials * _divergence(successes / trials, rate)
    assert surprise <= math.log(2 / alpha), (
        f"{successes}/{trials} successes where the rate should be {rate:.6g}: "
        f"probability below {2 * math.exp(-surprise):.1e}, allowed {alpha:.1e}"
    )


def assert_implausible(successes: int, trials: int, rate: float) -> None:
    """Check, in a negative control, that `assert_plausible` rejects these successes."""
    with pytest.raises(AssertionError, match="probability below"):
        assert_plausible(successes, trials, rate)


def _divergence(observed: float, rate: float) -> float:
    """Return KL(observed || rate), the divergence of two coins with these rates."""
    parts = ((observed, rate), (1 - observed, 1 - rate))
    return sum(a * math.log(a / b) if b > 0 else math.inf for a, b in parts if a > 0)
