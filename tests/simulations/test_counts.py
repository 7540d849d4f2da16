"""Many counts: errors by formula and by simulation, and the smallest error of local protocols."""

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from deniable.shared.cli.command import main
from deniable.shared.privacy.epsilon import Epsilon
from deniable.simulations import simulate
from deniable.simulations.central.noise import CubeNoise, DiscreteLaplace
from deniable.simulations.studies.counts import reach


def test_a_price_agrees_with_independent_figures() -> None:
    """Check m V / n and 2 m^2 / (ε n)^2: the price is n / 139 at ε 1 for 64 counts.

    Two small differences remain: geometric noise has an error that is a part in 10^5 smaller, and
    choosing whom to ask adds (m - 1) / (4 (n - 1)).
    """
    n = 10**6
    rows = simulate("counts", epsilon=1, people=n, counts=64, repetitions=9).rows
    row, geometric = rows[0], next(row for row in rows if row["estimator"] == "geometric")
    noise = float(row["exact"] or 0) - 63 / (4 * (n - 1))
    assert noise == pytest.approx(64 * 0.9206735942 / n, rel=1e-6)
    assert noise / float(geometric["exact"] or 0) / n == pytest.approx(1 / 139, rel=2e-3)


@pytest.mark.parametrize("people", [20, 100_001])
def test_errors_agree_with_the_formulas(people: int) -> None:
    """Allow 6.5 Monte-Carlo errors, also for groups of different sizes.

    Twin: the formulas for another ε fail.
    """
    asked: dict[str, Any] = {"people": people, "counts": 7, "repetitions": 3000}
    rows, others = (simulate("counts", epsilon=e, **asked).rows for e in (1, 2))
    for row, other in zip(rows, others, strict=True):
        if row["measured"] is None:
            continue
        exact, measured, error = (float(row[key] or 0) for key in ("exact", "measured", "error"))
        assert abs(measured - exact) <= 6.5 * error, row
        assert abs(measured - float(other["exact"] or 0)) > 6.5 * error


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 1.5, 3.0])
@pytest.mark.parametrize("counts", [1, 2, 3])
def test_no_report_reveals_more_about_all_counts_than_the_limit(
    epsilon: float, counts: int
) -> None:
    """Check that |E f x| / E f is at most the limit's, over every f with values 1 and e^ε.

    Such f are extremal. One question reaches the limit up to ε = ln 3. Twin: a larger ε exceeds it.
    """
    corners = np.array(list(itertools.product((-1.0, 1.0), repeat=counts)))
    told = np.array(list(itertools.product((1.0, math.exp(epsilon)), repeat=2**counts)))
    largest = float((np.linalg.norm(told @ corners, axis=1) / told.sum(axis=1)).max())
    assert largest == pytest.approx(reach(epsilon, counts), rel=1e-12)
    if epsilon <= math.log(3) or counts == 1:
        assert largest == pytest.approx(math.tanh(epsilon / 2), rel=1e-12)
    assert largest > reach(epsilon * 0.9, counts)


def test_the_reach_of_four_and_of_many_counts() -> None:
    """Computed elsewhere: M^2 = 2.37 for 4 counts at ε 4, where the bound for many is larger."""
    assert reach(4.0, 4) ** 2 == pytest.approx(2.37, abs=5e-3)
    assert reach(4.0, 4) < reach(4.0, 5) == math.sqrt(math.expm1(4.0) / 8)


def test_a_cube_is_private_and_has_the_stated_size() -> None:
    """Check in fractions of q = e^-ε that no neighbour changes a probability by more than 1 / q.

    A cube of half side R has probability (2 R + 1)^m q^R. A point in it has q^(max |v|), except for
    what lies beyond the largest R. Twin: a point two steps away changes it by more.
    """
    q, last = Fraction(1, 3), 40
    for m in (1, 2, 3):
        sides = [(2 * r + 1) ** m * q**r for r in range(last + 1)]
        places = {
            v: sum(sides[r] / (2 * r + 1) ** m for r in range(max(map(abs, v)), last + 1))
            for v in itertools.product(range(-3, 4), repeat=m)
        }
        cut = q ** (last + 1) / (1 - q)
        for v, chance in places.items():
            assert chance + cut == q ** max(map(abs, v)) / (1 - q)
            for moved in itertools.product((-1, 0, 1), repeat=m):
                other = tuple(a + b for a, b in zip(v, moved, strict=True))
                if other in places:
                    assert (places[other] + cut) / (chance + cut) <= 1 / q
        assert places[(0,) * m] / places[(2,) * m] > 1 / q


@pytest.mark.parametrize("counts", [1, 2, 3, 64])
def test_the_radii_of_a_cube_have_the_stated_probabilities(counts: int) -> None:
    """Check the exact weights, and the variance of each count by weights and by draws.

    Draws are within 6.5 errors. One count has discrete Laplace noise. Twin: the variance of many
    counts is six times smaller.
    """
    noise = CubeNoise(Epsilon("0.7"), counts)
    weights = [math.exp(counts * math.log(2 * r + 1) - 0.7 * r) for r in range(60)]
    for r in range(59):
        assert noise.radii[r + 1] / noise.radii[r] == pytest.approx(weights[r + 1] / weights[r])
    assert noise.radii.sum() == pytest.approx(1, rel=1e-12)
    assert noise.radii[-1] < 1e-15
    squares = (noise.drawn(20_000, np.random.default_rng(5)) ** 2).mean(axis=1)
    assert abs(squares.mean() - noise.variance) <= 6.5 * squares.std() / math.sqrt(20_000)
    separate = DiscreteLaplace(Epsilon("0.7"), counts).variance
    if counts == 1:
        assert noise.variance == pytest.approx(separate, rel=1e-9)
    else:
        wanted = (counts + 1) * (counts + 2) / (6 * counts**2)
        assert noise.variance / separate == pytest.approx(wanted, rel=0.05)


def test_the_limit_is_continuous_where_e_to_epsilon_is_three() -> None:
    edge = math.log(3)
    assert reach(edge, 5) == pytest.approx(reach(edge + 1e-9, 5), rel=1e-6)
    assert reach(2.0, 1) < reach(2.0, 5) < reach(2.0, 1) * math.sqrt(5 / 3)  # several are more


def test_every_question_must_be_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "counts", "--people", "100", "--counts", "101"]) == 2
    assert "people must be at least as many as counts" in capsys.readouterr().err
