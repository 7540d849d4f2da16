"""Tables of two attributes and synthetic people: characters, and noise for one person's effect."""

import itertools
import math

import numpy as np
import pytest

from deniable.shared.privacy.epsilon import Epsilon
from deniable.simulations import simulate
from deniable.simulations.central.noise import DiscreteLaplace
from deniable.simulations.engine.estimators import number
from deniable.simulations.studies.synthetic import FAILURE, Attributes, blr, limit


def counted(people: Attributes, one: int, other: int, weights: np.ndarray) -> np.ndarray:
    """Return the shares of the four cells of each pair, counted person by person."""
    found = np.zeros((2, 2))
    for x, weight in enumerate(weights):
        found[x >> one & 1, x >> other & 1] += weight
    return found.ravel()


def test_tables_equal_the_counts_of_the_people() -> None:
    people = Attributes(4)
    weights = np.random.default_rng(1).dirichlet(np.ones(16))
    for distribution in (weights, people.population):
        tables = people.tables(distribution @ people.characters)
        pairs = itertools.combinations(range(4), 2)
        for table, (one, other) in zip(tables, pairs, strict=True):
            assert table == pytest.approx(counted(people, one, other, distribution), abs=1e-12)
    truth = people.population @ people.characters
    assert truth == pytest.approx(
        [0] * 4 + [0.6 ** (b - a) for a, b in itertools.combinations(range(4), 2)], abs=1e-12
    )


@pytest.mark.parametrize("d", [2, 3, 5])
def test_noise_covers_the_effect_of_one_person(d: int) -> None:
    """Replace any person by any other: cells change by 2 per pair, counts of characters by 1 each.

    The noise on them has a separate proof. Twin: noise for one pair fewer would not be enough.
    """
    people = Attributes(d)
    cells = np.rint(people.tables(people.characters)).astype(int)  # each person alone: 0 and 1
    moved = np.abs(cells[:, None] - cells[None]).sum(axis=(2, 3)).max()
    assert moved == 2 * len(people.pairs) > 2 * (len(people.pairs) - 1)
    counts = ((1 + people.characters) / 2).astype(int)
    most = np.abs(counts[:, None] - counts[None]).sum(axis=2).max()
    assert most <= len(people.subsets)
    noise = DiscreteLaplace(Epsilon("1"), int(moved))
    assert noise.probability(0) / noise.probability(int(moved)) <= math.e * (1 + 1e-12)


def test_errors_agree_with_independent_figures() -> None:
    """Compare errors for d = 8, a million people and ε 1.

    0.0056 is 3 T C^2 / (16 n) for unrelated attributes; here it is one percent lower. 8e-5 is 8
    (28)^2 / (ε n)^2.
    """
    rows = simulate("synthetic", epsilon=1, people=1e6, attributes=8, repetitions=4).rows
    exact = {(row["model"], row["estimator"]): float(row["exact"] or 0) for row in rows}
    alone = 3 * 36 / math.tanh(0.5) ** 2 / 16e6
    assert math.sqrt(alone) == pytest.approx(0.0056, abs=5e-5)
    assert 0.97 * alone < exact["local", "characters"] < alone
    noise = math.sqrt(exact["central", "cells"])
    assert noise == pytest.approx(math.sqrt(8) * 28 / 1e6, rel=1e-3)
    assert noise == pytest.approx(8e-5, abs=1e-6)
    joint = exact["central", "characters"]
    assert joint == pytest.approx(37 * 38 / 4e12, rel=1e-3)
    assert 1.5 * 36**2 / 1e12 / joint == pytest.approx(5.53, abs=0.01)  # separate noise


def test_simulated_errors_agree_with_the_formulas() -> None:
    """Allow 6.5 Monte-Carlo errors, also for groups of different sizes.

    Twin: for another ε, the errors of devices and of noise fail.
    """
    rows, others = (
        simulate("synthetic", epsilon=e, people=1_007, attributes=3, repetitions=3000).rows
        for e in (1, 1.5)
    )
    checked = 0
    for row, other in zip(rows, others, strict=True):
        for exact, measured, error in (
            ("exact", "measured", "error"), ("exact_drawn", "measured_drawn", "error_drawn"),
        ):  # fmt: skip
            if row[exact] is None or row[measured] is None:
                continue
            value, bar = float(row[measured] or 0), 6.5 * float(row[error] or 0)
            assert abs(value - float(row[exact] or 0)) <= bar, row
            if row["model"] == "local" or exact == "exact":
                assert abs(value - float(other[exact] or 0)) > bar, row
                checked += 1
    assert checked == 3


def test_no_simulated_error_is_below_its_limit() -> None:
    """Rows of synthetic people have no limit, because their tables can be below it.

    An average of 300 repetitions is 9 standard errors below its limit with probability < 1e-9.
    """
    rows = simulate(
        "synthetic", epsilon=1, attributes=[8, 10], people=1000, repetitions=300, seed=1, on="local"
    ).rows
    limited = [row for row in rows if row["limit_drawn"] is not None and row["measured_drawn"]]
    assert {row["estimator"] for row in rows} - {row["estimator"] for row in limited} == {
        "synthetic", "blr"
    }  # fmt: skip
    for row in limited:
        measured, least = number(row, "measured_drawn"), number(row, "limit_drawn")
        assert measured > least - 9 * number(row, "error_drawn"), row


def test_fitted_people_have_the_given_characters() -> None:
    """Synthetic people are produced even if none can have the given characters."""
    people = Attributes(5)
    weights = np.random.default_rng(2).dirichlet(np.full(32, 5.0), 3)
    wanted = weights @ people.characters
    found = people.fitted(wanted)
    assert np.abs(found @ people.characters - wanted).max() < 2e-3
    impossible = people.fitted(np.full((1, 15), -0.9))
    for table in (found, impossible):
        assert table.min() >= 0
        assert table.sum(axis=1) == pytest.approx(1)


@pytest.mark.parametrize("epsilon", [0.5, 1.5])
def test_no_report_reveals_more_about_all_characters_than_the_limit(epsilon: float) -> None:
    """Check every function f of two attributes that has two values.

    |E f χ|^2 / (E f)^2 is at most the value in the limit, because characters are orthogonal. The
    weighted errors of groups are above the limit.
    """
    people, e = Attributes(2), math.exp(epsilon)
    told = np.array(list(itertools.product((1.0, e), repeat=4)))
    reach = ((told @ people.characters) ** 2).sum(axis=1) / told.sum(axis=1) ** 2
    assert reach.max() <= math.sinh(epsilon / 2) ** 2 * (1 + 1e-12)
    assert people.weights.sum() == 3
    direct = float(np.sqrt(people.weights).sum()) ** 2 / math.sinh(epsilon / 2) ** 2 / 16
    many = limit(epsilon, people, 10**14) * 10**14
    assert direct * (1 - 1e-3) < many < direct
    assert direct < 3 * 3 / math.tanh(epsilon / 2) ** 2 / 16


def test_the_guarantee_of_blr_follows_its_formula() -> None:
    """Choose the best size of all sets. With few people, the guarantee is worth nothing."""
    n, d, epsilon = 10**6, 8, 1.0
    best = min(
        math.sqrt(math.log(4 * d * (d - 1)) / (2 * m))
        + 2 / (epsilon * n) * (m * d * math.log(2) + math.log(1 / FAILURE))
        for m in range(1, 20_000)
    )
    assert blr(epsilon, d, n) == pytest.approx(best, rel=1e-4)
    assert blr(0.1, 8, 100) == 1.0
