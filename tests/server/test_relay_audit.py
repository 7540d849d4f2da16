"""Audit of shuffled reports: an adversary measures what it learns, and compares it with the claim.

The adversary controls the server, the register, the order in which people send, and all other
people's answers. It plays many games with two answers of one victim, and counts an event that it
has chosen before these games. Clopper-Pearson's limits then give a lower bound on ε:

    ε >= ln((lower(P[event | one answer]) - δ) / upper(P[event | other answer]))

The bound exceeds the truth with a probability of at most 1e-9. So it must not exceed the ε that is
stated for an honest relay; and it must exceed the stated ε for each planted fault.

A relay that shuffles shows the adversary only how often each report occurs. So the games about what
people send only draw these numbers. The games about what relays do have a real relay in this
process.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial, reduce
from itertools import count
from pathlib import Path
from secrets import token_hex

import numpy as np
import numpy.typing as npt
import pytest

from deniable.server.relay import held_batches
from deniable.server.relay.forwarder import Forwarder, Settings
from deniable.server.relay.held_batches import Arrival, Holding
from deniable.server.shuffling.accountant import report_epsilon_among
from deniable.server.shuffling.composition import rounds_epsilon
from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.mechanism import Mechanism
from deniable.shared.privacy.mechanisms import (
    KRandomizedResponse,
    RandomizedResponse,
    SubsetSelection,
)
from deniable.shared.privacy.verification import ERROR, lower_limit, upper_limit
from deniable.shared.sealed_envelope import (
    BATCH_NUMBER_BYTES,
    Batch,
    SealedEnvelope,
    mark_of,
)
from tests.server.relays import ALWAYS, ASKED, MARK, MIB, OTHER, KnownList, id_of
from tests.server.surveys import BIT, survey
from tests.server.world import Hands
from tests.shared.test_sealing import PUBLIC

DELTA = 0.01
PEOPLE = 100
GAMES, MANY_GAMES = 300_000, 2_000_000
LIMIT_ERROR = ERROR / 6  # of each of two limits, for each of up to three events
THRESHOLDS = 60  # events that the adversary considers
Rows = npt.NDArray[np.float64]


def bound(hits: int, misses: int, games: int, delta: float) -> float:
    """Return a lower bound on ε from how often an event happened with each of two answers."""
    lower = lower_limit(hits, games, LIMIT_ERROR) - delta
    return math.log(lower / upper_limit(misses, games, LIMIT_ERROR)) if lower > 0 else 0.0


def least_epsilon(one: Rows, other: Rows) -> float:
    """Return a lower bound on ε from the adversary's scores with each of two answers.

    The event is a score above a threshold, which the first half of the games determines.
    """
    half = len(one) // 2

    def measured(threshold: float, games: slice) -> float:
        hits, misses = (int((scores[games] > threshold).sum()) for scores in (one, other))
        return bound(hits, misses, half, DELTA)

    thresholds = np.unique(np.quantile(one[:half], np.linspace(0, 1, THRESHOLDS))) - 1e-9
    best = max(thresholds, key=lambda threshold: measured(threshold, slice(half)))
    return max(0.0, measured(best, slice(half, 2 * half)))


# What people send


@dataclass(frozen=True)
class Crowd:
    """People who all answer 0, except for a victim who answers 0 or 1, in each of some rounds."""

    asked: tuple[Mechanism, ...]
    people: int = PEOPLE
    rounds: int = 1

    def rows(self) -> tuple[Rows, Rows]:
        """Return the probabilities of each report of a person who answers 0, and 1."""
        zero, one = (
            reduce(np.kron, [
                np.array([float(design.weight(symbol, x)) for symbol in design.encoding.symbols()])
                for design in self.asked
            ])
            for x in (0, 1)
        )  # fmt: skip
        return zero / zero.sum(), one / one.sum()

    def least_epsilon(self, games: int) -> float:
        """Play, and return what the adversary measures with the most powerful test.

        Given how often each report occurs, the likelihood ratio of the two answers is the mean of
        the ratios of the single reports.
        """
        generator, (zero, one) = np.random.default_rng(20261120), self.rows()
        scores = []
        for row in (one, zero):
            total = np.zeros(games)
            for _ in range(self.rounds):
                counts = generator.multinomial(self.people - 1, zero, games)
                counts += generator.multinomial(1, row, games)
                total += np.log(counts @ (one / zero) / self.people)
            scores.append(total)
        return least_epsilon(*scores)


def bits(epsilon: str, number: int = 1) -> tuple[Mechanism, ...]:
    return (RandomizedResponse(Epsilon(epsilon), 2),) * number


def stated(asked: Sequence[Mechanism], people: int = PEOPLE, delta: float = DELTA) -> float:
    total = sum(float(design.epsilon) for design in asked)
    return report_epsilon_among(tuple(asked), total, people, delta)


HONEST = {
    "a bit": bits("1"),
    "one of four": (KRandomizedResponse(Epsilon("2"), 4),),
    "a set": (SubsetSelection(Epsilon("2"), 6),),
    "two bits": bits("0.5", 2),
}
FAULTS = {
    "a batch of a tenth": (Crowd(bits("1"), PEOPLE // 10), stated(bits("1"))),
    "labels that divide the crowd": (Crowd(bits("1"), PEOPLE // 4), stated(bits("1"))),
    "a mechanism at twice its ε": (Crowd(bits("2")), stated(bits("1"))),
    "one of four at twice its ε": (
        Crowd((KRandomizedResponse(Epsilon("4"), 4),)),
        stated((KRandomizedResponse(Epsilon("2"), 4),)),
    ),
    "three questions as if single": (Crowd(bits("1", 3)), stated(bits("1"))),
    "four rounds as if single": (Crowd(bits("1"), rounds=4), stated(bits("1"))),
}


@pytest.mark.parametrize("name", HONEST)
def test_a_report_in_an_honest_crowd_reveals_at_most_the_stated_epsilon(name: str) -> None:
    asked = HONEST[name]
    assert Crowd(asked).least_epsilon(GAMES) <= stated(asked)


def test_reports_of_several_rounds_reveal_at_most_the_stated_epsilon() -> None:
    asked = survey(BIT)
    assert asked.draws == 3
    found = Crowd(bits("1"), rounds=3).least_epsilon(GAMES)
    assert found <= rounds_epsilon(asked, PEOPLE, DELTA)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_what_people_send_reveals_more_than_is_stated(name: str) -> None:
    crowd, epsilon = FAULTS[name]
    assert crowd.least_epsilon(GAMES) > epsilon


@pytest.mark.long
@pytest.mark.parametrize("name", HONEST)
def test_many_games_with_an_honest_crowd_reveal_at_most_the_stated_epsilon(name: str) -> None:
    """The games measure more than a third of what is stated, so the test can fail."""
    asked = HONEST[name]
    found = Crowd(asked).least_epsilon(MANY_GAMES)
    assert stated(asked) / 3 < found <= stated(asked)


# What relays do


REPORT_EPSILON = "2"
KEEP = RandomizedResponse(Epsilon(REPORT_EPSILON), 2).keep / ONE
MARKS = MARK, mark_of(PUBLIC, id_of(OTHER), 0)
BEFORE = ASKED.taken_until(0) - timedelta(days=30)
OWN, ANOTHER = b"\0", b"\1"  # surveys, in the opened reports
BATCH, BATCH_DELTA = 40, 0.05
RELAY_GAMES = 200
View = list[list[tuple[bytes, int]]]  # survey and report of each envelope, by body


class Relay:
    """Relay in this process whose bodies the adversary opens: it holds the sealing key."""

    def __init__(self, folder: Path, batch: int = BATCH, per_network: int = BATCH // 20) -> None:
        settings = Settings(
            "http://127.0.0.1:9", "a-token", folder, batch, per_network, last_seconds=3600 * ALWAYS
        )
        self.held, clock = Holding(folder, MIB, per_network), Hands(BEFORE)
        self.forwarder = Forwarder(self.held, KnownList(clock), settings, clock)
        self.forwarder._sent = self.open  # type: ignore[method-assign]  # the adversary's server
        self.view: View = []

    def open(self, batch: Batch, body: Sequence[SealedEnvelope]) -> Counter[str]:
        if not batch.dropped:
            self.view.append([(one.sealed[:1], one.sealed[1]) for one in body])
        return Counter()

    def game(self, groups: Sequence[Sequence[Arrival]]) -> View:
        """Return what the adversary sees if these groups arrive, and then the round ends."""
        self.view = []
        for group in groups:
            assert self.held.keep(group) == [None] * len(group)
            while self.forwarder.turn():
                pass
        for mark in MARKS:
            self.held.drop(mark)
        while self.forwarder.turn():
            pass
        return self.view


@dataclass
class Senders:
    """Victim, and others who answer 0. The adversary chooses how and when they send."""

    generator: np.random.Generator = field(default_factory=lambda: np.random.default_rng(1))
    numbers: Iterator[int] = field(default_factory=count)

    def sent(self, answer: int, survey: bytes = OWN, network: bytes | None = None) -> Arrival:
        keeps = self.generator.random() < KEEP
        return self.known(answer if keeps else 1 - answer, survey, network)

    def known(self, report: int, survey: bytes = OWN, network: bytes | None = None) -> Arrival:
        content = survey + bytes([report]) + next(self.numbers).to_bytes(302, "big")
        return Arrival(SealedEnvelope(MARKS[survey == ANOTHER], content), network)

    def together(self, victim: Arrival) -> list[list[Arrival]]:
        return [[victim, *(self.sent(0) for _ in range(BATCH - 1))]]

    def victim_first(self, victim: Arrival) -> list[list[Arrival]]:
        return [[victim], [self.sent(0) for _ in range(BATCH - 1)]]

    def attackers(self, victim: Arrival) -> list[list[Arrival]]:
        """Reports of one network, which the adversary knows."""
        return [[victim, *(self.known(0, network=b"abc") for _ in range(BATCH - 1))]]

    def another_survey(self, victim: Arrival) -> list[list[Arrival]]:
        return [[victim, *(self.sent(0, ANOTHER) for _ in range(BATCH - 1))]]


def first_is_yes(view: View) -> bool:
    return bool(view) and view[0][0][1] == 1


def has_yes(view: View, least: int = 1) -> bool:
    return sum(report for body in view for survey, report in body if survey == OWN) >= least


EVENTS: list[Callable[[View], bool]] = [first_is_yes, has_yes, partial(has_yes, least=6)]
Play = Callable[[Senders, Arrival], list[list[Arrival]]]
PLAYS: list[Play] = [
    Senders.together, Senders.victim_first, Senders.attackers, Senders.another_survey,
]  # fmt: skip


def measured(relay: Relay, play: Play, games: int = RELAY_GAMES) -> float:
    """Return the largest lower bound of ε of all events."""
    senders, views = Senders(), list[list[View]]()
    for answer in (1, 0):
        views.append([relay.game(play(senders, senders.sent(answer))) for _ in range(games)])
    counts = [[sum(map(event, of)) for of in views] for event in EVENTS]
    return max(bound(hits, misses, games, BATCH_DELTA) for hits, misses in counts)


def stated_for_a_batch() -> float:
    """Return the ε of a batch of BATCH; `test_relay_attacks` checks which batches get it."""
    return stated(bits(REPORT_EPSILON), BATCH, BATCH_DELTA)


@pytest.mark.parametrize(
    "games", [RELAY_GAMES, pytest.param(5 * RELAY_GAMES, marks=pytest.mark.long)]
)
@pytest.mark.parametrize("play", PLAYS)
def test_an_honest_relay_reveals_at_most_the_stated_epsilon(
    play: Play, games: int, tmp_path: Path
) -> None:
    assert measured(Relay(tmp_path), play, games) <= stated_for_a_batch()


def unshuffled(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(held_batches, "shuffle", lambda _: None)


def one_number(patch: pytest.MonkeyPatch) -> None:
    """Send small batches with one number, which the server counts as one batch."""
    patch.setattr(
        held_batches, "token_hex", lambda n: "00" * n if n == BATCH_NUMBER_BYTES else token_hex(n)
    )


def one_mark(patch: pytest.MonkeyPatch) -> None:
    keep = Holding.keep

    def mixed(held: Holding, arrivals: Sequence[Arrival]) -> list[Exception | None]:
        return keep(held, [replace(a, envelope=a.envelope._replace(mark=MARK)) for a in arrivals])

    patch.setattr(Holding, "keep", mixed)


RELAY_FAULTS: dict[str, tuple[Play, Callable[[pytest.MonkeyPatch], None], dict[str, int]]] = {
    "it leaves out the shuffle": (Senders.together, unshuffled, {}),
    "it sends smaller batches": (Senders.victim_first, one_number, {"batch": 1}),
    "it mixes surveys": (Senders.another_survey, one_mark, {}),
    "it limits no network": (Senders.attackers, lambda _: None, {"per_network": BATCH}),
}


@pytest.mark.parametrize("name", RELAY_FAULTS)
def test_a_fault_of_a_relay_reveals_more_than_is_stated(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play, plant, limits = RELAY_FAULTS[name]
    plant(monkeypatch)
    assert measured(Relay(tmp_path, **limits), play) > stated_for_a_batch()
