"""Whole populations at once: the tallies that n people's reports add up to, without the people.

A sum of independent reports has a known distribution, and drawing from it takes time that does not
depend on n. Each generator says how exact it is:

    "joint"        the counts together have exactly the distribution that n devices would give
    "marginals"    each count on its own does; how they depend on each other is left out
    "moments"      means, variances and covariances are exact, and the distribution is normal

A number is exact up to the rounding of the doubles in which numpy keeps probabilities, about 1e-16
of each: a billion people times a thousand repetitions could not show it.

Only simulations may import this: what it draws from is an ordinary generator, not the kernel.
"""

from deniable.simulations.population.noise import discrete_laplace, discrete_laplace_sum
from deniable.simulations.population.numbers import grid_distribution, on_grid
from deniable.simulations.population.people import whole_people
from deniable.simulations.population.tallies import (
    JOINT,
    MARGINALS,
    MOMENTS,
    Tallies,
    drawn,
    fixed,
    rates,
)
from deniable.simulations.population.texts import text_tally
from deniable.simulations.population.vectors import of_vectors

__all__ = [
    "JOINT",
    "MARGINALS",
    "MOMENTS",
    "Tallies",
    "discrete_laplace",
    "discrete_laplace_sum",
    "drawn",
    "fixed",
    "grid_distribution",
    "of_vectors",
    "on_grid",
    "rates",
    "text_tally",
    "whole_people",
]
