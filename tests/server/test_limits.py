"""Rate limits for reports without a token: per address neighbourhood, without storing addresses."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from ipaddress import ip_network
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deniable.server.http import rate_limit
from deniable.server.intake import limits
from deniable.server.intake.limits import Limits, neighbourhood
from deniable.server.store import PublishedSurvey, create_store
from deniable.shared.envelope import CONTENT_TYPE
from tests.eventually import PATIENCE
from tests.server.devices import SENDER
from tests.server.surveys import envelope, published, survey
from tests.server.test_kills import this_month, this_round
from tests.server.test_overload import altered
from tests.server.world import PROBLEM, Hands, Server, World, serving

NEAR_ADDRESS, FAR_ADDRESS = "192.0.2.1", "198.51.100.1"
NEAR = neighbourhood(NEAR_ADDRESS)
SPREAD = 2_654_435_761  # an odd number, so that its multiples reach all parts of a network


@pytest.mark.parametrize(("requests", "seconds"), [(1, 0.3), (0, rate_limit.MIN_REST_SECONDS)])
def test_costly_work_leaves_three_times_its_duration_for_cheap_requests(
    requests: int, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, share = [0.0], rate_limit.WorkShare()

    async def sleep(duration: float) -> None:
        now[0] += duration
        share.cheap_requests += requests

    async def work() -> None:
        async with share:
            now[0] += 0.1

    monkeypatch.setattr(rate_limit, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(rate_limit, "asyncio", SimpleNamespace(sleep=sleep))
    asyncio.run(work())
    assert now[0] == pytest.approx(0.1 + seconds, rel=1e-9)


def test_adjacent_networks_are_different_neighbourhoods() -> None:
    household = neighbourhood("2001:db8:0:1::7")
    assert household == neighbourhood("2001:db8:0:1:ffff::1")
    assert household != neighbourhood("2001:db8:0:2::7")
    assert NEAR == neighbourhood("192.0.2.255") != neighbourhood("192.0.3.1")


def send(
    here: World, asked: PublishedSurvey, number: int, sender: str = NEAR_ADDRESS, **more: Any
) -> Any:
    return here.post(envelope(asked, number).pack(), environ_overrides={SENDER: sender}, **more)


@pytest.fixture
def limited(here: World) -> World:
    """Return a server with a limit of three reports an hour."""
    from dataclasses import replace

    here.front.intake = replace(here.front.intake, limits=Limits(3, here.clock))
    return here


def test_a_neighbourhood_has_an_hourly_quota_per_survey(limited: World) -> None:
    asked, other = limited.publish(survey()), limited.publish(survey(name="other"))
    assert [send(limited, asked, number).status_code for number in range(4)] == [200, 200, 200, 429]
    refused = send(limited, asked, 4)
    assert (refused.content_type, refused.json["code"]) == (PROBLEM, "rate-limited")
    assert 0 < int(refused.headers["Retry-After"]) <= 3_600
    assert send(limited, asked, 5, FAR_ADDRESS).status_code == 200
    assert send(limited, other, 6).status_code == 200
    limited.clock.pass_(minutes=59)
    assert send(limited, asked, 7).status_code == 429
    limited.clock.pass_(minutes=1)
    assert send(limited, asked, 8).status_code == 200


def test_every_hour_has_its_own_quota() -> None:
    """A used-up quota refuses reports until its hour is over, and states the remaining seconds."""
    quota = Limits(3, clock := Hands())
    for _ in range(5):
        assert [quota.wait(NEAR, "a") for _ in range(5)] == [0, 0, 0, 3_600, 3_600]
        clock.pass_(minutes=59)
        assert [quota.wait(NEAR, "a") for _ in range(2)] == [60, 60]
        assert quota.wait(neighbourhood(FAR_ADDRESS), "a") == 0
        clock.pass_(minutes=1)


def test_an_hour_begins_with_its_first_report() -> None:
    """Idle hours before the first report do not count."""
    quota = Limits(1, clock := Hands())
    for hours in (1, 2, 7.5):
        assert [quota.wait(NEAR, "a") for _ in range(2)] == [0, 3_600]
        clock.pass_(hours=hours)


def test_a_token_is_not_limited(limited: World) -> None:
    asked, app = limited.publish(survey()), limited.bearer("app")
    sent = [send(limited, asked, number, headers=app).status_code for number in range(9)]
    assert sent == [200] * 9


def test_refused_reports_use_up_no_quota(limited: World) -> None:
    asked = limited.publish(survey())
    for number in range(9):
        late = envelope(asked, number, round_number=1).pack()
        assert limited.post(late, environ_overrides={SENDER: NEAR_ADDRESS}).status_code == 200
    assert send(limited, asked, 10).status_code == 200


def test_no_header_changes_the_address_of_the_sender(limited: World) -> None:
    asked = limited.publish(survey())
    forged = {"tests.sender": "x", "X-Forwarded-For": "203.0.113.9"}
    sent = [send(limited, asked, number, headers=forged).status_code for number in range(4)]
    assert sent == [200, 200, 200, 429]


@pytest.mark.parametrize(
    ("network", "most"), [("/64", 3), ("/56", 12), ("/48", 48), ("/32", 3 * 4_096)]
)
def test_a_larger_ipv6_network_has_a_larger_quota(network: str, most: int) -> None:
    """One person may have a /56 or a /48, so its many /64 are counted together."""
    quota, own = Limits(3, Hands()), ip_network(f"2001:db8::{network}")
    subnets = 2 ** (64 - own.prefixlen)
    spread = (number * SPREAD % subnets for number in range(4 * most))
    senders = (neighbourhood(str(own[subnet * 2**64])) for subnet in spread)
    assert sum(quota.wait(sender, "a") == 0 for sender in senders) == most


def test_a_full_ipv6_network_takes_no_quota_from_others() -> None:
    """A /48 that sends as much as it can leaves less than one in a thousand others without room."""
    quota, full = Limits(500, Hands()), ip_network("2001:db8:1::/48")
    for number in range(2**16):
        quota.wait(neighbourhood(str(full[number * 2**64])), "a")
    others = [number.to_bytes(3) for number in range(2**14)]
    assert sum(quota.wait(other, "a") > 0 for other in others) < 16


def test_the_table_has_a_fixed_size_and_stores_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """The size is the same for any number of senders, and an address gets a new slot every hour."""
    monkeypatch.setattr(limits, "COUNTERS", 64)
    made = Limits(10, clock := Hands())
    taken = sum(made.wait(number.to_bytes(3), "a") == 0 for number in range(10_000))
    assert taken == 64 * 10
    places = set()
    for _ in range(32):
        clock.pass_(hours=1)
        made.wait(NEAR, "a")
        places.add(next(bucket for bucket, count in enumerate(made._counts) if count))
        assert len(made._counts) == 64
    assert len(places) > 1  # all slots are equal by chance with probability 64**-31


def post(server: Server, body: bytes, **headers: str) -> int:
    request = urllib.request.Request(
        f"{server.url}/v1/envelopes", body, {"Content-Type": CONTENT_TYPE, **headers}
    )
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


@pytest.mark.parametrize(
    ("options", "believed"), [((), False), (("--proxy", "127.0.0.1"), True),
                              (("--proxy", "192.0.2.9"), False)]
)  # fmt: skip
def test_a_proxy_is_trusted_if_the_operator_names_it(
    tmp_path: Path, options: tuple[str, ...], believed: bool
) -> None:
    with create_store(tmp_path) as store:
        asked = published(store, this_month())
    command = [*altered(""), "--limit", "2", *options]
    with serving(tmp_path, command=command) as server:

        def sent(number: int, said: str) -> int:
            report = envelope(asked, number, round_number=this_round(asked))
            return post(server, report.pack(), **{"X-Forwarded-For": said})

        assert [sent(number, "203.0.113.1") for number in range(3)] == [200, 200, 429]
        assert sent(4, "203.0.113.1, 198.51.100.7") == (200 if believed else 429)
        assert sent(5, "198.51.100.7, 203.0.113.1") == 429
        # Some proxies append the port: these are two senders, not one that is unknown.
        from_ports = [sent(6 + n, f"192.0.{n % 2}.1:{n}") for n in range(2, 6)]
        assert from_ports == [200 if believed else 429] * 4
