"""Pages of other origins may read the list of surveys and send reports, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pytest
from werkzeug.routing import Rule

from deniable.server.http.intake_front import ROUTES
from deniable.shared.envelope import CONTENT_TYPE
from tests.server.surveys import survey
from tests.server.world import World

OPEN = {("GET", "/v1/surveys"), ("HEAD", "/v1/surveys"), ("POST", "/v1/envelopes")}
PREFLIGHT = ("OPTIONS", "/v1/envelopes")
ORIGIN = {"Origin": "https://app.example.org"}


def allowed(response: Any) -> list[str]:  # Any: a test response
    return [name for name, _ in response.headers if name.startswith("Access-Control-")]


def addresses(here: World) -> set[str]:
    """Return the paths of intake and reader, with their variable parts named."""
    reader = {re.sub(r"<(?:[a-z]+:)?([a-z]+)>", r"{\1}", rule.rule) for rule in rules(here)}
    return reader | {*ROUTES}


def rules(here: World) -> Iterable[Rule]:
    return here.app.url_map.iter_rules()


def asked(here: World, method: str, address: str, survey: str, role: str | None) -> Any:
    path = re.sub(r"{[a-z]+}", survey, address)
    headers = ORIGIN | (here.bearer(role) if role else {})
    return here.client.open(path, method=method, headers=headers)


@pytest.mark.parametrize("role", [None, "analyst", "operator"])
def test_no_other_address_is_open_to_pages(here: World, role: str | None) -> None:
    published = here.publish(survey())
    opened = {
        (method, address)
        for address in addresses(here)
        for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"]
        if allowed(asked(here, method, address, published.id, role))
    }
    assert opened == OPEN | {PREFLIGHT}


def test_a_page_of_another_origin_can_send_a_report_and_read_the_receipt(here: World) -> None:
    asks = ORIGIN | {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type",
    }
    preflight = here.client.options("/v1/envelopes", headers=asks)
    assert preflight.status_code == 200
    assert preflight.headers["Access-Control-Allow-Origin"] == "*"
    allowed = preflight.headers["Access-Control-Allow-Headers"]
    assert allowed == "Content-Type, Deniable-Invitation", "a code, and never a token"
    refused = here.client.post("/v1/envelopes", content_type=CONTENT_TYPE, headers=ORIGIN)
    assert refused.status_code == 400
    assert refused.headers["Access-Control-Allow-Origin"] == "*"
    assert refused.headers["Access-Control-Expose-Headers"] == "Retry-After"


def test_nothing_is_allowed_with_credentials(here: World) -> None:
    for method, path in OPEN | {PREFLIGHT}:
        headers = here.client.open(path, method=method, headers=ORIGIN).headers
        assert "Access-Control-Allow-Credentials" not in headers
        assert "Authorization" not in headers.get("Access-Control-Allow-Headers", "")
