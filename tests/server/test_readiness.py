"""Readiness: simultaneous checks share one test of the store."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from deniable.server.http import intake_front
from deniable.server.http.intake_front import SLOW_STORE, Readiness

Case = Callable[[Readiness], Awaitable[None]]


def held(case: Case, look: Callable[[], str | None]) -> None:
    async def run() -> None:
        await case(Readiness(asyncio.get_running_loop(), look))

    asyncio.run(run())


@pytest.mark.parametrize("reason", [None, "the disk is full"])
def test_simultaneous_readiness_checks_share_one_test_of_the_store(
    monkeypatch: pytest.MonkeyPatch, reason: str | None
) -> None:
    looks = list[None]()

    def look() -> str | None:
        looks.append(None)
        return reason

    async def case(made: Readiness) -> None:
        assert await asyncio.gather(*(made.reason() for _ in range(50))) == [reason] * 50
        assert await made.reason() == reason
        assert len(looks) == 1
        monkeypatch.setattr(intake_front, "READINESS_FRESH_SECONDS", 0.0)
        made._fresh_until = 0.0
        assert [await made.reason() for _ in range(3)] == [reason] * 3
        assert len(looks) == 4

    held(case, look)


def test_a_slow_readiness_check_is_answered_and_its_result_is_used_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(intake_front, "READINESS_PATIENCE_SECONDS", 0.02)
    free, looks = threading.Event(), list[None]()

    def look() -> None:
        looks.append(None)
        free.wait(2.0)

    async def case(made: Readiness) -> None:
        assert await asyncio.gather(*(made.reason() for _ in range(5))) == [SLOW_STORE] * 5
        assert await made.reason() == SLOW_STORE
        free.set()
        while await made.reason() == SLOW_STORE:
            pass
        assert len(looks) == 1

    held(case, look)


def test_a_failed_check_is_not_cached() -> None:
    failing = [True]

    def look() -> None:
        if failing:
            failing.pop()
            raise ValueError("a mistake")

    async def case(made: Readiness) -> None:
        with pytest.raises(ValueError, match="a mistake"):
            await made.reason()
        assert await made.reason() is None

    held(case, look)
