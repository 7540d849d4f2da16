"""What a shuffler buys: reports that say more, each alone, and give away as little when mixed.

How much more, ε₀ for ε, is what the planner says too (`deniable.server.planning.shuffled`).
Reports are those of the mechanism that a question would have at ε₀, one from each person; with
several reports from each, shufflers can do better, at least in theory.
"""

from __future__ import annotations

from deniable.server.planning.shuffled import DELTA
from deniable.simulations.frame import option
from deniable.simulations.frame.comparison import Series
from deniable.simulations.frame.figures import Look

TRUST = "needs n honest people and trusts the shuffler"
SHUFFLED = Series("shuffled", "shuffled", "shuffled", Look("#8c510a", "X", (0, (4, 1, 1, 1))))


def option_for() -> option.Option:
    words = "the probability that a shuffler's promise gives up"
    return option.Option("delta", DELTA, option.inside(), words, "δ")
