"""Reconstruction attacks: they succeed on exact and lightly noised counts, not on real reports."""

import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from deniable.client.testing.fakes import FakeClient
from deniable.shared.privacy.epsilon import Epsilon
from deniable.simulations import simulate
from deniable.simulations.studies.attack import decode, family_variation, hidden
from tests.survey_texts import bit, survey_text


def test_exact_and_lightly_noised_counts_reveal_everyone() -> None:
    """Expect 100, 97.5, 86 and 65 % right guesses for 60 people and errors of 0, 2, 4 and 8.

    The figures come from few runs.
    """
    rows = simulate("attack", epsilon=1, off="0,2,8", wild=0, repetitions=8).rows
    found = [row for row in rows if (row["attack"], row["model"]) == ("reconstruct", "none")]
    assert found[0]["right"] == 1.0
    for row, stated in zip(found[1:], (0.975, 0.65), strict=True):
        assert float(str(row["measured"])) == pytest.approx(stated, abs=0.12)


def test_few_wild_counts_protect_no_one() -> None:
    """With a fifth of the counts at random, exact ones reveal everyone. Twin: 70 % of them."""
    rows = simulate("attack", epsilon=1, off=0, wild="0.2,0.7", repetitions=8).rows
    found = {row["wild"]: row for row in rows if row["wild"] is not None}
    assert found[0.2]["right"] == 1.0
    assert float(found[0.2]["right"] or 0) >= float(found[0.2]["at_least"] or 0) > 0.95
    assert float(found[0.7]["right"] or 0) < 0.9


@pytest.mark.parametrize(("wrong", "off"), [(1, 0), (3, 0), (4, 1), (7, 1)])
def test_the_bound_counts_the_subsets_that_hide_wrong_answers(wrong: int, off: int) -> None:
    """Enumerate the subsets of the wrong answers, for every mix of both errors.

    Twin: with smaller errors, fewer subsets hide them.
    """
    subsets = np.array(list(product((0, 1), repeat=wrong)))
    changes = [subsets @ ([1] * plus + [-1] * (wrong - plus)) for plus in range(wrong + 1)]
    hidden_by = max(float((abs(change) <= 2 * off).mean()) for change in changes)
    chances = np.sort(binom.pmf(np.arange(wrong + 1), wrong, 0.5))
    assert hidden_by == pytest.approx(chances[-(4 * off + 1) :].sum(), rel=1e-12)
    assert off == 0 or chances[-1] < hidden_by


def test_the_bound_grows_with_errors_and_wild_counts() -> None:
    assert [hidden(60, 240, off, 0) for off in (0, 1, 2, 4)] == [0, 12, 44, 60]
    assert [hidden(60, 240, 0, wild) for wild in (0, 0.1, 0.2, 0.3)] == [0, 0, 2, 32]


def test_reports_are_guessed_at_the_rate_of_their_table() -> None:
    rows = simulate("attack", epsilon="0.5,2", off=0, wild=0, people=200, repetitions=12).rows
    for row in rows:
        if (row["attack"], row["model"]) == ("reconstruct", "local"):
            epsilon = float(str(row["epsilon"]))
            assert row["exact"] == pytest.approx(math.exp(epsilon) / (1 + math.exp(epsilon)))
            assert abs(float(str(row["measured"])) - float(str(row["exact"]))) <= 6.5 * float(
                str(row["error"])
            )


@pytest.mark.parametrize(("epsilon", "family", "stated"), [("1", 1, 0.46212), ("1", 10, 0.870)])
def test_the_total_variation_of_a_family_is_that_of_two_binomials(
    epsilon: str, family: int, stated: float
) -> None:
    found = family_variation(Epsilon(epsilon), family)
    assert found == pytest.approx(stated, abs=5e-4)
    assert found <= math.tanh(family * float(epsilon) / 2) + 1e-12


def test_reports_of_a_real_client_cannot_be_reconstructed() -> None:
    """Attack 96 real clients with 384 counts of any of their reports.

    The counts reconstruct the reports, and nothing more. With 96 people at ε 1, more than 92 or
    fewer than 42 right guesses have probability below 1e-9.
    """
    survey = survey_text(bit()).encode()
    generator = np.random.default_rng(5)
    answers = generator.integers(0, 2, 96).astype(bool)
    reports = []
    for answer in answers:
        with FakeClient(survey) as client:
            client.consent(True)
            assert client.answer("app-health", crashed=bool(answer)).status == "queued"
            client.flush()
            (sent,) = client.server.sent
            reports.append(sent.symbols["crashed"])
    subsets = generator.integers(0, 2, (4 * 96, 96)).astype(float)
    found = decode(subsets, subsets @ np.array(reports))
    assert (found == np.array(reports)).all()
    assert 42 <= (found == answers).sum() <= 92
    assert (decode(subsets, subsets @ answers) == answers).all()  # twin: counts of answers
