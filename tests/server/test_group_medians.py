"""Medians over the values of a label: what forged reports in a minority of them cannot move."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deniable.server.estimation import ESTIMATORS
from deniable.server.http.context import COOKIE
from deniable.server.results import csv_chunks
from deniable.server.results.breakdown import medians
from deniable.server.results.document import ByLabel, Median, Row
from deniable.server.results.export import report_lines
from deniable.shared.privacy.epsilon import ONE
from tests.server.results_data import FIRST_ROUND, NOW
from tests.server.surveys import BIT, choice, survey, until_spring
from tests.server.test_label_results import drawn, results_of, tally_of
from tests.server.world import World
from tests.survey_texts import label

CHANNELS = ("play-store", "enterprise", "ci", "web", "kiosk", "tv", "car")
CHANNEL = label("channel", values=list(CHANNELS))
ASKED = survey(BIT + CHANNEL)
END_OF_FORGERY = 50.0  # far outside of what a forger can reach


def row(low: float, estimate: float, high: float, reports: int = 100) -> Row:
    ends = None, None, None, None, low, high
    return Row("", estimate, *ends, None, reports, estimate, None)


def median_of(rows: Sequence[Row]) -> Row:
    """Return the median of groups with these rows of a question with one label."""
    parts = [
        ByLabel(name="channel", value=value, reports=one.reports, questions={"crashed": (one,)})
        for value, one in zip(CHANNELS, rows, strict=False)
    ]
    (made,) = medians(ASKED, parts)
    assert made.groups == len(rows)
    (median,) = made.rows
    return median


def test_reports_that_name_no_value_are_not_a_group() -> None:
    """Anyone may send them, so with a leaked token a forger would have two groups of three."""
    rows = [row(0, 0.1, 1), row(0, 0.2, 1), row(48, END_OF_FORGERY, 52)]
    parts = [
        ByLabel(name="channel", value=value, reports=100, questions={"crashed": (one,)})
        for value, one in zip((*CHANNELS[:2], "other"), rows, strict=True)
    ]
    assert list(medians(ASKED, parts)) == []


# Guarantees

HONEST = st.tuples(*[st.floats(0, 1)] * 3).map(lambda shifts: (-shifts[0], shifts[2], shifts[1]))
FORGED = st.sampled_from([-END_OF_FORGERY, 0.0, END_OF_FORGERY])


@st.composite
def forgeries(draw: Any) -> tuple[list[Row], list[Row]]:
    """Return honest groups with the true value 0, and fewer forged groups."""
    honest = [
        row(low, middle, high)
        for low, middle, high in draw(st.lists(HONEST, min_size=2, max_size=4))
    ]
    ends = draw(st.lists(FORGED, min_size=1, max_size=len(honest) - 1))
    return honest, [row(end - 1, end, end + 1) for end in ends]


@given(forgeries())
def test_a_minority_of_forged_groups_moves_the_median_only_within_the_honest_ones(
    groups: tuple[list[Row], list[Row]],
) -> None:
    """The interval contains the honest groups' true value, if their own intervals do."""
    honest, forged = groups
    made, middles = median_of([*forged, *honest]), [one.estimate or 0.0 for one in honest]
    assert made.estimate is not None
    assert min(middles) <= made.estimate <= max(middles)
    assert made.low_all is not None
    assert made.high_all is not None
    assert made.low_all <= 0 <= made.high_all
    assert made.low_all <= made.high_all


def test_half_of_the_groups_can_move_the_median_anywhere() -> None:
    """Twin: the guarantee does not hold for half of the groups."""
    honest, forged = [row(-1, 0, 1)] * 2, [row(49, END_OF_FORGERY, 51)] * 2
    made = median_of([*honest, *forged])
    assert made.estimate == END_OF_FORGERY / 2
    made = median_of([*honest, *forged, forged[0]])
    assert made.low_all == 49


def test_groups_differ_only_if_two_of_their_intervals_are_apart() -> None:
    """With probability 95 %, all intervals contain a common true value and so overlap in pairs."""
    same = [row(0, 1, 2)] * 3
    assert median_of([*same, row(1.5, 3, 4)]).note is None
    assert "ci has" in str(median_of([*same[:2], row(2.5, 3, 4), *same]).note)


def coverage(confidence: float, share: float, reports: int = 14, groups: int = 3) -> float:
    """Return the exact probability that the interval contains the share of the honest groups.

    The worst forger adds one group fewer, all of them on the same side.
    """
    (question,) = ASKED.questions
    counts = np.arange(reports + 1)
    cells = np.stack([reports - counts, counts], axis=1)
    table = ESTIMATORS["shares"](question, cells, np.full(len(counts), reports))
    statements = table.statements(confidence, groups)
    low, high = statements.every
    rows = [
        row(float(ends[0]), float(ends[1]), float(ends[2]))
        for ends in zip(low[:, 0], statements.estimate[:, 0], high[:, 0], strict=True)
    ]
    mechanism: Any = question.mechanism
    rate = (share * mechanism.keep + (1 - share) * mechanism.lie) / ONE
    chance = [
        math.comb(reports, n) * rate**n * (1 - rate) ** (reports - n) for n in range(reports + 1)
    ]
    total = 0.0
    for members in combinations_with_replacement(range(reports + 1), groups):
        forged = [row(49, END_OF_FORGERY, 51)] * (groups - 1)
        made = median_of([*(rows[count] for count in members), *forged])
        assert made.low_all is not None
        assert made.high_all is not None
        orders = math.factorial(groups) // math.prod(
            math.factorial(members.count(n)) for n in {*members}
        )
        covered = made.low_all <= share <= made.high_all
        total += covered * orders * math.prod(chance[count] for count in members)
    return total


def test_the_interval_has_its_coverage_under_the_worst_forgery() -> None:
    """All outcomes of three honest groups are enumerated; narrower intervals fall short."""
    assert min(coverage(0.95, share) for share in (0.0, 0.2, 0.5, 1.0)) >= 0.95
    assert coverage(0.8, 0.5) < 0.95


# Results


PEOPLE = 20_000
FORGED_REPORTS = 3_000


def filled(here: World, forged: int, questions: str = BIT) -> Any:
    """Publish a survey, and add a round whose fifth group has this many forged reports."""
    asked = until_spring(questions + CHANNEL)
    published = here.publish(asked)
    groups = {}
    for number in range(5):
        counts = drawn(asked, PEOPLE, number)
        false = forged if number == 4 else 0
        counts[-1] += false  # each of them is a yes, or names the last option
        groups[0, bytes([number])] = np.concatenate([[PEOPLE + false], counts])
    whole = np.sum([*groups.values()], axis=0)
    with here.store.transaction() as transaction:
        transaction.add(published.sequence, tally_of(published, FIRST_ROUND, whole, groups))
    return published


def median_in(results: Any) -> Median:
    made: Median = results.rounds[0].medians[0]
    assert (made.by, made.groups) == ("channel", 5)
    return made


pytestmark = pytest.mark.at(NOW)


def test_honest_groups_agree(here: World) -> None:
    made = median_in(results_of(here, filled(here, 0)))
    assert [one.note for one in made.rows] == [None]
    assert made.rows[0].reports == 5 * PEOPLE


def test_a_forged_group_moves_the_estimate_but_not_the_median(here: World) -> None:
    results: Any = results_of(here, filled(here, FORGED_REPORTS))
    median: Any = median_in(results).rows[0]
    together: Any = results.rounds[0].questions["crashed"][0]
    truth = 1 / 3  # as `held` says
    assert median.low_all <= truth <= median.high_all
    assert together.low_all > truth
    parts = {part.value: part.questions["crashed"][0] for part in results.rounds[0].labels}
    others = [parts[name] for name in CHANNELS[:4]]
    without = sum(one.estimate * one.reports for one in others) / sum(one.reports for one in others)
    assert median.note is not None
    assert median.note.startswith(
        "the groups by channel differ by more than chance explains: kiosk"
    )
    assert f"without kiosk, the others together have {100 * without:.1f} %" in median.note
    assert f"instead of {100 * together.estimate:.1f} %" in median.note


def test_every_view_shows_the_median_and_the_disagreement(here: World) -> None:
    published = filled(here, FORGED_REPORTS)
    results = results_of(here, published)
    note = str(median_in(results).rows[0].note)
    lines = " ".join(" ".join(report_lines(results)).split())
    assert f"crashed: {note}." in lines
    assert "crashed, channel median of 5" in lines
    records = [*csv.DictReader(io.StringIO("".join(csv_chunks(results, results.rounds))))]
    (record,) = [one for one in records if one["value"] == "median of 5"]
    assert (record["by"], record["note"]) == ("channel", note)
    browser = here.client
    browser.set_cookie(COOKIE, here.session(here.token("analyst")))
    page = browser.get("/surveys/app-health").text
    assert note[1:] in page
    assert '<th scope="row">median of 5</th>' in page


def test_options_that_differ_are_named_and_counted(here: World) -> None:
    asked = choice(["de", "en", "fr", "it", "es", "pt"], "unary", name="languages", epsilon="2")
    published = here.publish(until_spring(asked + CHANNEL))
    groups = {}
    for number in range(3):
        counts = drawn(published.survey, PEOPLE, number) + (2_000 if number == 2 else 0)
        groups[0, bytes([number])] = np.concatenate([[PEOPLE + 2_000 * (number == 2)], counts])
    whole = np.sum([*groups.values()], axis=0)
    with here.store.transaction() as transaction:
        transaction.add(published.sequence, tally_of(published, FIRST_ROUND, whole, groups))
    results: Any = results_of(here, published)
    noted = [one.label for one in results.rounds[0].medians[0].rows if one.note]
    assert len(noted) > 4
    lines = " ".join(" ".join(report_lines(results)).split())
    assert f"languages: {noted[0]}: the groups by channel differ" in lines
    assert f"the groups also differ in {len(noted) - 3} other options." in lines


def test_two_groups_and_open_sets_have_no_median(here: World) -> None:
    """A forger could invent any number of values of an open set."""
    results = {}
    for name, of, values in (
        ("two", CHANNEL, [b"\0", b"\1"]),
        ("open", label("version", pattern="[0-9]"), [b"1", b"2", b"3", b"4"]),
        ("arms", label("search", arms=["a", "b", "c"]), [b"\0", b"\1", b"\2"]),
    ):
        published = here.publish(until_spring(BIT + of, name=name))
        groups = {
            (0, value): np.concatenate([[PEOPLE], drawn(published.survey, PEOPLE, number)])
            for number, value in enumerate(values)
        }
        whole = np.sum([*groups.values()], axis=0)
        with here.store.transaction() as transaction:
            transaction.add(published.sequence, tally_of(published, FIRST_ROUND, whole, groups))
        results[name] = results_of(here, published)
    for made in results.values():
        assert made.rounds[0].labels
        assert not made.rounds[0].medians
