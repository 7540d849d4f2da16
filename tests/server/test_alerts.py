"""Alerts: rules judged by intervals, and events that are announced at most once."""

from __future__ import annotations

import json
import logging
import os
import shlex
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests
import yaml  # type: ignore[import-untyped] # a dependency of schemathesis, without types
from flask import Response
from flask.testing import FlaskClient
from scipy.stats import binom

from deniable.server.alerts.monitor import Event, Monitor
from deniable.server.alerts.rules import (
    AlertSettings,
    Rule,
    SurveyRule,
    newest_verdict,
    read_alerts,
)
from deniable.server.http.context import parts_of
from deniable.server.process.webhook import MAX_EVENTS, MAX_WAITING, PAUSES_SECONDS, Webhook
from deniable.server.results import Results, survey_results
from deniable.server.store import PublishedSurvey, RoundTally, create_store
from deniable.shared.errors import WrongUse
from deniable.shared.privacy.epsilon import ONE
from deniable.shared.privacy.families.support import SupportDesign
from tests.client.certificates import certificate, tls
from tests.command import run
from tests.documents import blocks
from tests.eventually import PATIENCE, eventually
from tests.server.results_data import NOW, add_round, fill
from tests.server.surveys import BIT, EACH_KIND, choice, published, until_spring
from tests.server.test_forgery import forge
from tests.server.world import World, serving, world

pytestmark = pytest.mark.at(NOW)


# Rules


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("crashed > 5 %", ("crashed", "", True, 5.0, "%")),
        ("crashed>0.05", ("crashed", "", True, 0.05, "")),
        ("minutes < 1,200 min", ("minutes", "", False, 1200.0, "min")),
        ("change > −2.5", ("change", "", True, -2.5, "")),
        ("browser.other > 3 things > 20 %", ("browser", "other > 3 things", True, 20.0, "%")),
        ("browser.safari 17.2 < .5", ("browser", "safari 17.2", False, 0.5, "")),
    ],
)
def test_a_rule_names_a_question_a_label_and_a_bound(text: str, parsed: tuple[object, ...]) -> None:
    rule = Rule.parse(text)
    assert (rule.question, rule.label, rule.above, rule.bound, rule.unit) == parsed


@pytest.mark.parametrize("text", ["", "crashed", "crashed = 5", "crashed > ", "> 5", "a b > 5"])
def test_an_unreadable_rule_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(WrongUse, match=r"cannot read the rule.*crashed > 5 %"):
        Rule.parse(text)


@dataclass
class Place:
    """Data folder with three rounds, and its results."""

    data: Path
    results: Results

    def judged(self, *rules: str, more: Sequence[object] = ()) -> tuple[int, str, str]:
        options = [word for rule in rules for word in ("--fail-if", rule)]
        done = run("results", "app-health", "--data", self.data, *more, *options)
        return done.returncode, done.stdout, done.stderr


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Store rounds that were final before the survey was closed: their intervals have one look."""
    with world(tmp_path / "data", NOW) as here:
        asked = fill(here, until_spring(looks="once"))
        here.store.close_survey(asked.sequence, datetime(2027, 5, 30, tzinfo=UTC))
        here.catalogue.refresh()
        asked = here.catalogue.find(asked.id)
        results = survey_results(asked, here.store.tallies(asked.sequence), NOW)
    return Place(tmp_path / "data", results)


def test_a_rule_fails_only_if_the_whole_interval_is_beyond_the_bound(place: Place) -> None:
    """The bounds lie on both sides of each end, in each unit that the results print."""
    newest = place.results.rounds[-1]
    for question, factor, unit in [("crashed", 1, ""), ("crashed", 100, " %"), ("minutes", 1, "")]:
        (row,) = newest.questions[question]
        assert row.low is not None
        assert row.high is not None
        little = (row.high - row.low) / 1000
        for bound, above, below in [
            (row.low - little, 1, 0),
            (row.low + little, 0, 0),
            (row.high - little, 0, 0),
            (row.high + little, 0, 1),
        ]:
            for side, code in ((">", above), ("<", below)):
                rule = f"{question} {side} {factor * bound:.12f}{unit}"
                status, _, said = place.judged(rule)
                assert status == code, (rule, row)
                assert f"{rule} {'fails' if code else 'passes'}: " in said
                assert f"in round {newest.round} (2027-02-01 to 2027-02-28)" in said


def test_a_verdict_names_its_round_and_interval_and_leaves_the_document_alone(
    place: Place,
) -> None:
    row = place.results.rounds[0].questions["browser"][1]
    assert row.low is not None
    status, out, said = place.judged("browser.chrome > 1 %", more=["--round", 683, "--json"])
    assert (status, json.loads(out)["name"]) == (1, "app-health")
    assert "browser.chrome is " in said
    assert f"the interval for the population is {100 * row.low:.1f} to " in said
    assert "in round 683 (2026-12-01 to 2026-12-31)" in said
    status, _, said = place.judged("browser.chrome > 99 %", "crashed > 99 %", more=["--until", 684])
    assert status == 0
    assert said.count("in round 684") == 2


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("crashes > 5 %", "no question is named 'crashes'"),
        ("crashed > 5", "a share is from 0 to 1"),
        ("crashed > 5 min", "is measured in %"),
        ("minutes > 5 %", "has no unit"),
        ("browser > 5 %", "name one: browser.firefox"),
        ("browser.opera > 5 %", "no label 'opera'"),
        ("crashed 5", "cannot read the rule"),
    ],
)
def test_a_rule_that_does_not_fit_is_wrong_use(place: Place, rule: str, why: str) -> None:
    status, out, said = place.judged(rule)
    assert (status, out) == (2, "")
    assert why in said


def test_a_rule_without_an_estimate_passes_and_says_so(tmp_path: Path) -> None:
    with create_store(tmp_path / "data") as store:
        published(store, until_spring(opens=date(2020, 1, 1), closes=date(2030, 12, 31)))
    status, _, said = Place(tmp_path / "data", None).judged("crashed > 1 %")  # type: ignore[arg-type]
    assert (status, "not judged: no round has an estimate" in said) == (0, True)


@pytest.mark.parametrize("share", [0.0, 0.05, 0.3, 0.5])
def test_a_true_share_at_the_bound_fails_in_at_most_a_twentieth_of_rounds(
    here: World, share: float
) -> None:
    """Exact, from the probabilities of all counts. The estimate alone would fail far too often."""
    asked, people = here.publish(until_spring(BIT)), 150
    design = asked.survey.questions[0].mechanism
    assert isinstance(design, SupportDesign)
    rate = (share * design.keep + (1 - share) * design.lie) / ONE
    chances = np.asarray(binom.pmf(range(people + 1), people, rate)).tolist()
    rule, later = Rule.parse(f"crashed > {share:.2f}"), NOW + timedelta(days=365)
    fails = by_estimate = 0.0
    for count, chance in enumerate(chances):
        tally = RoundTally(683, people, np.array([people - count, count]))
        results = survey_results(asked, [tally], later, 683)
        verdict = newest_verdict(rule, results, results.rounds)
        assert verdict is not None
        fails += chance * verdict.holds
        by_estimate += chance * (verdict.figures.estimate > share)
    assert fails <= 0.05 < 0.4 < by_estimate


# Events


def settings(*rules: str, silent_rounds: int = 0, name: str = "app-health") -> AlertSettings:
    listed = tuple(SurveyRule(survey=name, when=rule) for rule in rules)
    return AlertSettings(webhook="", silent_rounds=silent_rounds, rule=listed)


@dataclass
class Node:
    """Monitor of one node, with the events that it announced."""

    here: World
    settings: AlertSettings
    events: list[Event] = field(default_factory=list)

    def check(self) -> list[tuple[str, str, int]]:
        """Check once, as after a restart, and return what is new."""
        before = len(self.events)
        Monitor(parts_of(self.here.app), self.settings, self.events.extend).check()
        return [(event.event, event.state, event.round) for event in self.events[before:]]


def with_rounds(here: World, *shares: float, **changes: object) -> PublishedSurvey:
    asked = here.publish(until_spring(BIT, **changes))
    for number, share in enumerate(shares, 683):
        add_round(here.store, asked, number, [[round(40_000 * (1 - share)), round(40_000 * share)]])
    return asked


def test_a_rule_is_announced_when_it_begins_to_hold_and_when_it_is_refuted(here: World) -> None:
    """In between, while the interval contains the bound, nothing is announced."""
    asked, node = with_rounds(here, 0.05), Node(here, settings("crashed > 10 %"))
    assert node.check() == []
    add_round(here.store, asked, 684, [[34_000, 6_000]])
    assert node.check() == [("rule", "began", 684), ("change", "began", 684)]
    assert node.check() == []
    add_round(here.store, asked, 685, [[90, 10]])
    assert node.check() == []
    add_round(here.store, asked, 685, [[38_000, 2_000]])
    assert node.check() == [("rule", "ceased", 685), ("change", "began", 685)]
    assert node.check() == []
    began = node.events[0]
    results = survey_results(asked, here.store.tallies(asked.sequence), NOW)
    row = results.rounds[1].questions["crashed"][0]
    assert (began.estimate, began.low, began.high) == (row.estimate, row.low, row.high)
    assert began.text.startswith("survey app-health, round 684: crashed > 10 % holds: crashed is ")


def test_a_change_is_announced_in_the_words_of_the_results(here: World) -> None:
    with_rounds(here, 0.2, 0.1)
    node = Node(here, settings())
    assert node.check() == [("change", "began", 684)]
    assert " lower since round 683: " in node.events[0].text


def test_equal_rounds_and_single_options_announce_no_change(
    here: World, caplog: pytest.LogCaptureFixture
) -> None:
    """One of many options can differ by chance, because their intervals do not hold jointly."""
    with_rounds(here, 0.2, 0.2)
    asked = here.publish(until_spring(choice(4), name="several"))
    for number, first in ((683, 1_000), (684, 40_000)):
        add_round(here.store, asked, number, [[first, 9_000, 9_000, 9_000]])
    results = survey_results(asked, here.store.tallies(asked.sequence), NOW)
    assert results.rounds[1].change is not None
    assert results.rounds[1].change.questions["browser"][0].low > 0
    assert Node(here, settings()).check() == []
    assert caplog.messages == []


def test_forgery_is_announced_once(here: World) -> None:
    asked, node = forge(here), Node(here, settings())
    forgeries = [event for event in node.check() if event[0] == "forgery"]
    assert forgeries == [("forgery", "began", 684)]
    assert node.check() == []
    assert "cannot be honest" in node.events[0].text
    assert node.events[0].survey == asked.id
    rule = Node(here, settings("languages.de > 1 %"))
    assert rule.check() == [("rule", "began", 684)]
    assert rule.events[0].text.endswith(" (this round contains forged reports)")


def test_silence_of_a_survey_that_should_have_reports_is_announced(here: World) -> None:
    """Only rounds that are over count: otherwise the log would show when a report came."""
    asked = with_rounds(here, 0.2, round="day", opens=date(2027, 1, 1), closes=date(2027, 3, 31))
    node = Node(here, settings(silent_rounds=3))
    today = asked.survey.round_of(NOW.date())
    assert node.check() == [("silence", "began", today - 1)]
    assert f"no reports in rounds {today - 3} to {today - 1}" in node.events[0].text
    assert node.check() == []
    add_round(here.store, asked, today, [[80, 20]])
    assert node.check() == []
    here.clock.pass_(days=1)
    assert node.check() == [("silence", "ceased", today)]
    here.clock.pass_(days=1)
    assert node.check() == []
    here.clock.pass_(days=2)
    assert node.check() == [("silence", "began", today + 3)]
    here.store.close_survey(asked.sequence, NOW)
    here.clock.pass_(days=9)
    assert node.check() == []


def test_several_nodes_announce_each_event_once(here: World) -> None:
    """The nodes check at the same moment, repeatedly; the store decides who announces."""
    with_rounds(here, 0.05, 0.2)
    forge(here, name="next")
    nodes = [Node(here, settings("crashed > 10 %")) for _ in range(4)]
    threads = [threading.Thread(target=node.check) for node in nodes * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    ids = [event.id for node in nodes for event in node.events]
    assert len(ids) == len(set(ids)) == 3


def test_without_settings_only_forgery_is_logged(
    here: World, caplog: pytest.LogCaptureFixture
) -> None:
    with_rounds(here, 0.05, 0.2)
    with caplog.at_level(logging.WARNING, "deniable.server"):
        Monitor(parts_of(here.app)).check()
        assert caplog.messages == []
        Node(here, settings("crashed > 10 %")).check()
    (line,) = caplog.messages
    assert line.startswith("alert: survey app-health, round 684: crashed > 10 % holds")
    assert here.store.alert_states() != {}


def test_a_rule_that_fits_no_survey_is_logged_once_and_stops_nothing(
    here: World, caplog: pytest.LogCaptureFixture
) -> None:
    with_rounds(here, 0.05, 0.2)
    events, rules = list[Event](), settings("froze > 10 %", "crashed > 10 %")
    watch = Monitor(parts_of(here.app), rules, events.extend)
    with caplog.at_level(logging.WARNING, "deniable.server"):
        watch.check()
        watch.check()
    assert [event.event for event in events] == ["rule", "change"]
    assert sum("no question is named 'froze'" in line for line in caplog.messages) == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("webhok = 'x'", "unknown field"),
        ("silent_rounds = -1", ">= 0"),
        ("[[rule]]\nsurvey = 'a'\nwhen = 'crashed 5'", "cannot read the rule"),
        ("[[rule]]\nsurvey = 'a'", "missing required field"),
        ("=", "Invalid"),
    ],
)
def test_a_faulty_file_is_refused_before_the_server_starts(
    tmp_path: Path, text: str, why: str
) -> None:
    file = tmp_path / "alerts.toml"
    file.write_text(text)
    done = run("serve", "--data", tmp_path / "data", "--alerts", file)
    assert done.returncode == 2
    assert why in done.stderr
    assert not (tmp_path / "data").exists()
    with pytest.raises(WrongUse, match="No such file"):
        read_alerts(tmp_path / "none.toml")


# Webhook


@dataclass
class Receiver:
    """Webhook that answers with these statuses, and with 200 after them."""

    statuses: list[int] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    hold: threading.Event = field(default_factory=threading.Event)
    url: str = ""


@contextmanager
def receiving(
    *statuses: int, tls_file: Path | None = None, holds: bool = False
) -> Iterator[Receiver]:
    receiver = Receiver([*statuses])

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.paths.append(self.path)
            receiver.headers.append(dict(self.headers))
            receiver.bodies.append(json.loads(body))
            if holds:
                receiver.hold.wait(PATIENCE)
            status = receiver.statuses.pop(0) if receiver.statuses else 200
            self.send_response(status)
            if status in (302, 307):
                self.send_header("Location", f"{receiver.url}/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls_file:
        server.socket = tls(tls_file).wrap_socket(server.socket, server_side=True)
    name = "https://localhost" if tls_file else "http://127.0.0.1"
    receiver.url = f"{name}:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.hold.set()
        server.shutdown()
        server.server_close()


def event(number: int = 1) -> Event:
    return Event(
        id=str(number), event="rule", state="began", survey="ab" * 32, name="app-health",
        round=683, text=f"news {number}",
    )  # fmt: skip


def test_an_https_webhook_gets_one_document_per_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    with receiving(tls_file=file) as receiver:
        Webhook(f"{receiver.url}/hook?secret=5ca1ab1e").post([event(1), event(2)])
    assert receiver.paths == ["/hook?secret=5ca1ab1e"]
    (body,) = receiver.bodies
    assert body["text"] == "news 1\nnews 2"
    assert [item["id"] for item in body["events"]] == ["1", "2"]
    assert receiver.headers[0]["Content-Type"] == "application/json"


def test_a_webhook_with_an_unknown_certificate_gets_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with receiving(tls_file=certificate(tmp_path)) as receiver:
        Webhook(receiver.url, lambda _: None).post([event()])
    assert receiver.bodies == []
    assert "did not accept alerts" in caplog.text


@pytest.mark.parametrize(
    ("statuses", "attempts", "accepted"),
    [([503, 429], 3, True), ([503] * 9, 3, False), ([404], 1, False), ([302], 1, False),
     ([307], 1, False)],
)  # fmt: skip
def test_retries_are_few_and_pause_and_redirects_are_refused(
    caplog: pytest.LogCaptureFixture, statuses: list[int], attempts: int, accepted: bool
) -> None:
    """Each attempt sends the same ids, so that a receiver can drop a repetition."""
    pauses = list[float]()
    with receiving(*statuses) as receiver:
        Webhook(f"{receiver.url}/5ca1ab1e", pauses.append).post([event()])
    assert receiver.paths == ["/5ca1ab1e"] * attempts
    assert len({body["events"][0]["id"] for body in receiver.bodies}) == 1
    assert pauses == [*PAUSES_SECONDS[: attempts - 1]]
    assert ("did not accept alerts" in caplog.text) is not accepted
    assert "5ca1ab1e" not in caplog.text


def test_a_receiver_that_is_gone_is_given_up_without_its_address_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with receiving() as receiver:
        pass
    Webhook(f"{receiver.url}/5ca1ab1e", lambda _: None).post([event()])
    assert "the webhook at 127.0.0.1 did not accept alerts" in caplog.text
    assert "5ca1ab1e" not in caplog.text


def test_a_document_is_bounded() -> None:
    with receiving() as receiver:
        Webhook(receiver.url).post([event(number) for number in range(MAX_EVENTS + 5)])
    assert len(receiver.bodies[0]["events"]) == MAX_EVENTS


def test_a_receiver_that_does_not_answer_delays_no_check() -> None:
    """It holds only the webhook's own thread; what it does not take in time is lost."""
    with receiving(holds=True) as receiver:
        hook = Webhook(receiver.url, lambda _: None)
        hook.start()
        began = time.monotonic()
        for number in range(MAX_WAITING + 5):
            hook.post_later([event(number)])
        assert time.monotonic() - began < 5
        eventually(lambda: receiver.bodies, "the first document has arrived")
        assert len(receiver.bodies) == 1


def test_a_webhook_on_this_machine_needs_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without TLS, a proxy would see the events, and a secret in the path."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    with receiving() as receiver:
        Webhook(receiver.url, lambda _: None).post([event()])
    assert len(receiver.bodies) == 1


@pytest.mark.parametrize("url", ["http://example.org/x", "ftp://localhost/", "example.org"])
def test_a_webhook_needs_https_unless_it_is_on_this_machine(tmp_path: Path, url: str) -> None:
    file = tmp_path / "alerts.toml"
    file.write_text(f'webhook = "{url}"\n')
    done = run("serve", "--data", tmp_path / "data", "--alerts", file)
    assert (done.returncode, "webhook must be an https URL" in done.stderr) == (2, True)


# A real server


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a data folder with a survey of today whose last two ended years differ."""
    with world(tmp_path / "data") as here:
        always = {"opens": date(2020, 1, 1), "closes": date(2099, 12, 31), "name": "always"}
        asked = here.publish(until_spring(EACH_KIND, **always, grace_days=60))
        newest = asked.survey.round_of(datetime.now(UTC).date()) - 1
        steps = [20_000] + [0] * asked.survey.questions[1].mechanism.steps  # type: ignore[attr-defined]
        for number, yes in ((newest - 1, 2_000), (newest, 6_000)):
            held = [[20_000 - yes, yes], steps, [20_000, 0, 0, 0, 0]]
            add_round(here.store, asked, number, held)
    return tmp_path / "data"


def alerts_file(folder: Path, url: str) -> Path:
    file = folder.parent / "alerts.toml"
    rule = '[[rule]]\nsurvey = "always"\nwhen = "crashed > 20 %"\n'
    file.write_text(f'webhook = "{url}/hook"\nsilent_rounds = 0\n{rule}')
    return file


def test_a_server_posts_each_event_once_even_across_restarts(folder: Path) -> None:
    file = certificate(folder.parent)
    with receiving(503, tls_file=file) as receiver:
        options = ["--alerts", str(alerts_file(folder, receiver.url))]
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SSL_CERT_FILE", str(file))
            with serving(folder, more=options) as server:
                eventually(lambda: len(receiver.bodies) == 2, "a second attempt after 503")
                _, log = server.stop()
            first, second = receiver.bodies
            assert first == second
            kinds = [event["event"] for event in first["events"]]
            assert kinds == ["rule", "change"]
            assert "crashed > 20 % holds" in first["text"]
            assert log.count("alert: survey always") == 1
            with serving(folder, more=options) as server:
                wait_for_a_check(server.dashboard, folder)
                _, log = server.stop()
    assert len(receiver.bodies) == 2
    assert "alert:" not in log


def test_results_of_a_server_are_judged_like_those_of_a_folder(folder: Path) -> None:
    with serving(folder) as server:
        place = ["results", "always", "--server", server.dashboard, "--token", server.token]
        status, judged = 1, [run(*place, "--fail-if", "crashed > 20 %")]
        judged.append(run("results", "always", "--data", folder, "--fail-if", "crashed > 20 %"))
        wrong = run(*place, "--fail-if", "crashes > 20 %")
    assert [done.returncode for done in judged] == [status, status]
    assert judged[0] == judged[1]
    assert "%, for repeated looks\n" in judged[0].stderr
    assert (wrong.returncode, wrong.stdout) == (2, "")


def wait_for_a_check(dashboard: str, folder: Path) -> None:
    """Wait until the monitor has set the gauge of the survey, which it does in each check."""

    def is_checked() -> bool:
        text = requests.get(f"{dashboard}/metrics", timeout=PATIENCE).text
        return 'deniable_forged_rounds{id="' in text

    eventually(is_checked, f"a check of {os.fspath(folder)}")


def test_pages_answer_while_a_webhook_does_not(folder: Path) -> None:
    with receiving(holds=True) as receiver:
        options = ["--alerts", str(alerts_file(folder, receiver.url))]
        with serving(folder, more=options) as server:
            eventually(lambda: receiver.bodies, "the webhook is called")
            assert requests.get(f"{server.dashboard}/healthz", timeout=PATIENCE).ok
            signed_in = requests.get(f"{server.dashboard}/", timeout=PATIENCE)
            assert signed_in.status_code == 401
            assert not receiver.hold.is_set()


# Documents


def shown(document: str, section: str) -> str:
    """Return the block of a section."""
    (block,) = (made for made in blocks(document) if made.section == section)
    return block.text


def test_the_judging_of_a_result_works_as_shown(place: Place) -> None:
    """Run "Judging a result" of SURVEYS.md, where one of the rules holds."""
    text = shown("server/SURVEYS.md", "Judging a result")
    words = shlex.split(text.replace("--data data", f"--data {place.data}"))[1:]
    done = run(*words)
    assert (done.returncode, done.stdout[:10]) == (1, "app-health")
    assert "crashed > 5 % fails: crashed is 1" in done.stderr
    assert "minutes < 30 passes: minutes is 59" in done.stderr


def test_the_file_of_alerts_is_read_as_shown(here: World, tmp_path: Path) -> None:
    """Read the file of "Send alerts from the server" in RECIPES.md; its rule fits the survey."""
    file = tmp_path / "alerts.toml"
    file.write_text(shown("server/RECIPES.md", "Send alerts from the server"), "utf-8")
    with_rounds(here, 0.2, 0.2)
    assert Node(here, read_alerts(file)).check() == [("rule", "began", 684)]


def test_prometheus_finds_the_addresses_that_are_shown(here: World) -> None:
    """Scrape as "Monitor with Prometheus" of RECIPES.md configures."""
    config = yaml.safe_load(shown("server/RECIPES.md", "Monitor with Prometheus"))
    for job in config["scrape_configs"]:
        headers = here.bearer("analyst") if "authorization" in job else {}
        path = job.get("metrics_path", "/metrics")
        reply = FlaskClient(here.app, Response).get(path, headers=headers)
        assert (reply.status_code, reply.mimetype) == (200, "text/plain")


# Gauges


def gauges(here: World, **headers: str) -> dict[str, float]:
    reply = FlaskClient(here.app, Response).get("/metrics/results", headers=headers)
    assert reply.status_code == 200
    lines = [line for line in reply.text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_gauges_are_the_newest_estimates_with_both_ends_of_their_intervals(here: World) -> None:
    asked = fill(here)
    results = survey_results(asked, here.store.tallies(asked.sequence), NOW)
    shown = gauges(here, **here.bearer("analyst"))
    newest = results.rounds[-1]
    named = f'id="{asked.id[:12]}"'
    for question, rows in newest.questions.items():
        about = f'{{{named},question="{question}",survey="app-health"}}'
        assert shown[f"deniable_estimate_round{about}"] == newest.round
        assert shown[f"deniable_estimate_reports{about}"] == newest.reports
        for row in rows:
            labels = f'{{{named},label="{row.label}",question="{question}",survey="app-health"}}'
            assert shown[f"deniable_estimate{labels}"] == row.estimate
            assert shown[f"deniable_estimate_low{labels}"] == row.low
            assert shown[f"deniable_estimate_high{labels}"] == row.high
    assert len(shown) == 3 * 7 + 2 * 3 + 1


def test_gauges_need_an_analyst_and_are_limited_in_number(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(here)
    strangers = FlaskClient(here.app, Response)
    assert strangers.get("/metrics/results").status_code == 401
    assert strangers.get("/metrics/results", headers=here.bearer("app")).status_code == 403
    monkeypatch.setattr("deniable.server.http.result_metrics.MAX_ESTIMATES", 4)
    shown = gauges(here, **here.bearer("analyst"))
    assert sum(name.startswith("deniable_estimate{") for name in shown) == 2
    assert shown["deniable_estimates_left_out"] == 1
    assert "deniable_estimate{" not in here.client.get("/metrics").text
