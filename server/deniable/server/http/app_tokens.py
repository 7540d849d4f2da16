"""App tokens that were looked up a moment ago: an app that sends often is not looked up each time.

A token that is revoked, or expires, is refused within a quarter of a second.
"""

from __future__ import annotations

from deniable.server.surveys.clock import Clock

FRESH_SECONDS = 0.25
MOST = 1_000


class AppTokens:
    """By the `Authorization` header that carries them. Safe from several threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: dict[str, float] = {}

    def remember(self, authorization: str, asked: float) -> None:
        """The store, asked at this time, has said that it is an app's."""
        if len(self._until) >= MOST:
            self._until.clear()
        self._until[authorization] = asked + FRESH_SECONDS

    def fresh_for(self, authorization: str) -> float:
        """For how many seconds nobody has to ask the store; not above 0 if it was never asked."""
        return self._until.get(authorization, 0.0) - self._clock.seconds()
