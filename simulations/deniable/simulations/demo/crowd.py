"""Crowd of the demo: people's true answers, and how their reports reach the server.

Everyone answers one survey: some people with a complete `Client`, the others through a backend that
puts many reports into an envelope. A second survey covers twelve days of an app, with a round per
day: a bad release, its fix, and a day with forged reports. Its reports carry the app's version as a
label. It asks whether the app crashed at least once in a day, so people answer twice a day, and the
second answer redraws the report. The days are over, because such reports leave after their round.
In both, the survey's own mechanisms randomize each answer with randomness from the kernel, and
envelopes travel over HTTP. People behind the backend lack only a ledger and an outbox.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np
import requests

from deniable.client import Client, Policy
from deniable.client.environment import KEPT
from deniable.shared.envelope import CONTENT_TYPE, Envelope, encode_report
from deniable.shared.errors import Refused, quantity
from deniable.shared.privacy.mechanism import kernel_draw
from deniable.shared.survey.document import Survey
from deniable.shared.survey.participation import LIFETIME
from deniable.simulations.demo.server_process import Published

TRUE_SHARES = {"firefox": 0.34, "chrome": 0.41, "safari": 0.14, "edge": 0.07, "other": 0.04}
CRASH_SHARE = 0.07
MINUTES = (2.0, 17.0)  # shape and scale of a gamma distribution, clamped to two hours
REPORTS_PER_ENVELOPE = 500  # size of each envelope that the backend sends
MAX_PARALLEL_DEVICES = 16
FLUSH_SECONDS = 10.0
CRASHED_BY_DAY = (0.04, 0.04, 0.05, 0.04, 0.11, 0.24, 0.31, 0.27, 0.12, 0.05, 0.04, 0.04)
RELEASE_DAY, FIX_DAY, FORGERY_DAY = 4, 8, 10  # days are counted from 0
ANNOTATIONS = {RELEASE_DAY: "2.4 released", FIX_DAY: "2.4.1 fixes it"}
BAD_RELEASE, CRASHED_ON_IT, CRASHED_ELSEWHERE = "2.4", 0.40, 0.04
REPORTS_PER_FORGERY = 20  # one report in 20 is forged on that day
MIN_PEOPLE_PER_DAY = 100
SCREENS = (0.38, 0.22, 0.18, 0.07, 0.06, 0.03, 0.04, 0.02)
FIRST_SCREEN = "home"  # of everyone's first answer in a day
ALL_SCREENS = 2 ** len(SCREENS) - 1  # a valid symbol that claims every screen

Done = Callable[[int], None]  # called with the number of people who have just answered
Truths = Mapping[str, Mapping[str, float]]
NO_LABELS: Mapping[str, str] = {}


@dataclass(frozen=True)
class Person:
    crashed: bool
    minutes: float
    browser: str

    @property
    def answers(self) -> dict[str, object]:
        return {"crashed": self.crashed, "minutes": self.minutes, "browser": self.browser}


def make_crowd(people: int, seed: int) -> list[Person]:
    """Return this many people; the same seed gives the same people."""
    random = np.random.default_rng(seed)
    crashed = random.random(people) < CRASH_SHARE
    minutes = np.minimum(random.gamma(*MINUTES, size=people), 120.0)
    browsers = random.choice(list(TRUE_SHARES), size=people, p=list(TRUE_SHARES.values()))
    return [
        Person(bool(c), float(m), str(b))
        for c, m, b in zip(crashed, minutes, browsers, strict=True)
    ]


def truths(crowd: list[Person]) -> dict[str, dict[str, float]]:
    people = len(crowd)
    return {
        "crashed": {"yes": sum(person.crashed for person in crowd) / people},
        "minutes": {"mean": fmean(person.minutes for person in crowd)},
        "browser": shares_of([person.browser for person in crowd], TRUE_SHARES),
    }


def shares_of(answers: Sequence[str], options: Iterable[str]) -> dict[str, float]:
    counted = Counter(answers)
    return {option: counted[option] / len(answers) for option in options}


def play_backend(published: Published, people: Sequence[Person], done: Done) -> None:
    """Send many reports in each envelope, as the backend of an app would."""
    for start in range(0, len(people), REPORTS_PER_ENVELOPE):
        group = people[start : start + REPORTS_PER_ENVELOPE]
        survey = published.survey
        send(published, survey.first_round, [encoded(survey, [person.answers]) for person in group])
        done(len(group))


def play_devices(published: Published, people: Sequence[Person], folder: Path, done: Done) -> None:
    """Answer as each person with a complete `Client`: consent, ledger, outbox, upload."""
    os.environ[KEPT] = "1"  # also in a container: a simulated device lasts as long as its folder
    policy = Policy(keys=[published.key], per=LIFETIME)  # so that each device answers

    def play(numbered: tuple[int, Person]) -> None:
        number, person = numbered
        client = Client(published.server, policy=policy, state=folder / str(number), allow_ci=True)
        client.consent(True)
        outcome = client.answer(published.survey.name, **person.answers)
        waiting = client.flush(FLUSH_SECONDS)
        client.close()
        if outcome.status != "queued" or waiting:
            reports = quantity(waiting, "report")
            raise Refused(f"device {number} could not answer: {outcome}, {reports} waiting")
        done(1)

    with ThreadPoolExecutor(MAX_PARALLEL_DEVICES) as pool:
        list(pool.map(play, enumerate(people)))


def encoded(
    survey: Survey, calls: Sequence[Mapping[str, object]], labels: Mapping[str, str] = NO_LABELS
) -> bytes:
    """Return a round's report like `Survey`, but without the pauses that hide its timing."""
    first, *later = calls
    symbols = [q.report(first[q.name], kernel_draw)[0] for q in survey.questions]
    for answers in later:
        pairs = zip(survey.questions, symbols, strict=True)
        symbols = [q.redraw(kept, answers[q.name], kernel_draw)[0] for q, kept in pairs]
    return encode_report(survey, symbols, labels)


def send(published: Published, number: int, reports: Sequence[bytes]) -> None:
    """Send reports of this round in one envelope, with an app token."""
    payload = b"".join(reports)
    envelope = Envelope(published.id, number, os.urandom(16), len(reports), payload)
    response = requests.post(
        f"{published.server}/v1/envelopes",
        data=envelope.pack(),
        headers={"Content-Type": CONTENT_TYPE, "Authorization": f"Bearer {published.app_token}"},
        timeout=30,
    )
    if response.status_code != 200 or response.json()["accepted"] != len(reports):
        raise Refused(f"the server rejected an envelope: {response.status_code} {response.text}")


class Day(NamedTuple):
    """True values of one day of the story, which only the demo knows."""

    round: int
    first_day: date
    people: int
    forged: int  # number of forged reports
    truths: Truths
    by_version: Mapping[str, float]  # share of people whose app crashed


def versions_of(number: int, share: float) -> tuple[str, float]:
    """Return the other version that people have on a day, and the share with the bad release."""
    if number < RELEASE_DAY:
        return "2.3", 0.0
    bad = (share - CRASHED_ELSEWHERE) / (CRASHED_ON_IT - CRASHED_ELSEWHERE)
    return "2.3" if number < FIX_DAY else "2.4.1", bad


def people_a_day(people: int) -> int:
    """Return the number of people who answer per day: a fifth of the crowd, new people each day."""
    return max(MIN_PEOPLE_PER_DAY, people // 5)


def play_story(published: Published, people: int, seed: int, done: Done) -> Iterator[Day]:
    """Send the answers of each day, and forged reports on one day; yield the truth of each day."""
    survey, random = published.survey, np.random.default_rng([seed, 1])
    options = survey.questions[1].labels
    for number, share in enumerate(CRASHED_BY_DAY):
        other, bad = versions_of(number, share)
        versions = np.where(random.random(people) < bad, BAD_RELEASE, other)
        elsewhere = CRASHED_ELSEWHERE if bad else share
        chances = np.where(versions == BAD_RELEASE, CRASHED_ON_IT, elsewhere)
        crashed, early = random.random(people) < chances, random.random(people) < 0.5
        screens = random.choice(options, size=people, p=SCREENS).tolist()
        calls = (
            [{"crashed": bool(c and e), "screen": FIRST_SCREEN},
             {"crashed": bool(c and not e), "screen": s}]
            for c, e, s in zip(crashed, early, screens, strict=True)
        )  # fmt: skip
        reports = [
            encoded(survey, day, {"version": str(v)})
            for day, v in zip(calls, versions, strict=True)
        ]
        forged = people // (REPORTS_PER_FORGERY - 1) if number == FORGERY_DAY else 0
        reports += [encode_report(survey, (1, ALL_SCREENS), {"version": other})] * forged
        send(published, survey.first_round + number, reports)
        done(people)
        yield Day(
            survey.first_round + number,
            survey.round_starts(survey.first_round + number).date(),
            people,
            forged,
            {"crashed": {"yes": float(crashed.mean())}, "screen": shares_of(screens, options)},
            {str(v): float(crashed[versions == v].mean()) for v in np.unique(versions)},
        )
