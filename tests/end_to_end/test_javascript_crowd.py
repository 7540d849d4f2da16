"""Crowd of JavaScript clients with a real server: reports have the stated distribution."""

import json
import subprocess
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import requests

from deniable.shared.privacy.epsilon import ONE
from deniable.shared.survey.document import Survey, parse_document
from deniable.simulations.demo.crowd import Person, make_crowd, truths
from deniable.simulations.demo.server_process import running_server
from tests.command import asked_json
from tests.node import NODE
from tests.plausible import assert_implausible, assert_plausible
from tests.server.released import all_results
from tests.survey_texts import ALWAYS, bit, choice, number, survey_text

pytestmark = pytest.mark.long

PEOPLE = 2_000
HIGH = 120  # minutes
TOML = survey_text(
    bit(epsilon="0.5")
    + number(0, HIGH, "one-bit-mean", epsilon="1")
    + choice(["firefox", "chrome", "safari", "edge", "other"], None, epsilon="0.5"),
    name="crowd",
    **ALWAYS,
)
CROWD = Path(__file__).with_name("crowd.mjs")


@pytest.fixture(scope="module")
def asked() -> tuple[list[Person], Survey, dict[str, dict[str, float]]]:
    """Return the people, the survey, and the estimates by label."""
    people = make_crowd(PEOPLE, seed=7)
    with TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "survey.toml").write_text(TOML)
        data = folder / "data"
        asked_json("survey", "publish", str(folder / "survey.toml"), "--data", str(data))
        with running_server(data) as server:
            (entry,) = requests.get(f"{server.url}/v1/surveys", timeout=5).json()["surveys"]
            install(server.url, entry["key"], folder / "installs", people)
        results = all_results("crowd", data)["rounds"][-1]
    assert results["reports"] == PEOPLE
    estimates = {
        question: {row["label"]: row["estimate"] for row in rows}
        for question, rows in results["questions"].items()
    }
    return people, parse_document(entry["document"].encode()), estimates


def install(url: str, key: str, folder: Path, people: list[Person]) -> None:
    questions = {"crashed": "bit", "minutes": "number", "browser": "choice"}
    settings: dict[str, Any] = {"server": url, "key": key, "survey": "crowd", "folder": str(folder)}
    settings |= {"questions": questions, "people": [person.answers for person in people]}
    done = subprocess.run(
        [NODE, str(CROWD)], input=json.dumps(settings), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def rates(survey: Survey, values: dict[str, dict[str, float]]) -> dict[tuple[str, str], float]:
    """Return the probability that a report counts for a label, given these true values."""
    found = {}
    for question in survey.questions:
        low, high = question.range
        for number_of, label in enumerate(question.labels, question.first_label):
            cell = 1 if question.statistic == "mean" else number_of
            share = (values[question.name][label] - low) / (high - low)
            keep, lie = (question.mechanism.rate(cell, n) for n in (cell, (cell + 1) % 2))
            found[question.name, label] = (lie + share * (keep - lie)) / ONE
    return found


def test_a_crowd_s_reports_follow_from_its_answers(asked: Any) -> None:
    """Check seven counts, each with a false-alarm probability of at most 1e-9."""
    people, survey, estimates = asked
    stated = rates(survey, truths(people))
    for label, observed in rates(survey, estimates).items():
        assert_plausible(round(observed * PEOPLE), PEOPLE, stated[label])


def test_the_test_above_can_fail(asked: Any) -> None:
    """Twin: the same reports do not fit a crowd with the opposite answers."""
    people, survey, estimates = asked
    others = [Person(not person.crashed, HIGH - person.minutes, "safari") for person in people]
    assert fmean(person.minutes for person in others) > HIGH / 2
    stated = rates(survey, truths(others))
    observed = rates(survey, estimates)
    for label in [("crashed", "yes"), ("minutes", "mean"), ("browser", "safari")]:
        assert_implausible(round(observed[label] * PEOPLE), PEOPLE, stated[label])
