"""Device without POSIX: `python -m tests.client.other_system PLATFORM URL STATE KEY`.

Python's own modules are loaded first. Then the names are hidden, and only then deniable is
imported. The device answers, sends, and answers again after a restart; it prints the results.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import sqlite3
import ssl
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from typing import Any

import certifi
from cryptography.hazmat.primitives.asymmetric import ed25519

TODAY = datetime(2026, 12, 10, 12, tzinfo=UTC)
LOADED = http.client, socket, sqlite3, ssl, subprocess, tempfile, certifi, ed25519
NOT_ON_WINDOWS = [
    "O_DIRECTORY",
    "O_NOFOLLOW",
    "O_NONBLOCK",
    "O_SYNC",
    "O_DSYNC",
    "O_CLOEXEC",
    "chown",
    "fchmod",
    "fchown",
    "fork",
    "forkpty",
    "getegid",
    "geteuid",
    "getgid",
    "getuid",
    "killpg",
    "mkfifo",
    "openpty",
    "pipe2",
    "posix_fallocate",
    "posix_spawn",
    "pread",
    "preadv",
    "pwrite",
    "pwritev",
    "register_at_fork",
    "sched_yield",
    "setsid",
    "sync",
    "uname",
]
NO_MODULES_ON_WINDOWS = ["fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios"]


def hide() -> None:
    for name in NOT_ON_WINDOWS:
        if hasattr(os, name):
            delattr(os, name)
    for name in NO_MODULES_ON_WINDOWS:
        sys.modules[name] = None  # type: ignore[assignment]  # so that its import fails
    opened = os.open

    def without_folders(path: Any, flags: int, mode: int = 0o777) -> int:
        if os.path.isdir(path):  # noqa: PTH112 # as Windows does
            raise PermissionError(13, "Permission denied")
        return opened(path, flags, mode)

    os.open = without_folders  # type: ignore[assignment]  # its other arguments are of no use there


def main(platform: str, url: str, state: str, key: str) -> None:
    assert not any(name.startswith("deniable.") for name in sys.modules)
    sys.platform = platform
    if platform == "win32":
        hide()
    from deniable.client import Client, Policy

    told: list[object] = []
    for _ in range(2):
        policy = Policy(keys=[key], per="lifetime")  # so that every round is answered
        client = Client(url, policy=policy, state=state, now=lambda: TODAY)
        client.consent(True)
        answers: dict[str, object] = {"crashed": True, "minutes": 34, "browser": "firefox"}
        told += [client.answer("app-health", **answers).status, client.flush(20.0)]
        client.close()
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
