"""`check_mechanism`: it accepts every mechanism in the table, and names the rule others break."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from deniable.shared import mechanisms as checking
from deniable.shared.cli.command import main
from deniable.shared.errors import InvalidMechanism
from deniable.shared.mechanisms import check_mechanism
from deniable.shared.privacy.encodings import WholeNumber
from deniable.shared.privacy.epsilon import ONE, Epsilon, decimal_text
from deniable.shared.privacy.mechanism import DEPENDENT, Draw, Mechanism
from deniable.shared.privacy.mechanisms import KRandomizedResponse, Ternary, Unary, mechanisms
from tests.contract.extensions import DESIGNS, HadamardResponse, NegativeSurvey

SLOW = ("k-closest", "subset-selection", "unary")  # each takes seconds
NAMED = {made.name: made for made in (*mechanisms().values(), *DESIGNS)}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name in SLOW)) for name in NAMED]
)
def test_every_mechanism_passes(name: str) -> None:
    checks = check_mechanism(NAMED[name], random.Random(1).getrandbits)
    assert checks
    assert all(check.startswith(NAMED[name].__name__) for check in checks)


def test_an_instance_can_be_checked_directly() -> None:
    checks = check_mechanism(Unary(Epsilon("0.7"), 6), random.Random(1).getrandbits)
    assert {check.partition(":")[0] for check in checks} == {"Unary at ε 0.7, size 6"}


def test_a_correct_mechanism_almost_never_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error probabilities of all samples of a class add up to the stated probability."""
    errors: list[float] = []

    def noted(name: str) -> Callable[..., Any]:
        original = getattr(checking, name)

        def of(first: Any, trials: int, error: float, *rest: Any) -> Any:
            errors.append(error)
            return original(first, trials, error, *rest)

        return of

    for name in ("audit", "lower_limit", "upper_limit"):
        monkeypatch.setattr(checking, name, noted(name))
    check_mechanism(KRandomizedResponse, random.Random(1).getrandbits)
    assert 0 < sum(errors) <= 1e-9 * (1 + 1e-12)


def times(epsilon: Epsilon, factor: int) -> Epsilon:
    return Epsilon(decimal_text(factor * epsilon.billionths))


class ThreeTimes(NegativeSurvey):
    def __init__(self, epsilon: Epsilon, options: int) -> None:
        super().__init__(times(epsilon, 3), options)
        self.epsilon = epsilon


class Understated(KRandomizedResponse):
    """Broken: the rows exceed the stated bound, though not ε with its slack."""

    def worst_ratio(self) -> tuple[int, int]:
        return 1, 1


class Unsummed(KRandomizedResponse):
    def weight(self, symbol: int, answer: int) -> Fraction:
        return super().weight(symbol, answer) * Fraction(9, 10)


class Unspoken(HadamardResponse):
    """Broken: it does not state which options a symbol supports."""

    def supported_by(self, cell: int) -> list[int]:
        return [cell % self.options]


class Biased(Ternary):
    @property
    def values(self) -> tuple[Fraction, ...]:
        low, middle, high = super().values
        return low, middle, high + Fraction(1, 100)


class Tangled(KRandomizedResponse):
    joint = DEPENDENT  # type: ignore[assignment]  # the planted fault


class Narrow(WholeNumber):
    def from_json(self, value: object) -> int:
        return super().from_json(value) // 2


class Garbled(KRandomizedResponse):
    def __init__(self, epsilon: Epsilon, options: int) -> None:
        super().__init__(epsilon, options)
        self.encoding = Narrow(options)


class Hesitant(KRandomizedResponse):
    """Broken: if the answer is 0 it draws once more, which its timing reveals."""

    def randomize(self, answer: int, draw: Draw) -> int:
        if answer == 0:
            draw(8)
        return super().randomize(answer, draw)


class Frank(KRandomizedResponse):
    """Broken: it states the table for ε but reports at twice ε."""

    def randomize(self, answer: int, draw: Draw) -> int:
        more = KRandomizedResponse(times(self.epsilon, 2), self.options)
        return more.randomize(answer, draw)


class Absent(Unary):
    sizes = range(100, 101)
    proved_sizes = (7,)  # type: ignore[assignment]  # the planted fault


BROKEN: list[tuple[type[Mechanism], str]] = [
    (ThreeTimes, "proved: .* spends 3.00 times its ε of 0.1"),
    (Understated, "worst_ratio` states 1, but the rows have"),
    (Unsummed, "adds up to 0.9"),
    (Unspoken, "unbiased: answer .*support option"),
    (Biased, "unbiased: answer .*the mean of the values"),
    (Tangled, "`joint` is dependent, but reports count in 1 cells"),
    (Garbled, "changes when passed through `to_json`"),
    (Hesitant, "depends on the answer or the outcome"),
    (Frank, "reports follow the table|reports reveal"),
    (Absent, "`sizes` has none of"),
]


@pytest.mark.parametrize(("broken", "says"), BROKEN, ids=lambda case: getattr(case, "__name__", ""))
def test_the_broken_rule_is_named(broken: type[Mechanism], says: str) -> None:
    with pytest.raises(InvalidMechanism, match=says):
        check_mechanism(broken, random.Random(1).getrandbits)


def test_rates_that_differ_from_the_table_are_detected() -> None:
    with pytest.raises(InvalidMechanism, match=r"follow the table: .* probability is stated as"):
        check_mechanism(Frank(Epsilon("1"), 4), random.Random(1).getrandbits)


def test_reports_with_too_many_symbols_to_count_are_audited() -> None:
    """Only the audit can detect such a mechanism."""

    class FrankSets(Unary):
        def randomize(self, answer: int, draw: Draw) -> int:
            more = Unary(times(self.epsilon, 3), self.options)
            return more.randomize(answer, draw)

    with pytest.raises(InvalidMechanism, match="reports reveal at least ε 2"):
        check_mechanism(FrankSets(Epsilon("1"), 8), random.Random(1).getrandbits)


def test_certify_accepts_a_user_s_class(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["certify", "--json", "--mechanism"]
    assert main([*words, "tests.contract.extensions:HadamardResponse"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["holds"], found["problem"]) == (True, None)
    assert any("audited" in check for check in found["checks"])
    assert main([*words, f"{__name__}:ThreeTimes"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["holds"], found["checks"]) == (False, [])
    assert "3.00 times its ε" in found["problem"]


@pytest.mark.parametrize(
    ("path", "says"),
    [("tests.nowhere:X", "cannot import"), ("json:dumps", "not a mechanism"), (":X", "import")],
)
def test_certify_refuses_anything_but_a_mechanism(
    path: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["certify", "--mechanism", path]) == 2
    assert says in capsys.readouterr().err


def test_a_ratio_one_unit_over_the_bound_is_an_excess() -> None:
    """One unit of 2^-64 is moved from a lie to the truth, so the stated multiple is above 1."""
    made = KRandomizedResponse(Epsilon("1"), 2)
    made.lie, made.keep = made.lie - 1, made.keep + 1
    assert made.keep + made.lie == ONE
    with pytest.raises(InvalidMechanism, match=r"spends 1 \+ .* times its ε of 1"):
        check_mechanism(made, random.Random(1).getrandbits)
