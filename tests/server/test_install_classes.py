"""App tokens for classes of installs: each forges only its own label value, up to its limit."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from deniable.server.http.messages import HttpError
from deniable.server.http.tokens import new_token
from deniable.server.intake.writer import Unavailable
from deniable.server.store import FILE, PublishedSurvey, Upload
from deniable.shared.cli.command import main
from deniable.shared.envelope import Envelope, encode_report
from tests.server.surveys import BIT, DECEMBER, survey
from tests.server.world import PROBLEM, World, world
from tests.survey_texts import label

CHANNEL = label("channel", values=["play-store", "enterprise", "ci"])
VERSION = label("version", pattern=r"[0-9.]+")


def carrying(asked: PublishedSurvey, first: int, *channels: str | None) -> Envelope:
    """Return an envelope whose reports name these values, in this order."""
    payload = b"".join(
        encode_report(asked.survey, [1], {"channel": one, "version": "3.1"}) for one in channels
    )
    return Envelope(asked.id, DECEMBER, first.to_bytes(16, "big"), len(channels), payload)


def token_of(here: World, label: str = "", limit: int = 0, name: str = "") -> str:
    token, now = new_token(), here.clock.now()
    here.store.add_token(token, "app", now, now + timedelta(days=1), name, label=label, limit=limit)
    here.clock.pass_(seconds=1)  # intake reads the labels of all tokens again
    return token


def send(here: World, token: str | None, envelopes: Sequence[Envelope]) -> Any:
    body = b"".join(envelope.pack() for envelope in envelopes)
    return here.post(body, headers={"Authorization": f"Bearer {token}"} if token else {})


def counts(answer: Any) -> tuple[int, list[int]]:
    """Return the number of accepted reports, and the indexes of refused envelopes."""
    assert answer.status_code == 200, answer.text
    assert {one["code"] for one in answer.json["refused"]} <= {"bad-payload"}
    return answer.json["accepted"], [one["index"] for one in answer.json["refused"]]


def test_a_class_may_name_only_its_own_value(here: World) -> None:
    asked = here.publish(survey(BIT + VERSION + CHANNEL))
    ci = token_of(here, "channel=ci")
    mixed = [
        carrying(asked, 1, "ci", "ci"),
        carrying(asked, 2, "play-store"),
        carrying(asked, 3, None),
        carrying(asked, 4, "ci", "enterprise", "ci"),
    ]
    assert counts(send(here, ci, mixed)) == (3, [1, 3])
    (tally,) = here.store.tallies(asked.sequence)
    assert int(tally.labels[1, b"\2"][0]) == 2


def test_others_may_not_name_a_value_of_a_bound_label(here: World) -> None:
    """Without a token, or with a token of no class or of another label."""
    asked = here.publish(survey(BIT + CHANNEL))
    plain, other = token_of(here), token_of(here, "shop=ci")
    assert counts(send(here, None, [carrying(asked, 1, "ci")])) == (1, [])  # no label is bound yet
    token_of(here, "channel=enterprise")
    for number, token in enumerate((None, plain, other), 2):
        assert counts(send(here, token, [carrying(asked, number, "ci")])) == (0, [0])
        assert counts(send(here, token, [carrying(asked, 10 + number, None)])) == (1, [])


def test_an_experiment_cannot_be_bound(here: World) -> None:
    """Devices draw arms, so no class of installs can have one to itself."""
    arms = label("search", arms=["old", "new"])
    drawn = here.publish(survey(BIT + arms, name="new"))
    payload = encode_report(drawn.survey, [1], {"search": "old"})
    token_of(here, "search=new")
    sent = Envelope(drawn.id, DECEMBER, bytes(16), 1, payload)
    assert counts(send(here, None, [sent])) == (1, [])


def test_a_revoked_or_expired_token_still_binds_its_label(here: World) -> None:
    """Otherwise, anyone could name the values of the label as soon as its last token has ended."""
    asked = here.publish(survey(BIT + CHANNEL))
    shop, leaked = token_of(here, "channel=play-store"), token_of(here, "channel=ci", name="leaked")
    here.store.revoke_token(identifier(here, "leaked"))
    here.clock.pass_(seconds=1)
    assert send(here, leaked, [carrying(asked, 1, "ci")]).status_code == 401
    assert counts(send(here, None, [carrying(asked, 2, "ci")])) == (0, [0])
    assert counts(send(here, shop, [carrying(asked, 3, "play-store")])) == (1, [])
    here.clock.pass_(days=1)
    assert send(here, shop, [carrying(asked, 4, "play-store")]).status_code == 401
    assert counts(send(here, None, [carrying(asked, 5, "ci")])) == (0, [0])
    for token in here.store.tokens():
        for _ in range(2):
            here.store.revoke_token(token.id)
    here.clock.pass_(seconds=1)
    assert counts(send(here, None, [carrying(asked, 5, "ci")])) == (1, [])


def identifier(here: World, name: str) -> str:
    (row,) = [token for token in here.store.tokens() if token.name == name]
    return row.id


def test_each_token_has_an_hourly_limit_per_survey(here: World) -> None:
    asked, other = here.publish(survey(BIT + CHANNEL)), here.publish(survey(name="other"))
    few, many = token_of(here, limit=5), token_of(here, limit=100)
    assert counts(send(here, few, [carrying(asked, 1, "ci", "ci", "ci")])) == (3, [])
    refused = send(here, few, [carrying(asked, 2, "ci"), carrying(asked, 3, "ci", "ci")])
    assert (refused.status_code, refused.content_type) == (429, PROBLEM)
    assert refused.json["code"] == "rate-limited"
    assert 0 < int(refused.headers["Retry-After"]) <= 3_600
    assert counts(send(here, few, [carrying(asked, 2, "ci", "ci")])) == (2, [])
    assert send(here, few, [carrying(asked, 4, "ci")]).status_code == 429
    assert counts(send(here, many, [carrying(asked, 4, "ci")])) == (1, [])
    plain = Envelope(other.id, DECEMBER, bytes(16), 1, b"\1")
    assert counts(send(here, few, [plain])) == (1, [])
    here.clock.pass_(hours=1)
    assert counts(send(here, few, [carrying(asked, 5, "ci")])) == (1, [])


def test_only_accepted_reports_count(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, retries and refused bodies would use up the limit of honest installs."""
    asked, other = here.publish(survey(BIT + CHANNEL)), here.publish(survey(name="other"))
    token = token_of(here, limit=4)
    first = carrying(asked, 1, "ci", "ci")
    assert counts(send(here, token, [first])) == (2, [])
    answer = send(here, token, [first])
    assert (answer.json["accepted"], answer.json["duplicates"]) == (0, 2)
    many = [Envelope(other.id, DECEMBER, bytes([n]) * 16, 1, b"\1") for n in range(5)]
    assert send(here, token, [carrying(asked, 2, "ci"), *many]).status_code == 413
    assert counts(send(here, token, many[:4])) == (4, [])
    assert send(here, token, [carrying(asked, 2, "ci"), many[4]]).status_code == 429
    with monkeypatch.context() as patched:
        patched.setattr(here.writer, "submit", unavailable)
        assert send(here, token, [carrying(asked, 2, "ci")]).status_code == 503
    assert counts(send(here, token, [carrying(asked, 2, "ci", "ci")])) == (2, [])
    assert send(here, token, [carrying(asked, 3, "ci")]).status_code == 429


def test_reports_of_the_last_hour_are_not_given_back(here: World) -> None:
    asked, tokens = here.publish(survey(BIT)), here.front.intake.app_tokens
    token = token_of(here, limit=6)
    assert counts(send(here, token, [Envelope(asked.id, DECEMBER, bytes(16), 1, b"\1")])) == (1, [])
    header, upload = f"Bearer {token}", Upload(asked, DECEMBER, bytes(16), 5, bytes(5))
    earlier = tokens.reserve(header, [upload])
    here.clock.pass_(hours=1)
    assert tokens.reserve(header, [upload])
    tokens.give_back(earlier, [upload])
    with pytest.raises(HttpError, match="as many reports"):
        tokens.reserve(header, [upload])


def unavailable(*_: object) -> None:
    raise Unavailable("the store does not answer")


def test_tokens_do_not_share_a_limit(here: World) -> None:
    surveys = [here.publish(survey(BIT, name=f"survey-{n}")) for n in range(6)]
    for _ in range(20):
        token = token_of(here, limit=1)
        for asked in surveys:
            sent = Envelope(asked.id, DECEMBER, os.urandom(16), 1, b"\1")
            assert counts(send(here, token, [sent])) == (1, [])


def test_a_body_above_the_limit_can_be_divided(here: World) -> None:
    """413 tells a client to send smaller bodies; 429 would make it retry the same body forever."""
    asked = here.publish(survey(BIT + CHANNEL))
    token = token_of(here, limit=2)
    whole = [carrying(asked, number, "ci") for number in range(3)]
    refused = send(here, token, whole)
    assert (refused.status_code, refused.json["code"]) == (413, "too-many")
    assert counts(send(here, token, whole[:2])) == (2, [])


def test_the_store_does_not_contain_which_token_sent_a_report(tmp_path: Path) -> None:
    """Apart from each token's last day of use, two stores are equal whichever token sent it."""
    with world(tmp_path / "data") as here:
        asked = here.publish(survey(BIT + CHANNEL))
        tokens = [token_of(here, "channel=ci", 5, name) for name in ("one", "two")]
    contents = []
    for token in tokens:
        copied = shutil.copytree(tmp_path / "data", tmp_path / token)
        with world(copied) as here:
            here.clock.pass_(seconds=1)
            assert counts(send(here, token, [carrying(asked, 1, "ci")])) == (1, [])
            assert here.store.tokens()[tokens.index(token)].used == here.clock.now().date()
        with closing(sqlite3.connect(copied / FILE)) as database:
            rows = [row for row in database.iterdump() if 'INTO "tokens"' not in row]
        contents.append(rows)
    assert any('INTO "tallies"' in row for row in contents[0])
    assert contents[0] == contents[1]


def test_the_command_creates_and_lists_classes(
    tmp_path: Path, here: World, capsys: pytest.CaptureFixture[str]
) -> None:
    data = str(tmp_path / "data")
    words = ["token", "create", "--role", "app", "--name", "shop", "--data", data]
    assert main([*words, "--label", "channel=play-store", "--limit", "5000", "--json"]) == 0
    capsys.readouterr()
    assert main(["token", "list", "--data", data]) == 0
    assert "shop  channel=play-store  at most 5,000 an hour" in capsys.readouterr().out
    assert main(["token", "list", "--data", data, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["tokens"]
    assert (row["label"], row["limit"]) == ("channel=play-store", 5_000)
    wrong = [["--label", "channel"], ["--label", "=ci"], ["--limit", "-1"], ["--limit", "1" * 10]]
    for options in wrong:
        assert main([*words, *options]) == 2
    assert main(["token", "create", "--role", "analyst", "--limit", "5", "--data", data]) == 2
