"""Number of files that a reader opens to follow one piece of work from start to end.

Call stacks are short here, so code is hard to follow only if it crosses many files. Each limit
counts the product files whose functions run in the thread that does the work, once everything is
imported.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any  # Any: a test response

from flask import Response
from flask.testing import FlaskClient

from deniable.client import Client, Policy
from deniable.server.http.context import COOKIE
from deniable.shared.cli.command import main
from deniable.shared.envelope import CONTENT_TYPE
from deniable.shared.survey.keys import public_hex
from tests.client.scripted import ANSWERS, KEY, LATER, Clock, document, serving
from tests.crossed_files import short, traced
from tests.eventually import PATIENCE
from tests.server.released import release_all
from tests.server.results_data import NOW, add_round
from tests.server.surveys import BIT, envelope, until_spring
from tests.server.world import World, world

ANSWER, UPLOAD, RESULTS, PAGE, STUDY = 21, 14, 22, 33, 22


def assert_crossed(files: set[str], limit: int) -> None:
    assert files, "no file was traced"
    assert len(files) <= limit, f"{len(files)} files, at most {limit}:\n{short(files)}"


def test_an_answer_on_the_device_crosses_few_files(tmp_path: Path) -> None:
    clock = Clock()
    with serving() as script:
        script.always = LATER
        script.publish(document())
        policy = Policy(keys=[public_hex(KEY)], max_epsilon_per_survey="4.5")  # every round
        client = Client(
            script.url, policy=policy, state=tmp_path / "state", now=clock, timeout=PATIENCE
        )
        client.consent(True)
        assert client.answer("app-health", **ANSWERS).status == "queued"  # fetches the survey first
        clock.now = datetime(2027, 1, 10, tzinfo=UTC)
        with traced() as files:
            outcome = client.answer("app-health", **ANSWERS)
        client.close()
    assert outcome.status == "queued"
    assert_crossed(files, ANSWER)


def crossed_by(
    place: Path, ask: Callable[[World], Callable[[], Any]], *, by_intake: bool = False
) -> set[str]:
    """Return the files that one request crosses, on a server that has nothing cached."""
    with world(place, NOW, steps=True) as here:
        published = here.publish(until_spring(BIT))
        for number in (683, 684, 685):
            add_round(here.store, published, number, [[16_000, 4_000]])
        assert here.send(envelope(published, 1, round_number=685)).status_code == 200
        release_all(here.store)
        request, loop = ask(here), here.app.extensions["tests"].loop
        for token in here.store.tokens():  # only a token's first use on a day writes
            here.store.note_use(token.id, NOW.date())
        with traced() as files:
            if by_intake:  # intake runs in the thread of its loop
                loop.call(sys.setprofile, sys.getprofile())
            response = request()
            loop.call(sys.setprofile, None)
    assert response.status_code == 200, response.text[:300]
    return files


def test_an_upload_crosses_few_files(tmp_path: Path) -> None:
    def ask(here: World) -> Callable[[], Any]:
        published = here.catalogue.find("app-health")
        body, devices = envelope(published, 2, round_number=685).pack(), here.devices
        return lambda: devices.post("/v1/envelopes", data=body, content_type=CONTENT_TYPE)

    assert_crossed(crossed_by(tmp_path, ask, by_intake=True), UPLOAD)


def test_results_as_json_cross_few_files(tmp_path: Path) -> None:
    def ask(here: World) -> Callable[[], Any]:
        analyst = here.bearer("analyst")
        reader = FlaskClient(here.app, Response)
        return lambda: reader.get("/v1/surveys/app-health/results", headers=analyst)

    assert_crossed(crossed_by(tmp_path, ask), RESULTS)


def test_the_page_of_a_survey_crosses_few_files(tmp_path: Path) -> None:
    """Templates count as well."""

    def ask(here: World) -> Callable[[], Any]:
        browser = FlaskClient(here.app, Response)
        browser.set_cookie(COOKIE, here.session(here.token("analyst")))
        return lambda: browser.get("/surveys/app-health")

    assert_crossed(crossed_by(tmp_path, ask), PAGE)


def test_a_study_crosses_few_files(tmp_path: Path) -> None:
    """The first run, at another ε, imports everything and caches nothing for the second."""
    quiet = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO())
    words = ["simulate", "bit", "--people", "1000", "--repetitions", "20", "--out"]
    with quiet[0], quiet[1]:
        assert main([*words, str(tmp_path / "first"), "--epsilon", "2.5"]) == 0
        with traced() as files:
            assert main([*words, str(tmp_path / "bit"), "--epsilon", "1"]) == 0
    assert_crossed(files, STUDY)
