"""Catalogue: the documents it parses, its queries, and the delay until it sees a change."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from deniable.server.store import SqliteStore, Store, SurveyRow
from deniable.server.surveys import catalogue as module
from deniable.server.surveys.catalogue import (
    FRESH_SECONDS,
    NAMES_SHOWN,
    Catalogue,
    UnknownSurvey,
    entry,
)
from deniable.shared.survey.document import Survey, parse_document
from tests.server.surveys import published, survey
from tests.server.world import Hands, World


class Watched(SqliteStore):
    """Store that counts its queries."""

    asked: Counter[str]

    def __getattribute__(self, name: str) -> object:
        if name in (
            "surveys",
            "surveys_mark",
            "survey_states",
            "tallies",
            "report_totals",
            "snapshot",
        ):
            self.asked[name] += 1
        return super().__getattribute__(name)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Watched]:
    with Watched.create(tmp_path / "data") as made:
        made.asked = Counter()
        yield made


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Record every document that the catalogue parses."""
    documents: list[bytes] = []

    def parse(document: bytes) -> Survey:
        documents.append(document)
        return parse_document(document)

    monkeypatch.setattr(module, "parse_document", parse)
    return documents


def fill(store: Store, catalogue: Catalogue, surveys: int) -> None:
    for number in range(surveys):
        published(store, survey(title=f"Survey {number}"), catalogue)


# Reads


def test_each_survey_is_parsed_once(store: Watched, parsed: list[bytes]) -> None:
    catalogue, clock = Catalogue(store), Hands()
    fill(store, catalogue, 20)
    assert len(parsed) == 20
    other = Catalogue(store, clock)
    assert len(parsed) == 40
    fill(store, catalogue, 1)  # already published, so it only checks the mark
    published(store, survey(title="One more"), catalogue)
    catalogue.close(catalogue.surveys()[3])
    clock.pass_(seconds=1)
    assert len(other.surveys()) == 21
    assert len(parsed) == 40 + 2 + 1


def test_publishing_one_of_many_surveys_reads_one_row(
    store: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue = Catalogue(store)
    fill(store, catalogue, 20)
    rows: list[int] = []
    read = SqliteStore.surveys

    def surveys(after: int = 0) -> list[SurveyRow]:
        found = read(store, after)
        rows.append(len(found))
        return found

    monkeypatch.setattr(store, "surveys", surveys)
    published(store, survey(title="One more"), catalogue)
    assert rows == [1]


def test_without_a_change_only_the_mark_is_read(store: Watched) -> None:
    clock = Hands()
    catalogue = Catalogue(store, clock)
    fill(store, catalogue, 3)
    store.asked.clear()
    for _ in range(5):
        clock.pass_(seconds=FRESH_SECONDS)
        catalogue.listing()
        catalogue.find("app-health")
    assert store.asked == {"surveys_mark": 5}


def test_the_list_asks_the_store_for_each_survey_only_once(here: World) -> None:
    for number in range(5):
        here.publish(survey(title=f"Survey {number}"))
    store = Watched(here.store.data)
    store.asked = Counter()
    parts = here.app.extensions["deniable"]
    here.app.extensions["deniable"] = replace(parts, store=store)
    for asked in ({"report_totals": 1, "snapshot": 5}, {"report_totals": 1}):
        store.asked.clear()
        assert here.client.get("/", headers=here.bearer("analyst")).text.count("Survey ") >= 5
        assert store.asked == asked


# Delays


def test_a_change_by_another_process_is_seen_within_a_quarter_of_a_second(store: Watched) -> None:
    clock = Hands()
    catalogue, other = Catalogue(store, clock), Catalogue(store)
    made = published(store, survey(), other)
    assert catalogue.surveys() == []
    clock.pass_(seconds=FRESH_SECONDS)
    assert FRESH_SECONDS <= 0.25
    assert [survey.id for survey in catalogue.surveys()] == [made.id]
    assert not catalogue.find(made.id).closed
    other.close(made)
    assert not catalogue.find(made.id).closed
    clock.pass_(seconds=FRESH_SECONDS)
    assert catalogue.find(made.id).closed
    assert b'"state": "closed"' in catalogue.listing()


def test_many_threads_publish_and_find_simultaneously(store: Watched) -> None:
    catalogue = Catalogue(store)

    def work(number: int) -> bool:
        made = published(store, survey(title=f"Survey {number}"), catalogue)
        return catalogue.find(made.id) == made and made in catalogue.surveys()

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(40)))
    assert len(catalogue.surveys()) == 40
    assert [survey.sequence for survey in catalogue.surveys()] == sorted(
        survey.sequence for survey in catalogue.surveys()
    )


# Documents served


def test_the_listing_is_the_json_of_all_its_entries(store: Watched) -> None:
    catalogue = Catalogue(store)
    assert catalogue.listing() == b'{"surveys": []}'
    fill(store, catalogue, 3)
    published(store, survey(title="Ähnlich"), catalogue)
    catalogue.close(catalogue.surveys()[1])
    surveys = [
        {
            key: getattr(entry(survey), key)
            for key in ("id", "document", "signature", "key", "state")
        }
        for survey in catalogue.surveys()
    ]
    whole = json.dumps({"surveys": surveys}, ensure_ascii=False)
    assert catalogue.listing() == whole.encode()


# Names and ids


def test_a_name_refers_to_its_newest_open_survey(here: World) -> None:
    winter = here.publish(survey(title="Winter"))
    spring = here.publish(survey(title="Spring", opens=date(2027, 1, 1)))
    early = here.publish(survey(title="Published last, opens first", opens=date(2026, 11, 1)))
    assert here.catalogue.find("app-health").id == spring.id
    here.catalogue.close(spring)
    assert here.catalogue.find("app-health").id == winter.id
    for other in (winter, early):
        here.catalogue.close(other)
    assert here.catalogue.find("app-health").id == spring.id  # none is open, so the newest is found


def test_a_mistyped_name_suggests_the_nearest_survey(here: World) -> None:
    for name in ("app-health", "browser"):
        here.publish(survey(name=name))
    with pytest.raises(UnknownSurvey, match=r"'ap-helth'; did you mean app-health\?"):
        here.catalogue.find("ap-helth")


def test_a_survey_is_found_by_six_digits_of_its_id(here: World) -> None:
    asked = here.publish(survey())
    for text in (asked.id, asked.id[:6], asked.id[:20]):
        assert here.catalogue.find(text).id == asked.id
    for text in (asked.id[:5], asked.id[:6].upper() + "G", "", "ffffff", asked.id + "0"):
        with pytest.raises(UnknownSurvey, match=r"no survey matches.*app-health"):
            here.catalogue.find(text)


def test_an_ambiguous_prefix_of_ids_is_refused(
    store: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, Catalogue(store), 2)
    ids = ("abcdef" + "0" * 58, "abcdef1" + "0" * 57)
    rows = [replace(row, id=text) for row, text in zip(store.surveys(), ids, strict=True)]
    monkeypatch.setattr(store, "surveys", lambda after=0: rows)
    monkeypatch.setattr(SurveyRow, "check_signed", lambda row: None)
    catalogue = Catalogue(store)
    with pytest.raises(
        UnknownSurvey, match="2 surveys have ids that begin with abcdef; give more digits"
    ):
        catalogue.find("abcdef")
    assert [catalogue.find(text[:7]).id for text in ids] == [*ids]


def test_an_empty_store_shows_how_to_publish(here: World) -> None:
    with pytest.raises(UnknownSurvey, match="deniable survey publish"):
        here.catalogue.find("app-health")


def test_only_the_newest_of_many_names_are_listed(here: World) -> None:
    for number in range(NAMES_SHOWN + 2):
        here.publish(survey(name=f"name-{number}"))
    with pytest.raises(UnknownSurvey, match=r"published: name-11, name-10, .* name-2 and 2 more$"):
        here.catalogue.find("none")


def test_http_pages_and_commands_find_the_same_survey(
    here: World, capsys: pytest.CaptureFixture[str]
) -> None:
    from deniable.shared.cli.command import main

    asked = here.publish(survey())
    analyst = here.bearer("analyst")
    for text in (asked.id, asked.id[:6], "app-health"):
        assert here.client.get(f"/v1/surveys/{text}").json["id"] == asked.id
        for path in (f"/v1/surveys/{text}/counters", f"/v1/surveys/{text}/results"):
            assert here.client.get(path, headers=analyst).json["survey"] == asked.id
        assert asked.id in here.client.get(f"/surveys/{text}", headers=analyst).text
        assert main(["survey", "show", text, "--data", str(here.store.data), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["id"] == asked.id
