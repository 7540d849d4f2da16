"""Surveys with thousands of rounds: the cost does not depend on rounds that were not requested."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from deniable.server.results import survey_results
from deniable.server.results.survey_estimates import MAX_ROUNDS, select_rounds
from deniable.server.store import PublishedSurvey, RoundTally
from tests.server.surveys import survey
from tests.server.world import World, world

DAYS = 9_900
FIRST = date(2000, 1, 1)
LAST = FIRST + timedelta(days=DAYS - 1)
NEWEST = (LAST - date(1970, 1, 1)).days
NOW = datetime(2040, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, PublishedSurvey]]:
    """Publish a survey, and add reports to each of its rounds."""
    with world(tmp_path_factory.mktemp("many") / "data", NOW) as here:
        asked = here.publish(survey(round="day", opens=FIRST, closes=LAST, minimum_reports=1))
        with here.store.transaction() as transaction:
            for number in range(asked.survey.first_round, NEWEST + 1):
                transaction.add(asked.sequence, RoundTally(number, 100, np.array([40, 60])))
        yield here, asked


def get(here: World, path: str) -> Any:
    return here.client.get(path, headers=here.bearer("analyst"))


@pytest.mark.long
def test_a_response_has_the_newest_rounds_and_counts_the_others(
    many: tuple[World, PublishedSurvey],
) -> None:
    here, asked = many
    answer = get(here, f"/v1/surveys/{asked.id}/results")
    assert len(answer.data) < 2**20
    rounds = [round_["round"] for round_ in answer.json["rounds"]]
    assert rounds == list(range(NEWEST - MAX_ROUNDS + 1, NEWEST + 1))
    assert answer.json["left_out"] == DAYS - MAX_ROUNDS
    before = get(here, f"/v1/surveys/{asked.id}/results?until={rounds[0] - 1}").json
    assert before["rounds"][-1]["round"] == rounds[0] - 1
    some = get(here, f"/v1/surveys/{asked.id}/results?from=12000&until=12003").json
    assert [round_["round"] for round_ in some["rounds"]] == [12_000, 12_001, 12_002, 12_003]
    assert "left_out" not in some
    one = get(here, f"/v1/surveys/{asked.id}/results?round=12000").json
    assert [round_["reports"] for round_ in one["rounds"]] == [100]
    assert get(here, f"/v1/surveys/{asked.id}/results?round=1").status_code == 404
    assert get(here, f"/v1/surveys/{asked.id}/results?from=x").status_code == 400
    assert get(here, f"/v1/surveys/{asked.id}/results.csv").data.count(b"\n") == 1 + MAX_ROUNDS + 1


def test_a_page_lists_some_rounds_and_links_to_the_others(
    many: tuple[World, PublishedSurvey],
) -> None:
    """Following only the page's links leads back to the first round."""
    here, asked = many
    path, pages, seen = f"/surveys/{asked.id}", 0, set[int]()
    while path:
        page = get(here, path).text
        assert len(page) < 200_000
        found = [int(part.split('"')[0]) for part in page.split('href="?round=')[1:]]
        seen |= set(found)
        pages += 1
        more = "Earlier rounds" in page
        path = f"/surveys/{asked.id}?round={found[-1]}" if more and pages < 4 else ""
    assert pages == 4
    assert len(seen) > 500
    oldest = get(here, f"/surveys/{asked.id}?round={asked.survey.first_round}").text
    assert "Earlier rounds" not in oldest
    assert "Newest rounds" in oldest


@pytest.mark.long
def test_the_time_does_not_grow_with_rounds_that_were_not_requested(
    many: tuple[World, PublishedSurvey],
) -> None:
    """Compare CPU time with that of a survey whose rounds all fit into one response."""
    here, asked = many
    small = here.publish(
        survey(name="small", round="day", opens=LAST - timedelta(days=399), closes=LAST,
               minimum_reports=1)
    )  # fmt: skip
    with here.store.transaction() as transaction:
        for number in range(small.survey.first_round, NEWEST + 1):
            transaction.add(small.sequence, RoundTally(number, 100, np.array([40, 60])))

    def cost(of: PublishedSurvey) -> float:
        best = float("inf")
        for _ in range(4):
            begin = time.process_time()
            shown = select_rounds(of.survey, NOW)
            tallies = here.store.tallies(of.sequence, *shown.stored_range(of.survey))
            assert len(survey_results(of, tallies, NOW, None, shown).rounds) == MAX_ROUNDS
            best = min(best, time.process_time() - begin)
        return best

    assert cost(asked) < 4 * cost(small)


def test_a_window_of_rounds_is_bounded_and_within_the_survey() -> None:
    asked = survey(round="day", opens=FIRST, closes=LAST)
    first = asked.first_round
    assert select_rounds(asked, NOW).last == NEWEST
    assert select_rounds(asked, NOW, first, first + 9).left_out == 0
    early = datetime(1999, 6, 1, tzinfo=UTC)
    none = select_rounds(asked, early)
    assert none.last < none.first
    young = select_rounds(asked, datetime(2000, 1, 3, tzinfo=UTC))
    assert (young.first, young.last, young.left_out) == (first, first + 3, 0)
