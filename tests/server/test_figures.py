"""Figures as files: SVG, CSV, and a Python snippet that reads the same numbers."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import subprocess
import sys
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import requests

from deniable.server.http.context import COOKIE
from deniable.server.store import PublishedSurvey
from tests.server.results_data import NOW, add_round, spread
from tests.server.surveys import BIT, BROWSERS, choice, survey, until_spring
from tests.server.world import World, serving, world
from tests.survey_texts import number

pytestmark = pytest.mark.at(NOW)

FIGURES = {
    "crashed": ["round", "trend"],
    "minutes": ["round", "trend"],
    "browser": ["round", "trend", "change"],
}
SVG = "{http://www.w3.org/2000/svg}"


def get(here: World, path: str, role: str = "analyst"):  # type: ignore[no-untyped-def]  # a test response
    return here.client.get(path, headers=here.bearer(role))


def test_a_page_links_to_each_of_its_figures(here: World, published: PublishedSurvey) -> None:
    text = get(here, f"/surveys/{published.id}?round=684").text
    links = re.findall(r'href="/surveys/[0-9a-f]+/figures/(\w+)/(\w+)\.svg\?round=684"', text)
    assert links == [(question, name) for question in FIGURES for name in FIGURES[question]]
    assert text.count(".csv?round=684") == len(links) + 1


@pytest.mark.parametrize("question", FIGURES)
def test_a_figure_file_needs_no_other_files(
    here: World, published: PublishedSurvey, question: str
) -> None:
    """The file is well-formed SVG with an inline style, which the policy allows by its hash.

    It fetches nothing and runs nothing.
    """
    for name in FIGURES[question]:
        answer = get(here, f"/surveys/{published.id}/figures/{question}/{name}.svg?round=684")
        assert answer.mimetype == "image/svg+xml"
        root = ET.fromstring(answer.data)
        assert root.tag == f"{SVG}svg"
        (style,) = [element.text for element in root.iter(f"{SVG}style")]
        assert style is not None
        assert "var(" not in style
        allowed = b64encode(sha256(style.encode()).digest()).decode()
        policy = answer.headers["Content-Security-Policy"]
        assert policy == f"default-src 'none'; style-src 'sha256-{allowed}'"
        kinds = {element.tag.removeprefix(SVG) for element in root.iter()}
        assert kinds <= {
            "svg", "style", "rect", "g", "text", "tspan", "title", "desc", "line", "circle", "path"
        }  # fmt: skip
        assert not [key for element in root.iter() for key in element.attrib if "href" in key]
        assert question in "".join(root.itertext())


def test_the_csv_of_a_figure_has_the_numbers_of_the_results(
    here: World, published: PublishedSurvey
) -> None:
    def rows(name: str) -> list[dict[str, str]]:
        path = f"/surveys/{published.id}/figures/browser/{name}.csv?round=684"
        return list(csv.DictReader(io.StringIO(get(here, path).text)))

    document = get(here, f"/v1/surveys/{published.id}/results").json
    periods = {round_["round"]: round_ for round_ in document["rounds"]}

    def texts(found: dict[str, object]) -> dict[str, str]:
        found = {key: value for key, value in found.items() if key != "standard_error"}
        found |= {"called": found["label"]}
        return {key: "" if value is None else str(value) for key, value in found.items()}

    assert rows("round") == [texts(row) for row in periods[684]["questions"]["browser"]]
    assert rows("trend") == [
        texts({"round": number, **row})
        for number, period in periods.items()
        for row in period["questions"]["browser"]
    ]
    assert rows("change") == [texts(row) for row in periods[684]["change"]["questions"]["browser"]]


def test_a_distribution_has_a_figure(here: World) -> None:
    published = here.publish(until_spring(number(0, 120, "square-wave", grid=64, epsilon="2")))
    steps = published.survey.questions[0].mechanism.answers
    add_round(here.store, published, 683, [spread(20_000, steps - 1, 0.4)])
    path = f"/surveys/{published.id}/figures/minutes/distribution"
    points = list(csv.DictReader(io.StringIO(get(here, f"{path}.csv").text)))
    document = get(here, f"/v1/surveys/{published.id}/results?round=683").json
    (period,) = document["rounds"]
    wanted = period["distributions"]["minutes"]["points"]
    assert [float(row["below"]) for row in points] == [row["below"] for row in wanted]
    assert ET.fromstring(get(here, f"{path}.svg").data).tag == f"{SVG}svg"


@pytest.mark.parametrize(
    "path",
    ["none/round.svg", "crashed/none.svg", "crashed/change.svg", "crashed/round.svg?round=1",
     "crashed/round.png"],
)  # fmt: skip
def test_an_unknown_figure_is_not_found(here: World, published: PublishedSurvey, path: str) -> None:
    assert get(here, f"/surveys/{published.id}/figures/{path}").status_code == 404


def test_a_stranger_gets_no_figure(here: World, published: PublishedSurvey) -> None:
    path = f"/surveys/{published.id}/figures/crashed/round"
    for form in ("svg", "csv"):
        assert here.client.get(f"{path}.{form}").status_code == 401
        assert get(here, f"{path}.{form}", "app").status_code == 401


def test_the_texts_of_a_survey_are_escaped_in_a_figure(here: World) -> None:
    hostile = "</text><script>alert(1)</script>"
    published = here.publish(until_spring(choice([hostile, "=1+1"])))
    add_round(here.store, published, 683, [[600, 400]])
    path = f"/surveys/{published.id}/figures/browser/round"
    root = ET.fromstring(get(here, f"{path}.svg").data)
    assert not list(root.iter(f"{SVG}script"))
    assert hostile in "".join(root.itertext())
    assert "'=1+1" in get(here, f"{path}.csv").text


def test_the_python_snippet_reads_the_same_numbers(tmp_path: Path) -> None:
    """Run the lines shown by a real server's page, in a new Python process."""
    today = datetime.now(UTC).date()
    asked = survey(
        BIT + choice(BROWSERS), round="day", opens=today - timedelta(days=2), closes=today
    )
    with world(tmp_path / "data", datetime.now(UTC)) as here:
        published = here.publish(asked)
        for number in range(asked.first_round, asked.last_round + 1):
            add_round(here.store, published, number, [[900, 100], [300, 400, 200, 90, 10]])
        token = here.token("analyst")
    with serving(tmp_path / "data") as server:
        session = requests.Session()
        page = session.get(f"{server.dashboard}/surveys/app-health?token={token}", timeout=10)
        assert COOKIE in session.cookies
        blocks = [
            html.unescape(block)
            for block in re.findall(r"<pre[^>]*><code>(from [^<]*)</code>", page.text)
        ]
        assert [len(block.splitlines()) for block in blocks] == [3] * 5
        lines = [*blocks[0].splitlines()[:2], "found = []"]
        lines += [f"found.append({block.splitlines()[2]})" for block in blocks]
        lines += [
            "import json, msgspec",
            "listed = [found[0], found[2], [answer.rows[0] for answer in found[1]], found[4]]",
            "rows = [[msgspec.to_builtins(row) for row in each] for each in listed]",
            "print(json.dumps(rows))",
        ]
        done = subprocess.run(
            [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True,
            env={"DENIABLE_TOKEN": token}, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        for at, path in enumerate(
            ("crashed/round", "browser/round", "crashed/trend", "browser/change")
        ):
            text = session.get(
                f"{server.dashboard}/surveys/app-health/figures/{path}.csv", timeout=10
            ).text
            wanted = [float(row["estimate"]) for row in csv.DictReader(io.StringIO(text))]
            assert [row["estimate"] for row in found[at]] == wanted
