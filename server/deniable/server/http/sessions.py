"""Sessions of the pages: a cookie that is worth something for as long as the server remembers it.

The token itself stays out of the browser: signing out ends what a copied cookie could do, and so
does a restart, or revoking the token.
"""

from __future__ import annotations

import secrets
import threading

from deniable.server.surveys.clock import Clock

LAST_SECONDS = 12 * 3_600.0
MOST = 10_000


class Sessions:
    """Safe from several threads; in memory only, the oldest first."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._tokens: dict[str, tuple[str, float]] = {}

    def begin(self, token: str) -> str:
        """The cookie of a new session of whoever has this token."""
        cookie = secrets.token_urlsafe(32)
        with self._lock:
            if len(self._tokens) >= MOST:
                del self._tokens[next(iter(self._tokens))]
            self._tokens[cookie] = token, self._clock.seconds() + LAST_SECONDS
        return cookie

    def token(self, cookie: str) -> str:
        """Whose session it is; nobody's if it has ended."""
        token, end = self._tokens.get(cookie, ("", 0.0))
        return token if self._clock.seconds() < end else ""

    def end(self, cookie: str) -> None:
        with self._lock:
            self._tokens.pop(cookie, None)
