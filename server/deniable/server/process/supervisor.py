"""Main process of a server, which starts, restarts and stops one process per role.

    main ─┬─ intake: granian's main process ── granian's worker
          └─ reader: granian's main process ── granian's worker

The main process opens nothing that its children use, and starts no thread: if another thread held a
lock at the moment of a fork, such as the import lock, the child would never see it released.

A worker watches its parent and ends with it, because a killed parent cannot stop its worker.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any, Literal

from deniable.server.http.front import SPARE_FILES, affordable
from deniable.server.process.addresses import Address

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess


WATCH_SECONDS = 0.1
LAST_RESPONSES_SECONDS = 1.0  # time for refusals that are still being sent
PR_SET_PDEATHSIG, PR_SET_NAME = 1, 15  # <linux/prctl.h>
POLL_SECONDS = 0.05
STOP_SECONDS = 10
CRASH_SECONDS = 5.5  # if a restarted process ends sooner, the next restart is delayed or refused
MAX_PAUSE_SECONDS = 60.0
HEADER_MILLISECONDS = 10_000  # limit for a request's head, and for idleness
SIGNALS = (signal.SIGTERM, signal.SIGINT)

Load = Callable[[int], Any]  # returns the application; called in the worker with its parent's pid


@dataclass(frozen=True)
class Role:
    """Role of a server's process, with the address that it serves."""

    name: str
    address: Address
    serve: Callable[[], None]  # called in the process; returns when a signal asks it to stop
    is_vital: bool = True  # whether the server ends if the process cannot be restarted


class _Process:
    """Process of a role, with the time of its next restart."""

    def __init__(self, role: Role) -> None:
        self.role, self._pause, self._restarts = role, 1.0, 0
        self.start()

    def start(self) -> None:
        self.restart_at: float | None = None
        self._begun = time.monotonic()
        # The child would lose a signal that arrived while it still has our handlers.
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            # A fork is safe for a process without threads.
            context = get_context("fork" if sys.platform == "linux" else "spawn")
            self.process: BaseProcess = context.Process(  # type: ignore[attr-defined]  # every context has it
                name=self.role.name, target=_run, args=(self.role, os.getpid())
            )
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    def has_failed_twice(self) -> bool:
        """Plan the restart of an ended process; return True if it ended soon after a restart."""
        crashed = time.monotonic() - self._begun < CRASH_SECONDS
        if self._restarts and crashed and self.role.is_vital:
            return True
        pause = 0.0 if self.role.is_vital else self._pause
        self._pause = min(2 * self._pause, MAX_PAUSE_SECONDS) if crashed else 1.0
        self.restart_at = time.monotonic() + pause
        self._restarts += 1
        return False


def supervise(roles: Sequence[Role], announce: Callable[[], None]) -> None:
    """Serve until a signal arrives. Call `announce` once all roles respond."""
    received: list[int] = []
    for number in SIGNALS:
        signal.signal(number, lambda number, _: received.append(number))
    processes = [_Process(role) for role in roles]
    silent = list(roles)  # roles that have not responded yet
    try:
        while not received:
            if silent:
                silent = [role for role in silent if not role.address.answers()]
                if not silent:
                    announce()
            _restart_ended(processes, announced=not silent)
            wait([child.process.sentinel for child in processes if child.restart_at is None],
                 POLL_SECONDS)  # fmt: skip
    finally:
        _stop(processes)


def run_granian(
    address: Address,
    load: Load,
    log_config: dict[str, Any],  # Any: the type in logging.config
    *,
    interface: Literal["rsgi", "wsgi"] = "rsgi",
    head_bytes: int = 2**15,
    head_milliseconds: int = HEADER_MILLISECONDS,
    connections: int,
    threads: int | None = None,
) -> None:
    """Serve an application in one worker until a signal arrives."""
    from granian import Granian
    from granian.constants import HTTPModes, Interfaces
    from granian.http import HTTP1Settings
    from granian.log import LogLevels

    _allow(connections)
    granian = Granian(
        target="deniable",
        address=address.host,
        port=address.port,
        interface=Interfaces(interface),
        workers=1,
        blocking_threads=threads,
        backpressure=affordable(connections),
        http=HTTPModes.http1,
        http1_settings=HTTP1Settings(
            header_read_timeout=head_milliseconds, max_buffer_size=head_bytes
        ),
        websockets=False,
        log_level=LogLevels.error,
        log_dictconfig=log_config,
        log_access=False,  # an access log would contain addresses
        workers_kill_timeout=STOP_SECONDS,
    )
    granian.serve(target_loader=partial(load, os.getpid()), wrap_loader=False)


def watch_parent(
    parent: int,
    has_ended: Callable[[], bool] = lambda: False,
    stop: Callable[[], object] = lambda: None,
) -> None:
    """Call `stop` and end this process once its parent has ended or `has_ended` returns True."""

    def watch() -> None:
        while os.getppid() == parent and not has_ended():
            time.sleep(WATCH_SECONDS)
        stop()
        if os.getppid() == parent:
            time.sleep(LAST_RESPONSES_SECONDS)
        os._exit(1)

    _prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    threading.Thread(target=watch, name="parent", daemon=True).start()


def _restart_ended(processes: Sequence[_Process], *, announced: bool) -> None:
    for child in processes:
        if child.restart_at is not None:
            if time.monotonic() >= child.restart_at:
                child.start()
        elif not child.process.is_alive() and (not announced or child.has_failed_twice()):
            raise SystemExit(child.process.exitcode or 1)


def _stop(processes: Sequence[_Process]) -> None:
    running = [child.process for child in processes if child.process.is_alive()]
    for process in running:
        process.terminate()
    end = time.monotonic() + STOP_SECONDS + 2
    for process in running:
        process.join(max(0.0, end - time.monotonic()))
        if process.is_alive():
            process.kill()
            process.join()


def _run(role: Role, main: int) -> None:
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    _prctl(PR_SET_NAME, f"deniable-{role.name}".encode())  # name in process lists; at most 15 bytes
    _prctl(PR_SET_PDEATHSIG, signal.SIGTERM)  # the kernel stops it when its parent ends
    if os.getppid() == main:
        role.serve()


def _allow(connections: int) -> None:
    """Raise the limit on open files, as far as it may be, so that this many connections fit.

    A connection without a descriptor could not be accepted, and retrying would keep a core busy.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _prctl(option: int, argument: object) -> None:
    """Set an attribute of this process, on Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, argument)
