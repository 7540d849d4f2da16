"""A crowd to ask: everyone's true answers, which only the demo ever sees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

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
