"""Main process of a server: starts each role in a process of its own, restarts and stops them.

    main ─┬─ intake: granian's main process ── its worker
          └─ reader: the same

Main opens nothing that its children use, and starts no thread: what another thread holds at the
moment of a fork, the lock of an import say, the child would hold for ever.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import wait
from multiprocessing.context import BaseContext
from typing import TYPE_CHECKING, Any, Literal

from deniable.server.process.addresses import Address
from deniable.server.process.parent_watchdog import end_with_parent, name_process

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

POLL_SECONDS = 0.05
STOP_SECONDS = 10
CRASH_SECONDS = 5.5  # a restarted process that ends sooner is not restarted again, or later
MAX_PAUSE_SECONDS = 60.0
HEADER_MILLISECONDS = 10_000  # to send a head, and to stay connected without a request
MAX_CONNECTIONS = 2_048  # the others wait to be accepted
SPARE_HANDLES = 128  # for files, and for whatever else is open
SIGNALS = (signal.SIGTERM, signal.SIGINT)

Load = Callable[[int], Any]  # returns the application; called in the worker with its parent's pid


@dataclass(frozen=True)
class Role:
    """One of a server's processes."""

    name: str
    address: Address
    serve: Callable[[], None]  # called in its process; returns when a signal asks it to stop
    is_vital: bool = True  # the server ends with it, if it cannot be restarted


class _Process:
    """A role's process, and when it is to be restarted."""

    def __init__(self, role: Role) -> None:
        self.role, self._pause, self._restarts = role, 1.0, 0
        self.start()

    def start(self) -> None:
        self.restart_at: float | None = None
        self._begun = time.monotonic()
        # A signal that comes while the child still has our handlers would be lost there.
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            self.process: BaseProcess = _context().Process(  # type: ignore[attr-defined]  # each context has it
                name=self.role.name, target=_run, args=(self.role, os.getpid())
            )
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    def has_failed_twice(self) -> bool:
        """Plan the restart of a process that has ended; True if it had just been restarted."""
        crashed = time.monotonic() - self._begun < CRASH_SECONDS
        if self._restarts and crashed and self.role.is_vital:
            return True
        pause = 0.0 if self.role.is_vital else self._pause
        self._pause = min(2 * self._pause, MAX_PAUSE_SECONDS) if crashed else 1.0
        self.restart_at = time.monotonic() + pause
        self._restarts += 1
        return False


def supervise(roles: Sequence[Role], announce: Callable[[], None]) -> None:
    """Serve until a signal asks to stop. `announce` is called once, when all roles answer."""
    asked_to_stop: list[int] = []
    for number in SIGNALS:
        signal.signal(number, lambda received, _: asked_to_stop.append(received))
    processes = [_Process(role) for role in roles]
    silent = list(roles)
    try:
        while not asked_to_stop:
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
    log_config: dict[str, Any],  # Any: as logging.config has it
    *,
    interface: Literal["rsgi", "wsgi"] = "rsgi",
    head_bytes: int = 2**15,
    connections: int = MAX_CONNECTIONS,
    threads: int | None = None,
) -> None:
    """Serve an application in one worker until a signal asks to stop."""
    from granian import Granian
    from granian.constants import HTTPModes, Interfaces
    from granian.http import HTTP1Settings
    from granian.log import LogLevels

    granian = Granian(
        target="deniable",
        address=address.host,
        port=address.port,
        interface=Interfaces(interface),
        workers=1,
        blocking_threads=threads,
        backpressure=min(connections, _affordable_connections()),
        http=HTTPModes.http1,
        http1_settings=HTTP1Settings(
            header_read_timeout=HEADER_MILLISECONDS, max_buffer_size=head_bytes
        ),
        websockets=False,
        log_level=LogLevels.error,
        log_dictconfig=log_config,
        log_access=False,  # it would write addresses
        workers_kill_timeout=STOP_SECONDS,
    )
    granian.serve(target_loader=partial(load, os.getpid()), wrap_loader=False)


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
    """Be the role's process."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    name_process(f"deniable-{role.name}")
    end_with_parent()
    if os.getppid() == main:
        role.serve()


def _context() -> BaseContext:
    """Fork where that is safe for a process without threads."""
    return multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")


def _affordable_connections() -> int:
    """Return how many connections there are handles for: without one a connection could not be
    accepted, and trying would keep a core busy."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_CONNECTIONS + SPARE_HANDLES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return MAX_CONNECTIONS if soft == resource.RLIM_INFINITY else max(1, soft - SPARE_HANDLES)
