"""Every mechanism in the table, end to end; a new one needs no further test.

The path has the device, bytes, JSON, server, tally, estimate, page, simulator and vectors.
"""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deniable.client import Client, Policy
from deniable.client.net.transport import Reply
from deniable.server.store import PublishedSurvey
from deniable.shared.envelope import Envelope, encode_report, json_envelope
from deniable.shared.privacy import mechanisms as table
from deniable.shared.privacy.encodings import UNIT, Grouped, WholeNumber
from deniable.shared.privacy.epsilon import ONE
from deniable.shared.privacy.mechanism import (
    DEPENDENT,
    INDEPENDENT,
    MULTINOMIAL,
    SUMS,
    Mechanism,
    kernel_draw,
)
from deniable.shared.privacy.mechanisms import KRandomizedResponse, mechanisms
from deniable.shared.privacy.verification import grid
from deniable.shared.survey.document import parse_toml
from deniable.shared.survey.kinds import KINDS
from deniable.simulations.engine.study import STUDIES, load
from deniable.simulations.population import fixed
from tests.asked import ANSWERS, survey
from tests.server.surveys import PUBLIC
from tests.server.world import JSON, World, world
from tests.survey_texts import bit

VECTORS = Path(__file__).parent.parent / "vectors"
DECEMBER = 683
REPORTS = 300


@pytest.fixture
def here(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path / "server") as made:
        yield made


class InProcess:
    """Transport that carries a client's requests to the application in this process."""

    def __init__(self, world: World) -> None:
        self._world = world

    def request(
        self, method: str, path: str, body: bytes | None, content_type: str | None, timeout: float
    ) -> Reply:
        answer = self._world.client.open(path, method=method, data=body, content_type=content_type)
        return Reply(answer.status_code, answer.data)


OTHER = bit("other", "0.5")  # the second question, if one of two is asked


def walk(name: str, here: World, folder: Path, other: str = "") -> None:
    """Run a question that uses mechanism `name` from the devices to the results page.

    The question is alone, or each install draws either this question or `other`.
    """
    ask = "\nask = 1\n" if other else "\n"
    published = here.publish(parse_toml(survey([name]).replace("\n", ask, 1) + other))
    assert published.survey.asks_one == bool(other)
    asked = published.survey.questions[0]
    assert (asked.mechanism.name, asked.kind) == (name, mechanisms()[name].kind)
    answer_on_a_device(here, published, folder)
    draw = random.Random(20261118).getrandbits
    symbols = [asked.report(ANSWERS[asked.kind][0], draw)[0] for _ in range(REPORTS)]
    send_in_both_encodings(here, published, symbols)
    ((number, (reports, kept)),) = here.tallies(published).items()
    assert (number, reports) == (DECEMBER, REPORTS + 1)
    cells, more = kept[: asked.mechanism.cells], kept[asked.mechanism.cells :]
    assert more == ([0, 0, REPORTS + 1, 0] if other else [])
    counted = np.zeros(asked.mechanism.cells, dtype=np.int64)
    for symbol in symbols:
        for cell, amount in asked.mechanism.encoding.amounts(symbol):
            counted[cell] += amount
    on_device = np.array(cells) - counted
    assert asked.mechanism.joint != MULTINOMIAL or on_device.sum() == 1
    assert set(on_device) <= {0, 1} or is_a_codeword(asked, on_device)
    check_results(here, published, np.array(cells), reports)


def is_a_codeword(asked: Any, added: np.ndarray[Any, Any]) -> bool:
    """Return True if one report adds a direction of length one, and its squares, to the cells."""
    whole, squares = added.reshape(2, asked.mechanism.dimension) / UNIT
    return bool(np.allclose([whole @ whole, squares.sum(), *squares], [1, 1, *whole**2], atol=1e-4))


def answer_on_a_device(here: World, published: PublishedSurvey, folder: Path) -> None:
    asked, *others = published.survey.questions
    first = iter([0] if others else [])
    policy = Policy(
        keys=[PUBLIC], max_epsilon_per_round="8", max_epsilon_per_survey="8", per="lifetime"
    )
    client = Client(
        "https://stats.example.org",
        policy=policy,
        state=folder / "device",
        now=here.clock.now,
        draw=lambda bits: next(first, kernel_draw(bits)),
        transport=InProcess(here),
    )
    client.consent(True)
    answers = {question.name: ANSWERS[question.kind][0] for question in (asked, *others)}
    outcome = client.answer(published.name, **answers)
    assert outcome.status == "queued", outcome
    assert client.flush(30) == 0
    client.close()


def send_in_both_encodings(here: World, published: PublishedSurvey, symbols: list[int]) -> None:
    """Send half of the reports in each encoding; impossible payloads must be refused."""
    asked, *others = published.survey.questions
    payloads = [
        encode_report(published.survey, [symbol, *(None for _ in others)]) for symbol in symbols
    ]
    half = len(payloads) // 2
    packed = envelope(published, 1, payloads[:half])
    named = json_envelope(published.survey, envelope(published, 2, payloads[half:]))
    token = here.bearer("app")
    assert here.post(packed.pack(), headers=token).json["accepted"] == half
    twin = json.dumps({"envelopes": [named]})
    sent = here.post(twin.encode(), JSON, headers=token)
    assert sent.json["accepted"] == len(payloads) - half
    for number, wrong in enumerate(bad_payloads(asked.mechanism.name), 3):
        bad = b"\0" + wrong if others else wrong
        for reports in ([bad], [*payloads[:5], bad]):
            refused = here.post(envelope(published, number, reports).pack(), headers=token)
            assert [refusal["code"] for refusal in refused.json["refused"]] == ["bad-payload"]
        named = {"survey": published.id, "round": DECEMBER, "id": f"{number:032x}"}
        named |= {"reports": [{asked.name: as_json(asked.mechanism, wrong)}]}
        sent = here.post(json.dumps({"envelopes": [named]}).encode(), JSON, headers=token)
        assert [refusal["code"] for refusal in sent.json["refused"]] == ["bad-payload"]


def bad_payloads(name: str) -> list[bytes]:
    """Return payloads that this mechanism cannot send, at the sizes of `tests.asked`."""
    (asked,) = parse_toml(survey([name])).questions
    size, is_symbol = asked.mechanism.payload_size, asked.mechanism.encoding.is_symbol
    whole = 256**size
    if isinstance(asked.mechanism.encoding, Grouped):
        # An unknown group, or a valid group with an invalid symbol: all bits set, or none.
        payloads = [
            b"\xff" * size,
            b"\xff" + bytes(size - 1),
            b"\0" + b"\xff" * (size - 1),
            bytes(size),
        ]
        return [payload for payload in payloads if not is_symbol(int.from_bytes(payload, "little"))]
    if whole > 65_536:  # the smallest and the largest invalid number
        wrong = [asked.mechanism.symbols, whole - 1]
        assert is_symbol(wrong[0] - 1)
    else:
        wrong = [n for n in range(whole) if not is_symbol(n)]
    assert not any(map(is_symbol, wrong))
    return [n.to_bytes(size, "little") for n in wrong[:3] + wrong[-3:]]


def as_json(mechanism: Mechanism, payload: bytes) -> int | str:
    """Return an impossible payload in its JSON form."""
    number = int.from_bytes(payload, "little")
    hexadecimal = isinstance(mechanism.encoding.to_json(0), str)
    return payload.hex() if hexadecimal else number


def envelope(published: PublishedSurvey, number: int, payloads: list[bytes]) -> Envelope:
    identifier = number.to_bytes(16, "big")
    return Envelope(published.id, DECEMBER, identifier, len(payloads), b"".join(payloads))


def check_results(
    here: World, published: PublishedSurvey, cells: np.ndarray[Any, Any], reports: int
) -> None:
    asked = published.survey.questions[0]
    analyst = here.bearer("analyst")
    answer = here.client.get(
        f"/v1/surveys/{published.id}/results?round={DECEMBER}", headers=analyst
    )
    rows = answer.json["rounds"][0]["questions"][asked.name]
    check_rows(asked, rows, cells, reports)
    page = here.client.get(f"/surveys/{published.id}", headers=analyst)
    assert page.status_code == 200
    assert asked.mechanism.name in page.text
    if asked.labels and "interval covers almost all possible values" not in page.text:
        assert ("<svg" in page.text) == (rows[0]["estimate"] is not None)


def check_rows(asked: Any, rows: Any, cells: np.ndarray[Any, Any], reports: int) -> None:
    """Check the rows of results.

    Texts have no labels in advance; with enough reports, the answered text is found.
    """
    if not asked.labels:
        nothing = [(row["label"], row["note"]) for row in rows] == [
            ("", "no answer is common enough to be found")
        ]
        assert nothing or all(row["label"] and row["low"] < row["high"] for row in rows)
        return
    assert [row["label"] for row in rows] == list(asked.labels)
    for answer, row in enumerate(rows):
        assert row["low"] < row["estimate"] < row["high"]
        assert row["reports"] == reports
        assert row["standard_error"] > 0
        assert row["estimate"] == pytest.approx(unbiased(asked, cells, answer, reports), rel=1e-9)


def unbiased(asked: Any, cells: np.ndarray[Any, Any], place: int, reports: int) -> float:
    """Estimate with nothing but the mechanism's tables.

    They state how many reports support an option that is true, and an option that is not.
    """
    mechanism = asked.mechanism
    if asked.statistic == "coordinate":
        return float(cells[place] / (UNIT * mechanism.gain * reports))
    if asked.statistic == "mean":
        low, high = asked.range
        values = np.array([float(value) for value in mechanism.values]) / mechanism.steps
        return float(low + (high - low) * (cells @ values) / reports)
    option = place + asked.first_label
    speaking = [c for c in range(mechanism.cells) if option in mechanism.supported_by(c)]
    true, false = (
        sum(mechanism.rate(cell, answer) for cell in speaking) / ONE
        for answer in (option, (option + 1) % mechanism.answers)
    )
    return float((cells[speaking].sum() / reports - false) / (true - false))


@pytest.mark.parametrize("name", mechanisms())
def test_every_mechanism_works_end_to_end(name: str, here: World, tmp_path: Path) -> None:
    walk(name, here, tmp_path)


@pytest.mark.parametrize("name", mechanisms())
def test_every_mechanism_works_end_to_end_with_ask_1(
    name: str, here: World, tmp_path: Path
) -> None:
    walk(name, here, tmp_path, OTHER)


@cache
def proofs() -> Counter[str]:
    """Return the number of certificates for each mechanism."""
    return Counter(proof.name for proof in grid())


@pytest.mark.parametrize("name", mechanisms())
def test_every_mechanism_is_certified_simulated_and_has_vectors(name: str) -> None:
    assert proofs()[name] >= 16
    for file in ("mechanisms.json", "encodings.json"):
        assert name in {
            vector["mechanism"] for vector in json.loads((VECTORS / file).read_text())
        }, f"{file}: add some by python -m tests.vectors.make"
    mechanism = mechanisms()[name]
    made = mechanism(next(grid()).epsilon, mechanism.proved_sizes[0])
    tallies = fixed(made, [5] * made.answers, 7, np.random.default_rng(1))
    assert tallies.counts.shape == (7, made.cells)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind in ("number", "choice")])
def test_the_study_of_a_kind_has_every_mechanism_for_it(kind: str) -> None:
    """The study `bit` covers the only mechanism for bits; texts use the mechanisms for choices.

    There is no such study for vectors.
    """
    study = {"number": "mean", "choice": "histogram"}[kind]
    assert study in STUDIES
    (shown,) = (option.default for option in load(study).options if option.name == "mechanisms")
    assert set(shown.split(",")) == set(mechanisms(kind))


def test_the_walk_covers_every_dependence_between_cells() -> None:
    walked = [parse_toml(survey([name])).questions[0].mechanism.joint for name in mechanisms()]
    assert set(walked) == {MULTINOMIAL, INDEPENDENT, DEPENDENT, SUMS}


# Adding a mechanism takes only its file and one line


class Shouted(WholeNumber):
    """Encoding that the server cannot count in vectorized form; its symbols are odd numbers."""

    @property
    def limit(self) -> int:
        return 2 * self.cells

    def is_symbol(self, number: int) -> bool:
        return 0 <= number < self.limit and number % 2 == 1

    def symbols(self) -> Iterator[int]:
        return iter(range(1, self.limit, 2))

    def cells_of(self, symbol: int) -> Iterator[int]:
        yield symbol // 2


class ShoutedResponse(KRandomizedResponse):
    name = label = "shouted"

    def __init__(self, epsilon: Any, options: int) -> None:
        super().__init__(epsilon, options)
        self.encoding = Shouted(options)

    def randomize(self, answer: int, draw: Callable[[int], int]) -> int:
        return 2 * super().randomize(answer, draw) + 1

    def weight(self, symbol: int, answer: int) -> Any:
        return super().weight(symbol // 2, answer)


def test_one_class_and_one_line_add_a_mechanism(
    here: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "DESIGNS", [*table.DESIGNS, ShoutedResponse])
    walk("shouted", here, tmp_path)
    assert "shouted" in {proof.name for proof in grid()}
