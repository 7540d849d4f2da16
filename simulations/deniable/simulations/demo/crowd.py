"""A crowd to ask: everyone's true answers, which only the demo ever sees.

Twelve days of one app, a round each: a bad release, its cure, and a day with forged reports.

Play the crowd: some as complete `Client` devices, the others in envelopes of many reports.

Either way each answer is randomized by the survey's own mechanisms with the kernel's randomness,
packed into an envelope and posted over HTTP. Only ledger and outbox are left out for those who
travel together.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from statistics import fmean

import numpy as np

from deniable.client import Client, Policy
from deniable.shared.envelope import CONTENT_TYPE, Envelope, encode_report
from deniable.shared.errors import Refused
from deniable.shared.privacy.randomness import kernel_draw
from deniable.shared.survey.document import Survey
from deniable.simulations.demo.server_process import Published

SHARES = {"firefox": 0.34, "chrome": 0.41, "safari": 0.14, "edge": 0.07, "other": 0.04}
CRASHED = 0.07
MINUTES = (2.0, 17.0)  # shape and scale of a gamma distribution, clamped to two hours


@dataclass(frozen=True)
class Person:
    crashed: bool
    minutes: float
    browser: str

    @property
    def answers(self) -> dict[str, object]:
        return {"crashed": self.crashed, "minutes": self.minutes, "browser": self.browser}


def make_crowd(people: int, seed: int) -> list[Person]:
    """As many people, the same ones for the same seed."""
    random = np.random.default_rng(seed)
    crashed = random.random(people) < CRASHED
    minutes = np.minimum(random.gamma(*MINUTES, size=people), 120.0)
    browsers = random.choice(list(SHARES), size=people, p=list(SHARES.values()))
    return [
        Person(bool(c), float(m), str(b))
        for c, m, b in zip(crashed, minutes, browsers, strict=True)
    ]


def truths(crowd: list[Person]) -> dict[str, dict[str, float]]:
    """What a trusted server would say: for each question and label, the true share or mean."""
    people = len(crowd)
    return {
        "crashed": {"yes": sum(person.crashed for person in crowd) / people},
        "minutes": {"mean": fmean(person.minutes for person in crowd)},
        "browser": shares_of([person.browser for person in crowd], SHARES),
    }


def shares_of(answers: Sequence[str], options: Iterable[str]) -> dict[str, float]:
    counted = Counter(answers)
    return {option: counted[option] / len(answers) for option in options}


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


Truths = Mapping[str, Mapping[str, float]]

CRASHED_BY_DAY = (
    0.04,
    0.04,
    0.05,
    0.04,
    0.11,
    0.24,
    0.31,
    0.27,
    0.12,
    0.05,
    0.04,
    0.04,
)  # day by day
RELEASED, CURED = 4, 8  # the days on which the wave begins and ends
HAPPENED = {RELEASED: "2.4 released", CURED: "2.4.1 cures it"}  # as an operator annotates it
FORGED = 10  # the day on which a twentieth of the reports is forged
FORGERS = 20  # one report in so many of that day's
LEAST_PEOPLE = 100
SCREENS = (0.38, 0.22, 0.18, 0.07, 0.06, 0.03, 0.04, 0.02)
EVERYTHING = 2 ** len(SCREENS) - 1  # every screen at once: a symbol that is allowed by itself


@dataclass(frozen=True)
class Day:
    """What is true on it, as only the demo knows."""

    round: int
    first_day: date
    people: int
    forged: int  # reports beside theirs that nobody's device made
    truths: Truths


def first_day(today: date) -> date:
    return today - timedelta(days=len(CRASHED_BY_DAY) - 1)


def people_a_day(people: int) -> int:
    """A fifth of the crowd on each day: other people every time."""
    return max(LEAST_PEOPLE, people // 5)


def play_story(published: Published, people: int, seed: int, done: Done) -> Iterator[Day]:
    """Each day's people answer; on one day somebody sends reports that no device has made."""
    survey, random = published.survey, np.random.default_rng([seed, 1])
    options = survey.questions[1].labels
    for number, share in enumerate(CRASHED_BY_DAY):
        crashed = random.random(people) < share
        screens = random.choice(options, size=people, p=SCREENS).tolist()
        reports = [
            encoded(survey, {"crashed": bool(c), "screen": s})
            for c, s in zip(crashed, screens, strict=True)
        ]
        forged = people // (FORGERS - 1) if number == FORGED else 0
        reports += [encode_report(survey, (1, EVERYTHING))] * forged
        send(published, survey.first_round + number, reports)
        done(people)
        yield Day(
            survey.first_round + number,
            survey.round_starts(survey.first_round + number).date(),
            people,
            forged,
            {"crashed": {"yes": float(crashed.mean())}, "screen": shares_of(screens, options)},
        )
