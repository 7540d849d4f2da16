"""OpenAPI document: it describes exactly what the server sends: addresses, statuses and keys.

In all other tests, the fixture `here` compares every response with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from deniable.server.http.intake_front import ROUTES
from deniable.server.http.openapi import document
from deniable.server.http.tokens import new_token
from deniable.server.intake.limits import Limits
from deniable.server.store import PublishedSurvey
from deniable.server.surveys import public_list
from deniable.shared.envelope import Envelope
from deniable.shared.errors import StoreUnusable
from deniable.shared.sealed_envelope import SEALED_TYPE, seal
from deniable.shared.survey.document import render_document
from deniable.shared.survey.keys import public_hex, sign
from tests.server.contract import unlike
from tests.server.surveys import KEY, PUBLIC, envelope, mixed, survey
from tests.server.world import JSON, World

Ask = Callable[..., Any]  # Any: a test response
Headers = dict[str, str]
PROBLEM_CONTENT = document()["components"]["responses"]["problem"]["content"]


# Changes that make a server's intake give each status: a body that does not arrive, an internal
# error, and overload. test_every_refusal.py sends the requests to a real server.
FRONT = "import deniable.server.http.intake_front as front, dataclasses\n"
BEFORE = {
    "408": "import deniable.server.http.front as front\n"
    "front.BODY_SECONDS = front.SWEEP_SECONDS = 0.1",
    "500": f"{FRONT}reply = front.IntakeFront.reply\n"
    "async def mistaken(self, scope, protocol):\n"
    "    if hasattr(self, 'asked'):\n"
    "        raise RuntimeError('a mistake')\n"
    "    self.asked = True  # whether it has started\n"
    "    return await reply(self, scope, protocol)\n"
    "front.IntakeFront.reply = mistaken",
    "503": f"{FRONT}front.MAX_UPLOADS_WAITING = 0\n"
    "front.ROUTES = {path: dataclasses.replace(route, per_second=route.per_second and 1e-9)\n"
    "    for path, route in front.ROUTES.items()}\n"
    "import deniable.server.http.rate_limit as pace\npace.PATIENCE_SECONDS = 0.0",
}
ALWAYS = {"500", "503"}  # an internal error; an unreadable store, or overload
LISTED = "/v1/surveys"
TOO_LONG, CUT_OFF = {"CONTENT_LENGTH": "10000000"}, {"CONTENT_LENGTH": "100"}
SLOW = {("/v1/envelopes", "post"): {"408"}}  # intake addresses that read a body


class Broken:
    """Object that raises this error for every attribute."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __getattr__(self, _: str) -> Any:  # Any: it always raises
        raise self._error


@contextmanager
def broken(here: World, error: Exception) -> Iterator[None]:
    """Make the store and the catalogue fail, for intake and reader."""
    reader, intake = here.app.extensions["deniable"], here.front.intake
    failing: Any = Broken(error)
    here.app.extensions["deniable"] = replace(reader, store=failing, catalogue=failing)
    here.front.intake = replace(intake, store=failing, catalogue=failing)
    try:
        yield
    finally:
        here.app.extensions["deniable"], here.front.intake = reader, intake


def limited(here: World, sent: Envelope) -> Any:
    """Return the response to a sender whose quota is zero."""
    intake = here.front.intake
    here.front.intake = replace(intake, limits=Limits(0))
    try:
        return here.post(sent.pack())
    finally:
        here.front.intake = intake


def statuses_of(here: World, ask: Ask, role: str | None, *others: Any) -> dict[str, Any]:
    """Return an address's responses by status: to its role, to others, and if everything fails."""
    headers = here.bearer(role) if role else {}
    answers = [ask(headers=headers), *others]
    if role:
        answers += [ask(headers={}), ask(headers=here.bearer("app"))]
    for error in (StoreUnusable("busy"), RuntimeError("a mistake")):
        with broken(here, error):
            answers.append(ask(headers=headers))
    return {str(answer.status_code): answer for answer in answers}


class Api:
    """Client that sends every request of the API to one server."""

    def __init__(self, here: World) -> None:
        self.here, self.http, self.asked = here, here.client, here.publish(mixed())
        self.analyst, self.operator, self.app = map(here.bearer, ("analyst", "operator", "app"))
        self.text = render_document(survey(title="Another"))
        self.signed, self.third = (
            {"document": text.decode(), "signature": sign(text, KEY), "key": PUBLIC}
            for text in (self.text, render_document(survey(title="A third")))
        )
        self.one, self.none = f"/v1/surveys/{self.asked.id}", f"/v1/surveys/{'0' * 64}"

    def get(self, path: str) -> Ask:
        return lambda headers: self.http.get(path, headers=headers)

    def publish(
        self, table: object, headers: Headers | None = None, query: str = "?replace=true"
    ) -> Any:
        headers = self.operator if headers is None else headers
        return self.http.post(f"{LISTED}{query}", data=json.dumps(table), headers=headers)

    def envelopes(self) -> dict[str, Any]:
        def upload(headers: Headers) -> Any:
            return self.here.post(envelope(self.asked, 1).pack(), headers=headers)

        here = self.here
        return statuses_of(
            here, upload, None,
            here.send(envelope(self.asked, 1), envelope(self.asked, 2, round_number=1), app=True),
            upload(self.app), upload(self.analyst), upload({"Authorization": "Bearer " + "x" * 43}),
            here.post(b"x"), here.post(b"x", "text/plain"),
            here.post(b"", environ_overrides=TOO_LONG), limited(here, envelope(self.asked, 3)),
            *self.beyond_the_limit_of_a_token(),
        )  # fmt: skip

    def beyond_the_limit_of_a_token(self) -> list[Any]:
        token, now = new_token(), self.here.clock.now()
        end = now + timedelta(days=1)
        self.here.store.add_token(token, "app", now, end, "limited", limit=1)
        headers, first, second = (
            {"Authorization": f"Bearer {token}"},
            *(envelope(self.asked, n).pack() for n in (4, 5)),
        )
        bodies = first + second, first, second
        return [self.here.post(body, headers=headers) for body in bodies]

    def publications(self) -> dict[str, Any]:
        http, operator, signed = self.http, self.operator, self.signed
        gzip = {"Content-Encoding": "gzip"}
        return statuses_of(
            self.here, lambda headers: self.publish(signed, headers), "operator",
            self.publish(signed, query=""), self.publish(signed),
            self.publish(signed | {"key": ""}), self.publish(signed, operator | gzip),
            http.post(LISTED, headers=operator, environ_overrides=TOO_LONG),
            http.post(LISTED, data="x", headers=operator),
            http.post(LISTED, data="x", headers=operator, environ_overrides=CUT_OFF),
            *self.refused_for_its_content(),
        )  # fmt: skip

    def refused_for_its_content(self) -> list[Any]:
        """Return refusals of documents; the last one is the refusal by a full list."""
        other = Ed25519PrivateKey.generate()
        strange = {"signature": sign(self.text, other), "key": public_hex(other)}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(public_list, "MAX_LISTED", 0)
            full = self.publish(self.third)
        wrong: tuple[object, ...] = ({}, self.signed | {"document": "x"}, self.signed | strange)
        return [*map(self.publish, wrong), full]

    def results(self, form: str) -> dict[str, Any]:
        def ask(query: str = "", headers: Headers = self.analyst, name: str = self.asked.id) -> Any:
            return self.http.get(f"/v1/surveys/{name}/{form}{query}", headers=headers)

        others = ask("?round=x"), ask("?by=x"), ask("?round=1"), ask(name="0" * 64)
        return statuses_of(self.here, ask, "analyst", *others)

    def counters(self) -> dict[str, Any]:
        unknown = self.http.get(f"{self.none}/counters", headers=self.analyst)
        return statuses_of(self.here, self.get(f"{self.one}/counters"), "analyst", unknown)

    def closed(self) -> dict[str, Any]:
        def close(headers: Headers, path: str = f"{self.one}/close") -> Any:
            return self.http.post(path, headers=headers)

        return statuses_of(
            self.here, close, "operator", close(self.operator, f"{self.none}/close"),
            *(close(self.operator, f"/v1/surveys/{self.asked.name}/close") for _ in range(2)),
        )  # fmt: skip

    def in_doubt(self) -> list[Any]:
        """Return responses while the clock is distrusted, and for a survey whose key is missing."""
        here, lost = self.here, public_hex(X25519PrivateKey.generate())
        sealed = here.publish(survey(name="sealed", sealed_to=lost))
        missing = here.post(seal(envelope(sealed, 1), lost).pack(), SEALED_TYPE)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(here.writer, "clock_fault", lambda: "it has leapt")
            upload = here.post(envelope(self.asked, 1).pack(), headers={})
            return [missing, upload, self.http.get(LISTED)]


def sent(here: World) -> dict[tuple[str, str], dict[str, Any]]:
    """Return every response that the API can give, by address and method."""
    api, http = Api(here), here.client
    answers = {
        ("/v1/envelopes", "post"): api.envelopes(),
        ("/v1/surveys", "post"): api.publications(),
        ("/v1/surveys", "get"): statuses_of(here, api.get(LISTED), None),
        ("/v1/surveys/{id}", "get"): statuses_of(here, api.get(api.one), None, http.get(api.none)),
        ("/v1/register", "get"): statuses_of(
            here, api.get("/v1/register"), None, http.get("/v1/register?after=x")
        ),
        ("/v1/surveys/{id}/results", "get"): api.results("results"),
        ("/v1/surveys/{id}/results.csv", "get"): api.results("results.csv"),
        ("/v1/surveys/{id}/counters", "get"): api.counters(),
        ("/v1/surveys/{id}/close", "post"): api.closed(),
        ("/metrics", "get"): {"200": http.get("/metrics")},
        ("/metrics/results", "get"): statuses_of(here, api.get("/metrics/results"), "analyst"),
        ("/v1/openapi.json", "get"): {"200": http.get("/v1/openapi.json")},
        ("/healthz", "get"): {"200": http.get("/healthz")},
        ("/readyz", "get"): statuses_of(here, api.get("/readyz"), None),
    }
    unsure, still_open = api.in_doubt(), here.publish(survey(name="open"))
    here.writer.stop()
    for answer in (*unsure, here.send(envelope(still_open, 1))):
        assert answer.status_code == 503
    answers["/readyz", "get"]["503"] = http.get("/readyz")
    return answers


def listed(made: Any) -> Iterator[tuple[str, str, Any]]:
    for path, operations in made["paths"].items():
        for method, operation in operations.items():
            if method != "parameters":
                yield path, method, operation


def test_every_status_that_is_sent_is_listed_and_no_other(here: World) -> None:
    answers = sent(here)
    statuses = {(p, m): set(operation["responses"]) for p, m, operation in listed(document())}
    assert statuses == {
        address: set(statuses) | ALWAYS | SLOW.get(address, set())
        for address, statuses in answers.items()
    }


def test_every_key_that_is_sent_is_described(here: World) -> None:
    for (path, method), statuses in sent(here).items():
        for status, answer in statuses.items():
            described = document()["paths"][path][method]["responses"][status]
            content = described.get("content", PROBLEM_CONTENT)
            assert answer.mimetype in content, (path, status)
            if "json" in answer.mimetype:
                schema = content[answer.mimetype]["schema"]
                assert unlike(answer.json, schema) is None, (path, status)
                if path != "/v1/openapi.json":
                    assert unlike({**answer.json, "other": 1}, schema)


def paths_served(here: World) -> set[tuple[str, str]]:
    """Return every address and method of intake and reader that programs use."""
    reader = {
        (re.sub(r"<identifier>", "{id}", rule.rule), method.lower())
        for rule in here.app.url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
        if rule.endpoint.startswith("api.")
    }
    intake = {
        (path, method.lower())
        for path, route in ROUTES.items()
        for method in {*route.methods} - {"HEAD"}
        if path.startswith("/v1/") or "{" not in path
    }
    return reader | intake


def test_the_document_lists_exactly_what_is_served(here: World) -> None:
    made = here.client.get("/v1/openapi.json").json
    assert made == json.loads(json.dumps(document()))
    assert made["openapi"].startswith("3.1")
    assert {(path, method) for path, method, _ in listed(made)} == paths_served(here)


def test_every_reference_in_the_document_resolves() -> None:
    made = document()
    references = re.findall(r'"\$ref": "#/([^"]+)"', json.dumps(made))
    assert references
    for reference in references:
        part: Any = made  # Any: walking down JSON
        for step in reference.split("/"):
            part = part[step]


def test_every_accepted_json_body_matches_the_document(here: World) -> None:
    from deniable.shared.envelope import json_envelope

    asked: PublishedSurvey = here.publish(mixed())
    body = {"envelopes": [json_envelope(asked.survey, envelope(asked, 1))]}
    assert here.post(json.dumps(body).encode(), JSON).json["accepted"] == 1
    assert unlike(body, {"$ref": "#/components/schemas/JsonEnvelopes"}) is None


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        (True, {"type": "integer"}),
        (-1, {"type": "integer", "minimum": 0}),
        ("x", {"type": ["number", "null"]}),
        ([1], {"type": "array", "prefixItems": [{}, {}], "items": False, "minItems": 2}),
        ("ab", {"type": "string", "pattern": "^a$"}),
        ({"a": 1}, {"type": "object", "properties": {}, "additionalProperties": False}),
    ],
)
def test_the_check_finds_planted_faults(value: object, schema: dict[str, Any]) -> None:
    assert unlike(value, schema)
