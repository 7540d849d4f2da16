"""A worker ends with its parent: one that was killed cannot say so, and its worker would serve on,
an orphan."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable

WATCH_SECONDS = 0.1
ANSWER_SECONDS = 1.0  # what was refused at the end is still said
PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def end_with(
    parent: int, ended: Callable[[], bool] = lambda: False, stop: Callable[[], object] = int
) -> None:
    """Also when `ended`; `stop` is called before."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)  # stops listening at once
    threading.Thread(target=_watch, args=(parent, ended, stop), name="parent", daemon=True).start()


def _watch(parent: int, ended: Callable[[], bool], stop: Callable[[], object]) -> None:
    while os.getppid() == parent and not ended():
        time.sleep(WATCH_SECONDS)
    stop()
    if os.getppid() == parent:
        time.sleep(ANSWER_SECONDS)
    os._exit(1)
