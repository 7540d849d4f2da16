"""The published surveys in memory: read again within a quarter of a second of any change."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from deniable.server.store import PublishedSurvey, Store

FRESH_SECONDS = 0.25  # what a verb has published is served within half a second


@dataclass(frozen=True)
class _Contents:
    mark: object
    by_id: dict[str, PublishedSurvey]
    listing: bytes


class Catalogue:
    """Safe from several threads."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._store, self._clock = store, clock
        self._lock = threading.Lock()
        self._looked = clock()
        self._contents = self._read()

    def find(self, identifier: str) -> PublishedSurvey | None:
        """The survey with exactly this id."""
        return self._fresh().by_id.get(identifier)

    def surveys(self) -> list[PublishedSurvey]:
        """In the order of publication."""
        return list(self._fresh().by_id.values())

    def listing(self) -> bytes:
        """The answer to whoever asks which surveys there are: the same bytes for everybody."""
        return self._fresh().listing

    def refresh(self) -> None:
        """Look again at once, because something was just changed here."""
        with self._lock:
            self._look()

    def _fresh(self) -> _Contents:
        if self._clock() - self._looked >= FRESH_SECONDS:
            with self._lock:
                if self._clock() - self._looked >= FRESH_SECONDS:  # else another thread has looked
                    self._look()
        return self._contents

    def _look(self) -> None:
        if self._store.surveys_mark() != self._contents.mark:
            self._contents = self._read()
        self._looked = self._clock()

    def _read(self) -> _Contents:
        mark, surveys = self._store.surveys_mark(), self._store.surveys()
        listing = json.dumps({"surveys": [entry(survey) for survey in surveys]}, ensure_ascii=False)
        return _Contents(mark, {survey.id: survey for survey in surveys}, listing.encode())


def entry(published: PublishedSurvey) -> dict[str, Any]:
    """A survey as the protocol has it."""
    return {
        "id": published.id,
        "document": published.document.decode(),
        "signature": published.signature,
        "key": published.key,
        "state": published.state,
    }
