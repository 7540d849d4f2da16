"""Small groups: the shares that a plan can distinguish are exact, and the page agrees."""

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import msgspec
import numpy as np
import pytest

from deniable.server.estimation import ESTIMATORS
from deniable.server.estimation.statements import final_reading
from deniable.server.planning.experiment import POWER
from deniable.server.planning.forecast import plan, sentences
from deniable.server.planning.planned_question import asked, choose
from deniable.server.planning.small_groups import (
    MAX_PEOPLE,
    power,
    told_apart,
    told_apart_sentence,
)
from deniable.server.results import Results
from deniable.server.store import PublishedSurvey
from deniable.server.surveys.link_surveys import TEMPLATES
from deniable.server.surveys.survey_file import parse_survey_file
from deniable.shared.envelope import Envelope
from deniable.shared.privacy.epsilon import ONE
from deniable.shared.survey.document import DEFAULT_STEP
from deniable.shared.survey.kinds.base import ShareQuestion
from tests.eventually import eventually
from tests.server.test_operating import signed_in
from tests.server.world import NOON, World, world

SURE = final_reading("any-time").confidence


def question(kind: str = "bit", epsilon: str = "2", **values: int) -> ShareQuestion:
    made = choose(asked(kind, epsilon, values))
    assert isinstance(made, ShareQuestion)
    return made


def enumerated(of: ShareQuestion, people: int, share: Fraction, other: float) -> Fraction:
    """Return the power by exact sums over the intervals of the page's own estimator."""
    keep, lie = Fraction(of.mechanism.keep, ONE), Fraction(of.mechanism.lie, ONE)
    rate, total = lie + share * (keep - lie), Fraction(0)
    for count in range(people + 1):
        cells = np.array([people - count, count])
        (estimate,) = ESTIMATORS[of.estimation].estimates(of, cells, people, SURE)
        if not estimate.low <= other <= estimate.high:
            total += math.comb(people, count) * rate**count * (1 - rate) ** (people - count)
    return total


@pytest.mark.parametrize(("people", "epsilon"), [(10, "2"), (30, "1"), (30, "2"), (30, "4")])
def test_a_stated_pair_is_distinguished_and_a_closer_one_is_not(people: int, epsilon: str) -> None:
    of = question(epsilon=epsilon)
    pair = told_apart(of.mechanism, people, SURE)
    assert pair is not None
    low, high = (Fraction(round(100 * share), 100) for share in pair)
    near = (low + Fraction(5, 100), high - Fraction(5, 100))
    told, not_told = (
        min(enumerated(of, people, *(one, float(other))) for one, other in (ends, ends[::-1]))
        for ends in ((low, high), near)
    )
    assert told >= POWER > not_told


def test_the_sum_is_exact() -> None:
    of = question()
    exact = enumerated(of, 30, Fraction(25, 100), 0.75)
    assert power(of.mechanism, 30, 0.25, 0.75, SURE) == pytest.approx(float(exact), abs=1e-12)
    wrong = enumerated(of, 30, Fraction(30, 100), 0.75)
    assert power(of.mechanism, 30, 0.25, 0.75, SURE) != pytest.approx(float(wrong), abs=1e-3)


def test_too_few_people_distinguish_nothing() -> None:
    assert told_apart(question(epsilon="0.5").mechanism, 30, SURE) is None
    assert "cannot even tell 0 % from 100 %" in told_apart_sentence(30, "0.5", None)
    assert told_apart_sentence(1_000, "2", (0.45, 0.55)).endswith("tell 45 % from 55 %.")


def test_more_people_and_a_larger_epsilon_never_show_less() -> None:
    widths = [
        [
            1.0 if pair is None else pair[1] - pair[0]
            for people in (10, 30, 100, 1_000)
            for pair in [told_apart(question(epsilon=epsilon).mechanism, people, SURE)]
        ]
        for epsilon in ("0.5", "1", "2", "4")
    ]
    assert all(row == sorted(row, reverse=True) for row in widths)
    assert all(list(column) == sorted(column, reverse=True) for column in zip(*widths, strict=True))


def test_only_plans_of_shares_in_small_groups_state_the_pair() -> None:
    def lines(kind: str, people: int, **values: int) -> list[str]:
        forecast = plan(asked(kind, "2", values), people, None)
        assert ("told_apart" in forecast) == (kind != "number" and people <= MAX_PEOPLE)
        return sentences(forecast, "± {:.2f}".format)

    assert lines("bit", 30)[1] == (
        "With 30 people at ε 2 you can tell 25 % from 75 %, but not 30 % from 70 %."
    )
    assert any("you can tell" in line for line in lines("choice", 300, options=5))
    for words in (lines("bit", 10_000), lines("number", 30, low=0, high=10)):
        assert not any("you can tell" in line for line in words)


def test_the_planner_page_states_the_pair(tmp_path: Path) -> None:
    with world(tmp_path / "data") as here:
        page = signed_in(here, "analyst").get("/plan?kind=bit&epsilon=2&people=30")
    assert "With 30 people at ε 2 you can tell 25 % from 75 %, but not 30 % from 70 %." in page.text


@pytest.mark.parametrize("name", TEMPLATES)
def test_only_an_author_who_names_a_small_group_gets_a_small_step(name: str) -> None:
    assert TEMPLATES[name].step == DEFAULT_STEP
    assert replace(TEMPLATES[name], people=30).step < DEFAULT_STEP


def test_a_small_group_sees_estimates_as_early_as_its_template_says(tmp_path: Path) -> None:
    """30 people answer one by one. No estimate is early; then each step changes the page."""
    draft, shown = replace(TEMPLATES["yes-no"], people=30), list[int | None]()
    assert (draft.people, draft.step, draft.first_shown) == (30, 5, 18)
    with world(tmp_path, NOON, steps=True) as here:
        asked = here.publish(parse_survey_file(draft.toml(NOON.date())))
        for number in range(30):
            sent = Envelope(asked.id, 0, number.to_bytes(16), 1, b"\1")
            assert here.send(sent).json["accepted"] == 1
            eventually(lambda: is_considered(here, draft.step))
            (estimate,) = results(here, asked).rounds[0].questions["answer"]
            shown.append(None if estimate.estimate is None else estimate.reports)
        here.catalogue.close(asked)
        here.clock.pass_(hours=1)
        assert results(here, asked).rounds[0].questions["answer"][0].reports == 30
    assert shown == [*[None] * 17, *[12] * 6, *[18] * 6, 24]


def is_considered(here: World, step: int) -> bool:
    here.clock.pass_(seconds=2)
    return all(waiting < step // 2 for _, waiting in here.writer._upkeep._grown.values())


def results(here: World, asked: PublishedSurvey) -> Results:
    path, headers = f"/v1/surveys/{asked.id}/results", here.bearer("analyst")
    return msgspec.json.decode(here.client.get(path, headers=headers).data, type=Results)
