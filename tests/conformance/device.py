"""Client as a black box: a child process that speaks JSON lines, and may be killed."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from deniable.client.environment import KEPT
from deniable.client.state.ledger import ROBOTS
from deniable.shared.survey.keys import public_hex
from tests.client.scripted import KEY, TODAY, Script, serving

Message = dict[str, Any]  # JSON
QUESTIONS = {"crashed": "bit", "minutes": "number", "browser": "choice", "word": "text"}
POLICY: Message = {
    "keys": [public_hex(KEY)],
    "questions": QUESTIONS,
    "max_epsilon_per_round": "2",
    "max_epsilon": "6",
    "max_epsilon_per_survey": "1000000",
    "per": "lifetime",  # so that every round is answered
}
NEVER = 86_400.0  # seconds; only a flush sends
KINDS = ("bit", "number", "choice", "text", "vector")
FEATURES = (
    *("ask", "cross", "ended", "labels", "latched", "over", "participation", "reconcile"),
    *("relay", "sealing"),
)


class Broken(AssertionError):
    """Raised if the client breaks the protocol."""


class NotOffered(Exception):
    """Raised if the client does not offer an operation, which it names."""


@dataclass(frozen=True)
class Claims:
    """Kinds of questions and features that a client claims to support."""

    kinds: tuple[str, ...] = KINDS
    features: tuple[str, ...] = FEATURES

    @property
    def others(self) -> Claims:
        kinds = tuple(kind for kind in KINDS if kind not in self.kinds)
        return Claims(kinds, tuple(name for name in FEATURES if name not in self.features))

    def __str__(self) -> str:
        parts = {"kinds": self.kinds, "features": self.features}
        return "; ".join(f"{part} {', '.join(names) or 'none'}" for part, names in parts.items())


EVERYTHING = Claims()


class Device:
    """Process of the client."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={
                **{name: os.environ[name] for name in os.environ if name not in ROBOTS},
                KEPT: "1",
            },
        )

    def say(self, op: str, **request: Any) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps({"op": op, **request}).encode() + b"\n")
        self._process.stdin.flush()

    def reply(self) -> Message:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            _, complaint = self._process.communicate()
            raise Broken(f"the client's process ended: {complaint.decode(errors='replace')}")
        reply: Message = json.loads(line)
        return reply

    def kill(self) -> str:
        """Kill the process with SIGKILL, and return its standard error."""
        self._process.kill()
        with suppress(BrokenPipeError):
            return self._process.communicate()[1].decode(errors="replace")
        return ""


@dataclass
class Stage:
    """Scripted server, state folder, and the client processes that use it."""

    command: Sequence[str]
    script: Script
    state: Path
    claims: Claims = EVERYTHING
    policy: Message = field(init=False)
    labels: Message = field(default_factory=dict)
    relay: str | None = None  # its address
    now: datetime = TODAY
    devices: list[Device] = field(default_factory=list)
    complaints: str = ""

    def __post_init__(self) -> None:
        questions = {name: kind for name, kind in QUESTIONS.items() if kind in self.claims.kinds}
        self.policy = POLICY | {"questions": questions}

    def start(self, consent: bool = True) -> Device:
        """Start another process; `ask` uses the newest one."""
        self.devices.append(Device(self.command))
        self.must("ready", True, **self.ask("init", **self.settings))
        if consent:
            self.must("kept", True, **self.ask("consent", given=True))
        return self.devices[-1]

    @property
    def settings(self) -> Message:
        return {
            "server": self.script.url,
            "state": str(self.state),
            "policy": self.policy,
            "labels": self.labels,
            "relay": self.relay,
            "now": self.now.isoformat(),
            "send_within": NEVER,
        }

    def restart(self) -> None:
        """Kill and start the client again; consent is remembered."""
        self.kill()
        self.start(consent=False)

    def kill(self) -> None:
        self.complaints += self.devices.pop().kill()

    def ask(self, op: str, **request: Any) -> Message:
        self.devices[-1].say(op, **request)
        return self.devices[-1].reply()

    def answer(self, survey: str = "app-health", /, **answers: object) -> str:
        """Answer the questions whose kinds the client claims."""
        for name, kind in QUESTIONS.items():
            if kind not in self.claims.kinds:
                answers.pop(name, None)
        return str(self.ask("answer", survey=survey, answers=answers).get("status"))

    def flush(self) -> int:
        return int(self.ask("flush")["waiting"])

    def flush_often(self, times: int) -> None:
        for _ in range(times):
            self.ask("flush")

    def later(self, **time: float) -> None:
        self.now += timedelta(**time)
        self.ask("clock", now=self.now.isoformat())

    def must(self, what: str, wanted: object, **reply: Any) -> None:
        if reply.get(what) != wanted:
            raise Broken(f"{what} should be {wanted!r}: {reply}")

    def files(self) -> list[Path]:
        return [path for path in self.state.rglob("*") if path.is_file()]


@contextmanager
def stage(command: Sequence[str], claims: Claims = EVERYTHING) -> Iterator[Stage]:
    with (
        serving() as script,
        TemporaryDirectory(ignore_cleanup_errors=True) as folder,
    ):
        made = Stage(command, script, Path(folder) / "state", claims)
        try:
            yield made
        finally:
            script.ended.set()
            while made.devices:
                made.kill()
