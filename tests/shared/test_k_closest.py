"""Vectors by k-closest: private for every seed and order, unbiased, and with nearly minimum error.

The contract test of all mechanisms adds enumeration, encodings, bytes and vectors.
"""

import math
import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache
from hashlib import sha256, shake_256
from itertools import accumulate, pairwise
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
import pytest
from scipy.integrate import quad
from scipy.stats import beta, norm

from deniable.shared.privacy import codewords
from deniable.shared.privacy.codewords import (
    HALF,
    PREFIX,
    SPREAD,
    best_cap,
    codeword,
    coordinates,
    farthest,
)
from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.families.vector_design import AXIS
from deniable.shared.privacy.mechanism import Draw
from deniable.shared.privacy.mechanisms import KClosest
from deniable.shared.privacy.mechanisms import k_closest as module
from deniable.shared.privacy.mechanisms.k_closest import CODEWORDS
from deniable.shared.survey.kinds.vector import Vector
from tests.contract.test_mechanisms import exp_below

Array = npt.NDArray[np.float64]
SEED = 20261118


# Privacy for every seed and every order


def orders(pairs: int) -> Iterator[list[float]]:
    """Yield projections of a vector on codewords: all equal, all zero, far apart, and random."""
    yield from ([0.0] * pairs, [-0.0] * pairs, [-AXIS] * pairs, [AXIS] * (pairs - 1) + [-1e-300])
    yield [(-1) ** n * float(n // 3) for n in range(pairs)]
    for seed in range(20):
        draw = random.Random(seed)
        yield [draw.choice((AXIS, 1.0, 1.5)) * draw.uniform(-1, 1) for _ in range(pairs)]


@pytest.mark.parametrize("codewords", [16, 64])
@pytest.mark.parametrize("epsilon", ["0.01", "1", "8", "20"])
def test_exactly_k_codewords_are_near_in_every_order(
    epsilon: str, codewords: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The count is exact, so probabilities add up to one and no ratio exceeds e^ε."""
    most = exp_below(Epsilon(epsilon))
    for closest in range(1, codewords // 2 + 1):
        made = KClosest(Epsilon(epsilon), 5, codewords, closest)
        assert made.is_whole()
        assert made.is_private()
        assert Fraction(made.near, made.far) <= most
        for order in orders(codewords // 2):
            monkeypatch.setattr(module, "along", lambda *_, order=order: order)
            weights = made._weights(0, [])
            assert sum(weights) == ONE
            assert sorted(weights) == [made.far] * (codewords - closest) + [made.near] * closest


def test_the_near_codewords_are_those_closest_to_the_vector() -> None:
    """Sort with the arithmetic of another library, and compare the near codewords."""
    made, draw = KClosest(Epsilon("1"), 7), random.Random(SEED)
    for seed in range(50):
        direction = unit([draw.gauss(0, 1) for _ in range(7)])
        reach = np.array([np.array(one(seed, n, 7)) @ direction for n in range(made.codewords)])
        near = set(np.argsort(-reach)[: made.closest].tolist())
        weights = made._weights(seed, [AXIS * x for x in direction])
        assert {n for n, weight in enumerate(weights) if weight == made.near} == near


def fixed(roll: int) -> Draw:
    return lambda _: roll


def unit(vector: list[float]) -> list[float]:
    return [x / math.hypot(*vector) for x in vector]


def one(seed: int, number: int, dimension: int) -> list[float]:
    """Return the codeword with this number, scaled to length one."""
    return [(-1) ** (number % 2) * x for x in unit(list(codeword(seed, number // 2, dimension)))]


@pytest.mark.parametrize(("codewords", "closest"), [(64, 22), (64, 13), (16, 8), (1024, 511)])
def test_far_is_the_smallest_value_that_keeps_epsilon(codewords: int, closest: int) -> None:
    """A smaller value would violate ε, and so would the next smaller multiple of k."""
    made = KClosest(Epsilon("1"), 5, codewords, closest)
    exact = 1 / (codewords + closest * (exp_below(Epsilon("1")) - 1))
    assert 0 < made.far - exact * ONE <= closest + 1
    made.far -= closest
    made.near = (ONE - made.far * (codewords - closest)) // closest
    assert made.is_whole() or (ONE - made.far * (codewords - closest)) % closest
    assert not made.is_private()


@pytest.mark.parametrize("length", [0, 1, ONE // 3, ONE - 1, ONE])
def test_a_shorter_vector_is_reversed_by_exactly_its_share_of_coins(length: int) -> None:
    """The share is (1 - r) / 2, rounded down."""
    made = KClosest(Epsilon("1"), 3)
    direction = made.answer_at(0)[0]

    def codeword(coin: int) -> int:
        return made.randomize((direction, length), fixed(coin << 64)) >> 64

    turned = (ONE - length) // 2
    edge = ONE - turned
    assert codeword(edge - 1) == codeword(0)
    if turned:
        assert {codeword(edge), codeword(ONE - 1)} == {codeword(0) ^ 1}


def test_every_codeword_has_exactly_the_rolls_of_its_probability() -> None:
    made = KClosest(Epsilon("1"), 3)
    direction = made.answer_at(2)[0]
    ends = [0, *accumulate(made._weights(7, direction))]
    assert ends[-1] == ONE
    for number, (first, after) in enumerate(pairwise(ends)):
        for pick in (first, after - 1):
            symbol = made.randomize((direction, ONE), fixed(pick << 128 | 7))
            assert symbol == number << 64 | 7


# Reproducible codewords


def test_coordinates_are_normal_and_the_same_on_every_machine() -> None:
    """No threshold is so close to a half that another library's last digits could change it."""
    table = coordinates()
    assert (len(table), 0.0 in table) == (2 * HALF, False)
    written = ",".join(f"{level:.0f}" for level in table)
    assert sha256(written.encode()).hexdigest() == TABLE
    for size in range(1, int(max(table)) // 2 + 2):
        assert abs(HALF * math.erf(size / SPREAD) % 1 - 0.5) > 1e-5
    for share in (0.01, 0.1, 0.3, 0.5, 0.77, 0.999):
        quantile = sorted(table)[int(share * 2 * HALF)]
        assert quantile / 512 == pytest.approx(NormalDist().inv_cdf(share), abs=3e-3)
    assert np.var(table) / 512**2 == pytest.approx(1, abs=2e-5)


TABLE = "0040eca28664062a29d096e295fd72f653848b2d29936c6233a42a0b75087308"


def test_a_codeword_follows_the_protocol() -> None:
    text = shake_256(PREFIX + bytes([1, 2, 3, 4, 5, 6, 7, 8]) + bytes([9, 1])).digest(8)
    assert PREFIX == b"deniable codeword 1\x00"
    words = [text[n] + 256 * text[n + 1] for n in range(0, 8, 2)]
    expected = tuple(coordinates()[word] for word in words)
    assert codeword(0x0807060504030201, 0x0109, 4) == expected


# Bias


@pytest.mark.parametrize("dimension", [2, 3, 10, 100, 1_024])
def test_moments_of_the_farthest_agree_with_another_library(dimension: int) -> None:
    """Integrate over shares p by adaptive quadrature; t^2 has distribution Beta(1/2, (d - 1)/2)."""
    square = beta(0.5, (dimension - 1) / 2)
    for directions, chosen in ((8, 8), (32, 11), (512, 3), (512, 1)):
        found = farthest(dimension, directions, chosen)
        for power, stated in zip((0.5, 1), found, strict=True):
            is_chosen = (
                beta(directions - chosen, chosen).cdf if chosen < directions else np.ones_like
            )
            expected, _ = quad(
                lambda p, power=power, is_chosen=is_chosen: square.ppf(p) ** power * is_chosen(p),
                0, 1, epsabs=1e-11, epsrel=1e-9, limit=500,
            )  # fmt: skip
            assert stated == pytest.approx(expected, rel=2e-7)


def reaches(made: KClosest, vector: Array, seeds: int, expand: Callable[..., Array]) -> Array:
    """For each seed, return the exact mean of a report along the vector and across it.

    The random pick is not included. This arithmetic does not use the code; the tests above relate
    it to `randomize`.
    """
    pairs, dimension = made.codewords // 2, made.dimension
    words = expand(pairs, dimension, seeds)
    reach = words @ vector
    near = np.argsort(-np.abs(reach), axis=1)[:, : made.closest]
    chosen = np.take_along_axis(words, near[:, :, None], axis=1)
    chosen *= np.sign(np.take_along_axis(reach, near, axis=1))[:, :, None]
    mean: Array = (made.near - made.far) / ONE * chosen.sum(axis=1)
    return mean


@lru_cache(maxsize=1)
def directions(pairs: int, dimension: int, seeds: int) -> Array:
    words = raw(pairs, dimension, seeds)
    scaled: Array = words / np.linalg.norm(words, axis=2, keepdims=True)
    return scaled


def raw(pairs: int, dimension: int, seeds: int) -> Array:
    texts = [
        codewords.expanded(seed, pair, dimension) for seed in range(seeds) for pair in range(pairs)
    ]
    table = np.array(coordinates())
    words: Array = table[np.frombuffer(b"".join(texts), "<u2")]
    return words.reshape(seeds, pairs, dimension)


def unscaled(pairs: int, dimension: int, seeds: int) -> Array:
    """Return codewords as expanded, without scaling; their length is one only on average."""
    return raw(pairs, dimension, seeds) / (512 * math.sqrt(dimension))


def surprise(values: Array, expected: float) -> float:
    """Return the error of the mean in standard errors."""
    return float(abs(values.mean() - expected) / (values.std() / math.sqrt(len(values))))


VECTORS: dict[str, Callable[[int], Array]] = {
    "dense": lambda d: np.linspace(1, 2, d),
    "axis": lambda d: np.eye(d)[0],
    "two": lambda d: np.eye(d)[0] - 0.5 * np.eye(d)[1],
}


@pytest.mark.parametrize("shape", VECTORS)
@pytest.mark.parametrize(("dimension", "seeds"), [(2, 6_000), (10, 6_000), (100, 1_500)])
def test_reports_are_unbiased_in_several_directions(dimension: int, seeds: int, shape: str) -> None:
    """The mean report is the gain times the vector, whether one or all coordinates are nonzero.

    The error is within seven standard errors, which are at most 0.4 % of the gain. Means of bounded
    and nearly normal values exceed that with probability below 1e-9.
    """
    made = KClosest(Epsilon("1"), dimension)
    vector = VECTORS[shape](dimension)
    vector = vector / np.linalg.norm(vector)
    found = reaches(made, vector, seeds, directions)
    along = found @ vector
    assert along.std() / math.sqrt(seeds) < 0.004 * made.gain
    assert surprise(along, made.gain) < 7
    across = found @ np.roll(vector, 1) - (vector @ np.roll(vector, 1)) * along
    assert surprise(across, 0) < 7


def bias_along_a_coordinate(pairs: int, closest: int, table: Array) -> float:
    """Return the relative excess length of the farthest codeword's mean.

    The comparison is with normal coordinates of the same variance, for many codewords. It is exact
    except for quadrature within each of the 2^15 levels.
    """
    sizes = np.sort(np.abs(table))[::2]
    nodes, weights = np.polynomial.legendre.leggauss(6)
    shares = (np.arange(len(sizes))[:, None] + (nodes + 1) / 2) / len(sizes)
    chosen = beta(pairs - closest, closest).cdf(shares) if closest < pairs else np.ones_like(shares)
    smooth = norm.ppf((1 + shares) / 2) * math.sqrt((sizes**2).mean())
    return float((sizes * (chosen @ weights)).sum() / (smooth * chosen * weights).sum() - 1)


@pytest.mark.parametrize(
    ("epsilon", "most"), [("0.1", 1e-5), ("0.5", 1e-5), ("1", 1e-5), ("2", 1e-5), ("8", 1.2e-4)]
)
def test_rounded_coordinates_bias_an_estimate_by_less_than_stated(
    epsilon: str, most: float
) -> None:
    """With one byte per coordinate, the bias would be a hundred times larger."""
    made, table = KClosest(Epsilon(epsilon), 1_000), np.array(coordinates())
    assert abs(bias_along_a_coordinate(made.codewords // 2, made.closest, table)) < most
    coarse = np.repeat(np.sort(table)[128::256], 256)
    assert abs(bias_along_a_coordinate(made.codewords // 2, made.closest, coarse)) > 3 * most


@pytest.mark.parametrize("twin", ["not scaled", "one fewer"])
def test_the_test_above_can_fail(twin: str) -> None:
    """One twin does not scale codewords to length one; the other has too few near codewords."""
    made, vector = KClosest(Epsilon("1"), 10), np.eye(10)[0]
    stated = made.gain
    if twin == "one fewer":
        made = KClosest(Epsilon("1"), 10, made.codewords, made.closest - 4)
    found = reaches(made, vector, 6_000, unscaled if twin == "not scaled" else directions)
    assert surprise(found @ vector, stated) > 7


# Error


@pytest.mark.parametrize(("dimension", "least"), [(10, 59.73), (100, 629.35), (1_000, 6_326.4)])
def test_the_minimum_error_is_that_of_privunit(dimension: int, least: float) -> None:
    """Compare with an independently computed figure for ε 1."""
    gain, _ = best_cap(dimension, 1.0)
    assert 1 / gain**2 - 1 == pytest.approx(least, rel=1e-4)


@pytest.mark.parametrize("dimension", [2, 10, 100, 1_000, 1_024])
@pytest.mark.parametrize("epsilon", ["0.1", "0.5", "1", "2", "4", "6"])
def test_the_squared_error_is_within_two_per_cent_of_the_minimum(
    epsilon: str, dimension: int
) -> None:
    made = KClosest(Epsilon(epsilon), dimension)
    assert made.whole_error(1) ** 2 - 1 <= 1.022 * (made.least_error**2 - 1)
    assert made.codewords in CODEWORDS


def test_a_report_has_the_stated_error() -> None:
    """Draw whole reports with a device's code. Squared errors are within seven standard errors."""
    made, vector, draw = KClosest(Epsilon("1"), 10), np.linspace(-1, 2, 10), random.Random(SEED)
    vector = 0.5 * vector / np.linalg.norm(vector)
    question = Vector("v", made)
    squares = []
    for _ in range(4_000):
        symbol, fits = question.report(vector.tolist(), draw.getrandbits)
        assert fits
        reported = np.array(one(symbol & ONE - 1, symbol >> 64, 10))
        squares.append(float(((reported / made.gain - vector) ** 2).sum()))
    assert surprise(np.array(squares), 1 / made.gain**2 - 0.25) < 7
    assert surprise(np.array(squares), 1 / (0.98 * made.gain) ** 2 - 0.25) > 7


@pytest.mark.parametrize(
    "integers", [[64, 22], [60, 22, 1], [64, 0, 1], [64, 33, 1], [2048, 22, 1], [8, 2, 1]]
)
def test_impossible_integers_are_refused(integers: list[int]) -> None:
    with pytest.raises(ValueError, match="codewords"):
        KClosest.read(Epsilon("1"), 10, integers)
