"""Refusal codes: the server, the protocol, the API document, pages and clients agree on them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from deniable.client.net.delivery import PASSING
from deniable.server.http.openapi import document
from deniable.server.pages.public_pages import PROBLEMS
from deniable.server.pages.survey_page import OUTCOMES
from deniable.shared.errors import EnvelopeCode, RequestCode

PROTOCOL = Path(__file__).parents[1] / "shared" / "PROTOCOL.md"
OF_ENVELOPES, OF_REQUESTS = get_args(EnvelopeCode), get_args(RequestCode)


def table(header: str) -> list[str]:
    """Return the codes in the first column of the table with this header."""
    text = PROTOCOL.read_text("utf-8").split(f"| code | {header} |\n")[1].split("\n\n")[0]
    return re.findall(r"^\| `([a-z-]+)` \|", text, re.MULTILINE)


def test_the_protocol_lists_every_code_and_no_other() -> None:
    assert sorted(table("meaning | what the sender does")) == sorted(OF_ENVELOPES)
    assert sorted(table("status | meaning")) == sorted(OF_REQUESTS)


def test_the_openapi_document_lists_every_code_and_no_other() -> None:
    schemas = document()["components"]["schemas"]
    assert set(schemas["RefusedEnvelope"]["properties"]["code"]["enum"]) == set(OF_ENVELOPES)
    assert set(schemas["Problem"]["properties"]["code"]["enum"]) == set(OF_REQUESTS)


def test_pages_describe_every_code_of_an_envelope_and_the_client_knows_no_other() -> None:
    assert OUTCOMES.keys() == {"accepted", "duplicates", *OF_ENVELOPES}
    assert set(OF_ENVELOPES) > PASSING


def test_every_described_problem_has_a_page() -> None:
    problem = {"$ref": "#/components/responses/problem"}
    operations = [operation for path in document()["paths"].values() for operation in path.values()]
    listed = {
        status
        for operation in operations
        if "responses" in operation
        for status, answer in operation["responses"].items()
        if answer == problem
    }
    assert PROBLEMS.keys() == {*OF_REQUESTS, *listed, "405"}
