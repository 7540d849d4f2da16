"""Every system of the lecture notes: a command or call runs it, and its number is the reference.

The references were computed independently: by enumeration, by quadrature, or in the literature.
`python -m tests.simulations.test_seeds` prints the table with our numbers and the differences.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from deniable import simulations
from deniable.server.surveys.survey_file import best_table
from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse, Unary
from deniable.simulations import simulate
from deniable.simulations.central import lecture_examples as lectures
from deniable.simulations.central.noise import DiscreteLaplace
from deniable.simulations.central.selection import PrivateQuantile
from deniable.simulations.studies import attack, composition
from deniable.simulations.studies.bit import drawn_price
from deniable.simulations.studies.counts import GAUSSIAN, ONE_QUESTION, people_needed
from deniable.simulations.studies.median import block_centres
from deniable.simulations.studies.median.quantile_search import SEARCH, Target
from deniable.simulations.studies.minimax.minimax_limits import lower_bound
from deniable.simulations.studies.privacy import exposed
from deniable.simulations.studies.privacy import privacy_profiles as profiles
from deniable.simulations.studies.privacy.gradient_descent import train
from deniable.simulations.studies.regression import logistic_slope
from deniable.simulations.studies.selection import selection_chances as chances
from deniable.simulations.studies.synthetic import Attributes, blr, executed_blr

PACKAGE = Path(simulations.__path__[0])
Numbers = tuple[float, ...]
E1 = Epsilon("1")


class Seed(NamedTuple):
    """Row of the table; a row without numbers is a sentence on the page of the command."""

    number: int
    command: str
    reference: Numbers
    ours: Callable[[], Numbers]
    error: float = 1e-4  # relative, and the digits that the reference has


@cache
def rows(name: str, **options: Any) -> tuple[Mapping[str, Any], ...]:  # Any: JSON
    return tuple(simulate(name, on="local", **options).rows)


def row(name: str, wanted: Mapping[str, Any], **options: Any) -> Mapping[str, Any]:
    return next(r for r in rows(name, **options) if wanted.items() <= r.items())


def exact(
    name: str, estimator: str, key: str = "exact", times: float = 1.0, **options: Any
) -> float:
    return times * float(row(name, {"estimator": estimator}, **options)[key])


def bit(estimator: str, key: str = "exact", times: float = 1.0) -> float:
    return exact("bit", estimator, key, times, epsilon=1, people=10**5, repetitions=2)


def slope(estimator: str) -> float:
    return exact("regression", estimator, "exact", 2e4, epsilon=1, people=2e4, repetitions=2)


def needed(estimator: str, k: int) -> float:
    found = {"question": "conditions", "estimator": estimator}
    return float(row("select", found, epsilon=1, options=k, repetitions=2)["people_needed"])


def risk(estimator: str, key: str) -> float:
    options: dict[str, Any] = {"epsilon": 1, "people": 1e6, "moments": 2, "repetitions": 200}
    return exact("minimax", estimator, key, **options)


def attacked(name: str, model: str, parameter: int) -> float:
    wanted = {"attack": name, "model": model, "parameter": parameter}
    return float(row("attack", wanted, epsilon=1, people=10, repetitions=2)["right"])


def power_at(level: float) -> float:
    return 1 - float(
        profiles.trade_off(profiles.reports(1), np.array([0.0, 1.0]))(np.array([level]))[0]
    )


def approximate(epsilon: float) -> float:
    """Return the profile of an (1, .3)-private release."""
    return 0.3 + 0.7 * max(0.0, math.e - math.exp(epsilon)) / (1 + math.e)


def all_subsets() -> Numbers:
    """With errors up to 2, answers between two tables that differ in 8 places fit both."""
    true, other = (1,) * 4 + (0,) * 4, (0,) * 4 + (1,) * 4

    def answer(subset: tuple[int, ...]) -> float:
        return float(np.dot(subset, true) + np.dot(subset, other)) / 2

    fitting = list(lectures.reconstruct(answer, 8, 2))
    return (float(max(np.abs(np.subtract(t, true)).sum() for t in fitting)),)


def worst_quantile_ratio() -> Numbers:
    """Return the largest log ratio of neighbours, over all tables of 4 people on 4 points."""
    held = [t for t in np.ndindex(5, 5, 5, 5) if sum(t) == 4]
    weights = {t: np.array(PrivateQuantile(E1).weights(t), float) for t in held}
    shares = {t: w / w.sum() for t, w in weights.items()}
    worst = max(float(np.log(shares[a] / shares[b]).max())
                for a in held for b in held if np.abs(np.subtract(a, b)).sum() == 2)  # fmt: skip
    return (float(worst <= 1.0), float(worst > 0.5))


def spread(epsilon: float, moved: int = 1) -> float:
    return DiscreteLaplace(Epsilon(str(epsilon)), moved).variance


def gap_loss(noise: str) -> float:
    return chances.expected_loss(10, 1000, 1.0, noise)


SENTENCES = {  # rows that are not worth a study: the file with their sentence, and its words
    15: ("central/lecture_examples.py", "PINQ"),
    33: ("central/lecture_examples.py", "Graphs have no function"),
    43: ("studies/pages/select.txt", "AIC or BIC"),
    52: ("central/lecture_examples.py", "Support vector machines"),
}
C2 = 1 / math.tanh(0.5) ** 2
SEEDS = (
    Seed(1, "attack", (1, 0.6225, 0.7311), lambda: tuple(
        attacked("difference", m, 0) for m in ("none", "central", "local"))),
    Seed(2, "compose", (10,), lambda: (composition.basic(0.1, 100, 0),)),
    Seed(3, "privacy", (1,), lambda: (float(all(profiles.majority(1, 5)(x)
         <= profiles.reports(1, 5)(x) + 1e-12 for x in np.arange(0, 5, 0.1))),)),
    Seed(4, "lecture_examples.largest_errors", (2404, 14),
         lambda: lectures.largest_errors(Unary(E1, 64), 10**5, 0.05)[1:]),
    Seed(5, "bit", (2e-10,), lambda: (bit("laplace"),)),
    Seed(6, "DiscreteLaplace", (36.5685, 0.34757),
         lambda: (spread(0.7, 3), DiscreteLaplace(Epsilon("0.7"), 3).tail(4))),
    Seed(7, "DiscreteLaplace.joint_radius", (4,),
         lambda: (DiscreteLaplace(Epsilon("0.99")).joint_radius(1, 0.0201),)),
    Seed(8, "test_central", (1,), lambda: (DiscreteLaplace(E1).probability(0)
         / DiscreteLaplace(E1).probability(1) / math.e,)),
    Seed(9, "lecture_examples.price_chances", (0.2567, 0.1632, 0.2196, 0.2231, 0.1374),
         lambda: tuple(map(float, lectures.price_chances(
             [10, 10, 10, 31], [10, 11, 30, 31, 32], E1))), 3e-4),
    Seed(10, "select", (0.952574,), lambda: (chances.exponential(2, 1, 6),)),
    Seed(11, "synthetic", (1,), lambda: (float(  # some set of 6 people is this good
        executed_blr(Attributes(3), 100, 1.0)[0].min() <= math.sqrt(math.log(48) / 12)),)),
    Seed(12, "synthetic", (0.034346,), lambda: (blr(0.5, 8, 10**7),)),
    Seed(13, "repeat", (0.8568541,), lambda: (row("repeat", {"scheme": "two-stage", "rounds": 7},
         epsilon=1, rounds=7)["guess_right"],)),
    Seed(14, "texts", (0.08051, 0.005452, 36), lambda: tuple(
        row("texts", {"estimator": one}, epsilon=1, people=10**5, repetitions=1)[key]
        for one, key in (("grouped", "share_needed"), ("grouped", "limit"),
                         ("threshold", "people_needed"))), 1e-3),
    Seed(16, "bit", (5.38,), lambda: (drawn_price(1, 0.3),), 1e-3),
    Seed(17, "lecture_examples.reconstruct", (8,), all_subsets),
    Seed(18, "attack", (1, 0, 2, 12, 44), lambda: (attacked("reconstruct", "none", 0), *(
        attack.hidden(60, 240, off, wild) for off, wild in ((0, 0), (0, 0.2), (1, 0), (2, 0))))),
    Seed(19, "counts", (2 * 64**2, 64 / composition.gaussian_mu(1, 1e-6) ** 2), lambda: tuple(
        exact("counts", e, "exact", 1e10, epsilon=1, counts=64, people=1e5, repetitions=2)
        for e in ("geometric", "gaussian"))),
    Seed(20, "bit", (0.731058578,), lambda: (RandomizedResponse(E1).keep / ONE,), 1e-9),
    Seed(21, "bit", (0.9207 + 0.21,), lambda: (bit("randomized-response", "exact_drawn", 1e5),)),
    Seed(22, "bit", (2e-10,), lambda: (bit("laplace"),)),
    Seed(23, "counts", (2 * math.exp(0.25) / math.expm1(0.25) ** 2,), lambda: (spread(1, 4),)),
    Seed(24, "DiscreteLaplace", (50,), lambda: (spread(1, 5),), 5e-3),
    Seed(25, "histogram", (7.8354,), lambda: (exact("histogram", "geometric-replace-one", "exact",
         1e10, epsilon=1, options=4, people=1e5, repetitions=2),)),
    Seed(26, "bit", (0.5,), lambda: (bit("randomized-response") / bit("geometric") / 1e5,)),
    Seed(27, "attack", (0.869597, 0.360032), lambda: (attack.family_variation(E1, 10),
         attack.family_variation(Epsilon("0.5"), 3))),
    Seed(28, "privacy", (0.135914, 0.816060), lambda: (power_at(0.05), power_at(0.5))),
    Seed(29, "regression", (0.2557,), lambda: (slope("noisy-sums"),)),
    Seed(30, "minimax", (10.748455,), lambda: (risk("one-bit", "clip"),), 1e-7),
    Seed(31, "histogram", (7.8354 / 1.84135,), lambda: (spread(1, 2) / spread(1),)),
    Seed(32, "lecture_examples.disjoint_counts", (1, 2), lambda: lectures.disjoint_counts(E1)),
    Seed(34, "median", (1.1707,), lambda: (1000 * Target("quantile", 0.5).density ** 2
         * Target("quantile", 0.5).variance(SEARCH, E1, 1000),)),
    Seed(35, "mean", (16.671, 4.6827, 1.4797, 0.46156), lambda: tuple(
        4 * best_table(Epsilon(e), name="local-laplace").worst_variance(1)
        for e in ("0.5", "1", "2", "4"))),
    Seed(36, "minimax", (9.98003e-7,), lambda: (risk("mean", "lower_bound"),)),
    Seed(37, "minimax", (7.41823e-4,), lambda: (lower_bound("local", 2, 1, 10**6),), 1e-3),
    Seed(38, "minimax", (1.21736e-6, 1.13592e-5), lambda: tuple(
        lower_bound("central", 2, e, 10**6) for e in (1, 0.1)), 1e-3),
    Seed(39, "minimax", (1.0819767e-3, 2.41421e-6), lambda: tuple(
        risk(e, "risk_bound") for e in ("one-bit", "laplace")), 1e-5),
    Seed(40, "select", (8.53285,), lambda: (gap_loss("laplace"),), 1e-6),
    Seed(41, "select", (8.53285, 8.70654, 8.51759), lambda: tuple(
        map(gap_loss, ("laplace", "gumbel", "exponential"))), 1e-6),
    Seed(42, "select", (600, 1401, 2118), lambda: tuple(needed("mean", k) for k in (4, 64, 1024))),
    Seed(44, "regression", (0.3057,), lambda: (slope("objective"),), 0.08),
    Seed(45, "select", (1 - 0.870654,), lambda: (chances.exponential(1000, 1, 10),)),
    Seed(46, "select", (1 / (1 + math.exp(-3)),), lambda: (chances.exponential(2, 1, 6),)),
    Seed(47, "median", (6.76e-5,), lambda: (row("median", {"model": "central", "share": 0.1},
         epsilon=1, people=1000, quantile=0.1, repetitions=500)["measured"],), 0.3),
    Seed(48, "PrivateQuantile", (1, 1), worst_quantile_ratio),
    Seed(49, "regression", (11.75,), lambda: (slope("exponential"),), 0.1),
    Seed(50, "regression", (0.2997,), lambda: (slope("kng"),), 0.1),
    Seed(51, "regression", (12.498, 70.9186), lambda: (2e4 * row(
        "regression", {"estimator": "logistic-likelihood"}, epsilon=1, people=2e4, repetitions=2)
        ["first_order"], logistic_slope.limit(1.0))),
    Seed(53, "median", (1, 1), lambda: tuple(float(row("median", {"estimator": e}, epsilon=1,
         people=1000, quantile=0.1, repetitions=500)["measured"] > 1e-4)
         for e in ("as-printed", "winsorized"))),
    Seed(54, "median", (-0.5267,), lambda: (block_centres.PRINTED_BLOCKS
         * (block_centres.PRINTED_DISTANCES - 1) - (1 - block_centres.PRINTED_BLOCKS) / 2,), 3e-4),
    Seed(55, "privacy", (math.tanh(0.5),), lambda: (profiles.reports(1)(0),)),
    Seed(56, "privacy", (4.10662, 5.383, 5.396), lambda: (1 / composition.gaussian_mu(0.9, 1e-5),
         *(profiles.classical_deviation(0.9, 1e-5, c) for c in (1.25, 1.32)))),
    Seed(57, "counts", (math.sqrt(2 * 64) * composition.gaussian_mu(1, 1e-6),), lambda: (math.sqrt(
        exact("counts", "geometric", epsilon=1, counts=64, people=1e5, repetitions=2)
        / exact("counts", "gaussian", epsilon=1, counts=64, people=1e5, repetitions=2)),)),
    Seed(58, "counts.people_needed", (3379.743, 589231.1), lambda: tuple(
        people_needed(E1, 64, 0.01, 1e-6)[one] for one in (GAUSSIAN, ONE_QUESTION)), 5e-4),
    Seed(59, "compose", (6.30823,), lambda: (composition.advanced(0.1, 100, 1e-6),)),
    Seed(60, "privacy", (math.log(1 + 0.01 * (math.e - 1)),),
         lambda: (profiles.sampled_epsilon(1, 0.01),)),
    Seed(61, "privacy", (0, 0.1 * (math.e - math.exp(0.5)) / (1 + math.e)), lambda: (
        profiles.sampled(profiles.reports(1), 0.1)(0.5), 0.1 * profiles.reports(1)(0.5))),
    Seed(62, "gradient_descent.train", (-0.6103524, 0.0999), lambda: tuple(
        train(0, np.random.default_rng(1), departments).log_odds for departments in (False, True)),
        0.02),
    Seed(63, "compose", (2.10775,), lambda: (composition.sampled_rdp(1, 0.01, 1000, 1e-5),)),
    Seed(64, "compose", (5.07311,), lambda: (composition.rdp(0.1, 100, 1e-6),)),
    Seed(65, "privacy", (0.7405,), lambda: (float(profiles.trade_off(
        profiles.gaussian(1), np.linspace(0, 9, 2001))(np.array([0.05]))[0]),)),
    Seed(66, "privacy", (4.81139,), lambda: (profiles.blackwell_edge(),), 2e-6),
    Seed(67, "privacy", (math.tanh(0.5), 0.8021240), lambda: tuple(profiles.of_group(
        profiles.reports(1), n, np.array([0.0, 1.0]))(0.0) for n in (1, 3))),
    Seed(68, "compose", (4.88887, 1.000417), lambda: (
        composition.clt(0.1, 100, 1e-6), profiles.rounds_limit(0.1, 100))),
    Seed(69, "privacy", (0.6753,), lambda: (float(profiles.trade_off(
        profiles.sampled(approximate, 0.2), np.linspace(0, 2, 2001))(np.array([0.2]))[0]),)),
    Seed(70, "privacy", (0.420740, 1.82824), lambda: (
        profiles.loss_above(profiles.gaussian(1), 0.7),
        composition.sampled_pld(1, 0.01, 1000, 1e-5))),
    Seed(71, "mean", (2e-10,), lambda: (exact("mean", "laplace", epsilon=1, people=1e5,
         repetitions=2),)),
    Seed(72, "privacy", (1 - 0.999**1000,), lambda: (exposed(1, 1000),)),
)  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"{seed.number}-{seed.command}")
def test_a_system_of_the_notes_has_its_reference_value(seed: Seed) -> None:
    """Twin: no reference moved by ten times the error, or 1 %, would pass."""
    ours = tuple(map(float, seed.ours()))
    assert ours == pytest.approx(seed.reference, rel=seed.error, abs=1e-15)
    moved = [value * (1 + max(10 * seed.error, 0.01)) for value in seed.reference if value]
    assert [value for value in ours if abs(value) > 1e-15] != pytest.approx(moved, rel=seed.error)


def test_every_row_works_or_has_its_sentence() -> None:
    numbers = [seed.number for seed in SEEDS]
    assert sorted([*numbers, *SENTENCES]) == list(range(1, 73))
    assert len(numbers) >= 66
    for file, words in SENTENCES.values():
        folder = PACKAGE.parents[1] if file == "README.md" else PACKAGE
        assert words in (folder / file).read_text("utf-8")


def main() -> None:
    for seed in SEEDS:
        ours = tuple(map(float, seed.ours()))
        off = max(abs(a - b) for a, b in zip(ours, seed.reference, strict=True))
        print(
            seed.number, seed.command, seed.reference, tuple(f"{n:.7g}" for n in ours), f"{off:.1e}"
        )
    for number, (file, words) in SENTENCES.items():
        print(number, f"{file}: {words}")


if __name__ == "__main__":
    main()
