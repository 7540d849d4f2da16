"""The meaning of a server's reply for the envelope that was sent."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from deniable.client.diagnostics import escaped
from deniable.client.net.transport import Reply
from deniable.shared.errors import EnvelopeCode

FINAL = frozenset({400, 405, 406, 410, 411, 413, 414, 415, 422, 431})
MAX_RETRY_AFTER_SECONDS = 3600.0
PASSING: frozenset[EnvelopeCode] = frozenset(
    {"early"}
)  # this device's clock is ahead of the server's
MAX_CODE_CHARACTERS = 64  # of the server's name for a refusal


@dataclass(frozen=True)
class DeliveryResult:
    """The fate of an envelope. `settled` is None if it is sent again, after `pause` seconds."""

    settled: Literal["accepted", "relayed", "refused"] | None
    detail: str = ""
    pause: float = 0.0
    reached: bool = True  # the server may have seen the envelope
    kind: str = "delivery"  # of the failure, in one word


def delivery_result(reply: Reply) -> DeliveryResult:
    """Read a reply. Only one that mentions the envelope settles it.

    The login page of a hotel network or the error page of a proxy does not.
    """
    if reply.status == 200:
        return _accepted_or_refused(reply.body)
    if reply.status == 202 and _is_held(reply.body):
        return DeliveryResult("relayed")
    if reply.status in FINAL and _is_problem(reply):
        return DeliveryResult("refused", f"status {reply.status}")
    return DeliveryResult(None, f"status {reply.status}", retry_after_seconds(reply.retry_after))


def retry_after_seconds(text: str | None) -> float:
    """Read Retry-After, in seconds or as a date: at most the limit, and 0 if it is unreadable."""
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


def _accepted_or_refused(body: bytes) -> DeliveryResult:
    unreadable = DeliveryResult(None, "the reply does not mention the envelope")
    try:
        table = json.loads(body)
        accepted, refused = _whole(table["accepted"]), table["refused"]
        accepted += _whole(table["duplicates"])
        code = escaped(str(refused[0]["code"]), MAX_CODE_CHARACTERS) if refused else ""
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        return unreadable
    if code in PASSING:
        return DeliveryResult(None, code)
    if code:
        return DeliveryResult("refused", code)
    return DeliveryResult("accepted") if accepted > 0 else unreadable


def _is_held(body: bytes) -> bool:
    """Return whether a relay has the envelope on disk, and will forward it."""
    try:
        table = json.loads(body)
        return isinstance(table, dict) and _whole(table["held"]) == 1
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


def _is_problem(reply: Reply) -> bool:
    """Return whether the reply is the server's own problem document, not a page of a proxy."""
    if reply.content_type.partition(";")[0].strip().lower() != "application/problem+json":
        return False
    try:
        problem = json.loads(reply.body)
    except (ValueError, RecursionError):
        return False
    return isinstance(problem, dict) and problem.get("status") == reply.status


def _whole(number: object) -> int:
    if type(number) is not int:
        raise TypeError("counts are whole numbers")
    return number
