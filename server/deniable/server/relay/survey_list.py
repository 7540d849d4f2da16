"""List of surveys of a relay's aggregator: the same bytes for every device.

Devices that send through a relay also fetch the list from it, so the aggregator never sees their
addresses. The documents are signed, so a relay can hide surveys, but not change them.

From the same list, the relay computes the marks of the rounds that accept reports, their deadlines,
and the length of a sealed report. It holds no other envelopes, so garbage takes no room.
"""

from __future__ import annotations

import gzip
import json
import logging
import math
import threading
import zlib
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from http.client import HTTPException
from urllib.request import Request

from deniable.server.process.server_requests import send
from deniable.server.surveys.clock import Clock
from deniable.shared.envelope import HEADER
from deniable.shared.errors import InvalidSurvey
from deniable.shared.sealed_envelope import marks_of, sealed_bytes
from deniable.shared.survey.document import Survey, parse_document, survey_id
from deniable.shared.survey.keys import MAX_EPOCH

FRESH_SECONDS = 60.0
USABLE_SECONDS = 3_600.0  # if the aggregator does not answer, an older list is served for an hour
SETTLING_SECONDS = 300.0  # time between two lists, before a survey in neither is taken as deleted
TIMEOUT_SECONDS = 10.0
MAX_LIST_BYTES = 32 * 2**20  # as many as clients accept

NOT_A_LIST = (
    OSError, HTTPException, EOFError, zlib.error, ValueError, LookupError, TypeError,
    RecursionError,
)  # fmt: skip

log = logging.getLogger("deniable.relay")


@dataclass(frozen=True)
class Fetched:
    compressed: bytes
    fetched: float  # seconds on the monotonic clock

    @cached_property
    def plain(self) -> bytes:
        return gzip.decompress(self.compressed)


@dataclass(frozen=True)
class SealedRound:
    """Round of a sealed survey."""

    until: datetime  # the aggregator accepts its reports until then
    length: int  # of a sealed report
    epoch: int = 0  # in a new epoch, devices send their reports again


class SurveyList:
    """List of the aggregator, fetched at most once a minute; thread-safe."""

    def __init__(self, server: str, clock: Clock | None = None) -> None:
        self._url, self._clock = f"{server}/v1/surveys", clock or Clock()
        self._seconds = self._clock.seconds
        self._lock = threading.Lock()
        self._surveys: dict[str, Survey] = {}  # sealed ones, even if they leave the list
        self._epochs: dict[tuple[str, int], int] = {}  # by survey and round
        self._rounds: dict[bytes, SealedRound] = {}
        self._list: Fetched | None = None
        self._tried, self._first = -math.inf, math.inf  # the last attempt, and the first list

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
                fetched = Fetched(self._fetch(), now)
                self._learn(fetched.plain)
                self._list, self._first = fetched, min(self._first, now)
            except NOT_A_LIST as error:
                log.warning("the list of surveys was not fetched: %s", type(error).__name__)
            self._rounds = self._accepted()
            kept = self._list
            return kept if kept and now - kept.fetched < USABLE_SECONDS else None

    def round_of(self, mark: bytes) -> SealedRound | None:
        """Return the round with this mark, or None if no known survey accepts its reports now."""
        return self._rounds.get(mark)

    @property
    def is_known(self) -> bool:
        """True once a list has been fetched some minutes after the first one.

        Just after its own start, an aggregator may not list all its surveys.
        """
        return self._list is not None and self._list.fetched - self._first >= SETTLING_SECONDS

    def _learn(self, listed: bytes) -> None:
        """Read the sealed surveys of a list; leave out entries that clients would refuse, too."""
        for entry in json.loads(listed)["surveys"]:
            document = str(entry["document"]).encode()
            identifier = survey_id(document)
            if identifier not in self._surveys:
                try:
                    survey = parse_document(document)
                except InvalidSurvey:
                    continue
                if survey.sealed_to is not None:
                    self._surveys[identifier] = survey
            if identifier in self._surveys:
                for epoch in entry.get("epochs", ()):
                    round_, number = int(epoch["round"]), int(epoch["epoch"])
                    if self._epochs.get((identifier, round_), 0) < number <= MAX_EPOCH:
                        self._epochs[identifier, round_] = number

    def _accepted(self) -> dict[bytes, SealedRound]:
        now = self._clock.now()
        self._surveys = {
            identifier: survey
            for identifier, survey in self._surveys.items()
            if now < survey.taken_until(survey.last_round)
        }
        self._epochs = {of: epoch for of, epoch in self._epochs.items() if of[0] in self._surveys}
        return {
            mark: SealedRound(
                survey.taken_until(number),
                sealed_bytes(HEADER.size + survey.report_size),
                self._epochs.get((identifier, number), 0),
            )
            for identifier, survey in self._surveys.items()
            for mark, number in marks_of(identifier, survey, now).items()
        }

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
