"""Respondent pages: their bytes, headers and hashes, copies on other hosts, the register."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
import requests

from deniable.server.analysis import remote_register
from deniable.server.pages.respondent.hosted_page import export_page
from deniable.server.store import PublishedSurvey, Share, open_store
from deniable.server.surveys.catalogue import Catalogue
from deniable.shared.cli.command import main
from tests.client.scripted import QuietServer, answering
from tests.command import asked_json, run
from tests.end_to_end.browser import Files
from tests.eventually import eventually
from tests.server.results_data import fill
from tests.server.surveys import until_spring
from tests.server.world import NOON, World, serving, world
from tests.survey_texts import bit, vector

MAX_COMPRESSED_BYTES = 60_000
FILES = ("ask.css", "ask.js", "icon.svg")


@pytest.fixture
def here(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path / "data", NOON) as made:
        yield made


@pytest.fixture
def asked(here: World) -> PublishedSurvey:
    return here.publish(until_spring(bit(), name="late"))


def test_a_survey_s_page_is_found_by_name_and_id(here: World, asked: PublishedSurvey) -> None:
    pages = {here.client.get(f"/ask/{name}").data for name in ("late", asked.id, asked.id[:8])}
    assert len(pages) == 1
    (page,) = pages
    assert f'data-survey="{asked.id}" data-key="{asked.key}"'.encode() in page
    entry = here.client.get(f"/ask/{asked.id}.json").json
    assert entry == {
        "document": asked.document.decode(), "signature": asked.signature, "state": "open",
    }  # fmt: skip
    here.catalogue.close(asked)
    assert here.client.get(f"/ask/{asked.id}.json").json["state"] == "closed"
    assert here.client.get("/ask/late").data in pages, "so that its hash stays in the register"


def test_a_page_links_results_only_if_their_author_shares_them_so(here: World) -> None:
    asked, today = fill(here), NOON.date()
    days = today, today + timedelta(days=30)
    here.store.share(Share("/shared/a", asked.sequence, "ann", *days, "", None, ""))
    assert "results" not in here.client.get(f"/ask/{asked.id}.json").json
    here.store.share(Share("/shared/b", asked.sequence, "ann", *days, "", None, "", is_linked=True))
    assert here.client.get(f"/ask/{asked.id}.json").json["results"] == "../shared/b"
    here.clock.pass_(days=31)
    assert "results" not in here.client.get(f"/ask/{asked.id}.json").json


def test_a_page_carries_a_policy_without_exceptions(here: World, asked: PublishedSurvey) -> None:
    """Only its own server; a script and a style of its own, by hash; no frame; no referrer."""
    answer = here.client.get("/ask/late")
    policy = answer.headers["Content-Security-Policy"]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == "'self'"
    assert rules["frame-ancestors"] == "'none'"
    assert "unsafe" not in answer.text + policy
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert "Set-Cookie" not in answer.headers
    assert "Access-Control-Allow-Origin" not in answer.headers
    for name in ("ask.js", "ask.css"):
        body = here.client.get(f"/ask/{name}").data
        digest = base64.b64encode(hashlib.sha384(body).digest()).decode()
        assert f'"{name}" integrity="sha384-{digest}"' in answer.text
    assert not re.search(r"<(script|style)[^>]*>[^<]|\son\w+=|\sstyle=", answer.text)


def test_the_files_of_a_page_can_be_loaded_by_other_origins(
    here: World, asked: PublishedSurvey
) -> None:
    for name in (*FILES, f"{asked.id}.json"):
        headers = here.client.get(f"/ask/{name}").headers
        assert headers["Access-Control-Allow-Origin"] == "*"
        assert headers["Cross-Origin-Resource-Policy"] == "cross-origin"


def test_a_page_is_small(here: World, asked: PublishedSurvey) -> None:
    names = ("late", *FILES, f"{asked.id}.json")
    size = sum(len(gzip.compress(here.client.get(f"/ask/{name}").data)) for name in names)
    print(f"a page has {size:,} bytes, compressed")
    assert size < MAX_COMPRESSED_BYTES


def test_files_are_served_compressed_to_clients_that_accept_it(
    here: World, asked: PublishedSurvey
) -> None:
    """The compressed copy is a published file, too; its content is the file in the register."""
    for name in FILES:
        plain = here.client.get(f"/ask/{name}", headers={"Accept-Encoding": "gzip;q=0"})
        assert "Content-Encoding" not in plain.headers
        packed = here.client.get(f"/ask/{name}", headers={"Accept-Encoding": "gzip, br"})
        assert packed.headers["Content-Encoding"] == "gzip"
        assert gzip.decompress(packed.data) == plain.data
        assert len(packed.data) < len(plain.data)
        assert packed.headers["Content-Type"] == plain.headers["Content-Type"]
        assert packed.headers["Vary"] == plain.headers["Vary"] == "Accept-Encoding"
    page = here.client.get("/ask/late", headers={"Accept-Encoding": "gzip"})
    assert "Content-Encoding" not in page.headers


APP_ONLY = {
    "over": until_spring(bit(over="any"), round="month"),
    "latched": until_spring(bit(), round="week", repeat="latched", repeat_rounds=4),
    "vector": until_spring(vector(3)),
    "ε": until_spring(bit(epsilon="8.5")),
}


@pytest.mark.parametrize("reason", APP_ONLY)
def test_a_survey_that_no_page_can_ask_has_one_sentence_and_no_script(
    here: World, reason: str
) -> None:
    published = here.publish(APP_ONLY[reason])
    page = here.client.get(f"/ask/{published.id}")
    assert page.text.count("This survey can be answered only in an app, not on a page.") == 1
    assert f"<h1>{published.survey.title}</h1>" in page.text
    assert "<script" not in page.text
    for ending in (".json", ".sha256"):
        assert here.client.get(f"/ask/{published.id}{ending}").status_code == 404
    assert [entry.event for entry in here.store.register()] == ["published"]


@pytest.mark.parametrize("address", ["none", "none.html", "..", "%00", "a" * 500, "late.txt"])
def test_an_unknown_survey_has_a_page_that_says_so(
    here: World, asked: PublishedSurvey, address: str
) -> None:
    answer = here.client.get(f"/ask/{address}")
    assert "No survey has this address" in answer.text or answer.text == ""
    assert answer.status_code == (200 if address == "none.html" else 404)


def test_the_author_s_texts_are_escaped(here: World) -> None:
    here.publish(until_spring(bit(), name="late", title="<script>alert(1)</script>", purpose="<b>"))
    text = here.client.get("/ask/late").text
    assert "<script>alert" not in text
    assert "<b>" not in text


def test_the_register_has_the_hash_of_the_list_of_files(
    here: World, asked: PublishedSurvey
) -> None:
    """Rendering the pages again adds nothing; another script would."""
    listed = here.client.get(f"/ask/{asked.id}.sha256").text
    bodies = {"late.html": "late"} | {name: name for name in FILES}
    for name, path in bodies.items():
        digest = hashlib.sha256(here.client.get(f"/ask/{path}").data).hexdigest()
        assert f"{digest}  {name}\n" in listed
    assert len(listed.splitlines()) == len(bodies)
    here.catalogue.close(asked)
    here.client.get("/ask/late")
    entries = here.store.register()
    assert [entry.event for entry in entries] == ["published", "page", "closed"]
    assert entries[1].key == hashlib.sha256(listed.encode()).hexdigest()


@contextmanager
def host(folder: Path) -> Iterator[str]:
    class Handler(Files):
        def __init__(self, *args: object) -> None:
            super().__init__(*args, directory=str(folder))  # type: ignore[arg-type] # as given

    with answering(QuietServer(("127.0.0.1", 0), Handler)) as url:
        yield url


def test_a_copy_on_another_host_is_compared_with_the_register(tmp_path: Path) -> None:
    """A changed file is named. Files that were replaced, and other pages, are findings too."""
    data, site = tmp_path / "data", tmp_path / "site"
    with world(data) as here:
        here.publish(until_spring(bit(), name="late"))
    with serving(data) as server, host(site) as hosted:
        with open_store(data) as store:
            eventually(lambda: [e for e in store.register() if e.event == "page"], "registered")
            survey = Catalogue(store).find("late")
        page = export_page(survey, server.url, site)
        assert page.read_bytes() == requests.get(f"{server.url}/ask/late", timeout=5).content
        for address in (f"{server.url}/ask/late", f"{hosted}/{page.name}"):
            found = asked_json("doctor", "--page", address, "--server", server.url)
            assert [finding["well"] for finding in found["checks"]] == [True] * 5
        unnamed = run("doctor", "--page", f"{hosted}/{page.name}")
        assert unnamed.returncode == 1
        assert "this register is the page's own choice" in unnamed.stdout
        assert "name the author's server with --server URL" in unnamed.stdout
        own = ("--server", server.url)
        script = (site / "ask.js").read_bytes()
        (site / "ask.js").write_bytes(script + b"\n")
        changed = run("doctor", "--page", f"{hosted}/{page.name}", *own)
        assert changed.returncode == 1
        assert "the register has no entry for these files; different: ask.js" in changed.stdout
        (site / "ask.js").write_bytes(script)
        with open_store(data) as store:
            store.register_page(survey.id, "00" * 32)
        eventually(lambda: len(remote_register(server.url)) == 3, "intake has read the entry")
        replaced = run("doctor", "--page", f"{hosted}/{page.name}", *own)
        assert replaced.returncode == 1
        assert "the files are those of entry 2, and entry 3 replaced them" in replaced.stdout
        other = run("doctor", "--page", f"{server.url}/healthz")
        assert other.returncode == 3
        assert "is not a respondent page of deniable" in other.stderr
        file = site / f"{survey.id}.json"
        original = file.read_text()
        elsewhere = original.replace(server.url, "http://127.0.0.1:1")
        file.write_text(elsewhere)
        sent = run("doctor", "--page", f"{hosted}/{page.name}", *own)
        assert sent.returncode == 1
        assert f"sends its reports to http://127.0.0.1:1, not to {server.url}" in sent.stdout
        file.write_text(original)
        changes = {"document": '{"survey": {"name": "late"}}'}
        file.write_text(json.dumps(json.loads(file.read_text()) | changes))
        pinned = run("doctor", "--page", f"{hosted}/{page.name}")
        assert (pinned.returncode, "pinned to another survey" in pinned.stderr) == (3, True)


def test_a_hosted_page_is_read_only_by_https_or_on_this_machine(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["doctor", "--page", "http://stats.example.org/ask/late"]) == 2
    assert "--page must be an https URL" in capsys.readouterr().err
