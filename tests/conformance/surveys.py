"""Checks of trusted keys, and of documents that must be refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.mechanisms import LocalLaplace
from tests.client.scripted import ANSWERS, OTHER_KEY, QUESTIONS, bit, document, entry
from tests.conformance.claims import asking, check, published, queued, same
from tests.conformance.device import Broken, Stage
from tests.conformance.vectors import read
from tests.given_table import EACH
from tests.vectors.languages import TAGS, TEXTS, TITLE

Fields = dict[str, Any]  # keys of a question, as JSON
VALUES = ANSWERS | {"froze": False}


def refused(stage: Stage, *entries: dict[str, str], sound: Sequence[bytes] = ()) -> None:
    """Check that no entry is answered, and that the valid ones after them are."""
    last = [entry(text) for text in sound or [asking(stage, name="sound")]]
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
    return {name: value for name, value in VALUES.items() if f'"name": "{name}"' in text}


@check("trusted-keys")
def only_trusted_signatures_count(stage: Stage) -> None:
    ones = [entry(asking(stage, name=f"one-{number}")) for number in range(4)]
    flipped = f"{(int(ones[0]['signature'][:1], 16) ^ 1):x}{ones[0]['signature'][1:]}"
    refused(
        stage,
        entry(asking(stage), OTHER_KEY),
        ones[0] | {"signature": flipped},
        ones[1] | {"signature": ones[0]["signature"]},
        ones[2] | {"signature": ""},
        entry(asking(stage, name="other"), OTHER_KEY) | {"key": ones[3]["key"]},
    )


@check("document-id")
def an_id_is_the_hash_of_its_document(stage: Stage) -> None:
    refused(stage, entry(asking(stage)) | {"id": "ab" * 32})


@check("strict-documents")
def bad_documents_are_refused(stage: Stage) -> None:
    """Every document is signed by a trusted key, and the protocol forbids it."""
    refused(stage, *(entry(text.encode()) for text in bad_documents(stage)))


@check("strict-documents", "cross")
def crossed_questions_are_answered_and_bad_pairs_refused(stage: Stage) -> None:
    """Questions that the server counts together change no report."""
    stage.policy["questions"] |= {"froze": "bit"}
    both, many = ["crashed", "froze"], "number" in stage.claims.kinds
    bad: list[object] = [[], [both, both], [both, both[::-1]], [both[:1] * 2], [["crashed"]]]
    bad += [[[*both, "minutes"]], [["crashed", "none"]], both, "crashed"]
    bad += [[["crashed", "minutes"]]] if many else []
    sound = crossed(stage, [both])
    if "choice" in stage.claims.kinds:
        sound = crossed(stage, [both, ["crashed", "browser"]])
    asks = [entry(crossed(stage, [both], ask=1))] if "ask" in stage.claims.features else []
    refused(stage, *(entry(crossed(stage, pairs)) for pairs in bad), *asks, sound=[sound])


def crossed(stage: Stage, pairs: object, **more: object) -> bytes:
    table = json.loads(asking(stage, QUESTIONS + bit("froze", "0.1")))
    table["survey"] |= {"cross": pairs, **more}
    return json.dumps(table).encode()


def bad_documents(stage: Stage) -> list[str]:
    good = asking(stage).decode()
    table = json.loads(good)
    places = {question["kind"]: n for n, question in enumerate(table["question"])}

    def changed(change: Callable[[Any], object]) -> str:
        copy = json.loads(good)
        change(copy)
        return json.dumps(copy)

    def with_question(kind: str, change: Callable[[Fields], object]) -> str:
        return changed(lambda t: change(t["question"][places[kind]]))

    def with_ask(ask: object) -> str:
        return changed(lambda t: t["survey"].update(ask=ask))

    first = int(table["question"][0]["integers"][0])
    texts = [
        changed(lambda t: t["question"].append(t["question"][0])),
        changed(lambda t: t["survey"].update(closes="2026-11-30")),
        changed(lambda t: t["survey"].update(opens="2026-12-1")),
        changed(lambda t: t["survey"].update(grace_days=1.5)),
        changed(lambda t: t["survey"].update(name="ab" * 32)),
        changed(lambda t: t["survey"].pop("owner")),
        *map(with_ask, (0, 2, True, "1")),
        changed(lambda t: (t["survey"].update(ask=1), t.update(question=t["question"][:1]))),
        changed(lambda t: t.update(deniable=2)),
        good.replace('"deniable": 1,', '"deniable": 1, "deniable": 1,'),
        good + "}",
        *(with_question("bit", change) for change in bad_bits(first)),
    ]
    if "number" in places:
        texts += [with_question("number", change) for change in bad_numbers()]
    if "choice" in places:
        texts += [with_question("choice", change) for change in BAD_CHOICES]
    return texts


def bad_bits(lie: int) -> list[Callable[[Fields], object]]:
    return [
        lambda q: q.update(integers=[str(lie + 1)]),
        lambda q: q.update(integers=[str(lie - 1)]),
        lambda q: q.pop("integers"),
        lambda q: q.update(epsilon="0.50"),
        lambda q: q.update(epsilon="21"),
        lambda q: q.update(mechanism="none"),
        lambda q: q.update(over="none"),
        lambda q: q.pop("over"),
        lambda q: q.update(extra=1),
        lambda q: q.update(unit="s"),
        lambda q: q.update(title="two\nlines"),
    ]


def bad_numbers() -> list[Callable[[Fields], object]]:
    tiny = "0.000000001"  # too small for such a fine table
    integers = [str(integer) for integer in LocalLaplace(Epsilon(tiny), 255).integers]
    return [
        lambda q: q["integers"].pop(),
        lambda q: q.update(grid=255, epsilon=tiny, integers=integers),
    ]


BAD_CHOICES: list[Callable[[Fields], object]] = [
    lambda q: q.update(other="opera"),
    lambda q: q["options"].append("firefox"),
    lambda q: q.update(labels=["one"]),
    lambda q: q.update(labels=len(q["options"]) * ["a"]),
]


@check("display-texts")
def display_texts_change_nothing(stage: Stage) -> None:
    table = json.loads(asking(stage, name="told"))
    texts: dict[str, Callable[[Fields], Fields]] = {
        "bit": lambda _: {"title": "Did it crash? – 2026"},
        "number": lambda _: {"unit": "min"},
        "choice": lambda q: {"labels": [f"Number {n}" for n, _ in enumerate(q["options"])]},
    }
    for question in table["question"]:
        question.update(texts[question["kind"]](question))
    refused(stage, sound=[json.dumps(table, ensure_ascii=False).encode()])


@check("display-texts")
def texts_may_be_in_several_languages(stage: Stage) -> None:
    """Wrong languages, and tables that lack a text, are refused."""

    def asked(survey: Fields, question: Fields) -> bytes:
        table = json.loads(asking(stage, name="told"))
        table["survey"] |= {"languages": [*TITLE], "title": TITLE} | survey
        table["question"][0] |= {"title": TITLE} | question
        return json.dumps(table, ensure_ascii=False).encode()

    bad = [asked({"languages": tags}, {}) for tags in TAGS.values()]
    bad += [asked({"owner": texts}, {}) for texts in TEXTS.values()]
    bad += [asked({}, {"title": texts}) for texts in TEXTS.values()]
    refused(stage, *map(entry, bad), sound=[asked({}, {})])


@check("proved-tables", "number")
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
    tight = number_asked(good, "tight")
    loose = [good | change for change in (straight(2), straight(32), split(good["integers"], 25))]
    sound = [
        tight,
        *(number_asked(question, f"loose-{number}") for number, question in enumerate(loose)),
    ]
    refused(stage, *(entry(number_asked(question)) for question in bad), sound=sound)


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


def number_asked(question: Fields, name: str = "bad") -> bytes:
    table = json.loads(document(name=name))
    return json.dumps({**table, "question": [question]}).encode()


@check("look-up")
def a_survey_is_looked_up_by_name_id_and_day(stage: Stage) -> None:
    id_ = published(stage)
    published(stage, name="later", opens="2027-01-01")
    stage.start()
    same("an unknown name", stage.answer("nobody", **ANSWERS), "no-survey")
    same("before it opens", stage.answer("later", **ANSWERS), "closed")
    queued(stage, id_)


@check("stays-closed")
def a_closed_survey_stays_closed(stage: Stage) -> None:
    stage.script.publish(asking(stage), state="closed")
    stage.start()
    same("a closed survey", stage.answer(**ANSWERS), "closed")
    stage.script.surveys[0]["state"] = "open"
    stage.later(hours=2)
    same("a survey that was closed once", stage.answer(**ANSWERS), "closed")


@check("whole-list")
def only_the_complete_list_is_requested(stage: Stage) -> None:
    id_ = published(stage)
    stage.start()
    queued(stage, id_)
    same("asked for", {get.path for get in stage.script.gets}, {"/v1/surveys"})
