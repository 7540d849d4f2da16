"""People that an experiment needs: reference values, and the exact power of the page's interval."""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest

from deniable.server.estimation.statements import disjoint
from deniable.server.planning.experiment import experiment
from deniable.server.planning.planned_question import read
from tests.command import run
from tests.server.estimation.test_groups import binomial, group, questions
from tests.server.world import world

EFFECTS = (
    ("10%", "1 point"),
    ("10%", "2 points"),
    ("10%", "5%"),
    ("50%", "0.02"),
    ("0.02", "0.01"),
)
PEOPLE = {
    "0.5": (1_686_090, 421_932, 67_700, 437_904, 1_656_838),
    "1": (426_450, 107_022, 17_314, 122_994, 397_198),
    "2": (115_574, 29_304, 4_878, 45_274, 86_322),
    "4": (47_482, 12_280, 2_156, 28_252, 18_230),
}
OPENLY = (39_494, 10_284, 1_836, 26_254, 10_242)


@pytest.mark.parametrize("epsilon", PEOPLE)
def test_people_needed_equal_the_reference_values(epsilon: str) -> None:
    question = read({"name": "it", "kind": "bit", "epsilon": epsilon})
    made = [experiment(question, effect, share) for share, effect in EFFECTS]
    assert tuple(test["people"] for test in made) == PEOPLE[epsilon]
    assert tuple(test["people_asked_openly"] for test in made) == OPENLY


@pytest.mark.parametrize(
    ("epsilon", "share", "effect"),
    [("1", 0.1, 0.05), ("2", 0.1, 0.05), ("4", 0.1, 0.02), ("4", 0.5, 0.02), ("4", 0.02, 0.01)],
)
def test_the_interval_of_a_page_finds_the_effect_with_nearly_the_planned_power(
    epsilon: str, share: float, effect: float
) -> None:
    """Sum the probability that the interval excludes 0, over all counts of both arms."""
    asked = read({"name": "it", "kind": "bit", "epsilon": epsilon})
    people = experiment(asked, str(effect), str(share))["people"] // 2
    question, label, keep, lie = questions(epsilon)[0]
    sides, chances = [], []
    for held in (share + effect, share):
        counts, chance = binomial(people, lie + held * (keep - lie))
        sides.append(group(question, label, people, counts, 0.95))
        chances.append(chance)
    power = 0.0
    for first in range(0, len(sides[0]), 500):
        rows = slice(first, first + 500)
        low, _ = disjoint(sides[0][rows, None], sides[1][None], looks=False, confidence=0.95)[1]
        power += float(chances[0][rows] @ (low[..., 0] > 0) @ chances[1])
    assert 0.87 < power < 0.905


def test_a_number_needs_more_people_for_a_smaller_effect() -> None:
    """For a mean the variance is the same in both arms, so the formula is that of Neyman."""
    asked = read({"name": "it", "kind": "number", "low": 0, "high": 120, "epsilon": "1"})
    variance = 60**2 * (asked.mechanism.n_variance() + asked.mechanism.variances(None)[0] * 4)
    exact = 2 * variance * (1.959964 + 1.281552) ** 2 / 4
    assert experiment(asked, "2")["people"] == 2 * int(np.ceil(exact))
    assert experiment(asked, "-1")["people"] == pytest.approx(8 * exact, rel=1e-3)


def test_the_command_plans_an_experiment() -> None:
    words = ("plan", "--kind", "bit", "--epsilon", "1", "--share", "10%", "--effect", "2 points")
    text = run(*words, "--looks", "once").stdout
    assert "To detect a change from 10 % to 12 % you need 107,022 people, half of them in" in text
    more = re.search(r"you need ([0-9,]+) people, half .* 2.5 % two-sided once", run(*words).stdout)
    assert more
    ratio = ((NormalDist().inv_cdf(0.9875) + 1.2816) / (1.96 + 1.2816)) ** 2
    assert int(more[1].replace(",", "")) == pytest.approx(107_022 * ratio, rel=1e-3)
    assert "(power 90 %, 5 % two-sided). Asked openly, 10,284 would do." in text
    made = json.loads(run(*words, "--looks", "once", "--json").stdout)
    assert (made["people"], made["experiment"]["people"]) == (107_022, 107_022)


def test_the_page_plans_an_experiment(tmp_path: Path) -> None:
    query = "kind=bit&epsilon=1&share=10%25&effect=2+points&looks=once"
    with world(tmp_path / "data") as here:
        analyst, client = here.bearer("analyst"), here.client
        page = client.get(f"/plan?{query}", headers=analyst)
        assert page.status_code == 200
        assert "To detect a change from 10 % to 12 % you need 107,022 people" in page.text
        made = client.get(f"/plan.json?{query}", headers=analyst).json
        assert made["experiment"]["people_asked_openly"] == 10_284
        wrong = client.get("/plan?kind=bit&effect=2+points", headers=analyst)
        assert wrong.status_code == 400
        assert "Give the share in the first arm" in wrong.text


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("--kind bit --effect 0.02", "give the share in the first arm"),
        ("--kind bit --share 10% --effect large", "write a number"),
        ("--kind bit --share 99% --effect 2%", "both arms need a share"),
        ("--kind bit --share 10% --effect 0", "at least a millionth of it"),
        ("--kind bit --share 10% --effect 1e-200", "at least a millionth of it"),
        ("--kind number --low 0 --high 10 --effect 11", "within the question's range"),
        ("--kind vector --dimension 3 --effect 0.1", "cannot be planned for a vector"),
    ],
)
def test_effects_that_cannot_be_planned_are_refused(words: str, problem: str) -> None:
    done = run("plan", *words.split())
    assert done.returncode == 2
    assert problem in done.stderr
