"""Play the crowd: some as complete `Client` devices, the others in envelopes of many reports.

Either way each answer is randomized by the survey's own mechanisms with the kernel's randomness,
packed into an envelope and posted over HTTP. Only ledger and outbox are left out for those who
travel together.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from deniable.client import Client, Policy
from deniable.shared.envelope import CONTENT_TYPE, Envelope, encode_report
from deniable.shared.errors import Refused
from deniable.shared.privacy.randomness import kernel_draw
from deniable.shared.survey.document import Survey
from deniable.simulations.demo.crowd import Person
from deniable.simulations.demo.publishing import Published

TOGETHER = 500  # reports in one envelope of those who travel together
AT_ONCE = 16  # devices that are played at the same time
FLUSH_SECONDS = 10.0

Done = Callable[[int], None]  # told how many more people have answered


def play_together(published: Published, people: Sequence[Person], done: Done) -> None:
    """Everyone's reports, many to an envelope, as a backend of an app would send them."""
    for start in range(0, len(people), TOGETHER):
        group = people[start : start + TOGETHER]
        survey = published.survey
        send(published, survey.first_round, [encoded(survey, person.answers) for person in group])
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


def encoded(survey: Survey, answers: Mapping[str, object]) -> bytes:
    """One report, as `Survey.report` makes it; without its pause, as nobody looks at a watch."""
    symbols = [each.report(answers[each.name], kernel_draw)[0] for each in survey.questions]
    return encode_report(survey, symbols)


def send(published: Published, number: int, reports: Sequence[bytes]) -> None:
    """In one envelope of this round, with the token of an app."""
    import requests

    payload = b"".join(reports)
    envelope = Envelope(published.id, number, os.urandom(16), len(reports), payload)
    answer = requests.post(
        f"{published.server}/v1/envelopes",
        data=envelope.pack(),
        headers={"Content-Type": CONTENT_TYPE, "Authorization": f"Bearer {published.app_token}"},
        timeout=30,
    )
    if answer.status_code != 200 or answer.json()["accepted"] != len(reports):
        raise Refused(f"the server did not take an envelope: {answer.status_code} {answer.text}")
