"""Accessibility of every page, in a real browser.

axe-core finds nothing serious, text has enough contrast in both modes, no page is wider than a
phone of 320 px, and keyboard focus is visible.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from deniable.server.http.context import COOKIE
from deniable.server.store import PublishedSurvey, RoundTally, Share
from deniable.shared.cli.command import main
from deniable.shared.survey.kinds.text import Text
from deniable.simulations.population import text_tally
from tests.end_to_end.browser import CHROMIUM, NAMES, served
from tests.end_to_end.looking import CONTRAST, Found, Page, View, faults, look
from tests.end_to_end.test_texts import COLOUR
from tests.server import test_arms, test_crossed
from tests.server.results_data import NOW, add_round, draw_cells, fill, start_times
from tests.server.surveys import BIT, choice, envelope, until_spring
from tests.server.test_operating import DRAFT
from tests.server.world import World, world

INSTALL = f"no browser on PATH; install one of {', '.join(NAMES)}"
USUAL: Sequence[View] = (
    {"width": 1280, "scheme": "light", "keyboard": True},
    {"width": 320, "scheme": "dark", "rules": CONTRAST},
)
EVERY: Sequence[View] = [
    {"width": width, "scheme": scheme, "keyboard": True}
    for width in (1280, 390, 320)
    for scheme in ("light", "dark")
]
STUDIES = ("bit", "vector")
SHARED = ("results", "few", "many", "forged", "periods")
# These pages have the templates of others, with other data or for other readers.
ALIKE = (
    *("list-searched", "list-without-a-match", "weeks", "earlier-round", "few", "closed", "many"),
    *("periods", "texts", "plan-text", "missing", "shared-many", "shared-forged", "shared-periods"),
)
INERT = ("shared-few", "not-shared")  # pages without links, forms or folds
MANY = [f"option {number}" for number in range(60)]
BAD = """data:text/html,<html><title>x</title><style>a{color:rgb(200,200,200)}
a:focus{outline:none}</style><p style="width:3000px">wide</p><img src="x"><a href="/">faint</a>
<script>throw new Error("fault")</script>"""


@pytest.fixture
def able() -> None:
    """Skip the test without a browser, with the reason; the long tests require one."""
    if CHROMIUM is None:
        pytest.skip(INSTALL)


def surveys(here: World) -> Mapping[str, PublishedSurvey]:
    """Publish one survey in each state."""
    found = {"results": fill(here)}
    for name, more in (
        ("waiting", {}),
        ("unopened", {"opens": date(2027, 3, 1)}),
        ("few", {}),
        ("closed", {}),
    ):
        found[name] = here.publish(until_spring(BIT, name=name, **more))
    add_round(here.store, found["few"], 685, [[30, 10]])
    add_round(here.store, found["closed"], 685, [[300, 100]])
    here.catalogue.close(found["closed"])
    found["many"] = here.publish(until_spring(choice(MANY) + BIT, name="many", ask=1))
    for number in (684, 685):
        add_many(here, found["many"], number)
    found["arms"] = test_arms.fill(here, [(4_000, 0.1), (4_000, 0.3)])
    found["crossed"] = test_crossed.filled(here)
    found["periods"] = start_times(here)
    found["texts"] = here.publish(until_spring(COLOUR, name="texts"))
    found["forged"] = here.publish(until_spring(choice(4, "unary", epsilon="2"), name="forged"))
    for name, cells in (("texts", texts_of(found["texts"])), ("forged", np.full(4, 900))):
        with here.store.transaction() as transaction:
            transaction.add(found[name].sequence, RoundTally(684, 1_000, cells))
    return found


def texts_of(asked: PublishedSurvey) -> npt.NDArray[np.int64]:
    (question,) = asked.survey.questions
    assert isinstance(question, Text)
    return text_tally(question, {"blue": 600}, 400, np.random.default_rng(1))


def add_many(here: World, asked: PublishedSurvey, number: int) -> None:
    """Add a round to a survey that asks one question per install and has enough options to fold."""
    rng, (options, bit) = np.random.default_rng(number), asked.survey.questions
    held = [9_000, *[400] * (len(MANY) - 1)]
    asked_of = [sum(held), 4_000]
    drawn = [draw_cells(options, held, rng), draw_cells(bit, [3_000, 1_000], rng)]
    with here.store.transaction() as transaction:
        cells = np.concatenate([*drawn, np.array(asked_of)])
        transaction.add(asked.sequence, RoundTally(number, sum(asked_of), cells))


def every_page(here: World, url: str, folder: Path) -> list[Page]:
    found = surveys(here)
    operator, analyst = (
        [{"name": COOKIE, "value": here.session(here.token(role)), "url": url}]
        for role in ("operator", "analyst")
    )
    known = {
        "list": "/",
        "list-searched": "/?q=app&state=open&sort=reports",
        "list-without-a-match": "/?q=nothing-like-this",
        "weeks": f"/surveys/{found['periods'].id}?by=week",
        **{name: f"/surveys/{survey.id}" for name, survey in found.items()},
        "earlier-round": f"/surveys/{found['results'].id}?round=683",
        "operate": "/operate",
        "check": "/operate/check",
        "close": f"/surveys/{found['results'].id}/close",
        "plan": "/plan?kind=choice&options=8&people=50000",
        "plan-text": "/plan?kind=text&people=1000000&epsilon=2",
        "plan-wrong": "/plan?kind=choice&options=1&epsilon=x&people=-1&bytes=q",
        "missing": "/surveys/none",
    }
    for name in SHARED:
        days = NOW.date(), NOW.date() + timedelta(days=30)
        about = found[name].sequence, "ann", *days, "", None, ""
        here.store.share(Share(f"/shared/{name}", *about))
    anyone = {
        **{f"shared-{name}": f"/shared/{name}" for name in SHARED},
        "not-shared": "/shared/unknown",
        "sign-in": "/",
        "public": f"/public/{found['results'].id}",
        "problem": "/problems/rate-limited",
        "nothing-here": "/nothing/here",
    }
    pages: list[Page] = [
        {"name": name, "url": url + path, "cookies": operator} for name, path in known.items()
    ]
    pages += [{"name": name, "url": url + path} for name, path in anyone.items()]
    pages.append({"name": "refused", "url": f"{url}/operate", "cookies": analyst})
    client, report = here.client, folder / "report.html"
    client.set_cookie(COOKIE, operator[0]["value"])
    report.write_bytes(client.get(f"/surveys/{found['results'].id}/report.html").data)
    pages.append({"name": "report", "url": report.as_uri()})
    acts = {
        "token-made": ("/operate", 'form[action$="/operate/tokens"] button'),
        "tried": (f"/surveys/{found['waiting'].id}", 'form[action$="/try"] button'),
        "checked": ("/operate/check", 'form[action$="/check"] button'),
        "drafted": ("/operate/check", 'form[action$="/draft"] button'),
    }
    for name, (path, press) in acts.items():
        page: Page = {"name": name, "url": url + path, "cookies": operator, "press": press}
        pages.append(page | {"fill": {"#survey": DRAFT}} if name == "checked" else page)
    return pages


def wrong(found: Sequence[Found]) -> list[str]:
    return [
        fault
        for one in found
        for fault in faults(one)
        if one["page"] not in INERT or not fault.endswith("the keyboard reaches nothing")
    ]


def test_every_page_is_accessible(able: None, tmp_path: Path) -> None:
    with (
        world(tmp_path / "data", NOW, public_pages=True) as here,
        served(here.at_one_address) as url,
    ):
        pages = [page for page in every_page(here, url, tmp_path) if page["name"] not in ALIKE]
        assert wrong(look(tmp_path, pages, USUAL)) == []


def test_the_pages_of_studies_are_accessible(able: None, tmp_path: Path) -> None:
    assert wrong(look(tmp_path, studied(tmp_path, STUDIES[:1]), USUAL)) == []


def studied(folder: Path, names: Sequence[str]) -> list[Page]:
    for name in names:
        assert main(["simulate", name, "--people", "1e3,1e4", "--out", str(folder / name)]) == 0
    return [
        {"name": path.stem, "url": path.as_uri()}
        for name in names
        for path in sorted((folder / name).glob("*.html"))
    ]


def test_the_waiting_page_updates_when_the_first_report_arrives(able: None, tmp_path: Path) -> None:
    """The open page updates without a click. Before that, each snippet has a copy button."""
    copies = "document.querySelectorAll('button.copy').length === 3"
    with world(tmp_path / "data", NOW) as here, served(here.at_one_address) as url:
        asked = here.publish(until_spring(BIT))
        cookies = [{"name": COOKIE, "value": here.session(here.token("analyst")), "url": url}]
        waits: Page = {"name": "waits", "url": f"{url}/surveys/{asked.id}", "cookies": cookies}
        assert wrong(look(tmp_path / "one", [waits | {"until": copies}], USUAL[:1])) == []
        sending = threading.Timer(3, lambda: here.send(envelope(asked, 1, round_number=685)))
        sending.start()
        turned: Page = waits | {"until": "document.body.innerText.includes('99 to go')"}
        assert wrong(look(tmp_path / "two", [turned], USUAL[:1])) == []
        sending.join()


def test_the_check_finds_planted_faults(able: None, tmp_path: Path) -> None:
    said = " ".join(wrong(look(tmp_path, [{"name": "bad", "url": BAD}], USUAL[:1])))
    for fault in ("color-contrast", "image-alt", "wider than", "<a href", "Uncaught"):
        assert fault in said


@pytest.mark.long
def test_every_page_is_accessible_at_every_width_in_both_modes(tmp_path: Path) -> None:
    assert CHROMIUM, INSTALL
    with (
        world(tmp_path / "data", NOW, public_pages=True) as here,
        served(here.at_one_address) as url,
    ):
        pages = every_page(here, url, tmp_path) + studied(tmp_path, STUDIES)
        assert wrong(look(tmp_path, pages, EVERY)) == []
