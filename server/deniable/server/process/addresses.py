"""Addresses to listen at, and the lock on a data folder: each is taken by one server only."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from deniable.server.disk import PRIVATE_FILE
from deniable.shared.errors import Refused, WrongUse

LOCK_FILE = "serve.lock"
LOCK_PATIENCE_SECONDS = 3.0  # a server that was just killed needs a moment to be gone
LOCK_PAUSE_SECONDS = 0.05
HEALTH_SECONDS = 2.0
THIS_MACHINE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  # every address is this one too


@dataclass(frozen=True)
class Address:
    """A host and a port to listen at."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """The address as seen from this machine."""
        host = THIS_MACHINE.get(self.host, self.host)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    def answers(self) -> bool:
        """Return whether a server there says that it is alive."""
        target = THIS_MACHINE.get(self.host, self.host)
        request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        try:
            with socket.create_connection((target, self.port), HEALTH_SECONDS) as connection:
                connection.sendall(request)
                return connection.recv(12) == b"HTTP/1.1 200"
        except OSError:
            return False


def claim(host: str, port: int) -> tuple[Address, socket.socket]:
    """Return the address, with a free port if `port` is 0, and the socket that reserves it.

    Workers listen with SO_REUSEPORT, so a second server would silently share the port: a plain
    bind detects that. The reserving socket never listens, so it gets no connection; close it last.
    """
    with _bound(host, port, shared=False) as probe:
        chosen: int = probe.getsockname()[1]
    return Address(host, chosen), _bound(host, chosen, shared=True)


def take_lock(folder: Path, patience: float = LOCK_PATIENCE_SECONDS) -> int:
    """Hold the folder until this process ends, or the returned descriptor is closed.

    The kernel frees the lock however its holder ends.
    """
    handle = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
    end = time.monotonic() + patience
    while not _locked(handle):
        if time.monotonic() >= end:
            os.close(handle)
            raise Refused(f"another server serves {folder}; stop it, or name another folder")
        time.sleep(LOCK_PAUSE_SECONDS)
    return handle


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _bound(host: str, port: int, *, shared: bool) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        bound.bind((host, port))
    except OverflowError:
        bound.close()
        raise WrongUse(f"a port is 0 to 65535, not {port}") from None
    except OSError as error:
        bound.close()
        raise _refusal(host, port, error) from None
    return bound


def _refusal(host: str, port: int, error: OSError) -> Refused | WrongUse:
    if error.errno == errno.EADDRINUSE:
        return Refused(f"port {port} of {host} is in use; stop what listens there, or use --port 0")
    return WrongUse(f"cannot listen at {host} port {port}: {error.strerror or error}")
