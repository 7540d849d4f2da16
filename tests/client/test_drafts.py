"""Drafts: until a round ends, a device keeps one randomized report and redraws it in place."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from itertools import pairwise, product
from pathlib import Path

import pytest

from deniable.client import Client, Outcome
from deniable.client.disclosure import Budget, read_summary
from deniable.client.state import Transaction, outbox
from deniable.client.state.database import DATABASE, DRAFTS, MARKER
from deniable.client.state.drafts import BLOCK_BYTES, DraftFile
from deniable.client.state.outbox import QueuedEnvelope
from deniable.client.state.store import StateBlocked
from deniable.shared.envelope import Envelope, parse_envelopes
from deniable.shared.privacy.mechanism import Draw
from deniable.shared.survey.document import Report, Survey, Symbols, parse_document
from deniable.shared.survey.keys import public_hex
from tests.client.conftest import MakeClient
from tests.client.scripted import KEY, LATER, Clock, Listing, Script, document, lifetime_policy
from tests.eventually import PATIENCE
from tests.survey_texts import bit, choice, question

OVERS = ("last", "any", "all")
YES_OR_NO = (False, True)
JANUARY = datetime(2027, 1, 1, tzinfo=UTC)
LEFT = datetime(2027, 1, 8, tzinfo=UTC)  # every report of December is due
OPTIONS = [f"option {number}" for number in range(400)]
GENEROUS = lifetime_policy(max_epsilon_per_round="20", max_epsilon="60", labels=["version"])
WIDE = question("set", "choice", options=OPTIONS, mechanism="unary", over="last")


def asked(over: str = "any", **changes: object) -> bytes:
    return document(questions=bit(over=over), **changes)  # type: ignore[arg-type] # as there


def of_state(client: Client) -> DraftFile:
    return client._state.drafts


def kept(client: Client, slot: int = 0) -> Envelope | None:
    with client._state.transaction(durable=False):
        return of_state(client).read(slot)


def after_the_round(client: Client, clock: Clock, when: datetime = LEFT) -> int:
    clock.now = when
    return client.flush(PATIENCE)


# What leaves, and when


@pytest.mark.parametrize("over", OVERS)
def test_nothing_leaves_before_the_round_has_ended(
    over: str, script: Script, client_of: MakeClient, clock: Clock
) -> None:
    script.publish(asked(over))
    client = client_of()
    for crashed in YES_OR_NO:
        outcome = client.answer("app-health", crashed=crashed)
        assert outcome.status == "queued"
        assert "leaves between 1 and 8 January" in outcome.detail
    assert client.flush(PATIENCE) == 1
    assert after_the_round(client, clock, JANUARY - timedelta(seconds=1)) == 1
    assert script.posts == []
    assert after_the_round(client, clock) == 0
    assert [envelope.round for envelope in script.envelopes()] == [683]


@pytest.mark.parametrize(("over", "sent"), [("last", 0), ("any", 1), ("all", 0)])
def test_the_report_is_of_the_whole_round(
    over: str, sent: int, script: Script, client_of: MakeClient, clock: Clock
) -> None:
    """At ε 20 hardly any report is a lie; a false alarm has a probability below 1e-8."""
    script.publish(document(questions=bit(epsilon="20", over=over)))
    client = client_of(policy=_wide(client_of))
    for crashed in (True, True, False):
        client.answer("app-health", crashed=crashed)
    after_the_round(client, clock)
    (envelope,) = script.envelopes()
    assert envelope.payload == bytes([sent])


def _wide(client_of: MakeClient) -> object:
    return lifetime_policy(max_epsilon_per_round="20", max_epsilon="40")


def test_the_moment_is_drawn_with_the_first_call_and_stays(
    script: Script, client_of: MakeClient, clock: Clock
) -> None:
    script.publish(asked())
    client = client_of()
    client.answer("app-health", crashed=False)
    first = _row(client)
    assert JANUARY.timestamp() <= first[1] <= LEFT.timestamp()
    clock.now += timedelta(days=3)
    client.answer("app-health", crashed=True)
    assert _row(client) == first


def _row(client: Client) -> tuple[object, float, float]:
    with client._state.transaction(durable=False) as db:
        row = db.execute("SELECT envelope, due, earliest FROM outbox").fetchone()
    return bytes(row[0]), float(row[1]), float(row[2])


def test_a_round_is_charged_once_and_sent_as_the_same_bytes(
    script: Script, client_of: MakeClient, clock: Clock
) -> None:
    script.publish(asked())
    client = client_of()
    for _ in range(5):
        client.answer("app-health", crashed=True)
    assert client.budget().spent == "1"  # type: ignore[union-attr] # a budget
    script.always = LATER
    after_the_round(client, clock)
    frozen = _row(client)[0]
    assert [post.body for post in script.posts] == [frozen]
    clock.now = JANUARY - timedelta(days=1)  # the clock is set back into the round
    outcome = client.answer("app-health", crashed=True)
    assert outcome.status == "already-answered"
    assert _row(client)[0] == frozen


def test_the_next_round_has_a_draft_of_its_own(
    script: Script, client_of: MakeClient, clock: Clock
) -> None:
    script.publish(asked())
    client = client_of()
    client.answer("app-health", crashed=True)
    clock.now = LEFT
    client.answer("app-health", crashed=True)
    assert client.flush(PATIENCE) == 1
    assert [envelope.round for envelope in script.envelopes()] == [683]
    assert client.budget().spent == "2"  # type: ignore[union-attr] # a budget


def test_a_sealed_draft_leaves_sealed(script: Script, client_of: MakeClient, clock: Clock) -> None:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    from deniable.shared.sealed_envelope import MAGIC

    key = X25519PrivateKey.generate().public_key().public_bytes_raw().hex()
    script.publish(asked(sealed_to=key))
    client = client_of()
    client.answer("app-health", crashed=True)
    after_the_round(client, clock)
    (post,) = script.posts
    assert post.body.startswith(MAGIC)


def test_with_ask_the_drawn_question_stays(script: Script, client_of: MakeClient) -> None:
    questions = bit(over="last") + bit("slow", over="last")
    script.publish(document(questions=questions, asks_one=True))
    client = client_of()
    numbers = []
    for answer in (True, False, True, False):
        client.answer("app-health", crashed=answer, slow=answer)
        draft = kept(client)
        assert draft is not None
        numbers.append(draft.payload[0])
    assert len(set(numbers)) == 1


def test_an_updated_survey_with_the_same_questions_continues_the_draft(
    script: Script, client_of: MakeClient, clock: Clock
) -> None:
    first = script.publish(asked())
    client = client_of()
    client.answer("app-health", crashed=False)
    script.publish(asked(closes="2027-03-31"))
    clock.now += timedelta(hours=2)
    assert client.answer("app-health", crashed=True).survey == first
    assert client.budget().spent == "1"  # type: ignore[union-attr] # a budget


def test_sent_says_when_a_draft_leaves_and_then_what_it_said(
    script: Script, client_of: MakeClient, clock: Clock, tmp_path: Path
) -> None:
    script.publish(asked())
    client = client_of()
    client.answer("app-health", crashed=True)
    assert "leaves between 1 and 8 January" in read_summary(tmp_path / "state").text
    after_the_round(client, clock)
    text = read_summary(tmp_path / "state").text
    assert "sent and accepted" in text
    assert "leaves between" not in text
    assert "crashed: " in text


# What stays on disk


def symbols_on_disk(folder: Path, versions: list[bytes]) -> set[int]:
    """The numbers of the versions that any file of the folder holds."""
    contents = [path.read_bytes() for path in folder.iterdir() if path.is_file()]
    return {n for n, v in enumerate(versions) if any(v in content for content in contents)}


def redraw_often(client: Client, folder: Path, times: int = 12) -> list[bytes]:
    """Answer again and again; after each call, exactly the last version is on disk."""
    versions: list[bytes] = []
    for number in range(times):
        client.answer("app-health", set=f"option {number}")
        draft = kept(client)
        assert draft is not None
        versions.append(draft.payload)
        assert len(set(versions)) == len(versions), "no version is like another"
        assert symbols_on_disk(folder, versions) == {number}
    return versions


def test_one_version_of_a_report_is_on_disk_after_each_call(
    script: Script, client_of: MakeClient, clock: Clock, tmp_path: Path
) -> None:
    script.publish(document(questions=WIDE))
    client, folder = client_of(), tmp_path / "state"
    versions = redraw_often(client, folder)
    script.always = LATER
    after_the_round(client, clock)
    assert symbols_on_disk(folder, versions) == {len(versions) - 1}
    assert set((folder / DRAFTS).read_bytes()) == {0}, "the slot is zeroed when it is frozen"
    assert sorted(path.name for path in folder.iterdir() if "-" not in path.name) == sorted(
        [DATABASE, MARKER, DRAFTS]
    )


class DraftTable(DraftFile):
    """The twin: drafts in a table of SQLite, whose log keeps what was overwritten."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute("PRAGMA secure_delete = ON")
        self.db.execute("CREATE TABLE drafts (slot INTEGER PRIMARY KEY, report BLOB)")

    def read(self, slot: int) -> Envelope | None:
        row = self.db.execute("SELECT report FROM drafts WHERE slot = ?", (slot,)).fetchone()
        return parse_envelopes(row[0])[0] if row else None

    def write(self, slot: int, envelope: Envelope) -> None:
        self.db.execute("INSERT OR REPLACE INTO drafts VALUES (?, ?)", (slot, envelope.pack()))


def test_a_table_in_sqlite_keeps_earlier_versions(
    script: Script, client_of: MakeClient, tmp_path: Path
) -> None:
    script.publish(document(questions=WIDE))
    client = client_of()
    client._state.drafts = DraftTable(tmp_path / "state" / DRAFTS)
    with pytest.raises(AssertionError, match=r"== \{1\}"):
        redraw_often(client, tmp_path / "state")


@pytest.mark.parametrize("end", ["withdraw", "forget", "expire"])
def test_a_draft_is_zeroed_when_it_is_given_up(
    end: str, script: Script, client_of: MakeClient, clock: Clock, tmp_path: Path
) -> None:
    script.publish(document(questions=WIDE))
    client = client_of()
    client.answer("app-health", set="option 3")
    file = tmp_path / "state" / DRAFTS
    assert set(file.read_bytes()) != {0}
    if end == "withdraw":
        client.consent(False)
    elif end == "forget":
        client.forget()
    else:
        after_the_round(client, clock, JANUARY + timedelta(days=15))
    assert set(file.read_bytes()) == {0}
    assert script.posts == []


def test_a_slot_is_used_again_and_belongs_to_one_report(
    script: Script, client_of: MakeClient, clock: Clock, tmp_path: Path
) -> None:
    script.publish(asked())
    client = client_of()
    for name in "abc":
        person = client.person(name)
        person.consent(True)
        person.answer("app-health", crashed=True)
    file = tmp_path / "state" / DRAFTS
    assert file.stat().st_size == 3 * BLOCK_BYTES
    client.person("b").forget()
    empty = [kept(client, slot) is None for slot in (0, BLOCK_BYTES, 2 * BLOCK_BYTES)]
    assert empty == [False, True, False]
    client.answer("app-health", crashed=True)
    assert file.stat().st_size == 3 * BLOCK_BYTES
    assert len({kept(client, slot).id for slot in range(0, 3 * BLOCK_BYTES, BLOCK_BYTES)}) == 3  # type: ignore[union-attr] # all are there


def test_a_torn_write_loses_the_report_and_draws_no_other(
    script: Script, client_of: MakeClient, clock: Clock, tmp_path: Path
) -> None:
    script.publish(asked())
    client = client_of()
    client.answer("app-health", crashed=True)
    file = tmp_path / "state" / DRAFTS
    content = bytearray(file.read_bytes())
    content[40] ^= 1
    file.write_bytes(content)
    assert client.answer("app-health", crashed=True).status == "already-answered"
    assert file.read_bytes() == content
    after_the_round(client, clock)
    assert script.posts == []
    assert "not sent (the report was damaged" in read_summary(tmp_path / "state").text


# Nothing depends on an answer


class Journal:
    """Every write to the file of drafts: where, and of what size."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lines: list[object] = []
        overwrite = DraftFile._overwrite

        def noted(file: DraftFile, slot: int, content: bytes) -> None:
            self.lines.append((slot, len(content)))
            overwrite(file, slot, content)

        monkeypatch.setattr(DraftFile, "_overwrite", noted)
        monkeypatch.setattr(outbox, "uniform", random.Random(7).uniform)


def transcript(
    folder: Path, over: str, history: tuple[bool, ...], listing: Callable[[bytes], object]
) -> list[object]:

    clock, draws = Clock(), [0]
    with pytest.MonkeyPatch.context() as monkeypatch:
        journal = Journal(monkeypatch)
        published = asked(over)

        def draw(bits: int) -> int:
            draws[0] += 1
            return random.getrandbits(bits)

        client = Client(
            "https://deniable.invalid",
            policy=lifetime_policy(),
            state=folder,
            now=clock,
            draw=draw,
            transport=listing(published),  # type: ignore[arg-type] # a transport
            send_within=0.0,
        )
        client.consent(True)
        lines: list[object] = []
        for crashed in history:
            outcome = client.answer("app-health", crashed=crashed)
            sizes = sorted(
                (path.name, path.stat().st_size) for path in folder.iterdir() if path.is_file()
            )
            lines += [_told(outcome), client.budget(), _row(client), sizes, draws[0]]
            clock.now += timedelta(days=1)
        clock.now = LEFT
        lines.append(client.flush(0.5))
        client._uploader.stop(PATIENCE)
        with client._state.transaction(durable=False) as db:
            rows = db.execute("SELECT length(envelope), slot, earliest FROM outbox").fetchall()
        client._state.close()
        return [*lines, *journal.lines, rows]


def _told(outcome: Outcome) -> object:
    return outcome.status, outcome.detail, outcome.survey, outcome.round, outcome.unfit


@pytest.mark.parametrize("calls", [1, 2, pytest.param(3, marks=pytest.mark.long)])
@pytest.mark.parametrize("over", OVERS)
def test_two_histories_have_the_same_transcript(over: str, calls: int, tmp_path: Path) -> None:
    """Status, charge, moment, sizes and the number of writes and draws are the same for all."""
    made = [
        transcript(tmp_path / str(number), over, history, Listing)
        for number, history in enumerate(product(YES_OR_NO, repeat=calls))
    ]
    for one, other in pairwise(made):
        assert one == other


def test_a_device_that_draws_only_for_a_yes_is_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin of the test above."""
    redraw = Survey.redraw

    def hasty(asked: Survey, symbols: Symbols, answers: dict[str, object], draw: Draw) -> Report:
        return redraw(asked, symbols, answers, draw) if answers["crashed"] else Report(symbols, ())

    monkeypatch.setattr(Survey, "redraw", hasty)
    one, other = (
        transcript(tmp_path / str(history), "any", history, Listing)
        for history in ((False, False), (False, True))
    )
    assert one != other


@pytest.mark.parametrize("over", ["first", "any"])
def test_the_first_try_is_durable_before_a_connection_is_opened(
    over: str,
    script: Script,
    client_of: MakeClient,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script.publish(asked(over))
    script.always = LATER
    client = client_of()
    events: list[object] = []
    transaction, send = client._state.transaction, client._uploader._send

    def noted(durable: bool = True) -> AbstractContextManager[Transaction]:
        if threading.current_thread() is client._uploader._thread:  # a flush waits in another
            events.append(durable)
        return transaction(durable=durable)

    def sent(envelope: QueuedEnvelope) -> object:
        events.append("sends")
        return send(envelope)

    monkeypatch.setattr(client._state, "transaction", noted)
    monkeypatch.setattr(client._uploader, "_send", sent)
    client.answer("app-health", crashed=True)
    clock.now = LEFT
    client.flush(PATIENCE)
    assert events[events.index("sends") - 1] is True


def test_a_postponed_first_draft_does_not_undo_a_later_call(
    script: Script, client_of: MakeClient, clock: Clock
) -> None:
    """At ε 20 a report hardly lies: the later yes stays, though the first write comes after it."""
    script.publish(document(questions=bit(epsilon="20", over="any")))
    client = client_of(policy=GENEROUS)
    write, writes = client._state.drafts.write, list[Envelope]()

    def blocked(slot: int, envelope: Envelope) -> None:
        writes.append(envelope)
        write(slot, envelope)
        if len(writes) == 1:
            raise StateBlocked("the disk is slow")

    client._state.drafts.write = blocked  # type: ignore[method-assign]
    assert client.answer("app-health", crashed=False).status == "queued"
    assert client.answer("app-health", crashed=True).status == "queued"
    client._state.write_postponed()
    assert [envelope.payload for envelope in writes] == [b"\0", b"\1"]
    clock.now = LEFT
    assert client.flush(PATIENCE) == 0
    assert [envelope.payload for envelope in script.envelopes()] == [b"\1"]


@pytest.mark.parametrize("listed", ['["1"]', '["1", "2"]'])
def test_a_release_that_adds_a_version_asks_for_no_second_report(
    listed: str, script: Script, client_of: MakeClient, clock: Clock
) -> None:
    """With the same labels the draft is redrawn; with others the round is answered already."""
    client = client_of(policy=GENEROUS)
    label, statuses = '[[label]]\nname = "version"\nvalues = ', list[str]()
    for opens, values in (("2026-11-01", '["1"]'), ("2026-12-01", listed)):
        questions = bit(over="any") + label + values + "\n"
        script.publish(document(questions=questions, opens=opens))
        clock.now += timedelta(hours=2)
        assert client.prefetch(PATIENCE)
        statuses.append(client.answer("app-health", crashed=True).status)
    assert statuses == ["queued", "queued" if listed == '["1"]' else "already-answered"]
    spent = client.budget()
    assert isinstance(spent, Budget)
    assert spent.spent == "1"


# Answers about the round that has ended


def test_the_ended_round_is_answered_once_and_leaves_at_once(
    script: Script, client_of: MakeClient, clock: Clock
) -> None:
    script.publish(document(questions=choice(["a", "b"])))
    client = client_of()
    clock.now = JANUARY + timedelta(days=4)
    outcome = client.answer("app-health", of="ended", browser="a")
    assert (outcome.status, outcome.round) == ("queued", 683)
    assert client.answer("app-health", of="ended", browser="b").status == "already-answered"
    assert client.answer("app-health", browser="b").round == 684
    assert client.flush(PATIENCE) == 0
    assert {envelope.round for envelope in script.envelopes()} == {683, 684}


@pytest.mark.parametrize("day", [datetime(2026, 12, 31, 23, tzinfo=UTC), JANUARY + timedelta(14)])
def test_a_round_that_is_not_over_or_no_longer_accepted_is_closed(
    day: datetime, script: Script, client_of: MakeClient, clock: Clock
) -> None:
    script.publish(document(questions=bit()))
    client = client_of()
    clock.now = day
    assert client.answer("app-health", of="ended", crashed=True).status == "closed"


def test_the_last_round_is_answered_after_the_survey_has_closed(
    script: Script, client_of: MakeClient, clock: Clock
) -> None:
    script.publish(document(questions=bit(over="any")))
    client = client_of()
    clock.now = datetime(2027, 3, 5, tzinfo=UTC)
    assert client.answer("app-health", crashed=True).status == "closed"
    outcome = client.answer("app-health", of="ended", crashed=True)
    assert (outcome.status, outcome.round) == ("queued", 685)
    client.flush(PATIENCE)
    assert [envelope.round for envelope in script.envelopes()] == [685]


def test_any_other_round_is_a_mistake_of_the_app(client_of: MakeClient) -> None:
    with pytest.raises(ValueError, match='of="ended"'):
        client_of().answer("app-health", of="yesterday", crashed=True)


# Kills


@pytest.mark.parametrize("stride", [pytest.param(1, marks=pytest.mark.long), 18])
def test_a_killed_device_sends_one_payload_and_is_charged_once(
    script: Script, tmp_path: Path, stride: int
) -> None:
    """Killed in turn before and after each step of answering, and of sending."""
    script.publish(document(questions=WIDE))
    command = [sys.executable, "-m", "tests.client.children", "draft_kills", script.url]
    options = [str(tmp_path / "device"), public_hex(KEY), "4", str(stride)]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=900)
    assert (done.returncode, done.stderr) == (0, "")
    bodies: dict[bytes, set[bytes]] = {}
    for envelope in script.envelopes():
        bodies.setdefault(envelope.id, set()).add(envelope.payload)
    assert {len(payloads) for payloads in bodies.values()} == {1}, "no second payload"
    sent = {payload.hex() for payloads in bodies.values() for payload in payloads}
    devices = json.loads(done.stdout)
    kills = Counter(killed_in for killed_in, *_ in devices)
    assert stride * min(kills["answers"], kills["sends"]) > 30
    drafts_before = [draft for *_, draft, _ in devices]
    assert sent == set(drafts_before) - {"lost"}, "what was on disk is what is sent"
    assert len(sent) == len(bodies) == sum(draft != "lost" for draft in drafts_before)
    assert all(draft != "lost" for killed_in, _, draft, _ in devices if killed_in == "sends")
    for _, folder, _, spent in devices:
        assert spent == "1", folder
        file = Path(folder) / DRAFTS
        assert not file.exists() or set(file.read_bytes()) == {0}, folder


# Unbiased on simulated usage


def sent_shares(over: str, people: int, seed: int) -> tuple[float, float, float]:
    """The shares of installs with a yes at the first call, with any, and the estimate."""
    survey = parse_document(asked(over))
    made = random.Random(seed)
    first = any_ = 0
    symbols = []
    for _ in range(people):
        usage = [made.random() < 0.03 for _ in range(1 + made.randrange(20))]
        first, any_ = first + usage[0], any_ + any(usage)
        report = survey.report({"crashed": usage[0]}, made.getrandbits)
        for crashed in usage[1:] if survey.redraws else ():
            report = survey.redraw(report.symbols, {"crashed": crashed}, made.getrandbits)
        symbols.append(report.symbols[0] or 0)
    return first / people, any_ / people, survey.questions[0].estimate(symbols)["yes"]


STANDARD_ERROR = 0.5 / 20_000**0.5 / (0.731059 - 0.268941)


def test_any_estimates_the_share_with_at_least_one_yes() -> None:
    """Six standard errors: a false alarm has a probability below 3e-9."""
    _, truth, estimate = sent_shares("any", 20_000, 1)
    assert abs(estimate - truth) < 6 * STANDARD_ERROR


def test_the_first_call_does_not() -> None:
    """The twin: a truth of about 25 % is estimated as 3 %."""
    first, truth, estimate = sent_shares("first", 20_000, 1)
    assert truth - estimate > 6 * STANDARD_ERROR
    assert abs(estimate - first) < 6 * STANDARD_ERROR
