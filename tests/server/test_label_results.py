"""Results by label: computed from the label's own reports, with intervals that hold jointly."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from deniable.server.estimation import ESTIMATORS
from deniable.server.estimation.statements import CONFIDENCE, halved, joint_confidence
from deniable.server.results import Results, csv_chunks, survey_results
from deniable.server.results.advice import describe, policy_line, warnings
from deniable.server.results.document import ByLabel, Row
from deniable.server.results.export import report_lines
from deniable.server.store import (
    NO_LABELS,
    OTHER,
    Cells,
    LabelCounts,
    LabelValue,
    PublishedSurvey,
    RoundTally,
)
from deniable.shared.survey.document import Survey
from tests.server.results_data import FIRST_ROUND, NOW, draw_cells
from tests.server.surveys import BIT, EACH_KIND, survey, until_spring
from tests.server.world import World, world
from tests.survey_texts import label

PLATFORM = label("platform", values=["linux", "mac", "windows"])
VERSION = label("version", pattern=r"[0-9.]+")
Groups = Mapping[tuple[int, bytes], int]  # number of people with each value


@pytest.fixture
def here(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path / "data", NOW) as made:
        yield made


def held(question: Any, people: int) -> list[int]:  # Any: of each kind
    answers = question.mechanism.answers
    return [people - people // 3, people // 3] + [0] * (answers - 2)


def drawn(asked: Survey, people: int, seed: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    return np.concatenate([draw_cells(q, held(q, people), rng) for q in asked.questions])


def fill(here: World, asked: Survey, groups: Groups, number: int = FIRST_ROUND) -> PublishedSurvey:
    """Publish a survey, and add a round in which the first label divides all people."""
    published = here.publish(asked)
    labels = {
        key: np.concatenate([[people], drawn(asked, people, seed)])
        for seed, (key, people) in enumerate(groups.items())
    }
    whole = np.sum([counts for key, counts in labels.items() if key[0] == 0], axis=0)
    with here.store.transaction() as transaction:
        transaction.add(published.sequence, tally_of(published, number, whole, labels))
    return published


def tally_of(
    published: PublishedSurvey, number: int, whole: Cells, labels: dict[LabelValue, Cells]
) -> RoundTally:
    counts = LabelCounts(labels, published.label_key)
    return RoundTally(number, int(whole[0]), whole[1:], counts)


def results_of(here: World, published: PublishedSurvey) -> Results:
    return survey_results(published, here.store.tallies(published.sequence), NOW)


def by_value(results: Results, name: str) -> dict[str, ByLabel]:
    return {part.value: part for part in results.rounds[0].labels or () if part.name == name}


PEOPLE: Groups = {(0, b"\0"): 4_000, (0, b"\1"): 900, (0, b"\2"): 12, (0, OTHER): 200}


def test_each_value_has_estimates_from_its_own_reports(here: World) -> None:
    asked = until_spring(EACH_KIND + PLATFORM)
    published = fill(here, asked, PEOPLE)
    results = results_of(here, published)
    (tally,) = here.store.tallies(published.sequence)
    parts = by_value(results, "platform")
    assert [(part.value, part.reports) for part in parts.values()] == [
        ("linux", 4_000), ("mac", 900), ("other", 212)
    ]  # fmt: skip
    plain = replace(published, survey=until_spring(EACH_KIND))
    counts = tally.labels[0, b"\0"]
    alone = survey_results(plain, [RoundTally(FIRST_ROUND, 4_000, counts[1:])], NOW)
    for name, rows in alone.rounds[0].questions.items():
        own = parts["linux"].questions[name]
        assert [_without_joint(row) for row in own] == [_without_joint(row) for row in rows]
        for row, other in zip(own, rows, strict=True):
            assert row.low_all is not None
            assert other.low_all is not None
            assert row.low_all < other.low_all, "jointly for three values of the label"


def _without_joint(row: Row) -> Row:
    return msgspec.structs.replace(row, low_all=None, high_all=None)


def test_joint_intervals_allow_for_all_values_and_options(here: World) -> None:
    asked = until_spring(EACH_KIND + PLATFORM)
    published = fill(here, asked, PEOPLE)
    parts = by_value(results_of(here, published), "platform")
    (tally,) = here.store.tallies(published.sequence)
    for question in asked.questions:
        reports, cells = RoundTally(0, 900, tally.labels[0, b"\1"][1:]).of(asked, question)
        confidence = joint_confidence(len(parts) * len(question.labels), halved(CONFIDENCE))
        estimator = ESTIMATORS[question.estimation](question, cells[None], np.array([reports]))
        low, high = estimator.like(confidence)
        rows = parts["mac"].questions[question.name]
        assert [row.low_all for row in rows] == pytest.approx(low[0].tolist())
        assert [row.high_all for row in rows] == pytest.approx(high[0].tolist())


def test_labels_change_nothing_else(here: World) -> None:
    """The overall estimate equals that of the pooled counts, to the last bit."""
    published = fill(here, until_spring(EACH_KIND + PLATFORM), PEOPLE)
    (tally,) = here.store.tallies(published.sequence)
    plain = replace(published, survey=until_spring(EACH_KIND))
    alone = survey_results(plain, [replace(tally, labels=NO_LABELS)], NOW).rounds
    with_labels = results_of(here, published).rounds
    without = {"labels": msgspec.UNSET, "medians": msgspec.UNSET}
    assert [msgspec.structs.replace(r, **without) for r in with_labels] == [*alone]


# Which values are shown


def shown(groups: Groups, here: World, asked: Survey | None = None) -> list[tuple[str, int]]:
    published = fill(here, asked or until_spring(BIT + VERSION, minimum_reports=1), groups)
    parts = by_value(results_of(here, published), published.survey.labels[0].name)
    return [(part.value, part.reports) for part in parts.values()]


def test_a_value_with_fewer_than_twenty_reports_is_folded_with_its_name(here: World) -> None:
    groups = {(0, b"1.0"): 20, (0, b"1.1"): 19, (0, b"2.0"): 300, (0, b"9.9"): 1}
    assert shown(groups, here) == [("2.0", 300), ("1.0", 20), ("other", 20)]


@pytest.mark.parametrize(
    ("rare", "shown"),
    [
        (0, ["linux", "mac"]),
        (1, ["linux", "other"]),
        (19, ["linux", "other"]),
        (20, ["linux", "mac", "windows"]),
    ],
)
def test_a_small_remainder_is_folded_with_the_rarest_value(
    here: World, rare: int, shown: list[str]
) -> None:
    """Otherwise the overall counts minus all shown counts would be the counts of a few reports."""
    groups = {(0, b"\0"): 1_000, (0, b"\1"): 300} | ({(0, b"\2"): rare} if rare else {})
    found = by_value(results_of(here, fill(here, survey(BIT + PLATFORM), groups)), "platform")
    assert [*found] == shown
    assert sum(part.reports for part in found.values()) == 1_300 + rare


def test_the_two_hundred_most_common_values_are_shown(here: World) -> None:
    groups = {(0, b"%d" % n): 30 + n for n in range(210)}
    parts = shown(groups, here)
    assert len(parts) == 201
    assert parts[0] == ("209", 239)
    assert parts[-1] == ("other", sum(range(30, 40)))


def test_a_label_with_too_few_reports_has_no_estimate(here: World) -> None:
    """A survey may ask for a minimum of one report; a row of a label still needs twenty."""
    published = fill(here, until_spring(BIT + VERSION, minimum_reports=1), {(0, OTHER): 19})
    assert by_value(results_of(here, published), "version") == {}


def test_a_listed_value_named_other_takes_the_rest(here: World) -> None:
    asked = until_spring(BIT + label("platform", values=["mac", "other"]), minimum_reports=1)
    groups = {(0, b"\0"): 50, (0, b"\1"): 60, (0, OTHER): 70}
    assert shown(groups, here, asked) == [("mac", 50), ("other", 130)]


def test_a_value_needs_the_minimum_of_reports_that_the_survey_states(here: World) -> None:
    published = fill(here, until_spring(BIT + VERSION), {(0, b"1.0"): 99, (0, b"2.0"): 100})
    parts = by_value(results_of(here, published), "version")
    assert parts["1.0"].questions["crashed"][0].estimate is None
    assert parts["2.0"].questions["crashed"][0].estimate is not None


def test_one_question_of_several_is_divided_by_label_too(here: World) -> None:
    asked = until_spring(BIT + BIT.replace("crashed", "froze") + PLATFORM, ask=1)
    counts = np.array([700, 100, 300, 150, 150, 400, 300])
    published = here.publish(asked)
    with here.store.transaction() as transaction:
        transaction.add(
            published.sequence, tally_of(published, FIRST_ROUND, counts, {(0, b"\1"): counts})
        )
    (part,) = by_value(results_of(here, published), "platform").values()
    assert [rows[0].reports for rows in part.questions.values()] == [400, 300]


def test_results_are_the_same_whichever_rounds_are_requested(here: World) -> None:
    asked = until_spring(BIT + VERSION)
    published = fill(here, asked, {(0, b"1.0"): 500, (0, b"2.0"): 300})
    fill(here, asked, {(0, b"%d" % n): 100 + n for n in range(150)}, FIRST_ROUND + 1)
    tallies = here.store.tallies(published.sequence)
    both = survey_results(published, tallies, NOW)
    for number in (FIRST_ROUND, FIRST_ROUND + 1):
        (one,) = survey_results(published, tallies, NOW, number).rounds
        assert one in both.rounds


# Where they appear


def test_json_csv_command_and_page_show_the_breakdown(here: World) -> None:
    published = fill(here, until_spring(EACH_KIND + PLATFORM), PEOPLE)
    results = results_of(here, published)
    assert msgspec.json.decode(msgspec.json.encode(results), type=Results) == results
    address = f"/v1/surveys/{published.id}/results"
    sent = here.client.get(address, headers=here.bearer("analyst")).json
    first = sent["rounds"][0]["labels"][0]
    assert {"name": "platform", "value": "linux", "reports": 4_000}.items() <= first.items()
    assert first["questions"].keys() == {"crashed", "minutes", "browser"}

    text = "".join(csv_chunks(results, results.rounds))
    rows = [row for row in csv.DictReader(io.StringIO(text)) if row["by"]]
    assert {(row["by"], row["value"]) for row in rows} == {
        ("platform", "linux"), ("platform", "mac"), ("platform", "other"),
    }  # fmt: skip
    assert float(rows[0]["estimate"]) == first["questions"]["crashed"][0]["estimate"]

    lines = "\n".join(report_lines(results))
    assert "crashed, platform mac" in lines
    assert "hold jointly for all values of a label" in lines

    page = here.client.get(f"/surveys/{published.id}", headers=here.bearer("analyst")).text
    assert "by platform" in page
    assert "Sent in clear" in page


def test_results_without_labels_do_not_mention_labels(here: World) -> None:
    published = fill(here, until_spring(EACH_KIND), {(0, b"\0"): 4_000})
    (tally,) = here.store.tallies(published.sequence)
    results = survey_results(published, [replace(tally, labels=NO_LABELS)], NOW)
    assert "by" not in json.loads(msgspec.json.encode(results))
    assert '"labels"' not in msgspec.json.encode(results.rounds).decode()
    assert "value" not in "".join(csv_chunks(results, results.rounds)).splitlines()[0].split(",")
    page = here.client.get(f"/surveys/{published.id}", headers=here.bearer("analyst")).text
    assert "clear" not in page


# Advice

TODAY = date(2026, 11, 1)


def test_check_states_which_data_are_sent_in_clear() -> None:
    asked = survey(BIT + PLATFORM + VERSION)
    assert any(line.startswith("Sent in clear") for line in describe(asked))
    assert 'labels=["platform", "version"], ' in policy_line(asked)
    assert not any("clear" in line for line in describe(survey(BIT)))


def warned(asked: Survey, words: str) -> bool:
    return any(words in warning for warning in warnings(asked, TODAY))


def test_check_warns_of_labels_that_single_out_devices() -> None:
    latched = {"repeat": "latched", "repeat_rounds": 3}
    many = "".join(label(f"l{n}", values=[f"v{v}" for v in range(33)]) for n in range(2))
    few = "".join(label(f"l{n}", values=[f"v{v}" for v in range(32)]) for n in range(2))
    assert warned(survey(BIT + many, **latched), "single out")
    assert not warned(survey(BIT + few, **latched), "single out")
    assert not warned(survey(BIT + many), "single out")


@pytest.mark.parametrize(("period", "long"), [("once", True), ("month", True), ("week", False)])
def test_check_states_that_labels_are_fixed_at_the_first_call(period: str, long: bool) -> None:
    assert warned(survey(BIT + VERSION, round=period), "fixed at a round's first call") is long
    assert not warned(survey(BIT, round=period), "fixed at a round's first call")


def test_the_public_page_states_which_data_are_sent_in_clear(tmp_path: Path) -> None:
    with world(tmp_path / "public", NOW, public_pages=True) as here:
        for questions, labelled in ((BIT + PLATFORM, True), (BIT, False)):
            published = here.publish(until_spring(questions, name=f"is-{labelled}"))
            page = here.client.get(f"/public/{published.id}")
            assert page.status_code == 200
            assert ("platform (linux, mac, windows)" in page.text) is labelled
