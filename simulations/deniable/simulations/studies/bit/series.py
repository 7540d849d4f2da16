"""The models of a yes-or-no question, and how they look."""

from __future__ import annotations

from deniable.simulations.engine.comparison import SHUFFLED, Series, look

LOCAL = Series("local", "randomized-response", "randomized response", look(0))
GEOMETRIC = Series("central", "geometric", "trusted, geometric", look(1))
LAPLACE = Series("central", "laplace", "trusted, Laplace", look(2))
SERIES = (LOCAL, SHUFFLED, GEOMETRIC, LAPLACE)
NOISES = ("geometric", "laplace")
