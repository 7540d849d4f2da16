"""Exponential backoff with full jitter: how long to wait after failures.

After n failures in a row the pause is uniform between 0 and a bound that doubles with n [1]: many
devices that fail together do not come back together. Where the server asked for a pause, that is
the least, and no hurry makes it shorter; random time is added, up to its own length or a minute, or
the server could tell whom it sent away by when they come back.

[1] Brooker 2015, "Exponential backoff and jitter", AWS Architecture Blog.
"""

from __future__ import annotations

from collections.abc import Callable
from random import SystemRandom

_uniform = SystemRandom().uniform

LEAST_SPREAD = 60.0  # seconds
MOST_DOUBLINGS = 20  # enough for any bound that anyone waits for, and no overflow


class Backoff:
    def __init__(
        self,
        first: float,
        longest: float,
        monotonic: Callable[[], float],
        uniform: Callable[[float, float], float] = _uniform,
    ) -> None:
        self._first, self._longest = first, longest
        self._monotonic, self._uniform = monotonic, uniform
        self.reset()

    def reset(self) -> None:
        """It went well: the next failure is the first again."""
        self._failures, self._not_before, self.until = 0, 0.0, 0.0

    def fail(self, asked: float = 0.0) -> None:
        """One more failure, and the seconds that the server asked for."""
        now = self._monotonic()
        bound = min(self._longest, self._first * 2.0 ** min(self._failures, MOST_DOUBLINGS))
        self._failures += 1
        if asked:
            asked += self._uniform(0, max(asked, LEAST_SPREAD))
        self._not_before = now + asked
        self.until = now + max(asked, self._uniform(0, bound))

    def hurry(self) -> None:
        """End the pause, but for what the server asked for."""
        self.until = self._not_before

    @property
    def rest(self) -> float:
        """Seconds of the pause that are left; 0 or less when it is over."""
        return self.until - self._monotonic()
