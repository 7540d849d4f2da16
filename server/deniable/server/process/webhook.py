"""Webhook for alerts: one POST per check, over HTTPS or to this machine, without redirects."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from http.client import HTTPException
from queue import Full, Queue
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request

import msgspec

from deniable.server.alerts.monitor import Event
from deniable.server.http.messages import JSON
from deniable.server.process.server_requests import checked, send

TIMEOUT_SECONDS = 10.0
PAUSES_SECONDS = (5.0, 25.0)  # before the second and the third attempt
MAX_EVENTS = 100  # in one document; the log has all
MAX_WAITING = 100  # documents; the log has all events

log = logging.getLogger("deniable.server")


class Webhook:
    """Receiver of alerts. Messages name its host only, since its path may contain a secret."""

    def __init__(self, url: str, sleep: Callable[[float], None] = time.sleep) -> None:
        self._url, self._sleep = checked(url, "webhook"), sleep
        self._host = urlsplit(url).hostname
        self._waiting = Queue[Sequence[Event]](MAX_WAITING)
        self._thread = threading.Thread(target=self._run, name="webhook", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def post_later(self, events: Sequence[Event]) -> None:
        """Let the webhook's own thread post the events: a slow receiver delays nothing else."""
        try:
            self._waiting.put_nowait(events)
        except Full:
            log.error("the webhook at %s is too slow: %d alerts are lost", self._host, len(events))

    def _run(self) -> None:
        while True:
            self.post(self._waiting.get())

    def post(self, events: Sequence[Event]) -> None:
        """Send the events. Retry if the receiver may accept them later; then give up."""
        sent = events[:MAX_EVENTS]
        text = "\n".join(event.text for event in sent)
        body = msgspec.json.encode({"text": text, "events": sent})
        for pause in (*PAUSES_SECONDS, None):
            fault, is_final = self._attempt(body)
            if fault is None:
                return
            if is_final or pause is None:
                log.error("the webhook at %s did not accept alerts: %s", self._host, fault)
                return
            self._sleep(pause)

    def _attempt(self, body: bytes) -> tuple[str | None, bool]:
        """Send once; return the fault, if any, and whether another attempt is useless."""
        headers = {"Content-Type": JSON, "User-Agent": "deniable"}
        request = Request(self._url, body, headers, method="POST")  # noqa: S310 # https, or here
        try:
            send(request, TIMEOUT_SECONDS).close()
        except HTTPError as error:
            error.close()
            return f"status {error.code}", error.code < 500 and error.code != 429
        except OSError as error:
            return str(getattr(error, "reason", error)), False
        except (HTTPException, ValueError) as error:  # its message may contain the address
            return type(error).__name__, True
        return None, True
