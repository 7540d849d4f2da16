"""Twelve days of one app, a round each: a bad release, its cure, and a day with forged reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np

from deniable.shared.envelope import encode_report
from deniable.simulations.demo.crowd import shares_of
from deniable.simulations.demo.play import Done, encoded, send
from deniable.simulations.demo.publishing import Published

Truths = Mapping[str, Mapping[str, float]]

CRASHED = (0.04, 0.04, 0.05, 0.04, 0.11, 0.24, 0.31, 0.27, 0.12, 0.05, 0.04, 0.04)  # day by day
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
    return today - timedelta(days=len(CRASHED) - 1)


def people_a_day(people: int) -> int:
    """A fifth of the crowd on each day: other people every time."""
    return max(LEAST_PEOPLE, people // 5)


def play_story(published: Published, people: int, seed: int, done: Done) -> Iterator[Day]:
    """Each day's people answer; on one day somebody sends reports that no device has made."""
    survey, random = published.survey, np.random.default_rng([seed, 1])
    options = survey.questions[1].labels
    for number, share in enumerate(CRASHED):
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
