"""Checks of trusted keys, and of documents that must be refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from deniable.shared.errors import InvalidEnvelope
from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.mechanisms import LocalLaplace
from deniable.shared.sealed_envelope import SEALED_TYPE, parse_sealed, unseal
from tests.client.scripted import (
    ANSWERS,
    OTHER_KEY,
    document,
    entry,
)
from tests.conformance.claims import check, published, queued, same
from tests.conformance.device import Broken, Stage
from tests.conformance.vectors import read
from tests.given_table import EACH
from tests.survey_texts import bit

Fields = dict[str, Any]  # keys of a question, as JSON


def refused(stage: Stage, *entries: dict[str, str], sound: Sequence[bytes] = ()) -> None:
    """Check that no entry is answered, and that the valid ones after them are."""
    last = [entry(text) for text in sound or [document(name="sound")]]
    stage.script.surveys = [*entries, *last]
    stage.start()
    for wrong in entries:
        status = stage.answer(wrong["id"], **fitting(wrong["document"]))
        if status not in ("refused", "no-survey"):
            raise Broken(f"this survey was {status}: {wrong}")
    for listed in last:
        name = json.loads(listed["document"])["survey"]["name"]
        status = stage.answer(name, **fitting(listed["document"]))
        same(f"the survey {name!r} next to them", status, "queued")
    stage.flush()
    sent = {envelope.survey for envelope in stage.script.envelopes()}
    same("reports", sent, {listed["id"] for listed in last})


def fitting(text: str) -> dict[str, object]:
    """Return answers to a document's questions, so that missing answers are no reason to refuse."""
    return {name: value for name, value in ANSWERS.items() if f'"{name}"' in text}


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
    """Every document is signed by a trusted key, and the protocol forbids it."""
    refused(stage, *(entry(text.encode()) for text in bad_documents()))


@check
def crossed_questions_are_answered_and_bad_pairs_refused(stage: Stage) -> None:
    """Questions that the server counts together change no report."""
    both = ["crashed", "browser"]
    bad: list[object] = [[], [both, both], [both, both[::-1]], [both[:1] * 2], [["crashed"]]]
    bad += [[[*both, "minutes"]], [["crashed", "minutes"]], [["crashed", "none"]], both, "crashed"]
    sound = crossed([both])
    refused(stage, *map(entry, map(crossed, bad)), entry(crossed([both], ask=1)), sound=[sound])


def crossed(pairs: object, **more: object) -> bytes:
    table = json.loads(document())
    table["survey"] |= {"cross": pairs, **more}
    return json.dumps(table).encode()


def bad_documents() -> list[str]:
    good, tiny = document().decode(), "0.000000001"  # too small for such a fine table
    integers = [str(integer) for integer in LocalLaplace(Epsilon(tiny), 255).integers]
    table = json.loads(good)

    def changed(change: Callable[[Any], object]) -> str:
        copy = json.loads(good)
        change(copy)
        return json.dumps(copy)

    def asks(ask: object) -> str:
        return changed(lambda t: t["survey"].update(ask=ask))

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
        *map(asks, (0, 2, True, "1")),
        changed(lambda t: (t["survey"].update(ask=1), t.update(question=t["question"][:1]))),
        changed(lambda t: t.update(deniable=2)),
        good.replace('"deniable": 1,', '"deniable": 1, "deniable": 1,'),
        good + "}",
        changed(lambda t: t["question"][1].update(grid=255, epsilon=tiny, integers=integers)),
        changed(lambda t: t["question"][0].update(unit="s")),
        changed(lambda t: t["question"][0].update(title="two\nlines")),
        changed(lambda t: t["question"][2].update(labels=["one"])),
        changed(lambda t: t["question"][2].update(labels=len(t["question"][2]["options"]) * ["a"])),
    ]


@check
def a_sealed_survey_is_sealed_or_not_answered(stage: Stage) -> None:
    """A client that cannot seal refuses, because the network could read an unsealed report."""
    vectors = read("envelopes_sealed.json")
    key = X25519PrivateKey.from_private_bytes(bytes.fromhex(vectors["private_key"]))
    id_ = published(stage, sealed_to=vectors["public_key"])
    stage.start()
    status = stage.answer(id_, **ANSWERS)
    if status == "refused":
        return
    same("a sealed survey", status, "queued")
    stage.flush()
    (post,) = stage.script.posts
    same("its media type", dict(post.headers)["Content-Type"], SEALED_TYPE)
    try:
        (inside,) = [unseal(sealed_envelope, key) for sealed_envelope in parse_sealed(post.body)]
    except InvalidEnvelope as error:
        raise Broken(f"it cannot be opened: {error}") from None
    same("the survey inside", (inside.survey, inside.count), (id_, 1))
    same("its length", len(post.body), len(bytes.fromhex(vectors["good"][0]["sealed"])))


@check
def display_texts_change_nothing(stage: Stage) -> None:
    table = json.loads(document(name="told"))
    table["question"][0]["title"] = "Did it crash? – 2026"
    table["question"][1]["unit"] = "min"
    table["question"][2]["labels"] = [
        f"Number {n}" for n, _ in enumerate(table["question"][2]["options"])
    ]
    refused(stage, sound=[json.dumps(table, ensure_ascii=False).encode()])


@check
def a_table_is_proved_before_it_is_used(stage: Stage) -> None:
    """Each bad table has one fault, in its integers or in their spelling."""
    tables = read("tables.json")
    good = tables["good"]
    bad = [table["question"] for table in tables["bad"]]
    bad += [good | {"epsilon": "0.999999999"}, good | {"integers": [*good["integers"], "1"]}]
    never = [good["integers"][0], *["0"] * (EACH - 1)]  # a symbol that nobody reports
    bad += [good | {"integers": [*never, *good["integers"]]}]
    bad += [good | straight(grid) for grid in (1, 3, 33, 34)]
    bad += [good | split(good["integers"], 26), good | {"grid": 0}]
    bad += [{key: good[key] for key in good if key != lost} for lost in ("grid", "integers")]
    *first, last = good["integers"]
    others = [f"+{last}", f"0{last}", f" {last}", f"{last}\n", f"{last}.0", int(last)]
    bad += [good | {"integers": [*first, integer]} for integer in others]
    tight = asking(good, "tight")
    loose = [good | change for change in (straight(2), straight(32), split(good["integers"], 25))]
    sound = [tight, *(asking(question, f"loose-{number}") for number, question in enumerate(loose))]
    refused(stage, *(entry(asking(question)) for question in bad), sound=sound)


def straight(grid: int) -> Fields:
    """Return a table of two symbols that is valid at ε 1, for any number of steps.

    The first symbol has the value -3/2 of the range; its probability goes from 5/8 to 3/8.
    """
    lower = [ONE * (5 * grid - 2 * at) // (8 * grid) for at in range((grid + 1) // 2)]
    middle = [ONE // 2] * (1 - grid % 2)
    first = [*lower, *middle, *(ONE - unit for unit in reversed(lower))]
    return {"grid": grid, "integers": [str(integer) for integer in (-3 * grid * ONE // 2, *first)]}


def split(integers: Sequence[str], parts: int) -> Fields:
    """Split each symbol into several, which is valid at a slightly larger ε."""
    split = []
    for at in range(0, len(integers), EACH):
        value, *column = map(int, integers[at : at + EACH])
        split += [value, *(units - (parts - 1) * (units // parts) for units in column)]
        split += [value, *(units // parts for units in column)] * (parts - 1)
    return {"epsilon": "1.1", "integers": [str(integer) for integer in split]}


def asking(question: dict[str, Any], name: str = "bad") -> bytes:
    table = json.loads(document(name=name))
    return json.dumps({**table, "question": [question]}).encode()


@check
def a_survey_is_looked_up_by_name_id_and_day(stage: Stage) -> None:
    id_ = published(stage)
    published(stage, name="later", opens="2027-01-01")
    stage.start()
    same("an unknown name", stage.answer("nobody", **ANSWERS), "no-survey")
    same("before it opens", stage.answer("later", **ANSWERS), "closed")
    queued(stage, id_)


@check
def a_closed_survey_stays_closed(stage: Stage) -> None:
    stage.script.publish(document(), state="closed")
    stage.start()
    same("a closed survey", stage.answer(**ANSWERS), "closed")
    stage.script.surveys[0]["state"] = "open"
    stage.later(hours=2)
    same("a survey that was closed once", stage.answer(**ANSWERS), "closed")


@check
def only_the_complete_list_is_requested(stage: Stage) -> None:
    id_ = published(stage)
    stage.start()
    queued(stage, id_)
    same("asked for", {get.path for get in stage.script.gets}, {"/v1/surveys"})


@check
def a_report_over_a_round_leaves_after_it(stage: Stage) -> None:
    """A client may refuse such a survey. At ε 20 a lie has a probability of at most 1e-8."""
    published(stage, questions=bit(epsilon="20", over="any"), period="day")
    stage.policy |= {"max_epsilon": "40", "max_epsilon_per_round": "20"}
    stage.start()
    statuses = [stage.answer(crashed=crashed) for crashed in (False, True, False)]
    if set(statuses) == {"refused"}:
        return
    same("answering", statuses, ["queued"] * 3)
    stage.flush()
    same("reports within the round", len(stage.script.posts), 0)
    stage.later(days=9)
    stage.flush()
    same("reports after the round", [e.payload.hex() for e in stage.script.envelopes()], ["01"])


@check
def the_ended_round_is_answered_once(stage: Stage) -> None:
    published(stage, questions=bit(), period="day")
    stage.start()
    stage.later(days=1)
    about = {"survey": "app-health", "answers": {"crashed": True}}
    rounds: list[int] = []
    for of in ("ended", "today", "ended"):
        reply = stage.ask("answer", **about, of=of)
        wanted = "queued" if len(rounds) < 2 else "already-answered"
        same(f"answering {of}", reply.get("status"), wanted)
        rounds.append(reply["round"])
    same("rounds", [rounds[1] - round_ for round_ in rounds], [1, 0, 1])
    stage.flush()
    same("reports", sorted(e.round for e in stage.script.envelopes()), sorted(rounds[:2]))
