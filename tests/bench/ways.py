"""Files involved in three operations: an answer on a device, an upload, a page of a survey.

    .venv/bin/python -m tests.bench.ways            figures and files
    .venv/bin/python -m tests.bench.ways --calls    also each call from one file into another

The program counts calls and does not measure time. Only files of deniable.* count, and a generator
counts once. Modules are imported before the run. Each operation runs twice, and the second run is
traced, after lists have been fetched, signatures verified and tables built. For an answer, only the
app's thread is traced.
"""

from __future__ import annotations

import json
import sys
import threading
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

from deniable.client import Client, Policy
from deniable.client.net.transport import Reply, Unreachable
from deniable.server.store import PublishedSurvey
from deniable.shared.survey.document import Survey, render_document, survey_id
from deniable.shared.survey.keys import sign
from tests.server.surveys import BIT, KEY, NUMBER, PUBLIC, choice, envelope, survey
from tests.server.world import NOON, Hands, world

ROOT = str(Path(__file__).resolve().parents[2])
GENERATOR = 0x20  # flag of a code object
ANSWERS: dict[str, object] = {"crashed": True, "minutes": 34, "browser": "option 1"}


Way = Callable[[Path], AbstractContextManager[Callable[[], object]]]


@dataclass
class Calls:
    """Calls from one file of deniable into another, in the order of their first occurrence."""

    counts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    generators: list[FrameType] = field(default_factory=list)  # referenced, so that no id is reused

    def __call__(self, frame: FrameType, event: str, arg: object) -> None:
        here, code = place(frame), frame.f_code
        if event != "call" or here is None or code.co_name == "<module>":
            return
        if code.co_flags & GENERATOR:
            if any(frame is known for known in self.generators):
                return
            self.generators.append(frame)
        there = caller(frame)
        if here != there:
            self.counts[there, here, code.co_qualname] += 1

    @property
    def files(self) -> list[str]:
        return list(
            dict.fromkeys(file for caller, callee, _ in self.counts for file in (caller, callee))
        )

    def shown(self, name: str, calls: bool) -> Iterator[str]:
        files = [file for file in self.files if file != "-"]
        yield f"{name}: {len(files)} files, {self.counts.total()} calls from file to file"
        yield "    " + " · ".join(files)
        if calls:
            yield from (f"    {n:4} × {a} ▶ {b} {what}" for (a, b, what), n in self.counts.items())


def place(frame: FrameType) -> str | None:
    """Return a path such as `client/state/outbox.py`, or None for code outside the project."""
    _, found, rest = frame.f_code.co_filename.partition("/deniable/")
    return rest if found and frame.f_code.co_filename.startswith(ROOT) else None


def caller(frame: FrameType) -> str:
    """Return the nearest calling file of the project, or "-" if there is none."""
    above = frame.f_back
    while above is not None:
        if (name := place(above)) is not None:
            return name
        above = above.f_back
    return "-"


@contextmanager
def following(calls: Calls, threads: bool) -> Iterator[None]:
    """Trace this thread and, on request, every thread started after SWITCH was set."""
    SWITCH.calls = calls if threads else None
    sys.settrace(calls)
    try:
        yield
    finally:
        sys.settrace(None)
        SWITCH.calls = None


class Switch:
    """Tracer for threads that start before the tracing begins."""

    calls: Calls | None = None

    def __call__(self, frame: FrameType, event: str, arg: object) -> None:
        if self.calls is not None:
            self.calls(frame, event, arg)


SWITCH = Switch()


class Listing:
    """Network that returns one survey and accepts no report."""

    def __init__(self, asked: Survey) -> None:
        document = render_document(asked)
        entry = {"id": survey_id(document), "document": document.decode(), "state": "open"}
        entry |= {"signature": sign(document, KEY), "key": PUBLIC}
        self.reply = Reply(200, json.dumps({"surveys": [entry]}).encode())

    def request(
        self, method: str, path: str, body: bytes | None, content_type: str | None, timeout: float
    ) -> Reply:
        if method == "GET":
            return self.reply
        raise Unreachable("nobody there")


def asked() -> Survey:
    """Return a survey with one question of each kind."""
    questions = BIT + NUMBER + choice(3, "k-randomized-response")
    return survey(questions.replace('epsilon = "1"', 'epsilon = "0.1"'), round="day")


@contextmanager
def answer(folder: Path) -> Iterator[Callable[[], object]]:
    """Answer on two days, in two rounds, but within an hour, so that the list is fetched once."""
    clock = Hands(NOON.replace(hour=23, minute=50))
    client = Client(
        "https://stats.example.org",
        policy=Policy(keys=[PUBLIC], per="lifetime"),
        state=folder,
        now=clock.now,
        transport=Listing(asked()),
    )
    client.consent(True)

    def once() -> str:
        status = client.answer("app-health", **ANSWERS).status
        clock.pass_(minutes=20)
        return status

    yield once
    client.close()


@contextmanager
def upload(folder: Path) -> Iterator[Callable[[], object]]:
    with world(folder) as made:
        bodies = iter(bodies_for(made.publish(asked())))
        yield lambda: made.post(next(bodies)).status


@contextmanager
def page(folder: Path) -> Iterator[Callable[[], object]]:
    with world(folder) as made:
        shown = made.publish(asked())
        assert made.post(bodies_for(shown)[0]).status_code == 200
        token = made.token("analyst")
        visitor = made.client
        visitor.post("/sign-in", data={"token": token})
        yield lambda: visitor.get(f"/surveys/{shown.id}").status


def bodies_for(shown: PublishedSurvey) -> list[bytes]:
    today = shown.survey.first_round + NOON.day - 1
    return [envelope(shown, number, round_number=today).pack() for number in range(2)]


WAYS = {
    "one Client.answer": (answer, False),
    "one upload": (upload, True),
    "one page of a survey": (page, True),
}


def follow(prepared: Way, threads: bool) -> Calls:
    calls = Calls()
    with TemporaryDirectory() as folder, prepared(Path(folder)) as once:
        first = once()
        with following(calls, threads):
            second = once()
    assert first == second in ("queued", "200 OK"), f"{first}, then {second}"
    return calls


def main() -> None:
    parser = ArgumentParser(description="Which files three ways cross.")
    parser.add_argument("--calls", action="store_true", help="each call from file to file")
    chosen = parser.parse_args()
    threading.settrace(SWITCH)  # before the server's threads start
    for name, way in WAYS.items():
        print("\n".join(follow(*way).shown(name, chosen.calls)))


if __name__ == "__main__":
    main()
