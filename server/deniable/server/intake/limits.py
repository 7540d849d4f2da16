"""Hourly rate limit for reports without a token, per survey and network neighbourhood.

A neighbourhood is an IPv4 /24 or an IPv6 /64, which one person can easily control. No address is
stored: a keyed hash selects a counter in a table, and the key exists only in memory, for one hour.
The table has a fixed size, so neighbourhoods may share a counter and its limit.
"""

from __future__ import annotations

import hashlib
import math
import secrets
import threading
from array import array
from ipaddress import IPv6Address, ip_address

from deniable.server.surveys.clock import Clock

WINDOW_SECONDS = 3_600.0
COUNTERS = 2**20
MAX_COUNT = 2**32 - 1


class Limits:
    """Thread-safe counters of reports per neighbourhood and survey."""

    def __init__(self, most: int, clock: Clock | None = None) -> None:
        self._most, self._clock = min(most, MAX_COUNT), clock or Clock()
        self._lock = threading.Lock()
        self._begin()

    def wait(self, sender: bytes, survey: str) -> int:
        """Count one report, and return 0. Over the limit, return the seconds until a retry."""
        with self._lock:
            if self._clock.seconds() >= self._until:
                self._begin()
            hashed = hashlib.blake2b(sender + survey.encode(), key=self._key, digest_size=8)
            index = int.from_bytes(hashed.digest()) % COUNTERS
            if self._counts[index] >= self._most:
                return math.ceil(self._until - self._clock.seconds())
            self._counts[index] += 1
            return 0

    def _begin(self) -> None:
        self._until = self._clock.seconds() + WINDOW_SECONDS
        self._key = secrets.token_bytes(16)
        self._counts = array("I", bytes(4 * COUNTERS))


def neighbourhood(address: str) -> bytes:
    """Return an address's neighbourhood. Invalid addresses share one.

    >>> neighbourhood("192.0.2.7") == neighbourhood("::ffff:192.0.2.200") == bytes([192, 0, 2])
    True
    >>> neighbourhood("2001:db8::1") == neighbourhood("2001:db8::ffff:1") != neighbourhood("x")
    True
    """
    try:
        parsed = ip_address(address.strip().strip("[]"))
    except ValueError:
        return b""
    if isinstance(parsed, IPv6Address) and not parsed.ipv4_mapped:
        return parsed.packed[:8]
    return parsed.packed[-4:-1]
