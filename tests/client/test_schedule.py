"""Schedule of sending: number, times and order of tries link no envelopes and reveal no answers."""

from __future__ import annotations

import math
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from deniable.client import Client
from deniable.client.net.transport import HttpTransport, Reply, Unreachable
from deniable.client.state import outbox
from deniable.client.state.store import State
from deniable.shared.envelope import parse_envelopes
from deniable.shared.errors import InvalidPolicy
from tests.client.conftest import MakeClient
from tests.client.scripted import ANSWERS, Answer, Clock, Nobody, Script, bit, document
from tests.eventually import PATIENCE, eventually

BUSY = Answer(503)
SERVER = "https://stats.example.org"


@pytest.fixture
def queued(client_of: MakeClient, script: Script, tmp_path: Path) -> State:
    """Return ten stored envelopes, each with its own moment within a minute, and no sender."""
    for number in range(10):
        script.publish(document(f"s{number}", questions=bit("crashed", "0.1")))
    client = client_of(send_within=60.0)
    for number in range(10):
        assert client.answer(f"s{number}", crashed=True).status == "queued"
    client._uploader.stop(PATIENCE)
    assert script.posts == []
    return client._state


def server_of(state: State) -> str:
    with state.transaction() as db:
        return str(db.execute("SELECT server FROM outbox").fetchone()[0])


def test_a_server_that_never_accepts_sees_an_id_ten_times_and_then_once_a_day(
    queued: State, clock: Clock
) -> None:
    """Try each hour for two years, with a flush each time."""
    server, taken = server_of(queued), dict[int, list[float]]()
    for _ in range(2 * 365 * 24):
        with queued.transaction() as db:
            one = outbox.take(db, server, clock.now, 10**9, 60.0)
        if one is not None:
            taken.setdefault(one.number, []).append(clock.now.timestamp())
        clock.now += timedelta(hours=1)
    assert len(taken) == 10
    for moments in taken.values():
        late = moments[outbox.MAX_TRIES - 1 :]
        assert min(b - a for a, b in pairwise(late)) >= outbox.DAY_SECONDS
        assert 10 + 365 < len(moments) < 10 + 730


def test_the_limits_of_sending_have_their_values() -> None:
    assert (outbox.MAX_TRIES, outbox.DAY_SECONDS) == (10, 86_400)


def test_tries_are_counted_over_restarts_and_flushes(
    script: Script, client_of: MakeClient, clock: Clock
) -> None:
    script.publish(document())
    script.always = BUSY
    client_of().answer("app-health", **ANSWERS)
    for _ in range(15):
        client = client_of(consent=False)
        assert client.flush(0.2) == 1
        client.close()
    assert len(script.posts) == 10
    clock.now += timedelta(days=2)
    for _ in range(3):
        client = client_of(consent=False)
        assert client.flush(0.2) == 1
        client.close()
    assert len(script.posts) == 11


def test_a_try_without_a_reply_is_counted(script: Script, client_of: MakeClient) -> None:
    """The app ends while the server holds its reply back, but the server has seen the try."""
    script.publish(document())
    client = client_of(transport=(lost := Lost(script)))
    client.answer("app-health", **ANSWERS)
    for _ in range(20):
        client.flush(0.2)
    assert lost.seen == 10


class Lost:
    """Server that receives requests but whose replies are lost."""

    def __init__(self, script: Script) -> None:
        self.script, self.seen = script, 0

    def request(
        self, method: str, path: str, body: bytes | None, content_type: str | None, timeout: float
    ) -> Reply:
        if method == "GET":
            return HttpTransport(self.script.url).request(method, path, None, None, timeout)
        self.seen += 1
        raise Unreachable("no reply", sent=True)


def test_being_offline_uses_up_no_try(script: Script, client_of: MakeClient, queued: State) -> None:
    client = client_of(consent=False, transport=Nobody())
    for _ in range(15):
        assert client.flush(0.05) == 10
    client.close()
    with queued.transaction() as db:
        assert db.execute("SELECT max(tries) FROM outbox").fetchone() == (0,)
    assert client_of(consent=False).flush(PATIENCE) == 0


def test_a_moment_may_be_weeks_ahead(script: Script, client_of: MakeClient) -> None:
    """Twelve reports wait within a year, while the clock stands still.

    False alarm: a draw of 0 to the clock's last digit, below 1e-12.
    """
    script.always = BUSY
    client = client_of(send_within=365 * outbox.DAY_SECONDS)
    for number in range(12):
        script.publish(document(f"s{number}", questions=bit("crashed", "0.1")))
    for number in range(12):
        assert client.answer(f"s{number}", crashed=True).status == "queued"
    eventually(lambda: client._uploader._due > 0, "the thread has looked")
    assert script.posts == []


def test_each_envelope_waits_for_its_own_moment(queued: State, clock: Clock) -> None:
    """False alarm: ten uniform draws all within six seconds, below 1e-8."""
    with queued.transaction() as db:
        dues = [due for (due,) in db.execute("SELECT due FROM outbox")]
    assert min(dues) >= clock.now.timestamp()
    assert max(dues) <= clock.now.timestamp() + 60
    assert max(dues) - min(dues) > 6


def test_nothing_is_sent_before_its_moment_and_a_flush_overrides_it(
    script: Script, client_of: MakeClient, queued: State
) -> None:
    client = client_of(consent=False, send_within=60.0)
    client._uploader.wake()
    eventually(lambda: client._uploader._due > 0, "the thread has looked")
    assert script.posts == []
    assert client.flush(PATIENCE) == 0
    assert len(script.posts) == 10


def test_the_order_of_sending_is_not_that_of_the_answers(
    script: Script, client_of: MakeClient, queued: State
) -> None:
    """False alarm: one order of 10!, below 3e-7."""
    assert client_of(consent=False).flush(PATIENCE) == 0
    sent = [envelope.survey for post in script.posts for envelope in parse_envelopes(post.body)]
    assert sorted(sent) == sorted(survey["id"] for survey in script.surveys)
    assert sent != [survey["id"] for survey in script.surveys]


def test_due_reports_are_sent_automatically(
    script: Script, client_of: MakeClient, queued: State, clock: Clock
) -> None:
    clock.now += timedelta(minutes=2)
    client_of(consent=False)
    eventually(lambda: len(script.posts) == 10)


def test_overdue_reports_are_not_sent_back_to_back(
    queued: State, client_of: MakeClient, script: Script, clock: Clock
) -> None:
    """After a night all are due: each draws a new moment, even after a failed try."""
    clock.now += timedelta(hours=8)
    client = client_of(consent=False, send_within=60.0)
    eventually(lambda: client._uploader._due > 0, "the thread has looked")
    assert script.posts == []
    with queued.transaction() as db:
        dues = {due for (due,) in db.execute("SELECT due FROM outbox")}
    assert len(dues) == 10
    assert min(dues) >= clock.now.timestamp()


def test_a_clock_set_back_does_not_hold_a_report_for_years(queued: State, clock: Clock) -> None:
    server = server_of(queued)
    clock.now -= timedelta(days=400)
    with queued.transaction() as db:
        assert outbox.take(db, server, clock.now, 0, 60.0) is not None


@pytest.mark.parametrize("seconds", [-1, math.nan, math.inf])
def test_an_invalid_sending_interval_is_refused(client_of: MakeClient, seconds: float) -> None:
    with pytest.raises(InvalidPolicy, match="send_within"):
        client_of(send_within=seconds)


def test_the_default_sending_interval_is_a_minute() -> None:
    assert (Client.__init__.__kwdefaults__ or {})["send_within"] == 60.0
