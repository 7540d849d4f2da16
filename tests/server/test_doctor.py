"""`deniable doctor --data`: it names damage, and recounts damaged tallies."""

from __future__ import annotations

import io
import json
import os
import shutil
import sqlite3
from contextlib import closing, redirect_stderr, redirect_stdout
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from deniable.server.process.addresses import take_lock
from deniable.server.store import FILE, PublishedSurvey
from deniable.server.store.records import digest_of
from deniable.server.store.sqlite import bucket
from deniable.shared.cli.command import main
from tests.server.surveys import BIT, choice, envelope, survey
from tests.server.world import world

REPORTS = 60
NOW = datetime.now(UTC)
LANGUAGES = choice(20, "unary", name="languages")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder as a server leaves it, with two surveys, one of which has `ask = 1`."""
    data = tmp_path_factory.mktemp("doctor") / "data"
    days = {"opens": NOW.date() - timedelta(days=1), "closes": NOW.date() + timedelta(days=1)}
    with world(data, NOW) as here:
        for name, ask in (("all", None), ("one", 1)):
            asked = here.publish(survey(BIT + LANGUAGES, name=name, ask=ask, round="once", **days))
            for number in range(REPORTS):
                assert send(here, asked, number).status_code == 200
    return data


def send(here: Any, asked: PublishedSurvey, number: int) -> Any:
    return here.send(envelope(asked, number, round_number=0))


@pytest.fixture
def data(whole: Path, tmp_path: Path) -> Path:
    """Return a copy of the folder for the test to damage."""
    return Path(shutil.copytree(whole, tmp_path / "data"))


def change(data: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(data / FILE)) as connection, connection:
        assert connection.execute(statement, values).rowcount != 0


def row_of(data: Path, query: str) -> tuple[Any, ...]:
    with closing(sqlite3.connect(data / FILE)) as connection:
        return tuple(connection.execute(query).fetchone())


def flip(content: bytes, place: int = 0) -> bytes:
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


def run(*arguments: object) -> tuple[int, str, str]:
    """Run the verb in this process, where numpy is already loaded; return exit code and output."""
    with redirect_stdout(io.StringIO()) as output, redirect_stderr(io.StringIO()) as errors:
        code = main(["doctor", *map(str, arguments)])
    return code, output.getvalue(), errors.getvalue()


def doctor(data: Path, *more: str) -> tuple[int, list[dict[str, Any]]]:
    """Return the exit code and the faults found or repaired; standard error must be empty."""
    code, text, errors = run("--data", data, "--json", *more)
    assert errors == ""
    said = json.loads(text)
    assert said["well"] == (code == 0)
    return code, [
        check for check in said["checks"] if not check["well"] or check["check"] == "round"
    ]


def cells(data: Path) -> tuple[Any, ...]:
    return row_of(data, "SELECT reports, cells FROM tallies WHERE survey = 1")


def test_an_undamaged_folder_passes_even_while_a_server_uses_it(data: Path) -> None:
    handle = take_lock(data)
    try:
        assert doctor(data) == (0, [])
    finally:
        os.close(handle)
    assert doctor(data, "--repair") == (0, [])
    _, text, _ = run("--data", data)
    assert "tallies: equal to their envelopes: 2" in text


TALLY_FAULTS = {
    "flipped": "is damaged, but its envelopes are intact",
    "missing": "is missing, but its envelopes are intact",
    "wrong": "differs from its envelopes",
}


@pytest.mark.parametrize("fault", TALLY_FAULTS)
def test_a_tally_is_recounted_from_its_envelopes(data: Path, fault: str) -> None:
    before = cells(data)
    if fault == "flipped":
        change(data, "UPDATE tallies SET cells = ? WHERE survey = 1", flip(before[1]))
    elif fault == "missing":
        change(data, "DELETE FROM tallies WHERE survey = 1")
    else:
        digest = digest_of(1, 0, "", REPORTS, False, flip(before[1]), b"")
        change(
            data,
            "UPDATE tallies SET cells = ?, digest = ? WHERE survey = 1",
            flip(before[1]),
            digest,
        )
    code, (found,) = doctor(data)
    assert (code, TALLY_FAULTS[fault] in found["says"]) == (1, True)
    assert "--repair" in found["cure"]
    code, (found,) = doctor(data, "--repair")
    assert (code, found["says"]) == (0, f"round 0 of all: recounted, {REPORTS} reports")
    assert cells(data) == before
    assert doctor(data) == (0, [])


def test_a_repair_is_refused_while_a_server_runs_and_changes_nothing(data: Path) -> None:
    change(data, "DELETE FROM tallies WHERE survey = 1")
    handle = take_lock(data)
    code, _, errors = run("--data", data, "--repair")
    assert (code, "another server is using" in errors) == (3, True)
    os.close(handle)
    assert doctor(data)[0] == 1


def test_damaged_envelopes_are_named_and_their_tally_is_left_alone(data: Path) -> None:
    number, rows = row_of(data, "SELECT number, rows FROM envelopes WHERE survey = 1")
    answer = 2 + 22 * bucket.rows(rows)  # the first report's bit
    change(data, "UPDATE envelopes SET rows = ? WHERE number = ?", flip(rows, answer), number)
    before = cells(data)
    for more in ([], ["--repair"]):
        code, (found,) = doctor(data, *more)
        assert (code, "some of its envelopes are damaged" in found["says"]) == (1, True)
        assert "deniable restore FILE --data NEW" in found["cure"]
    assert cells(data) == before


def test_counts_survive_the_loss_of_envelopes(data: Path) -> None:
    change(
        data,
        "DELETE FROM envelopes WHERE number = (SELECT min(number) FROM envelopes WHERE survey = 1)",
    )
    before = cells(data)
    code, (found,) = doctor(data, "--repair")
    assert (code, "some of its envelopes are lost" in found["says"], cells(data)) == (
        1,
        True,
        before,
    )


def test_a_round_that_may_be_purged_is_not_recounted(data: Path) -> None:
    change(data, "UPDATE tallies SET reports = 1, sealed = 1 WHERE survey = 1")
    code, (found,) = doctor(data, "--repair")
    assert (code, "may be deleted" in found["says"]) == (1, True)


def test_a_sealed_round_needs_no_envelopes(data: Path) -> None:
    reports, counts = cells(data)
    digest = digest_of(1, 0, "", reports, True, counts, b"")
    change(data, "UPDATE tallies SET sealed = 1, digest = ? WHERE survey = 1", digest)
    change(data, "DELETE FROM envelopes WHERE survey = 1")
    assert doctor(data, "--repair") == (0, [])


def test_a_survey_that_differs_from_its_signature_is_named(data: Path) -> None:
    (document,) = row_of(data, "SELECT document FROM surveys WHERE sequence = 1")
    change(data, "UPDATE surveys SET document = ? WHERE sequence = 1", bytes(document) + b" ")
    code, found = doctor(data, "--repair")
    assert code == 1
    assert "its id is not the hash of its document" in found[0]["says"]


def test_a_damaged_file_is_named(data: Path) -> None:
    (page,) = row_of(data, "SELECT rootpage FROM sqlite_schema WHERE name = 'tallies'")
    with (data / FILE).open("r+b") as file:
        file.seek((page - 1) * 1_024)
        file.write(bytes(64))
    code, found = doctor(data)
    assert code == 1
    assert found[0]["check"] == "file"
    assert "deniable restore FILE --data NEW" in found[0]["cure"]


def test_one_verb_checks_servers_and_devices(data: Path, tmp_path: Path) -> None:
    """Each part adds its options. A command with options of both parts or of neither is refused."""
    _, text, _ = run("--state", tmp_path / "state", "--json")
    assert json.loads(text)["checks"]
    code, _, errors = run("--state", tmp_path / "state", "--data", data)
    assert (code, "in separate commands" in errors) == (2, True)
    code, _, errors = run()
    assert (code, "choose what to check" in errors) == (2, True)
    code, _, errors = run("--data", tmp_path / "none")
    assert (code, "holds no deniable data" in errors) == (2, True)


def test_a_round_past_its_retention_is_not_recounted_even_if_unsealed(
    tmp_path: Path,
) -> None:
    data, then = tmp_path / "data", NOW - timedelta(days=30)
    asked_then = survey(
        round="once", opens=then.date(), closes=then.date(), grace_days=0, retention_days=1
    )
    with world(data, then) as here:
        asked = here.publish(asked_then)
        assert send(here, asked, 1).status_code == 200
    change(data, "UPDATE tallies SET reports = 7")
    code, (found,) = doctor(data, "--repair")
    assert (code, "may be deleted" in found["says"]) == (1, True)
