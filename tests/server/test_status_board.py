"""Status board, on which intake reports its state to the reader."""

from __future__ import annotations

import time

from deniable.server.intake.status import IntakeStatus, StatusBoard
from tests.eventually import eventually


def test_a_status_that_fails_once_is_written_the_next_time() -> None:
    board, calls = StatusBoard(), list[float]()

    def status() -> IntakeStatus:
        calls.append(time.monotonic())
        if len(calls) == 1:
            raise RuntimeError
        return IntakeStatus(
            written=time.monotonic(),
            running=True,
            clock_fault=None,
            waiting=0,
            sealing_keys=[],
            metrics="",
        )

    board.keep_writing(status)
    eventually(lambda: board.read().running)
