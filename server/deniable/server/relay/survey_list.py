"""List of surveys of a relay's aggregator: the same bytes for every device.

Devices that send through a relay also fetch the list from it, so the aggregator never sees their
addresses. The documents are signed, so a relay can hide surveys, but not change them.
"""

from __future__ import annotations

import gzip
import logging
import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from http.client import HTTPException
from urllib.request import Request

from deniable.server.process.server_requests import send

FRESH_SECONDS = 60.0
USABLE_SECONDS = 3_600.0  # if the aggregator does not answer, an older list is served for an hour
TIMEOUT_SECONDS = 10.0
MAX_LIST_BYTES = 32 * 2**20  # as many as clients accept

log = logging.getLogger("deniable.relay")


@dataclass(frozen=True)
class Fetched:
    compressed: bytes
    fetched: float  # seconds on the monotonic clock

    @cached_property
    def plain(self) -> bytes:
        return gzip.decompress(self.compressed)


class SurveyList:
    """List of the aggregator, fetched at most once a minute; thread-safe."""

    def __init__(self, server: str, seconds: Callable[[], float] = time.monotonic) -> None:
        self._url, self._seconds = f"{server}/v1/surveys", seconds
        self._lock = threading.Lock()
        self._list: Fetched | None = None
        self._tried = float("-inf")

    @property
    def fresh(self) -> Fetched | None:
        """Return the list if it need not be fetched again."""
        kept, now = self._list, self._seconds()
        fetched = kept is not None and now - kept.fetched < FRESH_SECONDS
        return kept if fetched or now - self._tried < 1.0 else None

    def get(self) -> Fetched | None:
        """Return the list, or None if there is no usable one."""
        with self._lock:
            if (fresh := self.fresh) is not None:
                return fresh
            self._tried = now = self._seconds()
            try:
                self._list = Fetched(self._fetch(), now)
            except (OSError, HTTPException, EOFError, zlib.error, ValueError) as error:
                log.warning("the list of surveys was not fetched: %s", type(error).__name__)
            kept = self._list
            return kept if kept and now - kept.fetched < USABLE_SECONDS else None

    def _fetch(self) -> bytes:
        """Return the list, compressed. An aggregator that sends too much gets no further."""
        request = Request(self._url, headers={"Accept-Encoding": "gzip"})  # noqa: S310 # checked
        with send(request, TIMEOUT_SECONDS) as reply:
            body: bytes = reply.read(MAX_LIST_BYTES + 1)
            compressed = reply.headers.get("Content-Encoding") == "gzip"
        inflater = zlib.decompressobj(wbits=31)
        plain = inflater.decompress(body, MAX_LIST_BYTES + 1) if compressed else body
        if len(plain) > MAX_LIST_BYTES or (compressed and not inflater.eof):
            raise ValueError("the list is too long or incomplete")
        return body if compressed else gzip.compress(body, mtime=0)
