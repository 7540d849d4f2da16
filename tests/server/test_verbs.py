"""Operator commands, run as people and programs run them."""

import json
import re
import socket
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from deniable.shared.cli.command import main
from deniable.shared.privacy.epsilon import lifetime_promise, round_promise
from deniable.shared.survey.document import parse_document, survey_id
from tests.command import asked_json, run
from tests.survey_texts import bit, survey_text


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "survey.toml"
    assert run("survey", "new", made).returncode == 0
    return made


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def refused(code: int, *arguments: object) -> str:
    """Run a command, and return the single line of its refusal."""
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (code, ""), done
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_a_survey_is_published_counted_closed_and_shown(file: Path, data: Path) -> None:
    made = asked_json("survey", "publish", file, "--data", data)
    assert made["name"] == "app-health"
    assert made["epsilon"] == {"round": "2", "survey": "2"}
    assert isinstance(made["warnings"], list)
    identifier = str(made["id"])
    assert asked_json("survey", "publish", file, "--data", data)["id"] == identifier
    (row,) = json.loads(run("survey", "list", "--data", data, "--json").stdout)["surveys"]
    assert (row["id"], row["state"]) == (identifier, "open")
    shown = asked_json("survey", "show", "app-health", "--data", data)
    document = str(shown["document"]).encode()
    assert survey_id(document) == identifier
    assert parse_document(document).owner == "Example Ltd, privacy@example.org"
    assert asked_json("survey", "close", identifier[:6], "--data", data)["state"] == "closed"
    assert "final" in run("survey", "list", "--data", data).stdout


def test_publishing_other_questions_under_a_name_in_use_shows_them_first(file: Path) -> None:
    """Deployed apps answer by name, so the command shows the changes and asks for confirmation."""
    data, text = file.parent / "data", file.read_text()
    assert run("survey", "publish", file, "--data", data).returncode == 0
    again = run("survey", "publish", file, "--data", data, "--json")
    assert "asked again" not in again.stdout  # equal bytes are the same survey
    file.write_text(text.replace("How is the app doing?", "How is our app doing?"))
    retitled = run("survey", "publish", file, "--data", data)
    assert retitled.returncode == 0
    assert "count there, and are asked again in the next one" in retitled.stdout
    file.write_text(text.replace('"crashed"', '"froze"').replace("high = 120", "high = 60"))
    refused = run("survey", "publish", file, "--data", data)
    assert refused.returncode == 3
    for line in ("- crashed: no longer asked", "+ froze: new", "~ minutes: high 120 → 60"):
        assert line in refused.stderr
    assert "are asked again, and spend another ε 2" in refused.stderr
    assert "--replace" in refused.stderr
    assert run("survey", "publish", file, "--data", data, "--replace").returncode == 0


def test_check_remarks_on_a_choice_without_an_other_option(file: Path) -> None:
    file.write_text(re.sub(r"^other = .*$", "", file.read_text(), flags=re.MULTILINE))
    done = run("survey", "check", file, "--json")
    assert any(
        "name the option that takes other answers" in w for w in json.loads(done.stdout)["warnings"]
    )


def test_check_states_the_privacy_cost_in_words(file: Path) -> None:
    text = file.read_text().replace('over = "first"', "")
    file.write_text(text.replace('round = "once"', 'round = "month"'))
    done = run("survey", "check", file)
    assert done.returncode == 0
    assert "whether the answer was yes at least once in the month, among installs" in done.stdout
    assert "the last answer in the month, among installs that run again" in done.stdout
    assert round_promise(2_000_000_000)[1:] in done.stdout
    assert lifetime_promise(2_000_000_000, 3) in done.stdout
    assert "± 4.6 points" in done.stdout  # 2.24 √((e^.5 / (e^.5 - 1)² + 1/4) / 10,000)
    assert "subset-selection" in done.stdout


@pytest.mark.parametrize(
    ("old", "new", "warning"),
    [
        ('epsilon = "1"', 'epsilon = "6"', "hardly deniable"),
        ('round = "once"', 'round = "day"', "over its"),
        ('epsilon = "0.5"', 'epsilon = "0.05"', "ask more people"),
        ('epsilon = "0.5"', 'epsilon = "0.05"', "honest answers"),
        ("opens = 2", "opens = 1999-01-01 #", "has passed"),
    ],
)
def test_check_warns_of_likely_mistakes(file: Path, old: str, new: str, warning: str) -> None:
    text = file.read_text().replace(old, new)
    if "1999" in new:
        text = text.replace("opens = 1999-01-01", "opens = 2020-01-01").replace(
            "closes = 2", "closes = 2020-02-01 #"
        )
    file.write_text(text)
    assert any(warning in text for text in asked_json("survey", "check", file)["warnings"])


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        ('owner = "', 'ownre = "', "misspelling"),
        ('epsilon = "1"', "epsilon = 1", "decimal text"),
        ('"safari", "edge"', '"safari", "safari"', "repeated"),
        ("[survey]", "[survey", "not TOML"),
        ("grace_days = 14", "grace_days = -1", "grace_days"),
    ],
)
def test_a_mistake_in_a_survey_is_one_line_with_its_fix(
    file: Path, data: Path, old: str, new: str, hint: str
) -> None:
    file.write_text(file.read_text().replace(old, new))
    assert hint in refused(2, "survey", "check", file)
    assert hint in refused(2, "survey", "publish", file, "--data", data)
    assert not (data / "deniable.sqlite3").exists()


def test_missing_files_and_surveys_are_reported_with_the_fix(
    file: Path, data: Path, tmp_path: Path
) -> None:
    assert "deniable serve" in refused(2, "survey", "list", "--data", data)
    assert "deniable survey new" in refused(2, "survey", "check", tmp_path / "no.toml")
    assert "already exists" in refused(2, "survey", "new", file)
    run("survey", "publish", file, "--data", data)
    assert "published: app-health" in refused(3, "survey", "show", "other", "--data", data)
    assert "deniable keys new" in refused(
        2, "survey", "publish", file, "--data", data, "--key", tmp_path / "no.pem"
    )
    assert "operator, analyst, app" in refused(2, "token", "create", "--role", "x", "--data", data)
    assert "token list" in refused(3, "token", "revoke", "abc", "--data", data)


def test_a_user_s_own_key_signs_and_stays_in_place(file: Path, data: Path, tmp_path: Path) -> None:
    """The server's folder contains only the public key."""
    key = tmp_path / "key.pem"
    public = asked_json("keys", "new", key)["key"]
    assert key.stat().st_mode & 0o077 == 0
    assert run("keys", "show", key).stdout.strip() == public
    assert "never overwritten" in refused(2, "keys", "new", key)
    made = asked_json("survey", "publish", file, "--data", data, "--key", key)
    assert made["key"] == public
    assert list(data.glob("*.pem")) == []
    secret = key.read_bytes().splitlines()[1]
    assert all(secret not in path.read_bytes() for path in data.iterdir())


def test_a_missing_signing_key_is_created_and_reported(file: Path, data: Path) -> None:
    done = run("survey", "publish", file, "--data", data, "--json")
    assert "created a signing key" in done.stderr
    assert json.loads(done.stdout)["key"] in done.stderr
    assert "created a signing key" not in run("survey", "publish", file, "--data", data).stderr
    assert (data / "signing-key.pem").stat().st_mode & 0o077 == 0


def test_tokens_are_created_listed_and_revoked(file: Path, data: Path) -> None:
    run("survey", "publish", file, "--data", data)
    made = asked_json(
        "token", "create", "--role", "analyst", "--data", data, "--days", 7, "--name", "ci"
    )
    assert set(made) == {"token", "name", "role", "expires"}
    (row,) = json.loads(run("token", "list", "--data", data, "--json").stdout)["tokens"]
    assert (row["role"], row["name"], row["used"]) == ("analyst", "ci", None)
    assert "never used  ci" in run("token", "list", "--data", data).stdout
    again = refused(3, "token", "create", "--role", "app", "--data", data, "--name", "ci")
    assert "a token has the name 'ci'" in again
    assert str(made["token"]) not in json.dumps(row)
    assert asked_json("token", "revoke", row["id"], "--data", data)["revoked"] == row["id"]
    assert "no tokens" in run("token", "list", "--data", data).stdout
    actions = [entry["action"] for entry in asked_json("audit", "--data", data)["audit"]]
    assert actions == ["created a token", "enrolled a key", "published a survey", "revoked a token"]
    assert "  revoked a token   ci (analyst)\n" in run("audit", "--data", data).stdout


def test_a_backup_is_complete_and_is_restored_only_into_an_empty_folder(
    file: Path, data: Path, tmp_path: Path
) -> None:
    run("survey", "publish", file, "--data", data)
    copy, other = tmp_path / "copy", tmp_path / "other"
    size = asked_json("backup", "--data", data, "--to", copy)["bytes"]
    assert size == copy.stat().st_size
    assert "already exists" in refused(2, "backup", "--data", data, "--to", copy)
    assert "never overwrites" in refused(3, "restore", copy, "--data", data)
    assert run("restore", copy, "--data", other).returncode == 0
    assert (
        run("survey", "list", "--data", other).stdout
        == run("survey", "list", "--data", data).stdout
    )
    with closing(sqlite3.connect(copy)) as connection, connection:
        connection.execute("UPDATE about SET value = '99'")
    assert "schema version 99" in refused(2, "restore", copy, "--data", tmp_path / "third")


def test_a_script_gets_only_the_token(file: Path, data: Path) -> None:
    run("survey", "publish", file, "--data", data)
    done = run("token", "create", "--role", "app", "--data", data)
    assert re.fullmatch(r"\S+\n", done.stdout)
    assert "not shown again" in done.stderr


def test_the_store_can_be_set_in_the_environment(
    file: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DENIABLE_DATA", str(data))
    assert run("survey", "publish", file).returncode == 0
    assert "app-health" in run("survey", "list").stdout
    assert data.is_dir()
    other = data.with_name("other")
    assert f"{other} holds no deniable data" in refused(2, "survey", "list", "--data", other)
    monkeypatch.setenv("DENIABLE_DATA", "postgresql://u:secret@127.0.0.1:1/d")
    assert "secret" not in (said := refused(2, "survey", "list"))
    assert "127.0.0.1" in said


@pytest.mark.parametrize("address", ["http://127.0.0.1:8000", "postgresql://u:secret@h/d"])
def test_an_address_is_refused_where_a_folder_is_expected(
    file: Path, tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        main(["survey", "publish", str(file), "--data", address])
    error = capsys.readouterr().err
    assert "use --store" in error
    assert "secret" not in error
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_a_name_of_several_surveys_closes_none_of_them(file: Path, data: Path) -> None:
    """A second close must not affect the older survey."""
    first = asked_json("survey", "publish", file, "--data", data)["id"]
    file.write_text(file.read_text("utf-8").replace("How is", "And how is"), "utf-8")
    second = asked_json("survey", "publish", file, "--data", data)["id"]
    said = refused(3, "survey", "close", "app-health", "--data", data)
    assert str(first)[:12] in said
    assert str(second)[:12] in said
    assert asked_json("survey", "close", first, "--data", data)["id"] == first
    assert asked_json("survey", "close", "app-health", "--data", data)["id"] == second
    assert "no surveys that can be closed" in refused(
        3, "survey", "close", "app-health", "--data", data
    )
    assert "was already closed" in run("survey", "close", str(first), "--data", data).stdout
    again = run("survey", "publish", file, "--data", data)
    assert "was closed and stays closed" in again.stdout


def test_annotations_are_added_and_removed(file: Path, data: Path) -> None:
    asked_json("survey", "publish", file, "--data", data)
    place = ("--data", data)
    name = asked_json("survey", "list", *place)["surveys"][0]["name"]
    said = run("survey", "annotate", name, "2026-12-03", "2.4 released", *place)
    assert (said.returncode, said.stdout) == (0, f"{name}:\n  2026-12-03  2.4 released\n")
    both = asked_json("survey", "annotate", name, "2026-12-01", "outage", *place)
    assert both["annotations"] == [
        {"day": "2026-12-01", "words": "outage"}, {"day": "2026-12-03", "words": "2.4 released"}
    ]  # fmt: skip
    assert asked_json("results", name, *place)["annotations"][0]["words"] == "outage"
    left = asked_json("survey", "annotate", name, "2026-12-03", "2.4 released", "--remove", *place)
    assert left["annotations"] == [{"day": "2026-12-01", "words": "outage"}]
    again = refused(3, "survey", "annotate", name, "2026-12-03", "2.4", "--remove", *place)
    assert "no such event on 2026-12-03" in again
    assert "like 2026-12-01" in refused(2, "survey", "annotate", name, "today", "x", *place)
    assert "1 to 200" in refused(2, "survey", "annotate", name, "2026-12-03", " ", *place)


def test_a_start_that_fails_leaves_no_folder(tmp_path: Path) -> None:
    data, taken = tmp_path / "new" / "data", socket.create_server(("127.0.0.1", 0))
    with taken:
        for port in (taken.getsockname()[1], 99_999):
            done = run("serve", "--data", data, "--port", port)
            assert (done.returncode, done.stderr.count("\n")) != (0, 0)
            assert "Traceback" not in done.stderr
    for words in (
        ("survey", "list"),
        ("token", "list"),
        ("keys", "list"),
        ("token", "create", "--role", "root"),
        ("token", "create", "--role", "app"),
        ("results", "it"),
        ("survey", "publish", tmp_path / "none.toml"),
        ("serve", "--sealing-key", tmp_path / "none"),
    ):
        assert run(*words, "--data", data).returncode != 0
    assert list(tmp_path.iterdir()) == []


def test_a_survey_has_one_state_in_pages_and_commands(tmp_path: Path) -> None:
    data, file = tmp_path / "data", tmp_path / "later.toml"
    opens = datetime.now(UTC).date() + timedelta(days=70)
    file.write_text(survey_text(bit(), name="later", opens=opens, closes=opens + timedelta(90)))
    made = asked_json("survey", "publish", file, "--data", data)
    row = json.loads(run("survey", "list", "--data", data, "--json").stdout)["surveys"][0]
    shown = asked_json("survey", "show", "later", "--data", data)
    results = asked_json("results", "later", "--data", data)
    states = {shown_survey["state"] for shown_survey in (made, row, shown, results)}
    assert states == {"waiting"}
    assert "waiting" in run("survey", "list", "--data", data).stdout
