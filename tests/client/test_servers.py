"""One state folder for two servers: reports for one never reach the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from deniable.client.disclosure import read_summary
from deniable.client.net.transport import checked_address
from deniable.shared.survey.document import survey_id
from tests.client.conftest import MakeClient
from tests.client.scripted import ACCEPTED, ANSWERS, LATER, Script, document, serving
from tests.eventually import PATIENCE


@pytest.fixture
def other() -> Iterator[Script]:
    with serving() as script:
        yield script


def test_a_report_goes_to_the_server_that_it_was_made_for(
    script: Script, other: Script, client_of: MakeClient, tmp_path: Path
) -> None:
    """Each client counts and sends only the reports for its own server."""
    ours, theirs = script.publish(document("ours")), other.publish(document("theirs"))
    script.always = other.always = LATER
    one, two = client_of(), client_of(server=other.url)
    assert one.answer("ours", **ANSWERS).status == "queued"
    assert two.flush(PATIENCE) == 0
    assert two.answer("theirs", **ANSWERS).status == "queued"
    assert (one.flush(PATIENCE), two.flush(PATIENCE)) == (1, 1)
    one.close()
    two.close()
    script.always = other.always = ACCEPTED
    for url in (other.url, script.url):
        assert client_of(consent=False, server=url).flush(PATIENCE) == 0
    assert {envelope.survey for envelope in script.envelopes()} == {ours}
    assert {envelope.survey for envelope in other.envelopes()} == {theirs}
    told = read_summary(tmp_path / "state")
    assert [entry.delivery for entry in told.entries] == ["accepted"] * 2


def test_each_server_has_its_own_list(script: Script, other: Script, client_of: MakeClient) -> None:
    """On disk too, the client of one server does not find the surveys of the other."""
    script.publish(document("ours"))
    other.publish(document("theirs"))
    one, two = client_of(), client_of(server=other.url)
    for _ in range(3):
        assert one.answer("ours", **ANSWERS).status in ("queued", "already-answered")
        assert two.answer("theirs", **ANSWERS).status in ("queued", "already-answered")
    assert (len(script.gets), len(other.gets)) == (1, 1), "one list displaced the other"
    assert two.answer("ours", **ANSWERS).status == "no-survey"


def test_a_survey_on_both_servers_is_answered_once(
    script: Script, other: Script, client_of: MakeClient
) -> None:
    published = document()
    assert script.publish(published) == other.publish(published) == survey_id(published)
    assert client_of().answer("app-health", **ANSWERS).status == "queued"
    assert client_of(server=other.url).answer("app-health", **ANSWERS).status == "already-answered"


def test_spellings_of_an_address_are_equivalent() -> None:
    """Otherwise an app that spells the address differently would lose its queue."""
    written = "HTTPS://Stats.Example.org/Path/"
    assert checked_address(written) == "https://stats.example.org/Path"
