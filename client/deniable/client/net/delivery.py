"""Interpretation of a server's reply to an envelope."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from deniable.client.diagnostics import escaped
from deniable.client.net.transport import Reply
from deniable.shared.errors import EnvelopeCode

FINAL = frozenset({400, 405, 406, 410, 411, 413, 414, 415, 422, 431})
MAX_RETRY_AFTER_SECONDS = 3600.0
PASSING: frozenset[EnvelopeCode] = frozenset({"early"})  # the device's clock is ahead
MAX_CODE_CHARACTERS = 64  # maximum length of the server's code for a refusal


class DeliveryResult(NamedTuple):
    """Fate of an envelope. If `settled` is None, it will be sent again after `pause` seconds."""

    settled: Literal["accepted", "relayed", "refused"] | None
    detail: str = ""
    pause: float = 0.0
    reached: bool = True  # the server may have seen the envelope
    kind: str = "delivery"  # kind of the failure, in one word


UNREADABLE = DeliveryResult(None, "the reply does not mention the envelope")


def delivery_result(reply: Reply) -> DeliveryResult:
    """Interpret a reply. Only a reply about the envelope itself settles its fate.

    The login page of a hotel network or the error page of a proxy does not.
    """
    if reply.status == 200:
        return _accepted_or_refused(_table(reply.body))
    held = _table(reply.body).get("held") if reply.status == 202 else None
    if type(held) is int and held == 1:  # a relay has it on disk, and will forward it
        return DeliveryResult("relayed")
    if reply.status in FINAL and _is_problem(reply):
        return DeliveryResult("refused", f"status {reply.status}")
    return DeliveryResult(None, f"status {reply.status}", retry_after_seconds(reply.retry_after))


def batch_results(reply: Reply, count: int) -> list[DeliveryResult]:
    """Interpret a reply to a body of several envelopes with one report each, envelope by envelope.

    Unless the reply has exactly one outcome for each envelope, no envelope is settled.
    """
    if reply.status != 200:
        return [delivery_result(reply)] * count
    results, table = [DeliveryResult("accepted")] * count, _table(reply.body)
    counts: list[Any] = [table.get("accepted"), table.get("duplicates")]
    refused = table.get("refused")
    if not (all(type(number) is int for number in counts) and isinstance(refused, list)):
        return [UNREADABLE] * count
    for entry in refused:
        index = entry.get("index") if isinstance(entry, dict) else None
        if type(index) is not int or not 0 <= index < count or not entry.get("code"):
            return [UNREADABLE] * count
        results[index] = _refusal(entry)
    settled = sum(result.settled == "accepted" for result in results)
    fits = settled == sum(counts) and settled + len(refused) == count and min(counts) >= 0
    return results if fits else [UNREADABLE] * count


def retry_after_seconds(text: str | None) -> float:
    """Parse Retry-After, in seconds or as a date, up to a limit; return 0 if it is unreadable."""
    if text is None:
        return 0.0
    from email.utils import parsedate_to_datetime

    try:
        if text.isascii() and text.strip().isdigit():
            seconds = float(text)
        else:
            seconds = (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds()
    except (ValueError, TypeError, OverflowError):
        return 0.0
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_SECONDS)


def _accepted_or_refused(table: dict[str, Any]) -> DeliveryResult:  # Any: JSON
    counts: list[Any] = [table.get("accepted"), table.get("duplicates")]
    refused = table.get("refused")
    if not (all(type(count) is int for count in counts) and isinstance(refused, list)):
        return UNREADABLE
    if not refused:
        return DeliveryResult("accepted") if sum(counts) > 0 else UNREADABLE
    if not (isinstance(refused[0], dict) and refused[0].get("code")):
        return UNREADABLE
    return _refusal(refused[0])


def _refusal(entry: dict[str, Any]) -> DeliveryResult:  # Any: JSON
    code = escaped(str(entry["code"]), MAX_CODE_CHARACTERS)
    return DeliveryResult(None if code in PASSING else "refused", code)


def _table(body: bytes) -> dict[str, Any]:  # Any: JSON
    """Parse a JSON object; return an empty one if the body is anything else."""
    try:
        table = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return table if isinstance(table, dict) else {}


def _is_problem(reply: Reply) -> bool:
    """Return whether the reply is the server's own problem document, not a page of a proxy."""
    kind = reply.content_type.partition(";")[0].strip().lower()
    return kind == "application/problem+json" and _table(reply.body).get("status") == reply.status
