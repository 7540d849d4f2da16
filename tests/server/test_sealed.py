"""Sealed reports at the server: opened and admitted like others, or refused and not counted."""

import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from deniable.server.store import PublishedSurvey
from deniable.shared.sealed_envelope import SEALED_TYPE, seal
from deniable.shared.survey.keys import public_hex
from tests.command import run, run_alone
from tests.server.surveys import envelope, survey
from tests.server.world import World, serving, world
from tests.survey_texts import bit, survey_text

FOLDER = Path(__file__).parent.parent / "vectors"
VECTORS = json.loads((FOLDER / "envelopes_sealed.json").read_text())
DOCUMENT = json.loads((FOLDER / "survey_sealed.json").read_text())
KEY = X25519PrivateKey.from_private_bytes(bytes.fromhex(VECTORS["private_key"]))
PUBLIC = public_hex(KEY)
OTHER = X25519PrivateKey.from_private_bytes(bytes([9]) * 32)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path / "data", sealing={PUBLIC: KEY}) as here:
        yield here


@pytest.fixture
def asked(opened: World) -> PublishedSurvey:
    return opened.publish(survey(sealed_to=PUBLIC))


def send(here: World, *bodies: bytes, app: bool = True) -> Any:  # Any: a test response
    headers = here.bearer("app") if app else {}
    return here.post(b"".join(bodies), SEALED_TYPE, headers=headers)


def refusals(answer: Any) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [refusal["code"] for refusal in answer.get_json()["refused"]]


def test_a_sealed_report_is_counted_once_even_if_sealed_again(
    opened: World, asked: PublishedSurvey
) -> None:
    """The id inside the seal identifies the report, even if the report is sealed a second time."""
    sent = envelope(asked, 1)
    first = send(opened, seal(sent, PUBLIC).pack(), app=False).get_json()
    again = send(opened, seal(sent, PUBLIC).pack(), app=False).get_json()
    assert (first["accepted"], again["duplicates"]) == (1, 1)
    assert opened.tallies(asked)[sent.round][0] == 1


@pytest.mark.parametrize("vector", VECTORS["bad_body"], ids=lambda v: str(v["name"]))
def test_a_malformed_body_gets_a_problem_document(
    opened: World, asked: PublishedSurvey, vector: dict[str, str]
) -> None:
    assert send(opened, bytes.fromhex(vector["sealed"])).status_code == 400
    assert opened.tallies(asked) == {}


@pytest.mark.parametrize(
    "vector", VECTORS["bad_payload"] + VECTORS["too_many"], ids=lambda v: str(v["name"])
)
def test_a_bad_seal_is_refused_next_to_good_ones(opened: World, vector: dict[str, str]) -> None:
    opened.store.enrol_key(DOCUMENT["key"])
    document = DOCUMENT["document"].encode()
    opened.catalogue.publish(document, DOCUMENT["signature"], DOCUMENT["key"])
    good = bytes.fromhex(VECTORS["good"][0]["sealed"])
    answer = send(opened, bytes.fromhex(vector["sealed"]), good)
    assert refusals(answer) == ["too-many" if vector["name"] == "two reports" else "bad-payload"]
    assert answer.get_json()["accepted"] == 1


def test_only_the_survey_determines_the_seal_and_its_key(
    opened: World, asked: PublishedSurvey
) -> None:
    """Otherwise an attacker could omit the seal, or choose a key that is less well protected."""
    plain = opened.publish(survey(name="plain"))
    assert refusals(opened.send(envelope(asked))) == ["bad-payload"]
    assert refusals(send(opened, seal(envelope(plain), PUBLIC).pack())) == ["bad-payload"]
    elsewhere = opened.publish(survey(name="other", sealed_to=public_hex(OTHER)))
    assert refusals(send(opened, seal(envelope(elsewhere), PUBLIC).pack())) == ["bad-payload"]
    assert [opened.tallies(published) for published in (asked, plain, elsewhere)] == [{}] * 3


def test_without_a_token_a_body_has_one_sealed_envelope(
    opened: World, asked: PublishedSurvey
) -> None:
    both = [seal(envelope(asked, n), PUBLIC).pack() for n in range(2)]
    assert send(opened, *both, app=False).status_code == 413
    assert send(opened, *both).get_json()["accepted"] == 2


def test_a_missing_key_is_a_server_error_and_the_sender_keeps_its_report(
    tmp_path: Path,
) -> None:
    with world(tmp_path / "data") as here:
        assert here.client.get("/readyz").status_code == 200
        asked = here.publish(survey(sealed_to=PUBLIC))
        answer = send(here, seal(envelope(asked), PUBLIC).pack(), app=False)
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "60")
        ready = here.client.get("/readyz")
        assert (ready.status_code, "--sealing-key" in ready.get_json()["detail"]) == (503, True)


def test_a_key_that_no_survey_needs_may_be_absent(tmp_path: Path) -> None:
    """An invented key id cannot block the batch of a relay either."""
    with world(tmp_path / "data") as here:
        asked = here.publish(survey(sealed_to=PUBLIC))
        body = seal(envelope(asked), PUBLIC).pack()
        stranger = seal(envelope(asked), public_hex(OTHER)).pack()
        assert refusals(send(here, stranger)) == ["bad-payload"]
        here.catalogue.close(asked)
        assert refusals(send(here, body)) == ["bad-payload"]
        assert here.client.get("/readyz").status_code == 200


def test_the_sealing_key_is_in_a_file_and_in_no_backup(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Run the commands that the tool prints, with a real server, up to a counted report."""
    caplog.set_level(logging.DEBUG)
    file, data = tmp_path / "sealing.pem", tmp_path / "data"
    made = json.loads(run("keys", "new", "--sealing", file, "--json").stdout)
    assert json.loads(run("keys", "show", "--sealing", file, "--json").stdout) == made
    today = datetime.now(UTC).date()
    text = survey_text(bit(), opens=today, closes=today, round="day", sealed_to=made["key"])
    (tmp_path / "survey.toml").write_text(text)
    said = run("survey", "publish", tmp_path / "survey.toml", "--data", data, "--json")
    assert said.returncode == 0, said.stderr
    with serving(data, more=["--sealing-key", str(file)]) as server:
        assert server.process.poll() is None
    secret = file.read_bytes().splitlines()[1]
    assert not any(secret in path.read_bytes() for path in data.rglob("*") if path.is_file())


def test_a_key_file_that_cannot_be_read_is_refused_before_anything_starts(tmp_path: Path) -> None:
    said = run_alone("serve", "--data", tmp_path / "data", "--sealing-key", tmp_path / "none.pem")
    assert (said.returncode, "keys new --sealing" in said.stderr) == (2, True)
    assert not (tmp_path / "data").exists()
