"""Play the crowd: some as complete `Client` devices, the others in envelopes of many reports.

Either way each answer is randomized by the survey's own mechanisms with the kernel's randomness,
packed into an envelope and posted over HTTP. Only ledger and outbox are left out for those who
travel together.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from deniable.client import Client, Policy
from deniable.shared.envelope import CONTENT_TYPE, Envelope, encode_report
from deniable.shared.errors import Refused
from deniable.shared.privacy.randomness import kernel_draw
from deniable.shared.survey.document import Survey
from deniable.simulations.demo.crowd import Person

if TYPE_CHECKING:
    import requests

TOGETHER = 500  # reports in one envelope of those who travel together
AT_ONCE = 16  # devices that are played at the same time
FLUSH_SECONDS = 10.0

Done = Callable[[int], None]  # told how many more people have answered


@dataclass(frozen=True)
class Published:
    """A survey at its server, as the players need it."""

    server: str
    id: str
    survey: Survey
    key: str  # the public key that devices trust
    app_token: str


def play_together(published: Published, people: Sequence[Person], done: Done) -> None:
    """Everyone's reports, many to an envelope, as a backend of an app would send them."""
    import requests

    with requests.Session() as session:
        session.headers["Authorization"] = f"Bearer {published.app_token}"
        for start in range(0, len(people), TOGETHER):
            group = people[start : start + TOGETHER]
            _post(session, published, group)
            done(len(group))


def play_devices(published: Published, people: Sequence[Person], folder: Path, done: Done) -> None:
    """Everyone with a `Client` of their own: consent, ledger, outbox, upload."""
    policy = Policy(keys=[published.key], max_epsilon_per_round="2", max_epsilon="2")

    def play(numbered: tuple[int, Person]) -> None:
        number, person = numbered
        client = Client(published.server, policy=policy, state=folder / str(number))
        client.consent(True)
        outcome = client.answer(published.survey.name, **person.answers)
        waiting = client.flush(FLUSH_SECONDS)
        client.close()
        if outcome.status != "queued" or waiting:
            raise Refused(f"device {number} could not answer: {outcome}, {waiting} reports waiting")
        done(1)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(play, enumerate(people)))


def _post(session: requests.Session, published: Published, group: Sequence[Person]) -> None:
    survey = published.survey
    payload = b"".join(
        encode_report(survey, survey.report(person.answers, kernel_draw).symbols)
        for person in group
    )
    envelope = Envelope(published.id, survey.first_round, os.urandom(16), len(group), payload)
    answer = session.post(
        f"{published.server}/v1/envelopes",
        data=envelope.pack(),
        headers={"Content-Type": CONTENT_TYPE},
        timeout=30,
    )
    if answer.status_code != 200 or answer.json()["accepted"] != len(group):
        raise Refused(f"the server did not take an envelope: {answer.status_code} {answer.text}")
