"""How much more a report may say where a shuffler mixes it with others.

A shuffler passes on n reports in random order. If it is honest, and n people are, nobody learns
more from them than (ε, δ) of any one, while each report is ε₀-private with an ε₀ that grows with n:
the largest one is found by bisection of the divergence in `estimation/shuffled.py`, which has the
sources. Without the shuffler, or among liars, ε₀ is all that a report promises.
"""

from __future__ import annotations

from functools import lru_cache

from deniable.server.estimation.shuffled import shuffled_delta
from deniable.shared.privacy.epsilon import BILLION, MOST, Epsilon, decimal_text

DELTA = 1e-6
STEP = BILLION // 10_000  # of ε₀, in billionths


@lru_cache(maxsize=256)
def report_epsilon(epsilon: Epsilon, people: int, delta: float = DELTA) -> Epsilon:
    """The largest ε₀ of one report with which n shuffled ones are (ε, δ)-private: rounded down to
    four decimals, at least ε and at most what a survey may have.

    >>> report_epsilon(Epsilon("0.1"), 1_000), report_epsilon(Epsilon("0.1"), 1_000_000)
    (Epsilon('0.7328'), Epsilon('5.9444'))
    """
    low, high = epsilon.billionths // STEP, MOST * BILLION // STEP + 1
    while high - low > 1:  # δ grows with ε₀
        middle = (low + high) // 2
        if shuffled_delta(middle * STEP / BILLION, people, float(epsilon)) <= delta:
            low = middle
        else:
            high = middle
    return Epsilon(decimal_text(max(epsilon.billionths, low * STEP)))


def usual_delta(people: int) -> float:
    """One in a million, or a hundredth of a person where there are many."""
    return min(DELTA, 1 / (100 * people))
