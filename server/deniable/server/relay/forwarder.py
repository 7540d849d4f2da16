"""Forwarder of a relay: one thread that sends whole batches and deletes them once delivered.

A batch is sent when it is full, or when its first envelope has waited for the maximum time. It is
shuffled with the kernel's randomness and sent in bodies of bounded size. The forwarder retries each
body until the aggregator accepts it, with exponential backoff and full jitter, and never before
Retry-After.
"""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from random import SystemRandom
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request

from deniable.server.process.server_requests import send
from deniable.server.relay.held_batches import Holding
from deniable.shared.errors import DeniableError
from deniable.shared.sealed_envelope import BATCH, SEALED_TYPE, SealedEnvelope

MAX_BODY_BYTES = 2**19
MAX_BODY_ENVELOPES = 1_000
PART_TIMEOUT_SECONDS = 60.0  # limit for each part of a response
MAX_RESPONSE_SECONDS = 600.0
MAX_RESPONSE_BYTES = 2**20
POLL_INTERVAL_SECONDS = 1.0
MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 1.0, 900.0
MAX_DOUBLINGS = 20

log = logging.getLogger("deniable.relay")
uniform = SystemRandom().uniform


@dataclass(frozen=True)
class Settings:
    """Settings of a relay, passed to its worker."""

    server: str  # URL of the aggregator
    token: str = field(repr=False)  # app token, which allows many envelopes per body
    folder: Path
    batch: int = BATCH  # number of envelopes at which a batch is sent
    longest_seconds: float = 86_400.0  # time after which a smaller batch is sent
    max_bytes: int = 256 * 2**20  # limit on held envelopes


class NotTaken(DeniableError):
    """Raised if the aggregator does not answer a body, or answers it unexpectedly."""

    def __init__(self, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Forwarder:
    """Thread that forwards the batches of a relay."""

    def __init__(
        self, holding: Holding, settings: Settings, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        self._holding, self._settings, self._sleep = holding, settings, sleep
        self._waiting_since = math.inf  # start of the current wait for a response
        self._thread = threading.Thread(target=self._run, name="forwarder", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def has_ended(self) -> bool:
        """Return whether the thread has failed or waited too long, so that the process must end."""
        hangs = time.monotonic() - self._waiting_since > MAX_RESPONSE_SECONDS
        return hangs or not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            try:
                if not self.turn():
                    self._sleep(POLL_INTERVAL_SECONDS)
            except OSError:
                log.exception("the folder cannot be read or written; will retry")
                self._sleep(MIN_PAUSE_SECONDS)

    def turn(self) -> bool:
        """Forward a batch if one is due, and return whether it was delivered."""
        batch = self._holding.leaving()
        if not batch:
            full = self._holding.gathered >= self._settings.batch
            if not full and self._holding.waited() < self._settings.longest_seconds:
                return False
            self._holding.close_batch()
            batch = self._holding.leaving()
        outcomes = Counter[str]()
        for body in bodies(batch):
            outcomes.update(self._forward(body))
        self._holding.delete_batch()
        counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
        log.info("a batch of %d was forwarded: %s", len(batch), counts)
        return True

    def _forward(self, body: Sequence[SealedEnvelope]) -> Mapping[str, int]:
        failures = 0
        while True:
            try:
                return self._sent(body)
            except NotTaken as error:
                doubled = MIN_PAUSE_SECONDS * 2.0 ** min(failures, MAX_DOUBLINGS)
                failures += 1
                log.warning("a batch was not forwarded, will retry: %s", error)
                self._sleep(error.retry_after + uniform(0, min(doubled, MAX_PAUSE_SECONDS)))

    def _sent(self, body: Sequence[SealedEnvelope]) -> Mapping[str, int]:
        """Send a body once, and return the number of envelopes by outcome."""
        headers = {"Authorization": f"Bearer {self._settings.token}", "Content-Type": SEALED_TYPE}
        packed = b"".join(envelope.pack() for envelope in body)
        url = f"{self._settings.server}/v1/envelopes"
        request = Request(url, packed, headers, method="POST")  # noqa: S310 # https, or this machine
        self._waiting_since = time.monotonic()
        try:
            with send(request, PART_TIMEOUT_SECONDS) as reply:
                text = reply.read(MAX_RESPONSE_BYTES)
        except HTTPError as error:
            with error:
                reason = f"the aggregator answered with status {error.code}"
                raise NotTaken(reason, _seconds(error.headers.get("Retry-After"))) from None
        except OSError as error:
            cause = getattr(error, "reason", error)
            raise NotTaken(f"no answer from the aggregator: {cause}") from None
        except (HTTPException, ValueError) as error:  # its message may contain the token
            name = type(error).__name__
            raise NotTaken(f"the HTTP exchange with the aggregator failed: {name}") from None
        finally:
            self._waiting_since = math.inf
        return _outcomes(text, len(body))


def bodies(batch: Sequence[SealedEnvelope]) -> Iterator[list[SealedEnvelope]]:
    """Split a batch, in order, into bodies of bounded size."""
    body, size = list[SealedEnvelope](), 0
    for envelope in batch:
        if body and (
            len(body) == MAX_BODY_ENVELOPES or size + len(envelope.pack()) > MAX_BODY_BYTES
        ):
            yield body
            body, size = [], 0
        body.append(envelope)
        size += len(envelope.pack())
    if body:
        yield body


def _outcomes(text: bytes, sent: int) -> Mapping[str, int]:
    """Return the outcomes in a receipt, which must account for every envelope."""
    try:
        receipt: Any = json.loads(text)  # Any: JSON
        outcomes = Counter(ascii(refusal["code"])[1:-1][:32] for refusal in receipt["refused"])
        outcomes += Counter(
            {name: int(receipt[name]) for name in ("accepted", "duplicates") if receipt[name]}
        )
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise NotTaken("the response is not a receipt of an aggregation server") from None
    if outcomes.total() != sent:
        raise NotTaken(f"the response does not account for exactly the {sent} envelopes sent")
    return outcomes


def _seconds(text: str | None) -> float:
    is_number = text and text.isascii() and text.isdecimal()
    return min(float(text), MAX_PAUSE_SECONDS) if text and is_number else 0.0
