"""Three hundred small surveys through wire format, intake and results: intervals cover the truth.

Each is one round of a daily survey, with people drawn from a seed of its own. The probability that
the 95 % confidence intervals of one estimate cover fewer than 264 of 300 truths is P[Binomial(300,
0.95) < 264] < 1e-6. The surveys have one look, after their grace: each interval has 95 %.
"""

import copy
import random
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from statistics import NormalDist
from typing import Any

import pytest
from scipy.stats import binom

from deniable.shared.envelope import Envelope, encode_report
from deniable.shared.survey.document import Survey, parse_toml, render_document
from deniable.simulations.demo.crowd import Person, make_crowd, truths
from tests.end_to_end.inside import Inside, inside
from tests.survey_texts import bit, choice, number, survey_text

DEMOS, PEOPLE, GRACE_DAYS = 300, 250, 366
LEAST_COVERED = 264  # 88 %
NOW = datetime(2026, 10, 28, 12, tzinfo=UTC)
SURVEY = survey_text(
    bit(epsilon="0.5")
    + number(epsilon="2")
    + choice(["firefox", "chrome", "safari", "edge", "other"], "unary"),
    name="miniature",
    opens=date(2026, 1, 1),
    closes=date(2026, 10, 27),
    round="day",
    grace_days=GRACE_DAYS,
    minimum_reports=100,
    looks="once",
)


def envelope(survey: Survey, identifier: str, number: int, crowd: Sequence[Person]) -> Envelope:
    draw = random.Random(number).getrandbits
    reports = [
        encode_report(survey, survey.report(person.answers, draw).symbols) for person in crowd
    ]
    id_ = number.to_bytes(16, "little")
    return Envelope(identifier, number, id_, len(reports), b"".join(reports))


def send(server: Inside, envelope: Envelope) -> None:
    answer = server.send(envelope.pack(), role="app")
    assert answer.get_json() == {"accepted": envelope.count, "duplicates": 0, "refused": []}


def test_the_false_alarm_bound_is_the_stated_one() -> None:
    assert binom.cdf(LEAST_COVERED - 1, DEMOS, 0.95) < 1e-6


@pytest.fixture(scope="module")
def rounds(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Return the results of all rounds, as the API sends them."""
    survey = parse_toml(SURVEY)
    assert survey.rounds == DEMOS
    with inside(tmp_path_factory.mktemp("miniature") / "data", NOW) as server:
        identifier = server.publish(render_document(survey))
        for number, crowd in enumerate(crowds(), survey.first_round):
            send(server, envelope(survey, identifier, number, crowd))
        server.world.clock.pass_(days=GRACE_DAYS + 1)
        results: list[dict[str, Any]] = server.results(identifier)["rounds"]
    return results


def crowds(first: int = 0) -> list[list[Person]]:
    return [make_crowd(PEOPLE, seed) for seed in range(first, first + DEMOS)]


@pytest.mark.long
def test_intervals_cover_the_truth_end_to_end(rounds: list[dict[str, Any]]) -> None:
    covered = coverage(rounds, [truths(crowd) for crowd in crowds()])
    assert len(covered) == 7
    assert min(covered.values()) >= LEAST_COVERED, covered


@pytest.mark.long
def test_the_check_detects_the_truth_of_another_crowd(rounds: list[dict[str, Any]]) -> None:
    """Twin: the truths come from the crowd of a neighbouring round."""
    own = coverage(rounds, [truths(crowd) for crowd in crowds()])
    other = coverage(rounds, [truths(crowd) for crowd in crowds(1)])
    assert other.total() < own.total()


@pytest.mark.long
def test_the_check_detects_intervals_that_are_too_short(rounds: list[dict[str, Any]]) -> None:
    """Twin: intervals of half the length cover too few truths, for every estimate."""
    short = copy.deepcopy(rounds)
    for row in (row for one in short for rows in one["questions"].values() for row in rows):
        quarter = (row["high"] - row["low"]) / 4
        row["low"], row["high"] = row["low"] + quarter, row["high"] - quarter
    covered = coverage(short, [truths(crowd) for crowd in crowds()])
    assert max(covered.values()) < LEAST_COVERED


def coverage(
    rounds: list[dict[str, Any]], true: list[dict[str, dict[str, float]]]
) -> Counter[tuple[str, str]]:
    """Count the rounds in which the interval of each estimate contains the truth."""
    covered: Counter[tuple[str, str]] = Counter()
    for one, truth in zip(rounds, true, strict=True):
        assert one["reports"] == PEOPLE
        for name, rows in one["questions"].items():
            for row in rows:
                label = row["label"]
                covered[name, label] += row["low"] <= truth[name][label] <= row["high"]
    return covered


@pytest.mark.parametrize("people", [10_000, 40_000])
def test_intervals_of_many_reports_are_hardly_wider_than_normal(
    tmp_path: Path, people: int
) -> None:
    """The length must be 0.9 to 1.3 times that of the normal approximation."""
    survey = parse_toml(SURVEY)
    with inside(tmp_path / "data", NOW) as server:
        identifier = server.publish(render_document(survey))
        crowd = make_crowd(people, 1)
        send(server, envelope(survey, identifier, survey.last_round, crowd))
        server.world.clock.pass_(days=GRACE_DAYS + 1)
        rows = server.results(identifier)["rounds"][-1]["questions"]
    normal = 2 * NormalDist().inv_cdf(0.975)
    for row in (row for part in rows.values() for row in part):
        ratio = (row["high"] - row["low"]) / (normal * row["standard_error"])
        assert 0.9 < ratio < 1.3, (row, ratio)
