"""A client for tests: all of it is real but the network, the clock and, if wanted, the noise."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from tempfile import TemporaryDirectory

from deniable.client.client import Client
from deniable.client.policy import Policy
from deniable.client.testing.server import FakeServer, SentReport, Source
from deniable.shared.errors import WrongUse
from deniable.shared.privacy.randomness import kernel_draw

TESTS = ("PYTEST_CURRENT_TEST", "DENIABLE_TESTING")  # set by pytest; to be set elsewhere


class Clock:
    """Stands until it is moved."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def move(self, **by: float) -> None:
        """By days=1, hours=2 and so on."""
        self.now += timedelta(**by)


class FakeClient(Client):
    """A `Client` that asks `surveys`, which are files, or their content as bytes.

    `policy` is the app's own, of which keys and pinned surveys are replaced by those of the server
    in memory. `seed` makes the noise repeatable: there is no other transport to give, so it never
    leaves this process. The clock stands at noon of the first survey's first day. Consent is given
    as in the app: nothing is sent before `consent(True)`.
    """

    def __init__(self, *surveys: Source, policy: Policy | None = None, seed: int | None = None):
        _refuse_outside_of_tests()
        self.clock = Clock(datetime(1970, 1, 1, tzinfo=UTC))
        self.server = FakeServer(self.clock)
        opens = [self.server.publish(survey).opens for survey in surveys]
        if opens:
            self.clock.now = datetime.combine(opens[0], time(12), UTC)
        self._folder = TemporaryDirectory(prefix="deniable-", ignore_cleanup_errors=True)
        keys = [self.server.key]
        super().__init__(
            "https://deniable.invalid",
            policy=replace(policy, keys=keys, surveys=None) if policy else Policy(keys=keys),
            state=self._folder.name,
            now=self.clock,
            draw=kernel_draw if seed is None else random.Random(seed).getrandbits,  # noqa: S311
            transport=self.server,
            send_within=0.0,
        )

    @property
    def reports(self) -> list[SentReport]:
        """What has reached the server, once whatever is on its way has been delivered."""
        self.flush()
        return list(self.server.sent)

    def close(self) -> None:
        super().close()
        self._folder.cleanup()


def _refuse_outside_of_tests(environment: Mapping[str, str] = os.environ) -> None:
    if not any(environment.get(name) for name in TESTS):
        raise WrongUse(
            "deniable.client.testing is for tests: run it under pytest, or set DENIABLE_TESTING=1"
        )
