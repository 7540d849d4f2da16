"""Exceptions that signals raise: they reach the caller, and nothing that the client has begun."""

from __future__ import annotations

import _thread
import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from deniable.client import signal_safety
from deniable.client.disclosure import read_summary
from deniable.client.signal_safety import signal_safe
from deniable.shared.envelope import parse_envelopes
from tests.client.conftest import MakeClient
from tests.client.scripted import ACCEPTED, Script, bit, document
from tests.client.test_processes import result, start

TIMES = 500


def test_interruptions_leave_no_lock_no_answer_and_no_second_payload(
    script: Script, tmp_path: Path, policy_key: str
) -> None:
    script.always = ACCEPTED
    questions = bit("crashed", "0.5")
    script.publish(document(period="day", closes="2028-12-01", questions=questions))
    folder = tmp_path / "state"
    program = start(script.url, str(folder), policy_key, f"{TIMES}", program="interruptions")
    printed = result(program)
    assert printed == {"leaks": [], "status": "queued", "all sent": True}
    payloads = defaultdict[bytes, set[bytes]](set)
    for post in script.posts:
        (envelope,) = parse_envelopes(post.body)
        payloads[envelope.id].add(envelope.payload)
    assert all(len(versions) == 1 for versions in payloads.values())
    assert len(payloads) <= read_summary(folder).ledger.charges


def test_a_call_from_the_main_thread_runs_on_another() -> None:
    threads = list[int]()
    ran_on = signal_safe(threading.get_ident)
    assert ran_on() != threading.get_ident()
    other = threading.Thread(target=lambda: threads.extend([ran_on(), threading.get_ident()]))
    other.start()
    other.join()
    assert threads[0] == threads[1], "no signal reaches another thread"


def full(*_: object) -> int:
    raise RuntimeError("can't start new thread")


def stillborn(*_: object) -> int:
    """A thread that ends before its first instruction, for lack of memory."""
    return 0


@pytest.mark.parametrize("start", [full, stillborn])
def test_a_call_runs_once_where_no_thread_starts(
    monkeypatch: pytest.MonkeyPatch, start: Callable[..., int]
) -> None:
    monkeypatch.setattr(_thread, "start_new_thread", start)
    monkeypatch.setattr(signal_safety, "START_SECONDS", 0.01)
    calls = list[int]()
    signal_safe(lambda: calls.append(1))()
    assert calls == [1]


def test_an_unexpected_error_carries_no_answer(client_of: MakeClient, script: Script) -> None:
    """Not in a frame of ours, and not in the errors that led to it."""

    def broken_draw(_bits: int) -> int:
        raise ZeroDivisionError

    script.publish(document(questions=bit("crashed", "0.5")))
    client = client_of(draw=broken_draw)
    with pytest.raises(ZeroDivisionError) as raised:
        client.answer("app-health", crashed="a secret")
    for entry in raised.traceback[1:]:
        assert "a secret" not in repr(entry.frame.f_locals)
    assert raised.value.__context__ is None
