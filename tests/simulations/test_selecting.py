"""Selection of the most frequent option: exact probabilities, their limits, and samples."""

import itertools
import json
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from deniable.shared.cli.command import main
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import Unary
from deniable.simulations.population import fixed
from deniable.simulations.studies.bit_reports import least_enough
from deniable.simulations.studies.selection import selection_chances as chances
from tests.plausible import assert_implausible, assert_plausible


def needed(model: str, options: int, epsilon: float = 1.0, delta: float = 0.1) -> int:
    """Return the least number of people with whom the right condition is chosen in 90 %."""
    groups, slope = (options, math.tanh(epsilon / 2)) if model == "local" else (1, 1.0)
    decay = math.exp(-epsilon / 2) if model == "central" else 0.0
    rate = 0.5 + slope * delta / 2
    least = least_enough(lambda n: chances.largest(options, n, rate, 0.5, decay) >= 0.9, 10**12)
    assert least is not None
    return groups * least


@pytest.mark.parametrize(("options", "none", "local", "limit"), [
    (4, 600, 11_248, 817), (64, 1_400, 420_596, 71_883), (1_024, 2_118, 10_176_694, 2_091_130),
])  # fmt: skip
def test_people_needed_agree_with_independent_figures(
    options: int, none: int, local: int, limit: int
) -> None:
    """Computed elsewhere, with normal distributions for the large counts of devices. Permute and
    flip takes a few people more than no privacy, and fewer than Gumbel noise: 625, 1,430, 2,144."""
    gumbel = {4: 625, 64: 1_430, 1_024: 2_144}[options]
    assert needed("none", options) == pytest.approx(none, rel=1e-3)
    assert needed("none", options) < needed("central", options) < gumbel
    assert needed("local", options) == pytest.approx(local, rel=4e-4)
    assert chances.fano(options, 1.0, 0.1, 0.9) == pytest.approx(limit, abs=0.5)


@pytest.mark.parametrize("x", [Fraction(0), Fraction(3, 5)])
def test_conditions_are_selected_with_exactly_the_stated_probability(x: Fraction) -> None:
    """Every combination of the counts of three conditions and four people, in fractions. With
    noise, permute and flip; without, a coin decides a tie. Twin: another x."""
    rates = (Fraction(3, 4), Fraction(1, 2), Fraction(1, 2))
    ways, total = Fraction(0), Fraction(0)
    for counts in itertools.product(range(5), repeat=3):
        weight = Fraction(1)
        for count, rate in zip(counts, rates, strict=True):
            weight *= math.comb(4, count) * rate**count * (1 - rate) ** (4 - count)
        total += weight
        ways += weight * flip_distribution(counts, x)[0]
    assert total == 1
    stated = chances.largest(3, 4, 0.75, 0.5, float(x))
    assert stated == pytest.approx(float(ways), rel=1e-12)
    assert chances.largest(3, 4, 0.75, 0.5, float(x) + 0.01) != pytest.approx(float(ways), rel=1e-4)


def test_grouped_counts_change_no_probability(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 300,000 people, counts in steps and normal probabilities, against each single count."""
    few = (16, 300_000, 0.5027, 0.5, math.exp(-0.5))
    grouped = chances.largest(*few)
    monkeypatch.setattr(chances, "MAX_COUNTS", 10**6)
    assert grouped == pytest.approx(chances.largest(*few), abs=1e-5)
    assert grouped != pytest.approx(chances.largest(16, 300_000, 0.5028, 0.5, few[4]), abs=1e-5)


def test_few_people_select_as_often_as_the_sum_says() -> None:
    """False alarm at most 1e-9. Twin: the normal distribution, .9 where .849 is right."""
    rng, n, k, size = np.random.default_rng(20261119), 30_000, 4, 4
    rate, level = (0.5 + math.tanh(2) * x / 2 for x in (0.9, 0.0))
    counts = rng.binomial(size, [rate, *[level] * (k - 1)], (n, k)) + rng.random((n, k)) / 2
    right = int((counts.argmax(axis=1) == 0).sum())
    assert_plausible(right, n, chances.largest(k, size, rate, level))
    assert_implausible(right, n, 0.9)


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
    assert chances.unary(Unary(Epsilon("1"), 16), 4_000, 208) == pytest.approx(0.48832, abs=5e-6)


@pytest.mark.parametrize(("options", "people", "gap"), [(16, 4_000, 160), (3, 30, 9)])
def test_simulated_unary_votes_are_right_at_the_exact_rate(
    options: int, people: int, gap: int
) -> None:
    """Simulate populations of reports; false alarm at most 1e-9. Twin: a larger gap."""
    rng, n, epsilon = np.random.default_rng(20261118), 30_000, Epsilon("1")
    leader, other = chances.votes(options, people, gap)
    counts = fixed(Unary(epsilon, options), [leader, *[other] * (options - 1)], n, rng).counts
    right = int(((counts + rng.random(counts.shape) / 2).argmax(axis=1) == 0).sum())
    assert_plausible(right, n, chances.unary(Unary(epsilon, options), people, gap))
    assert_implausible(right, n, chances.unary(Unary(epsilon, options), people, 2 * gap))


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
    """Compare with the largest count plus exponential noise, as the study draws it."""
    rng, n, gap = np.random.default_rng(3), 30_000, 4
    noisy = rng.exponential(2.0, (n, 8))
    noisy[:, 0] += gap
    right = int((noisy.argmax(axis=1) == 0).sum())
    assert_plausible(right, n, chances.permute_and_flip(8, 1.0, gap))
    assert_implausible(right, n, chances.exponential(8, 1.0, gap))


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
    unary = Unary(Epsilon("2"), 1024)
    assert chances.unary(unary, 10_000, gap) >= 0.9
    assert chances.unary(unary, 10_000, gap - 1) < 0.9


@pytest.mark.parametrize("words", [("--epsilon", "0.001"), ("--delta", "0.0005")])
def test_too_many_people_to_search_are_refused(
    words: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "select", *words]) == 2
    printed = capsys.readouterr()
    assert "take more than 1,000,000,000,000 people on devices" in printed.err
    assert (printed.out, printed.err.count("\n")) == ("", 1)
