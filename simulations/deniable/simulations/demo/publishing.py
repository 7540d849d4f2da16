"""Surveys into the running server's folder, as `deniable survey publish --data` does it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from importlib.resources import files
from pathlib import Path

from deniable.server.surveys.survey_file import parse_survey_file
from deniable.shared.errors import Refused
from deniable.shared.survey.document import Survey, render_document
from deniable.shared.survey.keys import public_hex, sign
from deniable.simulations.demo.running import Running

SERVED_CHECKS = 200


@dataclass(frozen=True)
class Published:
    """A survey at its server, as the players need it."""

    server: str
    id: str
    survey: Survey
    key: str  # the public key that devices trust
    app_token: str


class Press:
    """Publishes with a key of its own, which is forgotten with it."""

    def __init__(self, server: Running, data: Path) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        from deniable.server.http.auth import new_token
        from deniable.server.store import open_store

        self._server, self._data = server, data
        self._key = Ed25519PrivateKey.generate()
        self._app_token, now = new_token(), datetime.now(UTC)
        with open_store(data) as store:
            store.add_token(self._app_token, "app", now, now + timedelta(days=1))
            store.enrol_key(public_hex(self._key))

    def publish(self, name: str, opens: date, closes: date) -> Published:
        """The demo's survey of this name, once the server serves it."""
        from deniable.server.store import open_store
        from deniable.server.surveys.catalogue import Catalogue

        survey, key = read_survey(name, opens, closes), public_hex(self._key)
        document = render_document(survey)
        with open_store(self._data) as store:
            published = Catalogue(store).publish(document, sign(document, self._key), key)
        self._wait_until_served(published.id)
        return Published(self._server.url, published.id, survey, key, self._app_token)

    def close(self, published: Published) -> None:
        from deniable.server.store import open_store
        from deniable.server.surveys.catalogue import Catalogue

        with open_store(self._data) as store:
            catalogue = Catalogue(store)
            catalogue.close(catalogue.find(published.id))

    def annotate(self, published: Published, day: date, words: str) -> None:
        from deniable.server.store import Annotation, open_store
        from deniable.server.surveys.catalogue import Catalogue

        with open_store(self._data) as store:
            sequence = Catalogue(store).find(published.id).sequence
            store.annotate(sequence, Annotation(day, words))

    def _wait_until_served(self, survey: str) -> None:
        """A server looks for new surveys every quarter of a second."""
        import requests

        for _ in range(SERVED_CHECKS):
            found = requests.get(f"{self._server.url}/v1/surveys/{survey}", timeout=30)
            if found.status_code == 200:
                return
            time.sleep(0.05)
        raise Refused("the server does not serve the survey that was just published")


def read_survey(name: str, opens: date, closes: date) -> Survey:
    text = files("deniable.simulations.demo").joinpath(f"surveys/{name}.toml").read_text("utf-8")
    for key, day in (("opens", opens), ("closes", closes)):
        text = text.replace(f"{key} = 2000-01-01", f"{key} = {day}")
    return parse_survey_file(text)
