"""Map items to results anywhere, and merge the results: here, in a process pool, or on Dask.

    where = "local"          in this process
            "pool"           a pool of processes, one for each processor
            "dask"           a Dask cluster of our own, one worker for each processor
            "dask:ADDRESS"   the cluster whose scheduler has this address

An item is folded exactly once. Results are merged in the order of the items, whatever finished
first: a merge need not be associative or commutative to give the same bytes everywhere.
When a worker dies, each item that it may have been working on is tried again alone. What still
cannot be done is named in an error once the rest is done, and nothing half-done is returned.
An exception of the function itself ends the work at once.
"""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from importlib import import_module
from multiprocessing import get_context
from typing import Any, TypeVar

from deniable.shared.errors import Unfinished, WrongUse

Item = TypeVar("Item")
Result = TypeVar("Result")
Merged = TypeVar("Merged")
# The nanny sets the first of these to 64 KiB, which also ends glibc's own adaptation of the second:
# each large array is then mapped and cleared anew by the system. In bytes.
KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": 2**30, "MALLOC_MMAP_THRESHOLD_": 2**25}


def map_merge(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    merge: Callable[[Merged, Result], Merged],
    zero: Merged,
    where: str = "local",
    arrived: Callable[[int, Result], None] = lambda _number, _result: None,
) -> Merged:
    """`zero` merged with the result of every item, in their order. `arrived` gets each result with
    its item's number, once, as soon as it is there: for a journal, and for progress."""
    merged, early, following = zero, dict[int, Result](), 0
    for number, result in _results(function, items, where):
        arrived(number, result)
        early[number] = result
        while following in early:
            merged = merge(merged, early.pop(following))
            following += 1
    return merged


def _results(
    function: Callable[[Item], Result], items: Sequence[Item], where: str
) -> Iterator[tuple[int, Result]]:
    if where == "local":
        yield from ((number, function(item)) for number, item in enumerate(items))
        return
    suspects: list[int] = []
    lost: list[int] = []
    yield from _elsewhere(function, dict(enumerate(items)), suspects, where)
    for number in sorted(suspects):
        yield from _elsewhere(function, {number: items[number]}, lost, where)
    if lost:
        raise Unfinished([repr(items[number]) for number in lost])


def _elsewhere(
    function: Callable[[Item], Result], todo: Mapping[int, Item], suspects: list[int], where: str
) -> Iterator[tuple[int, Result]]:
    if where == "dask" or where.startswith("dask:"):
        yield from _on_dask(function, todo, suspects, where[5:])
    elif where == "pool":
        left = deque(todo.items())
        while left:  # a pool ends with the death of any of its workers; the next one goes on
            with _pool(min(processors(), len(left))) as pool:
                yield from _until_broken(pool, function, left, suspects)
    else:
        raise WrongUse(f"cannot run on {where!r}; choose local, pool, dask or dask:ADDRESS")


def _until_broken(
    pool: ProcessPoolExecutor,
    function: Callable[[Item], Result],
    left: deque[tuple[int, Item]],
    suspects: list[int],
) -> Iterator[tuple[int, Result]]:
    """Few items are handed out at a time: when a worker dies, all of those are under suspicion."""
    running: dict[Future[Result], int] = {}
    broken = False
    while running or (left and not broken):
        while left and not broken and len(running) < 2 * processors():
            try:
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
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Fresh processes: a fork would copy locks that another thread may hold."""
    pool = ProcessPoolExecutor(workers, get_context("spawn"), _leave_interrupts_to_the_parent)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _on_dask(
    function: Callable[[Item], Result], todo: Mapping[int, Item], suspects: list[int], address: str
) -> Iterator[tuple[int, Result]]:
    """Dask itself tries again, elsewhere, before it gives an item up as one that kills workers."""
    distributed = import_module("distributed")  # by name: it comes with the extra `cluster` alone
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
def _client(distributed: Any, address: str) -> Iterator[Any]:  # Any: it ships no types
    if address:
        try:
            client = distributed.Client(address, timeout=10)
        except OSError:
            raise WrongUse(f"no Dask scheduler answers at {address}; start one there") from None
        with client:
            yield client
        return
    with (
        _environment_put_back(),
        import_module("dask").config.set({"distributed.nanny.pre-spawn-environ": KEEP_MEMORY}),
        distributed.LocalCluster(
            n_workers=processors(), threads_per_worker=1, dashboard_address="127.0.0.1:0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@contextmanager
def _environment_put_back() -> Iterator[None]:
    """The nanny sets what its workers shall find in this process, and leaves it there. What is set
    already wins over it, so it is set here too."""
    before = dict(os.environ)
    os.environ.update({name: str(value) for name, value in KEEP_MEMORY.items()})
    try:
        yield
    finally:
        for name in set(os.environ) - set(before):
            del os.environ[name]
        os.environ.update(before)


def processors() -> int:
    """Those that this process may use, where the system tells."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
