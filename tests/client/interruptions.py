"""An app whose timer interrupts its calls: `python -m tests.client.interruptions ...`."""

from __future__ import annotations

import dis
import json
import random
import signal
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import TracebackType

from deniable.client import Client
from tests.client.scripted import lifetime_policy, sqlite_of
from tests.eventually import eventually

OPENED = datetime(2026, 12, 10, 12, tzinfo=UTC)
SECRET = "a secret that no traceback shows"
CALLS = ("answer", "flush", "consent")
MAX_SECONDS = 0.003  # until the interruption; some calls end before


class Interrupted(Exception):
    """Error that a handler raises between any two instructions of the main thread."""


def interrupt(*_: object) -> None:
    raise Interrupted


def shown(traceback: TracebackType | None) -> Iterator[str]:
    """Yield each variable of ours that holds the answer. A frame that did not begin cannot act."""
    while traceback is not None:
        code, at = traceback.tb_frame.f_code, traceback.tb_lasti
        begun = all(i.opname != "RESUME" for i in dis.get_instructions(code) if i.offset == at)
        if "/deniable/client/" in code.co_filename and begun:
            for name, value in traceback.tb_frame.f_locals.items():
                if SECRET in repr(value):
                    yield f"{code.co_name}: {name}"
        traceback = traceback.tb_next


def main(url: str, state: str, key: str, times: str) -> None:
    """Interrupt so many calls. Print what was shown of an answer, and what works afterwards."""
    day, number, interrupted, leaks = [0], 0, 0, list[str]()
    client = Client(
        url,
        policy=lifetime_policy([key], max_epsilon="10000"),
        state=state,
        now=lambda: OPENED + timedelta(days=day[0]),
        send_within=0.0,
    )
    client.consent(True)
    client.answer("app-health", crashed=True)
    signal.signal(signal.SIGALRM, interrupt)
    while interrupted < int(times):
        number += 1
        day[0] += number % len(CALLS) == 0
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, MAX_SECONDS))
                match CALLS[number % len(CALLS)]:
                    case "answer":
                        client.answer("app-health", crashed=SECRET)
                    case "flush":
                        client.flush(10 * MAX_SECONDS)
                    case _:
                        client.consent(True)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except Interrupted as error:
            interrupted += 1
            leaks += shown(error.__traceback__)
    gates = sqlite_of(client)._writer.gate, sqlite_of(client)._reader.gate
    eventually(lambda: not any(gate.locked() for gate in gates), "every lock is released")
    day[0] += 1
    status = client.answer("app-health", crashed=True).status
    left = eventually(lambda: client.flush(5.0) == 0)
    printed = {"leaks": leaks, "status": status, "all sent": left}
    print(json.dumps(printed))
    client.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
