"""`deniable reconcile`: epochs, which make devices send the reports of a round again."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from deniable.server.store import Epoch, create_store
from deniable.server.surveys.catalogue import Catalogue
from deniable.shared.errors import Refused, UntrustedSurvey
from deniable.shared.survey.keys import create_key, sign_epoch
from tests.command import asked_json, run
from tests.server.surveys import DECEMBER, KEY, survey
from tests.server.world import World


def signed(identifier: str, epoch: int, round_: int = DECEMBER) -> Epoch:
    return Epoch(round_, epoch, sign_epoch(identifier, round_, epoch, KEY))


def test_a_signed_epoch_is_listed_for_everyone_and_nothing_else_changes(here: World) -> None:
    asked = here.publish(survey())
    before = here.client.get("/v1/surveys").json["surveys"][0]
    here.catalogue.reconcile(asked, signed(asked.id, 1))
    (listed,) = here.client.get("/v1/surveys").json["surveys"]
    assert listed.pop("epochs") == [vars(signed(asked.id, 1))]
    assert listed == before
    entries = here.client.get("/v1/register").json["entries"]
    assert [entry["event"] for entry in entries] == ["published", "reconciled"]


def test_epochs_only_increase_and_only_to_two(here: World) -> None:
    asked = here.publish(survey())
    with pytest.raises(Refused, match="an epoch of round 683 must now be above 0 and at most 2"):
        here.catalogue.reconcile(asked, signed(asked.id, 3))
    asked = here.catalogue.reconcile(asked, signed(asked.id, 2))
    for epoch in (1, 2):
        with pytest.raises(Refused, match="above 2 and at most 2"):
            here.catalogue.reconcile(asked, signed(asked.id, epoch))
    assert asked.epochs == (signed(asked.id, 2),)


@pytest.mark.parametrize("wrong", ["survey", "round", "epoch", "text"])
def test_a_signature_of_anything_else_is_refused(here: World, wrong: str) -> None:
    asked, other = here.publish(survey()), here.publish(survey(name="other"))
    signatures = {
        "survey": signed(other.id, 1).signature,
        "round": signed(asked.id, 1, DECEMBER + 1).signature,
        "epoch": signed(asked.id, 2).signature,
        "text": "not hex",
    }
    with pytest.raises(UntrustedSurvey, match="not by"):
        here.catalogue.reconcile(asked, Epoch(DECEMBER, 1, signatures[wrong]))


def test_a_round_that_accepts_no_reports_has_no_epoch(here: World) -> None:
    asked = here.publish(survey())
    for round_ in (DECEMBER - 1, DECEMBER + 1):
        with pytest.raises(Refused, match="accepts no reports"):
            here.catalogue.reconcile(asked, signed(asked.id, 1, round_))
    closed = here.catalogue.close(here.catalogue.reconcile(asked, signed(asked.id, 1)))
    with pytest.raises(Refused, match="accepts no reports"):
        here.catalogue.reconcile(closed, signed(asked.id, 2))


def test_the_signing_party_needs_no_store(tmp_path: Path) -> None:
    """It signs the survey's id, round and epoch; the operator publishes the signature."""
    data, key, file = tmp_path / "data", tmp_path / "key.pem", tmp_path / "survey.toml"
    create_key(str(key))
    today = datetime.now(UTC).date()
    run("survey", "new", file)
    made = asked_json("survey", "publish", file, "--key", key, "--data", data)
    done = asked_json("reconcile", made["name"], today, "--key", key, "--data", data)
    assert done["epoch"] == 1
    alone = asked_json("reconcile", made["id"], done["round"], "--key", key)
    assert alone == done
    second = asked_json("reconcile", made["id"], done["round"], "--key", key, "--epoch", 2)
    where = ("reconcile", made["name"], today, "--data", data)
    assert run(*where, "--signature", alone["signature"]).returncode == 2
    assert asked_json(*where, "--signature", second["signature"]) == second
    with create_store(data) as store:
        (published,) = Catalogue(store).surveys()
    assert [vars(epoch) for epoch in published.epochs] == [
        {name: second[name] for name in ("round", "epoch", "signature")}
    ]


@pytest.mark.parametrize("arguments", [["app-health", "683"], ["ab" * 32, "2026-12-01"]])
def test_a_signature_without_a_store_needs_an_id_and_a_number(arguments: list[str]) -> None:
    done = run("reconcile", *arguments, "--key", "key.pem")
    assert (done.returncode, "without a store" in done.stderr) == (2, True)
