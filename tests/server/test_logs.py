"""Log of the server: one line for thousands of similar events, and no data about senders."""

from __future__ import annotations

import json
import logging
import logging.config
import sys
from collections.abc import Iterator
from io import StringIO

import pytest

from deniable.server.process.logs import Seldom, logging_config
from deniable.shared.errors import StoreUnusable
from tests.server.surveys import envelope, survey
from tests.server.test_openapi import broken
from tests.server.world import World


@pytest.fixture(params=[False, True], ids=["lines", "JSON"])
def log(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[StringIO]:
    """Yield the log of a server with these settings."""
    monkeypatch.setattr(sys, "stderr", written := StringIO())
    monkeypatch.setattr(logging, "_handlerList", [])  # dictConfig closes all listed handlers
    before = {name: logging.getLogger(name).__dict__.copy() for name in ("_granian", "deniable")}
    config = logging_config("serve", as_json=request.param)
    logging.config.dictConfig({"version": 1, "disable_existing_loggers": False, **config})
    try:
        yield written
    finally:
        for name, state in before.items():
            logging.getLogger(name).__dict__.update(state)


@pytest.mark.parametrize("error", [StoreUnusable("disk full"), RuntimeError("secret 5ca1ab1e")])
def test_a_thousand_similar_failures_are_one_line(
    here: World, log: StringIO, error: Exception
) -> None:
    asked = here.publish(survey())
    with broken(here, error):
        for number in range(50):
            assert here.send(envelope(asked, number)).status_code in (500, 503)
    assert log.getvalue().count("ERROR") + log.getvalue().count('"error"') <= 2
    assert log.getvalue()


def test_omitted_log_lines_are_counted() -> None:
    now = 0.0
    seldom = Seldom(lambda: now)

    def said(text: str, file: str = "file", line: int = 1) -> str | None:
        record = logging.LogRecord("x", logging.ERROR, file, line, "%s", (text,), None)
        return record.getMessage() if seldom.filter(record) else None

    assert [said("full"), said("full"), said("busy")] == ["full", None, None]
    assert (said("other", line=2), said("other", "file 2")) == ("other", "other")
    now = 60.0
    assert said("full") == "full (repeated 2 times)"


def test_the_json_log_names_the_problem_document_and_nothing_else(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", written := StringIO())
    monkeypatch.setattr(logging, "_handlerList", [])  # dictConfig closes all listed handlers
    app = here.bearer("app")
    asked = here.publish(survey())
    config = logging_config("serve", as_json=True)
    state = logging.getLogger("deniable").__dict__.copy()
    try:
        logging.config.dictConfig({"version": 1, "disable_existing_loggers": False, **config})
        with broken(here, RuntimeError("secret 5ca1ab1e")):
            answer = here.client.post(
                f"/v1/envelopes?token={'t' * 43}",
                data=envelope(asked, 1).pack(),
                content_type="application/vnd.deniable.envelopes",
                headers=app | {"X-Forwarded-For": "203.0.113.9"},
            )
    finally:
        logging.getLogger("deniable").__dict__.update(state)
    (line,) = map(json.loads, written.getvalue().splitlines())
    assert set(line) == {"time", "level", "message", "request", "error", "at"}
    assert (line["level"], line["error"]) == ("error", "RuntimeError")
    assert line["request"] == answer.json["instance"]
    for secret in ("5ca1ab1e", "203.0.113.9", "127.0.0.1", "t" * 43, app["Authorization"][7:]):
        assert secret not in written.getvalue()


def test_each_problem_has_a_random_id(here: World) -> None:
    names = {here.client.get("/v1/nothing").json["instance"] for _ in range(10)}
    assert len(names) == 10
    assert all(name.startswith("urn:uuid:") for name in names)
