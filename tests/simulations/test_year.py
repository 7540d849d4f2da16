"""Year of an app: estimates stay right if rounds are drawn in advance, and otherwise do not."""

from datetime import timedelta

import numpy as np

from deniable.simulations import simulate
from deniable.simulations.studies.survey.year import (
    AS_IT_COMES,
    DRAWN,
    FIRST_MONDAY,
    MIN_COVERED,
    POLICIES,
    WEEKS,
    Installs,
    answered_weeks,
)

CELL = {"people": 300, "replaced": 0.02, "new": 0.12, "old": 0.03}


def test_estimates_stay_right_for_a_year_if_rounds_are_drawn_in_advance() -> None:
    """False alarm below 1e-9. The twin spends the same budget as it comes, and fails."""
    found = simulate("year", on="local", people=12_000)
    covered = {
        policy: [int(row["covered"] or 0) for row in found.rows if row["policy"] == policy]
        for policy in POLICIES
    }
    assert {len(weeks) for weeks in covered.values()} == {WEEKS}
    assert sum(covered[DRAWN]) >= MIN_COVERED
    assert sum(covered[AS_IT_COMES]) < MIN_COVERED
    drawn, biased = found.report.findings
    assert "as it should" in drawn
    assert "so the estimates are biased" in biased


def test_fewer_weeks_than_the_bound_have_a_probability_below_1e_9() -> None:
    from scipy.stats import binom

    assert binom.cdf(MIN_COVERED - 1, WEEKS, 0.95) < 1e-9


def test_the_study_draws_the_rounds_that_the_policy_of_the_client_draws() -> None:
    installs = Installs({**CELL, "policy": DRAWN}, np.random.default_rng(7))
    survey, counted = installs.survey, []
    for number in range(26):
        monday = FIRST_MONDAY + timedelta(weeks=number)
        round_ = survey.round_of(monday)
        answering = installs._answering(round_, monday)
        expected = [
            next(installs.policy.answered_rounds(survey, round_, key)) == round_
            for key in installs.keys
        ]
        assert answering.tolist() == expected
        counted.append(answering)
    assert set(np.array(counted[:13]).sum(axis=0).tolist()) == {2}
    assert set(np.array(counted[13:]).sum(axis=0).tolist()) == {2}


def test_a_budget_that_is_spent_as_it_comes_lasts_four_weeks() -> None:
    """ε 8 pays for three weeks of 2 and a month of 1, and one more ε of the first survey."""
    assert answered_weeks(FIRST_MONDAY) == 4
