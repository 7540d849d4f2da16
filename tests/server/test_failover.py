"""Fail-over to a standby: with two real clusters, one of which replicates the other.

With a synchronous standby, no acknowledged report is lost. Without one, the server warns.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator

import pytest

from deniable.server.store import Database, PublishedSurvey, create_store, open_store
from deniable.shared.envelope import CONTENT_TYPE
from tests.command import run
from tests.eventually import PATIENCE, eventually
from tests.server import postgres
from tests.server.postgres import Cluster
from tests.server.surveys import envelope, published
from tests.server.test_kills import this_month, this_round
from tests.server.world import Server, serving, start

RISK = "synchronous_standby_names is empty"


@pytest.fixture
def primary() -> Iterator[Cluster]:
    """Start a cluster that the test may end."""
    with postgres.cluster() as made:
        yield made


def test_a_synchronous_standby_has_every_acknowledged_report(primary: Cluster) -> None:
    """The role's own setting would let a commit return before the standby has it."""
    database = primary.new_database()
    with create_store(database) as store:
        asked = published(store, this_month())
    with postgres.standby(primary) as standby:
        server = start(database)
        assert RISK in readiness(server.url)["warning"]
        assert RISK in readiness(server.dashboard)["warning"]
        assert_doctor_warns(database)
        primary.say("ALTER ROLE postgres SET synchronous_commit = 'local'")
        wait_for_standbys(primary)
        eventually(lambda: "warning" not in readiness(server.url), "no warning")
        assert "warning" not in readiness(server.dashboard)
        found = run("doctor", "--store", database.url)
        assert (found.returncode, RISK in found.stdout) == (0, False)
        accepted = send(server, asked, range(40))
        primary.stop()
        assert RISK in server.stop()[1], "the start must warn"
        standby.value("SELECT pg_promote()")
        with serving(of(standby, database)) as promoted:
            assert accepted == set(range(40))
            assert send(promoted, asked, range(60)) == set(range(40, 60)), (
                "the others were duplicates"
            )
        with open_store(of(standby, database)) as store:
            assert store.report_totals() == {asked.sequence: 60}


def assert_doctor_warns(database: Database) -> None:
    found = run("doctor", "--store", database.url, "--json")
    (check,) = (check for check in json.loads(found.stdout)["checks"] if not check["well"])
    assert (found.returncode, check["check"], RISK in check["says"]) == (1, "standbys", True)


def wait_for_standbys(primary: Cluster) -> None:
    """Let a commit return only when a standby has it."""
    primary.say("ALTER SYSTEM SET synchronous_standby_names = '*'")
    primary.say("SELECT pg_reload_conf()")
    query = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
    eventually(lambda: primary.value(query) == 1, "a synchronous standby")


def of(cluster: Cluster, database: Database) -> Database:
    """Return the database of the same name in another cluster."""
    return cluster.database(str(database.parameters()["dbname"]))


def readiness(url: str) -> dict[str, str]:
    with urllib.request.urlopen(f"{url}/readyz", timeout=PATIENCE) as answer:
        ready: dict[str, str] = json.load(answer)
    assert ready["status"] == "ready"
    return ready


def send(server: Server, asked: PublishedSurvey, numbers: range) -> set[int]:
    """Send a report for each number, and return those that were accepted for the first time."""
    return {number for number in numbers if is_accepted(server, asked, number)}


def is_accepted(server: Server, asked: PublishedSurvey, number: int) -> bool:
    """Send a report, which must be acknowledged. Return False if it was a duplicate."""
    sent = envelope(asked, number, round_number=this_round(asked)).pack()
    headers = {"Content-Type": CONTENT_TYPE}
    request = urllib.request.Request(f"{server.url}/v1/envelopes", sent, headers)
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        receipt = json.load(answer)
    assert receipt["accepted"] + receipt["duplicates"] == 1
    return bool(receipt["accepted"])
