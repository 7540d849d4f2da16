"""Page of the planner: a plain form, the figures of the command, and a sentence per mistake."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from flask.testing import FlaskClient

from deniable.server.http.context import COOKIE
from deniable.server.pages.planner_form import SLIDERS, read_form
from deniable.server.planning.forecast import plan
from tests.server.test_dashboard import check_page
from tests.server.world import World, world

CHOICE = "kind=choice&options=1024&epsilon=3"


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("data") / "data") as made:
        yield made


@pytest.fixture(scope="module")
def pages(here: World) -> FlaskClient:
    client: FlaskClient = here.client
    client.set_cookie(COOKIE, here.session(here.token("analyst")))
    return client


def found(pages: FlaskClient, query: str) -> dict[str, Any]:
    answer = pages.get(f"/plan.json?{query}")
    assert answer.status_code == 200, answer.text
    assert isinstance(answer.json, dict)
    return answer.json


def lines(text: str) -> dict[str, list[float]]:
    """Return the heights at which each model's line begins and ends."""
    drawn: dict[str, list[float]] = {}
    for model, start, end in re.findall(
        r'class="path (\w+)" x1="[\d.]+%" y1="([\d.]+)" x2="[\d.]+%" y2="([\d.]+)"', text
    ):
        drawn.setdefault(model, []).extend([float(start), float(end)])
    return {model: [points[0], points[-1]] for model, points in drawn.items()}


def test_the_planner_requires_signing_in(here: World) -> None:
    assert here.client.get("/plan").status_code == 401
    assert here.client.get("/plan.json").status_code == 401
    assert here.client.get("/plan.json", headers=here.bearer("app")).status_code == 403


@pytest.mark.parametrize("kind", ["bit", "choice", "text", "vector", "number"])
def test_every_kind_has_a_chart_and_sentences(pages: FlaskClient, kind: str) -> None:
    """A lower line is better: that of a trusted server ends lowest, and that of devices highest.

    All include the sampling of people, so the two that add little noise may coincide.
    """
    answer = pages.get(f"/plan?kind={kind}&people=1000000&epsilon=1")
    assert answer.status_code == 200
    check_page(answer)
    drawn = lines(answer.text)
    assert drawn["local"][1] < drawn["shuffled"][1] <= drawn["trusted"][1]
    for start, end in drawn.values():
        assert start < end
    assert f'<th scope="row">{plan_of(kind)["mechanism"]}</th>' in answer.text


def plan_of(kind: str) -> dict[str, Any]:
    form = read_form({"kind": kind, "people": "1000000"})
    return plan(form.asked, form.people, form.error)


def test_the_page_has_the_figures_of_the_command(pages: FlaskClient) -> None:
    asked = {"name": "it", "kind": "number", "over": "last", "low": 0, "high": 120, "epsilon": "2"}
    query = "kind=number&low=0&high=120&epsilon=2&people=50000"
    assert found(pages, query) == json.loads(json.dumps(plan(asked, 50_000, None)))
    text = pages.get(f"/plan?{query}").text
    assert "50,000 people give ± 0.660 (95 %) if answers are spread evenly" in text
    assert "their answers are worth about 13,908 asked openly" in text
    once = pages.get(f"/plan?{query}&looks=once").text
    assert "50,000 people give ± 0.578 (95 %) if answers are spread evenly" in once
    assert 'value="once" checked' in once
    found_once = found(pages, f"{query}&looks=once")
    assert found_once == json.loads(json.dumps(plan(asked, 50_000, None, looks="once")))


def test_sliders_apply_until_a_field_is_filled_in(pages: FlaskClient) -> None:
    slid = "epsilon_slider=0.7&people_slider=4.3"
    assert (found(pages, slid)["epsilon"], found(pages, slid)["people"]) == ("0.7", 20_000)
    typed = found(pages, f"{slid}&epsilon=0.123&people=31,415")
    assert (typed["epsilon"], typed["people"]) == ("0.123", 31_415)


def test_a_share_is_planned_as_by_the_command(pages: FlaskClient) -> None:
    asked = {"name": "it", "kind": "bit", "over": "any", "epsilon": "4"}
    query = "kind=bit&epsilon=4&people=5000&share=0.1"
    assert found(pages, query) == json.loads(json.dumps(plan(asked, 5_000, None, share=0.1)))
    assert "for a share of 10 %" in pages.get(f"/plan?{query}").text
    wrong = pages.get("/plan?kind=bit&share=2")
    assert wrong.status_code == 400
    assert "Write a number from 0 to 1, not 2." in wrong.text


def test_a_target_error_gives_a_number_of_people(pages: FlaskClient) -> None:
    by_slider = found(pages, "kind=number&low=0&high=10&by=error&error_slider=-2")
    assert by_slider["margin"] <= 0.1
    assert found(pages, "kind=number&low=0&high=10&error=0.1") == by_slider
    fewer = by_slider["people"] - 1
    assert found(pages, f"kind=number&low=0&high=10&people={fewer}")["margin"] > 0.1


def test_a_limit_of_bytes_leaves_out_longer_reports(pages: FlaskClient) -> None:
    wide = "kind=choice&options=120&epsilon=4"
    assert found(pages, wide)["payload_bytes"] == 15
    assert found(pages, f"{wide}&bytes=2")["payload_bytes"] <= 2


@pytest.mark.parametrize(
    ("query", "field", "says"),
    [
        ("kind=nope", "kind", "The kind must be one of"),
        ("epsilon=x", "epsilon", "ε is written as decimal text"),
        ("epsilon=21", "epsilon", "at most 20"),
        ("people=-3", "people", "Enter a whole number"),
        ("people=0", "people", "1 to 1,000,000,000,000 people"),
        ("error=0", "error", "a number above 0"),
        ("error=1e999", "error", "Enter a number"),
        ("error=1e-300", "error", "at least a millionth"),
        ("error=1e-7", "error", "at least a millionth"),
        ("kind=choice&options=1", "options", "2 to 65,536"),
        ("kind=choice&options=99999999999", "options", "2 to 65,536"),
        ("kind=number&low=3&high=3", "high", "must be above low"),
        ("kind=text&length=99", "length", "4 to 32"),
        ("kind=vector&dimension=1", "dimension", "2 to 1024"),
        (f"{CHOICE}&bytes=1", "bytes", "needs 2 bytes per report"),
        ("mechanism=unary", "mechanism", "must be one of"),
        ("looks=never", "looks", "any-time, twice or once"),
    ],
)
def test_a_wrong_value_is_reported_at_its_field(
    pages: FlaskClient, query: str, field: str, says: str
) -> None:
    answer = pages.get(f"/plan?{query}")
    assert answer.status_code == 400
    check_page(answer)
    at_field = re.search(rf'id="{field}-problem">(.*?)</p>', answer.text)
    assert at_field
    assert says.lower() in at_field[1].lower()
    assert (
        field in ("kind", "mechanism", "looks")
        or f'aria-describedby="{field}-problem"' in answer.text
    )
    assert lines(answer.text)  # the chart is drawn even with a mistake
    assert pages.get(f"/plan.json?{query}").status_code == 400


def test_typed_values_are_escaped(pages: FlaskClient) -> None:
    text = pages.get('/plan?epsilon="><script>alert(1)</script>&people=<b>&x="onload=').text
    assert "<script>alert" not in text
    assert "<b>" not in text
    assert 'x="onload' not in text


@pytest.mark.parametrize("name", SLIDERS)
def test_a_slider_shows_its_value(name: str) -> None:
    slider, steps = SLIDERS[name], 20
    for step in range(steps + 1):
        wanted = slider.low + round(step / steps * (slider.high - slider.low), 1)
        value = slider.value(min(wanted, slider.high))
        assert float(slider.position(value)) == pytest.approx(min(wanted, slider.high), abs=0.051)
