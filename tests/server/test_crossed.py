"""Crossed questions, from the document to the page; other surveys are unchanged."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deniable.server.analysis import SurveyResults
from deniable.server.estimation.crosstab import Joint, PairCounts, joint
from deniable.server.estimation.statements import Reading
from deniable.server.http.context import COOKIE
from deniable.server.intake.tally import empty_cells, tally
from deniable.server.intake.tally_kernels import _counts
from deniable.server.results import (
    EstimateCache,
    Results,
    csv_chunks,
    round_details,
    survey_results,
)
from deniable.server.results.advice import describe
from deniable.server.results.document import Crossed
from deniable.server.results.round_details import crossed_rounds
from deniable.server.store import PublishedSurvey, RoundTally
from deniable.shared.envelope import encode_report
from deniable.shared.errors import InvalidSurvey, Refused
from deniable.shared.privacy.encodings import BitSet, Encoding
from deniable.shared.privacy.mechanism import kernel_draw
from deniable.shared.survey.document import Survey, parse_document, render_document
from tests.command import run
from tests.server.released import release_all
from tests.server.results_data import NOW
from tests.server.surveys import (
    BIT,
    BROWSERS,
    DECEMBER,
    EACH_KIND,
    NUMBER,
    choice,
    expected_cells,
    survey,
    symbols,
    until_spring,
)
from tests.server.world import World

pytestmark = pytest.mark.at(NOW)

PAIR = ["crashed", "browser"]
HELD = {("no", "firefox"): 0.3, ("yes", "firefox"): 0.3, ("no", "chrome"): 0.4}
PEOPLE = 4_000


def crowd(asked: Survey, people: int) -> RoundTally:
    """Make a round of reports with the client's code, and count it with the server's code."""
    payload = b"".join(
        encode_report(
            asked,
            asked.report(
                {"crashed": answer == "yes", "browser": browser, "minutes": 3}, kernel_draw
            ).symbols,
        )
        for (answer, browser), share in HELD.items()
        for _ in range(round(share * people))
    )
    return RoundTally(DECEMBER, people, tally(asked, payload, people))


def filled(here: World, people: int = PEOPLE, epsilon: str = "4") -> PublishedSurvey:
    """Fill the December round, which is over."""
    bit, browser = BIT.replace('"1"', f'"{epsilon}"'), choice(BROWSERS, epsilon=epsilon)
    published = here.publish(until_spring(bit + browser, cross=[PAIR]))
    found = crowd(published.survey, people)
    with here.store.transaction() as transaction:
        transaction.add(published.sequence, RoundTally(found.round, found.reports, found.cells))
    release_all(here.store)
    return published


def crossed(
    asked: Survey, tally: RoundTally, looks: bool, cache: EstimateCache | None = None
) -> tuple[Crossed, ...]:
    (tables,) = crossed_rounds(cache or EstimateCache(), asked, [tally], [Reading(any_time=looks)])
    return tables


def csv_of(results: Results) -> str:
    return "".join(csv_chunks(results, results.rounds))


def results(here: World, published: PublishedSurvey) -> Results:
    return survey_results(published, here.store.tallies(published.sequence), NOW, DECEMBER)


def test_joint_shares_estimate_the_shares_of_the_crowd(here: World) -> None:
    """Allow seven standard errors. If errors are normal, a false alarm has probability 4e-11."""
    found = results(here, filled(here))
    (each,) = found.rounds[0].cross or ()
    assert each.questions == ("crashed", "browser")
    labels = [f"{answer} × {browser}" for answer in ("no", "yes") for browser in BROWSERS]
    assert [row.label for row in each.rows] == labels
    for row in each.rows:
        answer, browser = row.label.split(" × ")
        assert row.estimate is not None
        assert row.standard_error is not None
        assert abs(row.estimate - HELD.get((answer, browser), 0)) < 7 * row.standard_error
        assert row.standard_error < 0.02
        assert (row.low or -1) < row.estimate < (row.high or 2)
        assert (row.low_these, row.reports) == (None, PEOPLE)


def test_crossing_changes_no_counts_of_single_questions() -> None:
    questions = EACH_KIND + BIT.replace("crashed", "rebooted")
    plain = survey(questions)
    crossed = survey(questions, cross=[PAIR, ["browser", "rebooted"], ["rebooted", "crashed"]])
    numbers = range(500)
    payload = b"".join(encode_report(crossed, symbols(crossed, n)) for n in numbers)
    cells = tally(crossed, payload, len(numbers))
    assert len(cells) == len(empty_cells(crossed)) == len(empty_cells(plain)) + 10 + 10 + 4
    assert cells[: len(empty_cells(plain))].tolist() == expected_cells(plain, numbers)
    whole = RoundTally(DECEMBER, len(numbers), cells)
    for pair in crossed.crossed:
        both = whole.crossed(crossed, pair)
        first, second = (whole.of(crossed, question)[1].tolist() for question in pair)
        assert (both.sum(1).tolist(), both.sum(0).tolist()) == (first, second)


def test_intervals_are_wider_while_a_round_is_open() -> None:
    asked = survey(BIT + choice(BROWSERS), cross=[PAIR])
    found = crowd(asked, 400)
    for once, again in zip(
        *(crossed(asked, found, looks)[0].rows for looks in (False, True)),
        strict=True,
    ):
        ends = (once.low, again.low, once.high, again.high, once.low_all, again.low_all)
        low, lower, high, higher, low_all, lower_all = (end or 0.0 for end in ends)
        assert lower < low < high < higher
        assert lower_all < low_all


def test_a_survey_that_crosses_nothing_keeps_its_layout_and_its_document() -> None:
    plain = survey(EACH_KIND)
    assert "cross" not in render_document(plain).decode()
    assert len(empty_cells(plain)) == len(expected_cells(plain, [1]))
    assert render_document(survey(EACH_KIND, cross=[])) == render_document(plain)


def test_a_document_survives_a_round_trip_and_crossing_costs_no_epsilon() -> None:
    plain, crossed = survey(EACH_KIND), survey(EACH_KIND, cross=[PAIR])
    assert parse_document(render_document(crossed)).cross == crossed.cross == (tuple(PAIR),)
    assert crossed.round_epsilon == plain.round_epsilon
    assert crossed.asks_the_same(plain)


MANY = choice(600, "k-randomized-response")


@pytest.mark.parametrize(
    ("questions", "cross", "more", "says"),
    [
        (EACH_KIND, [PAIR], {"ask": 1}, "ask = 1 gives one"),
        (
            EACH_KIND,
            [["crashed", "minutes"]],
            {},
            "'minutes' is a number; cross bits and",
        ),
        (EACH_KIND, [["crashed", "opera"]], {}, "no question is named 'opera'"),
        (EACH_KIND, [["crashed", "crashed"]], {}, "crossed with itself"),
        (EACH_KIND, [PAIR, PAIR[::-1]], {}, "are repeated"),
        (EACH_KIND, [PAIR] * 11, {}, "at most 10 pairs, got 11"),
        (EACH_KIND, PAIR, {}, "must be a list of pairs of names"),
        (EACH_KIND, [[*PAIR, "minutes"]], {}, "must be a list of pairs of names"),
        (BIT + MANY, [PAIR], {}, "have 1,200 combined counts, more than 1,024"),
    ],
)
def test_questions_that_cannot_be_crossed_are_refused_with_a_sentence(
    questions: str, cross: list[object], more: dict[str, object], says: str
) -> None:
    with pytest.raises(InvalidSurvey, match=says):
        survey(questions, cross=cross, **more)


def test_an_encoding_without_its_own_counter_is_counted_report_by_report() -> None:
    class Sets(BitSet):
        """Bit set that inherits everything."""

    class Other(Encoding):
        cells, limit, max_cells = 4, 16, 4
        cells_of, is_symbol = BitSet(4).cells_of, BitSet(4).is_symbol
        symbols, symbol_in = BitSet(4).symbols, BitSet(4).symbol_in
        to_json, from_json = BitSet(4).to_json, BitSet(4).from_json

    rows = np.arange(16, dtype=np.uint8).reshape(-1, 1)
    known = _counts(BitSet(4), Sets(4), rows, rows[::-1])
    assert _counts(Other(), BitSet(4), rows, rows[::-1]).tolist() == known.tolist()


def test_few_reports_have_no_estimate(here: World) -> None:
    found = results(here, filled(here, people=50))
    (each,) = found.rounds[0].cross or ()
    assert len(each.rows) == 2 * len(BROWSERS)
    assert {(row.estimate, row.note) for row in each.rows} == {
        (None, "no estimate below 100 reports")
    }


def test_csv_and_text_show_cross_tables(here: World, tmp_path: Path) -> None:
    published = filled(here)
    table = list(csv.DictReader(io.StringIO(csv_of(results(here, published)))))
    crossed = [row for row in table if row["kind"] == "cross"]
    assert {row["question"] for row in crossed} == {"crashed × browser"}
    assert len(crossed) == 2 * len(BROWSERS)
    assert all(row["estimate"] and not row["low_these"] and not row["epsilon"] for row in crossed)
    text = run("results", published.name, "--data", tmp_path / "data").stdout
    assert re.search("crashed × browser +no × firefox", text)
    assert "which adds no ε" in text


def test_a_page_shows_cross_tables(here: World) -> None:
    published = filled(here)
    client = here.client
    client.set_cookie(COOKIE, here.session(here.token("analyst")))
    page = client.get(f"/surveys/{published.id}?round={DECEMBER}").get_data(as_text=True)
    assert "<h3>crashed × browser</h3>" in page
    assert "yes × firefox" in page
    assert "costs no extra privacy" in page


def test_every_view_has_rates_within_each_answer(here: World, tmp_path: Path) -> None:
    """Half of Firefox's people crash, and none of Chrome's."""
    published = filled(here, epsilon="6")
    found = results(here, published)
    (table,) = found.rounds[0].cross or ()
    crashes, browsers = table.rates
    assert (crashes.question, crashes.within) == ("crashed", "browser")
    assert (browsers.question, browsers.within) == ("browser", "crashed")
    rows = {row.label: row for row in (*crashes.rows, *browsers.rows)}
    assert len(crashes.rows) == len(BROWSERS)
    assert len(browsers.rows) == 2 * len(BROWSERS)
    truths = {"yes × firefox": 0.5, "yes × chrome": 0, "firefox × yes": 1, "firefox × no": 3 / 7}
    for label, truth in truths.items():
        row = rows[label]
        ends = row.low_all, row.low, row.estimate, row.high, row.high_all
        assert [*ends] == sorted(end for end in ends if end is not None)
        assert abs((row.estimate or 0.0) - truth) < 0.1
        assert ((row.high_all or 1) - (row.low_all or 0)) < 0.2
    table_rows = csv.DictReader(io.StringIO(csv_of(found)))
    rates = [row for row in table_rows if row["kind"] == "rate"]
    assert [row["label"] for row in rates] == [row.label for row in (*crashes.rows, *browsers.rows)]
    assert {row["question"] for row in rates} == {
        "crashed within browser",
        "browser within crashed",
    }
    text = run("results", published.name, "--data", tmp_path / "data").stdout
    assert re.search("crashed within browser +yes × firefox", text)
    address = f"/surveys/{published.id}?round={DECEMBER}"
    page = here.client.get(address, headers=here.bearer("analyst")).text
    assert "<h4>crashed within browser</h4>" in page
    assert 'class="answer">yes: ' in page
    assert "of those who say" in page


def test_python_reads_cross_tables_and_rates(here: World) -> None:
    read = SurveyResults(results(here, filled(here)))
    shares, rates = read.estimate("crashed x browser"), read.estimate("crashed within browser")
    assert abs((shares["yes × firefox"].estimate or 0) - 0.3) < 0.1
    assert abs((rates["yes × firefox"].estimate or 0) - 0.5) < 0.1
    assert len([*read.estimate("browser within crashed")]) == 2 * len(BROWSERS)
    assert repr(rates).startswith(f"crashed within browser, round {DECEMBER}: yes × firefox ")
    with pytest.raises(Refused, match="has no question 'crashed x minutes'; its questions are cr"):
        read.estimate("crashed x minutes")


def test_an_answer_that_no_one_gives_has_no_rate_on_a_page(here: World) -> None:
    """No one gives three of the answers, so the rates within them may be anything."""
    published = filled(here, people=200, epsilon="1")
    (table,) = results(here, published).rounds[0].cross or ()
    unknown = [row for row in table.rates[0].rows if (row.low_all, row.high_all) == (0.0, 1.0)]
    assert len(unknown) >= 3
    address = f"/surveys/{published.id}?round={DECEMBER}"
    page = here.client.get(address, headers=here.bearer("analyst")).text
    assert page.count('– <span class="muted">0 to 100</span>') >= 3


def test_a_page_and_its_figures_estimate_each_cross_table_once(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    published, asked = filled(here), list[PairCounts]()

    def counted(pair: PairCounts, confidence: float, looks: bool) -> Joint:
        asked.append(pair)
        return joint(pair, confidence, looks)

    monkeypatch.setattr(round_details, "joint", counted)
    client = here.client
    client.set_cookie(COOKIE, here.session(here.token("analyst")))
    for path, so_far in (("/figures/crashed/round.svg", 1), ("", 1), ("", 1)):
        answer = client.get(f"/surveys/{published.id}{path}?round={DECEMBER}")
        assert (answer.status_code, len(asked)) == (200, so_far)


def test_the_cache_distinguishes_surveys_and_counts() -> None:
    """The two surveys have equal names but different ε.

    Each variant changes one kind of count.
    """
    one, other = (
        survey(BIT + choice(BROWSERS, epsilon=epsilon), cross=[PAIR]) for epsilon in ("1", "2")
    )
    found = crowd(one, 400)
    more = [
        replace(found, cells=found.cells + np.eye(len(found.cells), dtype=np.int64)[index])
        for index in (0, 2, 7)
    ]
    asked = [(one, tally, False) for tally in (found, *more, replace(found, reports=401))]
    asked += [(other, found, False), (one, found, True)]
    cache = EstimateCache()
    cached = [crossed(of, kept, looks, cache) for of, kept, looks in asked]
    assert cached == [crossed(of, kept, looks) for of, kept, looks in asked]
    assert cached == [crossed(of, kept, looks, cache) for of, kept, looks in asked]
    assert len(set(cached)) == len(asked)


def test_numbers_have_no_answer_labels_to_cross() -> None:
    assert all(not question.answer_labels for question in survey(NUMBER).questions)


def test_check_states_the_cost_of_crossing() -> None:
    said = describe(survey(EACH_KIND, cross=[PAIR]))
    assert "crashed and browser are also counted together, from the same reports: no extra ε" in (
        said
    )
