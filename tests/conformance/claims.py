"""Claims about a client, by name, and the decorator that registers one.

A client supports bits. It may leave out other kinds of questions and the features below, and it
then refuses every survey that needs one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.client.scripted import ANSWERS, QUESTIONS, bit, document
from tests.conformance.device import FEATURES, KINDS, Broken, Claims, Stage

Run = Callable[[Stage], None]


@dataclass(frozen=True)
class Check:
    """Check of one of PROTOCOL's client rules, and the kinds and features that it needs."""

    run: Run
    rule: str
    needs: tuple[str, ...]

    def unclaimed(self, claims: Claims) -> list[str]:
        return [need for need in self.needs if need not in (*claims.kinds, *claims.features)]


CHECKS: dict[str, Check] = {}


def check(rule: str, *needs: str) -> Callable[[Run], Run]:
    """Register a check of a rule, by the name of its function."""
    assert {*needs} <= {*KINDS, *FEATURES}, needs

    def registered(run: Run) -> Run:
        CHECKS[run.__name__] = Check(run, rule, needs)
        return run

    return registered


def same(what: str, got: object, wanted: object) -> None:
    if got != wanted:
        raise Broken(f"{what}: got {got!r}, expected {wanted!r}")


def no(what: str, found: object) -> None:
    if found:
        raise Broken(f"{what}: {found!r}")


def claimed(stage: Stage, questions: str = QUESTIONS) -> str:
    """Return the questions, in TOML, whose kinds the client claims."""
    begin = "[[question]]"
    tables = questions.split(begin)[1:]
    kept = (t for t in tables if any(f'kind = "{kind}"' in t for kind in stage.claims.kinds))
    return "".join(begin + table for table in kept)


def asking(stage: Stage, questions: str = QUESTIONS, **how: Any) -> bytes:
    """Return the document of a survey with those questions whose kinds the client claims."""
    return document(questions=claimed(stage, questions), **how)


def published(stage: Stage, questions: str = QUESTIONS, **how: Any) -> str:
    return stage.script.publish(asking(stage, questions, **how))


def queued(stage: Stage, survey: str = "app-health") -> None:
    same(f"answering {survey}", stage.answer(survey, **ANSWERS), "queued")


def one_bit(stage: Stage, survey: str, epsilon: str = "1", name: str = "crashed") -> None:
    published(stage, name=survey, questions=bit(name, epsilon))
