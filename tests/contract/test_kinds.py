"""Kinds of questions: each works end to end, and so does a kind that a newcomer adds.

The path runs from the survey file to the device, both encodings, tally, results as JSON and CSV,
page, planner, certificate and simulator. The kind `rating` is such an addition: one class, and one
line that registers it. It is not part of the product.
"""

from __future__ import annotations

import csv
import io
import json
import random
import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deniable.client import Policy
from deniable.server.estimation import ESTIMATORS, estimates
from deniable.server.store import PublishedSurvey
from deniable.server.surveys.survey_file import parse_survey_file
from deniable.shared.cli.command import main
from deniable.shared.errors import InvalidPolicy
from deniable.shared.privacy.epsilon import ONE
from deniable.shared.survey.document import Survey, parse_document, parse_toml, render_document
from deniable.shared.survey.kinds import KINDS
from deniable.shared.survey.kinds.base import ESTIMATIONS, MeanQuestion, Question, ShareQuestion
from deniable.simulations.population import fixed, rates
from deniable.simulations.studies.survey.survey_people import PEOPLE
from tests.contract.extensions import STARS, Rating, rating
from tests.end_to_end.test_every_mechanism import (
    REPORTS,
    answer_on_a_device,
    here,
    send_in_both_encodings,
)
from tests.server.estimation.single import counted
from tests.server.world import World
from tests.survey_texts import question, survey_text

__all__ = ["here"]

OF_KIND: dict[str, dict[str, object]] = {  # the keys that each kind needs in a survey file
    "bit": {},
    "number": {"low": -1, "high": 3, "mechanism": "ternary"},
    "choice": {"options": ["a", "b", "c", "d"]},
    "text": {"length": 4, "buckets": 1_024},
    "vector": {"dimension": 4},
    "rating": {"mechanism": "local-laplace"},
}
PLANNED = {"choice": ["--options", "4"], "vector": ["--dimension", "4"]}
ALL = [*KINDS, "rating"]


@pytest.fixture(params=ALL)
def kind(request: pytest.FixtureRequest) -> Iterator[str]:
    with rating():
        yield request.param


def asked(kind: str) -> Survey:
    text = survey_text(question("it", kind, "2", **OF_KIND[kind]), name="all-kinds")
    return parse_survey_file(text)


def only(survey: Survey) -> Question:
    (question,) = survey.questions
    return question


def test_each_table_covers_every_kind_and_every_estimation() -> None:
    """A failure names what is missing."""
    with rating():
        assert set(KINDS) == set(OF_KIND)
        for kind, made in KINDS.items():
            assert made.kind == kind
            assert made.form_label, f"{kind}: no label for the planner's form"
            assert made.estimation in ESTIMATIONS, f"{kind}: unknown estimation"
    assert set(ESTIMATORS) == set(PEOPLE) == set(ESTIMATIONS)
    assert {made.estimation for made in KINDS.values()} == set(ESTIMATIONS)


def test_a_published_document_survives_a_round_trip(kind: str) -> None:
    survey = asked(kind)
    document = render_document(survey)
    read = only(parse_document(document))
    assert render_document(parse_document(document)) == document
    assert (read.kind, read.fields()) == (kind, only(survey).fields())
    assert read.mechanism.integers == only(survey).mechanism.integers


def test_the_policy_accepts_every_kind(kind: str) -> None:
    assert Policy(keys=["00" * 32], questions={"it": kind}).mismatch({"it": kind}) is None
    assert "is asked as a" in str(
        Policy(keys=["00" * 32], questions={"it": "bit"}).mismatch({"it": "vector"})
    )
    with pytest.raises(InvalidPolicy, match=kind):
        Policy(keys=["00" * 32], questions={"it": "guess"})


def test_every_value_is_placed_whether_or_not_it_fits(kind: str) -> None:
    question, draw = only(asked(kind)), random.Random(3).getrandbits
    for answer, expected in ((question.example, True), (object(), False), (None, False)):
        symbol, fits = question.report(answer, draw)
        assert fits is expected
        assert question.mechanism.encoding.is_symbol(symbol)
        assert question.describe(symbol)


def test_every_kind_works_from_the_device_to_json_csv_and_page(
    kind: str, here: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published: PublishedSurvey = here.publish(asked(kind))
    it, draw = only(published.survey), random.Random(5).getrandbits
    monkeypatch.setitem(answers(), kind, [it.example])
    answer_on_a_device(here, published, tmp_path)
    symbols = [it.report(it.example, draw)[0] for _ in range(REPORTS)]
    send_reports(here, published, symbols, monkeypatch)
    analyst = here.bearer("analyst")
    address = f"/v1/surveys/{published.id}/results"
    document = here.client.get(address, headers=analyst).json
    about = document["about"]["it"]
    assert about["kind"] == kind
    assert about["method"] == ESTIMATORS[it.estimation].method
    assert about["statistic"] == it.statistic
    for key, value in it.facts().items():
        assert about[key] == pytest.approx(value)
    rows = document["rounds"][0]["questions"]["it"]
    if it.labels:
        assert [row["label"] for row in rows] == list(it.labels)
        assert all(row["low"] < row["estimate"] < row["high"] for row in rows)
    text = here.client.get(f"{address}.csv", headers=analyst).text
    assert {row["question"] for row in csv.DictReader(io.StringIO(text))} == {"it"}
    page = here.client.get(f"/surveys/{published.id}", headers=analyst)
    assert page.status_code == 200
    assert it.mechanism.name in page.text


def answers() -> dict[str, list[Any]]:
    from tests.asked import ANSWERS

    return ANSWERS


def send_reports(
    here: World, published: PublishedSurvey, symbols: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Send reports in both encodings; the mechanism itself refuses invalid symbols."""
    monkeypatch.setattr("tests.end_to_end.test_every_mechanism.bad_payloads", lambda _: [])
    send_in_both_encodings(here, published, symbols)


def test_tallies_give_the_same_estimate_as_single_reports(kind: str) -> None:
    """The estimates are equal up to rounding."""
    it, draw = only(asked(kind)), random.Random(7).getrandbits
    if it.estimation not in ("shares", "mean"):
        with pytest.raises(NotImplementedError, match=kind):
            it.estimate([0])
        return
    symbols = [it.report(it.example, draw)[0] for _ in range(200)]
    cells = np.zeros(it.mechanism.cells, np.int64)
    for symbol in symbols:
        for cell, amount in it.mechanism.encoding.amounts(symbol):
            cells[cell] += amount
    found = {row.label: row.estimate for row in estimates(it, cells, len(symbols))}
    assert found == pytest.approx(it.estimate(symbols), rel=1e-12)


def test_expected_counts_give_the_truth(kind: str) -> None:
    """If everybody gives the example, the estimate is share 1, its position or its coordinates."""
    it = only(asked(kind))
    if it.estimation == "texts":
        return  # tested in tests/server/estimation/test_texts.py
    held = np.zeros(it.mechanism.answers)
    held[answer_number(it)] = 1
    reports = 10**9
    cells = np.rint(rates(it.mechanism, held.tolist()) * reports).astype(np.int64)
    truth = truths(it)
    found = [row.estimate for row in estimates(it, cells, reports)]
    assert found == pytest.approx(truth, abs=1e-8)


def test_the_truth_lies_within_simulated_intervals(kind: str) -> None:
    """All simulated people give the example. The joint confidence is 1 - 1e-9."""
    it = only(asked(kind))
    if it.estimation == "texts":
        return
    held = np.zeros(it.mechanism.answers, np.int64)
    held[answer_number(it)] = 20_000
    cells = fixed(it.mechanism, held, 1, np.random.default_rng(9)).counts[0]
    for low, high in ((s := counted(it, cells, 20_000).statements(1 - 1e-9)).like, s.every):
        for least, truth, most in zip(low, truths(it), high, strict=True):
            assert least < truth < most


def answer_number(it: Question) -> int:
    """Return the number of the example answer; for a vector, the first coordinate's."""
    if isinstance(it, ShareQuestion):
        return int(it.place(it.example) or 0)
    if isinstance(it, MeanQuestion):
        placed = it.place(it.example)
        return (placed or 0) // ONE
    return 0


def truths(it: Question) -> list[float]:
    if isinstance(it, ShareQuestion):
        place = answer_number(it) - it.first_label
        return [float(number == place) for number in range(len(it.labels))]
    if isinstance(it, MeanQuestion):
        low, _ = it.range
        return [low + it.span * answer_number(it) / it.mechanism.steps]
    return [1.0, *[0.0] * (len(it.labels) - 1)]


def output(capsys: pytest.CaptureFixture[str], *words: str) -> Any:  # Any: JSON
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_planner_accepts_every_kind(
    kind: str, here: World, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["plan", "--kind", kind, "--epsilon", "2", "--people", "20000"]
    found = output(capsys, *words, *PLANNED.get(kind, []))
    assert found["kind"] == kind
    analyst = here.bearer("analyst")
    page = here.client.get(f"/plan?kind={kind}", headers=analyst)
    assert page.status_code == 200
    assert KINDS[kind].form_label in page.text
    for field in KINDS[kind].plan_fields:
        assert field.label in page.text


def test_the_certificate_covers_every_kind(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    size = {"text": ["--buckets", "1024"], "choice": ["--options", "4"]}.get(kind, [])
    found = output(capsys, "certify", "--kind", kind, *size)
    assert found["holds"]
    assert main(["certify", "--kind", kind, *size]) == 0
    assert re.search(r"A report has \d+ bytes?; making one takes \S+ µs", capsys.readouterr().out)


def test_the_simulator_has_people_for_every_kind_or_states_a_reason(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "survey.toml"
    file.write_text(survey_text(question("it", kind, "2", **OF_KIND[kind])), "utf-8")
    words = ["simulate", "survey", str(file), "--people", "2000", "--repetitions", "100"]
    if isinstance(PEOPLE[KINDS[kind].estimation], str):
        assert main(words) == 2
        assert "it: " in capsys.readouterr().err
        return
    cells = [cell for cell in output(capsys, *words)["rows"] if not cell["forged"]]
    assert {cell["label"] for cell in cells} == set(only(asked(kind)).labels)
    for cell in cells:
        assert cell["low"] < cell["truth"] < cell["high"]
        assert cell["covered"] > 0.85


def test_the_mean_of_a_rating_is_estimated_without_bias() -> None:
    """Enumerate one to five stars in rational numbers."""
    with rating():
        it = only(parse_toml(survey_text(question("it", "rating", "1"))))
    assert isinstance(it, Rating)
    assert (it.asked, it.range, it.in_javascript) == ("a rating from 1 to 5", (1, 5), False)
    table = it.mechanism
    for stars in range(1, STARS + 1):
        row = table.rows[(it.place(stars) or 0) // ONE]
        mean = sum(weight * value for weight, value in zip(row, table.values, strict=True)) / ONE
        assert abs(1 + mean - stars) < Fraction(1, 2**40)
    assert it.place(0) is it.place(6) is it.place(3.0) is it.place("3") is None
