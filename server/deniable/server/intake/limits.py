"""Hourly rate limit for reports without a token, per survey and network neighbourhood.

A neighbourhood is an IPv4 /24 or an IPv6 /64, which one person can easily control. A person may
also have a whole IPv6 /56 or /48, so the networks around an IPv6 /64 have limits of their own,
which are multiples of the limit of one neighbourhood. Many /48 networks of one person remain
possible, and cheap: these limits only slow such a sender down.

No address is stored: a keyed hash selects a counter in a table, and the key exists only in memory,
for one hour. The table has a fixed size, so networks may share a counter and its limit.
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
IPV6_BYTES = 8
# limit of an IPv6 network, as a multiple of a neighbourhood's, by the bytes of its prefix
NETWORK_FACTORS = {7: 4, 6: 16, 4: 4_096}


class Limits:
    """Thread-safe counters of reports per neighbourhood and survey."""

    def __init__(self, most: int, clock: Clock | None = None) -> None:
        self._most, self._clock = (
            min(most, MAX_COUNT),
            clock or Clock(),
        )
        self._lock = threading.Lock()
        self._begin()

    def wait(self, sender: bytes, survey: str, reports: int = 1) -> int:
        """Count reports, or only check, and return 0. Over the limit, return seconds to a retry."""
        with self._lock:
            if self._clock.seconds() >= self._until:
                self._begin()
            limits = {
                self._index(network, survey): min(factor * self._most, MAX_COUNT)
                for network, factor in networks(sender).items()
            }
            if any(self._counts[index] >= most for index, most in limits.items()):
                return math.ceil(self._until - self._clock.seconds())
            for index in limits:
                self._counts[index] += reports
            return 0

    def _index(self, network: bytes, survey: str) -> int:
        named = bytes([len(network)]) + network + survey.encode()
        hashed = hashlib.blake2b(named, key=self._key, digest_size=8)
        return int.from_bytes(hashed.digest()) % COUNTERS

    def _begin(self) -> None:
        self._until = self._clock.seconds() + WINDOW_SECONDS
        self._key = secrets.token_bytes(16)
        self._counts = array("I", bytes(4 * COUNTERS))


def networks(sender: bytes) -> dict[bytes, int]:
    """Return the networks around a neighbourhood, with the factors of their limits."""
    wider = NETWORK_FACTORS if len(sender) == IPV6_BYTES else {}
    return {sender: 1} | {sender[:size]: factor for size, factor in wider.items()}


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
        return parsed.packed[:IPV6_BYTES]
    return parsed.packed[-4:-1]
