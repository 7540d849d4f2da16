"""The forwarder: one thread that sends whole batches, and deletes each once it is delivered.

A batch is sent when it is full, or when its first envelope has waited for the maximum time. It is
shuffled with the kernel's randomness and sent in bodies of bounded size. Each body is retried until
the aggregator accepts it, with exponential backoff and full jitter, and never before Retry-After.
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

from deniable.server.process.server_requests import OPENER
from deniable.server.relay.held_batches import Holding
from deniable.shared.errors import DeniableError
from deniable.shared.sealed_envelope import BATCH, SEALED_TYPE, SealedEnvelope

BODY_BYTES = 2**19
BODY_ENVELOPES = 1_000
SECONDS = 60.0  # timeout for part of a response
MOST_SECONDS = 600.0  # timeout for a whole response
MOST_ANSWER = 2**20
LOOK_SECONDS = 1.0
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 900.0
MOST_DOUBLINGS = 20

DAY_SECONDS = 86_400.0
MAX_HELD_BYTES = 256 * 2**20

log = logging.getLogger("deniable.relay")
uniform = SystemRandom().uniform


@dataclass(frozen=True)
class Settings:
    """Settings of a relay, passed to its worker."""

    server: str  # URL of the aggregator
    token: str = field(repr=False)  # an app's token, which allows bodies of many envelopes
    folder: Path
    batch: int = BATCH  # number of envelopes at which a batch is sent
    longest_seconds: float = DAY_SECONDS  # time after which a smaller batch is sent
    max_bytes: int = MAX_HELD_BYTES  # limit on held envelopes


class NotTaken(DeniableError):
    """Raised if the aggregator does not answer a body, or answers it unexpectedly."""

    def __init__(self, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Forwarder:
    def __init__(
        self, holding: Holding, settings: Settings, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        self._holding, self._settings, self._sleep = holding, settings, sleep
        self._asked = math.inf  # start of the current wait for a response
        self._thread = threading.Thread(target=self._run, name="forwarder", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def has_ended(self) -> bool:
        """Return whether the thread has failed or hangs on a response, so the process must end."""
        return not self._thread.is_alive() or time.monotonic() - self._asked > MOST_SECONDS

    def _run(self) -> None:
        while True:
            try:
                if not self.turn():
                    self._sleep(LOOK_SECONDS)
            except OSError:
                log.exception("the folder cannot be read or written; will retry")
                self._sleep(FIRST_PAUSE)

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
                bound = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(failures, MOST_DOUBLINGS))
                failures += 1
                log.warning("not forwarded, will retry: %s", error)
                self._sleep(error.retry_after + uniform(0, bound))

    def _sent(self, body: Sequence[SealedEnvelope]) -> Mapping[str, int]:
        """Send a body once, and return the number of envelopes by outcome."""
        headers = {"Authorization": f"Bearer {self._settings.token}", "Content-Type": SEALED_TYPE}
        packed = b"".join(envelope.pack() for envelope in body)
        where = f"{self._settings.server}/v1/envelopes"
        request = Request(where, packed, headers, method="POST")  # noqa: S310 # https, or here
        self._asked = time.monotonic()
        try:
            with OPENER.open(request, timeout=SECONDS) as reply:
                text = reply.read(MOST_ANSWER)
        except HTTPError as error:
            with error:
                reason = f"the aggregator answered with status {error.code}"
                raise NotTaken(reason, _seconds(error.headers.get("Retry-After"))) from None
        except OSError as error:
            cause = getattr(error, "reason", error)
            raise NotTaken(f"no answer from the aggregator: {cause}") from None
        except (HTTPException, ValueError) as error:  # its message may be secret
            name = type(error).__name__
            raise NotTaken(f"the HTTP exchange with the aggregator failed: {name}") from None
        finally:
            self._asked = math.inf
        return _outcomes(text, len(body))


def bodies(batch: Sequence[SealedEnvelope]) -> Iterator[list[SealedEnvelope]]:
    """Split a batch, in order, into bodies of bounded size."""
    body, size = list[SealedEnvelope](), 0
    for envelope in batch:
        if body and (len(body) == BODY_ENVELOPES or size + len(envelope.pack()) > BODY_BYTES):
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
        raise NotTaken("the answer is not an aggregation server's") from None
    if outcomes.total() != sent:
        raise NotTaken(f"the answer does not cover exactly the {sent} envelopes that were sent")
    return outcomes


def _seconds(text: str | None) -> float:
    return min(float(text), LONGEST_PAUSE) if text and text.isascii() and text.isdecimal() else 0.0
