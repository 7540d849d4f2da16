"""Register: every published survey stays in it, and readers notice changes.

A reader who has an earlier head can compare it with the current register.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deniable.server import analysis
from deniable.server.analysis import remote_register
from deniable.server.http import intake_front
from deniable.server.http.openapi import Entry, Register
from deniable.server.store import Place, RegisterEntry, create_store, first_fault, next_entry
from deniable.server.surveys.catalogue import Catalogue
from deniable.shared.errors import Refused
from tests.command import asked_json, run
from tests.eventually import eventually
from tests.server.surveys import PUBLIC, published, survey
from tests.server.world import NOON, World, serving


def chain(surveys: int) -> list[RegisterEntry]:
    entries: list[RegisterEntry] = []
    for number in range(surveys):
        before = entries[-1] if entries else None
        entries.append(next_entry(before, "published", f"{number:064x}", PUBLIC))
    return entries


def test_every_event_is_stored_once_and_in_order(place: Place) -> None:
    with create_store(place) as store:
        one, other = (published(store, survey(name=name)) for name in ("one", "other"))
        published(store, survey(name="one"))
        store.register_page(one.id, "ab" * 32)
        for _ in range(2):
            store.close_survey(one.sequence, NOON)
        store.delete_survey(one.sequence)
        store.delete_survey(one.sequence)
        entries = store.register()
        assert [(entry.event, entry.survey) for entry in entries] == [
            ("published", one.id), ("published", other.id), ("page", one.id), ("closed", one.id),
            ("deleted", one.id),
        ]  # fmt: skip
        assert first_fault(entries) is None
        assert store.register(1, 2) == entries[1:3]
        keys = [entry.key for entry in entries]
        assert keys == [PUBLIC, PUBLIC, "ab" * 32, PUBLIC, PUBLIC]
        assert "page" not in " ".join(entry.action for entry in store.audit())


@pytest.mark.parametrize("field", ["event", "survey", "key", "number", "head"])
def test_any_change_in_an_entry_breaks_the_chain(field: str) -> None:
    entries = chain(5)
    other: dict[str, Any] = {"event": "closed", "number": 9}  # Any: values of several types
    entries[2] = replace(entries[2], **{field: other.get(field, "f" * 64)})
    number = entries[2].number
    assert first_fault(entries) == f"entry {number} does not follow from the entries before it"


def test_a_missing_or_moved_entry_breaks_the_chain() -> None:
    entries = chain(5)
    assert first_fault(entries) is None
    assert first_fault(entries[3:], entries[2]) is None
    for wrong in (entries[1:], entries[:2] + entries[3:], [entries[1], entries[0]]):
        assert first_fault(wrong) is not None


def test_a_head_covers_all_earlier_entries() -> None:
    """A reader who kept only the last head notices a change to the first entry."""
    entries = [next_entry(None, "published", "f" * 64, PUBLIC)]
    for entry in chain(5)[1:]:
        entries.append(next_entry(entries[-1], entry.event, entry.survey, entry.key))
    assert first_fault(entries) is None
    heads = zip(entries, chain(5), strict=True)
    assert all(one.head != other.head for one, other in heads)


def test_anyone_can_read_the_register_over_http_in_parts(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake_front, "MAX_REGISTER_ENTRIES", 2)
    for name in ("one", "two", "three"):
        here.publish(survey(name=name))
    first = here.client.get("/v1/register").json
    assert (len(first["entries"]), first["more"]) == (2, True)
    assert "A single head proves nothing" in first["note"]
    rest = here.client.get("/v1/register?after=2").json
    assert (len(rest["entries"]), rest["more"]) == (1, False)
    entries = [RegisterEntry(**entry) for entry in first["entries"] + rest["entries"]]
    assert entries == here.store.register()
    for wrong in ("-1", "x", "1" * 10):
        assert here.client.get(f"/v1/register?after={wrong}").status_code == 400


def test_a_mirror_notices_a_rewritten_history(tmp_path: Path) -> None:
    """A consistent chain proves nothing; a comparison with an earlier copy does."""
    data, again, mirror = tmp_path / "data", tmp_path / "again", tmp_path / "mirror.json"
    for folder, names in ((data, ("one", "two")), (again, ("two", "three", "four"))):
        with create_store(folder) as store:
            for name in names:
                published(store, survey(name=name))
    mirror.write_text(run("register", "--data", data, "--json").stdout)
    with create_store(data) as store:
        published(store, survey(name="three"))
    assert "continues" in run("register", "--data", data, "--check", mirror).stdout
    alone = run("register", "--data", again, "--check")
    assert alone.returncode == 0
    assert "That alone proves nothing" in alone.stdout
    checked = run("register", "--data", again, "--check", mirror)
    assert checked.returncode == 1
    assert "entry 1 differs from" in checked.stdout
    with create_store(tmp_path / "short") as store:
        published(store, survey(name="one"))
    cut = run("register", "--data", tmp_path / "short", "--check", mirror, "--json")
    assert cut.returncode == 1
    assert not json.loads(cut.stdout)["well"]


def test_a_server_shows_the_register_of_its_folder(tmp_path: Path) -> None:
    with create_store(tmp_path / "data") as store:
        published(store, survey())
        kept = store.register()
    with serving(tmp_path / "data") as server:
        eventually(lambda: len(remote_register(server.url)) > len(kept), "the page is registered")
        with create_store(tmp_path / "data") as store:
            entries = store.register()
        assert remote_register(server.url) == entries
        assert (entries[: len(kept)], [entry.event for entry in entries]) == (
            kept, ["published", "page"],
        )  # fmt: skip
        assert asked_json("register", "--server", server.url, "--check")["well"] is True


@pytest.mark.parametrize(
    ("numbers", "more", "says"),
    [
        ((), True, "entries after number 0, but sent none"),
        ((1, 3), False, "sent entry 3 in place of entry 2"),
        ((0,), True, "sent entry 0 in place of entry 1"),
        (range(1, 9), True, "sent entry 1 in place of entry 9"),  # repeats the same page
        (None, True, "more than 20 entries"),
    ],
)
def test_an_endless_register_is_refused(
    numbers: Sequence[int] | None, more: bool, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`numbers` are the entries of each page. None stands for a server that invents entries."""

    def page(_: str, address: str, *__: object) -> Register:
        after = int(address.rpartition("=")[2])
        sent = range(after + 1, after + 8) if numbers is None else numbers
        entries = tuple(
            Entry(number=number, event="closed", survey="11" * 32, key="22" * 32, head="33" * 32)
            for number in sent
        )
        return Register(entries=entries, more=more, note="")

    monkeypatch.setattr(analysis, "MAX_REGISTER_ENTRIES", 20)
    monkeypatch.setattr(analysis, "_fetched", page)
    with pytest.raises(Refused, match=says):
        remote_register("https://stats.example.org")


def test_a_slow_register_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server may send one entry per page, and always announce more."""

    def page(_: str, address: str, *__: object) -> Register:
        time.sleep(0.05)
        number = int(address.rpartition("=")[2]) + 1
        entry = Entry(
            number=number, event="closed", survey="11" * 32, key="22" * 32, head="33" * 32
        )
        return Register(entries=(entry,), more=True, note="")

    monkeypatch.setattr(analysis, "REGISTER_SECONDS", 0.2)
    monkeypatch.setattr(analysis, "_fetched", page)
    with pytest.raises(Refused, match=r"within 0\.2 seconds"):
        remote_register("https://stats.example.org")


def test_a_deleted_survey_leaves_every_catalogue(place: Place) -> None:
    """The deleted survey may be the oldest; another is closed and a third published meanwhile."""
    with create_store(place) as store:
        one, two = (published(store, survey(name=name)) for name in ("one", "two"))
        catalogue = Catalogue(store)
        store.delete_survey(one.sequence)
        store.close_survey(two.sequence, NOON)
        three = published(store, survey(name="three"))
        catalogue.refresh()
        assert [(survey.id, survey.state) for survey in catalogue.surveys()] == [
            (two.id, "closed"), (three.id, "open"),
        ]  # fmt: skip
