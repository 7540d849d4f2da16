"""Privacy profiles, trade-offs and losses against enumeration, quadrature and another library."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import integrate, stats

from deniable.shared.errors import WrongUse
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import Unary
from deniable.simulations import simulate
from deniable.simulations.studies.composition import gaussian_mu
from deniable.simulations.studies.privacy import privacy_profiles as profiles
from tests.simulations.own_mechanism import Cheating, HalfBit

AT = (0.0, 0.3, 1.0, 1.7, 2.9)


def divergence(p: Callable[[float], float], q: Callable[[float], float], epsilon: float) -> float:
    """Return δ(ε) of two densities by quadrature, the larger of both orders."""

    def one(a: Callable[[float], float], b: Callable[[float], float]) -> float:
        return float(integrate.quad(lambda x: max(0.0, a(x) - math.exp(epsilon) * b(x)), -12, 13,
                                    limit=2000)[0])  # fmt: skip

    return max(one(p, q), one(q, p))


def test_conversions_have_the_published_values() -> None:
    """Twin: 1.32 instead of 1.25 gives another deviation."""
    missed = profiles.trade_off(profiles.reports(1.0), np.array([0.0, 1.0]))(np.array([0.05, 0.5]))
    assert 1 - missed == pytest.approx([math.e * 0.05, 1 - math.exp(-1) / 2], abs=1e-12)
    assert 1 - missed == pytest.approx([0.135914, 0.816060], abs=1e-6)
    assert profiles.blackwell_edge() == pytest.approx(4.81139, abs=5e-6)
    edge = profiles.blackwell_edge()
    assert math.tanh(edge / 2) == pytest.approx(math.erf(edge / 2 / math.sqrt(2)), abs=1e-12)
    assert 1 / gaussian_mu(0.9, 1e-5) == pytest.approx(4.10662, abs=1e-5)
    assert profiles.classical_deviation(0.9, 1e-5) == pytest.approx(5.383, abs=5e-4)
    assert profiles.classical_deviation(0.9, 1e-5, 1.32) == pytest.approx(5.396, abs=5e-4)
    assert profiles.gaussian(1)(0.7) == pytest.approx(0.18902, abs=5e-6)


@pytest.mark.parametrize("rounds", [1, 3, 6])
def test_reports_and_their_majority_agree_with_enumeration(rounds: int) -> None:
    """Add up all sequences of reports. Post-processing reveals no more. Twin: another ε."""
    p = math.e / (1 + math.e)
    chances = [
        (p ** sum(s) * (1 - p) ** (rounds - sum(s)), (1 - p) ** sum(s) * p ** (rounds - sum(s)))
        for s in itertools.product((0, 1), repeat=rounds)
    ]
    for epsilon in AT:
        exact = sum(max(0.0, a - math.exp(epsilon) * b) for a, b in chances)
        assert profiles.reports(1.0, rounds)(epsilon) == pytest.approx(exact, abs=1e-12)
        assert profiles.majority(1.0, rounds)(epsilon) <= exact + 1e-12
    assert profiles.reports(1.1, rounds)(0.3) > profiles.reports(1.0, rounds)(0.3) + 0.01
    n = np.arange(rounds + 1)
    right = stats.binom.pmf(n, rounds, p) @ (1 + np.sign(2 * n - rounds)) / 2
    assert profiles.majority(1.0, rounds)(0.0) == pytest.approx(2 * right - 1)


@pytest.mark.parametrize("epsilon", AT)
def test_gaussian_noise_and_samples_agree_with_quadrature(epsilon: float) -> None:
    """Twin: the printed pair ((1 - q) P + q Q, Q) has another δ."""
    mu, rate = 1.3, 0.2
    p, q = stats.norm(0, 1).pdf, stats.norm(mu, 1).pdf

    def mixture(x: float) -> float:
        return (1 - rate) * float(p(x)) + rate * float(q(x))

    base = profiles.gaussian(mu)
    assert base(epsilon) == pytest.approx(divergence(p, q, epsilon), abs=1e-8)
    found = profiles.sampled(base, rate)(epsilon)
    assert found == pytest.approx(divergence(mixture, p, epsilon), abs=1e-8)
    assert abs(found - divergence(mixture, q, epsilon)) > 1e-3


def test_a_sample_is_as_private_as_its_formula_and_the_library_state() -> None:
    """A secret sample of a report reveals something up to ln(1 + q (e^ε - 1)), and nothing beyond.

    Where it is known who was sampled, the largest loss is still ε.
    """
    from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

    one, most = profiles.reports(1.0), math.log(1 + 0.1 * (math.e - 1))
    assert profiles.sampled_epsilon(1.0, 0.1) == pytest.approx(most)
    secret = profiles.sampled(one, 0.1)
    assert secret(most - 1e-3) > 1e-5 > 1e-15 > secret(most)
    assert 0.1 * one(0.999) > 1e-5
    library = from_gaussian_mechanism(2.0, sampling_prob=0.1, value_discretization_interval=1e-5)
    found = profiles.sampled(profiles.gaussian(0.5), 0.1)
    for epsilon in (0.0, 0.05, 0.2):
        assert found(epsilon) == pytest.approx(library.get_delta_for_epsilon(epsilon), abs=1e-6)


def test_the_subsampled_trade_off_has_the_corrected_value() -> None:
    """C_p(f) of the lecture notes at ε 1, p .2, δ .3, α .2 is .6753; as printed it is .6713."""

    def approximate(epsilon: float) -> float:
        return 0.3 + 0.7 * max(0.0, math.e - math.exp(epsilon)) / (1 + math.e)

    slopes = np.linspace(0, 2, 2001)
    found = profiles.trade_off(profiles.sampled(approximate, 0.2), slopes)(np.array([0.2]))
    assert found[0] == pytest.approx(0.6753, abs=5e-5)


def test_groups_have_the_chain_of_their_trade_off() -> None:
    """Gaussian privacy μ of 3 people is 3 μ; reports have the corners of the group function."""
    gauss = profiles.of_group(profiles.gaussian(0.5), 3, np.linspace(0, 12, 3001))
    e, n = 1.0, 3
    alpha = np.array([0, *(math.exp(-j * e) / (1 + math.exp(e)) for j in range(n)), 1])
    beta = np.array([1, *(math.exp(-(n - 1 - j) * e) / (1 + math.exp(e)) for j in range(n)), 0])
    group = profiles.of_group(profiles.reports(1.0), 3, np.array([0.0, 1.0]))
    for epsilon in AT:
        assert gauss(epsilon) == pytest.approx(profiles.gaussian(1.5)(epsilon), abs=1e-5)
        exact = max(0.0, float((1 - beta - math.exp(epsilon) * alpha).max()))
        assert group(epsilon) == pytest.approx(exact, abs=1e-9)
        assert epsilon > 2.5 or group(epsilon) < profiles.reports(3.0)(epsilon) - 1e-3


def test_losses_have_their_distribution() -> None:
    """Twin: δ is not the probability that the loss exceeds ε."""
    loss = profiles.loss_above(profiles.gaussian(1.0), 0.7)
    assert loss == pytest.approx(float(stats.norm.sf(0.7 - 0.5)), abs=1e-5)
    assert profiles.loss_above(profiles.reports(1.0), 0.5) == pytest.approx(1 / (1 + math.exp(-1)))
    assert loss > profiles.gaussian(1.0)(0.7) + 0.2


def test_gaussian_privacy_covers_a_report_and_no_less_does() -> None:
    cover = profiles.gaussian_cover(1.0)
    alpha = np.linspace(0, 1, 1001)
    report = profiles.trade_off(profiles.reports(1.0), np.array([0.0, 1.0]))(alpha)
    for factor, holds in ((1.0, True), (0.99, False)):
        gauss = stats.norm.cdf(stats.norm.isf(alpha) - factor * cover)
        assert bool((report >= gauss - 1e-4).all()) is holds


def test_any_mechanism_has_the_profile_of_its_worst_pair() -> None:
    """Unary bits multiply; one's own mechanism is held to its ε."""
    unary = profiles.of_mechanism(Unary(Epsilon("1"), 3))
    p, q = 0.5, 1 / (1 + math.e)  # yes at one's own option and at another
    for epsilon in AT:
        exact = sum(
            max(0.0, a * b - math.exp(epsilon) * c * d)
            for (a, c), (b, d) in itertools.product(
                [(p, q), (1 - p, 1 - q)], [(q, p), (1 - q, 1 - p)]
            )
        )
        assert unary(epsilon) == pytest.approx(exact, abs=1e-9)
    rows = simulate("privacy", epsilon=1, mechanisms=HalfBit).rows
    half = {
        r["x"]: r["y"] for r in rows if "HalfBit" in str(r["release"]) and r["curve"] == "profile"
    }
    assert half[0.0] == pytest.approx(math.tanh(0.5) / 2, abs=1e-9)
    with pytest.raises(WrongUse, match="must not exceed its ε"):
        simulate("privacy", epsilon=1, mechanisms=Cheating)
    with pytest.raises(WrongUse, match="neither numbers nor choices"):
        simulate("privacy", epsilon=1, mechanisms="k-closest")
