"""Thousands of rounds: no answer and no page grows with those that nobody asks for."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from deniable.server.results import memory, survey_results
from deniable.server.results.remembered import Kept, Remembered
from deniable.server.results.window import MOST_ROUNDS, window
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
    """Each round has reports."""
    with world(tmp_path_factory.mktemp("many") / "data", NOW) as here:
        asked = here.publish(survey(round="day", opens=FIRST, closes=LAST, minimum_reports=1))
        with here.store.transaction() as transaction:
            for number in range(asked.survey.first_round, NEWEST + 1):
                transaction.add(asked.sequence, number, 100, np.array([40, 60]))
        yield here, asked


def get(here: World, path: str) -> Any:
    return here.client.get(path, headers=here.bearer("analyst"))


@pytest.mark.long
def test_an_answer_holds_the_newest_rounds_and_says_how_many_it_leaves_out(
    many: tuple[World, PublishedSurvey],
) -> None:
    here, asked = many
    answer = get(here, f"/v1/surveys/{asked.id}/results")
    assert len(answer.data) < 2**20
    rounds = [each["round"] for each in answer.json["rounds"]]
    assert rounds == list(range(NEWEST - MOST_ROUNDS + 1, NEWEST + 1))
    assert answer.json["left_out"] == DAYS - MOST_ROUNDS
    before = get(here, f"/v1/surveys/{asked.id}/results?until={rounds[0] - 1}").json
    assert before["rounds"][-1]["round"] == rounds[0] - 1
    some = get(here, f"/v1/surveys/{asked.id}/results?from=12000&until=12003").json
    assert [each["round"] for each in some["rounds"]] == [12_000, 12_001, 12_002, 12_003]
    assert "left_out" not in some
    one = get(here, f"/v1/surveys/{asked.id}/results?round=12000").json
    assert [each["reports"] for each in one["rounds"]] == [100]
    assert get(here, f"/v1/surveys/{asked.id}/results?round=1").status_code == 404
    assert get(here, f"/v1/surveys/{asked.id}/results?from=x").status_code == 400
    assert get(here, f"/v1/surveys/{asked.id}/results.csv").data.count(b"\n") <= MOST_ROUNDS + 1


def test_a_page_lists_some_rounds_and_leads_to_the_others(
    many: tuple[World, PublishedSurvey],
) -> None:
    """By its links alone one comes to the first round."""
    here, asked = many
    path, pages, seen = f"/surveys/{asked.id}", 0, set[int]()
    while path:
        page = get(here, path).text
        assert len(page) < 200_000
        found = [int(part.split('"')[0]) for part in page.split('href="?round=')[1:]]
        seen |= set(found)
        pages += 1
        more = "Rounds before these" in page
        path = f"/surveys/{asked.id}?round={found[-1]}" if more and pages < 4 else ""
    assert pages == 4
    assert len(seen) > 500
    oldest = get(here, f"/surveys/{asked.id}?round={asked.survey.first_round}").text
    assert "Rounds before these" not in oldest
    assert "The newest rounds" in oldest


@pytest.mark.long
def test_the_time_does_not_grow_with_rounds_that_nobody_asks_for(
    many: tuple[World, PublishedSurvey],
) -> None:
    """Beside a survey of as many rounds as an answer holds; in seconds of this process."""
    here, asked = many
    small = here.publish(
        survey(name="small", round="day", opens=LAST - timedelta(days=399), closes=LAST,
               minimum_reports=1)
    )  # fmt: skip
    with here.store.transaction() as transaction:
        for number in range(small.survey.first_round, NEWEST + 1):
            transaction.add(small.sequence, number, 100, np.array([40, 60]))

    def cost(of: PublishedSurvey) -> float:
        best = float("inf")
        for _ in range(4):
            begin = time.process_time()
            shown = window(of.survey, NOW)
            tallies = here.store.tallies(of.sequence, *shown.read(of.survey))
            assert len(survey_results(of, tallies, NOW, None, shown).rounds) == MOST_ROUNDS
            best = min(best, time.process_time() - begin)
        return best

    assert cost(asked) < 4 * cost(small)


def test_a_window_is_never_larger_and_never_outside() -> None:
    asked = survey(round="day", opens=FIRST, closes=LAST)
    first = asked.first_round
    assert window(asked, NOW).last == NEWEST
    assert window(asked, NOW, first, first + 9).left_out == 0
    early = datetime(1999, 6, 1, tzinfo=UTC)
    assert list(range(window(asked, early).first, window(asked, early).last + 1)) == []
    young = window(asked, datetime(2000, 1, 3, tzinfo=UTC))
    assert (young.first, young.last, young.left_out) == (first, first + 3, 0)


# Rounds that are remembered


def test_a_round_is_estimated_again_only_when_something_has_changed(here: World) -> None:
    asked = here.publish(survey(minimum_reports=1))
    made: list[int] = []

    def make(of: PublishedSurvey, numbers: Sequence[int], kept: Kept, now: datetime) -> Any:
        made.extend(numbers)
        return [rounds(of, kept, now)[number] for number in numbers]

    def rounds(of: PublishedSurvey, kept: Kept, now: datetime) -> dict[int, Any]:
        return {each.round: each for each in survey_results(of, kept.values(), now).rounds}

    remembered = Remembered()
    tallies = [RoundTally(683, 5, np.array(cells)) for cells in ([2, 3], [3, 2])]
    over = datetime(2027, 6, 1, tzinfo=UTC)
    for tally, now in ((tallies[0], NOW), (tallies[1], NOW), (tallies[0], over)):
        for _ in range(2):
            found = remembered.rounds(make, asked, [683], {683: tally}, now)
            assert found == [rounds(asked, {683: tally}, now)[683]]
    assert len(made) == 2
    kept: Kept = {}
    for earlier in tallies:  # the round before changes what is said of this one
        kept = {683: earlier, 684: RoundTally(684, 5, np.array([1, 4]))}
        for _ in range(2):
            found = remembered.rounds(make, asked, [684], kept, over)
            assert found == [rounds(asked, kept, over)[684]]
    assert made[2:] == [684, 684]
    both = remembered.rounds(make, asked, [684, 683, 685], kept, over)
    assert both == [rounds(asked, kept, over)[number] for number in (684, 683, 685)]
    assert made[4:] == [685], "what is known is not made again beside what is not"


def test_what_is_remembered_is_bounded(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MOST_ROWS", 100)
    asked, remembered = here.publish(survey(minimum_reports=1)), Remembered()
    (made,) = survey_results(asked, [], datetime(2026, 12, 2, tzinfo=UTC)).rounds[:1]
    for number in range(1_000):
        remembered.rounds(lambda *_: [made], asked, [number], {}, NOW)
    assert len(vars(vars(remembered)["_memory"])["_known"]) < 10
