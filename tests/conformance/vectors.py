"""Checks of the vectors, draw by draw, for clients that support these operations.

They are `randomize`, `integers`, `question`, `place`, `round`, `participation` and `envelope_id`.

A client may draw in any way that has the right probabilities. If it replies `unsupported` to every
vector of an operation, the check does not apply.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from deniable.shared.privacy.mechanisms import mechanisms
from deniable.shared.survey.document import PERIODS, parse_toml, render_document
from tests.conformance.claims import check
from tests.conformance.device import Broken, Device, NotOffered, Stage
from tests.survey_texts import YEARS, bit, survey_text

FOLDER = Path(__file__).parent.parent / "vectors"


def read(file: str) -> Any:  # JSON
    return json.loads((FOLDER / file).read_text())


def told(stage: Stage, op: str, key: str, vectors: Iterable[dict[str, Any]]) -> None:
    stage.devices.append(Device(stage.command))
    compared = 0
    for vector in vectors:
        asked = {name: value for name, value in vector.items() if name not in RESULTS[op]}
        reply = stage.ask(op, **asked)
        if "unsupported" in reply:  # the operation or the mechanism is not supported
            continue
        if reply.get(key) != vector[key]:
            raise Broken(f"{op} of {asked}: {reply}, expected {vector[key]!r}")
        compared += 1
    if not compared:
        raise NotOffered(op)


RESULTS = {
    "randomize": ("symbol", "payload"),
    "integers": ("integers", "symbols", "bad_payloads"),
    "question": ("question",),
    "envelope_id": ("id",),
    "place": ("placed",),
    "round": ("round", "accepted_until", "period"),
    "participation": ("drawn", "day", "quarter", "rounds", "count"),
}


def is_given(vector: dict[str, Any]) -> bool:
    """Return whether its integers come with a survey instead of a formula."""
    return mechanisms()[vector["mechanism"]].given


@check("vectors")
def the_same_random_bytes_give_the_same_symbol(stage: Stage) -> None:
    given = {
        vector["mechanism"]: {"integers": vector["integers"]}
        for vector in filter(is_given, read("encodings.json"))
    }
    vectors = read("mechanisms.json")
    told(
        stage,
        "randomize",
        "payload",
        [vector | given.get(vector["mechanism"], {}) for vector in vectors],
    )


@check("vectors")
def integers_equal_those_of_the_vectors(stage: Stage) -> None:
    vectors = [vector for vector in read("encodings.json") if not is_given(vector)]
    told(stage, "integers", "integers", vectors)


@check("vectors")
def the_same_random_bytes_draw_the_same_question(stage: Stage) -> None:
    survey = read("survey_ask_one.json")
    vectors = [vector | {"document": survey["document"]} for vector in survey["drawn"]]
    told(stage, "question", "question", vectors)


@check("vectors")
def texts_are_hashed_into_the_buckets_of_the_vectors(stage: Stage) -> None:
    told(stage, "place", "placed", read("texts.json"))


@check("vectors")
def days_are_in_the_rounds_of_the_vectors(stage: Stage) -> None:
    """Check every period of the table, each of which has vectors."""
    vectors = read("rounds.json")
    if missing := PERIODS.keys() - {vector["period"] for vector in vectors}:
        raise Broken(f"no vectors for {missing}: run python -m tests.vectors.make")
    documents = {
        period: render_document(parse_toml(survey_text(bit(), round=period, **YEARS))).decode()
        for period in PERIODS
    }
    dated = [vector | {"document": documents[vector["period"]]} for vector in vectors]
    told(stage, "round", "round", dated)
    told(stage, "round", "accepted_until", dated)


@check("vectors")
def rounds_are_drawn_as_in_the_vectors(stage: Stage) -> None:
    told(stage, "participation", "drawn", read("participation.json"))


@check("vectors")
def envelope_ids_equal_those_of_the_vectors(stage: Stage) -> None:
    told(stage, "envelope_id", "id", read("envelope_ids.json"))
