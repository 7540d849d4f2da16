"""Examples: each runs in a process of its own, with a real server."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import Queue
from typing import Any, get_args

import pytest
import requests
import yaml  # type: ignore[import-untyped] # a dependency of schemathesis, without types

from deniable.shared.errors import EnvelopeCode
from deniable.simulations.demo.server_process import COMMAND, running_server
from tests.client.scripted import QuietServer, answering
from tests.documents import blocks, section_of
from tests.end_to_end.browser import CHROMIUM, FLAGS, NAMES, ROOT, Files
from tests.end_to_end.place import Place
from tests.eventually import PATIENCE, eventually

HEARS_CTRL_C = (  # even if the tests were started in the background, where Ctrl-C is ignored
    "import runpy, signal, sys\n"
    "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "sys.argv = sys.argv[1:]\n"
    "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)\n"
)
EXAMPLES = ROOT / "client/examples"


@dataclass(frozen=True)
class Shipped(Place):
    shipped: Path  # the survey file of the examples


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shipped]:
    """Set up the examples as client/RECIPES.md describes under "A page"."""
    folder = tmp_path_factory.mktemp("examples")
    section = section_of("client/RECIPES.md", "A page")
    lines = re.findall(r"^deniable .*", section, re.MULTILINE)
    assert [line.split()[1] for line in lines] == ["survey", "survey", "survey", "serve"]
    for line in lines[:3]:
        words = line.partition("  #")[0].replace("deniable ", " ".join(COMMAND) + " ", 1)
        subprocess.run(words, shell=True, cwd=folder, check=True, capture_output=True)
    with running_server(folder / "data") as server:
        yield Shipped(server, folder / "data", folder / "app-health.json")


@contextmanager
def app(place: Shipped, state: Path, *command: str) -> Iterator[str]:
    """Start an example on a free port. Ctrl-C stops it at the end, and it sends waiting reports."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    settings = {
        "DENIABLE_SURVEY": str(place.shipped),
        "DENIABLE_SERVER": place.server.url,
        "XDG_STATE_HOME": str(state),
    }
    words = [
        sys.executable,
        "-c",
        HEARS_CTRL_C,
        *(port if word == "5000" else word for word in command),
    ]
    process = subprocess.Popen(
        words, cwd=ROOT, env={**os.environ, **settings}, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    try:
        eventually(lambda: process.poll() is not None or answers(url), "it serves")
        yield url
    finally:
        process.send_signal(signal.SIGINT)
        try:
            said, _ = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert "Traceback" not in said, said


def answers(url: str) -> bool:
    with suppress(requests.ConnectionError):
        requests.get(url, timeout=PATIENCE)
        return True
    return False


def command_of(example: str) -> list[str]:
    """Return the command line in the example's docstring, without variable and program name."""
    text = (EXAMPLES / example).read_text("utf-8")
    (line,) = re.findall(r"^    DENIABLE_SURVEY=app-health.json (.*)", text, re.MULTILINE)
    return str(line).split()


def test_the_flask_app(place: Shipped, tmp_path: Path) -> None:
    """Ann is asked once, in the words of the survey, and agrees. Bob refuses.

    One report arrives.
    """
    before = place.reports
    with app(place, tmp_path, *command_of("flask_app.py")) as url:
        for name, agreed in (("ann", "yes"), ("bob", "no")):
            with requests.Session() as browser:
                browser.post(f"{url}/login", {"user": name}, timeout=PATIENCE)
                asked = browser.get(url, timeout=PATIENCE).text
                assert "a suspicion of 10 % can grow" in asked
                assert "name=agreed value=yes" in asked
                told = browser.post(f"{url}/consent", {"agreed": agreed}, timeout=PATIENCE).text
                assert "name=agreed" not in told
                browser.post(f"{url}/leave", timeout=PATIENCE)
        with requests.Session() as browser:
            again = browser.post(f"{url}/login", {"user": "ann"}, timeout=PATIENCE).text
            assert "crashed, ε " in again
    assert place.reports == before + 1


def test_the_fastapi_app(place: Shipped, tmp_path: Path) -> None:
    before, ann = place.reports, {"X-User": "ann"}
    with app(place, tmp_path, *command_of("fastapi_app.py")) as url:

        def ask(method: str, path: str, body: object = None) -> Any:
            reply = requests.request(method, url + path, json=body, headers=ann, timeout=PATIENCE)
            assert reply.status_code == 200, reply.text
            return reply.json()

        assert ask("POST", "/health", {})["status"] == "no-consent"
        asked = ask("GET", "/consent")
        assert asked["ask"]
        assert "a suspicion of 10 % can grow" in asked["text"]
        assert ask("PUT", "/consent", True) == {"kept": True}
        assert not ask("GET", "/consent")["ask"]
        odd = {"crashed": [1], "browser": {"not": "one"}}
        assert ask("POST", "/health", odd) == {"status": "queued"}
        assert ask("POST", "/health", odd) == {"status": "already-answered"}
    assert place.reports == before + 1


def test_the_desktop_script(place: Shipped, tmp_path: Path) -> None:
    """The script asks on a terminal, answers for bad and good runs, and exits like the program."""
    before = place.reports
    script = [sys.executable, str(EXAMPLES / "desktop.py"), "--survey", str(place.shipped)]
    words = [
        *script,
        "--server",
        place.server.url,
        "--",
        sys.executable,
        "-c",
        "raise SystemExit(7)",
    ]
    settings = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    silent = subprocess.run(
        words, env=settings, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert (silent.returncode, silent.stderr.split(":")[0]) == (7, "no-consent")
    terminal, other = os.openpty()
    os.write(terminal, b"yes\n")
    asked = subprocess.run(words, env=settings, stdin=other, stderr=other)
    screen = os.read(terminal, 2**16).decode()
    os.close(terminal)
    os.close(other)
    assert asked.returncode == 7
    assert "a suspicion of 10 % can grow" in screen
    assert "queued" in screen
    good = subprocess.run([*words[:-1], ""], env=settings, capture_output=True, text=True)
    assert (good.returncode, good.stderr.split(":")[0]) == (0, "already-answered")
    assert place.reports == before + 1


@pytest.mark.skipif(CHROMIUM is None, reason=f"no browser on PATH; one of {', '.join(NAMES)}")
def test_the_page_in_a_browser(place: Shipped, tmp_path: Path) -> None:
    """An extra line in the page clicks "Send it" in Chromium, and the report arrives."""
    before, site = place.reports, tmp_path / "site"
    shutil.copytree(ROOT / "client/javascript/src", site / "deniable")
    shutil.copy(place.shipped, site)
    page = (EXAMPLES / "page.html").read_text("utf-8")
    click = "document.querySelector('[value=yes]').click();\n</script>"
    (site / "page.html").write_text(page.replace("</script>", click), "utf-8")
    files = QuietServer(("127.0.0.1", 0), partial(Files, directory=str(site)))
    with answering(files) as url:
        address = f"{url}/page.html?server={place.server.url}"
        with browsing(address, tmp_path / "profile"):
            eventually(lambda: place.reports == before + 1, "a report")


WORKER_PAGE = """<script type="module">
import { browserStorage } from "./deniable/browser-storage.js";
import { Client, Policy } from "./deniable/index.js";
const policy = new Policy({ keys: ["<public key>"], questions: { crashed: "bit" } });
const client = new Client("https://stats.example.org", { policy, storage: browserStorage() });
await client.consent(true);
await navigator.serviceWorker.register("worker.js", { type: "module" });
const { active } = await navigator.serviceWorker.ready;
navigator.serviceWorker.onmessage = ({ data }) => fetch(`/${data}`);
active.postMessage({ crashed: true, minutes: 34, browser: "firefox" });
</script>"""


@pytest.mark.skipif(CHROMIUM is None, reason=f"no browser on PATH; one of {', '.join(NAMES)}")
def test_the_service_worker_answers_and_sends(place: Shipped, tmp_path: Path) -> None:
    """The recipe "A service worker" of RECIPES.md, in Chromium; a page has asked for consent.

    When the worker replies with the status, the report has arrived.
    """
    (recipe,) = [b.text for b in blocks("client/RECIPES.md") if b.section == "A service worker"]
    before, site = place.reports, tmp_path / "site"
    key = json.loads(place.shipped.read_text("utf-8"))["key"]
    shutil.copytree(ROOT / "client/javascript/src", site / "deniable")
    for name, text in (("worker.js", recipe), ("page.html", WORKER_PAGE)):
        ours = text.replace("https://stats.example.org", place.server.url)
        (site / name).write_text(ours.replace("<public key>", key), "utf-8")
    replies = Queue[str]()

    class Site(Files):
        def do_GET(self) -> None:
            if self.path == "/queued":
                replies.put(self.path)
            super().do_GET()

    files = QuietServer(("127.0.0.1", 0), partial(Site, directory=str(site)))
    with answering(files) as url, browsing(f"{url}/page.html", tmp_path / "profile"):
        replies.get(timeout=PATIENCE)
        assert place.reports == before + 1


@contextmanager
def browsing(address: str, profile: Path) -> Iterator[None]:
    browser = subprocess.Popen(
        [str(CHROMIUM), *FLAGS, f"--user-data-dir={profile}", address],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        yield
    finally:
        os.killpg(browser.pid, signal.SIGKILL)
        browser.wait()


# Grafana and Prometheus


@pytest.mark.parametrize("source", ["grafana", "alerts"])
def test_dashboard_and_alert_rules_use_only_metrics_that_a_server_exports(
    place: Shipped, source: str
) -> None:
    """After one report, every name in an expression is a sample or a declared family."""
    token = {"Authorization": f"Bearer {place.server.token}"}
    texts = [
        requests.get(f"{place.server.dashboard}{path}", headers=token, timeout=PATIENCE).text
        for path in ("/metrics", "/metrics/results")
    ]
    exported = names("".join(texts))
    asked = {
        name
        for expression in expressions(source)
        for name in re.findall(r"deniable_\w+", expression)
    }
    assert len(asked) >= 5
    assert asked <= exported
    assert not {"deniable_reports"} <= exported, "twin: a name without its suffix must not exist"


def test_alert_rules_and_dashboard_match_only_labels_and_outcomes_that_exist() -> None:
    """A matcher for a value that never occurs would silently select nothing."""
    outcomes = {"accepted", "duplicates", *get_args(EnvelopeCode)}
    for expression in [*expressions("grafana"), *expressions("alerts")]:
        for matchers in re.findall(r"\{(.*?)\}", expression):
            for label, _, value in re.findall(r'(\w+)\s*(=~?)\s*"(.*?)"', matchers):
                assert label in ("survey", "question", "outcome"), expression
                assert label != "outcome" or set(value.split("|")) <= outcomes, expression


def test_each_alert_rule_has_what_prometheus_needs() -> None:
    rules = [rule for group in alert_groups() for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules) >= 5
    for rule in rules:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"]["summary"]


def alert_groups() -> list[Any]:
    groups: list[Any] = yaml.safe_load((ROOT / "server/examples/alerts.yml").read_text("utf-8"))[
        "groups"
    ]
    return groups


def expressions(source: str) -> list[str]:
    if source == "alerts":
        return [rule["expr"] for group in alert_groups() for rule in group["rules"]]
    board: Mapping[str, Any] = json.loads(
        (ROOT / "server/examples/grafana.json").read_text("utf-8")
    )
    return [target["expr"] for panel in board["panels"] for target in panel["targets"]]


def names(metrics: str) -> set[str]:
    """Return the names of samples and of declared families.

    A counter that is still zero has no sample.
    """
    declared = re.findall(r"^# TYPE (\w+) (?:gauge|counter)$", metrics, re.MULTILINE)
    return {*declared, *re.findall(r"^(\w+)[{ ]", metrics, re.MULTILINE)}
