"""Refusals: the OpenAPI document lists all of them, including those before the application."""

from __future__ import annotations

import ast
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from deniable.server.http import messages
from deniable.server.http.intake_front import ROUTES
from deniable.server.http.openapi import document
from tests.server.devices import Loop
from tests.server.test_openapi import ALWAYS, BEFORE, SLOW, listed, sent
from tests.server.test_overload import altered, connections
from tests.server.test_slow_bodies import post_as_granian
from tests.server.world import World, serving

FOLDER = Path(messages.__file__).parent
BUSY = ("front.py", "rate_limit.py")  # slow bodies and overload: tested above and in other files
Line = tuple[str, int]  # file and line number


@pytest.mark.parametrize("status", BEFORE)
def test_refusals_before_the_application_are_listed(tmp_path: Path, status: str) -> None:
    length = 9 if status == "408" else 0
    operations = {
        (path, method): operation
        for path, method, operation in listed(document())
        if path in ROUTES and method.upper() in ROUTES[path].methods
    }

    def answered(address: tuple[str, str]) -> str:
        path, method = address
        head = f"{method.upper()} {path} HTTP/1.1\r\nHost: x\r\nContent-Encoding: identity\r\n"
        asked = f"{head}Content-Length: {length}\r\n\r\n".encode()
        with connections(server, 1, asked) as made:
            return made[0].recv(4_096)[9:12].decode()

    with (
        serving(tmp_path, command=altered(BEFORE[status])) as server,
        ThreadPoolExecutor(len(operations)) as pool,
    ):
        list(pool.map(answered, operations))  # the first request of each kind is accepted
        found = dict(zip(operations, pool.map(answered, operations), strict=True))
    said = {address for address, answer in found.items() if answer == status}
    assert said == {address for address in found if status in ALWAYS | SLOW.get(address, set())}
    for address, answer in found.items():
        assert answer in operations[address]["responses"], address


def test_every_refusal_in_the_source_is_exercised(here: World) -> None:
    """If one were missing, `sent` and therefore the document would be incomplete."""
    reached = set[Line]()

    def trace(frame: FrameType, event: str, _: object) -> Any:  # Any: as in sys.settrace
        if event == "line":
            reached.add((frame.f_code.co_filename, frame.f_lineno))
        return trace if frame.f_code.co_filename.startswith(str(FOLDER)) else None

    loop: Loop = here.app.extensions["tests"].loop
    before = sys.gettrace()
    sys.settrace(trace)
    loop.call(sys.settrace, trace)
    here.front._queries.submit(sys.settrace, trace)
    try:
        sent(here)
        others(here)
    finally:
        sys.settrace(before)
    assert refusals()
    assert sorted(refusals() - reached) == []


def others(here: World) -> None:
    """Send requests that are not in the document: for pages, and for the rest of intake."""
    assert post_as_granian(here, "/sign-in", "", b"token=", 9) == 400
    for path in ("/nothing", "/problems/none", "/public/none"):
        assert here.devices.get(path).status_code == 404
    here.front._public_pages = True
    assert here.devices.get("/public/none").status_code == 404
    with pytest.MonkeyPatch.context() as patch:  # no reader has published any page yet
        patch.setattr(here.store, "public_page", lambda _: None)
        assert here.devices.get("/shared/none").status_code == 404
    assert here.devices.get("/v1/envelopes").status_code == 405
    not_text = {"HTTP_AUTHORIZATION": "Bearer \xff"}
    assert here.devices.post("/v1/envelopes", environ_overrides=not_text).status_code == 401


def refusals() -> set[Line]:
    """Return the source lines that refuse requests."""
    return {
        (str(file), node.lineno)
        for file in FOLDER.glob("*.py")
        if file.name not in BUSY
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("HttpError", "problem")
        and "BUSY" not in ast.dump(node)  # overload: tested above
    }
