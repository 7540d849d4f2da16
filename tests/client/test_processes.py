"""Processes and threads: killed, forked, and many sharing one ledger."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deniable.client.disclosure import read_summary
from deniable.client.fork_safety import ForkAware
from deniable.client.signal_safety import LOCK_WAIT_SECONDS
from tests.client.conftest import MakeClient
from tests.client.scripted import LATER, Script, bit, document
from tests.eventually import PATIENCE

ROOT = Path(__file__).resolve().parents[2]


def start(*arguments: str, program: str = "children") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", f"tests.client.{program}", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )


def result(process: subprocess.Popen[str]) -> Any:
    (printed,) = results(process)
    return printed


def results(process: subprocess.Popen[str]) -> list[Any]:
    printed, _ = process.communicate(timeout=10 * PATIENCE)
    assert process.returncode == 0
    return [json.loads(line) for line in printed.splitlines()]


class Made(ForkAware):
    def remake(self) -> None:
        pass


def test_threads_make_clients_concurrently() -> None:
    """Fork safety tracks objects while other threads add and remove some."""
    failed, often = list[BaseException](), sys.getswitchinterval()

    def make() -> None:
        try:
            kept = [Made() for _ in range(150)]
            assert len(kept) == 150
        except BaseException as error:
            failed.append(error)
            raise

    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=make) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(often)
    assert not failed


def test_threads_share_a_client(script: Script, client_of: MakeClient) -> None:
    script.publish(document(questions=bit("crashed", "0.5")))
    client, statuses = client_of(), list[str]()
    ready = threading.Barrier(32)

    def answer() -> None:
        ready.wait()
        statuses.append(client.answer("app-health", crashed=True).status)

    threads = [threading.Thread(target=answer) for _ in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(statuses) == {"queued": 1, "already-answered": 31}
    assert client.flush(PATIENCE) == 0
    assert len(script.posts) == 1
    assert len(script.gets) == 1, "several threads fetched the list"


@pytest.mark.parametrize("cap", [pytest.param("2", marks=pytest.mark.long), "2 quarter"])
def test_processes_share_a_ledger_and_spend_it_exactly(
    script: Script, client_of: MakeClient, tmp_path: Path, policy_key: str, cap: str
) -> None:
    """Run 8 processes of 4 threads on 6 surveys of ε 0.5; a cap of 2 allows four, once each."""
    names = [f"s{number}" for number in range(6)]
    for name in names:
        script.publish(document(name, questions=bit("crashed", "0.5")))
    client_of().answer("unheard-of")  # stores the list, so a busy machine needs no network
    options = (script.url, str(tmp_path / "state"), policy_key, cap, ",".join(names))
    crowd = [start("crowd", *options) for _ in range(8)]
    statuses = [tuple(row) for process in crowd for row in result(process)]
    count = Counter(status for _, status in statuses)
    assert count["queued"] == 4
    assert count["queued"] + count["already-answered"] + count["budget-spent"] == 8 * 4 * 12
    assert max(Counter(name for name, s in statuses if s == "queued").values()) == 1
    assert read_summary(tmp_path / "state").ledger.total == 2 * 10**9
    assert len({post.body for post in script.posts}) == 4


def test_kills_never_spend_twice_and_never_make_a_second_report(
    script: Script, tmp_path: Path, policy_key: str
) -> None:
    """Answer on 20 days, each in three or four children, all but the last of which are killed.

    A child dies at the call of some function, at any moment, or between the charge and the outbox.
    The cap allows 15 rounds of ε 0.1.
    """
    script.publish(document("daily", period="day", questions=bit("crashed", "0.1")))
    folder = tmp_path / "state"
    told = result(start("kills", script.url, str(folder), policy_key, "1.5", "20"))
    assert told["killed"] >= 30
    assert set(told["last"]) <= {"queued", "already-answered", "budget-spent"}
    assert told["last"][-5:] == ["budget-spent"] * 5
    record = read_summary(folder)
    assert record.ledger.total == 15 * 10**8
    assert len(record.entries) < 15, "no kill fell between the charge and the outbox"
    reports = {
        (envelope.survey, envelope.round, envelope.id, envelope.payload)
        for envelope in script.envelopes()
    }
    assert len({report[:2] for report in reports}) == len(reports)
    assert len(reports) <= len(record.entries)


Killed = Callable[[str, int], list[Any]]  # the lines that a program's last processes print


@pytest.fixture
def killed(script: Script, client_of: MakeClient, tmp_path: Path, policy_key: str) -> Killed:
    """Return a function that kills each of 8 processes with 4 threads, and restarts it.

    At the end, every survey has been paid for at most once, and has at most one report.
    """

    def run(program: str, kills: int) -> list[Any]:
        names = [f"s{number}" for number in range(max(kills, 40))]
        for name in names:
            script.publish(document(name, questions=bit("crashed", "0.01")))
        client_of().answer("unheard-of")
        options = (program, script.url, str(tmp_path / "state"), policy_key, "6", ",".join(names))
        crowd = [start(*options) for _ in range(8)]
        for number in range(kills):
            time.sleep(random.uniform(0.02, 0.3))
            crowd[number % 8].kill()
            crowd[number % 8].communicate()
            crowd[number % 8] = start(*options)
        printed = [line for process in crowd for line in results(process)]
        ledger = read_summary(tmp_path / "state").ledger
        assert ledger.total == ledger.charges * 10**7
        assert ledger.charges <= len(names)
        made = {(envelope.survey, envelope.id, envelope.payload) for envelope in script.envelopes()}
        assert len({survey for survey, *_ in made}) == len(made) <= ledger.charges
        return [ledger.charges, *printed]

    return run


@pytest.mark.parametrize("kills", [pytest.param(16, marks=pytest.mark.long), 6])
def test_processes_that_are_killed_repeatedly_pay_for_every_survey(
    killed: Killed, kills: int
) -> None:
    """Each call waits for a lock until it has it, so every survey is charged."""
    charges, *printed = killed("crowd", kills)
    assert charges == 40
    assert {status for rows in printed for _, status in rows} <= {"queued", "already-answered"}


@pytest.mark.parametrize("kills", [pytest.param(200, marks=pytest.mark.long), 6])
def test_killed_processes_that_wait_a_quarter_second_for_locks_spend_once(
    killed: Killed, kills: int
) -> None:
    """Nine calls in ten have waited for locks for no longer than that, and half more.

    Prints the longest wait, and the longest without the time that no processor was free.
    """
    charges, *printed = killed("hurried_crowd", kills)
    assert charges > kills / 2
    statuses = {status for rows in printed[::2] for _, status in rows}
    assert statuses <= {"queued", "already-answered", "unavailable"}
    pairs = [(wait, wait - delay) for row in printed[1::2] for wait, delay in row]
    waits, without = (sorted(values) for values in zip(*pairs, strict=True))
    print(f"{len(waits)} calls; the longest waited {waits[-1]:.3f} s for locks,", end=" ")
    print(f"or {without[-1]:.3f} s without the time that no processor was free")
    assert waits[len(waits) * 9 // 10] <= 1.5 * LOCK_WAIT_SECONDS


FIRST_STARTS = {"queued already-answered", "already-answered already-answered"}


@pytest.mark.long
def test_an_install_killed_at_any_step_of_its_first_start_recovers(tmp_path: Path) -> None:
    """The process dies before and after every call to the system and to SQLite.

    An answer may be lost, but is never paid for twice, and the marker records its charge.
    """
    ends = result(start(str(tmp_path), "steps", program="first_start"))
    assert set(ends) == FIRST_STARTS
    assert min(ends.values()) > 20


@pytest.mark.parametrize("kills", [40, pytest.param(2_000, marks=pytest.mark.long)])
def test_an_install_killed_at_any_moment_of_its_first_start_recovers(
    tmp_path: Path, kills: int
) -> None:
    ends = result(start(str(tmp_path), "moments", str(kills), program="first_start"))
    assert set(ends) <= FIRST_STARTS
    assert sum(ends.values()) == kills


def test_a_forked_child_answers_and_sends(script: Script, tmp_path: Path, policy_key: str) -> None:
    """The parent is forked repeatedly while another of its threads is inside a transaction."""
    assert forked(script, tmp_path, policy_key, "python") == ["queued 0"] * 13
    assert len({post.body for post in script.posts}) == 14
    assert {e.delivery for e in read_summary(tmp_path / "state").entries} == {"accepted"}


def test_a_child_forked_in_c_from_a_closed_client_answers_and_sends(
    script: Script, tmp_path: Path, policy_key: str
) -> None:
    """The parent's uploader waits for its Retry-After.

    The children have none of its threads and none of its pauses, and send its reports. The parent
    continues to wait.
    """
    script.replies = [LATER]
    assert forked(script, tmp_path, policy_key, "c, closed") == [*["queued 0"] * 12, "queued 1"]
    assert len({post.body for post in script.posts}) == 13


def test_a_child_forked_in_c_from_an_open_client_refuses_to_work(
    script: Script, tmp_path: Path, policy_key: str
) -> None:
    """SQLite must not use a connection in two processes. The parent is not harmed."""
    script.replies = [LATER]
    assert forked(script, tmp_path, policy_key, "c, open") == [*["unavailable 0"] * 12, "queued 2"]
    summary = read_summary(tmp_path / "state")
    assert summary.ledger.charges == len(summary.entries) == 2
    assert len(script.posts) == 1


def test_a_child_forked_in_c_from_a_client_that_only_sends_can_answer_and_send(
    script: Script, client_of: MakeClient, tmp_path: Path, policy_key: str
) -> None:
    """An earlier process left a report.

    The parent has only tried to send it and written nothing, so no connection is open at the fork.
    """
    for name in ("first", "second"):
        script.publish(document(name, questions=bit("crashed", "0.1")))
    script.replies = [LATER, LATER]
    client = client_of()
    assert client.answer("first", crashed=True).status == "queued"
    assert client.flush(PATIENCE) == 1
    client.close()
    told = result(start("resumed", script.url, str(tmp_path / "state"), policy_key))
    assert told == ["queued", 0]
    assert len({post.body for post in script.posts}) == 2


def forked(script: Script, folder: Path, policy_key: str, how: str) -> Any:
    for name in ("last", *(f"s{number}" for number in range(13))):
        script.publish(document(name, questions=bit("crashed", "0.1")))
    return result(start("forks", script.url, str(folder / "state"), policy_key, "6", "12", how))
