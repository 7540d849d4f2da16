"""What a shuffler buys: reports that say more, each alone, and give away as little when mixed.

A shuffler passes on n reports in random order. If it is honest, and n people are, nobody learns
more from them than (ε, δ) of any one, while each report is ε₀-private with an ε₀ that grows with n:
the largest one is found by bisection of the divergence that the server states (its `shuffled.py`,
which has the sources). Without the shuffler, or among liars, ε₀ is all that a report promises.

Reports are those of the mechanism that a question would have at ε₀, one from each person; with
several reports from each, shufflers can do better, at least in theory.
"""

from __future__ import annotations

import math
from functools import lru_cache

from deniable.server.estimation.shuffled import shuffled_delta
from deniable.shared.privacy.epsilon import BILLION, MOST, Epsilon, decimal_text
from deniable.simulations.frame import option
from deniable.simulations.frame.comparison import Series
from deniable.simulations.frame.figures import Look

DELTA = 1e-6
STEP = BILLION // 10_000  # of ε₀, in billionths
TRUST = "needs n honest people and trusts the shuffler"
SHUFFLED = Series("shuffled", "shuffled", "shuffled", Look("#8c510a", "X", (0, (4, 1, 1, 1))))


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


def option_for() -> option.Option:
    words = "the probability that a shuffler's promise gives up"
    return option.Option("delta", DELTA, option.inside(), words, "δ")


def variance_of_a_bit(epsilon: float) -> float:
    """V, of one report of randomized response."""
    return 1 / (4 * math.sinh(epsilon / 2) ** 2)
