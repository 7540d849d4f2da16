"""Variance of a choice compared with the smallest possible, and the geometries that reach it.

The limit for any local mechanism with k options is Ye and Barg's, to first order. It is computed
here independently: the minimum of (d E + k - d)^2 / (d (k - d)) over d, with E = e^ε.
"""

from __future__ import annotations

import math
import random
from itertools import combinations

import numpy as np
import pytest

from deniable.server.estimation.shares import shares, support_counts
from deniable.server.planning.forecast import least_n_variance
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import ProjectiveGeometry, SubsetSelection, support_design
from deniable.shared.privacy.mechanisms.projective_geometry import (
    Geometry,
    best_geometry,
    difference_set,
    geometries,
)
from deniable.simulations.population import fixed, rates

EDGES = (
    "0.345",
    "0.35",
    "1.04",
    "2.045",
    "3.29",
    "3.39",
)  # ε at which two geometries have equal variances
OTHERS = "0.01 0.1 0.25 0.5 0.7 0.9 1 1.2 1.5 2 2.5 3 3.2 3.6 3.8 4"
EPSILONS = (*EDGES, *OTHERS.split())
FEW = (2, 3, 4, 6, 10, 16, 40, 128, 1_024, 8_192)
MANY = (8_193, 9_842, 16_106, 19_609, 29_525, 32_768, 44_734, 52_060, 52_061, 60_000, 65_536)


def limit(epsilon: str, k: int) -> float:
    """Return n times the least variance of one option at equal shares."""
    e, d = math.exp(float(epsilon)), np.arange(1, k, dtype=float)
    told = float((k * d * (k - d) * (e - 1) ** 2 / (d * e + k - d) ** 2).max())
    return ((k - 1) ** 2 / told - (k - 1) / k) / k


@pytest.mark.parametrize("options", [*FEW, *MANY])
def test_a_choice_is_never_more_than_three_percent_above_the_limit(options: int) -> None:
    for epsilon in EPSILONS:
        least = limit(epsilon, options)
        chosen = support_design("choice", Epsilon(epsilon), options)
        assert least * (1 - 1e-9) <= chosen.predicted_error(1) ** 2 <= 1.03 * least, epsilon
        assert least_n_variance(chosen) == pytest.approx(least, rel=1e-9)


def test_the_chosen_geometry_has_the_least_variance() -> None:
    for epsilon, options in (("0.4", 300), ("1", 8_193), ("4", 65_536), ("20", 50)):
        best = ProjectiveGeometry(Epsilon(epsilon), options)
        for other in geometries(options):
            found = Other(Epsilon(epsilon), options, other)
            assert best.predicted_error(1) <= found.predicted_error(1) * (1 + 1e-12)


class Other(ProjectiveGeometry):
    """Mechanism with a geometry that the test chooses."""

    def __init__(self, epsilon: Epsilon, options: int, geometry: Geometry) -> None:
        super(ProjectiveGeometry, self).__init__(epsilon, options, geometry.sizes)
        self.geometry = geometry


def common(geometry: Geometry) -> tuple[int, set[int]]:
    """Count the symbols that support an option, and those that support two, for all pairs."""
    block = np.zeros(geometry.sizes[0])
    block[np.array(difference_set(geometry))] = 1
    spectrum = np.abs(np.fft.rfft(block)) ** 2
    same = np.rint(np.fft.irfft(spectrum, len(block))).astype(int)
    return int(same[0]), set(same[1 : geometry.points].tolist())


def of_many_options() -> set[Geometry]:
    return {best_geometry(Epsilon(e), k) for e in (*EPSILONS, "8") for k in (19_609, 65_536)}


SMALL = {geometry for k in (2, 6, 11, 33, 300) for geometry in geometries(k) if geometry.q < 64}


@pytest.mark.parametrize("geometry", sorted(SMALL | of_many_options(), key=str), ids=str)
def test_any_two_options_share_the_same_number_of_symbols(geometry: Geometry) -> None:
    _, r, both = geometry.sizes
    assert common(geometry) == (r, {both})


@pytest.mark.long
def test_any_two_options_of_every_geometry_share_the_same_number_of_symbols() -> None:
    for options in (2, 100, 1_024, 8_192, 8_193, 20_000, 40_000, 65_536):
        for geometry in geometries(options):
            _, r, both = geometry.sizes
            assert common(geometry) == (r, {both})


def test_the_test_above_can_fail() -> None:
    """A set of the right size that is not a difference set: an interval of the circle."""
    geometry = Geometry(3, 1, 3)
    symbols, r, both = geometry.sizes
    stretch = [
        len({d % symbols for d in range(r)} & {(d + x) % symbols for d in range(r)})
        for x in range(1, symbols)
    ]
    assert len(set(stretch)) > 1
    assert common(geometry) == (r, {both})


def test_a_hyperplane_of_the_plane_over_three_elements_is_a_line() -> None:
    """The axioms of the projective plane of order 3 hold.

    There are 13 points and 13 lines of 4 points, and any two lines meet in exactly one point.
    """
    geometry = Geometry(3, 1, 3)
    assert (geometry.points, geometry.sizes) == (13, (13, 4, 1))
    line = set(difference_set(geometry))
    lines = [{(point + y) % 13 for point in line} for y in range(13)]
    assert all(len(a & b) == 1 for a, b in combinations(lines, 2))


@pytest.mark.parametrize("options", [11, 300, 65_536])
def test_supports_are_counted_symbol_by_symbol(options: int) -> None:
    """Check that the transform equals the exact sum over the symbol of each report."""
    design = ProjectiveGeometry(Epsilon("1"), options)
    draw = random.Random(5).getrandbits
    symbols = [design.randomize(design.options // 2, draw) for _ in range(40)]
    expected = np.zeros(options, np.int64)
    for symbol in symbols:
        expected[list(design.supported_by(symbol))] += 1
    cells = np.bincount(symbols, minlength=design.cells)
    assert (support_counts(design, cells) == expected).all()


def test_supports_of_a_trillion_reports_are_exact() -> None:
    design = ProjectiveGeometry(Epsilon("1"), 65_536)
    cells = np.random.default_rng(3).multinomial(10**12, np.full(design.cells, 1 / design.cells))
    found = support_counts(design, cells)
    places = np.array(design.difference_set, np.int64)
    for option in (0, 1, 777, 65_535):
        assert found[option] == cells[places - option].sum()


def test_expected_cells_give_back_the_shares() -> None:
    """Pass expected cells through the transform and the estimator."""
    for epsilon, options in (("0.4", 100), ("1", 1_000), ("3", 20_000)):
        design = ProjectiveGeometry(Epsilon(epsilon), options)
        held = np.random.default_rng(4).dirichlet(np.full(options, 0.01))
        cells = np.rint(10**15 * rates(design, held.tolist())).astype(np.int64)
        found = shares(support_counts(design, cells), int(cells.sum()), design)
        assert np.abs(found.estimate - held).max() < 1e-6


def test_large_populations_have_the_predicted_variance() -> None:
    """Draw 100 rounds of a million people; their variance agrees within a tenth.

    Each variance is a mean over 200 options with a chi-squared distribution, so a tenth is more
    than five deviations.
    """
    design, rng = ProjectiveGeometry(Epsilon("1"), 200), np.random.default_rng(6)
    held = np.full(200, 5_000)
    counts = fixed(design, held, 100, rng).counts
    estimates = np.array(
        [shares(support_counts(design, c), 10**6, design).estimate for c in counts]
    )
    measured = float(((estimates - 1 / 200) ** 2).mean())
    assert measured == pytest.approx(design.predicted_error(10**6) ** 2, rel=0.1)
    worse = SubsetSelection(Epsilon("0.8"), 200).predicted_error(10**6) ** 2
    assert measured != pytest.approx(worse, rel=0.1)
