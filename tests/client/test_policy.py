"""Policy: exact caps, valid keys, and one clear error for anything else."""

from __future__ import annotations

from typing import Any

import pytest

from deniable.client import Policy
from deniable.shared.errors import InvalidPolicy
from deniable.shared.survey.kinds import KINDS

KEY = "ab" * 32


def test_caps_are_exact() -> None:
    policy = Policy(keys=[KEY], max_epsilon_per_round="0.1", max_epsilon="0.3")
    assert (policy.round_cap, policy.total_cap) == (100_000_000, 300_000_000)
    assert policy.question_cap is None
    assert Policy(keys=[KEY], max_epsilon_per_question="3").question_cap == 3 * 10**9


@pytest.mark.parametrize(
    "name",
    [
        "max_epsilon_per_round",
        "max_epsilon_per_survey",
        "max_epsilon",
        "max_epsilon_per_question",
    ],
)
@pytest.mark.parametrize("cap", [0.5, 2, True, "", "-1", "1e3", "0", "0.0000000001", "∞"])
def test_a_cap_is_positive_decimal_text(name: str, cap: object) -> None:
    wrong: dict[str, Any] = {name: cap}
    with pytest.raises(InvalidPolicy, match=name):
        Policy(keys=[KEY], **wrong)


def test_a_float_as_a_cap_is_refused_with_the_reason() -> None:
    with pytest.raises(InvalidPolicy, match=r"decimal text.*exact; got float"):
        Policy(keys=[KEY], max_epsilon=0.5)  # type: ignore[arg-type] # the mistake


@pytest.mark.parametrize("keys", [[], KEY, ["ab"], ["xy" * 32], [KEY, None], [b"ab" * 32]])
def test_keys_are_hex_texts(keys: Any) -> None:
    with pytest.raises(InvalidPolicy, match="keys"):
        Policy(keys=keys)


@pytest.mark.parametrize("surveys", [[], KEY, ["app-health"]])
def test_pins_are_ids(surveys: Any) -> None:
    with pytest.raises(InvalidPolicy, match="surveys"):
        Policy(keys=[KEY], surveys=surveys)


def test_hex_in_capitals_is_the_same_key() -> None:
    assert Policy(keys=[KEY.upper()]).keys == (KEY,)


def test_a_pin_in_capitals_is_the_same_survey() -> None:
    policy = Policy(keys=[KEY], surveys=["CD" * 32])
    assert policy.allows("cd" * 32)
    assert not policy.allows("ce" * 32)
    assert Policy(keys=[KEY]).allows("ce" * 32)


def test_the_fingerprint_depends_only_on_trust() -> None:
    """The order of keys and the caps do not matter; a key and a pin differ."""
    one, two, three = ("ab" * 32, "cd" * 32, "ef" * 32)
    same = Policy(keys=[one, two]).fingerprint
    assert Policy(keys=[two, one], max_epsilon="1").fingerprint == same
    others = [
        Policy(keys=[one]),
        Policy(keys=[one, three]),
        Policy(keys=[one], surveys=[two]),
        Policy(keys=[one, two], surveys=[three]),
        Policy(keys=[two], surveys=[one]),
    ]
    assert len({same, *(policy.fingerprint for policy in others)}) == 6


def test_a_policy_can_declare_every_kind() -> None:
    declared = {f"it-{kind}": kind for kind in KINDS}
    assert Policy(keys=["00" * 32], questions=declared).questions == declared
    with pytest.raises(InvalidPolicy, match=", ".join(KINDS)):
        Policy(keys=["00" * 32], questions={"it": "guess"})
    listed: Any = {"it": ["bit"]}
    with pytest.raises(InvalidPolicy, match=", ".join(KINDS)):
        Policy(keys=["00" * 32], questions=listed)


def test_caps_hold_for_a_quarter_or_for_a_lifetime() -> None:
    usual = Policy(keys=[KEY])
    assert (usual.max_epsilon, usual.max_epsilon_per_survey, usual.per) == ("8", "2", "quarter")
    assert usual.max_epsilon_per_round == "2"
    assert (usual.renews, Policy(keys=[KEY], per="lifetime").renews) == (True, False)
    for per in ("month", "Quarter", None):
        with pytest.raises(InvalidPolicy, match='per: write "quarter" or "lifetime"'):
            Policy(keys=[KEY], per=per)  # type: ignore[arg-type] # the mistake
