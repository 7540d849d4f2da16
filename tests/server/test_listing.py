"""Public list of surveys: its entries, how long they stay, and the maximum size."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from deniable.client.net import survey_list as reading
from deniable.client.net.survey_list import read_list
from deniable.client.net.transport import MAX_LIST_BYTES as CLIENTS_BYTES
from deniable.client.net.transport import Reply
from deniable.client.policy import Policy
from deniable.server.store import PublishedSurvey
from deniable.server.surveys import public_list as module
from deniable.server.surveys.public_list import MAX_LIST_BYTES, MAX_LISTED, MAX_PUBLISHED_BYTES
from deniable.shared.errors import InvalidSurvey, Refused
from deniable.shared.survey.document import MAX_DOCUMENT_BYTES, Survey, render_document
from deniable.shared.survey.keys import sign
from tests.command import run
from tests.server.surveys import KEY, PUBLIC, choice, published, survey
from tests.server.world import World

OVER = datetime(2027, 3, 15, tzinfo=UTC)  # the default survey's last day plus 14 days of grace


def listed(here: World) -> list[str]:
    answer = here.client.get("/v1/surveys")
    assert answer.status_code == 200
    return [survey["id"] for survey in answer.json["surveys"]]


@cache
def sized(size: int) -> Survey:
    """Return a survey whose document has exactly this many bytes."""

    def asked(options: int, purpose: str) -> Survey:
        return survey(choice([f"{n:05}{95 * 'x'}" for n in range(options)]), purpose=purpose)

    options = size // 108 - 8  # an option takes 108 bytes
    left = size - len(render_document(asked(options, "x")))
    return asked(options, "x" * (1 + left))


def another(size: int, number: int = 0) -> Survey:
    return replace(sized(size), title=f"{number:{len(sized(size).title)}}")


def test_a_survey_is_listed_before_its_first_day_and_until_its_grace_is_over(here: World) -> None:
    waiting = here.publish(survey(opens=date(2027, 1, 1)))
    closed = here.catalogue.close(here.publish(survey()))
    assert listed(here) == [waiting.id, closed.id]
    here.clock.time = OVER - timedelta(seconds=1)
    assert listed(here) == [waiting.id, closed.id]
    here.clock.time = OVER
    assert listed(here) == []
    here.clock.time = OVER - timedelta(seconds=1)  # the clock is corrected
    assert listed(here) == [waiting.id, closed.id]


def test_a_finished_survey_is_still_served_by_its_id(here: World) -> None:
    over = here.publish(survey())
    here.clock.time = OVER
    assert here.client.get(f"/v1/surveys/{over.id}").json["document"] == over.document.decode()


def test_a_distrusted_clock_empties_no_list(here: World) -> None:
    """An empty list would be wrong, and every device would trust it."""
    here.publish(survey())
    assert len(listed(here)) == 1
    here.clock.pass_(days=400)
    here.writer.clock_fault = lambda: "the clock has leapt"  # type: ignore[method-assign]
    assert here.client.get("/v1/surveys").status_code == 503


def test_a_document_has_at_most_256_kib_when_it_is_published(here: World) -> None:
    """Clients can still read larger documents, which older servers published."""
    largest, larger = sized(MAX_PUBLISHED_BYTES), sized(MAX_PUBLISHED_BYTES + 1)
    assert len(render_document(largest)) == MAX_PUBLISHED_BYTES == 2**18 < MAX_DOCUMENT_BYTES
    assert here.publish(largest).id in listed(here)
    with pytest.raises(InvalidSurvey, match=r"262,145 bytes, more than 262,144,"):
        here.publish(larger)
    answer = post(here, larger)
    assert (answer.status_code, answer.json["code"]) == (400, "invalid-survey")


def post(here: World, asked: Survey) -> Any:  # Any: a test response
    document = render_document(asked)
    body = {"document": document.decode(), "signature": sign(document, KEY), "key": PUBLIC}
    here.store.enrol_key(PUBLIC)
    return here.client.post("/v1/surveys", json=body, headers=here.bearer("operator"))


def test_publishing_is_refused_before_the_list_is_too_large(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same survey may be published again, and so may one that fits after others have ended."""
    monkeypatch.setattr(module, "MAX_LIST_BYTES", 100_000)
    first, second = sized(60_000), another(60_000)
    made = here.publish(first)
    with pytest.raises(Refused, match="the public list would have 2 surveys and 1"):
        here.publish(second)
    answer = post(here, second)
    assert (answer.status_code, answer.json["code"]) == (409, "list-full")
    assert here.publish(first) == made
    assert len(here.client.get("/v1/surveys").data) <= 100_000
    here.clock.time = OVER
    assert listed(here) == [] != [here.publish(second)]


def test_publishing_is_refused_before_the_list_has_too_many_surveys(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_LISTED", 2)
    for number in range(2):
        here.publish(survey(title=f"Survey {number}"))
    with pytest.raises(Refused, match="the public list would have 3 surveys"):
        here.publish(survey(title="Survey 2"))


def test_clients_can_read_every_list_that_may_be_published(here: World) -> None:
    """Fill the list with as many of the largest or of small documents as may be published."""
    assert MAX_LIST_BYTES <= CLIENTS_BYTES // 4
    assert MAX_LISTED <= reading.MAX_LISTED
    entries = fill_up(here)
    assert MAX_LIST_BYTES * 0.9 < len(here.catalogue.listing()) <= MAX_LIST_BYTES
    read = read_list(Reply(200, here.catalogue.listing()), Policy([PUBLIC]))
    assert [entry.id for entry in read] == entries
    assert [entry.problem for entry in read] == [None] * len(entries)


def fill_up(here: World) -> list[str]:
    made: list[PublishedSurvey] = []
    while True:
        try:
            made.append(published(here.store, another(2**18, len(made)), here.catalogue))
        except Refused:
            return [published.id for published in made]


def test_the_verbs_state_why_they_refuse(tmp_path: Path) -> None:
    file = tmp_path / "survey.toml"
    options = json.dumps([f"option {number}" for number in range(20_000)])
    file.write_text(
        '[survey]\nname = "large"\ntitle = "t"\npurpose = "p"\nowner = "o"\nopens = 2099-01-01\n'
        'closes = 2099-01-31\nround = "month"\n[[question]]\nname = "x"\nkind = "choice"\n'
        'over = "first"\n'
        f'epsilon = "1"\noptions = {options}\n'
    )
    for verb in (["publish", file, "--data", tmp_path / "data"], ["check", file]):
        done = run("survey", *verb)
        assert (done.returncode, "more than 262,144, and every client" in done.stderr) == (2, True)


def test_the_list_is_compressed_on_request_and_the_same_for_everyone(
    here: World,
) -> None:
    for number in range(20):
        here.publish(survey(name=f"survey-{number}"))
    plain = here.client.get("/v1/surveys", headers={"Accept-Encoding": "identity"})
    packed = [
        here.client.get("/v1/surveys", headers={"Accept-Encoding": "gzip", "User-Agent": agent})
        for agent in ("one", "other")
    ]
    assert gzip.decompress(packed[0].data) == plain.data
    assert packed[0].data == packed[1].data
    assert 5 * len(packed[0].data) < len(plain.data)
    for answer in (plain, *packed):
        assert "Accept-Encoding" in answer.headers["Vary"]
        assert {"ETag", "Last-Modified"}.isdisjoint(answer.headers.keys())
