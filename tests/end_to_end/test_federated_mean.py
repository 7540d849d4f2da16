"""Training of a small model by mean gradients, over several rounds.

It uses the code of the recipe, a real client, the device's randomizer for the crowd, and the
server's HTTP interface.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

from deniable.client import Client, Policy
from deniable.server.store import PublishedSurvey
from deniable.shared.envelope import Envelope, encode_report
from deniable.shared.survey.document import parse_toml
from tests.end_to_end.test_every_mechanism import InProcess
from tests.server.surveys import PUBLIC
from tests.server.world import NOON, World, world
from tests.survey_texts import survey_text, vector

RECIPES = Path(__file__).resolve().parents[2] / "client" / "RECIPES.md"
TRUE = np.array([2.0, -3.0, 1.0, 0.0, 4.0])
ROUNDS, PEOPLE = 5, 1_500
FIRST = NOON.date() - timedelta(days=ROUNDS - 1)
Person = tuple[list[float], bool]


def shown() -> dict[str, Callable[..., Any]]:
    section = RECIPES.read_text("utf-8").partition("## A federated mean")[2]
    names: dict[str, Any] = {}
    for code in re.findall(r"```python\n(.*?)```", section.partition("\n## ")[0], re.DOTALL):
        exec(code, names)
    return names


def crowd(rng: np.random.Generator, people: int) -> list[Person]:
    """Return people with features of length 1 and whether they clicked, by the true weights."""
    features = rng.normal(size=(people, len(TRUE)))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    clicked = rng.random(people) < 1 / (1 + np.exp(-4 * features @ TRUE))
    return list(zip(features.tolist(), clicked.tolist(), strict=True))


def accuracy(weights: list[float], people: list[Person]) -> float:
    features = np.array([person for person, _ in people])
    return float(((features @ weights > 0) == [clicked for _, clicked in people]).mean())


def test_a_model_is_trained_without_anyone_s_gradient(tmp_path: Path) -> None:
    """Each round has different people.

    At ε 2 and 1,500 people per round, the accuracy is within four points of that with true
    gradients, and far above one half, the accuracy of a guess.
    """
    code, rng = shown(), np.random.default_rng(20261118)
    test = crowd(rng, 4_000)
    weights, direct = [0.0] * len(TRUE), [0.0] * len(TRUE)
    with world(tmp_path / "server") as here:
        published = here.publish(parse_toml(training()))
        for number in range(published.survey.first_round, published.survey.last_round + 1):
            people = crowd(rng, PEOPLE)
            one_device(here, published, tmp_path / str(number), code, weights, people[0], number)
            send(here, published, number, [code["gradient"](weights, *person) for person in people])
            weights = code["step"](weights, results(here, published, number))
            mean = np.mean([code["gradient"](direct, *person) for person in people], axis=0)
            direct = [weight - 8.0 * slope for weight, slope in zip(direct, mean, strict=True)]
    reached, without_noise = accuracy(weights, test), accuracy(direct, test)
    print(f"{reached:.3f} of {len(test):,} are right, {without_noise:.3f} without noise")
    assert without_noise > 0.85
    assert reached > without_noise - 0.04


def training() -> str:
    return survey_text(
        vector(len(TRUE), epsilon="2"),
        name="training",
        opens=FIRST,
        closes=NOON.date(),
        round="day",
    )


def one_device(
    here: World, published: PublishedSurvey, folder: Path, code: dict[str, Any],
    weights: list[float], person: Person, number: int,
) -> None:  # fmt: skip
    """Let one person's client answer on this day, with the call of the recipe."""
    policy = Policy(keys=[PUBLIC], questions={"gradient": "vector"}, per="lifetime")
    day = NOON + timedelta(days=number - published.survey.last_round)
    client = Client(
        "https://stats.example.org", policy=policy, state=folder, now=lambda: day,
        transport=InProcess(here),
    )  # fmt: skip
    client.consent(True)
    outcome = code["contribute"](client, weights, *person)
    assert (outcome.status, outcome.unfit) == ("queued", ())
    assert client.flush(30) == 0
    client.close()


def send(here: World, published: PublishedSurvey, number: int, gradients: list[Any]) -> None:
    survey, draw = published.survey, random.Random(number).getrandbits
    symbols = [survey.questions[0].report(gradient, draw) for gradient in gradients]
    assert all(fits for _, fits in symbols)
    payload = b"".join(encode_report(survey, [symbol]) for symbol, _ in symbols)
    envelope = Envelope(published.id, number, number.to_bytes(16), len(symbols), payload)
    assert here.send(envelope, app=True).json["accepted"] == len(symbols)


def results(here: World, published: PublishedSurvey, number: int) -> Any:
    address = f"/v1/surveys/{published.id}/results?round={number}"
    found = here.client.get(address, headers=here.bearer("analyst")).json
    (period,) = found["rounds"]
    assert period["reports"] == PEOPLE + 1
    whole = period["vectors"]["gradient"]
    expected = 1 / (found["about"]["gradient"]["gain"] * math.sqrt(PEOPLE))
    assert 0.8 * expected < whole["error"] <= expected
    return found
