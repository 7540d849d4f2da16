"""Forwarder of a relay: one thread that sends whole batches and deletes them once delivered.

A batch contains at least B envelopes of one mark, that is, of one survey and round. It leaves

    once 2 B have gathered          at least B of them stay, for the next batch
    some hours before the end       all of them leave, if they are at least B
    at the end                      none leave: they are dropped, and the drop is reported

where the end is that of the round's grace period. So nothing is lost if B or more people report,
and no network exceeds its share. Reports above a share wait for the next batch. At the end, they
are dropped if fewer than B are left to leave with them.

A batch is shuffled with the kernel's randomness and sent in bodies of bounded size, which the relay
signs. The forwarder retries each body until the aggregator accepts it, with exponential backoff and
full jitter, and never before Retry-After.
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
from datetime import timedelta
from http.client import HTTPException
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import Request

from deniable.server.process.server_requests import send
from deniable.server.relay.held_batches import UNFINISHED, Holding, LeavingBatch
from deniable.server.relay.survey_list import SurveyList
from deniable.server.surveys.clock import Clock
from deniable.shared.errors import DeniableError, quantity
from deniable.shared.sealed_envelope import BATCH, BATCH_TYPE, Batch, SealedEnvelope
from deniable.shared.survey.keys import create_key, load_key

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

KEY_FILE = "relay.pem"
MAX_BODY_BYTES = 2**19
MAX_BODY_ENVELOPES = 1_000
PART_TIMEOUT_SECONDS = 60.0  # limit for each part of a response
MAX_RESPONSE_SECONDS = 600.0
MAX_RESPONSE_BYTES = 2**20
POLL_INTERVAL_SECONDS = 1.0
MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 1.0, 900.0
MAX_DOUBLINGS = 20
METRICS_SECONDS = 60.0

log = logging.getLogger("deniable.relay")
uniform = SystemRandom().uniform


@dataclass(frozen=True)
class Settings:
    """Settings of a relay, passed to its worker."""

    server: str  # URL of the aggregator
    token: str = field(repr=False)  # app token, which allows many envelopes per body
    folder: Path
    batch: int = BATCH  # minimum number of envelopes in a batch
    per_network: int = BATCH // 50  # maximum of a batch from one /24 or /64 of addresses
    last_seconds: float = 7_200.0  # time before the end of a grace period when all envelopes leave
    max_bytes: int = 256 * 2**20  # limit on held envelopes
    proxies: tuple[str, ...] = ()  # addresses of proxies trusted to name senders
    app_tokens: frozenset[str] = field(default=frozenset(), repr=False)  # of apps with many people
    metrics: Path | None = None  # file for Prometheus; others could read an address, too
    log_json: bool = False

    def key(self) -> Ed25519PrivateKey:
        """Return the key that signs batches, in the folder; create it at the first start."""
        path = self.folder / KEY_FILE
        return load_key(str(path)) if path.exists() else create_key(str(path))


class NotTaken(DeniableError):
    """Raised if the aggregator does not answer a body, or answers it unexpectedly."""

    def __init__(self, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Forwarder:
    """Thread that forwards the batches of a relay."""

    def __init__(
        self,
        holding: Holding,
        surveys: SurveyList,
        settings: Settings,
        clock: Clock | None = None,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._holding, self._surveys, self._settings = holding, surveys, settings
        self._clock, self._sleep, self._key = clock or Clock(), sleep, settings.key()
        self._outcomes = Counter[str]()  # envelopes since the start
        self._measured = -math.inf  # when the metrics were written
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
                self._write_metrics()
                if not self.turn():
                    self._sleep(POLL_INTERVAL_SECONDS)
            except OSError:
                log.exception("the folder cannot be read or written; will retry")
                self._sleep(MIN_PAUSE_SECONDS)

    def turn(self) -> bool:
        """Forward a batch, or report a drop, if one is due; return whether it was delivered."""
        fewest = self._settings.batch
        batch = self._holding.leaving(fewest)
        if batch is None:
            self._close_batches()
            batch = self._holding.leaving(fewest)
        if batch is None:
            return False
        if batch.dropped is not None:
            self._forward(Batch(batch.number, batch.mark, 0, batch.dropped), [])
            self._outcomes["dropped"] += batch.dropped
            dropped = quantity(batch.dropped, "envelope")
            log.warning("dropped %s of one round: no batch could hide them", dropped)
        else:
            self._send_batch(batch)
        self._holding.delete(batch)
        return True

    def _close_batches(self) -> None:
        """Form the batches that are due, and drop the envelopes whose round is over."""
        self._surveys.get()
        now, fewest = self._clock.now(), self._settings.batch
        for mark, gathered in self._holding.gathered().items():
            found = self._surveys.round_of(mark)
            if found is None and not self._surveys.is_known:
                continue  # the first list after a start may be incomplete
            if found is None or now >= found.until:
                self._holding.drop(mark)
                continue
            if found.epoch:
                self._holding.begin_epoch(mark, found.epoch)
            if now >= found.until - timedelta(seconds=self._settings.last_seconds):
                if gathered >= fewest:
                    self._holding.close_batch(mark, fewest)
            elif gathered >= 2 * fewest:
                self._holding.close_batch(mark, fewest, keep=fewest)

    def _send_batch(self, batch: LeavingBatch) -> None:
        outcomes, size = Counter[str](), len(batch.envelopes)
        for body in bodies(batch.envelopes):
            outcomes.update(self._forward(Batch(batch.number, batch.mark, size), body))
        counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
        log.info("a batch of %d was forwarded: %s", size, counts)
        self._outcomes += outcomes

    def _write_metrics(self) -> None:
        """Write the metrics once a minute, for the textfile collector of Prometheus."""
        path, now = self._settings.metrics, self._clock.seconds()
        if path is None or now - self._measured < METRICS_SECONDS:
            return
        self._measured = now
        envelopes, size = self._holding.totals()
        lines = [f"deniable_relay_held_envelopes {envelopes}", f"deniable_relay_held_bytes {size}"]
        for outcome, count in sorted(self._outcomes.items()):
            lines.append(f'deniable_relay_envelopes_total{{outcome="{outcome}"}} {count}')
        unfinished = path.with_name(path.name + UNFINISHED)
        try:
            unfinished.write_text("\n".join(lines) + "\n", "utf-8")
            unfinished.rename(path)
        except OSError as error:
            log.error("the metrics cannot be written: %s", error.strerror)

    def _forward(self, batch: Batch, body: Sequence[SealedEnvelope]) -> Mapping[str, int]:
        failures = 0
        while True:
            try:
                return self._sent(batch, body)
            except NotTaken as error:
                doubled = MIN_PAUSE_SECONDS * 2.0 ** min(failures, MAX_DOUBLINGS)
                failures += 1
                log.warning("a batch was not forwarded, will retry: %s", error)
                self._sleep(error.retry_after + uniform(0, min(doubled, MAX_PAUSE_SECONDS)))

    def _sent(self, batch: Batch, body: Sequence[SealedEnvelope]) -> Mapping[str, int]:
        """Send a body once, and return the number of envelopes by outcome."""
        headers = {"Authorization": f"Bearer {self._settings.token}", "Content-Type": BATCH_TYPE}
        packed = batch.pack(b"".join(envelope.pack() for envelope in body), self._key)
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
        raise NotTaken(
            f"the response does not account for exactly the {quantity(sent, 'envelope')} sent"
        )
    return outcomes


def _seconds(text: str | None) -> float:
    is_number = text and text.isascii() and text.isdecimal()
    return min(float(text), MAX_PAUSE_SECONDS) if text and is_number else 0.0
