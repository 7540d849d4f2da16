"""Exact random choices from fair bits and whole numbers alone.

A `Below` returns a uniform whole number below a given one. The samplers here need nothing else, so
a test can walk every path of a sampler and add up its distribution as fractions.

Source: Canonne, Kamath, Steinke 2020, "The discrete Gaussian for differential privacy", NeurIPS,
algorithm 1 (the coin of probability e^-x).
"""

from collections.abc import Callable

from deniable.shared.privacy.randomness import Draw, kernel_draw

Below = Callable[[int], int]


def below(draw: Draw = kernel_draw) -> Below:
    """Return a source of uniform whole numbers below any bound, by rejection from random bits."""

    def uniform(bound: int) -> int:
        bits = (bound - 1).bit_length()
        if bits == 0:
            return 0
        whole_bytes = -(-bits // 8) * 8
        while True:
            roll = draw(whole_bytes) & ((1 << bits) - 1)
            if roll < bound:
                return roll

    return uniform


def bernoulli_exp(numerator: int, denominator: int, uniform: Below) -> bool:
    """Return True with probability exactly e^-(numerator / denominator), for any ratio >= 0.

    For x <= 1, stop at the first k whose coin of probability x / k fails: P[k > j] = x^j / j!, so k
    is odd with probability 1 - x + x^2/2 - ... = e^-x. A larger x is a product of such coins.
    """
    while numerator > denominator:
        if not _bernoulli_exp_small(1, 1, uniform):
            return False
        numerator -= denominator
    return _bernoulli_exp_small(numerator, denominator, uniform)


def _bernoulli_exp_small(numerator: int, denominator: int, uniform: Below) -> bool:
    k = 1
    while uniform(denominator * k) < numerator:
        k += 1
    return k % 2 == 1
