"""The drills of RECIPES.md, run as they are written: fail-over, and restoring an old backup.

Real devices report to a real server. The shell blocks of the document run unchanged, with other
values of the variables that their first line exports.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from deniable.client import Client
from deniable.server.store import Database, Place, open_store
from deniable.server.store.records import ID_DIGITS
from deniable.shared.survey.keys import create_key, public_hex
from tests.client.scripted import lifetime_policy
from tests.command import asked_json, run
from tests.eventually import PATIENCE, eventually
from tests.server import postgres
from tests.server.postgres import Cluster
from tests.server.test_failover import of, wait_for_standbys
from tests.server.world import Server, serving
from tests.survey_texts import bit, survey_text

ROOT = Path(__file__).parents[2]
HALF = 20
Shell = subprocess.CompletedProcess[str]
WEEK = timedelta(days=7, hours=1)


@dataclass
class Drill:
    """Devices, the survey that they answer, and the store of their server."""

    folder: Path
    place: Place
    ahead: timedelta = timedelta()  # of the devices' clock

    def __post_init__(self) -> None:
        self.public = public_hex(create_key(str(self.folder / "key.pem")))
        self.publish(self.place)

    def publish(self, place: Place, name: str = "app-health") -> str:
        """Publish a survey with the key, and return the beginning of its id."""
        today = datetime.now(UTC).date()
        days = {"opens": today, "closes": today + timedelta(days=40), "grace_days": 60}
        file, key = self.folder / f"{name}.toml", self.folder / "key.pem"
        file.write_text(survey_text(bit(epsilon="1"), name=name, **days))
        published = asked_json("survey", "publish", file, "--key", key, *option_of(place))
        return str(published["id"])[:ID_DIGITS]

    def reconcile(self, variables: Mapping[str, object]) -> None:
        """Run the document's command for the survey and round of the drill."""
        (block,) = documented("Reconciling a round")
        today = datetime.now(UTC).date().isoformat()
        assert "2026-12-01" in block
        block = block.replace("2026-12-01", today)
        if not variables["STANDBY"]:
            block = block.replace('--store "$STANDBY"', "--data restored")
        done = shell(block, self.folder, variables)
        assert "published epoch 1" in done.stdout, done.stderr

    def client(self, server: Server) -> Client:
        return Client(
            server.url,
            policy=lifetime_policy(keys=[self.public]),
            state=self.folder / "devices",
            now=lambda: datetime.now(UTC) + self.ahead,
            send_within=0.0,
            timeout=PATIENCE,
        )

    def answer(self, client: Client, people: range) -> None:
        """Answer for each person, and wait until the server has acknowledged all reports."""
        for number in people:
            person = client.person(f"person {number}")
            person.consent(True)
            assert person.answer("app-health", crashed=True).status == "queued"
        assert client.flush(PATIENCE) == 0

    def follow_epochs(self, client: Client) -> None:
        """Fetch the list, and let the week pass in which devices send again."""
        eventually(partial(has_epochs, client._server), "the epoch is listed")
        self.ahead += timedelta(hours=2)
        assert client.prefetch(PATIENCE)
        self.ahead += WEEK
        assert client.flush(PATIENCE) == 0


def shell(block: str, folder: Path, variables: Mapping[str, object]) -> Shell:
    """Run a block with these values of the variables that it exports or uses."""
    values = {name: str(value) for name, value in variables.items()}
    for name, value in values.items():
        block = re.sub(rf"(?<=\b{name}=)\S+", f"'{value}'", block)
    path = f"{ROOT / '.venv/bin'}:{postgres.programs()}:{os.environ['PATH']}"
    return subprocess.run(
        ["sh", "-ec", block],
        cwd=folder, env=os.environ | values | {"PATH": path},
        capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip


def documented(section: str) -> list[str]:
    """Return the shell blocks of a section, below another."""
    text = (ROOT / "server/RECIPES.md").read_text("utf-8")
    part = text.split(f"### {section}\n")[1].split("\n##")[0]
    return re.findall(r"^```sh\n(.*?)^```", part, re.MULTILINE | re.DOTALL)


def option_of(place: Place) -> tuple[str, object]:
    return ("--data", place) if isinstance(place, Path) else ("--store", place.url)


def accepted(place: Place) -> int:
    with open_store(place) as store:
        return sum(store.report_totals().values())


def has_epochs(url: str) -> bool:
    with urllib.request.urlopen(f"{url}/v1/surveys", timeout=PATIENCE) as answer:
        return any("epochs" in listed for listed in json.load(answer)["surveys"])


@pytest.mark.long
@pytest.mark.parametrize("synchronous", [True, False])
def test_a_fail_over_loses_what_the_document_says(tmp_path: Path, synchronous: bool) -> None:
    """An asynchronous standby is cut off after half of the reports."""
    check, promote = documented("A fail-over drill")
    with postgres.cluster() as primary:
        database = primary.new_database()
        drill = Drill(tmp_path, database)
        with postgres.standby(primary) as standby:
            promoted = of(standby, database)
            named = {"PRIMARY": database.url, "STANDBY": promoted.url}
            if synchronous:
                wait_for_standbys(primary)
            with serving(database) as server:
                port, client = server.port, drill.client(server)
                drill.answer(client, range(HALF))
                eventually(lambda: accepted(promoted) == HALF, "the standby has half")
                if not synchronous:
                    cut_off(standby, primary)
                drill.answer(client, range(HALF, 2 * HALF))
                assert shell(check, tmp_path, named).returncode == (0 if synchronous else 1)
            primary.stop()
            said = shell(promote, tmp_path, named)
            assert re.search(
                r"position is [0-9A-F]+/[0-9A-F]+\. Later ack.* may be lost", said.stdout
            )
            lost = 2 * HALF - accepted(promoted)
            assert lost == (0 if synchronous else HALF)
            with serving(promoted, port=port):
                drill.reconcile(named)
                drill.follow_epochs(client)
                brought = accepted(promoted) - 2 * HALF + lost
                print(f"{lost} of {2 * HALF} acknowledged reports were lost; {brought} came back")
                assert brought == lost
            client.close()


def cut_off(standby: Cluster, primary: Cluster) -> None:
    standby.say("ALTER SYSTEM SET primary_conninfo = ''")
    standby.say("SELECT pg_reload_conf()")
    eventually(lambda: primary.value(postgres.REPLICATING) == 0, "the standby is cut off")


@pytest.mark.parametrize("store", ["folder", pytest.param("database", marks=pytest.mark.long)])
def test_an_old_backup_is_restored_as_the_document_says(
    tmp_path: Path, request: pytest.FixtureRequest, store: str
) -> None:
    """A survey that was published after the backup gets the same id when it is published again."""
    for_folder, for_database = documented("Restoring an old backup")
    place, restored, backup = places(request, store, tmp_path)
    drill = Drill(tmp_path, place)
    with serving(place) as server:
        port, client = server.port, drill.client(server)
        drill.answer(client, range(HALF))
        eventually(lambda: accepted(place) == HALF, "half are in the tables")
        back_up(place, backup)
        drill.answer(client, range(HALF, 2 * HALF))
        later = drill.publish(place, name="later")
    block = for_folder if store == "folder" else for_database
    variables = {"BACKUP": backup, "DATA": restored, "DUMP": backup, "RESTORED": url_of(restored)}
    done = shell(block, tmp_path, variables)
    assert (done.returncode, "app-health" in done.stdout, later in done.stdout) == (0, True, False)
    assert drill.publish(restored, name="later") == later
    assert accepted(restored) == HALF
    with serving(restored, port=port, more=["--trust-clock"]):
        drill.reconcile({"STANDBY": url_of(restored)})
        drill.follow_epochs(client)
        assert accepted(restored) == 2 * HALF
    client.close()


def places(request: pytest.FixtureRequest, store: str, folder: Path) -> tuple[Place, Place, Path]:
    """Return the place of the old store, the place for the restored one, and the backup's file."""
    if store == "folder":
        return folder / "data", folder / "restored", folder / "backup"
    cluster: Cluster = request.getfixturevalue("cluster")
    return cluster.new_database(), cluster.new_database(), folder / "backup"


def back_up(place: Place, file: Path) -> None:
    if isinstance(place, Path):
        assert run("backup", "--data", place, "--to", file).returncode == 0
    else:
        dump = str(postgres.programs() / "pg_dump")
        command = [dump, "--format=custom", f"--file={file}", place.url]
        subprocess.run(command, check=True, timeout=PATIENCE)


def url_of(place: Place) -> str:
    return place.url if isinstance(place, Database) else ""
