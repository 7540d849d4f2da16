"""Batches: bodies with the reports of many people, for a backend that has an app token.

A body holds reports of one survey and round, so no two of them are from the same person. Each
report waits for its own random moment (state/outbox.py), so one person's reports of two surveys
leave in different bodies, at independent moments. The order in a body is shuffled. All bodies use
one connection, because the server knows anyway that they come from the same backend.

Taking a batch reserves its reports for some seconds, so that no other process sends them too. The
server's reply settles each report separately. If the server refuses a body as a whole, smaller
bodies follow, so that one bad report affects no other.
"""

from __future__ import annotations

from datetime import datetime

from deniable.client.diagnostics import escaped
from deniable.client.net.delivery import DeliveryResult, batch_results
from deniable.client.net.transport import AppTransport, Transport, Unreachable
from deniable.client.state import Transaction, outbox
from deniable.client.state.drafts import freeze
from deniable.client.state.outbox import QueuedEnvelope
from deniable.client.state.store import State

MAX_ENVELOPES = 4_096  # of one body; shared/envelope.py has the same limits, and loads later
MAX_BODY_BYTES = 2**20
RESERVED_TIMES = 3.0  # multiple of the time of an exchange


class Batches:
    """Sender of batches through one transport."""

    def __init__(self, state: State, transport: Transport, exchange_seconds: float) -> None:
        self._state, self._transport, self._seconds = state, transport, exchange_seconds
        self._most = MAX_ENVELOPES  # fewer after a refused body
        self.is_full = False  # whether more reports may be due than the last batch held

    def take(
        self, db: Transaction, server: str, now: datetime, up_to: int, within: float
    ) -> list[QueuedEnvelope]:
        """Take the reports of one body in random order, and count their tries."""
        from random import SystemRandom

        batch, size = list[QueuedEnvelope](), 0
        found = outbox.due_batch(db, server, now, up_to, within, self._most)
        for row in found:
            envelope = row if row.slot is None else freeze(db, self._state.drafts, row)
            if envelope is not None:
                size += len(envelope.packed)
                if batch and size > MAX_BODY_BYTES:
                    break
                batch.append(envelope)
        self.is_full = len(found) == self._most or len(batch) < len(found)
        outbox.reserve(db, batch, now, RESERVED_TIMES * self._seconds)
        SystemRandom().shuffle(batch)
        return batch

    def send(self, batch: list[QueuedEnvelope]) -> list[DeliveryResult]:
        """Send a body and record the outcome of each report. Return the distinct results."""
        results = self._exchange(batch)
        members: dict[DeliveryResult, list[QueuedEnvelope]] = {}
        for envelope, result in zip(batch, results, strict=True):
            members.setdefault(result, []).append(envelope)
        with self._state.transaction(durable=False) as db:
            for result, envelopes in members.items():
                if result.settled is None:
                    outbox.release(db, envelopes, result.reached)
                else:
                    outbox.finish_batch(db, envelopes, result.settled, result.detail)
        return list(members)

    def close(self) -> None:
        """Close the connection, because nothing is left to send."""
        if isinstance(self._transport, AppTransport):
            self._transport.close()

    def _exchange(self, batch: list[QueuedEnvelope]) -> list[DeliveryResult]:
        """Return each report's result."""
        from deniable.shared.envelope import CONTENT_TYPE
        from deniable.shared.sealed_envelope import MAGIC, SEALED_TYPE

        kind = SEALED_TYPE if batch[0].packed.startswith(MAGIC) else CONTENT_TYPE
        body = b"".join(envelope.packed for envelope in batch)
        try:
            reply = self._transport.request("POST", "/v1/envelopes", body, kind, self._seconds)
        except Unreachable as error:
            lost = DeliveryResult(None, escaped(str(error)), 0.0, error.sent, error.kind)
            return [lost] * len(batch)
        results = batch_results(reply, len(batch))
        whole = results[0].settled == "refused" and reply.status != 200
        if whole and len(batch) > 1:
            self._most = len(batch) // 2
            return [results[0]._replace(settled=None)] * len(batch)
        self._most = min(MAX_ENVELOPES, 2 * self._most)
        return results
