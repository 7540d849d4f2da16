"""Audit: its lower bound on ε is exact, and it catches planted faults."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.mechanism import Mechanism
from deniable.shared.privacy.mechanisms import RandomizedResponse, mechanisms
from deniable.shared.privacy.verification import (
    audit,
    least_epsilon,
    lower_limit,
    telling_symbols,
    upper_limit,
)

TRIALS = 20_000
MORE = 60_000  # trials to request if only a fiftieth of them is run
SMALL = [
    kind(Epsilon("1"), size)
    for kind in mechanisms().values()
    for size in kind.proved_sizes
    if size <= 8
]
LISTED = [design for design in SMALL if not design.encoding.public_bits]
# The smallest and the largest size of each mechanism
ENDS = {design.name: design for design in LISTED}, {design.name: design for design in LISTED[::-1]}
AUDITED = [
    pytest.param(
        design,
        id=f"{design.name}-{design.size}",
        marks=[pytest.mark.long] * all(design is not ends[design.name] for ends in ENDS),
    )
    for design in LISTED
]
OTHERS = [design for design in SMALL if design not in LISTED and design.size == 2]


@pytest.mark.parametrize(
    ("one", "other", "trials", "bound"),
    [(731, 269, 1_000, 0.858571), (7_311, 2_689, 10_000, 0.955866)],
)
def test_bounds_agree_with_the_literature(one: int, other: int, trials: int, bound: float) -> None:
    assert least_epsilon(one, other, trials, 0.05) == pytest.approx(bound, abs=2e-6)


@pytest.mark.parametrize(("count", "trials"), [(1, 5), (5, 5), (17, 40), (90, 300), (299, 300)])
@pytest.mark.parametrize("error", [0.025, 1e-9])
def test_limits_have_exactly_their_stated_error(count: int, trials: int, error: float) -> None:
    """At the lower limit, sum P[this many successes or more] in fractions."""
    for limit in (
        lower_limit(count, trials, error),
        1 - upper_limit(trials - count, trials, error),
    ):
        rate = Fraction(limit)
        tail = sum(
            math.comb(trials, n) * rate**n * (1 - rate) ** (trials - n)
            for n in range(count, trials + 1)
        )
        assert float(tail) == pytest.approx(error, rel=1e-6)


def test_no_trials_give_no_bound() -> None:
    assert lower_limit(0, 100, 0.05) == 0 == least_epsilon(0, 0, 100)
    assert upper_limit(100, 100, 0.05) == 1


@pytest.mark.parametrize("mechanism", LISTED, ids=lambda each: f"{each.name}-{each.size}")
def test_events_reveal_something_but_at_most_epsilon(mechanism: Mechanism) -> None:
    """The privacy loss of the event follows from its two probabilities in the exact table."""
    event, last = telling_symbols(mechanism, 100_000), mechanism.answers - 1
    one, other = (sum(mechanism.weight(s, answer) for s in event) for answer in (0, last))
    assert 0.75 <= math.log(one / other) <= 1


@pytest.mark.parametrize("mechanism", AUDITED)
def test_every_mechanism_has_a_bound_just_below_its_epsilon(mechanism: Mechanism) -> None:
    """Each upper bound has a false-alarm probability of 1e-9.

    A lower bound that is too low would be some eight standard errors away.
    """
    found = audit(mechanism, TRIALS)
    assert found.holds
    assert found.at_least > 0.5


@pytest.mark.parametrize("mechanism", OTHERS, ids=lambda each: each.name)
def test_reports_with_public_random_bits_are_audited(mechanism: Mechanism) -> None:
    found = audit(mechanism, MORE)
    assert found.holds
    assert found.at_least > 0.1
    assert found.trials == MORE // 50


class HalfTheLies(RandomizedResponse):
    """Planted fault: the mechanism lies half as often as it should."""

    def __init__(self, epsilon: Epsilon) -> None:
        super().__init__(epsilon)
        self.lie //= 2
        self.keep = ONE - self.lie


def test_halved_lies_are_caught() -> None:
    found = audit(HalfTheLies(Epsilon("1")), TRIALS)
    assert not found.holds
    assert found.at_least > 1.2


SLOW = ("k-closest", "subset-selection")


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.long] * (n in SLOW)) for n in sorted(mechanisms())],
)
def test_a_mechanism_built_for_twice_its_epsilon_is_caught(name: str) -> None:
    """The mechanism runs at ε 4 but states 2. A missed detection is six standard errors away."""
    kind = mechanisms()[name]
    wrong = kind(Epsilon("4"), 8 if 8 in kind.proved_sizes else kind.proved_sizes[0])
    wrong.epsilon = Epsilon("2")
    assert not audit(wrong, MORE if wrong.encoding.public_bits else TRIALS).holds


def test_an_audit_examines_payloads_instead_of_the_table() -> None:
    """The table is correct, but the reports that leave the device do not follow it."""

    class Truthful(RandomizedResponse):
        def randomize(self, answer: int, draw: object) -> int:  # always the truth
            return answer

    assert Truthful(Epsilon("1")).is_private()
    assert not audit(Truthful(Epsilon("1")), 1_000).holds
