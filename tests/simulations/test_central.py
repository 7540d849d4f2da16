"""Central mechanisms: exact distributions, privacy, and the flaw of the published sampler."""

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

import mpmath
import pytest

from deniable.shared.errors import WrongUse
from deniable.shared.privacy.epsilon import Epsilon, within
from deniable.simulations.central.discrete_laplace import (
    Below,
    BoundedMean,
    DiscreteLaplace,
    GeometricCounts,
    below,
    bernoulli_exp,
)
from deniable.simulations.central.selection import ExponentialMechanism, PrivateQuantile
from tests.plausible import assert_implausible, assert_plausible
from tests.simulations.tree import exact_distribution


def seeded_below(seed: int = 20261118) -> Below:
    return below(random.Random(seed).getrandbits)


@pytest.mark.parametrize("x", ["0", "1/3", "1/2", "1", "3/2", "5/2"])
def test_the_coin_of_probability_e_to_minus_x_is_exact(x: str) -> None:
    """Walk the tree of outcomes: it encloses e^-x to within one in a million."""
    ratio = Fraction(x)
    distribution, rest = exact_distribution(
        lambda uniform: bernoulli_exp(ratio.numerator, ratio.denominator, uniform),
        Fraction(1, 10**8),
    )
    heads = distribution.get(True, Fraction(0))
    assert rest < Fraction(1, 10**5)
    assert heads <= Fraction(float(mpmath.exp(-float(ratio)))) + Fraction(1, 10**15)
    assert float(heads + rest) >= math.exp(-ratio) - 1e-15


@pytest.mark.parametrize(("epsilon", "sensitivity"), [("1", 1), ("2", 1), ("1", 2)])
def test_discrete_laplace_is_drawn_exactly(epsilon: str, sensitivity: int) -> None:
    """Walk the sampler's tree: it encloses every probability; at most a tenth is left unwalked."""
    noise = DiscreteLaplace(Epsilon(epsilon), sensitivity)
    walked, rest = exact_distribution(noise.sample, Fraction(1, 2 * 10**5))
    assert rest < Fraction(1, 10)
    for z in range(-8, 9):
        low = float(walked.get(z, Fraction(0)))
        assert low - 1e-12 <= noise.probability(z) <= low + float(rest) + 1e-12
        assert walked.get(z) == walked.get(-z)


def test_the_enclosure_above_rejects_a_wrong_scale() -> None:
    """Twin: noise for ε = 1.1 fails the check for ε = 1."""
    walked, rest = exact_distribution(DiscreteLaplace(Epsilon("1")).sample, Fraction(1, 2 * 10**5))
    wrong = DiscreteLaplace(Epsilon("1.1")).probability(0)
    assert not float(walked[0]) <= wrong <= float(walked[0] + rest)


@pytest.mark.parametrize("alpha", [Fraction(11, 10), Fraction(3, 2), Fraction(7, 2)])
def test_variance_and_tail_of_the_distribution_by_exact_sums(alpha: Fraction) -> None:
    """Check Theorem 2.7 of the notes in fractions: the printed tail is a bound, ours is exact."""
    sums = {z: (alpha - 1) / (alpha + 1) * alpha**-z for z in range(400)}
    variance = 2 * sum(z * z * p for z, p in sums.items())
    noise = DiscreteLaplace(Epsilon(f"{math.log(alpha):.9f}"))
    assert float(variance) == pytest.approx(float(2 * alpha / (alpha - 1) ** 2), rel=1e-10)
    assert noise.variance == pytest.approx(float(variance), rel=1e-7)
    for radius in range(4):
        tail = 2 * sum(p for z, p in sums.items() if z > radius)
        assert noise.tail(radius) == pytest.approx(float(tail), rel=1e-7)
        assert tail <= alpha**-radius


def test_discrete_laplace_with_a_scale_of_billions_is_laplace() -> None:
    fine = DiscreteLaplace(Epsilon("0.5"), 2**30)
    assert fine.variance / 2**60 == pytest.approx(2 / 0.5**2, rel=1e-9)


def test_draws_follow_the_distribution_for_typical_epsilons() -> None:
    """Keep false alarms at 9e-9. Twin below: a scale that is 10 % off is rejected."""
    noise, uniform, n = DiscreteLaplace(Epsilon("0.7"), 3), seeded_below(), 20_000
    seen = Counter(noise.sample(uniform) for _ in range(n))
    for z in range(-4, 5):
        assert_plausible(seen[z], n, noise.probability(z))
    assert_implausible(seen[0], n, DiscreteLaplace(Epsilon("0.9"), 3).probability(0))


def test_the_released_histogram_has_integers_near_the_truth() -> None:
    counts = (1_000, 0, 250)
    mechanism = GeometricCounts(Epsilon("1"), 2)
    released = mechanism.release(counts, seeded_below())
    radius = mechanism.radius(len(counts), 1e-9)
    assert all(isinstance(count, int) for count in released)
    assert max(abs(a - b) for a, b in zip(counts, released, strict=True)) <= radius


def test_the_radius_must_be_rounded_up() -> None:
    """At ε = 0.99 an unrounded radius has a larger error with probability above δ = 0.0201."""
    epsilon, failure = Epsilon("0.99"), 0.0201
    mechanism = GeometricCounts(epsilon)
    printed = math.log(1 / failure) / float(epsilon)
    assert mechanism.noise.tail(math.floor(printed)) == pytest.approx(1.38 * failure, rel=0.01)
    assert mechanism.noise.tail(mechanism.radius(1, failure)) <= failure


def test_the_central_mean_is_unbiased_and_clamped() -> None:
    mechanism = BoundedMean(Epsilon("1"), 10)
    released = mechanism.release([-5, 3, 99], seeded_below())
    assert (released * 30).denominator == 1
    assert abs(released * 30 - 13) <= 10 * 25
    assert released == mechanism.release([0, 3, 10], seeded_below())  # with the same noise
    assert mechanism.variance(1_000) == DiscreteLaplace(Epsilon("1"), 10).variance / 10_000**2


@pytest.mark.parametrize("epsilon", ["0.05", "0.5", "1", "4", "20"])
@pytest.mark.parametrize("sensitivity", [1, 2, 3])
def test_one_unit_of_score_costs_at_most_its_share_of_half_epsilon(
    epsilon: str, sensitivity: int
) -> None:
    """Check exactly: Δ steps change a weight by at most e^(ε/2), and 2 Δ steps by at most e^ε."""
    falling = ExponentialMechanism(Epsilon(epsilon), sensitivity).falling
    steps = 2 * sensitivity
    for start in range(max(1, len(falling) - 1)):
        larger, smaller = 1, 1
        for _ in range(steps):
            larger *= falling[start]
            smaller *= falling[min(start + 1, len(falling) - 1)]
        assert within(Epsilon(epsilon), larger, smaller)
    assert falling[-1] <= 2 * sensitivity / float(Epsilon(epsilon)) + 2


def test_a_candidate_is_never_better_than_perfect() -> None:
    with pytest.raises(WrongUse, match="perfect"):
        ExponentialMechanism(Epsilon("1")).weight(-1)


def neighbours(people: int, points: int) -> Iterator[tuple[list[int], list[int]]]:
    """Yield every histogram that results when one person answers differently."""
    for held in itertools.product(range(people + 1), repeat=points):
        if sum(held) != people:
            continue
        for leave, enter in itertools.permutations(range(points), 2):
            if held[leave]:
                other = list(held)
                other[leave] -= 1
                other[enter] += 1
                yield list(held), other


def worst_ratio(quantile: PrivateQuantile, people: int, points: int) -> Fraction:
    worst = Fraction(1)
    for one, other in neighbours(people, points):
        a, b = quantile.weights(one), quantile.weights(other)
        for x, y in zip(a, b, strict=True):
            worst = max(worst, Fraction(x * sum(b), y * sum(a)))
    return worst


@pytest.mark.parametrize("epsilon", ["0.1", "0.5", "1", "2", "5"])
@pytest.mark.parametrize("alpha", [(1, 2), (1, 4), (2, 3)])
def test_the_private_quantile_keeps_its_epsilon_on_all_neighbours(
    epsilon: str, alpha: tuple[int, int]
) -> None:
    """Compare every data set of 4 people on 4 points with all its neighbours, exactly."""
    worst = worst_ratio(PrivateQuantile(Epsilon(epsilon), *alpha), 4, 4)
    assert within(Epsilon(epsilon), worst.numerator, worst.denominator)


@pytest.mark.parametrize("epsilon", ["0.1", "1", "2"])
def test_weights_with_the_whole_epsilon_are_not_private(epsilon: str) -> None:
    """Twin: the printed weight e^(-ε d) exceeds ε on neighbouring data sets.

    With three people on eight points, it already does so by a third and more.
    """
    doubled = Epsilon(str(2 * float(Epsilon(epsilon))))
    worst = worst_ratio(PrivateQuantile(doubled), 3, 8)
    assert not within(Epsilon(epsilon), worst.numerator, worst.denominator)
    assert within(doubled, worst.numerator, worst.denominator)
    assert math.log(worst) > 1.3 * float(Epsilon(epsilon))


def printed_sampler(numbers: list[int], top: int, weight: Fraction) -> list[Fraction]:
    """Return Algorithm 4 as printed, for the median on [0, top]: its density on each unit interval.

    One whole person multiplies the density by `weight`, and half a person by its square root. With
    an odd number of people, every distance ends in one half, and that common half cancels.
    """
    ends = [0, *sorted(numbers), top]
    k = len(numbers)
    density = [Fraction(0)] * top
    for i in range(k + 1):
        for unit in range(ends[i], ends[i + 1]):
            density[unit] = weight ** ((abs(2 * i - k) - 1) // 2)
    return [d / sum(density) for d in density]


@pytest.mark.parametrize("full", [True, False])
def test_the_sampler_of_the_notes_spends_twice_its_epsilon(full: bool) -> None:
    """For three people on [0, 6], e^-ε per person exceeds the ratio e^ε; e^(-ε/2) does not."""
    epsilon = Fraction(1)
    person = Fraction(math.exp(-epsilon if full else -epsilon / 2))
    worst = Fraction(1)
    for numbers in itertools.product(range(7), repeat=3):
        for changed in range(7):
            one = printed_sampler(list(numbers), 6, person)
            other = printed_sampler([changed, *numbers[1:]], 6, person)
            worst = max(worst, *(a / b for a, b in zip(one, other, strict=True) if b))
    assert (worst > Fraction(math.exp(1))) is full


def test_ties_do_not_hide_the_median() -> None:
    """If everybody holds 40, the printed score is constant; ours is 0 only at 40."""
    people = [0] * 101
    people[40] = 1_000
    quantile = PrivateQuantile(Epsilon("1"))
    assert quantile.distances(people)[40] == 0
    assert min(d for point, d in enumerate(quantile.distances(people)) if point != 40) == 1_000
    assert all(quantile.choose(people, seeded_below(seed)) == 40 for seed in range(50))


def test_choices_follow_the_weights() -> None:
    """Keep false alarms at 5e-9. Twin: weights for twice the ε are rejected."""
    people, uniform, n = [3, 0, 2, 0, 1], seeded_below(), 20_000
    quantile = PrivateQuantile(Epsilon("0.5"))
    weights, seen = (
        quantile.weights(people),
        Counter(quantile.choose(people, uniform) for _ in range(n)),
    )
    for point, weight in enumerate(weights):
        assert_plausible(seen[point], n, weight / sum(weights))
    wrong = PrivateQuantile(Epsilon("1")).weights(people)
    assert_implausible(seen[4], n, wrong[4] / sum(wrong))


def test_two_candidates_are_distinguished_at_the_rate_of_the_formula() -> None:
    """With a gap of g, the better one wins with probability 1 / (1 + e^(-ε g / 2)), to rounding."""
    mechanism = ExponentialMechanism(Epsilon("1"))
    for gap in (1, 5, 20):
        better, worse = mechanism.weights([0, gap])
        assert better / (better + worse) == pytest.approx(1 / (1 + math.exp(-gap / 2)), rel=1e-15)


def test_uniform_numbers_are_uniform_and_below_their_bound() -> None:
    uniform, n = seeded_below(), 30_000
    seen = Counter(uniform(3) for _ in range(n))
    assert set(seen) == {0, 1, 2}
    for value in range(3):
        assert_plausible(seen[value], n, 1 / 3)
    assert_implausible(seen[0] + 1_500, n, 1 / 3)
    assert uniform(1) == 0
    assert uniform(10**30) < 10**30
