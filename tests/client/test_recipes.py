"""Recipes for embedding the client, run unchanged.

They use real HTTP to the scripted server, and each framework's server, client or worker.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from deniable.client import Budget, Client, InvalidPolicy, Policy
from deniable.client.disclosure import read_summary
from deniable.client.environment import KEPT
from deniable.shared.privacy.epsilon import decimal_text
from deniable.shared.survey.document import parse_toml, render_document
from tests.client.scripted import ANSWERS, Script, document, entry
from tests.eventually import PATIENCE, eventually
from tests.survey_texts import number, survey_text

CLIENT = Path(__file__).resolve().parents[2] / "client"
RECIPES = CLIENT / "RECIPES.md"
TEN_LINES = {"script": "A script", "desktop": "A desktop app", "web": "Flask"}
SPENT_ONCE = "1.5"
# For programs in separate processes, because the machine may be busy.
PATIENT = (
    "from deniable.client import client as _client\n"
    "from deniable.client.net import surveys as _surveys\n"
    "from deniable.client import signal_safety as _signal_safety\n"
    "_surveys.FETCH_SECONDS = _signal_safety.LOCK_WAIT_SECONDS = _client.CLOSE_SECONDS = "
    f"{PATIENCE}\n"
)
MY_APP = f"def health_of(user_id):\n    return {ANSWERS!r}\n"
Load = Callable[[str], Any]
Ask = Callable[[str, str, str, object], Any]


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Set the home in which `state_folder` keeps state, also for child processes."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def published(script: Script) -> bytes:
    """Publish a survey that is open today, because recipes use the machine's clock."""
    today = datetime.now(UTC).date()
    opens, closes = (today + timedelta(days=days) for days in (-20, 20))
    made = document(opens=str(opens), closes=str(closes), period="once")
    script.publish(made)
    return made


def recipe(section: str) -> str:
    part = RECIPES.read_text("utf-8").split(f"## {section}\n")[1].split("\n## ")[0]
    (block,) = re.findall(r"^```python\n(.*?)^```", part, re.MULTILINE | re.DOTALL)
    return str(block)


def ten_lines(which: str) -> str:
    return recipe(TEN_LINES[which])


@pytest.fixture
def ours(script: Script, published: bytes, policy_key: str, tmp_path: Path) -> Callable[[str], str]:
    """Return a block with the test's address, key and folder."""
    places = {
        "https://stats.example.org": script.url,
        "<public key>": policy_key,
        "/mnt/kept": str(tmp_path),
    }

    def replaced(block: str) -> str:
        for shown, real in places.items():
            block = block.replace(shown, real)
        return block

    return replaced


@pytest.fixture
def load(ours: Callable[[str], str], tmp_path: Path) -> Iterator[Load]:
    """Import a block as a module, as an app does."""
    made: list[Client] = []

    def loaded(block: str) -> Any:
        file = tmp_path / f"recipe{len(made)}.py"
        file.write_text(ours(block), "utf-8")
        spec = importlib.util.spec_from_file_location(file.stem, file)
        assert spec
        assert spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        made.append(module.client)
        return module

    yield loaded
    for client in made:
        client.close()
        client._uploader.stop(PATIENCE)


@pytest.mark.parametrize("which", TEN_LINES)
def test_ten_lines_are_ten(which: str) -> None:
    """Imports and the web framework's lines do not count."""
    lines = [line for line in ten_lines(which).splitlines() if line.strip()]
    assert len([line for line in lines if not re.search(r"^from |^@|Flask\(", line)]) <= 10


# One person: a script, a desktop app


@pytest.fixture
def in_folder(published: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work where the app and its survey are."""
    monkeypatch.chdir(tmp_path)
    Path("app-health.json").write_text(json.dumps(entry(published)), "utf-8")


def on_terminal(program: str, typed: str) -> tuple[str, str]:
    """Return what a program prints, and what is on the screen."""
    ours, theirs = os.openpty()
    os.write(ours, typed.encode())
    done = subprocess.run(
        [sys.executable, "-c", program], stdin=theirs, stdout=subprocess.PIPE, stderr=theirs,
        text=True, timeout=2 * PATIENCE,
    )  # fmt: skip
    os.set_blocking(ours, False)
    screen = os.read(ours, 2**16).decode()
    os.close(ours)
    os.close(theirs)
    assert done.returncode == 0, screen
    return done.stdout, screen


@pytest.mark.usefixtures("in_folder")
def test_a_script_asks_once_and_answers_each_round_once(
    ours: Callable[[str], str], script: Script, tmp_path: Path
) -> None:
    program = PATIENT + ours(ten_lines("script"))
    printed, screen = on_terminal(program, "yes\n")
    assert (printed, "Your answer: yes or no." in screen) == ("queued\n", True)
    assert run(program) == "already-answered\n"
    finish(script, tmp_path / "my-job", None)


@pytest.mark.usefixtures("in_folder")
def test_a_script_that_is_refused_consent_sends_nothing(
    ours: Callable[[str], str], script: Script
) -> None:
    program = PATIENT + ours(ten_lines("script"))
    assert on_terminal(program, "no\n")[0] == "no-consent\n"
    printed, screen = on_terminal(program, "yes\n")
    assert (printed, "Type yes" in screen) == ("no-consent\n", False)
    assert script.requests == []


@pytest.mark.usefixtures("in_folder")
def test_a_script_without_a_terminal_ends_well_and_asks_later(
    ours: Callable[[str], str], script: Script, tmp_path: Path
) -> None:
    program = PATIENT + ours(ten_lines("script"))
    assert [run(program), run(program, "yes\n")] == ["no-consent\n"] * 2
    assert script.requests == []
    assert not (tmp_path / "my-job").exists()
    assert on_terminal(program, "yes\n")[0] == "queued\n"


def test_a_desktop_app_describes_asks_and_answers(
    load: Load, script: Script, published: bytes
) -> None:
    app, shown = load(ten_lines("desktop")), list[str]()
    shipped = json.dumps(entry(published)).encode()

    def yes(text: str) -> bool:
        shown.append(text)
        return True

    app.started(yes, shipped)
    assert script.requests == []
    app.started(yes, shipped)
    assert len(shown) == 1
    assert "a suspicion of 10 % can grow" in shown[0]
    app.ends(**ANSWERS)
    app.ends(**ANSWERS)
    assert app.client.budget().spent == SPENT_ONCE
    assert app.client.flush(PATIENCE) == 0
    assert different(script) == 1
    app.client.consent(False)
    app.started(yes, shipped)
    assert len(shown) == 1  # does not ask a person who has withdrawn


# Many people: Flask, FastAPI, Django


def play(ask: Ask, client: Client, script: Script, id_of: Callable[[str], str] = str) -> None:
    """Simulate two people, each asked once and with a ledger: one refuses, one withdraws."""
    assert ask("cem", "PUT", "/consent", False) == {"kept": True}
    assert ask("cem", "GET", "/consent", None) == {"ask": False}  # even before anyone has agreed
    assert ask("ann", "GET", "/consent", None) == {"ask": True}
    assert ask("ann", "POST", "/health", ANSWERS) == {"status": "no-consent"}
    assert script.requests == []
    for user in ("ann", "bob"):
        assert ask(user, "PUT", "/consent", True) == {"kept": True}
        assert ask(user, "GET", "/consent", None) == {"ask": False}
        assert ask(user, "POST", "/health", ANSWERS) == {"status": "queued"}
        assert ask(user, "POST", "/health", ANSWERS) == {"status": "already-answered"}
    assert client.flush(PATIENCE) == 0
    assert different(script) == 2
    for user in ("cem", "bob"):
        assert ask(user, "PUT", "/consent", False) == {"kept": True}
        assert ask(user, "GET", "/consent", None) == {"ask": False}
        assert ask(user, "POST", "/health", ANSWERS) == {"status": "no-consent"}
    costs = [spent(client, id_of(user)) for user in ("ann", "bob", "cem")]
    assert costs == [SPENT_ONCE, SPENT_ONCE, "0"]


def spent(client: Client, user: str) -> str:
    budget = client.person(user).budget()
    assert isinstance(budget, Budget)
    return budget.spent


def different(script: Script) -> int:
    """Return the number of distinct reports; reports with the same id are the same."""
    return len({envelope.id for envelope in script.envelopes()})


def test_flask(load: Load, script: Script) -> None:
    module = load(ten_lines("web"))
    module.app.secret_key = "of this test"

    def ask(user: str, method: str, path: str, body: object) -> Any:
        with module.app.test_client() as browser:
            with browser.session_transaction() as session:
                session["user"] = user
            reply = browser.open(path, method=method, json=body)
            assert reply.status_code == 200
            return reply.get_json()

    play(ask, module.client, script)
    assert ask("dan", "PUT", "/consent", True) == {"kept": True}
    assert ask("dan", "POST", "/health", {"other": 1}) == {"status": "queued"}  # no declared answer
    assert module.client.flush(PATIENCE) == 0
    assert different(script) == 3


def test_fastapi(load: Load, script: Script) -> None:
    """Run under uvicorn; eight simultaneous requests answer once."""
    from fastapi import Request

    module = load(recipe("FastAPI"))

    def logged_in(request: Request) -> str:
        return request.headers["X-User"]

    logged_in.__annotations__ = {"request": Request, "return": str}
    module.app.dependency_overrides[module.current_user] = logged_in
    with uvicorn_serving(module.app) as port:

        def ask(user: str, method: str, path: str, body: object) -> Any:
            connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
            headers = {"X-User": user, "Content-Type": "application/json"}
            connection.request(method, path, json.dumps(body), headers)
            reply = connection.getresponse()
            said = json.loads(reply.read())
            connection.close()
            assert reply.status == 200, said
            return said

        play(ask, module.client, script)
        assert ask("dan", "PUT", "/consent", True) == {"kept": True}
        odd = {"crashed": [1], "minutes": {"a": 1}, "browser": None}  # no value is refused
        with ThreadPoolExecutor(8) as crowd:
            said = crowd.map(lambda _: ask("dan", "POST", "/health", odd)["status"], range(8))
        assert sorted(said) == ["already-answered"] * 7 + ["queued"]
    assert module.client.flush(PATIENCE) == 0
    assert different(script) == 3


@contextmanager
def uvicorn_serving(app: Any) -> Iterator[int]:
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        options = {"sockets": [listening]}
        thread = threading.Thread(target=server.run, kwargs=options, daemon=True)
        thread.start()
        eventually(lambda: server.started)
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(PATIENCE)


def test_django(load: Load, script: Script) -> None:
    """Use Django's sessions, users, login and database."""
    import django
    from django.conf import settings
    from django.core.management import call_command

    module = load(recipe("Django"))
    settings.configure(
        ROOT_URLCONF=module,
        SECRET_KEY="of this test",
        LOGGING_CONFIG=None,
        ALLOWED_HOSTS=["testserver"],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        INSTALLED_APPS=[
            f"django.contrib.{app}" for app in ("auth", "contenttypes", "sessions")
        ],
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
        ],
    )  # fmt: skip
    django.setup()
    call_command("migrate", verbosity=0)
    from django.contrib.auth.models import User
    from django.test import Client as Browser

    browsers = {}
    for name in ("ann", "bob", "cem"):
        browsers[name] = Browser()
        browsers[name].force_login(User.objects.create_user(name))

    def ask(user: str, method: str, path: str, body: object) -> Any:
        reply = browsers[user].generic(method, path, json.dumps(body), "application/json")
        assert reply.status_code == 200
        return reply.json()

    play(ask, module.client, script, lambda name: str(User.objects.get(username=name).pk))
    assert Browser().post("/health").status_code == 302  # without a login


# A queue of tasks, a function


def test_celery(ours: Callable[[str], str], script: Script, tmp_path: Path) -> None:
    """Use a real worker with two forked processes, and a broker of files.

    Each person's task is queued twice. Neither the broker nor the log ever contains an answer, and
    all reports are sent at the end.
    """
    queue = tmp_path / "queue"
    queue.mkdir()
    (tmp_path / "my_app.py").write_text(MY_APP, "utf-8")
    (tmp_path / "celeryconfig.py").write_text(
        "broker_url = 'filesystem://'\n"
        f"broker_transport_options = dict.fromkeys(\n"
        f"    ('data_folder_in', 'data_folder_out', 'control_folder'), {str(queue)!r})\n",
        "utf-8",
    )
    (tmp_path / "tasks.py").write_text(PATIENT + ours(recipe("Celery")), "utf-8")
    ask = (
        "from tasks import client, report_health\n"
        "for user in ('ann', 'bob'):\n"
        "    client.person(user).consent(True)\n"
        "for user in ('ann', 'bob', 'cem') * 2:\n"
        "    report_health.delay(user)\n"
    )
    subprocess.run([sys.executable, "-c", ask], cwd=tmp_path, check=True, timeout=2 * PATIENCE)
    waiting = [file.read_text("utf-8") for file in queue.iterdir() if file.is_file()]
    assert len(waiting) >= 6
    assert "firefox" not in "".join(waiting)
    log = tmp_path / "log"
    with log.open("wb") as file:
        worker = subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", "tasks", "worker", "--pool", "prefork",
             "--concurrency", "2", "--loglevel", "info"],
            cwd=tmp_path, stdout=file, stderr=file,
        )  # fmt: skip
    try:
        eventually(
            lambda: log.read_text("utf-8").count("succeeded in") == 6 or worker.poll() is not None
        )
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(PATIENCE)
    told = log.read_text("utf-8")
    assert told.count("succeeded in") == 6, told
    assert "firefox" not in told
    assert different(script) == 2
    finish(script, tmp_path / "my-app", "ann", "bob")


def test_a_serverless_function_works_only_with_persistent_state(
    ours: Callable[[str], str],
    script: Script,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two cold starts share one ledger; the report has left before the first one returns."""
    (tmp_path / "my_app.py").write_text(MY_APP, "utf-8")
    (tmp_path / "function.py").write_text(PATIENT + ours(recipe("Serverless functions")), "utf-8")
    start = "import function\nprint(function.handler({'user': 'ann'}, None)['status'])"
    agree = (
        "from function import Client, policy\n"
        f"Client({script.url!r}, policy=policy, state={str(tmp_path / 'my-app')!r})"
        ".person('ann').consent(True)"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(KEPT)
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "name")
    with pytest.raises(subprocess.CalledProcessError) as refused:
        run(start)
    assert InvalidPolicy.__name__ in refused.value.stderr
    assert script.requests == []
    monkeypatch.setenv(KEPT, "1")
    assert run(start) == "no-consent\n"
    run(agree)
    assert run(start) == "queued\n"
    assert different(script) == 1
    assert run(start) == "already-answered\n"
    finish(script, tmp_path / "my-app", "ann")


# A relay, totals


def test_a_client_with_a_relay_takes_surveys_from_it_and_refuses_those_that_are_not_sealed(
    load: Load, script: Script
) -> None:
    block = recipe("A relay").replace("https://stats.example.org", "https://server.invalid")
    module = load(block.replace("https://relay.example.org", script.url))
    module.client.consent(True)
    outcome = module.client.answer("app-health", **ANSWERS)
    assert (outcome.status, module.outcome.status) == ("refused", "no-consent")
    assert "sealed" in outcome.detail
    assert [request.method for request in script.requests] == ["GET"]


def test_the_total_of_the_ended_month_is_answered_once(load: Load, script: Script) -> None:
    """At ε 20 hardly any report is a lie; a false alarm has a probability below 1e-8."""
    today = datetime.now(UTC).date()
    asked = survey_text(
        number(0, 10, "local-laplace", grid=1, epsilon="20"),
        name="minutes-a-month",
        opens=today - timedelta(days=80),
        closes=today + timedelta(days=80),
        grace_days=40,
    )
    script.publish(render_document(parse_toml(asked)))
    app = load(recipe("Totals of a month"))
    caps = dict.fromkeys(["max_epsilon", "max_epsilon_per_survey", "max_epsilon_per_round"], "60")
    app.client._pipeline.policy = replace(app.policy, **caps)
    app.client.consent(True)
    last = f"{today.replace(day=1) - timedelta(days=1):%Y-%m}"
    app.add(3)
    totals = json.loads(app.COUNTER.read_text())
    app.COUNTER.write_text(json.dumps(totals | {last: 600}))
    assert [app.answer_last_month() for _ in range(2)] == ["queued", "already-answered"]
    assert app.client.flush(PATIENCE) == 0
    (envelope,) = script.envelopes()
    assert envelope.payload == b"\1"


def run(program: str, typed: str = "") -> str:
    """Run a separate process in this folder."""
    done = subprocess.run(
        [sys.executable, "-c", program], input=typed, capture_output=True, text=True, check=True,
        timeout=2 * PATIENCE,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout


def finish(script: Script, state: Path, *people: str | None) -> None:
    """Restart: all remaining reports are sent, and each person has paid and reported once."""
    policy = Policy(keys=[script.surveys[0]["key"]])
    with Client(script.url, policy=policy, state=state) as client:
        assert client.flush(PATIENCE) == 0
    for person in people:
        told = read_summary(state, person)
        assert [entry.delivery for entry in told.entries] == ["accepted"]
        assert decimal_text(told.ledger.total) == SPENT_ONCE
    assert different(script) == len(people)
