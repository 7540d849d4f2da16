"""Checks of what a client may leave out: it then refuses every survey that needs it."""

from __future__ import annotations

import json
from collections.abc import Callable

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from deniable.shared.errors import InvalidEnvelope
from deniable.shared.sealed_envelope import SEALED_TYPE, mark_of, parse_sealed, unseal
from deniable.shared.survey.document import parse_toml, render_document
from deniable.shared.survey.keys import sign_epoch
from tests import survey_texts
from tests.client.scripted import ANSWERS, KEY, OTHER_KEY, Answer, document, entry, serving
from tests.conformance.answers import WORD
from tests.conformance.claims import check, published, queued, same
from tests.conformance.device import Broken, Stage
from tests.conformance.ledger import SAME_WIDE, wide
from tests.conformance.surveys import refused
from tests.conformance.vectors import read
from tests.survey_texts import bit

PUBLIC_KEY = read("envelopes_sealed.json")["public_key"]


@check("refuse-unsupported")
def a_survey_that_needs_what_is_not_supported_is_refused(stage: Stage) -> None:
    stage.policy["questions"] |= {"froze": "bit"}
    lacking = stage.claims.others
    bad = [NEEDING[name]() for name in (*lacking.kinds, *lacking.features) if name in NEEDING]
    for key, value in (("kind", "rating"), ("mechanism", "hadamard-response")):
        table = json.loads(document(questions=bit()))
        table["question"][0][key] = value
        bad.append(json.dumps(table).encode())
    refused(stage, *map(entry, bad))


def with_label() -> bytes:
    label = survey_texts.label("version", values=["1", "2"])
    return document(questions=label + bit())


def crossed() -> bytes:
    table = json.loads(document(questions=bit() + bit("froze")))
    table["survey"]["cross"] = [["crashed", "froze"]]
    return json.dumps(table).encode()


NEEDING: dict[str, Callable[[], bytes]] = {
    "number": lambda: document(questions=survey_texts.number()),
    "choice": lambda: document(questions=survey_texts.choice(3)),
    "text": lambda: document(questions=WORD),
    "vector": lambda: document(questions=survey_texts.vector(2)),
    "ask": lambda: document(questions=bit() + bit("froze"), asks_one=True),
    "cross": crossed,
    "labels": with_label,
    "latched": lambda: document(questions=bit(), period="day", repeat_rounds=2),
    "over": lambda: document(questions=bit(over="any")),
    "sealing": lambda: document(questions=bit(), sealed_to=PUBLIC_KEY),
}


@check("seal", "sealing")
def reports_of_a_sealed_survey_are_sealed(stage: Stage) -> None:
    vectors = read("envelopes_sealed.json")
    key = X25519PrivateKey.from_private_bytes(bytes.fromhex(vectors["private_key"]))
    id_ = published(stage, sealed_to=vectors["public_key"])
    stage.start()
    queued(stage, id_)
    stage.flush()
    (post,) = stage.script.posts
    same("its media type", dict(post.headers)["Content-Type"], SEALED_TYPE)
    try:
        (sealed_envelope,) = parse_sealed(post.body)
        inside = unseal(sealed_envelope, key)
    except InvalidEnvelope as error:
        raise Broken(f"it cannot be opened: {error}") from None
    same("the survey inside", (inside.survey, inside.count), (id_, 1))
    mark = mark_of(vectors["public_key"], id_, inside.round)
    same("its mark", sealed_envelope.mark.hex(), mark.hex())
    same("its length", len(post.body), len(bytes.fromhex(vectors["good"][0]["sealed"])))


@check("relay", "relay", "sealing")
def sealed_reports_leave_through_the_relay_only(stage: Stage) -> None:
    published(stage, sealed_to=PUBLIC_KEY)
    published(stage, name="plain")
    with serving() as relay:
        relay.always = Answer(202, b'{"held": 1}')
        relay.surveys, stage.relay = stage.script.surveys, relay.url
        stage.start()
        queued(stage)
        same("a survey that is not sealed", stage.answer("plain", **ANSWERS), "refused")
        same("reports that wait", stage.flush(), 0)
        asked = [(request.method, request.path) for request in relay.requests]
    expected = [("GET", "/v1/surveys"), ("POST", "/v1/envelopes")]
    same("requests to the relay", sorted(set(asked)), expected)
    same("envelopes", asked.count(expected[1]), 1)
    same("requests past the relay", len(stage.script.requests), 0)


@check("reconcile", "reconcile")
def a_new_epoch_sends_an_acknowledged_report_again(stage: Stage) -> None:
    id_ = published(stage, questions=bit(epsilon="0.1"))
    stage.start()
    same("an answer", stage.answer(crashed=True), "queued")
    stage.flush()
    (first,) = stage.script.posts
    (round_,) = [envelope.round for envelope in stage.script.envelopes()]
    for epoch, times in ((1, 2), (2, 3), (1, 3)):
        show_epochs(stage, signed_epoch(id_, round_, epoch))
        same(f"bodies by epoch {epoch}", bodies_of(stage, id_), [first.body] * times)


@check("signed-epochs", "reconcile")
def an_epoch_needs_the_signature_of_the_survey_s_key(stage: Stage) -> None:
    id_ = published(stage, questions=bit(epsilon="0.1"))
    stage.start()
    same("an answer", stage.answer(crashed=True), "queued")
    stage.flush()
    (round_,) = [envelope.round for envelope in stage.script.envelopes()]
    signed = signed_epoch(id_, round_, 1)
    forged = [
        signed_epoch(id_, round_, 1, OTHER_KEY), signed | {"epoch": 2}, signed | {"signature": ""},
        signed_epoch(id_, round_ + 1, 1) | {"round": round_}, signed_epoch(id_, round_, 3), {}, 5,
    ]  # fmt: skip
    show_epochs(stage, *forged)
    same("bodies", len(bodies_of(stage, id_)), 1)


def signed_epoch(
    survey: str, round_: int, epoch: int, key: Ed25519PrivateKey = KEY
) -> dict[str, object]:
    signature = sign_epoch(survey, round_, epoch, key)
    return {"round": round_, "epoch": epoch, "signature": signature}


def show_epochs(stage: Stage, *epochs: object) -> None:
    """List epochs, let the client see them when it looks for a new survey, and wait a week."""
    stage.script.surveys[0]["epochs"] = list(epochs)
    before, name = len(stage.script.posts), f"another-{len(stage.script.surveys)}"
    published(stage, questions=bit(epsilon="0.1"), name=name)
    stage.later(hours=2)
    same("a new survey", stage.answer(name, crashed=True), "queued")
    stage.flush()
    same("bodies that a flush sends early", len(stage.script.posts), before + 1)
    stage.later(days=7, hours=1)
    stage.flush()


def bodies_of(stage: Stage, survey: str) -> list[bytes]:
    posts = zip(stage.script.posts, stage.script.envelopes(), strict=True)
    return [post.body for post, envelope in posts if envelope.survey == survey]


@check("over", "over")
def a_report_over_a_whole_round_is_sent_after_the_round(stage: Stage) -> None:
    """At ε 20 a lie has a probability of at most 1e-8."""
    published(stage, questions=bit(epsilon="20", over="any"), period="day")
    stage.policy |= {"max_epsilon": "40", "max_epsilon_per_round": "20"}
    stage.start()
    statuses = [stage.answer(crashed=crashed) for crashed in (False, True, False)]
    same("answering", statuses, ["queued"] * 3)
    stage.flush()
    same("reports within the round", len(stage.script.posts), 0)
    stage.later(days=9)
    stage.flush()
    same("reports after the round", [e.payload.hex() for e in stage.script.envelopes()], ["01"])


@check("ended", "ended")
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


@check("labels", "labels")
def reports_begin_with_their_labels(stage: Stage) -> None:
    """A label that the app may not send is refused, and a value that is not listed is not sent."""
    labels = [
        survey_texts.label("platform", values=["linux", "windows"]),
        survey_texts.label("version", pattern=r"\d+\.\d+"),
        survey_texts.label("channel", values=["beta"]),
        survey_texts.label("edition", pattern="[a-z]+"),
    ]
    stage.script.publish(labelled("secret-label", survey_texts.label("secret", values=["1"])))
    stage.script.publish(labelled("app-health", "".join(labels)))
    stage.labels = {"platform": "windows", "version": "3.14", "channel": "x", "edition": "7"}
    stage.policy["labels"] = [*stage.labels]
    stage.start()
    same("a label that the app forbids", stage.answer("secret-label", crashed=True), "refused")
    same("the others", stage.answer(crashed=True), "queued")
    stage.flush()
    (sent,) = stage.script.envelopes()
    wanted = bytes([1]) + b"3.14".ljust(32, b"\0") + bytes([255]) + bytes(32)
    same("labels", sent.payload[:-1], wanted)


def labelled(name: str, labels: str, **how: object) -> bytes:
    settings = how | {"name": name}
    return render_document(parse_toml(survey_texts.survey_text(bit() + labels, **settings)))


@check("arms", "labels")
def an_arm_is_drawn_once(stage: Stage) -> None:
    """All arms are equal with probability below 1e-9."""
    names = [f"survey-{number}" for number in range(ARMS)]
    for name in names:
        arms = survey_texts.label("arm", arms=["a", "b"])
        stage.script.publish(labelled(name, arms, round="day"))
    stage.policy |= {"max_epsilon": "1000"}
    stage.start()
    for _ in range(2):
        for name in names:
            same("an answer", stage.answer(name, crashed=True), "queued")
        stage.flush()
        stage.restart()
        stage.later(days=1)
    drawn: dict[str, set[int]] = {}
    for sent in stage.script.envelopes():
        drawn.setdefault(sent.survey, set()).add(sent.payload[0])
    same("arms of each survey", {len(arms) for arms in drawn.values()}, {1})
    same("arms of all surveys", {arm for arms in drawn.values() for arm in arms}, {0, 1})


ARMS = 32


@check("latched", "latched")
def rounds_of_a_span_share_one_report(stage: Stage) -> None:
    """With 70 noisy bits, two noises are equal with probability below 1e-20."""
    wide(stage, period="day", repeat_rounds=3)
    stage.policy |= {"max_epsilon": "0.14"}
    stage.start()
    for _ in range(6):
        same("a round", stage.answer(**SAME_WIDE), "queued")
        stage.flush()
        stage.later(days=1)
        stage.restart()
    same("a third span", stage.answer(**SAME_WIDE), "budget-spent")
    sent = stage.script.envelopes()
    same("ids", len({envelope.id for envelope in sent}), 6)
    payloads = [envelope.payload for envelope in sorted(sent, key=lambda one: one.round)]
    same("payloads of the first span", len({*payloads[:3]}), 1)
    same("payloads of two spans", len({*payloads}), 2)
