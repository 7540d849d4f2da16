"""Selection of the most frequent option: exact probabilities, their limits, and samples."""

import itertools
import json
import math
import random
from collections import Counter
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from deniable.shared.cli.command import main
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import Unary
from deniable.simulations.central.discrete_laplace import below
from deniable.simulations.central.selection import PermuteAndFlip
from deniable.simulations.population import fixed
from deniable.simulations.studies.bit_reports import least_enough
from deniable.simulations.studies.selection import selection_chances as chances
from tests.plausible import assert_implausible, assert_plausible
from tests.simulations.tree import exact_distribution


def needed(model: str, options: int, epsilon: float = 1.0, delta: float = 0.1) -> int:
    def right(n: int) -> float:
        if model == "central":
            return chances.trusted(options, n, delta, epsilon)
        spread, asked = (1.0, 1) if model == "none" else (1 / math.tanh(epsilon / 2), options)
        return chances.normal(options, n, delta, spread, asked)

    least = least_enough(lambda n: right(n) >= 0.9, 10**12)
    assert least is not None
    return least


@pytest.mark.parametrize(("options", "none", "trusted", "local", "limit"), [
    (4, 599, 625, 11_248, 817),
    (64, 1_400, 1_430, 420_596, 71_883),
    (1_024, 2_118, 2_144, 10_176_694, 2_091_130),
])  # fmt: skip
def test_people_needed_agree_with_independent_figures(
    options: int, none: int, trusted: int, local: int, limit: int
) -> None:
    assert needed("none", options) == pytest.approx(none, rel=1e-3)
    assert needed("central", options) == pytest.approx(trusted, rel=2e-3)
    assert needed("local", options) == pytest.approx(local, rel=1e-5)
    assert chances.fano(options, 1.0, 0.1, 0.9) == pytest.approx(limit, abs=0.5)


def test_the_normal_approximation_without_privacy_is_near_the_exact_sum() -> None:
    """Sum over binomials, with ties broken by a coin: Σ a(c) (B(c)^k - B(c - 1)^k) / (k b(c))."""
    from scipy.stats import binom

    for options, n in ((4, 599), (64, 1_400)):
        counts = np.arange(n + 1)
        a, b = binom.pmf(counts, n, 0.55), binom.pmf(counts, n, 0.5)
        upto = np.concatenate([[0], np.cumsum(b)])
        kept = b > 1e-250
        ways = (upto[1:] ** options - upto[:-1] ** options)[kept] / (options * b[kept])
        assert chances.normal(options, n, 0.1, 1, 1) == pytest.approx(a[kept] @ ways, abs=6e-4)


@pytest.mark.parametrize(("options", "times"), [(2, 1.46), (16, 1.73), (256, 1.83), (1024, 1.86)])
def test_the_gap_needed_is_the_stated_multiple_of_the_smallest_one(
    options: int, times: float
) -> None:
    """The exponential mechanism needs exactly 2 times the gap; permute and flip needs less."""
    least = chances.packing(options, 1.0, 0.9)
    assert chances.exponential(options, 1.0, 2 * least) == pytest.approx(0.9, rel=1e-12)
    assert chances.permute_and_flip(options, 1.0, (times - 0.006) * least) < 0.9
    assert chances.permute_and_flip(options, 1.0, (times + 0.006) * least) > 0.9


@pytest.mark.parametrize("gap", [0.0, 1e-9, 3.0, 40.0, 200.0])
@pytest.mark.parametrize("options", [2, 1024])
def test_the_rate_of_permute_and_flip_equals_its_integral(options: int, gap: float) -> None:
    x = mpmath.exp(-mpmath.mpf(gap) / 2)
    exact = mpmath.quad(lambda u: (1 - x * u) ** (options - 1), [0, 0.01, 0.1, 1])
    assert chances.permute_and_flip(options, 1.0, gap) == pytest.approx(float(exact), rel=1e-9)


def test_two_candidates_with_an_even_gap_are_distinguished_optimally() -> None:
    """Compare with the bound from the chain of replacements.

    The optimum errs with the same probability either way. It lies on the line between two knots
    (e^-j, e^-(g - 1 - j)) / (1 + e).
    """
    for gap in (2, 4, 8):
        j = gap // 2
        knots = [
            (math.exp(-i) / (1 + math.e), math.exp(-(gap - 1 - i)) / (1 + math.e))
            for i in (j - 1, j)
        ]
        (a1, b1), (a2, b2) = knots
        share = (a1 - b1) / ((a1 - b1) - (a2 - b2))
        wrong = a1 + share * (a2 - a1)
        assert chances.permute_and_flip(2, 1.0, gap) == pytest.approx(1 - wrong, rel=1e-12)


def test_the_rate_of_unary_votes_equals_the_exact_sum() -> None:
    """Compare with independent figures: .48832 and 445 for 16 options and 4,000 people."""
    assert chances.votes(16, 4_000, 208) == (445, 237)
    assert chances.unary(16, Epsilon("1"), 4_000, 208) == pytest.approx(0.48832, abs=5e-6)


@pytest.mark.parametrize(("options", "people", "gap"), [(16, 4_000, 160), (3, 30, 9)])
def test_simulated_unary_votes_are_right_at_the_exact_rate(
    options: int, people: int, gap: int
) -> None:
    """Simulate populations of reports; false alarm at most 1e-9. Twin: a larger gap."""
    rng, n, epsilon = np.random.default_rng(20261118), 30_000, Epsilon("1")
    leader, other = chances.votes(options, people, gap)
    counts = fixed(Unary(epsilon, options), [leader, *[other] * (options - 1)], n, rng).counts
    right = int(((counts + rng.random(counts.shape) / 2).argmax(axis=1) == 0).sum())
    assert_plausible(right, n, chances.unary(options, epsilon, people, gap))
    assert_implausible(right, n, chances.unary(options, epsilon, people, 2 * gap))


# Permute and flip


def flip_distribution(counts: tuple[int, ...], x: Fraction) -> list[Fraction]:
    """Return the exact distribution over all orders; x is e^(-ε / 2)."""
    chosen = [Fraction(0)] * len(counts)
    orders = list(itertools.permutations(range(len(counts))))
    for order in orders:
        left = Fraction(1, len(orders))
        for candidate in order:
            accept = x ** (max(counts) - counts[candidate])
            chosen[candidate] += left * accept
            left *= 1 - accept
    return chosen


def test_permute_and_flip_is_drawn_exactly() -> None:
    """Walk the sampler's tree: it encloses each probability, up to the part left unwalked.

    Twin: it does not enclose the probabilities for another ε.
    """
    walked, rest = exact_distribution(
        lambda uniform: PermuteAndFlip(Epsilon("1")).choose((3, 1, 2), uniform),
        Fraction(1, 10**6),
    )
    assert rest < Fraction(1, 20)
    stated = flip_distribution((3, 1, 2), Fraction(math.exp(-0.5)))
    for candidate, probability in enumerate(stated):
        assert walked[candidate] <= probability + Fraction(1, 10**12)
        assert probability <= walked[candidate] + rest + Fraction(1, 10**12)
    other = flip_distribution((3, 1, 2), Fraction(math.exp(-0.55)))
    assert not walked[0] <= other[0] <= walked[0] + rest


def test_permute_and_flip_keeps_its_epsilon() -> None:
    """Compare votes of four people for three candidates with all their neighbours, in fractions.

    ε is the logarithm of a fraction. Twin: coins that each use the whole ε exceed it.
    """
    for x, kept in ((Fraction(3, 5), True), (Fraction(9, 25), False)):
        worst = Fraction(1)
        for a in itertools.product(range(5), repeat=3):
            if sum(a) != 4:
                continue
            for leave, enter in itertools.permutations(range(3), 2):
                if a[leave]:
                    b = [v - (i == leave) + (i == enter) for i, v in enumerate(a)]
                    pair = flip_distribution(a, x), flip_distribution(tuple(b), x)
                    worst = max(worst, *(p / q for p, q in zip(*pair, strict=True)))
        assert (worst <= Fraction(25, 9)) is kept


def test_exponential_noise_is_permute_and_flip() -> None:
    """Compare with the largest count plus exponential noise, in the study and the real sampler."""
    rng, n, gap = np.random.default_rng(3), 30_000, 4
    noisy = rng.exponential(2.0, (n, 8))
    noisy[:, 0] += gap
    right = int((noisy.argmax(axis=1) == 0).sum())
    assert_plausible(right, n, chances.permute_and_flip(8, 1.0, gap))
    assert_implausible(right, n, chances.exponential(8, 1.0, gap))
    uniform, few = below(random.Random(7).getrandbits), 4_000
    flip = PermuteAndFlip(Epsilon("1"))
    seen = Counter(flip.choose((gap, *[0] * 7), uniform) for _ in range(few))
    assert_plausible(seen[0], few, chances.permute_and_flip(8, 1.0, gap))


# The study


def test_the_study_selects_at_its_stated_rate(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--epsilon", "0.5,20", "--options", "2,64", "--people", "20000", "--json"]
    assert main(["simulate", "select", *words]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {"rows", "findings"} <= set(document)
    models = {(row["question"], row["model"]) for row in document["rows"]}
    assert len(models) == 5
    for row in document["rows"]:
        if row["measured"] is not None:
            assert abs(row["measured"] - row["exact"]) <= 6.5 * row["error"], row
        wanted = "gap_needed" if row["question"] == "votes" else "people_needed"
        if row["limit"] is not None:
            assert row["limit"] <= row[wanted], row


def test_an_impossible_gap_is_null(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--epsilon", "0.1", "--options", "64", "--people", "100", "--json"]
    assert main(["simulate", "select", *words]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    (local,) = (r for r in rows if r["estimator"] == "unary")
    assert local["gap_needed"] is local["exact"] is None


def test_a_gap_below_half_of_the_options_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    """Find the smallest gap at which unary votes are right in 90 %: one vote less is not enough."""
    words = ["--epsilon", "2", "--options", "1024", "--people", "10000", "--repetitions", "2"]
    assert main(["simulate", "select", *words, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    (local,) = (r for r in rows if r["estimator"] == "unary")
    gap = local["gap_needed"]
    assert gap == 391
    epsilon = Epsilon("2")
    assert chances.unary(1024, epsilon, 10_000, gap) >= 0.9
    assert chances.unary(1024, epsilon, 10_000, gap - 1) < 0.9


@pytest.mark.parametrize("words", [("--epsilon", "0.001"), ("--delta", "0.0005")])
def test_too_many_people_to_search_are_refused(
    words: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "select", *words]) == 2
    printed = capsys.readouterr()
    assert "take more than 1,000,000,000,000 people on devices" in printed.err
    assert (printed.out, printed.err.count("\n")) == ("", 1)
