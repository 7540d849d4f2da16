"""The respondent page, in a real browser with the real server.

One process of Chromium plays all scenes (`ask.mjs`); each browser in it has a storage of its own.
The tests judge what the scenes saw, and what the server counted.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import requests

from deniable.server.pages.respondent.hosted_page import export_page
from deniable.server.store import open_store
from deniable.server.surveys.catalogue import Catalogue
from deniable.shared.cli.command import main
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms.randomized_response import RandomizedResponse
from deniable.simulations.demo.server_process import running_server
from tests.ask_bundle import BUNDLE, bundled
from tests.client.scripted import QuietServer, answering
from tests.command import asked_json
from tests.end_to_end.browser import CHROMIUM, FLAGS, NAMES, ROOT, Files
from tests.eventually import PATIENCE, eventually
from tests.node import NODE
from tests.npm import npm_packages
from tests.plausible import assert_plausible
from tests.survey_texts import ALWAYS, bit, choice, label, number, question, survey_text

BROWSER = pytest.mark.skipif(
    CHROMIUM is None, reason=f"no browser on PATH; install one of {', '.join(NAMES)}"
)
ONCE = ALWAYS | {"round": "once"}
EPSILON, ONE = "1", 2**64
LIE = RandomizedResponse(Epsilon(EPSILON)).lie
KINDS = (
    bit(epsilon="1")
    + choice(["never", "once", "often"], name="how", epsilon="1")
    + choice(8, "subset-selection", name="some", epsilon="1")
    + choice(9, "projective-geometry", name="pattern", epsilon="1")
    + choice(14, "unary", name="many", epsilon="1")
    + number(1, 5, name="rating", epsilon="1")
    + number(0, 120, "one-bit-mean", epsilon="1", unit="min")
    + question("word", "text", "1", length=8)
)
ANSWERS = {
    "crashed": "1", "how": "2", "some": "7", "pattern": "0", "many": "13", "rating": "4",
    "minutes": "34", "word": "privately",
}  # fmt: skip
SCENES = (
    "people", "again", "expired", "doubleClick", "twoTabs", "offline", "left",
    "leftEarly", "withdrawn",
    "full", "keyboard", "kinds", "others",
    "versions", "invitations", "corrected", "languages",
    "refusals", "scripts", "elsewhere",
)  # fmt: skip
PEOPLE = 6
VERSIONS = ["a short week", "a long week"]
HOST = "https://host.example"


def publish(data: Path, name: str, questions: str, **more: object) -> str:
    file = data.parent / f"{name}.toml"
    words = {"title": "Being late", "purpose": "Find out how often people come late."}
    file.write_text(survey_text(questions, **ONCE | words | {"name": name} | more))
    identifier: str = asked_json("survey", "publish", str(file), "--data", str(data))["id"]
    return identifier


def late(epsilon: str = EPSILON) -> str:
    return question("late", "bit", epsilon, title="Did you come late this week?")


def play(url: str, scenes: Sequence[str], profile: Path, **more: object) -> Mapping[str, Any]:
    asked = {
        "browser": CHROMIUM,
        "flags": [*FLAGS, f"--user-data-dir={profile}"],
        "axe": str(npm_packages() / "node_modules/axe-core/axe.min.js"),
        "server": url,
        "scenes": scenes,
        "people": PEOPLE,
        "pages": {
            "bit": "late",
            "left": "left",
            "kinds": "kinds",
            "closed": "done",
            "app": "app",
            "one": "one",
            "weekly": "weekly",
            "invited": "invited",
            "languages": "words",
            "reset": "reset",
            "little": "little",
            "versions": "versions",
        },
        "answers": ANSWERS,
    }
    script = Path(__file__).with_name("ask.mjs")
    done = subprocess.run(
        [NODE, str(script)], input=json.dumps(asked | more), capture_output=True, text=True,
        timeout=6 * PATIENCE, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    found: Mapping[str, Any] = json.loads(done.stdout)
    return found


@contextmanager
def host(folder: Path) -> Iterator[str]:
    """Serve a folder as a static host of another origin does."""

    class Handler(Files):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=str(folder))

    with answering(QuietServer(("127.0.0.1", 0), Handler)) as url:
        yield url


def embedded(server: str, survey: str, key: str) -> str:
    """Return a page with the lines of the manual that embed a survey."""
    manual = (ROOT / "server/SURVEYS.md").read_text("utf-8")
    lines = manual.partition("## Embed it in a page")[2].split("```")[1].removeprefix("html\n")
    assert len(lines.splitlines()) == 3
    values = {"https://surveys.example": server, '"ID"': f'"{survey}"', '"KEY"': f'"{key}"'}
    for placeholder, value in values.items():
        lines = lines.replace(placeholder, value)
    return f"<!DOCTYPE html>\n<title>A page of someone else</title>\n{lines}"


class Played(NamedTuple):
    scenes: Mapping[str, Any]
    url: str
    hosted: str
    counted: Mapping[str, int]  # reports by survey, when everything has arrived


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    folder = tmp_path_factory.mktemp("ask")
    data, site = folder / "data", folder / "site"
    published = {name: publish(data, name, late()) for name in ("late", "left", "done")}
    publish(data, "little", late("8"))
    publish(data, "reset", question("reset", "bit", "1"))
    publish(data, "kinds", KINDS, title="Of every kind")
    app = publish(data, "app", bit(over="any"), round="month")
    publish(data, "versions", label("version", arms=VERSIONS) + late())
    publish(data, "one", bit() + late(), ask=1)
    weeks = {"opens": date(2026, 11, 2), "closes": date(2027, 1, 31)}
    publish(data, "weekly", late("0.5"), round="week", **weeks)
    assert main(["survey", "close", "done", "--data", str(data)]) == 0
    published["invited"] = publish(data, "invited", late(), invitation=True)
    words = {"languages": ["en", "fr", "de"], "title": WORDS}
    publish(data, "words", question("late", "bit", title=WORDS), **words)
    address = ("--page", f"{HOST}/invited.html")
    invited = asked_json("invite", "invited", "--count", "5", *address, "--data", str(data))
    assert all(link.startswith(f"{HOST}/invited.html#") for link in invited["links"])
    with running_server(data) as server, host(site) as hosted:
        eventually(lambda: requests.get(f"{server.url}/ask/late", timeout=5).status_code == 200)
        with open_store(data) as store:
            catalogue = Catalogue(store)
            survey, unanswerable = catalogue.find("late"), catalogue.find(app)
        only_in_app = export_page(unanswerable, server.url, site)
        file, to = str(folder / "late.toml"), str(site)
        exported = asked_json("ask", file, "--data", str(data), "--export", to)
        page = Path(exported["page"])
        assert exported["server"] == server.url
        codes = [link.partition("#")[2] for link in invited["links"]]
        (site / "embedded.html").write_text(embedded(server.url, survey.id, survey.key), "utf-8")
        elsewhere = {"exported": f"{hosted}/{page.name}", "embedded": f"{hosted}/embedded.html"}
        by_code = embedded(server.url, published["invited"], survey.key)
        (site / "by-code.html").write_text(by_code, "utf-8")
        copied = asked_json(
            "ask", str(folder / "invited.toml"), "--data", str(data), "--export", to
        )
        elsewhere["invited"] = f"{hosted}/by-code.html#{codes[2]}"
        elsewhere["invited-copy"] = f"{hosted}/{Path(copied['page']).name}#{codes[4]}"
        elsewhere["app"] = f"{hosted}/{only_in_app.name}"
        scenes = play(server.url, SCENES, folder / "profile", elsewhere=elsewhere, codes=codes)
        broken = {name: seen["error"] for name, seen in scenes.items() if "error" in seen}
        assert broken == {}
        eventually(lambda: reports(data, published["left"]) == 2)
        counted = {name: reports(data, identifier) for name, identifier in published.items()}
    return Played(scenes, server.url, hosted, counted)


def reports(data: Path, identifier: str) -> int:
    with open_store(data) as store:
        survey = Catalogue(store).find(identifier)
        return sum(tally.reports for tally in store.tallies(survey.sequence))


def test_the_shipped_script_is_made_from_the_client() -> None:
    assert BUNDLE.read_bytes() == bundled(), "run: python -m tests.ask_bundle"


@BROWSER
def test_the_shown_draw_is_that_of_the_report(played: Played) -> None:
    """The whole numbers on the screen, by the mechanism's table, make the byte that was posted."""
    for person in played.scenes["people"]:
        (post,) = person["posts"]
        drawn, (low, high) = map(int, numbers(person)[:1]), numbers(person)[2:]
        (roll,) = drawn
        lies = roll < LIE
        assert int(post[-2:], 16) == person["answer"] ^ lies
        assert (low, high) == ((0, LIE - 1) if lies else (LIE, ONE - 1))
        said, sent = ("No", "Yes")[person["answer"]], ("No", "Yes")[person["answer"] ^ lies]
        assert f"You said {said}." in person["drawn"]["text"]
        assert person["drawn"]["sent"] == f"This was sent: {sent}."
        assert "Your report has arrived." in person["drawn"]["text"]


def numbers(person: Mapping[str, Any]) -> list[int]:
    """Return the number drawn, how many there are, and the interval that sends the same."""
    terms = " ".join(person["drawn"]["terms"]).replace("of", " ").replace("–", " ")
    return [int(word) for word in terms.split()]


@BROWSER
def test_traffic_is_the_same_for_every_answer(played: Played) -> None:
    """Requests, their order and their sizes are equal, and go only to the page's own server."""
    people = played.scenes["people"]
    seen = {json.dumps(person["requests"]).replace(played.url, "") for person in people}
    paths = ["/ask/late", "/ask/ask.css", "/ask/ask.js", "/v1/surveys", "/v1/envelopes"]
    assert len(seen) == 1
    (requested,) = seen
    assert all(path in requested for path in paths)
    assert requested.count("POST") == 1
    assert len({len(post) for person in people for post in person["posts"]}) == 1
    for person in people:
        assert all(url.startswith(f"{played.url}/") for _, url in person["requests"])


@BROWSER
def test_a_page_does_the_same_for_every_answer(played: Played) -> None:
    """Storage, draws, hashes, timers and requests, in order and with sizes, until it sends.

    So the time until then cannot depend on the answer, except through the processor's caches.
    """
    people = played.scenes["people"]
    assert len({json.dumps(person["operations"]) for person in people}) == 1
    names = [name for name, *_ in people[0]["operations"]]
    assert {*names} == {"get", "getAllKeys", "put", "add", "digest", "sign", "importKey", "verify",
        "getRandomValues", "setTimeout", "fetch", "open"}  # fmt: skip
    assert people[0]["operations"][-1][:2] == ["put", "ask-HEX-0"]
    for person in people:
        assert not {"referer", "cookie"} & {*person["sentHeaders"]}
        assert "user-agent" in person["sentHeaders"]


@BROWSER
def test_nothing_that_stays_reveals_the_answer(played: Played) -> None:
    """Storage, address, history, title and console, for each answer.

    Everything kept is a key, a count, or the report that was sent. The draw is nowhere.
    """
    shapes = set()
    for person in played.scenes["people"]:
        kept, (post,) = person["kept"], person["posts"]
        roll = numbers(person)[0]
        text = json.dumps(kept)
        for written in (str(roll), f"{roll:016x}", roll.to_bytes(8, "little").hex()):
            assert written not in text
        (sent,) = [value for name, value in kept["records"].items() if name.startswith("ask-")]
        assert sent == {"payloads": [post[-2:]]}
        assert not [name for name in kept["records"] if name.startswith(("report-", "try-"))]
        assert kept["rest"][0] == kept["rest"][1] == {}
        assert kept["rest"][2:4] == ["", f"{played.url}/ask/late"]
        assert kept["rest"][4:] == [None, "Being late", "", []]
        assert person["console"] == []
        shapes.add(json.dumps(shape(kept["records"])))
    assert len(shapes) == 1


def shape(value: Any) -> Any:  # Any: JSON
    """Return the value with each text and number replaced by its type and length."""
    if isinstance(value, dict):
        return {key.split("-")[0]: shape(entry) for key, entry in sorted(value.items())}
    if isinstance(value, list):
        return [shape(entry) for entry in value]
    return len(value) if isinstance(value, str) and not value.isdigit() else type(value).__name__


@BROWSER
def test_what_was_sent_stays_visible_and_is_sent_once(played: Played) -> None:
    again = played.scenes["again"]
    assert again["posts"] == 1
    assert again["more"] == 0
    assert again["first"]["sent"] == again["second"]["sent"] == again["third"]["sent"]
    assert "This browser has already answered" not in again["first"]["text"]
    for visit in ("second", "third"):
        assert "You said" not in again[visit]["text"]
        assert again[visit]["terms"] == []
    assert played.scenes["doubleClick"] == {"posts": 1, "charges": 1}
    for race in played.scenes["twoTabs"]:
        texts = " ".join(race["texts"])
        assert (texts.count("You said"), texts.count("This browser has already")) == (1, 1)
        assert race["posts"] == 1


@BROWSER
def test_a_report_leaves_whatever_the_person_does(played: Played) -> None:
    """Offline, it waits for the next visit or the network. Leaving the page does not stop it."""
    offline = played.scenes["offline"]
    assert "Your report is stored on this device. It is sent as soon as" in offline["waits"]
    assert (offline["before"], offline["next"], offline["later"]) == (0, 1, 1)
    left = played.scenes["left"]
    assert "This browser has already answered" in left["visit"]
    assert "You said" not in left["back"]["text"]
    assert left["back"]["sent"].startswith("This was sent:")
    assert played.counted["left"] == 2
    assert played.counted["done"] == 0


@BROWSER
def test_a_page_that_was_left_early_shows_no_answer_when_it_is_found_again(played: Played) -> None:
    """It was left while the report was being sent, or before, whatever the question's name."""
    early = played.scenes["leftEarly"]
    assert "This was sent:" in early["late"]["text"]
    assert "You said" not in early["late"]["text"]
    assert early["reset"]["checked"] is False


@BROWSER
def test_an_answer_is_no_consent_to_an_app_of_the_same_origin(played: Played) -> None:
    assert played.scenes["withdrawn"] == [{"given": False}]


@BROWSER
def test_the_page_does_not_deny_what_was_sent(played: Played) -> None:
    assert played.scenes["full"]["posts"] == 1
    assert "Nothing was sent" not in played.scenes["full"]["text"]


@BROWSER
def test_the_page_works_by_keyboard_and_is_accessible(played: Played) -> None:
    """axe finds no fault at 1280, 390 and 320 px, light and dark; nothing moves or overflows."""
    keyboard = played.scenes["keyboard"]
    assert [name for name, _ in keyboard["reached"]][-1] == "send"
    assert all(ring != "none" for _, ring in keyboard["reached"])
    assert keyboard["focus"] == "result"
    assert "What was sent" in keyboard["text"]
    scenes = played.scenes
    for scene in (scenes["again"], scenes["kinds"], scenes["refusals"], scenes["versions"]):
        assert scene["found"] == []


@BROWSER
def test_every_kind_of_question_is_asked_and_its_draw_shown(played: Played) -> None:
    kinds = played.scenes["kinds"]
    assert len(kinds["posts"]) == 1
    assert kinds["console"] == []
    assert kinds["filledIn"] == 0, "the browser fills in and remembers no field"
    assert kinds["text"].count("You said ") == len(ANSWERS)
    assert kinds["text"].count("This was sent: ") == len(ANSWERS)
    assert kinds["text"].count("Your device drew ") == len(ANSWERS) - 1
    assert "Your device tossed a coin" in kinds["text"]
    assert "about 0 min" in kinds["text"] or "about 120 min" in kinds["text"]
    assert kinds["lang"] == "de"
    assert kinds["german"].count("Ihre Antwort war ") == len(ANSWERS)
    assert "Your device" not in kinds["german"]


@BROWSER
def test_the_page_shows_which_of_several_questions_was_sent(played: Played) -> None:
    others = played.scenes["others"]
    text, (post,) = others["one"]["text"], others["post"]
    assert text.count("You said Yes.") == 2
    assert text.count("Your device picked another question by chance") == 1
    assert text.count("This was sent:") == 1
    picked = ("crashed", "Did you come late this week?")[int(post[-4:-2], 16)]
    shown = text.partition("This was sent:")[0].rpartition("Your device drew")[0]
    assert shown.rpartition("You said")[0].strip().endswith(picked)


@BROWSER
def test_a_survey_of_several_rounds_states_what_all_of_them_reveal(played: Played) -> None:
    """The largest suspicion is that of ε 0.5 for one round, and of ε 6.5 for 13 of them."""
    text = played.scenes["others"]["weekly"]
    assert "they can be at most 16 % sure after (ε 0.5)." in text
    assert "This survey asks up to 13 times. That figure is for one time. For all of them:" in text
    assert "they can be at most 99 % sure after (ε 6.5)." in text


@BROWSER
def test_an_invitation_counts_once_and_is_sent_only_with_the_report(played: Played) -> None:
    """The code leaves the address, survives a reload, and goes only to the server."""
    seen = played.scenes["invitations"]
    address, text = seen["before"]
    assert address == ""
    assert "The person who gave you this code, working together with the server" in text
    assert "Your report has arrived." in seen["good"]["text"]
    assert "This invitation was already used. Your report was not" in seen["spent"]["text"]
    assert "The server does not know this invitation." in seen["unknown"]["text"]
    for name in ("damaged", "none"):
        assert "this link has no valid code. Nothing was sent." in seen[name]["text"]
        assert seen[name]["sent"] == []
    (sent,) = seen["good"]["sent"]
    code = sent
    assert len(code) == 26
    assert not any(code in url for url in seen["good"]["urls"])
    assert code not in json.dumps(seen["good"]["kept"])
    assert (seen["reloaded"], seen["open"]) == (1, [""])
    assert played.counted["invited"] == 5


@BROWSER
def test_a_wrong_code_does_not_use_up_the_only_answer(played: Played) -> None:
    """Another code sends the same bytes: nothing is drawn or charged again."""
    seen = played.scenes["corrected"]
    first, second = seen["bodies"]
    assert first == second
    (wrong,), (right,) = seen["sentBy"]
    assert wrong == "b" * 26
    records = seen["kept"]["records"]
    assert len([name for name in records if name.startswith("charge-")]) == 1
    assert not [name for name in records if name.startswith(("report-", "spare-"))]
    assert right not in json.dumps(seen["kept"])
    assert seen["posts"] == 1, "a reload sends nothing more"


@BROWSER
def test_what_was_sent_is_deleted_with_the_key_of_its_survey(played: Played) -> None:
    """The ledger stays: deleting must not refill a budget."""
    seen = {
        when: {name.split("-")[0] for name in names}
        for when, names in played.scenes["expired"].items()
    }
    assert {"ask", "verdict", "key", "charge", "round"} <= seen["before"]
    assert {"charge", "round"} <= seen["after"]
    assert not seen["after"] & {"ask", "verdict", "key"}


@BROWSER
def test_a_survey_that_protects_little_says_so(played: Played) -> None:
    """ε 8 in one round, and ε 6.5 in 13 rounds; at ε 1 the page says why nobody can be sure."""
    little = "This survey gives your answer little protection"
    kinds, weekly = played.scenes["kinds"], played.scenes["others"]["weekly"]
    for text in (kinds["text"], weekly):
        assert little in text
        assert "nobody can be sure" not in text.lower()
    assert "Diese Umfrage schützt Ihre Antwort nur wenig" in kinds["german"]
    assert "niemand" not in kinds["german"].lower()
    assert (
        "Of 10,000 people who say yes, about 9,997 send yes and 3 send no."
        in (played.scenes["others"]["little"]["text"])
    )
    sent = played.scenes["others"]["little"]["draw"]["text"]
    assert "every number from 0.03 to 100.00: Yes." in sent or "0.00 to 0.03" in sent
    usual = played.scenes["again"]["page"]
    assert little not in usual
    assert "Nobody can be sure that it contains your true answer." in usual


WORDS = {"en": "Late this week?", "fr": "En retard ?", "de": "Diese Woche zu spät?"}


@BROWSER
def test_the_page_uses_the_browser_s_language_if_it_has_it(played: Played) -> None:
    seen = played.scenes["languages"]
    shown = {name: (own, lang) for name, (own, lang, *_) in seen.items()}
    assert shown == {
        "german": ("de", "de"), "switched": ("en", "en"), "french": ("en", "fr"),
        "spanish": ("de", "de"),
    }  # fmt: skip
    for name, (_, lang, text, *_) in seen.items():
        assert WORDS[lang] in text
        assert ("Senden" in text) == (shown[name][0] == "de")
    assert seen["switched"][3] is True, "the chosen answer stays"


QUESTIONS = {
    "Who asks, and why?": ("Find out how often people come late.", "Asked by Example Ltd"),
    "What can someone learn about me?": (
        "they can be at most 24 % sure after (ε 1)",
        "it can tell that you took part",
    ),
    "Who could still see my answer?": (
        "Anyone who can change this page's script could see your answer.",
        "So could this browser's extensions, and anyone who sees this screen.",
    ),
    "Why can no one know the answer?": (
        "Your device may change your answer by chance before it sends it",
        "If someone is 10 % sure before, they can be at most 24 % sure after (ε 1).",
        "Of 100 people who say yes, about 73 send yes and 27 send no.",
        "Of 100 people who say no, about 27 send yes and 73 send no.",
    ),
    "What was sent?": ("What was sent", "This was sent: "),
    "Who sees what?": ("Who sees what", "could see your answer", "your network address"),
    "Can I answer again, or take it back?": (
        "This browser has already answered. You cannot take the answer back.",
    ),
}
BEFORE = {
    "again": "You cannot take it back. This browser answers this survey only once.",
    "weekly": "You cannot take it back. This browser answers once in each round.",
}


@BROWSER
@pytest.mark.parametrize("asks", QUESTIONS)
def test_a_respondent_finds_the_answer_in_the_page_s_own_words(played: Played, asks: str) -> None:
    """The questions were written before the page."""
    text = played.scenes["again"]["page"]
    assert [words for words in QUESTIONS[asks] if words not in text] == []


@BROWSER
def test_a_respondent_knows_before_pressing_that_the_answer_is_final(played: Played) -> None:
    assert BEFORE["again"] in played.scenes["again"]["form"]
    assert BEFORE["weekly"] in played.scenes["others"]["weekly"]


REFUSALS = {
    "closed": "This survey is closed. Nothing was sent.",
    "unknown": "The link is incomplete or mistyped, or the survey was deleted. Nothing was sent.",
    "over": "This survey ended on 2099-12-31. Nothing was sent.",
    "early": "This survey opens on 2020-01-01.",
    "app": "This survey can be answered only in an app, not on a page. Nothing was sent.",
    "browser": "This browser lacks cryptography that this page needs (Ed25519), so you cannot "
    "answer safely here. Nothing was sent.",
    "storage": "This browser does not store data durably on this page, so you cannot answer "
    "safely here. Nothing was sent.",
    "signal": "Your browser asks sites not to collect data (Do Not Track or Global Privacy "
    "Control). Nothing was sent.",
    "signature": "This link is damaged, or the survey cannot be verified. Nothing was sent.",
    "document": "This link is damaged, or the survey cannot be verified. Nothing was sent.",
    "unreachable": "The survey could not be loaded. Check the connection, then load this page "
    "again.",
    "nothing": "This link is damaged, or the survey cannot be verified. Nothing was sent.",
}


@BROWSER
@pytest.mark.parametrize("reason", REFUSALS)
def test_one_sentence_explains_why_answering_is_impossible(played: Played, reason: str) -> None:
    says, posts, console = played.scenes["refusals"][reason]
    assert (says, posts, console) == (REFUSALS[reason], 0, [])


@BROWSER
def test_a_page_without_its_own_script_asks_nothing(played: Played) -> None:
    scripts = played.scenes["scripts"]
    assert "This page needs JavaScript: your own device may change your answer" in scripts["off"]
    assert scripts["ran"] is False
    assert "integrity" in " ".join(scripts["console"])


@BROWSER
def test_other_hosts_and_other_pages_can_ask(played: Played) -> None:
    """An exported copy reaches the server, and three lines embed the page in another page.

    An invitation works there, too: its code goes to the survey's server only, in a header.
    """
    for name, (files, posted) in {
        "exported": (played.hosted, played.url),
        "embedded": (played.url, played.url),
        "invited": (played.url, played.url),
        "invited-copy": (played.hosted, played.url),
    }.items():
        seen = played.scenes["elsewhere"][name]
        assert seen["console"] == []
        addresses = [url for _, url in seen["requests"]]
        assert f"{files}/{'ask/' * (files == played.url)}ask.js" in addresses
        assert ["POST", f"{posted}/v1/envelopes"] in seen["requests"]
        assert all(url.startswith((played.url, played.hosted)) for url in addresses)
        (code,) = seen["codes"]
        assert len(code) == (26 if name.startswith("invited") else 0)
        assert not code or not any(code in url for url in addresses)
    app = played.scenes["elsewhere"]["app"]
    assert "can be answered only in an app, not on a page. Nothing was sent." in app["text"]
    assert "POST" not in [method for method, _ in app["requests"]]


@BROWSER
def test_the_version_that_a_page_shows_is_the_one_that_its_report_names(played: Played) -> None:
    """It survives a reload. A second tab that shows another version sends no report."""
    seen = played.scenes["versions"]
    for person in seen["people"]:
        first, reloaded = person["shown"]
        assert first == reloaded
        (post,) = person["post"]
        assert VERSIONS[int(post[-4:-2], 16)] == first
        assert f"the survey, the round, version ({first})" in person["text"]
        assert person["state"] is None
    assert seen["posts"] == [1, 0]


@BROWSER
def test_a_browser_that_has_revealed_enough_answers_nothing_more(played: Played) -> None:
    budget = played.scenes["kinds"]["budget"]
    assert "as much as it may in this quarter (ε 8). Nothing was sent." in budget["text"]
    assert budget["posts"] == 0


@BROWSER
@pytest.mark.long
def test_fifty_browsers_answer_as_honest_randomizers_do(tmp_path: Path) -> None:
    """50 people say yes. False alarm at most 1e-9; the count fails if they had said no."""
    data, people = tmp_path / "data", 100
    survey = publish(data, "late", late("3"))
    with running_server(data) as server:
        eventually(lambda: requests.get(f"{server.url}/ask/late", timeout=5).status_code == 200)
        scenes = play(server.url, ["people"], tmp_path / "profile", people=people)
        assert reports(data, survey) == people
        with open_store(data) as store:
            (tally,) = store.tallies(Catalogue(store).find(survey).sequence)
    posted = [person["answer"] for person in scenes["people"] if person["posts"][0].endswith("01")]
    assert tally.cells.tolist()[0] in (len(posted), people - len(posted))
    lie = RandomizedResponse(Epsilon("3")).lie / ONE
    for answer, share in ((1, 1 - lie), (0, lie)):
        count = sum(given == answer for given in posted)
        assert_plausible(count, people // 2, share)
        with pytest.raises(AssertionError, match="probability below"):
            assert_plausible(count, people // 2, 1 - share)
