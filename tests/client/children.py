"""Programs that tests run as processes of their own: `python -m tests.client.children NAME ...`."""

from __future__ import annotations

import ctypes
import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from deniable.client import Client, Policy
from deniable.shared.privacy.randomness import kernel_draw

DAY = datetime(2026, 12, 10, 12, tzinfo=UTC)


def device(url: str, state: str, key: str, caps: str, day: int = 0, draw: object = None) -> Client:
    client = Client(
        url,
        policy=Policy(keys=[key], max_epsilon=caps),
        state=state,
        now=lambda: DAY + timedelta(days=day),
        draw=draw or kernel_draw,  # type: ignore[arg-type] # a draw, where one is given
    )
    client.consent(True)
    return client


# Many threads in many processes


def crowd(url: str, state: str, key: str, caps: str, surveys: str) -> None:
    """Four threads answer every survey, twice; prints what each call came to."""
    client, statuses = device(url, state, key, caps), list[tuple[str, str]]()

    def answer_all() -> None:
        names = random.sample(surveys.split(","), surveys.count(",") + 1) * 2
        statuses.extend((name, client.answer(name, crashed=True).status) for name in names)

    threads = [threading.Thread(target=answer_all) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    client.flush(10)
    print(json.dumps(statuses))


# Kills


def kills(url: str, state: str, key: str, caps: str, days: str) -> None:
    """Each day, children answer and are killed at random points or amid the draw; then one is not.

    Prints the status of each day's last child, and how many were killed before their end.
    """
    import requests  # noqa: F401 - loaded once, for all children

    lasting, killed, last = 0.05, 0, []
    for day in range(int(days)):
        for attempt in range(3):
            if attempt == 0 and day % 3 == 0:
                killed += _child(url, state, key, caps, day, _die, 10) == ""
            else:
                wait = random.uniform(0, 1.2 * lasting)
                killed += _child(url, state, key, caps, day, _slow, wait) == ""
        started = time.monotonic()
        last.append(_child(url, state, key, caps, day, _slow, 20))
        lasting = time.monotonic() - started
    print(json.dumps({"last": last, "killed": killed}))


def _child(url: str, state: str, key: str, caps: str, day: int, draw: object, wait: float) -> str:
    """The status that a child came to; nothing if it was killed before."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        client = device(url, state, key, caps, day, draw)
        os.write(writing, client.answer("daily", crashed=True).status.encode())
        client.flush(0.2)
        os._exit(0)
    os.close(writing)
    deadline = time.monotonic() + wait
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            break
        time.sleep(0.0005)
    with os.fdopen(reading) as pipe:
        return pipe.read()


def _die(bits: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


def _slow(bits: int) -> int:
    time.sleep(0.005)
    return kernel_draw(bits)


# Forks


def forks(url: str, state: str, key: str, caps: str, count: str, how: str) -> None:
    """A busy client is forked again and again; each child answers another survey and sends it."""
    client = device(url, state, key, caps)
    assert client.answer("s0", crashed=True).status == "queued"
    client.flush(5)
    if how == "python":  # another thread is at work at every fork
        threading.Thread(target=_hammer, args=(client,), daemon=True).start()
    statuses = []
    for number in range(1, int(count) + 1):
        reading, writing = os.pipe()
        child = os.fork() if how == "python" else _fork_in_c()
        if child == 0:
            signal.alarm(30)  # a deadlock ends here
            status = client.answer(f"s{number}", crashed=True).status
            os.write(writing, f"{status} {client.flush(15)}".encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            statuses.append(pipe.read())
        os.waitpid(child, 0)
    statuses.append(f"{client.answer('last', crashed=True).status} {client.flush(15)}")
    print(json.dumps(statuses))
    sys.stdout.flush()
    os._exit(0)


def _fork_in_c() -> int:
    """As uWSGI forks: Python is not told."""
    fork = ctypes.PyDLL(None).fork
    fork.restype = ctypes.c_int
    return int(fork())


def _hammer(client: Client) -> None:
    while True:
        client.answer("s0", crashed=True)


if __name__ == "__main__":
    programs: dict[str, Callable[..., None]] = {"crowd": crowd, "kills": kills, "forks": forks}
    programs[sys.argv[1]](*sys.argv[2:])
