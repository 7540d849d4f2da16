"""Batches of one survey and round: none is too small, and none has too many of one network."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deniable.server.intake.limits import neighbourhood
from deniable.server.relay.forwarder import Forwarder, Settings
from deniable.server.relay.held_batches import Arrival, Holding
from deniable.server.relay.survey_list import FRESH_SECONDS, SETTLING_SECONDS, SurveyList
from deniable.shared.envelope import MAX_ENVELOPES
from deniable.shared.sealed_envelope import Batch, SealedEnvelope, mark_of
from tests.client.scripted import Answer, Script
from tests.client.scripted import serving as scripted
from tests.command import run_alone
from tests.eventually import eventually
from tests.server.relays import (
    ASKED,
    MARK,
    MIB,
    OTHER,
    KnownList,
    aggregating,
    arrived,
    id_of,
    listed,
    relaying,
    sealed,
)
from tests.server.surveys import survey
from tests.server.test_relay import ask
from tests.server.world import Hands
from tests.shared.test_sealing import PUBLIC

B = 10
END = ASKED.taken_until(0)
LAST = END - timedelta(hours=2)  # all envelopes leave from then on
BEFORE = END - timedelta(days=30)


@dataclass
class Relay:
    """Relay in this process, which notes its batches instead of sending them."""

    folder: Path
    per_network: int = 10**6
    max_bytes: int = MIB
    clock: Hands = field(default_factory=lambda: Hands(BEFORE))
    sent: list[tuple[Batch, list[SealedEnvelope]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.settings = Settings("http://127.0.0.1:9", "a-token", self.folder / "held", batch=B)
        self.restart()

    def restart(self, surveys: SurveyList | None = None) -> None:
        self.held = Holding(self.settings.folder, self.max_bytes, self.per_network)
        self.surveys = surveys or KnownList(self.clock)
        self.forwarder = Forwarder(self.held, self.surveys, self.settings, self.clock)

        def note(batch: Batch, body: Sequence[SealedEnvelope]) -> Counter[str]:
            self.sent.append((batch, list(body)))
            return Counter()

        self.forwarder._sent = note  # type: ignore[method-assign]  # sends nothing

    def keep(self, envelopes: Sequence[SealedEnvelope], sender: bytes | None = None) -> None:
        for envelope in envelopes:
            assert self.held.keep(arrived([envelope], sender)) == [None]

    def run(self, until: Any = None) -> list[int]:
        """Forward all that is due, and return the sizes of the batches."""
        self.clock.time = until or self.clock.time
        before = len(self.sent)
        while self.forwarder.turn():
            pass
        return [batch.size for batch, _ in self.sent[before:]]

    @property
    def dropped(self) -> int:
        return sum(batch.dropped for batch, _ in self.sent)


@pytest.fixture
def relay(tmp_path: Path) -> Relay:
    return Relay(tmp_path)


# When a batch leaves


def test_fewer_than_a_batch_never_leave_and_their_number_is_reported(relay: Relay) -> None:
    relay.keep(sealed(B - 1))
    assert relay.run(END - timedelta(seconds=1)) == []
    assert relay.run(END) == [0]
    ((batch, envelopes),) = relay.sent
    assert (batch.mark, batch.dropped, envelopes) == (MARK, B - 1, [])
    assert relay.held.gathered().get(MARK, 0) == 0


def test_all_leave_before_the_end_if_they_are_enough(relay: Relay) -> None:
    relay.keep(sealed(B))
    assert relay.run(LAST - timedelta(seconds=1)) == []
    assert relay.run(LAST) == [B]


def test_enough_stay_for_another_batch(relay: Relay) -> None:
    """Otherwise the last reports of each round would be lost, although a whole batch reported."""
    relay.keep(sealed(2 * B - 1))
    assert relay.run() == []
    relay.keep(sealed(1, 2 * B))
    assert relay.run() == [B]
    relay.keep(sealed(3, 3 * B))
    assert relay.run(LAST) == [B + 3]


@given(
    groups=st.lists(st.integers(1, 25), min_size=1, max_size=12),
    restarts=st.lists(st.booleans(), min_size=12, max_size=12),
)
def test_nothing_is_lost_if_a_whole_batch_reports(groups: list[int], restarts: list[bool]) -> None:
    """Whatever arrives together, and whenever the relay restarts, every batch is large enough."""
    with TemporaryDirectory() as folder:
        relay, total = Relay(Path(folder)), 0
        for size, restarts_now in zip(groups, restarts, strict=False):
            assert relay.held.keep(arrived(fake(size, total))) == [None] * size
            total += size
            if restarts_now:
                relay.restart()
            relay.run()
        relay.run(LAST)
        relay.run(END)
        assert all(batch.size >= B for batch, _ in relay.sent if not batch.dropped)
        sent = [envelope for _, envelopes in relay.sent for envelope in envelopes]
        assert len(sent) == len(set(sent)) == (total if total >= B else 0)
        assert relay.dropped == (0 if total >= B else total)


def fake(count: int, first: int) -> list[SealedEnvelope]:
    return [SealedEnvelope(MARK, n.to_bytes(256 + 48, "big")) for n in range(first, first + count)]


def test_surveys_and_rounds_are_never_mixed(relay: Relay) -> None:
    relay.keep(sealed(2 * B - 1))
    relay.keep(sealed(1, asked=OTHER))
    assert relay.run(LAST) == [2 * B - 1]
    ((batch, envelopes),) = relay.sent
    assert {envelope.mark for envelope in envelopes} == {batch.mark} == {MARK}
    assert relay.run(END) == [0]
    assert relay.dropped == 1


def test_a_drop_is_reported_even_after_a_kill(relay: Relay) -> None:
    relay.keep(sealed(3))
    relay.held.drop(MARK)
    relay.restart()
    assert relay.run() == [0]
    assert relay.dropped == 3
    relay.restart()
    assert relay.run() == []


def test_nothing_is_dropped_while_the_list_is_unknown(relay: Relay) -> None:
    """A relay that starts without its aggregator does not know when rounds end."""
    relay.keep(sealed(3))
    relay.restart(SurveyList("http://127.0.0.1:9", relay.clock))
    assert relay.run(END + timedelta(days=9)) == []
    relay.restart(KnownList(relay.clock, OTHER))  # the survey was deleted
    assert relay.run() == [0]
    assert relay.dropped == 3


def test_one_list_without_the_survey_drops_nothing(tmp_path: Path) -> None:
    """Just after its own start, an aggregator may not list all its surveys."""
    relay = Relay(tmp_path)
    relay.keep(sealed(3))
    with scripted() as script:
        script.list_reply = Answer(body=listed(OTHER))
        relay.restart(SurveyList(script.url, relay.clock))
        for _ in range(4):
            assert relay.run() == []
            relay.clock.pass_(seconds=FRESH_SECONDS)
        script.list_reply = Answer(500)
        relay.clock.pass_(seconds=SETTLING_SECONDS)
        assert relay.run() == []
        script.list_reply = Answer(body=listed(OTHER))
        relay.clock.pass_(seconds=FRESH_SECONDS)
        assert relay.run() == [0]
    assert relay.dropped == 3


def test_a_survey_that_leaves_the_list_keeps_its_envelopes(relay: Relay) -> None:
    relay.keep(sealed(B))
    relay.surveys._learn(listed(OTHER))
    assert relay.run(BEFORE + timedelta(hours=3)) == []
    assert relay.run(LAST) == [B]


def test_an_envelope_leaves_once_even_if_a_device_sends_it_again(relay: Relay) -> None:
    """A device whose acknowledgement was lost would make the next batch smaller than it seems."""
    relay.keep(sealed(B))
    assert relay.run(LAST) == [B]
    first = relay.sent[0][1][0]
    for _ in range(2):
        relay.keep([first])
        assert relay.held.gathered().get(MARK, 0) == 0
        relay.restart()
    relay.keep(sealed(B - 1, B))
    assert relay.run() == []
    relay.run(END)
    assert (relay.dropped, list((relay.folder / "held/sent").iterdir())) == (B - 1, [])


def test_in_a_new_epoch_an_envelope_leaves_once_more(relay: Relay) -> None:
    """The aggregator may have lost what has left. After a restart, the epoch is not new."""
    envelopes = sealed(B)
    relay.keep(envelopes)
    assert relay.run(LAST) == [B]
    for epoch, times in ((1, 1), (1, 0), (2, 1), (1, 0), (3, 0)):
        table = json.loads(listed(ASKED))
        table["surveys"][0]["epochs"] = [{"round": 0, "epoch": epoch, "signature": ""}]
        relay.surveys._learn(json.dumps(table).encode())
        relay.surveys._rounds = relay.surveys._accepted()
        relay.run()
        relay.keep(envelopes)
        assert relay.run() == [B] * times
        relay.restart(relay.surveys)
    assert relay.run(END) == []
    assert list((relay.folder / "held/sent").iterdir()) == []


def test_digests_are_forgotten_at_the_end_of_the_round(relay: Relay) -> None:
    relay.keep(sealed(B))
    assert relay.run(LAST) == [B]
    assert len(list((relay.folder / "held/sent").glob("*/*"))) == 1
    relay.restart()
    assert relay.run(END) == []
    assert list((relay.folder / "held/sent").iterdir()) == []
    assert relay.held.gathered() == {}


def test_a_round_that_has_not_begun_is_not_known_yet() -> None:
    asked = survey(sealed_to=PUBLIC, round="month")
    clock = Hands(asked.taken_from(asked.first_round) - timedelta(seconds=1))
    mark = mark_of(PUBLIC, id_of(asked), asked.first_round)
    assert KnownList(clock, asked).round_of(mark) is None
    clock.pass_(seconds=1)
    found = KnownList(clock, asked).round_of(mark)
    assert found is not None
    assert (found.until, found.length) == (asked.taken_until(asked.first_round), 256 + 48)


# Damage


def files(relay: Relay, *names: str) -> list[Path]:
    return [path for name in names for path in (relay.folder / "held" / name).glob("*/*")]


def test_a_network_s_share_of_thousands_of_envelopes_leaves_as_well(tmp_path: Path) -> None:
    """Files may hold more envelopes than a body may."""
    relay, networks = Relay(tmp_path, per_network=1, max_bytes=8 * MIB), MAX_ENVELOPES + 1
    for first in (0, networks):
        some = fake(networks, first)
        arrivals = [Arrival(one, n.to_bytes(3, "big")) for n, one in enumerate(some)]
        assert relay.held.keep(arrivals) == [None] * networks
    assert set(relay.run(LAST)) == {networks}
    assert len({envelope for _, body in relay.sent for envelope in body}) == 2 * networks
    relay.run(END)
    assert relay.dropped == 0


@pytest.mark.parametrize("restarts", [False, True])
def test_damaged_files_make_no_batch_small_and_are_reported(relay: Relay, restarts: bool) -> None:
    relay.keep(sealed(2 * B))
    for path in files(relay, "gathering")[: B + 1]:
        path.write_bytes(b"")
    if restarts:
        relay.restart()
    assert sum(relay.run(LAST)) == 0
    relay.run()
    assert relay.dropped == B + 1
    relay.keep(sealed(1, 50))
    assert relay.run() == [B]
    relay.run(END)
    assert relay.dropped == B + 1


def test_a_damaged_batch_that_has_become_too_small_is_dropped(relay: Relay) -> None:
    relay.keep(sealed(B))
    relay.held.close_batch(MARK)
    files(relay, "leaving")[0].write_bytes(b"")
    assert relay.run() == [0]
    assert relay.dropped == B


def test_a_damaged_batch_that_is_large_enough_leaves(relay: Relay) -> None:
    relay.keep(sealed(B + 2))
    relay.held.close_batch(MARK)
    files(relay, "leaving")[0].write_bytes(b"")
    assert sorted(relay.run()) == [0, B + 1]
    assert relay.dropped == 1


Kept = tuple[int, int]  # number of envelopes, and their network
STEPS = st.lists(
    st.one_of(
        st.tuples(st.integers(1, 12), st.integers(0, 9)),
        st.sampled_from(["restart", "run", "kill", "damage gathering", "damage later"]),
    ),
    min_size=4,
    max_size=25,
)


@given(steps=STEPS)
@settings(max_examples=150)
def test_each_envelope_leaves_once_or_is_reported_as_dropped(steps: list[Kept | str]) -> None:
    """Acknowledged = left + dropped at the end, through kills and damaged files."""
    with TemporaryDirectory() as folder:
        relay, total = Relay(Path(folder), per_network=3), 0
        for step in steps:
            if not isinstance(step, str):
                some = fake(step[0], total)
                for one in some:  # in files of their own
                    relay.keep([one], bytes([step[1]] * 3))
                total += len(some)
            elif step == "run":
                relay.run()
            elif step == "restart":
                relay.restart()
            elif step == "kill":
                kill_during_a_turn(relay)
            elif found := sorted(files(relay, step.split()[1])):
                found[0].write_bytes(b"damaged")
        relay.run(LAST)
        relay.run(END)
        assert all(batch.size >= B for batch, _ in relay.sent if not batch.dropped)
        sent = [envelope for _, envelopes in relay.sent for envelope in envelopes]
        assert len(sent) == len(set(sent)) == total - relay.dropped


def kill_during_a_turn(relay: Relay) -> None:
    """Kill the relay when it first deletes a file, after it has written what it moves."""
    with pytest.MonkeyPatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr(Path, "unlink", Mock(side_effect=KeyboardInterrupt))
        relay.forwarder.turn()
    relay.restart()


# Networks


def test_a_network_has_a_share_of_each_batch_and_the_rest_waits(tmp_path: Path) -> None:
    relay = Relay(tmp_path, per_network=2)
    for number in range(B - 2):
        relay.keep(sealed(1, number), bytes([0, 0, number]))
    crowd = sealed(7, 100)
    relay.keep(crowd, b"abc")
    assert relay.run(LAST) == [B]
    seen = [len(set(envelopes) & set(crowd)) for _, envelopes in relay.sent]
    assert seen == [2]
    for number in range(B - 2):
        relay.keep(sealed(1, 50 + number), bytes([0, 0, number]))
    assert relay.run() == [B]
    assert [len(set(envelopes) & set(crowd)) for _, envelopes in relay.sent] == [2, 2]
    relay.run(END)
    assert relay.dropped == 3


def test_those_who_stay_count_in_the_next_batch(tmp_path: Path) -> None:
    relay = Relay(tmp_path, per_network=2)
    some = sealed(60)
    networks = {envelope: bytes([0, 0, number // 3]) for number, envelope in enumerate(some)}
    for envelope in some:
        relay.keep([envelope], networks[envelope])
    assert relay.run()[0] >= B
    relay.run(LAST)
    assert len(relay.sent) > 1
    for _, envelopes in relay.sent:
        assert max(Counter(networks[envelope] for envelope in envelopes).values()) <= 2


def test_a_restart_lets_no_network_have_more_than_one_share_more(tmp_path: Path) -> None:
    """Senders are never on disk, so those who wait after a restart count as one network."""
    relay = Relay(tmp_path, per_network=2)
    relay.keep(sealed(6), b"abc")
    relay.restart()
    assert relay.held.gathered()[MARK] == 2
    relay.keep(sealed(6, 10), b"abc")
    assert relay.held.gathered()[MARK] == 4
    assert not any(
        b"abc" in path.read_bytes() for path in relay.folder.rglob("*") if path.is_file()
    )


def test_after_a_restart_the_rest_of_many_networks_leaves_in_shares(tmp_path: Path) -> None:
    relay, crowd = Relay(tmp_path, per_network=2), dict[SealedEnvelope, bytes]()
    for number in range(B):
        sender = bytes([0, 0, number])
        some = fake(7, 100 * number)
        relay.keep(some, sender)
        crowd |= dict.fromkeys(some, sender)
    for turn in (LAST, LAST + timedelta(minutes=1)):
        relay.restart()
        relay.run(turn)
    relay.run(END)
    assert [batch.size for batch, _ in relay.sent] == [2 * B, 2 * B, 2 * B, B]
    for _, envelopes in relay.sent:
        assert max(Counter(crowd[envelope] for envelope in envelopes).values()) <= 2
    assert relay.dropped == 0


@pytest.mark.parametrize(
    ("one", "other", "most"),
    [
        ("192.0.2.1", "192.0.2.200", 2),
        ("192.0.2.1", "192.0.3.1", 4),
        ("2001:db8::1", "2001:db8::2", 2),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", 4),
    ],
)
def test_neighbourhoods_are_those_of_the_server_s_limits(
    tmp_path: Path, one: str, other: str, most: int
) -> None:
    relay = Relay(tmp_path, per_network=2)
    for first, address in enumerate((one, other)):
        relay.keep(sealed(5, 10 * first), neighbourhood(address))
    assert relay.held.gathered()[MARK] == most


# A real relay


@pytest.fixture
def script() -> Iterator[Script]:
    with scripted() as made:
        receipt = {"accepted": 1, "duplicates": 0, "refused": []}
        made.list_reply = Answer(body=listed(ASKED))
        made.always = Answer(body=json.dumps(receipt).encode())
        yield made


def test_a_real_relay_forwards_what_its_predecessor_held(script: Script, tmp_path: Path) -> None:
    (envelope,) = sealed(1)
    with relaying(tmp_path, script.url, batch=1, hours=0.001) as relay:
        assert ask(relay, "POST", "/v1/envelopes", envelope.pack())[0] == 202
    assert not script.posts
    with relaying(tmp_path, script.url, batch=1):
        eventually(lambda: script.posts, "a batch of one")
    assert envelope.pack() in script.posts[0].body


def test_an_app_with_a_token_sends_for_many_people(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("first-token\nsecond-token\n")
    more = ["--app-tokens", str(tmp_path / "tokens")]
    with aggregating() as script, relaying(tmp_path, script.url, per_network=1, more=more) as relay:
        for envelope in sealed(3):
            headers = {"Authorization": "Bearer second-token"}
            assert ask(relay, "POST", "/v1/envelopes", envelope.pack(), **headers)[0] == 202
        for token in ("Bearer third-token", "Bearer ", "second-token"):
            body = sealed(1, 9)[0].pack()
            assert ask(relay, "POST", "/v1/envelopes", body, Authorization=token)[0] == 401
    assert len(list((tmp_path / "held/gathering" / MARK.hex()).iterdir())) == 3


def test_a_file_of_tokens_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    words = ["relay", "--data", tmp_path / "held", "--to", "https://stats.example.org"]
    said = run_alone(*words, "--token", "x", "--app-tokens", tmp_path / "none")
    assert (said.returncode, "cannot be read as a list of tokens" in said.stderr) == (2, True)


def test_a_real_relay_writes_metrics_and_a_log_of_json(script: Script, tmp_path: Path) -> None:
    file = tmp_path / "relay.prom"
    (envelope,) = sealed(1)
    with relaying(tmp_path, script.url, batch=5) as relay:
        assert ask(relay, "POST", "/v1/envelopes", envelope.pack())[0] == 202
    more = ["--metrics", str(file), "--log-json"]
    with relaying(tmp_path, script.url, batch=1, more=more) as relay:
        eventually(file.exists, "the metrics")
        eventually(lambda: script.posts, "a batch of one")
        held = (
            f"deniable_relay_held_envelopes 1\ndeniable_relay_held_bytes {len(envelope.pack())}\n"
        )
        assert file.read_text() == held
        assert ask(relay, "GET", "/metrics")[0] == 404
        assert relay.process.stderr is not None
        logged = json.loads(next(line for line in relay.process.stderr if "forwarded" in line))
    assert (logged["level"], "a batch of 1 was" in json.dumps(logged)) == ("info", True)


def test_a_real_relay_counts_networks_behind_a_proxy(tmp_path: Path) -> None:
    with (
        aggregating() as script,
        relaying(tmp_path, script.url, per_network=1, more=["--proxy", "127.0.0.1"]) as relay,
    ):
        for number, address in enumerate(("192.0.2.1", "192.0.2.2", "198.51.100.1")):
            body, headers = sealed(1, number)[0].pack(), {"X-Forwarded-For": address}
            assert ask(relay, "POST", "/v1/envelopes", body, **headers)[0] == 202
    folders = {name: tmp_path / "held" / name / MARK.hex() for name in ("gathering", "later")}
    assert {name: len(list(folder.iterdir())) for name, folder in folders.items()} == {
        "gathering": 2,
        "later": 1,
    }
