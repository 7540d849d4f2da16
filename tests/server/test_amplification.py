"""Amplification by shuffling, compared with published values and an exact sum over outcomes."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from math import comb

import pytest

from deniable.server.shuffling.amplification import (
    report_epsilon,
    shuffled_delta,
    shuffled_epsilon,
)
from deniable.shared.privacy.epsilon import Epsilon

# n, ε₀, ε at δ = 1e-6: the numerical bound of Feldman, McMillan, Talwar (2023), which an
# independent program for the privacy blanket confirms
PUBLISHED = [
    (1_000, 0.5, 0.062687), (1_000, 1, 0.148671), (1_000, 2, 0.397087), (1_000, 4, 1.852907),
    (10_000, 0.5, 0.018117), (10_000, 1, 0.043206), (10_000, 2, 0.114400), (10_000, 4, 0.410812),
    (100_000, 0.5, 0.005153), (100_000, 1, 0.012430), (100_000, 2, 0.033187),
    (100_000, 4, 0.118153),
    (1_000_000, 0.5, 0.001431), (1_000_000, 1, 0.003514), (1_000_000, 2, 0.009517),
    (1_000_000, 4, 0.034280),
]  # fmt: skip
# ε₀, n, ε: four shuffled rounds of randomized response, with ε₀ to two digits
SHUFFLED_RESPONSE = [(0.73, 1_000, 0.1), (1.83, 10_000, 0.1), (3.27, 1_000, 1.0), (5.47, 10_000, 1)]


@pytest.mark.parametrize(("people", "local", "epsilon"), PUBLISHED)
def test_amplification_equals_published_values(people: int, local: float, epsilon: float) -> None:
    assert round(shuffled_epsilon(local, people, 1e-6), 6) == epsilon


@pytest.mark.parametrize(("people", "local", "epsilon"), PUBLISHED)
def test_the_stated_epsilon_is_never_below_the_realised_epsilon(
    people: int, local: float, epsilon: float
) -> None:
    """Rounding favours privacy: up for the ε of all reports, down for the ε of each report."""
    assert shuffled_delta(local, people, shuffled_epsilon(local, people, 1e-6)) <= 1e-6
    whole = Epsilon(f"{epsilon:.6f}")
    alone = float(report_epsilon(whole, people))
    assert shuffled_delta(alone, people, float(whole)) <= 1e-6
    assert shuffled_delta(alone + 1.0001e-4, people, float(whole)) > 1e-6


@pytest.mark.parametrize(("local", "people", "epsilon"), SHUFFLED_RESPONSE)
def test_the_table_of_epsilons_survives_a_round_trip(
    local: float, people: int, epsilon: float
) -> None:
    assert shuffled_epsilon(local, people, 1e-6) <= epsilon * 1.0001
    assert shuffled_epsilon(local + 0.01, people, 1e-6) > epsilon


@pytest.mark.parametrize("odds", [Fraction(3, 2), Fraction(3), Fraction(20)])
@pytest.mark.parametrize("people", [1, 2, 7, 12])
@pytest.mark.parametrize("factor", [Fraction(1), Fraction(11, 10), Fraction(2)])
def test_delta_is_the_divergence_of_the_pair_summed_exactly(
    odds: Fraction, people: int, factor: Fraction
) -> None:
    """Sum in fractions over all pairs of counts, without any formula from the server's code."""
    first, second = pair(odds, people), pair(1 / odds, people)
    exact = sum(max(Fraction(0), first[x] - factor * second.get(x, Fraction(0))) for x in first)
    got = shuffled_delta(math.log(odds), people, math.log(factor))
    assert got == pytest.approx(float(exact), rel=1e-12, abs=2e-16)


def pair(odds: Fraction, people: int) -> dict[tuple[int, int], Fraction]:
    """Return the distribution of (A + D, C - A + 1 - D); 1/odds gives it for the other answer."""
    q = odds / (odds + 1)
    blanket = 2 / (max(odds, 1 / odds) + 1)
    law: dict[tuple[int, int], Fraction] = {}
    for c in range(people):
        probability = comb(people - 1, c) * blanket**c * (1 - blanket) ** (people - 1 - c)
        for a, d in product(range(c + 1), (0, 1)):
            place = a + d, c - a + 1 - d
            share = probability * Fraction(comb(c, a), 2**c) * (q if d else 1 - q)
            law[place] = law.get(place, Fraction(0)) + share
    return law


@pytest.mark.parametrize("people", [2, 1_000, 30_000])
@pytest.mark.parametrize("local", [0.01, 1.0, 8.0, 20.0])
def test_epsilon_is_rounded_up_and_hardly_more_than_necessary(local: float, people: int) -> None:
    epsilon = shuffled_epsilon(local, people, 1e-6)
    assert shuffled_delta(local, people, epsilon) <= 1e-6
    if 0 < epsilon < local:
        assert shuffled_delta(local, people, epsilon * (1 - 1e-5)) > 1e-6


def test_more_people_amplify_more_and_one_person_not_at_all() -> None:
    found = [shuffled_epsilon(1.0, people, 1e-6) for people in (1, 10, 100, 1_000, 10**5)]
    assert found == sorted(found, reverse=True)
    assert found[0] == 1.0
    assert found[-1] < 0.02


def test_a_delta_that_allows_everything_gives_epsilon_zero() -> None:
    assert shuffled_epsilon(0.001, 10**6, 0.5) == 0.0


def test_a_shuffled_randomized_response_is_no_worse() -> None:
    """If everyone else answers the same, the true ε is a lower bound for every formula.

    For 1,000 people at ε 1, the exact sum over the counts of ones gives an ε of .126614.
    """
    people, odds = 1_000, math.e
    q, least = odds / (odds + 1), 0.126614
    rest = [comb(people - 1, k) * q**k * (1 - q) ** (people - 1 - k) for k in range(people)]

    def ones(p: float) -> list[float]:
        return [
            p * (rest[k - 1] if k else 0) + (1 - p) * (rest[k] if k < people else 0)
            for k in range(people + 1)
        ]

    def delta(first: list[float], second: list[float]) -> float:
        pairs = zip(first, second, strict=True)
        return sum(max(0.0, one - math.exp(least) * other) for one, other in pairs)

    worst = max(delta(ones(1 - q), ones(q)), delta(ones(q), ones(1 - q)))
    assert worst == pytest.approx(1e-6, rel=1e-3)
    assert shuffled_epsilon(1.0, people, 1e-6) >= least
