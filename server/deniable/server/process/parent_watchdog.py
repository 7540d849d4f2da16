"""Watchdog of a worker: it ends with its parent, which cannot say so when it is killed."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable

WATCH_SECONDS = 0.1
LAST_ANSWERS_SECONDS = 1.0  # for refusals that are still on their way
PR_SET_PDEATHSIG, PR_SET_NAME = 1, 15  # <linux/prctl.h>


def end_with_parent() -> None:
    """Have the kernel ask this process to stop when its parent ends; on Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def name_process(name: str) -> None:
    """Show this name of at most 15 bytes in process lists; on Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode())


def watch_parent(
    parent: int,
    has_ended: Callable[[], bool] = lambda: False,
    stop: Callable[[], object] = lambda: None,
) -> None:
    """End this process with its parent, and when `has_ended` says so; `stop` is called before."""
    end_with_parent()
    watch = threading.Thread(
        target=_watch, args=(parent, has_ended, stop), name="parent", daemon=True
    )
    watch.start()


def _watch(parent: int, has_ended: Callable[[], bool], stop: Callable[[], object]) -> None:
    while os.getppid() == parent and not has_ended():
        time.sleep(WATCH_SECONDS)
    stop()
    if os.getppid() == parent:
        time.sleep(LAST_ANSWERS_SECONDS)
    os._exit(1)
