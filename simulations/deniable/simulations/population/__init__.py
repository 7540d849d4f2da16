"""Tallies of whole populations, drawn without playing the people one by one.

`whole_numbers` puts people into whole numbers and onto grids. `tallies` then draws the counts that
n people's reports add up to, with `walk` and `vectors` for mechanisms of their own. A sum of
independent reports has a known distribution, and sampling takes a time that does not depend on n.
Each generator states how exact it is:

    "joint"        the counts together have exactly the distribution that n devices would give
    "marginals"    each count has its exact distribution; dependence between them is left out
    "moments"      means, variances and covariances are exact, and the distribution is normal

A number is exact up to the rounding of the doubles in which numpy keeps probabilities, about 1e-16
of each: a billion people times a thousand repetitions could not show it. Randomness comes from an
ordinary generator, not from the kernel, so only simulations may import this.
"""

from deniable.simulations.population.tallies import (
    JOINT,
    MARGINALS,
    MOMENTS,
    Tallies,
    drawn,
    fixed,
    rates,
    text_tally,
)
from deniable.simulations.population.vectors import vector_sums
from deniable.simulations.population.whole_numbers import grid_distribution, on_grid, whole_people

__all__ = [
    "JOINT",
    "MARGINALS",
    "MOMENTS",
    "Tallies",
    "drawn",
    "fixed",
    "grid_distribution",
    "on_grid",
    "rates",
    "text_tally",
    "vector_sums",
    "whole_people",
]
