"""Estimates are shown once their planned margin is small enough: `show_when` of a survey.

The gate depends on the survey, the number of reports and the looks alone, so the intervals of shown
estimates keep their coverage at every number of reports, exactly. Twin: a gate by the observed
margin selects estimates that look precise by chance.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import binom

from deniable.server.estimation.shares import population_limits
from deniable.server.estimation.statements import CONFIDENCE, Reading, RoundSize, final_reading
from deniable.server.planning.display_gate import ExpectedCross, at_worst, reports_needed
from deniable.server.planning.forecast import Expected
from deniable.server.results import SurveyEstimates, survey_results
from deniable.server.results.advice import describe
from deniable.server.results.document import Row
from deniable.server.results.survey_estimates import RoundSelection
from deniable.server.store import RoundTally
from deniable.server.store.records import SETTLING
from deniable.shared.errors import InvalidSurvey
from deniable.shared.privacy.epsilon import ONE
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.shared.survey.document import parse_document, parse_toml, render_document
from tests.server.results_data import FIRST_ROUND, NOW, add_round
from tests.server.surveys import BIT, EACH_KIND, until_spring
from tests.server.test_crossed import PAIR, crowd
from tests.server.test_dashboard import check_page
from tests.server.test_label_results import PLATFORM, fill
from tests.server.world import World
from tests.survey_texts import bit, survey_text

pytestmark = pytest.mark.at(NOW)

TEN = "± 10 points"
SHARES = (0.5, 0.1, 0.02)
WORST_AT_FEW = 0.02  # of the range: a margin depends on the number of reports in small steps

Array = npt.NDArray[np.float64]


def of_bit(reports: int, looks: bool) -> tuple[Array, Array, Array, Array]:
    """Return the limits and margins of all counts, and their law at each of the shares."""
    design = at_worst(until_spring(bit()).questions[0], Reading(any_time=looks)).question.mechanism  # type: ignore[union-attr]  # a bit has labels
    assert isinstance(design, RandomizedResponse)
    counts = np.arange(reports + 1)
    low, high = population_limits(design, counts, reports, CONFIDENCE, looks)
    keep, lie = design.keep / ONE, design.lie / ONE
    laws = [binom.pmf(counts, reports, lie + share * (keep - lie)) for share in SHARES]
    return low, high, (high - low) / 2, np.stack(laws)


def coverage(reports: int, looks: bool, shown: npt.NDArray[np.bool_]) -> list[float]:
    """Return the probability at each share that a shown interval contains it."""
    low, high, _, laws = of_bit(reports, looks)
    held = [(low <= share) & (share <= high) for share in SHARES]
    return [
        float(law[shown & holds].sum() / law[shown].sum())
        for law, holds in zip(laws, held, strict=True)
    ]


@pytest.mark.parametrize("looks", [False, True])
def test_shown_estimates_keep_their_coverage_at_every_number_of_reports(looks: bool) -> None:
    asked = until_spring(bit(), minimum_reports=1, show_when=TEN)
    needed = reports_needed(asked, at_worst(asked.questions[0], Reading(any_time=looks)))
    every = [*range(max(1, needed - 5), needed + 200), *range(needed + 200, 5 * needed, 97)]
    for reports in every:
        is_shown = np.full(reports + 1, reports >= needed)
        if is_shown.any():
            assert min(coverage(reports, looks, is_shown)) >= CONFIDENCE


@pytest.mark.parametrize("sizes", [(1, 1), (9, 1), (1,) * 12])
def test_a_period_needs_more_reports_than_a_round(sizes: tuple[int, ...]) -> None:
    """The planned margin of a period allows for the same people in all of its rounds.

    Twin: the reports that one round needs are too few for this margin.
    """
    asked = until_spring(EACH_KIND, minimum_reports=1, show_when=TEN)
    for question, looks in product(asked.questions, (False, True)):
        every = tuple(RoundSize(size, size) for size in sizes)
        alone, plan = (at_worst(question, Reading(any_time=looks), 1, of) for of in ((), every))
        assert plan is not None
        needed = reports_needed(asked, plan)
        limit = 0.1 * question.span
        assert plan.margin(needed) <= limit < plan.margin(needed - 1)
        assert plan.margin(reports_needed(asked, alone)) > limit


def test_a_period_is_shown_by_its_planned_margin(here: World) -> None:
    asked = until_spring(BIT, name="gate-period", minimum_reports=1, show_when=TEN)
    published, later = here.publish(asked), asked.taken_until(FIRST_ROUND + 1) + SETTLING
    once = reports_needed(asked, at_worst(asked.questions[0], final_reading(asked.looks)))
    both, shown = RoundSelection(FIRST_ROUND, FIRST_ROUND + 1), list[bool]()
    for rounds, reports in ((1, once), (2, once), (2, 2 * once)):
        part = reports // rounds
        tallies = [
            RoundTally(FIRST_ROUND + n, part, np.array([part - part // 4, part // 4]))
            for n in range(rounds)
        ]
        made = SurveyEstimates(published, tallies, later, both)
        (period,) = made.periods("all")
        shown.append(period.questions["crashed"][0].estimate is not None)
    assert shown == [True, False, True]


def test_a_gate_by_the_observed_margin_would_select() -> None:
    """The twin: at ε 1 and 466 reports, one estimate in ten is shown, and then covers .56."""
    _, _, margins, laws = of_bit(466, looks=False)
    observed = margins <= 0.1
    assert float(laws[0][observed].sum()) == pytest.approx(0.105, abs=0.001)
    assert coverage(466, False, observed)[0] == pytest.approx(0.56, abs=0.005)


def test_the_gate_opens_at_the_planned_margin_of_the_worst_share() -> None:
    asked = until_spring(EACH_KIND, minimum_reports=1, show_when=TEN)
    for question in asked.questions:
        for looks in (False, True):
            plan = at_worst(question, Reading(any_time=looks))
            assert plan is not None
            needed = reports_needed(asked, plan)
            limit = 0.1 * question.span
            assert plan.margin(needed) <= limit < plan.margin(needed - 1)
            for share in (None, 0.01, 0.3, 0.5, 0.7, 0.99):
                margin = Expected(question, share, looks=looks).margin(needed)
                assert margin <= limit * (1 + WORST_AT_FEW), (question.name, share)
            assert reports_needed(asked, at_worst(question, Reading(any_time=looks), 5)) >= needed
    assert reports_needed(until_spring(EACH_KIND, minimum_reports=7), None) == 7


def test_a_cross_is_planned_by_its_own_interval() -> None:
    """The margin of a pair of answers is that of the same counts on the page."""
    asked = until_spring(EACH_KIND, cross=[PAIR], minimum_reports=1, show_when=TEN)
    pair = asked.crossed[0]
    for looks in (False, True):
        plan = ExpectedCross(*pair, Reading(any_time=looks))
        needed = reports_needed(asked, plan)
        assert plan.margin(needed) <= 0.1 < plan.margin(needed - 1)
        singles = [
            reports_needed(asked, at_worst(question, Reading(any_time=looks))) for question in pair
        ]
        assert needed > max(singles)


def rows_of(here: World, reports: int, **changes: object) -> tuple[list[Row], str]:
    """Return the rows of all questions, and the page."""
    asked = until_spring(BIT, name=f"gate-{reports}", minimum_reports=1, **changes)
    published = here.publish(asked)
    add_round(here.store, published, FIRST_ROUND, [[reports - reports // 4, reports // 4]])
    (period,) = survey_results(
        published, here.store.tallies(published.sequence), NOW, FIRST_ROUND
    ).rounds
    headers = here.bearer("analyst")
    page = here.client.get(f"/surveys/{published.id}?round={FIRST_ROUND}", headers=headers).text
    return list(period.questions["crashed"]), page


def test_a_page_states_how_many_reports_are_missing(here: World) -> None:
    asked = until_spring(BIT, minimum_reports=1, show_when=TEN)
    needed = reports_needed(asked, at_worst(asked.questions[0], final_reading(asked.looks)))
    (row,), page = rows_of(here, 300, show_when=TEN)
    found = re.fullmatch(
        r"too few yet: ± (\d+) points now, ± 10 points at ([\d,]+) reports", row.note or ""
    )
    assert found
    assert int(found[2].replace(",", "")) == needed
    assert int(found[1]) == pytest.approx(10 * (needed / 300) ** 0.5, rel=0.05)
    assert (row.note or "")[1:] in page
    assert (row.estimate, row.low) == (None, None)
    assert "say yes, between" not in page
    (row,), page = rows_of(here, needed, show_when=TEN)
    assert row.estimate is not None
    assert "say yes, between" in page
    assert "too few yet" not in page
    (row,), _ = rows_of(here, 301)
    assert row.estimate is not None, "without the key, only the count matters"


def test_values_of_a_label_and_crosses_have_gates_of_their_own(here: World) -> None:
    """Intervals of values hold jointly, so a value needs more reports than a round."""
    asked = until_spring(BIT + PLATFORM, minimum_reports=1, show_when=TEN)
    alone = reports_needed(asked, at_worst(asked.questions[0], final_reading(asked.looks)))
    groups = {(0, b"\0"): 2 * alone, (0, b"\1"): alone + 1}
    published = fill(here, asked, groups)
    (period,) = survey_results(published, here.store.tallies(published.sequence), NOW).rounds[:1]
    by_value = {part.value: part.questions["crashed"][0] for part in period.labels or ()}
    assert period.questions["crashed"][0].estimate is not None
    assert by_value["linux"].estimate is not None
    assert (by_value["mac"].note or "").startswith("too few yet: ± 11 points now, ")
    headers = here.bearer("analyst")
    response = here.client.get(f"/surveys/{published.id}?round={FIRST_ROUND}", headers=headers)
    check_page(response)
    assert f"T{(by_value['mac'].note or '')[1:]}." in response.text
    crossed = until_spring(EACH_KIND, cross=[PAIR], minimum_reports=1, show_when=TEN)
    tally: RoundTally = crowd(crossed, 1_500)
    made = here.publish(crossed)
    (period,) = survey_results(made, [replace(tally, round=FIRST_ROUND)], NOW).rounds[:1]
    (table,) = period.cross or ()
    assert {row.estimate for row in table.rows} == {None}
    assert all((row.note or "").startswith("too few yet: ") for row in table.rows)
    with here.store.transaction() as transaction:
        transaction.add(made.sequence, replace(tally, round=FIRST_ROUND))
    response = here.client.get(f"/surveys/{made.id}?round={FIRST_ROUND}", headers=headers)
    check_page(response)
    assert f"T{(table.rows[0].note or '')[1:]}." in response.text


def test_check_states_how_many_reports_an_estimate_needs() -> None:
    asked = until_spring(BIT, show_when=TEN)
    read = final_reading(asked.looks)
    needed, early = (
        reports_needed(asked, at_worst(asked.questions[0], read._replace(any_time=looks)))
        for looks in (False, True)
    )
    both = f"; shown from {early:,} reports, or from {needed:,} once the round is final: until"
    assert both in "\n".join(describe(asked))
    once = until_spring(BIT, show_when=TEN, looks="once")
    needed = reports_needed(once, at_worst(once.questions[0], final_reading("once")))
    assert f"; shown from {needed:,} reports)" in "\n".join(describe(once))
    assert "shown from" not in "\n".join(describe(until_spring(BIT)))


def test_the_key_is_kept_in_the_document_and_has_a_default() -> None:
    asked = until_spring(BIT, show_when=TEN)
    assert asked.show_when == 10
    document = render_document(asked)
    assert render_document(parse_document(document)) == document
    own = survey_text(BIT).replace("minimum_reports = 1\n", "")
    assert (parse_toml(own).show_when, parse_toml(own).minimum_reports) == (25, 100)
    assert f'"show_when": "{TEN}"'.encode() in document
    plain = until_spring(BIT)
    assert plain.show_when is None, "with `minimum_reports`, only the count matters"
    assert b"show_when" not in render_document(plain)


@pytest.mark.parametrize("text", ["10", "± 0 points", "± 51 points", "±10 points", "± 1.5 points"])
def test_other_margins_are_refused(text: str) -> None:
    with pytest.raises(InvalidSurvey, match="show_when: must be"):
        until_spring(BIT, show_when=text)
