"""Results of a round: identical to the last bit, whichever rounds share its batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import cache

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deniable.server.estimation import mean_limits
from deniable.server.estimation.roots import brent
from deniable.server.results import SurveyEstimates, estimate_cache
from deniable.server.store import PublishedSurvey, RoundTally
from deniable.shared.survey.document import Survey
from deniable.simulations.population import fixed
from tests.server.surveys import EACH_KIND, choice, survey
from tests.survey_texts import bit, number, vector

Array = npt.NDArray[np.float64]
Search = Callable[[Array], Array]

OPENS = date(2026, 12, 1)
SIZES = (3, 199, 200, 201, 260, 40, 900, 20_000, 0, 201, 150, 5_000)
# The last five rounds are open.
NOW = datetime.combine(OPENS + timedelta(days=10), datetime.min.time(), UTC)
SURVEYS = {
    "each kind": EACH_KIND,
    "few lies": bit(epsilon="8") + choice(40, epsilon="6"),
    "symbols that speak for many": choice(13, "projective-geometry", epsilon="2"),
    "sets": choice(20, "unary", epsilon="3") + choice(16, "subset-selection", name="set"),
    "fine tables": number(-10, 120.5, "local-laplace", epsilon="4", grid=64),
    "distributions": number(mechanism="square-wave", epsilon="4"),
    "vectors": vector(5),
    "crossed": bit() + choice(5),
}


@cache
def asked(name: str) -> tuple[PublishedSurvey, Mapping[int, RoundTally]]:
    """Return a survey of twelve rounds, one of which has no report."""
    rng, last = np.random.default_rng(len(name)), OPENS + timedelta(days=len(SIZES) - 1)
    crossed: dict[str, object] = {"cross": [["crashed", "browser"]]} if name == "crossed" else {}
    days: dict[str, object] = {"round": "day", "opens": OPENS, "closes": last, "grace_days": 3}
    of = survey(SURVEYS[name], minimum_reports=3, **days, **crossed)
    kept = {
        number: RoundTally(number, size, tallied(of, size, rng))
        for number, size in enumerate(SIZES, of.first_round)
        if size
    }
    return PublishedSurvey(1, "a" * 64, b"", "", "", None, survey=of), kept


def tallied(of: Survey, size: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Draw people's answers, then the noise; crossed questions get random counts."""
    if of.cross:
        both = rng.multinomial(size, rng.dirichlet([1] * 10)).reshape(2, 5)
        return np.concatenate([both.sum(1), both.sum(0), both.ravel()])
    designs = [question.mechanism for question in of.questions]
    people = [rng.multinomial(size, rng.dirichlet([0.3] * design.answers)) for design in designs]
    pairs = zip(designs, people, strict=True)
    return np.concatenate([fixed(design, held, 1, rng).counts[0] for design, held in pairs])


def encoded(
    name: str, numbers: Sequence[int], cells: int = estimate_cache.MAX_CELLS_PER_BATCH
) -> dict[int, bytes]:
    """Return each round as JSON, estimated in batches of at most `cells` cells, with an empty
    cache.
    """
    published, tallies = asked(name)
    estimates = SurveyEstimates(published, tallies.values(), NOW)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(estimate_cache, "MAX_CELLS_PER_BATCH", cells)
        made = estimates.estimated(numbers)
    return {results.round: msgspec.json.encode(results) for results in made}


def all_of_them(name: str) -> range:
    first = asked(name)[0].survey.first_round
    return range(first, first + len(SIZES))


whole = cache(lambda name: encoded(name, all_of_them(name)))


@pytest.mark.parametrize("name", SURVEYS)
@settings(max_examples=6)
@given(
    days=st.lists(st.sampled_from(range(len(SIZES))), min_size=1, unique=True),
    most=st.sampled_from([1, 100, 2**17]),
)
def test_results_do_not_depend_on_the_order_of_rounds(
    name: str, days: list[int], most: int
) -> None:
    numbers = [all_of_them(name)[day] for day in days]
    assert encoded(name, numbers, most) == {number: whole(name)[number] for number in numbers}


@pytest.mark.parametrize("name", SURVEYS)
def test_a_round_estimated_alone_has_the_same_results(name: str) -> None:
    alone = [encoded(name, [number]) for number in all_of_them(name)]
    assert {
        number: encoded_round for one in alone for number, encoded_round in one.items()
    } == whole(name)


def test_a_search_that_depends_on_its_batch_fails_the_same_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Twin: a search whose precision drops as more means share it."""

    def searched(function: Search, low: Array, high: Array, width: float) -> Array:
        return brent(function, low, high, width * len(low))

    monkeypatch.setattr(mean_limits, "brent", searched)
    numbers = all_of_them("each kind")
    together = encoded("each kind", numbers)
    assert any(encoded("each kind", [number])[number] != together[number] for number in numbers)
