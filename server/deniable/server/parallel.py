"""Map items to results in parallel and merge them: in this process, a process pool, or on Dask.

    where = "local"          in this process
            "pool"           a pool of processes, one for each processor
            "dask"           a local Dask cluster, one worker for each processor
            "dask:ADDRESS"   the cluster whose scheduler has this address

Each item counts exactly once. Results are merged in the order of the items, so every choice gives
the same bytes, even if the merge is not associative or commutative. If a worker dies, each item
that it may have been working on is retried alone. If a retry fails, the other items are finished,
then an error names the failed ones, and no partial result is returned. An exception of the function
ends the work.

Processes import the user's script only if it defines the work, so it needs no main guard otherwise.

`progress` shows on standard error how many items are done.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import get_context
from types import ModuleType
from typing import Any, TypeVar

from deniable.shared.errors import Unfinished, WrongUse

Item = TypeVar("Item")
Result = TypeVar("Result")
Merged = TypeVar("Merged")
# In bytes. Dask's nanny sets the first to 64 KiB, which also stops glibc from adapting the second.
# Then the system would map and clear memory for every large array.
KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": 2**30, "MALLOC_MMAP_THRESHOLD_": 2**25}
SECONDS_BETWEEN_LINES = 5.0


def map_merge(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    merge: Callable[[Merged, Result], Merged],
    zero: Merged,
    where: str = "local",
    arrived: Callable[[int, Result], None] = lambda _number, _result: None,
) -> Merged:
    """Return `zero` merged with the result of every item, in the order of the items.

    `arrived` is called with the number and the result of each item as soon as the item is done.
    """
    merged, early, next_number = zero, dict[int, Result](), 0
    for number, result in _results(function, items, where):
        arrived(number, result)
        early[number] = result
        while next_number in early:
            merged = merge(merged, early.pop(next_number))
            next_number += 1
    return merged


def _results(
    function: Callable[[Item], Result], items: Sequence[Item], where: str
) -> Iterator[tuple[int, Result]]:
    if where == "local":
        yield from ((number, function(item)) for number, item in enumerate(items))
        return
    suspects: list[int] = []
    lost: list[int] = []
    yield from _remote(function, dict(enumerate(items)), suspects, where)
    for number in sorted(suspects):
        yield from _remote(function, {number: items[number]}, lost, where)
    if lost:
        raise Unfinished([repr(items[number]) for number in lost])


def _remote(
    function: Callable[[Item], Result], todo: Mapping[int, Item], suspects: list[int], where: str
) -> Iterator[tuple[int, Result]]:
    if where == "dask" or where.startswith("dask:"):
        yield from _on_dask(function, todo, suspects, where[5:])
    elif where == "pool":
        left = deque(todo.items())
        while left:  # a dead worker breaks its pool; the next pool continues
            # A fork would copy locks that other threads may hold, so spawn the processes.
            pool = ProcessPoolExecutor(
                min(processors(), len(left)),
                get_context("spawn"),
                signal.signal,
                (signal.SIGINT, signal.SIG_IGN),
            )
            try:
                yield from _until_broken(pool, function, left, suspects)
            finally:
                pool.shutdown(cancel_futures=True)
    else:
        raise WrongUse(f"cannot run on {where!r}; use local, pool, dask or dask:ADDRESS")


def _until_broken(
    pool: ProcessPoolExecutor,
    function: Callable[[Item], Result],
    left: deque[tuple[int, Item]],
    suspects: list[int],
) -> Iterator[tuple[int, Result]]:
    """Yield results until all items are done or a worker dies; add its items to `suspects`."""
    defined_in_script = b"__main__" in pickle.dumps((function, list(left)))
    running: dict[Future[Result], int] = {}
    broken = False
    while running or (left and not broken):
        while left and not broken and len(running) < 2 * processors():
            try:
                with _script_hidden(not defined_in_script):  # `submit` starts processes
                    running[pool.submit(function, left[0][1])] = left[0][0]
                left.popleft()
            except BrokenProcessPool:
                broken = True
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            number = running.pop(future)
            try:
                result = future.result()
            except BrokenProcessPool:
                suspects.append(number)
                broken = True
            else:
                yield number, result


@contextmanager
def _script_hidden(hidden: bool = True) -> Iterator[None]:
    """Hide `__main__` from the processes that start meanwhile; they would run it again."""
    script = sys.modules["__main__"]
    if hidden:
        sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


def _on_dask(
    function: Callable[[Item], Result], todo: Mapping[int, Item], suspects: list[int], address: str
) -> Iterator[tuple[int, Result]]:
    """Yield results from Dask, which retries an item on other workers before it gives up."""
    distributed = import_module("distributed")  # which only the extra `cluster` installs
    with _client(distributed, address) as client:
        running = {client.submit(function, item, pure=False): n for n, item in todo.items()}
        for future in distributed.as_completed(running):
            number = running.pop(future)
            try:
                result = future.result()
            except distributed.KilledWorker:
                suspects.append(number)
            else:
                yield number, result


@contextmanager
def _client(distributed: Any, address: str) -> Iterator[Any]:  # Any: Dask ships no types
    if address:
        try:
            client = distributed.Client(address, timeout=10)
        except OSError:
            raise WrongUse(
                f"no Dask scheduler responds at {address}; start one there, or use another address"
            ) from None
        with client:
            yield client
        return
    with (
        _restored_environment(),
        import_module("dask").config.set({"distributed.nanny.pre-spawn-environ": KEEP_MEMORY}),
        distributed.LocalCluster(
            n_workers=processors(), threads_per_worker=1, dashboard_address="127.0.0.1:0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@contextmanager
def _restored_environment() -> Iterator[None]:
    """Set the workers' environment in this process, then restore what Dask's nanny changes.

    The nanny's settings do not override variables that are set.
    """
    before = dict(os.environ)
    os.environ.update({name: str(value) for name, value in KEEP_MEMORY.items()})
    try:
        yield
    finally:
        for name in set(os.environ) - set(before):
            del os.environ[name]
        os.environ.update(before)


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def progress(name: str, total: int, unit: str = "cells") -> Iterator[Callable[[int], None]]:
    """Return a function that takes the number of finished items and shows the progress.

    On a terminal with rich installed, show a bar with the remaining time; otherwise print lines.
    """
    if not sys.stderr.isatty() or find_spec("rich") is None:
        yield _Lines(name, total, unit)
        return
    from rich import progress as bars
    from rich.console import Console

    parts = (bars.BarColumn(), bars.MofNCompleteColumn(), bars.TimeRemainingColumn())
    with bars.Progress(bars.TextColumn(name), *parts, console=Console(stderr=True)) as bar:
        task = bar.add_task(name, total=total)
        yield lambda done: bar.update(task, completed=done)


class _Lines:
    """Progress as lines: the first, the last, and one every few seconds."""

    def __init__(self, name: str, total: int, unit: str) -> None:
        self._name, self._total, self._unit = name, total, unit
        self._start = self._next = time.monotonic()
        self._done_at_start = 0

    def __call__(self, done: int) -> None:
        now = time.monotonic()
        if self._next == self._start:
            self._done_at_start = done
        if now < self._next and done < self._total:
            return
        left, new = "", done - self._done_at_start
        if new and done < self._total:
            seconds = (now - self._start) / new * (self._total - done)
            left = f", about {seconds:.0f} s left"
        print(f"{self._name}: {done} of {self._total} {self._unit}{left}", file=sys.stderr)
        self._next = now + SECONDS_BETWEEN_LINES
