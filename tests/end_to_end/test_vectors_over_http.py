"""Vectors sent to the real intake: valid messages are counted once, and bad ones are refused."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.inside import Inside, inside

FOLDER = Path(__file__).parent.parent / "vectors"
FILES = [json.loads((FOLDER / f"envelopes{name}.json").read_text()) for name in ("", "_ask_one")]
SURVEYS = [json.loads((FOLDER / file["survey"]).read_text()) for file in FILES]
SURVEY, ENVELOPES = SURVEYS[0], FILES[0]


def messages(kind: str) -> list[dict[str, Any]]:
    return [vector for file in FILES for vector in file.get(kind, ())]


def publish_all(server: Inside) -> None:
    for survey in SURVEYS:
        assert server.publish(survey["document"].encode()) == survey["id"]


# still within the grace period of the first round
IN_THE_SECOND_ROUND = datetime(2027, 1, 3, tzinfo=UTC)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    with inside(tmp_path_factory.mktemp("vectors") / "data", IN_THE_SECOND_ROUND) as server:
        publish_all(server)
        yield server


def title(vector: dict[str, Any]) -> str:
    return str(vector["name"])


def post(server: Inside, vector: dict[str, str]) -> Any:
    if "binary" in vector:
        return server.send(bytes.fromhex(vector["binary"]), role="app")
    return server.send(vector["json"], kind="application/json", role="app")


def counted(server: Inside) -> list[tuple[int, list[int]]]:
    tallies = [
        tally for row in server.store.surveys() for tally in server.store.tallies(row.sequence)
    ]
    return [(tally.reports, tally.cells.tolist()) for tally in tallies]


@pytest.mark.parametrize("vector", messages("good"), ids=title)
def test_a_valid_message_is_counted_once_in_either_encoding(
    tmp_path: Path, vector: dict[str, Any]
) -> None:
    reports = sum(envelope["count"] for envelope in vector["envelopes"])
    with inside(tmp_path / "data", IN_THE_SECOND_ROUND) as server:
        publish_all(server)
        first = server.send(bytes.fromhex(vector["binary"]), role="app").get_json()
        tallies = counted(server)
        again = server.send(vector["json"], kind="application/json", role="app").get_json()
        assert first == {"accepted": reports, "duplicates": 0, "refused": []}
        assert again == {"accepted": 0, "duplicates": reports, "refused": []}
        assert counted(server) == tallies


@pytest.mark.parametrize("vector", ENVELOPES["bad_body"], ids=title)
def test_a_bad_body_gets_a_problem_document_and_nothing_is_counted(
    server: Inside, vector: dict[str, str]
) -> None:
    before = counted(server)
    answer = post(server, vector)
    assert answer.status_code == 400
    assert answer.mimetype == "application/problem+json"
    assert counted(server) == before


@pytest.mark.parametrize("vector", messages("bad_payload"), ids=title)
def test_a_bad_payload_is_refused_by_its_code_and_not_repeated(
    server: Inside, vector: dict[str, str]
) -> None:
    before = counted(server)
    answer = post(server, vector)
    assert answer.status_code == 200
    (refused,) = answer.get_json()["refused"]
    assert (refused["index"], refused["code"]) == (0, "bad-payload")
    assert answer.get_json()["accepted"] == 0
    assert counted(server) == before
    if "binary" in vector and len(vector["binary"]) > 136:
        assert vector["binary"][128:] not in answer.text


def test_a_valid_envelope_next_to_a_bad_one_is_accepted(tmp_path: Path) -> None:
    good, bad = ENVELOPES["good"][0]["binary"], ENVELOPES["bad_payload"][0]["binary"]
    with inside(tmp_path / "data", IN_THE_SECOND_ROUND) as server:
        publish_all(server)
        answer = server.send(bytes.fromhex(bad + good), role="app").get_json()
        assert answer["accepted"] == 1
        assert [(part["index"], part["code"]) for part in answer["refused"]] == [(0, "bad-payload")]
        assert [reports for reports, _ in counted(server)] == [1]
