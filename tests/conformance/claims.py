"""Claims about a client, by name, and the decorator that registers one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.client.scripted import ANSWERS, bit, document
from tests.conformance.device import Broken, Stage

Check = Callable[[Stage], None]
CHECKS: dict[str, Check] = {}


def check(claim: Check) -> Check:
    CHECKS[claim.__name__] = claim
    return claim


def same(what: str, got: object, wanted: object) -> None:
    if got != wanted:
        raise Broken(f"{what}: got {got!r}, expected {wanted!r}")


def no(what: str, found: object) -> None:
    if found:
        raise Broken(f"{what}: {found!r}")


def published(stage: Stage, **how: Any) -> str:
    return stage.script.publish(document(**how))


def queued(stage: Stage, survey: str = "app-health") -> None:
    same(f"answering {survey}", stage.answer(survey, **ANSWERS), "queued")


def one_bit(stage: Stage, survey: str, epsilon: str = "1", name: str = "crashed") -> None:
    published(stage, name=survey, questions=bit(name, epsilon))
