"""OpenAPI document, compared with a real server by schemathesis: it describes every response."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    ignored_auth,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from deniable.server.http.openapi import document
from deniable.server.http.tokens import new_token
from deniable.server.store import PublishedSurvey, create_store
from deniable.shared.envelope import CONTENT_TYPE
from deniable.shared.sealed_envelope import BATCH_TYPE, SEALED_TYPE
from tests.server.devices import is_for_intake
from tests.server.surveys import published
from tests.server.test_kills import this_month
from tests.server.world import Server, serving

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
    unsupported_method,
    ignored_auth,
]
ROLES = {"GET": "analyst", "POST": "operator"}


@schemathesis.serializer(CONTENT_TYPE, SEALED_TYPE, BATCH_TYPE)
def as_it_is(_: object, value: bytes | str) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


described = schemathesis.openapi.from_dict(document())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("schema")


@pytest.fixture(scope="module")
def asked(folder: Path) -> PublishedSurvey:
    with create_store(folder) as store:
        return published(store, this_month())


@pytest.fixture(scope="module")
def tokens(folder: Path) -> dict[str, str]:
    now, made = datetime.now(UTC), {role: new_token() for role in ("app", "analyst", "operator")}
    with create_store(folder) as store:
        for role, token in made.items():
            store.add_token(token, role, now, now + timedelta(days=1))
    return made


@pytest.fixture(scope="module")
def server(folder: Path, asked: PublishedSurvey, tokens: dict[str, str]) -> Iterator[Server]:
    with serving(folder) as made:
        yield made


def base_url(server: Server, case: schemathesis.Case[Any]) -> str:  # Any: every operation
    """Return the address of the process that serves this operation."""
    return server.url if is_for_intake(case.path, case.method.upper()) else server.dashboard


@described.parametrize()
@settings(
    max_examples=5,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
    database=None,
)
def test_every_address_responds_as_described(
    case: schemathesis.Case[Any],  # Any: every operation
    server: Server,
    asked: PublishedSurvey,
    tokens: dict[str, str],
) -> None:
    role = "app" if case.path == "/v1/envelopes" else ROLES.get(case.method, "analyst")
    case.call_and_validate(
        base_url=base_url(server, case),
        checks=CHECKS,
        headers={"Authorization": f"Bearer {tokens[role]}"},
    )


def test_the_check_changes_neither_counts_nor_surveys(folder: Path, asked: PublishedSurvey) -> None:
    with create_store(folder) as store:
        assert store.tallies(asked.sequence) == []
        assert [(survey.id, survey.state) for survey in store.surveys()] == [(asked.id, "open")]


def test_the_check_finds_an_undescribed_response(
    server: Server, asked: PublishedSurvey, tokens: dict[str, str]
) -> None:
    wrong = document()
    wrong["components"]["schemas"]["Counters"]["properties"]["accepted"] = {"type": "string"}
    operation = schemathesis.openapi.from_dict(wrong)["/v1/surveys/{id}/counters"]["GET"]
    case = operation.Case(path_parameters={"id": asked.id})
    with pytest.raises(FailureGroup):
        case.call_and_validate(
            base_url=server.dashboard,
            checks=CHECKS,
            headers={"Authorization": f"Bearer {tokens['analyst']}"},
        )
