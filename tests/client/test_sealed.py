"""Sealed surveys: only the aggregator can read reports, which take the configured route."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from deniable.client.disclosure import read_summary
from deniable.shared.errors import InvalidPolicy
from deniable.shared.sealed_envelope import SEALED_TYPE, parse_sealed, unseal
from deniable.shared.survey.document import parse_document, survey_id
from tests.client.conftest import MakeClient
from tests.client.scripted import ANSWERS, LATER, Answer, Script, bit, document, serving, sqlite_of
from tests.eventually import PATIENCE
from tests.shared.test_sealing import KEY, PUBLIC

HELD = Answer(202, b'{"held": 1}')


@pytest.fixture
def relay() -> Iterator[Script]:
    with serving() as script:
        script.always = HELD
        yield script


def sealed() -> bytes:
    return document(sealed_to=PUBLIC)


def kinds(script: Script) -> list[str]:
    return [dict(post.headers)["Content-Type"] for post in script.posts]


def test_a_sealed_survey_s_report_is_sent_sealed(script: Script, client_of: MakeClient) -> None:
    id_ = script.publish(sealed())
    client = client_of()
    assert client.answer("app-health", **ANSWERS).status == "queued"
    assert client.flush(PATIENCE) == 0
    assert kinds(script) == [SEALED_TYPE]
    (frame,) = parse_sealed(script.posts[0].body)
    inside = unseal(frame, KEY)
    assert (inside.survey, inside.count) == (id_, 1)
    assert bytes.fromhex(id_) not in script.posts[0].body


def test_a_report_is_queued_sealed_and_every_retry_has_the_same_bytes(
    script: Script, client_of: MakeClient, tmp_path: Path
) -> None:
    id_ = script.publish(sealed())
    script.replies = [Answer(500), Answer(500)]
    client = client_of()
    client.answer("app-health", **ANSWERS)
    for _ in range(3):
        client.flush(PATIENCE)
    assert len(script.posts) == 3
    assert len({post.body for post in script.posts}) == 1
    assert bytes.fromhex(id_)[:8] not in script.posts[0].body


def test_only_sealed_reports_go_through_a_relay(
    script: Script, relay: Script, client_of: MakeClient, tmp_path: Path
) -> None:
    relay.publish(sealed())
    relay.publish(document(name="plain", questions=bit("agreed", "0.5")))
    client = client_of(relay=relay.url)
    client.answer("app-health", **ANSWERS)
    refused = client.answer("plain", agreed=True)
    assert (refused.status, "not sealed" in refused.detail) == ("refused", True)
    assert client.flush(PATIENCE) == 0
    assert (kinds(relay), {get.path for get in relay.gets}) == ([SEALED_TYPE], {"/v1/surveys"})
    assert (script.gets, script.posts) == ([], []), "the server never sees this device's address"
    told = {entry.name: entry.delivery for entry in read_summary(tmp_path / "state").entries}
    assert told == {"app-health": "relayed"}
    assert "sent to the relay" in read_summary(tmp_path / "state").text


def test_an_unavailable_relay_is_never_bypassed(
    script: Script, relay: Script, client_of: MakeClient
) -> None:
    """Sent directly, the report would reveal this device's address."""
    relay.publish(sealed())
    relay.always = LATER
    client = client_of(relay=relay.url)
    client.answer("app-health", **ANSWERS)
    assert client.flush(0.5) == 1
    assert (len(relay.posts), script.gets, script.posts) == (1, [], [])


@pytest.mark.parametrize("body", [b"", b"[]", b'{"held": "1"}', b'{"held": 2}', b"<html>"])
def test_only_a_reply_of_the_relay_settles_a_report(
    script: Script, relay: Script, client_of: MakeClient, body: bytes
) -> None:
    relay.publish(sealed())
    relay.always = Answer(202, body)
    client = client_of(relay=relay.url)
    client.answer("app-health", **ANSWERS)
    assert client.flush(0.5) == 1


def test_a_relay_needs_an_https_address() -> None:
    from deniable.client import Client, Policy

    with pytest.raises(InvalidPolicy, match="plain http"):
        Client(
            "https://stats.example.org",
            policy=Policy(keys=["ab" * 32]),
            state="/nowhere",
            relay="http://relay.example.org",
        )


def test_an_invalid_sealing_key_is_refused_and_nothing_is_charged(
    script: Script, client_of: MakeClient
) -> None:
    """Verification rejects the key before there is a report to seal."""
    text = json.loads(sealed())
    text["survey"]["sealed_to"] = "00" * 32
    bad = (json.dumps(text, ensure_ascii=False, indent=1) + "\n").encode()
    script.publish(bad)
    client = client_of()
    outcome = client.answer(survey_id(bad), **ANSWERS)
    assert (outcome.status, "sealed_to" in outcome.detail) == ("refused", True)
    assert read_summary(sqlite_of(client).folder).ledger.total == 0


def test_sealing_a_survey_does_not_allow_a_second_answer() -> None:
    """A new key makes a new survey, but allows no second answer in a round."""
    assert parse_document(sealed()).asks_the_same(parse_document(document()))
