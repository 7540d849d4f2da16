"""Pages that have led readers to wrong conclusions.

Each test states the wrong conclusion, and shows on a page of the real server that the page does not
suggest it. Counts are drawn from the exact distribution of reports, with fixed seeds.
"""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deniable.server import pages
from deniable.server.store import PublishedSurvey, RoundTally
from tests import survey_texts as texts
from tests.server.results_data import AFTER_GRACE, draw_cells, spread
from tests.server.surveys import choice, survey
from tests.server.test_survey_list import signed_in, words
from tests.server.world import World

pytestmark = pytest.mark.at(AFTER_GRACE)

STYLE = Path(pages.__file__).parent / "static/chart.css"
DAYS: dict[str, object] = {"opens": date(2024, 11, 4), "closes": date(2024, 11, 24)}
ONCE: dict[str, object] = {"opens": date(2024, 11, 1), "closes": date(2024, 11, 5)}


def publish(here: World, questions: str, **more: object) -> PublishedSurvey:
    return here.publish(survey(questions, **{"minimum_reports": 100, "looks": "once"} | more))


def add(here: World, asked: PublishedSurvey, number: int, reports: int, cells: object) -> None:
    with here.store.transaction() as transaction:
        transaction.add(asked.sequence, RoundTally(number, reports, np.asarray(cells)))


def html(here: World, asked: PublishedSurvey, view: str = "") -> str:
    reply = signed_in(here).get(f"/surveys/{asked.id}{view}")
    assert reply.status_code == 200
    return str(reply.text)


def results(here: World, asked: PublishedSurvey) -> Any:  # Any: JSON
    reply = signed_in(here).get(f"/v1/surveys/{asked.id}/results")
    return json.loads(reply.data)["rounds"][0]


def answers(page: str) -> list[str]:
    return re.findall(r'<p class="answer[^>]*>([^<]+)<', page)


def drawn_bars(page: str) -> int:
    return page.count('<rect class="bar" x=')


def test_a_forged_day_does_not_look_like_a_rise(here: World) -> None:
    """Wrong conclusion: 9 % of the apps crashed on 13 November; it was 4 %, as on every day."""
    asked = publish(here, choice(["no", "yes"], "unary", name="crashed", epsilon="2"),
                    round="day", **DAYS)  # fmt: skip
    (question,), rng = asked.survey.questions, np.random.default_rng(9)
    for day in range(21):
        cells = draw_cells(question, [1_920, 80], rng)
        forged = np.array([300, 300]) * (day == 9)
        number = asked.survey.first_round + day
        add(here, asked, number, 2_000 + 300 * (day == 9), cells + forged)
    page = html(here, asked)
    titles = re.findall(r"<title>(2024-11-\d\d): ([^<]+)</title>", page)
    marked = {name for name, text in titles if text == "forged reports"}
    assert marked == {"2024-11-13"}
    values = re.findall(r"(2024-11-\d\d): (−?[\d.]+) %, ", page)
    assert {name for name, _ in values} == {f"2024-11-{n:02}" for n in range(4, 25) if n != 13}
    assert "Changes found" not in page
    assert answers(html(here, asked, "?round=2024-11-13")) == [
        "Some of these reports are forged, so the figures do not answer the question."
    ]
    assert "Forged reports in 2024-11-13" in words(signed_in(here).get("/").text)


def test_bars_that_add_up_to_256_per_cent_do_not_look_like_a_result(here: World) -> None:
    """Wrong conclusion: each of the four parties has more than 60 % of the votes."""
    asked = publish(here, choice(4, "unary", name="party", epsilon="2"), round="once", **ONCE)
    (question,), rng = asked.survey.questions, np.random.default_rng(4)
    honest = draw_cells(question, [300, 300, 200, 200], rng)
    add(here, asked, 0, 1_400, honest + 400)
    page = html(here, asked)
    assert '<article class="question doubted"' in page, "its figures are grey"
    assert len(answers(page)) == 1
    assert "do not answer the question" in answers(page)[0]
    for word in ("lead", "first", "Asked openly", "Too close to call"):
        assert word not in "".join(re.findall(r'<article class="question doubted".*?<details>',
                                              page, re.DOTALL))  # fmt: skip
    assert ".doubted .bar { fill: var(--rule); }" in STYLE.read_text("utf-8")
    file = signed_in(here).get(f"/surveys/{asked.id}/figures/party/round.svg").text
    assert 'class="doubted"' in file
    listed = signed_in(here).get("/").text
    assert "Forged reports in the only round" in words(listed)
    assert answers(listed) == answers(page)


def test_an_option_below_the_floor_is_not_drawn_as_the_fifth(here: World) -> None:
    """Wrong conclusion: a fifth country has 3.5 %, though only 4 of 120 are above zero."""
    asked = publish(here, choice(120, "unary", name="country", epsilon="2"), round="once", **ONCE)
    (question,), rng = asked.survey.questions, np.random.default_rng(8)
    held = [3_000, 2_000, 1_500, 900, *[17] * 116]
    add(here, asked, 0, sum(held), draw_cells(question, held, rng))
    page = html(here, asked)
    assert answers(page) == ["4 of 120 options are clearly above zero."]
    assert drawn_bars(page) == 4
    assert "116 others: too rare to measure (below" in words(page)
    few = publish(here, choice(5, "unary", name="few", epsilon="2"), round="once", name="few",
                  **ONCE)  # fmt: skip
    held = [2_000, 1_000, 0, 0, 0]
    add(here, few, 0, 3_000, draw_cells(few.survey.questions[0], held, rng))
    assert drawn_bars(html(here, few)) == 2, "a short list shows the others without a bar"


@pytest.mark.parametrize("state", ["collecting", "final"])
def test_the_standard_error_in_the_csv_gives_the_interval_of_the_page(
    here: World, state: str
) -> None:
    """Wrong conclusion: estimate ± 1.96 standard errors is a 95 % interval; it was half as wide."""
    days: dict[str, object] = {"opens": date(2024, 11, 1), "closes": date(2024, 12, 30)}
    grace = 14 if state == "collecting" else 0
    asked = publish(here, texts.bit(), round="once", looks="any-time", grace_days=grace, **days)
    add(here, asked, 0, 6_000, draw_cells(asked.survey.questions[0], [4_700, 1_300],
                                          np.random.default_rng(1)))  # fmt: skip
    table = signed_in(here).get(f"/v1/surveys/{asked.id}/results.csv").text
    (row,) = csv.DictReader(io.StringIO(table))
    assert row["state"] == state
    low, high, error = (float(row[name]) for name in ("low", "high", "standard_error"))
    assert 2 * 1.959964 * error == pytest.approx(high - low)
    (shown,) = results(here, asked)["questions"]["crashed"]
    one_look = 2 * 1.959964 * shown["standard_error"]
    assert (one_look < 0.65 * (high - low)) == (state == "collecting"), "the twin"
    figure = signed_in(here).get(f"/surveys/{asked.id}/figures/crashed/round.csv").text
    assert "standard_error" not in figure


def test_closing_a_survey_early_does_not_narrow_its_interval(here: World) -> None:
    """Wrong conclusion: ± 4.9 points became ± 2.7 because the survey was closed."""
    days: dict[str, object] = {"opens": date(2024, 11, 1), "closes": date(2024, 12, 30)}
    asked = publish(here, texts.bit(), round="once", looks="any-time", **days)
    add(here, asked, 0, 6_000, draw_cells(asked.survey.questions[0], [4_700, 1_300],
                                          np.random.default_rng(1)))  # fmt: skip
    before = html(here, asked)
    here.catalogue.close(asked)
    after = html(here, asked)
    assert answers(after) == answers(before)
    assert "Collecting late reports until 14 January: ± 5.2 points now, ± 3.0 then." in before
    assert answers(before) == ["21.9 % say yes, between 16.8 and 27.2."]
    assert "Closed before it was final" in words(after)


def test_the_part_of_the_noise_is_not_drawn_for_some_points_by_chance(here: World) -> None:
    """Wrong conclusion: the one thick blue point of 21 is special."""
    asked = publish(here, texts.bit(epsilon="1"), round="day", **DAYS)
    (question,), rng = asked.survey.questions, np.random.default_rng(1)
    for day in range(21):
        cells = draw_cells(question, [1_440, 60], rng)
        add(here, asked, asked.survey.first_round + day, 1_500, cells)
    rounds = json.loads(signed_in(here).get(f"/v1/surveys/{asked.id}/results").data)["rounds"]
    rows = [row for period in rounds for row in period["questions"]["crashed"]]
    inside = [row["low"] <= row["low_these"] < row["high_these"] <= row["high"] for row in rows]
    assert 0 < sum(inside) < 21, "the twin: some intervals are inside, by chance"
    page = html(here, asked)
    (noise,) = re.findall(r'<path class="noise" d="([^"]*)"', page)
    assert noise == ""
    assert "part caused by the privacy noise" not in page


def test_a_cross_table_answers_which_browser_crashes_most(here: World) -> None:
    """Wrong conclusion: Firefox crashes most, because “yes × firefox” has the most people."""
    browsers = ("firefox", "safari")
    asked = publish(here, texts.bit(epsilon="4") + choice(browsers, epsilon="4"), round="once",
                    cross=[["crashed", "browser"]], **ONCE)  # fmt: skip
    crashed, browser = asked.survey.questions
    rng, people = np.random.default_rng(2), {(0, 0): 7_600, (1, 0): 400, (0, 1): 640, (1, 1): 360}
    marginal = [np.zeros(q.mechanism.cells, np.int64) for q in (crashed, browser)]
    table = np.zeros((marginal[0].size, marginal[1].size), np.int64)
    for (yes, which), count in people.items():
        for _ in range(count):
            one = draw_cells(crashed, [1 - yes, yes], rng)
            other = draw_cells(browser, [1 - which, which], rng)
            marginal[0] += one
            marginal[1] += other
            table += np.outer(one, other)
    add(here, asked, 0, 9_000, np.concatenate([*marginal, table.ravel()]))
    page = html(here, asked)
    answer = "yes: safari 35.9 % (32.0 to 39.9), firefox 5.07 % (4.43 to 5.77)."
    assert answer in answers(page)
    assert "crashed within browser" in page[: page.index(answer)]
    folded = page.index("Share of all people who gave both answers")
    assert page.index(answer) < folded < page.index("no × firefox</th>"), "shares come last"
    truth = {"safari": 0.36, "firefox": 0.05}
    for name, low, high in (("safari", 0.320, 0.399), ("firefox", 0.0443, 0.0577)):
        assert low < truth[name] < high


def test_a_percentile_that_may_be_anywhere_has_no_number(here: World) -> None:
    """Wrong conclusion: 90 % of the people wait less than 6.7 s, which may be 0 to 20."""
    seconds = texts.number(0, 20, "square-wave", grid=64, name="seconds", unit="s")

    def shown(people: int) -> tuple[str, list[float], int]:
        asked = publish(here, seconds, name=f"of-{people}", round="once", **ONCE)
        rng, (question,) = np.random.default_rng(people), asked.survey.questions
        add(here, asked, 0, people, draw_cells(question, spread(people, 64, 0.2), rng))
        quantiles = results(here, asked)["distributions"]["seconds"]["quantiles"]
        page = html(here, asked)
        rows = re.findall(r'<tr><th scope="row">([\d.]+ %)</th><td>', page)
        return words(page), [one["high"] - one["low"] for one in quantiles], len(rows)

    few, widths, rows = shown(1_500)
    assert [width >= 18 for width in widths] == [False] * 4 + [True], "the twin: JSON has it"
    assert "1,500 reports cannot locate the 90 % percentile: almost all values are possible." in few
    assert rows == 4
    many, widths, rows = shown(400_000)
    assert rows == len(widths) == 5
    assert "cannot locate" not in many


def test_an_interval_of_almost_everything_is_a_sentence_and_no_figure(here: World) -> None:
    """Wrong conclusion: 12 % say yes."""
    asked = publish(here, texts.bit(epsilon="0.2"), round="once", **ONCE)
    rng = np.random.default_rng(5)
    add(here, asked, 0, 150, draw_cells(asked.survey.questions[0], [120, 30], rng))
    page = html(here, asked)
    assert answers(page) == [
        "Too few reports to answer: the 95 % interval covers almost all possible values."
    ]
    article = page[page.index('<article class="question"') : page.index("</article>")]
    assert "<svg" not in article
