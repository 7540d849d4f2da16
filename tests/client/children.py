"""Programs that tests run as separate processes: `python -m tests.client.children NAME ...`."""

from __future__ import annotations

import _thread
import ctypes
import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType
from typing import Any

from deniable.client import Client, signal_safety
from deniable.client.net import surveys
from deniable.client.signal_safety import LOCK_WAIT_SECONDS, LockWait
from deniable.shared.privacy.mechanism import kernel_draw
from tests.client.scripted import lifetime_policy
from tests.eventually import PATIENCE, eventually

DAY = datetime(2026, 12, 10, 12, tzinfo=UTC)


def device(url: str, state: str, key: str, caps: str, day: int = 0, draw: object = None) -> Client:
    """Return a client whose cap is like "2" for a lifetime, or like "2 quarter".

    It answers every round until its cap is reached.
    """
    cap, _, per = caps.partition(" ")
    policy = lifetime_policy([key], max_epsilon=cap, max_epsilon_per_survey="100")
    client = Client(
        url,
        policy=replace(policy, per=per or "lifetime"),
        state=state,
        now=lambda: DAY + timedelta(days=day),
        draw=draw or kernel_draw,  # type: ignore[arg-type] # a draw, where one is given
    )
    client.consent(True)
    return client


# Many threads in many processes


def crowd(url: str, state: str, key: str, caps: str, surveys: str) -> None:
    """Answer every survey twice in four threads; print the result of each call."""
    client, statuses = device(url, state, key, caps), list[tuple[str, str]]()

    def answer_all() -> None:
        names = random.sample(surveys.split(","), surveys.count(",") + 1) * 2
        statuses.extend((name, client.answer(name, crashed=True).status) for name in names)

    threads = [threading.Thread(target=answer_all) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    client.flush(PATIENCE)
    print(json.dumps(statuses))


def hurried_crowd(*options: str) -> None:
    """Run `crowd` with the client's own wait for locks.

    Print the seconds that each call waited for locks, and for a free processor.
    """
    signal_safety.LOCK_WAIT_SECONDS = LOCK_WAIT_SECONDS
    run, spend_since = signal_safety._Work.run, LockWait.spend_since
    waits, thread = list[tuple[float, float]](), threading.local()

    def timed(call: signal_safety._Work[object]) -> None:
        thread.waited, begin = 0.0, seconds_without_processor()
        run(call)
        waits.append((thread.waited, seconds_without_processor() - begin))

    def noted(wait: LockWait, begin: float) -> None:
        thread.waited = getattr(thread, "waited", 0.0) + time.monotonic() - begin
        spend_since(wait, begin)

    signal_safety._Work.run = timed  # type: ignore[method-assign,assignment] # as it is called
    LockWait.spend_since = noted  # type: ignore[method-assign,assignment] # as it is called
    crowd(*options)
    print(json.dumps(waits))


def seconds_without_processor() -> float:
    """Return how long this thread could run but no processor was free."""
    return int(Path("/proc/thread-self/schedstat").read_text("ascii").split()[1]) / 1e9


# Kills


def kills(url: str, state: str, key: str, caps: str, days: str) -> None:
    """Answer each day in children that are killed, then in one that is not.

    A child dies during the draw, at a call of one of our functions, or at any moment, even within
    SQLite's code. Prints the status of each day's last child, and the number of children killed at
    a call.
    """
    import deniable.client.net.exchange  # noqa: F401 - loaded once, for all children

    chosen, killed, last = random.Random(20261118), 0, []
    options = (url, state, key, caps)
    for day in range(int(days)):
        if day % 3 == 0:
            _child(*options, day, _die)
        for _ in range(2):
            killed += _child(*options, day, calls=chosen.randint(1, 150)) == ""
        _child(*options, day, wait=random.uniform(0, 0.1))
        last.append(_child(*options, day))
    print(json.dumps({"last": last, "killed": killed}))


def _child(
    url: str,
    state: str,
    key: str,
    caps: str,
    day: int,
    draw: object = kernel_draw,
    calls: int = 0,
    wait: float = PATIENCE,
) -> str:
    """Return the status that a child reached, or nothing if it was killed earlier."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        if calls:
            install_on_calls(sys.settrace, _killer(calls))
        client = device(url, state, key, caps, day, draw)
        os.write(writing, client.answer("daily", crashed=True).status.encode())
        sys.settrace(None)
        client.flush(0.2)
        os._exit(0)
    os.close(writing)
    killer = threading.Timer(wait, os.kill, (child, signal.SIGKILL))
    killer.start()
    os.waitpid(child, 0)
    killer.cancel()
    killer.join()
    with os.fdopen(reading) as pipe:
        return pipe.read()


def install_on_calls(install: Callable[[Any], None], hook: object) -> None:
    """Install a hook on this thread, and on those that run the client's calls for it."""
    begin = _thread.start_new_thread

    def start(run: Callable[[], object], arguments: tuple[()]) -> int:
        def hooked() -> None:
            install(hook)
            run(*arguments)

        return begin(hooked, ())

    _thread.start_new_thread = start  # type: ignore[assignment] # as the client calls it
    install(hook)


def _killer(calls: int) -> Callable[[FrameType, str, object], None]:
    """Return a tracer that kills its process at the given call of a function of deniable."""
    left = calls

    def count(frame: FrameType, event: str, arg: object) -> None:
        nonlocal left
        left -= "/deniable/" in frame.f_code.co_filename
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return count


def _die(bits: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


# Kills of devices that keep drafts

DRAFT_STEPS = {
    *("transaction", "write_charge", "note_charges", "take_slot", "put", "write", "_overwrite"),
    *("take", "freeze", "clear_released_slots", "clear", "request", "finish"),
}
ENDED = 29  # days after DAY: every report of December is due


def draft_kills(url: str, state: str, key: str, caps: str, stride: str) -> None:
    """Devices are killed at each step of answering in turn, and then of sending, or at every nth.

    Prints, for each device, where it was killed, its report before it was sent, whether it answered
    after the kill, and the ε that it spent.
    """
    import deniable.client.net.exchange  # noqa: F401 - loaded once, for all children
    from deniable.shared.survey.document import parse_document  # noqa: F401 - the same

    lines = []
    for killed_in in ("answers", "sends"):
        survived, step = False, 1 - int(stride)
        while not survived:
            step += int(stride)
            folder, which = f"{state}-{killed_in}-{step}", (url, key, caps, killed_in, step)
            answered = _draft_child(folder, _answers, *which)
            before = _draft_child(folder, _answers, *which[:3], "", 0)
            sent = _draft_child(folder, _sends, *which)
            after = _draft_child(folder, _sends, *which[:3], "", 0)
            survived = (answered if killed_in == "answers" else sent) != ""
            lines.append([killed_in, folder, before, after])
    print(json.dumps(lines))


def _draft_child(
    folder: str, act: Callable[[Client], str], url: str, key: str, caps: str, dies: str, step: int
) -> str:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        day = ENDED if act is _sends else 0
        if f"_{dies}" == act.__name__:
            threading.settrace(_step_killer(step))
        said: list[str] = []
        # not the main thread, whose calls run where no tracer sees them
        thread = threading.Thread(
            target=lambda: said.append(act(device(url, folder, key, caps, day)))
        )
        thread.start()
        thread.join()
        os.write(writing, said[0].encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as pipe:
        return pipe.read()


def _answers(client: Client) -> str:
    """Answer twice; the draft that is on disk then, or nothing."""
    for option in ("option 1", "option 2"):
        client.answer("app-health", set=option)
    with client._state.transaction(durable=False):
        draft = client._state.drafts.read(0)
    return "lost" if draft is None else draft.payload.hex()


def _sends(client: Client) -> str:
    """Send, answer for the ended round once more, and send; the ε that was spent."""
    client.flush(PATIENCE)
    client.answer("app-health", of="ended", set="option 3")
    client.flush(PATIENCE)
    return str(client.budget().spent)  # type: ignore[union-attr] # a budget


def _step_killer(step: int) -> Callable[[FrameType, str, Any], Any]:  # Any: as sys.settrace does
    """A tracer that kills its process when the step begins or ends that many steps on."""
    left = step

    def count(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal left
        name, file = frame.f_code.co_name, frame.f_code.co_filename
        if name not in DRAFT_STEPS or "/deniable/client/" not in file:
            return None
        if event in ("call", "return"):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        frame.f_trace_lines = False
        return count

    return count


# Forks


def forks(url: str, state: str, key: str, caps: str, count: str, how: str) -> None:
    """Fork a busy client repeatedly; each child answers another survey and sends it."""
    client = device(url, state, key, caps)
    assert client.answer("s0", crashed=True).status == "queued"
    client.flush(PATIENCE)
    if how == "python":  # another thread runs at every fork
        threading.Thread(target=_hammer, args=(client,), daemon=True).start()
    statuses = []
    for number in range(1, int(count) + 1):
        reading, writing = os.pipe()
        if how == "c, closed":
            client._state.close()
        child = os.fork() if how == "python" else _fork_in_c()
        if child == 0:
            signal.alarm(int(2 * PATIENCE))  # ends a deadlock
            status = client.answer(f"s{number}", crashed=True).status
            os.write(writing, f"{status} {client.flush(PATIENCE)}".encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            statuses.append(pipe.read())
        os.waitpid(child, 0)
    statuses.append(f"{client.answer('last', crashed=True).status} {client.flush(PATIENCE)}")
    print(json.dumps(statuses))
    sys.stdout.flush()
    os._exit(0)


def rest(client: Client) -> None:
    """Wait until no other thread runs.

    A fork in C during another thread's work can stop Python.
    """
    client._uploader.stop(PATIENCE)
    eventually(lambda: threading.active_count() == 1)


def _fork_in_c() -> int:
    """Fork as uWSGI does, without Python's knowledge."""
    fork = ctypes.PyDLL(None).fork
    fork.restype = ctypes.c_int
    return int(fork())


def _hammer(client: Client) -> None:
    while True:
        client.answer("s0", crashed=True)


def orphan(url: str, state: str, key: str, caps: str, first: str) -> None:
    """Print the statuses of a parent and of its child that was forked in C.

    The parent answers once. The child answers twice, before and after the parent closes the state.
    Then the parent answers again. With the parent first, both of the child's answers come after it.
    A stranger is a child with its own client.
    """
    client, (reading, writing), (told, telling) = (
        device(url, state, key, caps),
        os.pipe(),
        os.pipe(),
    )
    statuses: list[str] = [client.answer("s0", crashed=True).status]
    rest(client)
    child = _fork_in_c()
    if child == 0:
        signal.alarm(int(2 * PATIENCE))
        names = ["s1", "s2"]
        if first == "stranger":
            client = device(url, state, key, caps)
        if first != "parent":
            os.write(telling, client.answer(names.pop(0), crashed=True).status.encode() + b" ")
        os.write(telling, b".")
        os.read(reading, 1)
        said = [client.answer(name, crashed=True).status for name in names]
        os.write(telling, " ".join(said).encode())
        os._exit(0)
    os.close(telling)
    before = os.read(told, 100)
    client._state.close()
    os.write(writing, b".")
    os.waitpid(child, 0)
    statuses += (before + os.read(told, 100)).decode().replace(".", "").split()
    print(json.dumps([*statuses, client.answer("s3", crashed=True).status]))
    sys.stdout.flush()
    os._exit(0)


def resumed(url: str, state: str, key: str) -> None:
    """Print the statuses of a child that was forked in C from a client that only sends."""
    policy = lifetime_policy([key])
    client = Client(url, policy=policy, state=state, now=lambda: DAY, send_within=0)
    eventually(lambda: client._uploader._backoff.until > 0)
    rest(client)
    reading, writing = os.pipe()
    if _fork_in_c() == 0:
        signal.alarm(int(2 * PATIENCE))
        status = client.answer("second", crashed=True).status
        os.write(writing, json.dumps([status, client.flush(PATIENCE)]).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        print(pipe.read())
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    surveys.FETCH_SECONDS = signal_safety.LOCK_WAIT_SECONDS = PATIENCE  # the machine may be busy
    programs: dict[str, Callable[..., None]] = {
        "crowd": crowd,
        "hurried_crowd": hurried_crowd,
        "kills": kills,
        "draft_kills": draft_kills,
        "forks": forks,
        "orphan": orphan,
        "resumed": resumed,
    }
    programs[sys.argv[1]](*sys.argv[2:])
