"""Exact distribution of a sampler, in fractions, by walking every path that it can take."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction
from typing import TypeVar

from deniable.simulations.central.discrete_laplace import Below

Outcome = TypeVar("Outcome")


class _MoreNeeded(Exception):
    def __init__(self, bound: int) -> None:
        self.bound = bound


def exact_distribution(
    sampler: Callable[[Below], Outcome], leave: Fraction
) -> tuple[dict[Outcome, Fraction], Fraction]:
    """Return the probability of each outcome over the walked paths, and of all other paths.

    Paths less likely than `leave` are not walked. The true probability of an outcome lies between
    its returned value and that value plus the rest.
    """
    distribution: dict[Outcome, Fraction] = defaultdict(Fraction)
    rest = Fraction(0)
    paths: list[tuple[tuple[int, ...], Fraction]] = [((), Fraction(1))]
    while paths:
        path, probability = paths.pop()
        try:
            distribution[sampler(_replay(path))] += probability
        except _MoreNeeded as more:
            each = probability / more.bound
            if each < leave:
                rest += probability
            else:
                paths += [((*path, roll), each) for roll in range(more.bound)]
    return dict(distribution), rest


def _replay(path: tuple[int, ...]) -> Below:
    rolls = iter(path)

    def uniform(bound: int) -> int:
        if bound == 1:
            return 0
        for roll in rolls:
            return roll
        raise _MoreNeeded(bound)

    return uniform
