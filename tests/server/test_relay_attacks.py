"""Attacks on the crowd of a batch: each fails, or the results state how little it hides.

A real server receives the batches of a relay in this process. The victim and the attacker post
sealed envelopes from addresses of their choice. Afterwards, the test reads the privacy statement
from the server's results.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import requests
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from deniable.server.http.tokens import new_token
from deniable.server.relay.forwarder import Forwarder, Settings
from deniable.server.relay.held_batches import Holding
from deniable.server.relay.relay_process import RelayFront
from deniable.server.relay.survey_list import SurveyList
from deniable.server.results.document import Round
from deniable.server.results.sentences import crowds, shuffle_sentences
from deniable.server.results.survey_estimates import RoundSelection, stored_estimates
from deniable.server.store import PublishedSurvey, create_store, open_store
from deniable.server.store.records import SETTLING
from deniable.shared.sealed_envelope import (
    BATCH_TYPE,
    SEALED_TYPE,
    Batch,
    SealedEnvelope,
    mark_of,
    seal,
)
from deniable.shared.survey.keys import create_sealing_key, public_hex
from tests.eventually import PATIENCE, eventually
from tests.server.relays import ALWAYS, MIB, relay_key
from tests.server.surveys import envelope, published, survey
from tests.server.test_relay import Arriving
from tests.server.world import Hands, Server, serving

B = 1_000
ATTACKER, VICTIM = "192.0.2.1", "198.51.100.1"
TODAY = datetime.now(UTC).date()
YEARS: dict[str, Any] = {"round": "once", "opens": TODAY, "closes": date(TODAY.year + 9, 1, 1)}


@dataclass
class Stage:
    """Server process with sealed surveys, and its relay in this process."""

    folder: Path
    server: Server
    public: str
    token: str
    names: Iterator[int] = field(default_factory=itertools.count)

    def publish(self) -> PublishedSurvey:
        asked = survey(name=f"survey-{next(self.names)}", sealed_to=self.public, **YEARS)
        with open_store(self.folder / "data") as store:
            made = published(store, asked)
        url = f"{self.server.url}/v1/surveys"
        eventually(lambda: made.id in requests.get(url, timeout=PATIENCE).text, "the list")
        return made

    def relay(self, max_bytes: int = 64 * MIB) -> Relay:
        return Relay(self, max_bytes)

    def sealed(
        self, asked: PublishedSurvey, count: int, first: int = 0, mark: bytes | None = None
    ) -> list[SealedEnvelope]:
        made = [
            seal(envelope(asked, first + number, round_number=0), self.public)
            for number in range(count)
        ]
        return [one._replace(mark=mark or one.mark) for one in made]

    def state(self, asked: PublishedSurvey) -> Round:
        """Return the final results of the survey's only round."""
        with open_store(self.folder / "data") as store:
            selected, final = RoundSelection(0, 0), asked.survey.taken_until(0) + SETTLING
            estimates = stored_estimates(store, asked, final, selected)
            (period,) = estimates.document().rounds
        return period

    def stated(self, asked: PublishedSurvey) -> tuple[int, float] | None:
        """Return the number of people and ε that the results state for a batch."""
        shuffled = self.state(asked).shuffled or ()
        return next(((row.people, float(row.epsilon)) for row in shuffled), None)


class Relay:
    """Relay with default limits, whose batches leave as soon as they are large enough."""

    def __init__(self, stage: Stage, max_bytes: int) -> None:
        folder = stage.folder / "held"
        for name in ("gathering", "later", "leaving"):
            assert not list(folder.glob(f"{name}/*/*")), "an earlier test has left envelopes"
        self.settings = Settings(
            stage.server.url, stage.token, folder, batch=B, last_seconds=3600 * ALWAYS
        )
        self.clock = Hands(datetime.now(UTC))
        self.surveys = SurveyList(stage.server.url, self.clock)
        self.held = Holding(folder, max_bytes, self.settings.per_network)
        self.front = RelayFront(self.held, self.surveys)
        self.forwarder = Forwarder(self.held, self.surveys, self.settings, self.clock)

    def post(self, envelopes: Sequence[SealedEnvelope], *addresses: str) -> Counter[int]:
        """Post envelopes from addresses in turn, and return the statuses."""
        headers, statuses = {"content-type": SEALED_TYPE}, list[Arriving]()

        async def play() -> None:
            self.front.__rsgi_init__(asyncio.get_running_loop())
            for one, address in zip(envelopes, itertools.cycle(addresses), strict=False):
                request = {"method": "POST", "path": "/v1/envelopes", "headers": headers}
                scope = SimpleNamespace(client=f"{address}:5", **request)
                statuses.append(arriving := Arriving([one.pack()]))
                await self.front(cast(Any, scope), cast(Any, arriving))

        asyncio.run(play())
        return Counter(arriving.status for arriving in statuses)

    def forward(self) -> int:
        """Forward all batches that are due, and return their number."""
        return sum(itertools.takewhile(bool, (self.forwarder.turn() for _ in range(100))))

    def end(self) -> None:
        """Let the round end, as the relay sees it, so that it drops what it holds."""
        self.clock.pass_(days=20 * 365)
        self.forward()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("attacks")
    key, token, now = folder / "sealing.pem", new_token(), datetime.now(UTC)
    public = public_hex(create_sealing_key(str(key)))
    with create_store(folder / "data") as store:
        store.add_token(token, "app", now, now + timedelta(days=1))
    keys = ["--sealing-key", str(key), "--relay-key", relay_key(folder)]
    with serving(folder / "data", more=keys) as server:
        yield Stage(folder, server, public, token)


def many_networks(count: int) -> list[str]:
    return [f"10.{number // 250}.{number % 250}.1" for number in range(count)]


# Honest people


def test_a_crowd_of_honest_people_is_stated(stage: Stage) -> None:
    asked, relay = stage.publish(), stage.relay()
    assert relay.post(stage.sealed(asked, B), *many_networks(100)) == {202: B}
    assert relay.forward() == 1
    assert stage.stated(asked) == (B, 0.149)
    (sentence,) = shuffle_sentences(stage.state(asked), "1")
    assert "If the relay is honest and does not collude with the server" in sentence
    assert "the 1,000 people in the smallest batch are honest" in sentence


# Filling


def test_one_network_cannot_fill_a_batch(stage: Stage) -> None:
    """999 reports of an attacker and one of a victim: nothing leaves."""
    asked, relay = stage.publish(), stage.relay()
    relay.post(stage.sealed(asked, B - 1), ATTACKER)
    assert relay.post(stage.sealed(asked, 1, B), VICTIM) == {202: 1}
    assert relay.forward() == 0
    assert stage.stated(asked) is None
    relay.end()
    period = stage.state(asked)
    assert period.relayed
    assert (period.reports, period.relayed.dropped) == (0, B)


def test_bodies_that_the_server_cannot_open_are_no_crowd(stage: Stage) -> None:
    """Garbage from many networks lets the batch leave, but the statement is about one person."""
    asked, relay = stage.publish(), stage.relay()
    (victim,) = stage.sealed(asked, 1)
    garbage = [
        SealedEnvelope(victim.mark, number.to_bytes(len(victim.sealed), "big"))
        for number in range(B - 1)
    ]
    relay.post(garbage, *many_networks(100))
    relay.post([victim], VICTIM)
    assert relay.forward() == 1
    assert stage.stated(asked) == (1, 1.0)


def test_forgers_in_many_networks_are_an_assumption_next_to_the_number(stage: Stage) -> None:
    """A relay cannot distinguish them, so the statement names the honest people it assumes."""
    asked, relay = stage.publish(), stage.relay()
    relay.post(stage.sealed(asked, B), *many_networks(100))
    assert relay.forward() == 1
    (sentence,) = shuffle_sentences(stage.state(asked), "1")
    assert "are honest" in sentence
    few = crowds(asked.survey, B)
    assert few == {1_000: "0.149", 900: "0.158", 500: "0.216"}


# Starving


def test_a_flood_of_one_network_keeps_no_one_out(stage: Stage) -> None:
    """The attacker fills its shares of the batch and of the quota; others find room."""
    asked, relay = stage.publish(), stage.relay(max_bytes=4 * MIB)
    statuses = relay.post(stage.sealed(asked, 500, 10**6), ATTACKER)
    assert statuses[202] == 4 * MIB // 64 // 320
    assert statuses[503] == 500 - statuses[202]
    assert relay.post(stage.sealed(asked, B), *many_networks(100)) == {202: B}
    assert relay.forward() == 1
    stated = stage.stated(asked)
    assert stated is not None
    assert stated[0] == B + relay.settings.per_network
    relay.end()


def test_large_bodies_of_strangers_take_no_room(stage: Stage) -> None:
    """They have the mark or the length of no survey in the list."""
    asked, relay = stage.publish(), stage.relay(max_bytes=4 * MIB)
    (honest,) = stage.sealed(asked, 1)
    large = [SealedEnvelope(honest.mark, bytes([n]) * (262_144 + 48)) for n in range(50)]
    strange = [SealedEnvelope(bytes([n]) * 8, bytes(262_144 + 48)) for n in range(50)]
    assert relay.post(large, *many_networks(50)) == {400: 50}
    assert relay.post(strange, *many_networks(50)) == {503: 50}
    assert relay.post([honest], VICTIM) == {202: 1}
    assert relay.held.gathered() == {honest.mark: 1}
    relay.end()


# Replaying


def test_reports_that_are_known_already_are_no_crowd(stage: Stage) -> None:
    """Sealed again, they look new to the relay. The server counts each of them once."""
    asked, relay = stage.publish(), stage.relay()
    relay.post(stage.sealed(asked, B), *many_networks(100))
    assert relay.forward() == 1
    assert stage.stated(asked) == (B, 0.149)
    relay.post(stage.sealed(asked, B - 1), *many_networks(100))
    relay.post(stage.sealed(asked, 1, B), VICTIM)
    assert relay.forward() == 1
    assert stage.stated(asked) == (1, 1.0)


def test_the_same_bytes_are_one_person_in_a_batch(stage: Stage) -> None:
    asked, relay = stage.publish(), stage.relay()
    (mine,) = stage.sealed(asked, 1)
    relay.post([mine] * (B - 1), *many_networks(100))
    relay.post(stage.sealed(asked, 1, B), VICTIM)
    assert relay.forward() == 0
    relay.end()


def test_no_one_else_can_claim_that_a_report_was_in_a_batch(stage: Stage) -> None:
    """Anyone with an app token can send envelopes, but only a known relay can sign a batch."""
    asked = stage.publish()
    (alone,) = stage.sealed(asked, 1)
    batch = Batch(bytes(8), alone.mark, B)
    headers = {"Authorization": f"Bearer {stage.token}", "Content-Type": BATCH_TYPE}
    body = batch.pack(alone.pack(), Ed25519PrivateKey.generate())
    url = f"{stage.server.url}/v1/envelopes"
    assert requests.post(url, body, headers=headers, timeout=PATIENCE).status_code == 400
    plain = headers | {"Content-Type": SEALED_TYPE}
    assert requests.post(url, alone.pack(), headers=plain, timeout=PATIENCE).status_code == 200
    period = stage.state(asked)
    assert (period.reports, period.shuffled or None) == (1, None)
    assert period.relayed is not None
    assert "came without a relay" in " ".join(shuffle_sentences(period, "1"))


# Splitting surveys


def test_one_report_of_a_survey_does_not_leave_with_999_of_another(stage: Stage) -> None:
    one, other, relay = stage.publish(), stage.publish(), stage.relay()
    relay.post(stage.sealed(one, 1), VICTIM)
    relay.post(stage.sealed(other, B - 1), *many_networks(100))
    assert relay.forward() == 0
    assert (stage.stated(one), stage.stated(other)) == (None, None)
    relay.end()


def test_reports_of_another_survey_under_its_mark_are_no_crowd(stage: Stage) -> None:
    one, other, relay = stage.publish(), stage.publish(), stage.relay()
    relay.post(stage.sealed(one, 1), VICTIM)
    mark = mark_of(stage.public, one.id, 0)
    relay.post(stage.sealed(other, B - 1, mark=mark), *many_networks(100))
    assert relay.forward() == 1
    assert stage.stated(one) == (1, 1.0)
    assert stage.state(other).reports == 0


# A survey for one device


def test_a_survey_that_the_server_shows_to_one_device_never_leaves(stage: Stage) -> None:
    """Devices fetch the list from the relay. A survey that no one else saw has no crowd."""
    hidden = survey(name="for-you", sealed_to=stage.public, **YEARS)
    asked, relay = stage.publish(), stage.relay()
    (victim,) = stage.sealed(asked, 1)
    strange = victim._replace(mark=mark_of(stage.public, "ab" * 32, hidden.first_round))
    assert relay.post([strange], VICTIM) == {503: 1}
    assert relay.post([victim], VICTIM) == {202: 1}
    assert relay.forward() == 0
    relay.end()
    period = stage.state(asked)
    assert (period.reports, stage.stated(asked)) == (0, None)
    assert period.relayed
    assert period.relayed.dropped == 1
    assert "Relays dropped 1 report, because" in " ".join(shuffle_sentences(period, "1"))
