"""A disk, an owner or a system that fails: no public call raises, and none hangs."""

from __future__ import annotations

import errno
import os
import pwd
import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deniable.client import Client, state_folder
from deniable.client.pipeline import AnswerPipeline
from deniable.client.state.database import DATABASE
from deniable.client.state.store import StateBlocked
from deniable.shared.privacy import mechanism
from tests.client.test_processes import result, start
from tests.client.unprivileged import device, every_call

CALLS = [
    "access", "chmod", "close", "fsync", "getcwd", "link", "listdir", "lseek", "lstat", "mkdir",
    "open", "readlink", "rename", "replace", "scandir", "stat", "unlink", "urandom", "write",
]  # fmt: skip
ERRORS = [errno.EACCES, errno.EIO, errno.ENOTDIR, errno.ENOSPC]


def failing(code: int) -> Callable[..., object]:
    def fail(*_: object, **__: object) -> object:
        raise OSError(code, os.strerror(code))

    return fail


@contextmanager
def failure(name: str, code: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if name == "urandom":
            patch.setattr(mechanism, "urandom", failing(code))
            patch.setattr(random, "_urandom", failing(code))
        patch.setattr(os, name, failing(code))
        yield


@pytest.mark.parametrize("code", ERRORS, ids=errno.errorcode.get)
@pytest.mark.parametrize("name", CALLS)
def test_no_call_raises_if_the_system_fails(
    tmp_path: Path, policy_key: str, name: str, code: int
) -> None:
    """Both from the start on and once the state is in use."""
    with failure(name, code):
        for call in every_call(device(tmp_path / "new", policy_key)).values():
            call()
    client = device(tmp_path / "used", policy_key)
    client.consent(True)
    assert client.answer("app-health", crashed=True).status == "queued"
    with failure(name, code):
        for call in every_call(client).values():
            call()
    client.close()


def test_a_daemon_that_changed_its_user_and_has_no_threads_is_unavailable(
    tmp_path: Path, policy_key: str
) -> None:
    returned = result(start(str(tmp_path / "state"), policy_key, program="unprivileged"))
    assert returned.pop("close", "raised") is None
    assert returned == {
        "consented": False,
        "consent": False,
        "person consented": False,
        "person consent": False,
        "answer": "unavailable",
        "person answer": "unavailable",
        "aanswer": "unavailable",
        "arm": None,
        "ask": False,
        "flush": 0,
        "prefetch": False,
        "sent": "Outcome",
        "budget": "Outcome",
        "describe": "Outcome",
        "survey": "Outcome",
        "person forget": False,
        "forget": False,
    }


@pytest.mark.usefixtures("real_lock_wait")
def test_no_call_waits_for_a_database_that_another_process_holds(
    tmp_path: Path, policy_key: str
) -> None:
    """Reads do not even notice: a person who refused is not asked again."""
    client = device(tmp_path, policy_key)
    client.consent(True)
    assert client.answer("app-health", crashed=True).status == "queued"
    client.person("ann").consent(False)
    other = sqlite3.connect(tmp_path / DATABASE, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    returned = {name: call() for name, call in every_call(client).items()}
    other.close()
    assert (returned["consented"], returned["person consented"]) == (True, False)
    assert (returned["sent"], returned["budget"], returned["survey"]) == (
        "Summary",
        "Budget",
        "Survey",
    )
    assert (returned["answer"], returned["forget"]) == ("unavailable", False)


@pytest.mark.usefixtures("real_lock_wait")
def test_a_report_that_is_paid_for_is_written_once_the_database_is_free(
    tmp_path: Path, policy_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = device(tmp_path, policy_key)
    client.consent(True)
    other = sqlite3.connect(tmp_path / DATABASE, isolation_level=None, check_same_thread=False)
    note_charges = client._state.note_charges

    def write_meanwhile(charges: int) -> None:
        note_charges(charges)
        other.execute("BEGIN IMMEDIATE")

    monkeypatch.setattr(client._state, "note_charges", write_meanwhile)
    outcome = client.answer("app-health", crashed=True)
    assert (outcome.status, "once it can be" in outcome.detail) == ("queued", True)
    other.execute("ROLLBACK")
    assert client.flush(0) == 1
    assert client.flush(0) == 1, "it is written once"
    other.close()
    client.close()


@pytest.mark.parametrize("how", ["consent", "forget"])
def test_a_withdrawal_drops_a_report_that_is_not_written_yet(
    tmp_path: Path, policy_key: str, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    client = device(tmp_path, policy_key)
    client.consent(True)
    queue = AnswerPipeline._queue

    def blocked(pipeline: AnswerPipeline, *arguments: object) -> object:
        with monkeypatch.context() as patch:
            patch.setattr(client._state, "transaction", raise_blocked)
            return queue(pipeline, *arguments)  # type: ignore[arg-type] # passed on

    monkeypatch.setattr(AnswerPipeline, "_queue", blocked)
    assert client.answer("app-health", crashed=True).status == "queued"
    client.forget() if how == "forget" else client.consent(False)
    client.consent(True)
    assert client.flush(0) == 0
    client.close()


def raise_blocked(*_: object, **__: object) -> object:
    raise StateBlocked("held")


def test_reads_go_on_while_another_thread_writes(tmp_path: Path, policy_key: str) -> None:
    client = device(tmp_path, policy_key)
    client.consent(True)
    with client._state.transaction() as db:
        db.execute("DELETE FROM settings")
        during = client.consented
    assert (during, client.consented) == (True, None), "a read sees what was committed last"
    client.close()


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_: int) -> object:
        raise KeyError

    for variable in ("HOME", "XDG_STATE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)


@pytest.mark.usefixtures("homeless")
def test_without_a_home_folder_the_client_is_unavailable(policy_key: str) -> None:
    client: Client = device(state_folder("my-app"), policy_key)
    returned = {name: call() for name, call in every_call(client).items()}
    assert (returned["consented"], returned["answer"]) == (False, "unavailable")
    assert not Path("~").exists()


def test_a_refusal_is_not_asked_again_by_an_older_app(tmp_path: Path, policy_key: str) -> None:
    client = device(tmp_path, policy_key)
    client.consent(False)
    client.close()
    newer = sqlite3.connect(tmp_path / DATABASE)
    newer.execute("PRAGMA user_version = 99")
    newer.close()
    assert device(tmp_path, policy_key).consented is False


def test_a_choice_that_could_not_be_stored_is_not_asked_for(
    tmp_path: Path, policy_key: str
) -> None:
    (tmp_path / "file").write_text("in the way")
    assert device(tmp_path / "file" / "state", policy_key).consented is False
    assert device(tmp_path / "state", policy_key).consented is None
