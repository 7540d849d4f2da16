"""Polling of an open round shows steps: never a single report, its order, or its moment."""

import math
import random
import re
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
import pytest
import requests

from deniable.server.alerts.monitor import Event, Monitor
from deniable.server.alerts.rules import AlertSettings, SurveyRule
from deniable.server.http.context import COOKIE, parts_of
from deniable.server.http.tokens import new_token
from deniable.server.results import Results
from deniable.server.store import PublishedSurvey, RoundTally, create_store
from deniable.server.store.records import SETTLING
from deniable.shared.cli.command import main
from deniable.shared.envelope import CONTENT_TYPE, Envelope, encode_report
from deniable.shared.survey.document import DEFAULT_STEP
from tests import survey_texts as texts
from tests.command import asked_json
from tests.eventually import PATIENCE, eventually
from tests.server.surveys import BIT, DECEMBER, published, survey
from tests.server.world import NOON, World, serving, world

RANDOM = re.compile(
    r'name="form_token" value="[^"]*"|urn:uuid:[0-9a-f-]*|-d &#39;.*'
    "|deniable_commit_seconds_(bucket|sum|created).*"  # durations; `_count` remains
)
PLATFORMS = ("linux", "mac")
QUESTIONS = BIT + texts.choice(("a", "b", "c")) + texts.label("platform", values=PLATFORMS)
BLOCK = DEFAULT_STEP // 2  # the server considers a step each time this many have arrived
Report = tuple[tuple[int, int], str]  # symbols and label


def send(here: World, asked: PublishedSurvey, report: Report) -> None:
    """Send a report, and wait until the server has done what it does each second."""
    symbols, platform = report
    payload = encode_report(asked.survey, symbols, {"platform": platform})
    answer = here.send(Envelope(asked.id, DECEMBER, random.randbytes(16), 1, payload))
    assert answer.json["accepted"] == 1

    def is_done() -> bool:
        here.clock.pass_(seconds=2)
        return all(n < BLOCK for _, n in here.writer._upkeep._grown.values())

    eventually(is_done)


def history(seed: int, blocks: int) -> list[Report]:
    """Return reports whose counts after each block do not depend on the seed.

    Their order does, and so do the symbols that each report combines.
    """
    order, reports = random.Random(seed), list[Report]()
    for block in range(blocks):
        columns = [
            [int(n < 4 + block % 3) for n in range(BLOCK)],
            [n * (block + 1) % 3 for n in range(BLOCK)],
        ]
        for platform in PLATFORMS:
            rows = range(BLOCK)[PLATFORMS.index(platform) :: 2]
            drawn = [order.sample([column[row] for row in rows], len(rows)) for column in columns]
            reports += [(pair, platform) for pair in zip(*drawn, strict=True)]
        reports[-BLOCK:] = order.sample(reports[-BLOCK:], BLOCK)
    return reports


def readable(
    here: World, asked: PublishedSurvey, capsys: pytest.CaptureFixture[str]
) -> Iterator[str]:
    """Yield everything that someone can read about the survey, in each role."""
    own, page = f"/v1/surveys/{asked.id}", f"/surveys/{asked.id}"
    paths = [f"{own}/results", f"{own}/results?by=all", f"{own}/results.csv", f"{own}/counters"]
    paths += [page, f"{page}/waiting.json", "/", "/surveys.json", "/metrics/results", "/metrics"]
    for role in ("analyst", "operator"):
        client, bearer = here.client, here.bearer(role)
        client.set_cookie(COOKIE, here.session(here.token(role)))
        for path in (*paths, *(["/operate.json"] if role == "operator" else [])):
            headers = {} if path == "/" or path.startswith("/surveys/") else bearer
            answer = client.get(path, headers=headers)
            assert answer.status_code == 200, (path, role)
            yield "" if path == "/operate.json" else RANDOM.sub("", answer.text)
    for path in ("/v1/surveys", own, f"/public/{asked.id}", f"/public/{asked.id}.json"):
        yield here.devices.get(path).text
    for form in ([], ["--json"], ["--csv"]):  # at today's date
        assert main(["results", asked.id, "--data", str(here.store.data), *form]) == 0
        yield capsys.readouterr().out


def polled(
    folder: Path,
    reports: Sequence[Report],
    capsys: pytest.CaptureFixture[str],
    *,
    steps: bool,
    moments: Sequence[int],
) -> dict[int, list[str]]:
    """Return everything readable after some reports of each block, and after the round is final."""
    with world(folder, NOON, public_pages=True, steps=steps) as here:
        asked, events = here.publish(survey(QUESTIONS)), list[Event]()
        rule = SurveyRule(survey="app-health", when="crashed > 40 %")
        monitor = Monitor(parts_of(here.app), AlertSettings(rule=(rule,)), events.extend)
        seen = dict[int, list[str]]()
        for number, report in enumerate(reports, 1):
            send(here, asked, report)
            monitor.check()
            if number % BLOCK in moments:
                seen[number] = [*readable(here, asked, capsys), repr(events)]
        here.clock.pass_(days=60)
        return seen | {len(reports) + 1: [*readable(here, asked, capsys)]}


ALWAYS = range(BLOCK)
SOMETIMES = (0, 1, BLOCK // 2, BLOCK - 1)  # around each block, where steps are considered


@pytest.mark.parametrize(
    ("steps", "moments"),
    [(True, SOMETIMES), (False, ALWAYS), pytest.param(True, ALWAYS, marks=pytest.mark.long)],
)
def test_what_is_readable_depends_only_on_the_counts_at_the_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], steps: bool, moments: Sequence[int]
) -> None:
    """Two histories with the same counts after each block read the same after each report.

    Without steps, they read the same only after each block, so the comparison can detect reports.
    """
    blocks = 9 if steps else 1
    one, other = (
        polled(tmp_path / str(seed), history(seed, blocks), capsys, steps=steps, moments=moments)
        for seed in (1, 2)
    )
    assert one.keys() == other.keys()
    assert (one == other) == steps
    assert one[BLOCK] == other[BLOCK]
    if steps:
        during = [number for number in one if number <= blocks * BLOCK]
        changes = [after for before, after in pairwise(during) if one[before][0] != one[after][0]]
        assert changes == [2 * DEFAULT_STEP, 4 * DEFAULT_STEP], "the total, then the label too"


def bits_read(polls: Sequence[Results]) -> dict[int, int]:
    """Return the bit of each report that the difference of two successive polls reveals.

    A reader knows the question's probabilities, and so computes counts from estimates.
    """
    counts = [(0, 0)]
    for results in polls:
        (period,), keep = results.rounds, math.e / (1 + math.e)
        share = period.questions["crashed"][0].estimate or 0.0
        counts.append((period.reports, round(period.reports * (1 - keep + share * (2 * keep - 1)))))
    steps = pairwise(counts)
    return {after: yes - before_yes for (n, before_yes), (after, yes) in steps if after == n + 1}


@pytest.mark.parametrize(("steps", "known"), [(False, 60), (True, 0)])
def test_polling_reads_every_report_without_steps_and_none_with_them(
    tmp_path: Path, steps: bool, known: int
) -> None:
    reports, polls = history(3, 6), list[Results]()
    with world(tmp_path, NOON, steps=steps) as here:
        asked, headers = here.publish(survey(QUESTIONS)), here.bearer("analyst")
        for report in reports:
            send(here, asked, report)
            answer = here.client.get(f"/v1/surveys/{asked.id}/results", headers=headers)
            polls.append(msgspec.json.decode(answer.data, type=Results))
    read = bits_read(polls)
    assert len(read) == known
    assert all(reports[number - 1][0][0] == bit for number, bit in read.items())
    assert polls[-1].rounds[0].reports > 0, "some steps have been released"


@pytest.mark.parametrize("end", ["close", "grace"])
def test_counts_are_complete_once_no_node_can_accept_any_more(tmp_path: Path, end: str) -> None:
    """A report is committed just after the end, as by a node that has not noticed it yet."""
    with world(tmp_path, NOON, steps=True) as here:
        asked, headers = here.publish(survey(BIT)), here.bearer("analyst", days=90)

        def shown() -> tuple[int, int]:
            paths = [f"/v1/surveys/{asked.id}/{path}" for path in ("results", "counters")]
            read, counters = (here.client.get(path, headers=headers).json for path in paths)
            return read["rounds"][0]["reports"], counters.get("accepted", 0)

        add(here, asked, 3)
        if end == "close":
            here.catalogue.close(asked)
        else:
            here.clock.time = asked.survey.taken_until(DECEMBER)
        assert shown() == (0, 0)
        add(here, asked, 1)
        here.clock.pass_(seconds=SETTLING.total_seconds() - 1)
        assert shown() == (0, 0)
        here.clock.pass_(seconds=2)
        assert shown()[0] == 4


def add(here: World, asked: PublishedSurvey, reports: int) -> None:
    with here.store.transaction() as transaction:
        tally = RoundTally(DECEMBER, reports, np.array([reports, 0]))
        transaction.add(asked.sequence, tally)


def test_a_server_and_the_command_show_the_same_steps(tmp_path: Path) -> None:
    """Real processes: the next step begins with the first report after its second."""
    today = datetime.now(UTC).date()
    with create_store(tmp_path) as store:
        asked = published(store, survey(BIT, round="once", opens=today, closes=today))
        token = new_token()
        store.add_token(token, "app", NOON, NOON + timedelta(days=9_000))
    with serving(tmp_path) as server:
        address = f"{server.dashboard}/v1/surveys/{asked.id}/results"
        headers = {"Authorization": f"Bearer {server.token}"}

        def shown() -> int:
            read = requests.get(address, headers=headers, timeout=PATIENCE).json()
            assert read["rounds"] == asked_json("results", asked.id, "--data", tmp_path)["rounds"]
            return int(read["rounds"][0]["reports"])

        seen = list[int]()
        for number in range(100):
            sent = Envelope(asked.id, 0, number.to_bytes(16), DEFAULT_STEP, bytes(DEFAULT_STEP))
            headers_of_app = {"Authorization": f"Bearer {token}", "Content-Type": CONTENT_TYPE}
            body = sent.pack()
            done = requests.post(
                f"{server.url}/v1/envelopes", body, headers=headers_of_app, timeout=PATIENCE
            )
            assert done.json()["accepted"] == DEFAULT_STEP
            seen.append(shown())
            if len({*seen}) == 3:
                break
            time.sleep(0.3)
    assert [seen[0], *sorted(seen)] == [0, *seen], "the counts only grow, and begin with none"
    assert all(after - before >= DEFAULT_STEP for before, after in pairwise(sorted({*seen})))
    assert all(reports <= number * DEFAULT_STEP for number, reports in enumerate(seen))
