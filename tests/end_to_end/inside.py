"""Server in the test process: the real application, store and writer, and a settable clock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from deniable.server.store import Store
from deniable.shared.envelope import CONTENT_TYPE
from deniable.shared.survey.document import survey_id
from deniable.shared.survey.keys import public_hex, sign
from tests.server.world import World, world

SIGNER = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


@dataclass(frozen=True)
class Inside:
    world: World
    tokens: Mapping[str, str]  # role to token

    @property
    def http(self) -> FlaskClient:
        client: FlaskClient = self.world.client
        return client

    @property
    def store(self) -> Store:
        return self.world.store

    def publish(self, document: bytes) -> str:
        self.store.publish(document, sign(document, SIGNER), public_hex(SIGNER))
        self.world.catalogue.refresh()  # without waiting a quarter of a second
        return survey_id(document)

    def send(self, body: bytes | str, *, kind: str = CONTENT_TYPE, role: str = "") -> TestResponse:
        return self.http.post(
            "/v1/envelopes", data=body, content_type=kind, headers=self._bearer(role)
        )

    def results(self, survey: str) -> dict[str, Any]:
        answer = self.http.get(f"/v1/surveys/{survey}/results", headers=self._bearer("analyst"))
        assert answer.status_code == 200, answer.text
        results: dict[str, Any] = answer.get_json()
        return results

    def counters(self, survey: str) -> dict[str, Any]:
        answer = self.http.get(f"/v1/surveys/{survey}/counters", headers=self._bearer("analyst"))
        counters: dict[str, Any] = answer.get_json()
        return counters

    def _bearer(self, role: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[role]}"} if role else {}


@contextmanager
def inside(data: Path, now: datetime) -> Iterator[Inside]:
    """Run a server whose clock stands still at `now`."""
    with world(data, now) as here:
        tokens = {role: here.token(role, days=3650) for role in ("operator", "analyst", "app")}
        yield Inside(here, tokens)
