"""A server inside the test process: the real application, store and writer, and a clock to set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from deniable.server.app import create_app
from deniable.server.http.auth import new_token
from deniable.server.http.context import EXTENSION
from deniable.server.intake.writer import Writer
from deniable.server.store import Store, create_store
from deniable.server.surveys.catalogue import Catalogue
from deniable.server.surveys.clock import Clock
from deniable.shared.envelope import CONTENT_TYPE
from deniable.shared.survey.document import survey_id
from deniable.shared.survey.keys import public_hex, sign

SIGNER = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


@dataclass(frozen=True)
class Inside:
    http: FlaskClient
    store: Store
    tokens: Mapping[str, str]  # role to token

    def publish(self, document: bytes) -> str:
        self.store.publish(document, sign(document, SIGNER), public_hex(SIGNER))
        self.http.application.extensions[EXTENSION].catalogue.refresh()  # not in a quarter second
        return survey_id(document)

    def send(self, body: bytes | str, *, kind: str = CONTENT_TYPE, role: str = "") -> TestResponse:
        return self.http.post(
            "/v1/envelopes", data=body, content_type=kind, headers=self._bearer(role)
        )

    def close(self, survey: str) -> None:
        """What is closed is looked at once: its intervals are no longer those of open rounds."""
        answer = self.http.post(f"/v1/surveys/{survey}/close", headers=self._bearer("operator"))
        assert answer.status_code == 200, answer.text

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
    """A server whose clock stands at `now`."""
    clock = Clock(now=lambda: now)
    with create_store(data) as store:
        tokens = {role: new_token() for role in ("operator", "analyst", "app")}
        for role, token in tokens.items():
            store.add_token(token, role, datetime.now(UTC), now + timedelta(days=3650))
        catalogue = Catalogue(store)
        writer = Writer(store, catalogue, clock)
        writer.start()
        try:
            app = create_app(store, catalogue, writer, clock)
            yield Inside(app.test_client(), store, tokens)
        finally:
            writer.stop()
