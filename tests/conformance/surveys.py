"""Whose surveys are answered, and which documents are none."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import LocalLaplace
from tests.client.scripted import (
    ANSWERS,
    OTHER_KEY,
    document,
    entry,
)
from tests.conformance.claims import check, published, queued, same
from tests.conformance.device import Broken, Stage


def refused(stage: Stage, *entries: dict[str, str]) -> None:
    """All in one list, before one that is sound."""
    sound = entry(document(name="sound"))
    stage.script.surveys = [*entries, sound]
    stage.start()
    for each in entries:
        status = stage.answer(each["id"], **ANSWERS)
        if status not in ("refused", "no-survey"):
            raise Broken(f"this survey was {status}: {each}")
    same("the sound survey beside them", stage.answer("sound", **ANSWERS), "queued")
    stage.flush()
    same("reports", {each.survey for each in stage.script.envelopes()}, {sound["id"]})


@check
def only_trusted_signatures_count(stage: Stage) -> None:
    ones = [entry(document(name=f"one-{number}")) for number in range(4)]
    flipped = f"{(int(ones[0]['signature'][:1], 16) ^ 1):x}{ones[0]['signature'][1:]}"
    refused(
        stage,
        entry(document(), OTHER_KEY),
        ones[0] | {"signature": flipped},
        ones[1] | {"signature": ones[0]["signature"]},
        ones[2] | {"signature": ""},
        entry(document(name="other"), OTHER_KEY) | {"key": ones[3]["key"]},
    )


@check
def an_id_is_the_hash_of_its_document(stage: Stage) -> None:
    refused(stage, entry(document()) | {"id": "ab" * 32})


@check
def bad_documents_are_refused(stage: Stage) -> None:
    """Signed by a trusted key, and yet none of the protocol's."""
    refused(stage, *(entry(text.encode()) for text in bad_documents()))


def bad_documents() -> list[str]:
    good, tiny = document().decode(), "0.000000001"  # too small for so fine a table
    integers = [str(each) for each in LocalLaplace(Epsilon(tiny), 255).integers]
    table = json.loads(good)

    def changed(change: Callable[[Any], object]) -> str:
        copy = json.loads(good)
        change(copy)
        return json.dumps(copy)

    first = int(table["question"][0]["integers"][0])
    return [
        changed(lambda t: t["question"][0]["integers"].__setitem__(0, str(first + 1))),
        changed(lambda t: t["question"][0]["integers"].__setitem__(0, str(first - 1))),
        changed(lambda t: t["question"][1]["integers"].pop()),
        changed(lambda t: t["question"][0].pop("integers")),
        changed(lambda t: t["question"][0].update(epsilon="0.50")),
        changed(lambda t: t["question"][0].update(epsilon="21")),
        changed(lambda t: t["question"][0].update(mechanism="none")),
        changed(lambda t: t["question"][0].update(extra=1)),
        changed(lambda t: t["question"][2].update(other="opera")),
        changed(lambda t: t["question"][2]["options"].append("firefox")),
        changed(lambda t: t["question"].append(t["question"][0])),
        changed(lambda t: t["survey"].update(closes="2026-11-30")),
        changed(lambda t: t["survey"].update(opens="2026-12-1")),
        changed(lambda t: t["survey"].update(grace_days=1.5)),
        changed(lambda t: t["survey"].pop("owner")),
        changed(lambda t: t.update(deniable=2)),
        good.replace('"deniable": 1,', '"deniable": 1, "deniable": 1,'),
        good + "}",
        changed(lambda t: t["question"][1].update(grid=255, epsilon=tiny, integers=integers)),
    ]


@check
def a_survey_is_looked_up_by_name_id_and_day(stage: Stage) -> None:
    id_ = published(stage)
    published(stage, name="later", opens="2027-01-01")
    stage.start()
    same("an unknown name", stage.answer("nobody", **ANSWERS), "no-survey")
    same("before it opens", stage.answer("later", **ANSWERS), "closed")
    queued(stage, id_)


@check
def closed_is_closed(stage: Stage) -> None:
    stage.script.publish(document(), state="closed")
    stage.start()
    same("a closed survey", stage.answer(**ANSWERS), "closed")
    stage.script.surveys[0]["state"] = "open"
    stage.later(hours=2)
    same("a survey that was closed once", stage.answer(**ANSWERS), "closed")


@check
def only_the_whole_list_is_asked_for(stage: Stage) -> None:
    id_ = published(stage)
    stage.start()
    queued(stage, id_)
    same("asked for", {get.path for get in stage.script.gets}, {"/v1/surveys"})
