"""Listening addresses and the lock on a data folder; each belongs to one server at a time."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from deniable.server.disk import PRIVATE_FILE
from deniable.shared.errors import Refused, WrongUse

LOCK_FILE = "serve.lock"
ADDRESSES_FILE = "serve.json"
LOCK_PATIENCE_SECONDS = 3.0  # a killed server takes a moment to disappear
LOCK_PAUSE_SECONDS = 0.05
HEALTH_SECONDS = 2.0
THIS_MACHINE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  # all addresses include loopback


class Address(NamedTuple):
    """Host and port to listen at."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """URL of the address on this machine."""
        host = THIS_MACHINE.get(self.host, self.host)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    def answers(self) -> bool:
        target = THIS_MACHINE.get(self.host, self.host)
        request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        try:
            with socket.create_connection((target, self.port), HEALTH_SECONDS) as connection:
                connection.sendall(request)
                return connection.recv(12) == b"HTTP/1.1 200"
        except OSError:
            return False


@contextmanager
def claim(host: str, port: int) -> Iterator[Address]:
    """Reserve an address, with a free port if `port` is 0.

    Workers listen with SO_REUSEPORT, so a second server would silently share the port. A bind
    without that option detects this. The reserving socket never listens, so it gets no connections.
    """
    with _bound(host, port, shared=False) as probe:
        free_port: int = probe.getsockname()[1]
    with _bound(host, free_port, shared=True):
        yield Address(host, free_port)


def take_lock(folder: Path, patience: float = LOCK_PATIENCE_SECONDS) -> int:
    """Lock the folder until the descriptor is closed or this process ends, even by a kill."""
    handle = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
    end = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                os.close(handle)
                raise Refused(
                    f"another server is using {folder}; stop it, or name another folder"
                ) from None
            time.sleep(LOCK_PAUSE_SECONDS)
        else:
            return handle


class ServerAddresses(NamedTuple):
    """URLs at which people and devices reach the server of a folder."""

    devices: str  # the public address, if the server knows it
    people: str
    local: str  # address for devices on this machine


def record_addresses(folder: Path, addresses: ServerAddresses) -> None:
    """Write the addresses of the folder's server, for commands on this machine."""
    file = folder / ADDRESSES_FILE
    file.touch(PRIVATE_FILE)
    file.write_text(json.dumps(addresses._asdict()), "utf-8")


def running_server(folder: Path) -> ServerAddresses | None:
    """Return the addresses of the server that uses this folder now, or None if there is none."""
    if not (folder / LOCK_FILE).exists():
        return None
    try:
        os.close(take_lock(folder, patience=0))
    except Refused:
        return ServerAddresses(**json.loads((folder / ADDRESSES_FILE).read_text("utf-8")))
    return None


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
        raise WrongUse(f"the port must be between 0 and 65535, not {port}") from None
    except OSError as error:
        bound.close()
        if error.errno == errno.EADDRINUSE:
            raise Refused(
                f"port {port} of {host} is in use; stop the program that uses it, or use --port 0"
            ) from None
        raise WrongUse(f"cannot listen at {host} port {port}: {error.strerror or error}") from None
    return bound
