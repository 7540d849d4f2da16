"""What a server's reply means for the envelope that was sent."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from deniable.client.escaping import escaped
from deniable.client.net.transport import Reply
from deniable.shared.errors import EnvelopeCode

FINAL = frozenset({400, 405, 406, 410, 411, 413, 414, 415, 422, 431})
MOST_RETRY_AFTER = 3600.0
PASSING: frozenset[EnvelopeCode] = frozenset({"early"})  # our clock is ahead of the server's
MOST_CODE = 64  # characters of what a server calls its refusal


@dataclass(frozen=True)
class DeliveryResult:
    """`settled` is None where it is worth sending again, not before `pause` seconds."""

    settled: Literal["accepted", "relayed", "refused"] | None
    detail: str = ""
    pause: float = 0.0
    reached: bool = True  # whether the server may have seen it
    kind: str = "delivery"  # of failure, in a word


def delivery_result(reply: Reply) -> DeliveryResult:
    """Only a reply that speaks of the envelope settles it: a hotel's login page does not, and
    no error page of a proxy."""
    if reply.status == 200:
        return _taken_or_refused(reply.body)
    if reply.status == 202 and _is_held(reply.body):
        return DeliveryResult("relayed")
    if reply.status in FINAL and _is_problem(reply):
        return DeliveryResult("refused", f"status {reply.status}")
    return DeliveryResult(None, f"status {reply.status}", retry_after_seconds(reply.retry_after))


def retry_after_seconds(text: str | None) -> float:
    """Seconds or a date, as HTTP has it; nothing longer than the ceiling, and 0 if unreadable."""
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
    return min(max(seconds, 0.0), MOST_RETRY_AFTER)


def _taken_or_refused(body: bytes) -> DeliveryResult:
    unreadable = DeliveryResult(None, "a reply that does not speak of the envelope")
    try:
        table = json.loads(body)
        taken, refused = _whole(table["accepted"]) + _whole(table["duplicates"]), table["refused"]
        code = escaped(str(refused[0]["code"]), MOST_CODE) if refused else ""
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        return unreadable
    if code in PASSING:
        return DeliveryResult(None, code)
    if code:
        return DeliveryResult("refused", code)
    return DeliveryResult("accepted") if taken > 0 else unreadable


def _is_held(body: bytes) -> bool:
    """Whether a relay has it on disk, and passes it on."""
    try:
        table = json.loads(body)
        return isinstance(table, dict) and _whole(table["held"]) == 1
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


def _is_problem(reply: Reply) -> bool:
    """Whether it is our server's own problem document: a proxy on the way has pages of its own."""
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
