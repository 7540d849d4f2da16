"""The study of texts: the trusted server's threshold, the limit of devices, and what is found."""

import math

import pytest

from deniable.shared.errors import WrongUse
from deniable.shared.privacy.epsilon import Epsilon
from deniable.simulations import simulate
from deniable.simulations.central.noise import DiscreteLaplace
from deniable.simulations.studies.bit_reports import noise
from deniable.simulations.studies.texts import RIGHT, local_limit, reach


def at_least(law: DiscreteLaplace, k: int) -> float:
    return math.fsum(law.probability(z) for z in range(k, k + 3_000))


@pytest.mark.parametrize("epsilon", ["0.1", "1", "8"])
@pytest.mark.parametrize("delta", [1e-9, 1e-6, 0.01])
def test_the_threshold_hides_a_text_of_one_person_and_shows_enough(
    epsilon: str, delta: float
) -> None:
    """Sum the noise. Twins: a threshold that is lower by 1, and a text with one person fewer."""
    law = DiscreteLaplace(Epsilon(epsilon), 2)
    threshold, least = reach(law, delta), reach(law, 1 - RIGHT)
    assert at_least(law, threshold) <= delta < at_least(law, threshold - 1)
    missed = at_least(law, least)  # threshold + least people are missed if noise is <= -least
    assert missed <= 1 - RIGHT < at_least(law, least - 1)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_randomized_response_about_a_known_text_respects_the_limit(epsilon: float) -> None:
    """With normal errors it needs 4.65 √(V / n); no less than 1.8 √(V / n) could be enough."""
    n = 10**8
    best = 2 * 2.326 * math.sqrt(noise(epsilon) / n)
    assert best / 3 < local_limit(epsilon, n) < best
    share, keep = local_limit(epsilon, n), math.exp(epsilon) / (1 + math.exp(epsilon))
    rate = 1 - keep + share * (2 * keep - 1)
    divergence = n * (rate * math.log(rate / (1 - keep))
                      + (1 - rate) * math.log((1 - rate) / keep))  # fmt: skip
    assert divergence <= -math.log(1 - (RIGHT - 0.01) ** 2)


def test_devices_find_texts_at_the_stated_share_and_not_at_a_third_of_it() -> None:
    """Twin: everyone writes a text of their own, if the share needed is above 1."""
    rows = simulate("texts", epsilon="0.01,4", people=1e5, repetitions=2).rows
    devices = {row["epsilon"]: row for row in rows if row["model"] == "local"}
    found, none = devices["4"], devices["0.01"]
    assert found["measured"] == 1.0
    assert found["false"] == 0
    assert none["share_needed"] is None
    assert none["measured"] is None


def test_a_large_epsilon_is_refused() -> None:
    with pytest.raises(WrongUse, match="epsilon must be at most 8 for texts, got 9"):
        simulate("texts", epsilon="1,9")
