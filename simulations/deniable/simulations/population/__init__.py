"""Tallies of whole populations, simulated without simulating each person.

`whole_numbers` splits people into whole numbers and places them on grids. `tallies` draws the
counts of n people's reports; `walk` and `vectors` do so for special mechanisms. The sum of
independent reports has a known distribution, so the time does not depend on n. Each sampler states
how exact it is:

    "joint"        the counts have exactly the joint distribution of reports from n devices
    "marginals"    each count has its exact distribution, but dependence between counts is ignored
    "moments"      means, variances and covariances are exact, and the distribution is normal

Probabilities are doubles with a relative error of about 1e-16, which not even a thousand
repetitions with a billion people could detect. Randomness comes from an ordinary generator, not
from the kernel, so only simulations may import this package.
"""

from deniable.simulations.population.tallies import JOINT, drawn, fixed, rates, text_tally
from deniable.simulations.population.vectors import vector_sums
from deniable.simulations.population.whole_numbers import grid_distribution, on_grid, whole_people

__all__ = [
    "JOINT", "drawn", "fixed", "grid_distribution", "on_grid", "rates", "text_tally",
    "vector_sums", "whole_people",
]  # fmt: skip
