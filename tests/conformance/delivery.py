"""Checks of delivery: the bytes that are sent, how often, and what they reveal of their sender."""

from __future__ import annotations

import json
from typing import Any

from deniable.shared.envelope import CONTENT_TYPE, decode_reports
from deniable.shared.survey.document import parse_document
from tests.client.scripted import (
    ACCEPTED,
    ANSWERS,
    LATER,
    Answer,
    bit,
    problem,
)
from tests.conformance.claims import asking, check, no, published, queued, same
from tests.conformance.device import Broken, Device, Stage

AGAIN = Answer(503)


@check("envelope")
def envelopes_follow_the_protocol(stage: Stage) -> None:
    text = asking(stage, period="day")
    id_ = stage.script.publish(text)
    stage.start()
    queued(stage)
    stage.later(days=1)
    queued(stage)
    stage.flush()
    posts = stage.script.posts
    headers = [(name.lower(), value) for post in posts for name, value in post.headers]
    same("types", {value for name, value in headers if name == "content-type"}, {CONTENT_TYPE})
    sent = stage.script.envelopes()
    same("surveys", {envelope.survey for envelope in sent}, {id_})
    same("rounds", sorted(envelope.round for envelope in sent), [20797, 20798])
    same("reports in each", [envelope.count for envelope in sent], [1, 1])
    same("ids", len({envelope.id for envelope in sent}), 2)
    for envelope in sent:
        decode_reports(parse_document(text), envelope)


@check("same-bytes")
def a_retry_sends_the_same_bytes(stage: Stage) -> None:
    published(stage)
    stage.script.replies = [AGAIN, Answer(500, b"<html>"), ACCEPTED]
    stage.start()
    queued(stage)
    for _ in range(8):
        stage.restart()
        if stage.flush() == 0:
            break
    bodies = {post.body for post in stage.script.posts}
    same("tries", (len(stage.script.posts), len(bodies)), (3, 1))
    stage.flush()
    same("tries after it was taken", len(stage.script.posts), 3)


@check("few-tries")
def tries_are_few(stage: Stage) -> None:
    published(stage)
    stage.script.always = AGAIN
    stage.start()
    queued(stage)
    for _ in range(3):
        stage.flush_often(6)
        stage.restart()
    stage.flush_often(3)
    tries = len(stage.script.posts)
    no(f"more than ten tries: {tries}", tries > 10)
    no(f"hardly any try: {tries}", tries < 3)
    stage.later(days=2)
    stage.flush_often(3)
    no("more than one try on another day", len(stage.script.posts) > max(tries, 10) + 1)


@check("retry-after")
def a_requested_pause_is_kept(stage: Stage) -> None:
    published(stage)
    stage.script.always = LATER
    stage.start()
    queued(stage)
    stage.flush()
    stage.flush()
    same("tries before Retry-After is over", len(stage.script.posts), 1)


@check("give-up")
def late_reports_are_given_up(stage: Stage) -> None:
    published(stage)
    stage.script.always = AGAIN
    stage.start()
    queued(stage)
    same("waiting in its round", stage.flush(), 1)
    stage.later(days=60)
    tries = len(stage.script.posts)
    same("waiting after its grace", stage.flush(), 0)
    same("tries after its grace", len(stage.script.posts), tries)


def settles(stage: Stage, *replies: Answer, wanted: int) -> None:
    """Check how many reports still wait after these replies."""
    published(stage, period="day", questions=bit("crashed", "0.1"))
    stage.start()
    for reply in replies:
        stage.later(days=1)
        stage.script.replies, stage.script.always = [reply], LATER
        before = len(stage.script.posts)
        same("an answer", stage.answer(crashed=True), "queued")
        same(f"waiting after {reply}", stage.flush(), wanted)
        no("not sent", len(stage.script.posts) == before)
        if wanted:
            stage.script.always = ACCEPTED
            stage.restart()
            same("waiting at the end", stage.flush(), 0)


def said(**table: Any) -> Answer:
    return Answer(body=json.dumps({"accepted": 0, "duplicates": 0, "refused": []} | table).encode())


@check("settled")
def replies_of_the_server_settle_a_report(stage: Stage) -> None:
    late = [{"index": 0, "code": "late", "detail": ""}]
    settles(stage, said(duplicates=1), said(refused=late), problem(400), problem(415), wanted=0)


@check("settled")
def replies_of_others_do_not_settle_a_report(stage: Stage) -> None:
    early = [{"index": 0, "code": "early", "detail": ""}]
    login, page = Answer(body=b"<html>log in</html>"), problem(400, b"<html>", "text/html")
    untrue = problem(400, b'{"type": "about:blank", "status": 415}')
    others = [said(), login, page, problem(400, b"<html>"), untrue, problem(404)]
    settles(stage, said(refused=early), *others, wanted=1)


@check("bare-requests")
def requests_reveal_nothing_about_their_sender(stage: Stage) -> None:
    published(stage, period="day")
    body = json.dumps({"surveys": stage.script.surveys}).encode()
    stage.script.list_reply = Answer(
        body=body,
        headers={
            "Set-Cookie": "id=1; Path=/",
            "ETag": '"1"',
            "Last-Modified": "Thu, 10 Dec 2026 00:00:00 GMT",
            "Cache-Control": "max-age=3600",
        },
    )
    stage.script.always = Answer(body=ACCEPTED.body, headers={"Set-Cookie": "id=2; Path=/"})
    stage.start()
    queued(stage)
    stage.flush()
    stage.later(days=1)
    queued(stage)
    stage.flush()
    tells = {"cookie", "if-none-match", "if-modified-since", "referer", "authorization", "origin"}
    for request in stage.script.requests:
        no("telling headers", [pair for pair in request.headers if pair[0].lower() in tells])
    same("lists fetched", len(stage.script.gets), 2)
    same("sets of headers", len({tuple(get.headers) for get in stage.script.gets}), 1)


@check("no-redirects")
def redirects_are_not_followed(stage: Stage) -> None:
    published(stage)
    stage.script.always = Answer(307, headers={"Location": "/elsewhere"})
    stage.start()
    queued(stage)
    same("waiting after a redirect", stage.flush(), 1)
    stage.later(hours=2)
    stage.script.list_reply = Answer(302, headers={"Location": "/elsewhere"})
    stage.answer(**ANSWERS)
    no(
        "followed",
        [request.path for request in stage.script.requests if request.path == "/elsewhere"],
    )


@check("https")
def plain_http_stays_on_this_machine(stage: Stage) -> None:
    stage.devices.append(Device(stage.command))
    reply = stage.ask("init", **(stage.settings | {"server": "http://192.0.2.1"}))
    if "error" not in reply:
        raise Broken(f"plain http to another machine: {reply}")
