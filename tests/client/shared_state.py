"""Process of one machine among many that share a state: `python -m tests.client.shared_state ...`.

It answers for people in random order, all surveys of a person at the same time, and repeats this
until every call has been decided. Each draw of noise adds a byte to a file, which outlives a kill.
At its end, a process prints how long its calls of `answer` took.
"""

from __future__ import annotations

import os
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import numpy as np

from deniable.client import Client, Person, signal_safety
from deniable.shared.privacy.mechanism import kernel_draw
from tests.client.scripted import TODAY, lifetime_policy
from tests.eventually import PATIENCE

STATE_KEY = "5e" * 32
SURVEYS = ("s0", "s1", "s2")
CAP = "1"  # of each person: two of the surveys at ε 0.5
POOL = ThreadPoolExecutor(len(SURVEYS))
FINAL = {"queued", "already-answered", "budget-spent"}


SECONDS = list[float]()  # of each call of `answer`


def machine(url: str, address: str, draws: str, people: range, ahead: timedelta) -> None:
    """`ahead` is the difference between this machine's clock and the true time."""
    file = os.open(draws, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def draw(bits: int) -> int:
        os.write(file, b".")
        return kernel_draw(bits)

    def now() -> datetime:
        return TODAY.astimezone(UTC) + ahead

    policy = lifetime_policy(max_epsilon=CAP)
    options = {"policy": policy, "state": address, "state_key": STATE_KEY, "send_within": 3600.0}
    client = Client(url, now=now, draw=draw, allow_ci=True, **options)  # type: ignore[arg-type] # each has its own type
    left, progress = list(people), time.monotonic()
    while left and time.monotonic() < progress + PATIENCE:
        random.shuffle(left)
        for number in left.copy():
            if answers(client, number):
                left.remove(number)
                progress = time.monotonic()
    if SECONDS:
        half, most = (1e3 * value for value in np.quantile(SECONDS, [0.5, 0.99]))
        print(f"{len(SECONDS)} answers: {half:.1f} ms median, {most:.1f} ms p99", flush=True)
    os._exit(min(len(left), 1))


def answers(client: Client, number: int) -> bool:
    """Answer for one person; return whether every call was decided."""
    person = client.person(f"person {number}")
    if not person.consent(True):
        return False
    return set(POOL.map(lambda survey: status(person, survey), SURVEYS)) <= FINAL


def status(person: Person, survey: str) -> str:
    begun = time.monotonic()
    outcome = person.answer(survey, crashed=True)
    SECONDS.append(time.monotonic() - begun)
    return outcome.status


if __name__ == "__main__":
    signal_safety.LOCK_WAIT_SECONDS = PATIENCE  # the machine may be busy
    url, address, draws, first, last, step, skew = sys.argv[1:]
    people = range(int(first), int(last), int(step))
    machine(url, address, draws, people, timedelta(seconds=int(skew)))
