"""Error from asking each person one of three questions, compared with asking all three at ε / 3.

Both surveys spend ε 0.5 in a round. The same fixed people answer both, with fresh noise in each
round. Their answers go through the survey's own randomizers, in real envelopes, to a real server;
some people use a complete `Client`. The measure is the mean squared error of the server's estimates
against the truth about these people, over all rounds and questions.

V is the variance of one report's estimate at its ε, n the number of people, and f the share who
hold the value:

    splitting     V(ε / 3) / n
    asking one    E[V(ε) / n' + f (1 - f) (n - n') / ((n - 1) n')],    n' ~ Binomial(n, 1 / 3)
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from deniable.client import Client, Policy
from deniable.shared.envelope import CONTENT_TYPE, Envelope, encode_report
from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.mechanism import kernel_draw
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.shared.survey.document import Survey, parse_toml
from deniable.simulations.demo.server_process import RunningServer, running_server
from tests.bench.measure import Measurement
from tests.command import deniable
from tests.survey_texts import bit, survey_text

PEOPLE, ROUNDS, DEVICES = 300, 360, 40
SHARES = {"crashed": 0.07, "slow": 0.3, "liked": 0.5}
WHOLE, THIRDS = "0.5", ("0.166666667", "0.166666667", "0.166666666")
TODAY = datetime.now(UTC).date()


def measurements() -> Iterator[Measurement]:
    split = text("split", THIRDS)
    one = text("one", (WHOLE,) * 3, ask=1)
    with TemporaryDirectory() as folder:
        found = [measured(Path(folder), survey) for survey in (one, split)]
    errors = ROUNDS * len(SHARES)
    formula = asking_one() / splitting()
    yield Measurement(
        f"squared error of 3 shares at round ε {WHOLE}, one question asked, compared with ε split",
        1e4 * found[0],
        1e4 * found[1],
        "points²",
        limit=formula * (1 + 5 * (4 / errors) ** 0.5),
        note=f"by formula {1e4 * asking_one():.4g} against {1e4 * splitting():.4g}: "
        f"{formula:.3f} times; {errors:,} estimates from {ROUNDS * PEOPLE:,} reports each, "
        f"{DEVICES} more by whole clients",
    )


def text(name: str, epsilons: Sequence[str], **more: object) -> str:
    """Return a survey with a round for each day of a year, all of which still accept reports."""
    questions = "".join(
        bit(*share_and_epsilon) for share_and_epsilon in zip(SHARES, epsilons, strict=True)
    )
    days = {"opens": TODAY - timedelta(days=ROUNDS), "closes": TODAY, "round": "day"}
    return survey_text(questions, name=name, grace_days=366, **days, **more)


def measured(folder: Path, toml: str) -> float:
    """Return the mean squared error of the estimates of every round but today's."""
    survey = parse_toml(toml)
    data, file = folder / survey.name, folder / f"{survey.name}.toml"
    file.write_text(toml)
    published = deniable("survey", "publish", str(file), "--data", str(data))
    token = deniable("token", "create", "--role", "app", "--data", str(data))["token"]
    with running_server(data) as server:
        play_rounds(server, survey, published["id"], token)
        play_devices(server, survey, published["key"], folder)
        rounds = deniable("results", survey.name, "--data", str(data))["rounds"]
    assert sum(round_["reports"] for round_ in rounds) == ROUNDS * PEOPLE + DEVICES
    return float(np.mean([error for round_ in rounds[:-1] for error in errors_of(round_)]))


def errors_of(period: dict[str, Any]) -> Iterator[float]:
    for name, (row,) in period["questions"].items():
        yield (row["estimate"] - SHARES[name]) ** 2


def play_rounds(server: RunningServer, survey: Survey, identifier: str, token: str) -> None:
    import requests

    with requests.Session() as session:
        session.headers.update({"Authorization": f"Bearer {token}", "Content-Type": CONTENT_TYPE})
        for number in range(survey.first_round, survey.last_round):
            payload = b"".join(
                encode_report(survey, survey.report(answers(person), kernel_draw).symbols)
                for person in range(PEOPLE)
            )
            envelope = Envelope(identifier, number, os.urandom(16), PEOPLE, payload)
            answer = session.post(f"{server.url}/v1/envelopes", data=envelope.pack(), timeout=30)
            assert answer.json()["accepted"] == PEOPLE, answer.text


def play_devices(server: RunningServer, survey: Survey, key: str, folder: Path) -> None:
    policy = Policy(
        keys=[key], max_epsilon_per_round=WHOLE, max_epsilon_per_survey=WHOLE, per="lifetime"
    )
    for person in range(DEVICES):
        client = Client(server.url, policy=policy, state=folder / f"{survey.name}-{person}")
        client.consent(True)
        assert client.answer(survey.name, **answers(person)).status == "queued"
        assert client.flush(30) == 0
        client.close()


def answers(person: int) -> dict[str, object]:
    """Return answers in which the first people say yes; the order does not affect an estimate."""
    return {name: person < round(share * PEOPLE) for name, share in SHARES.items()}


def variance(epsilon: str) -> float:
    """Return the variance of one report's estimate, for a fixed person."""
    table = RandomizedResponse(Epsilon(epsilon))
    keep, lie = table.keep / ONE, table.lie / ONE
    return keep * lie / (keep - lie) ** 2


def splitting() -> float:
    return float(np.mean([variance(epsilon) for epsilon in THIRDS])) / PEOPLE


def asking_one() -> float:
    from scipy.stats import binom

    asked = np.arange(1, PEOPLE + 1)
    probabilities = binom.pmf(asked, PEOPLE, 1 / len(SHARES))
    spread = np.mean([share * (1 - share) for share in SHARES.values()])
    each = variance(WHOLE) / asked + spread * (PEOPLE - asked) / ((PEOPLE - 1) * asked)
    return float(probabilities @ each)
