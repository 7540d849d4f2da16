"""The vectors, draw by draw, for clients that can be asked: `randomize`, `integers`, `envelope_id`.

A client may draw in any way that has the right probabilities: one that says `unsupported` is not
held to these.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.conformance.claims import check
from tests.conformance.device import Broken, Device, Stage

FOLDER = Path(__file__).parent.parent / "vectors"


def told(stage: Stage, op: str, key: str, file: str) -> None:
    stage.devices.append(Device(stage.command))
    for vector in json.loads((FOLDER / file).read_text()):
        asked = {name: value for name, value in vector.items() if name not in RESULTS[op]}
        reply = stage.ask(op, **asked)
        if "unsupported" in reply:
            return
        if reply.get(key) != vector[key]:
            raise Broken(f"{op} of {asked}: {reply}, and it should be {vector[key]!r}")


RESULTS = {
    "randomize": ("symbol", "payload"),
    "integers": ("integers", "symbols", "bad_payloads"),
    "envelope_id": ("id",),
}


@check
def the_same_random_bytes_give_the_same_symbol(stage: Stage) -> None:
    told(stage, "randomize", "payload", "mechanisms.json")


@check
def integers_are_those_of_the_vectors(stage: Stage) -> None:
    told(stage, "integers", "integers", "encodings.json")


@check
def envelope_ids_are_those_of_the_vectors(stage: Stage) -> None:
    told(stage, "envelope_id", "id", "envelope_ids.json")
