"""Rotation of a signing key while a server runs and devices trust either key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import requests

from deniable.client import Client, Policy
from deniable.shared.survey.keys import create_key, load_key, public_hex, sign
from deniable.simulations.demo.server_process import running_server
from tests.command import asked_json, run
from tests.server.released import all_results
from tests.survey_texts import ALWAYS, bit, survey_text


def publish(folder: Path, name: str, key: str, *more: str) -> str:
    """Publish with the command into a folder other than the server's, as on another machine."""
    file = folder / f"{name}.toml"
    file.write_text(survey_text(bit(), name=name, **ALWAYS))
    data = str(folder / "drafts")
    signed = ["--key", str(folder / key), "--data", data, *more]
    asked_json("survey", "publish", str(file), *signed)
    return data


def publish_over_http(folder: Path, name: str, key: str, url: str, token: str) -> int:
    shown = asked_json("survey", "show", name, "--data", publish(folder, name, key))
    body = {key: shown[key] for key in ("document", "signature", "key")}
    headers = {"Authorization": f"Bearer {token}"}
    return requests.post(f"{url}/v1/surveys", json=body, headers=headers, timeout=5).status_code


def is_listed(url: str, name: str) -> bool:
    listed = requests.get(f"{url}/v1/surveys", timeout=5).json()["surveys"]
    return any(json.loads(entry["document"])["survey"]["name"] == name for entry in listed)


def test_both_keys_ship_before_the_new_one_signs_and_the_old_one_retires(tmp_path: Path) -> None:
    old, new = (public_hex(create_key(str(tmp_path / name))) for name in ("old", "new"))
    data = str(tmp_path / "data")
    asked_json("keys", "enrol", old, "--data", data)
    with running_server(tmp_path / "data") as server:

        def device(name: str, *keys: str) -> Client:
            caps = {"max_epsilon_per_round": "5", "max_epsilon_per_survey": "5"}
            policy = Policy(keys=list(keys), max_epsilon="50", per="lifetime", **caps)  # type: ignore[arg-type] # texts
            client = Client(server.url, policy=policy, state=tmp_path / name)
            client.consent(True)
            return client

        def answers(client: Client, survey: str) -> bool:
            return client.answer(survey, crashed=True).status == "queued"

        def publishes(name: str, key: str) -> int:
            status = publish_over_http(tmp_path, name, key, server.dashboard, server.token)
            assert is_listed(server.url, name) == (status == 201)  # intake is another process
            return status

        assert publishes("first", "old") == 201
        assert publishes("too-early", "new") == 403
        with device("before", old) as before, device("both", old, new) as both:
            assert answers(before, "first")
            assert answers(both, "first")
        asked_json("keys", "enrol", new, "--data", data)
        assert publishes("second", "new") == 201
        asked_json("keys", "retire", old, "--data", data)
        assert publishes("third", "old") == 403
        with (
            device("before", old) as before,
            device("both", old, new) as both,
            device("after", new) as after,
        ):
            assert not answers(before, "second")
            assert answers(both, "second")
            assert answers(after, "second")
            assert not answers(after, "first")
        with device("late", old, new) as late:
            assert answers(late, "first")  # signatures of the old key stay valid
    rows = {row["key"]: row for row in asked_json("keys", "list", "--data", data)["keys"]}
    assert {key: (row["state"], row["surveys"]) for key, row in rows.items()} == {
        old: ("retired", 1), new: ("enrolled", 1),
    }  # fmt: skip
    assert {name: all_results(name, data)["rounds"][-1]["reports"]
            for name in ("first", "second")} == {"first": 3, "second": 2}  # fmt: skip


@pytest.mark.parametrize("how", ["enrol", "publish"])
def test_a_retired_key_never_comes_back(tmp_path: Path, how: str) -> None:
    """Publishing into a folder enrols the signing key, unless it is retired."""
    key, data = public_hex(create_key(str(tmp_path / "key"))), str(tmp_path / "data")
    asked_json("keys", "enrol", key, "--data", data)
    asked_json("keys", "retire", key, "--data", data)
    file = tmp_path / "survey.toml"
    file.write_text(survey_text(bit(), **ALWAYS))
    again = {
        "enrol": ["keys", "enrol", key],
        "publish": ["survey", "publish", str(file), "--key", str(tmp_path / "key")],
    }
    done = run(*again[how], "--data", data)
    assert done.returncode == 3
    assert "is retired" in done.stderr
    # the key still works; apps decide whom to trust
    assert sign(b"", load_key(str(tmp_path / "key")))


@pytest.mark.parametrize(("key", "code"), [("x", 2), ("AA" * 32, 2)])
def test_an_invalid_public_key_is_not_enrolled(tmp_path: Path, key: str, code: int) -> None:
    assert run("keys", "enrol", key, "--data", tmp_path / "data").returncode == code
