"""Pages of the real application: access, contents, and protection against hostile content."""

import csv
import io
import re
from datetime import date, datetime, timedelta
from html.parser import HTMLParser

import numpy as np
import pytest
from flask import render_template_string
from flask.testing import FlaskClient
from jinja2 import UndefinedError
from markupsafe import escape
from werkzeug.test import TestResponse

from deniable.server.http.context import COOKIE, parts_of
from deniable.server.pages.question_view import MAX_TABLE_ROWS, MAX_TREND_ROUNDS
from deniable.server.pages.survey_page import MAX_LINKS
from deniable.server.store import PublishedSurvey, RoundTally, Token
from deniable.shared.privacy.epsilon import lifetime_promise, round_promise
from tests import survey_texts
from tests.server.results_data import (
    FIRST_ROUND,
    NOW,
    add_round,
    draw_cells,
    grid_steps,
    spread,
)
from tests.server.surveys import BIT, BROWSERS, EACH_KIND, choice, until_spring
from tests.server.world import World

pytestmark = pytest.mark.at(NOW)

ADDRESSES = {"href", "src", "action", "formaction", "srcset", "poster", "data"}


@pytest.fixture
def analyst(here: World) -> str:
    return here.token("analyst")


@pytest.fixture
def pages(here: World, analyst: str) -> FlaskClient:
    """Return a signed-in client."""
    client: FlaskClient = here.client
    client.set_cookie(COOKIE, here.session(analyst))
    return client


class Page(HTMLParser):
    """Parser that collects scripts, and the addresses that a browser would fetch or follow."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.attributes: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]
        self.addresses += [value or "" for name, value in attrs if name in ADDRESSES]


def check_page(response: TestResponse) -> None:
    """Check the rules for every page: its security policy, links and markup."""
    policy = response.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'self'")
    assert "unsafe" not in policy
    assert response.headers["Cache-Control"] == "no-store"
    page = Page(response.text)
    assert ("script" in page.tags) == ("script-src 'self'" in policy)
    assert not re.search(r"<script(?! src=\"/static/[a-z]+\.js\" defer></script>)", response.text)
    assert not [name for name in page.attributes if name == "style" or name.startswith("on")]
    assert page.addresses
    for address in page.addresses:
        assert re.match(r"/(?!/)|\?|#|http://localhost/(v1|public)/", address), address
    assert "Traceback" not in response.text


# Access


@pytest.mark.parametrize("path", ["/", "/surveys/app-health", "/surveys/none"])
def test_a_stranger_is_asked_to_sign_in_and_sees_nothing_else(
    here: World, analyst: str, published: PublishedSurvey, path: str
) -> None:
    response = here.client.get(path)
    assert response.status_code == 401
    assert "How is the app doing?" not in response.text
    assert "deniable token create --role analyst" in response.text
    check_page(response)


def test_a_token_in_the_address_becomes_a_cookie_and_leaves_the_address(
    here: World, analyst: str, published: PublishedSurvey
) -> None:
    client = here.client
    response = client.get(f"/surveys/app-health?round=683&token={analyst}")
    assert response.status_code == 303
    assert response.headers["Location"] == "/surveys/app-health?round=683"
    cookie = response.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert "Secure" not in cookie
    assert analyst not in cookie
    assert client.get("/").status_code == 200


def test_behind_tls_the_cookie_is_for_tls_only(here: World, analyst: str) -> None:
    response = here.client.get(f"/?token={analyst}", headers={"X-Forwarded-Proto": "https"})
    assert "Secure" in response.headers["Set-Cookie"]


def test_the_form_signs_in_and_the_button_signs_out(
    here: World, analyst: str, published: PublishedSurvey
) -> None:
    client = here.client
    form = {"token": f" {analyst} ", "target": "/surveys/app-health"}
    response = client.post("/sign-in", data=form)
    assert (response.status_code, response.headers["Location"]) == (303, "/surveys/app-health")
    assert client.get("/surveys/app-health").status_code == 200
    assert client.post("/sign-out").status_code == 303
    assert client.get("/surveys/app-health").status_code == 401


@pytest.mark.parametrize(
    ("token", "words"), [("x" * 40, "is unknown"), ("", "is unknown"), ("app", "for apps")]
)
def test_a_refused_token_gets_the_reason(here: World, token: str, words: str) -> None:
    token = here.token("app") if token == "app" else token
    client = here.client
    for response in (
        client.post("/sign-in", data={"token": token}),
        client.get(f"/?token={token}"),
    ):
        assert response.status_code == 401
        assert words in response.text
        assert "Set-Cookie" not in response.headers
        assert not token or token not in response.text
        check_page(response)


@pytest.mark.parametrize(
    "target",
    [
        "https://elsewhere.example",
        "//elsewhere.example",
        "////elsewhere.example",
        "/\\elsewhere.example",
        "/\\/elsewhere.example",
        "x",
        "/a\nb",
        "/\t/elsewhere.example",
    ],
)
def test_signing_in_never_redirects_to_another_site(here: World, analyst: str, target: str) -> None:
    response = here.client.post("/sign-in", data={"token": analyst, "target": target})
    assert response.headers["Location"] == "/"


ELSEWHERE = [
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Origin": "https://elsewhere.example"},
    {"Origin": "null"},
]


@pytest.mark.parametrize("headers", ELSEWHERE, ids=str)
def test_another_site_cannot_sign_anyone_in(
    here: World, analyst: str, headers: dict[str, str]
) -> None:
    """Otherwise a site could sign its visitors in to the site's own account and watch them."""
    for response in (
        here.client.post("/sign-in", data={"token": analyst}, headers=headers),
        here.client.get(f"/?token={analyst}", headers=headers),
    ):
        assert response.status_code == 401
        assert "Set-Cookie" not in response.headers
        assert analyst not in response.text


@pytest.mark.parametrize(
    "headers", [{"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"},
                {"Origin": "http://localhost"}], ids=str
)  # fmt: skip
def test_the_server_s_own_page_can_sign_in(
    here: World, analyst: str, headers: dict[str, str]
) -> None:
    response = here.client.post("/sign-in", data={"token": analyst}, headers=headers)
    assert response.status_code == 303


def test_a_copied_cookie_is_invalid_after_signing_out(here: World, analyst: str) -> None:
    client, thief = here.client, here.client
    cookie = client.get(f"/?token={analyst}").headers["Set-Cookie"]
    thief.set_cookie(COOKIE, cookie.split(";")[0].partition("=")[2])
    assert thief.get("/").status_code == 200
    client.post("/sign-out")
    assert thief.get("/").status_code == 401
    assert here.client.get("/", headers={"Authorization": f"Bearer {analyst}"}).status_code == 200


def test_a_session_expires_and_ends_with_its_token(here: World) -> None:
    def revoke() -> None:
        for token in here.store.tokens():
            here.store.revoke_token(token.id)

    def half_a_day() -> None:
        here.clock.pass_(hours=12)

    for end in (half_a_day, revoke):
        client = here.client
        client.get(f"/?token={here.token('analyst', days=2)}")
        assert client.get("/").status_code == 200
        end()
        assert client.get("/").status_code == 401


def test_the_number_of_sessions_is_bounded(
    here: World, analyst: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deniable.server.http.tokens.MAX_SESSIONS", 3)
    cookies = [here.session(analyst) for _ in range(5)]
    tokens = [parts_of(here.app).sessions.token(cookie) for cookie in cookies]
    assert tokens == ["", "", analyst, analyst, analyst]


# Contents


def test_the_list_shows_every_survey(pages: FlaskClient, published: PublishedSurvey) -> None:
    response = pages.get("/")
    check_page(response)
    for text in (
        "How is the app doing?",
        "app-health",
        "49,000",
        "by a factor of at most 34 (ε 3.5)",
    ):
        assert text in response.text
    assert f'href="/surveys/{published.id}"' in response.text


def test_a_survey_s_page_states_the_questions_and_the_privacy_cost(
    pages: FlaskClient, published: PublishedSurvey
) -> None:
    response = pages.get(f"/surveys/{published.id}")
    check_page(response)
    assert "Find crashes by platform" in response.text
    assert "Example Ltd, privacy@example.org" in response.text
    for promise in (round_promise(3_500_000_000), lifetime_promise(3_500_000_000, 5)):
        assert promise[:1].upper() + promise[1:] in response.text
    assert "the limit is ε 2 in one round" in response.text
    assert "the people who reported" in response.text
    assert "honest answers" in response.text


def test_the_results_come_before_the_details(
    pages: FlaskClient, published: PublishedSurvey
) -> None:
    """Each question has its title, a sentence and a figure; the asker and the cost come later."""
    text = pages.get(f"/surveys/{published.id}?round=683").text
    order = ("<h1>", '<p class="answer">', "<svg", "How to read this", "Questions and purpose")
    places = [text.index(name) for name in order]
    assert places == sorted(places)
    assert len(re.findall(r"[0-9.]+ % say yes, between [0-9.]+ and [0-9.]+\.", text)) == 1
    assert len(re.findall(r"The mean is [0-9.]+, between [0-9.]+ and [0-9.]+\.", text)) == 1
    assert "chrome is first (" in text
    assert text.count("answers are worth") == 3


def test_each_question_has_labelled_figures(pages: FlaskClient, published: PublishedSurvey) -> None:
    """A bit and a number have a trend; a choice has its options, and a trend for each option."""
    text = pages.get(f"/surveys/{published.id}?round=684").text
    assert text.count('role="img"') == 2 + 1 + 5 + 1  # plus the choice's change
    assert text.count("<title id=") == text.count("<desc id=") == 9
    assert len(set(re.findall(r'id="(question-[^"]+)"', text))) == 18
    assert text.count("<table>") == 1
    for option in ("firefox", "chrome", "safari", "edge", "other"):
        assert f'<th scope="row">{option}</th>' in text
    assert "part caused by the privacy noise" in text
    assert "repeated looks" not in pages.get(f"/surveys/{published.id}?round=683").text
    assert "repeated looks" in pages.get(f"/surveys/{published.id}").text


def test_a_first_round_has_no_trend_and_no_change(pages: FlaskClient, here: World) -> None:
    published = here.publish(until_spring(BIT))
    add_round(here.store, published, FIRST_ROUND, [[500, 500]])
    text = pages.get(f"/surveys/{published.id}").text
    assert text.count('role="img"') == 1
    assert text.count('class="bar"') == 1
    assert "since" not in text


def test_a_round_is_compared_with_the_one_before(
    pages: FlaskClient, published: PublishedSurvey
) -> None:
    text = pages.get(f"/surveys/{published.id}?round=684").text
    assert re.search(r"(lower|higher) since Dec 2026|No clear change since Dec 2026", text)
    assert "<summary>Change since Dec 2026</summary>" in text
    assert "since Dec 2026" not in pages.get(f"/surveys/{published.id}?round=683").text


def test_display_names_are_used_in_titles_figures_and_tables(
    pages: FlaskClient, here: World
) -> None:
    asked = (
        BIT + 'title = "Did it crash?"\n'
        + survey_texts.number() + 'title = "How long was it used?"\nunit = "min"\n'
        + choice(("ff", "cr")) + 'title = "Which one?"\nlabels = ["Firefox", "Chrome"]\n'
    )  # fmt: skip
    published = here.publish(until_spring(asked, cross=[["crashed", "browser"]]))
    minutes = spread(900, grid_steps(published), 0.5)
    question_cells = [[600, 300], minutes, [800, 100]]
    rng = np.random.default_rng(1)
    cells = [
        draw_cells(question, held, rng)
        for question, held in zip(published.survey.questions, question_cells, strict=True)
    ]
    with here.store.transaction() as transaction:
        transaction.add(
            published.sequence, RoundTally(FIRST_ROUND, 900,
            np.concatenate([*cells, np.array([400, 150, 250, 100])])))  # fmt: skip
    text = pages.get(f"/surveys/{published.id}").text
    assert [f"<h3>{title}" in text for title in ("Did it crash?", "Which one?")] == [True] * 2
    assert "<h3>Did it crash? × Which one?</h3>" in text
    assert re.search(r"The mean is [0-9.]+ min, between", text)
    assert "Firefox is first (" in text
    for words in ("Firefox", "yes × Chrome"):
        assert f'<th scope="row">{words}</th>' in text
    assert '<th scope="row">ff' not in text
    assert '<th scope="row">yes × cr' not in text
    table = pages.get(f"/v1/surveys/{published.id}/results.csv").text
    shown = {(row["title"], row["called"]) for row in csv.DictReader(io.StringIO(table))}
    assert {
        ("Which one?", "Chrome"),
        ("Did it crash? × Which one?", "yes × Chrome"),
        ("Did it crash? within Which one?", "yes × Chrome"),
        ("Which one? within Did it crash?", "Firefox × no"),
    } <= shown


def test_rounds_are_plain_links_and_the_newest_with_an_estimate_comes_first(
    pages: FlaskClient, published: PublishedSurvey
) -> None:
    text = pages.get(f"/surveys/{published.id}").text
    assert re.search(r'href="\?round=685" aria-current="page"', text)
    older = pages.get(f"/surveys/{published.id}?round=683").text
    assert re.search(r'href="\?round=683" aria-current="page"', older)
    assert f"/v1/surveys/{published.id}/results?round=683" in older
    assert f"/v1/surveys/{published.id}/results.csv?round=683" in older
    assert "Dec 2026: 20,000 reports" in older


def test_the_links_to_json_and_csv_work_with_the_same_cookie(
    published: PublishedSurvey, pages: FlaskClient
) -> None:
    text = pages.get(f"/surveys/{published.id}").text
    links = re.findall(r'href="(?:http://localhost)?(/v1/[^"]+)"', text)
    assert len(links) == 4
    assert {pages.get(link).status_code for link in links} == {200}


def test_outcomes_are_described_in_words(
    pages: FlaskClient, here: World, analyst: str, published: PublishedSurvey
) -> None:
    here.store.add_counters(
        {(published.sequence, "duplicates"): 312, (published.sequence, "late"): 1_017}
    )
    text = pages.get(f"/surveys/{published.id}").text
    assert re.search(r"sent again, and counted once</th><td>300<", text), "in steps of 20"
    assert re.search(r"after their round and its grace period</th><td>1,000<", text)


def test_options_that_are_not_clearly_above_zero_are_folded(
    pages: FlaskClient, here: World
) -> None:
    questions = EACH_KIND.replace(choice(BROWSERS), choice(300))
    published = here.publish(until_spring(questions))
    held = [[10_000, 0], spread(10_000, grid_steps(published), 0.5), [7_010, *[10] * 299]]
    add_round(here.store, published, FIRST_ROUND, held)
    text = pages.get(f"/surveys/{published.id}").text
    assert "1 of 300 options is clearly above zero" in text
    assert text.count('class="bar"') == 1, "option 0; no one crashed"
    folded = text.split("299 others: too rare to measure (below ")[1].split("</details>")[0]
    assert folded.count('<th scope="row">option') == 299


WORDS = ("title", "purpose", "owner", "option 1", "option 2")


def hostile(word: str) -> str:
    return f'<script id="{word}">alert("1")</script>&amp;'


def test_the_texts_of_a_survey_are_escaped_on_its_page(pages: FlaskClient, here: World) -> None:
    """Every text by the survey's author is checked on every page that shows it."""
    title, purpose, owner, *options = map(hostile, WORDS)
    questions = EACH_KIND.replace(choice(BROWSERS), choice([*options, "other"]))
    published = here.publish(until_spring(questions, title=title, purpose=purpose, owner=owner))
    held = [[500, 0], spread(500, grid_steps(published), 0.5), [300, 150, 50]]
    add_round(here.store, published, FIRST_ROUND, held)
    for path, words in (("/", WORDS[:1]), (f"/surveys/{published.id}", WORDS)):
        response = pages.get(path)
        assert response.status_code == 200
        check_page(response)
        for word in words:
            assert str(escape(hostile(word))) in response.text


def test_the_text_of_an_address_is_escaped(pages: FlaskClient) -> None:
    response = pages.get("/surveys/<script>alert(1)<script>")
    assert response.status_code == 404
    assert "&lt;script&gt;alert" in response.text
    check_page(response)


def test_an_undefined_name_in_a_template_is_an_error(here: World) -> None:
    with here.app.app_context(), pytest.raises(UndefinedError):
        render_template_string("{{ misspelt }}")


def test_a_table_on_a_page_is_bounded(pages: FlaskClient, here: World) -> None:
    assert (MAX_TABLE_ROWS, MAX_LINKS, MAX_TREND_ROUNDS) == (1_024, 6, 60)
    options = MAX_TABLE_ROWS + 1
    published = here.publish(until_spring(choice(options)))
    cells = np.full(options, 10)
    with here.store.transaction() as transaction:
        transaction.add(published.sequence, RoundTally(FIRST_ROUND, 10 * options, cells))
    text = pages.get(f"/surveys/{published.id}").text
    assert text.count('<th scope="row">option') == MAX_TABLE_ROWS
    assert ">1 more is in the CSV" in text


def test_a_page_s_links_and_trends_to_rounds_are_bounded(pages: FlaskClient, here: World) -> None:
    published = here.publish(until_spring(BIT, round="day", closes=NOW.date()))
    first, last = published.survey.first_round, published.survey.last_round
    for number in range(first, last + 1):
        add_round(here.store, published, number, [[500, 500]])
    text = pages.get(f"/surveys/{published.id}").text
    assert text.split("<details")[0].count('href="?round=') == MAX_LINKS
    oldest = pages.get(f"/surveys/{published.id}?round={first}").text.split("<details")[0]
    assert oldest.count('href="?round=') == MAX_LINKS + 1, "the links plus the shown round"
    assert f"<summary>{last - first + 1 - MAX_LINKS} earlier</summary>" in text
    assert last - first + 1 > MAX_TREND_ROUNDS
    assert text.count('class="point"') == MAX_TREND_ROUNDS


def test_trends_use_the_current_tallies(pages: FlaskClient, here: World) -> None:
    """Rounds with equal numbers of reports are distinguished, and so are open and final rounds.

    Closing a survey makes no interval narrower.
    """
    published = here.publish(until_spring(BIT))
    for number, yes in ((684, 100), (685, 900)):
        add_round(here.store, published, number, [[1_000 - yes, yes]])

    def marks() -> list[str]:
        text = pages.get(f"/surveys/{published.id}").text
        return re.findall(r'class="(?:path|whisker)" d="M[^"]*"', text)

    path, open_ones = marks()
    heights = re.findall(r"[ML][\d.]+ ([\d.]+)", path)
    assert len(set(heights)) == 2
    assert marks() == [path, open_ones]
    here.catalogue.close(published)
    assert marks() == [path, open_ones]
    published = here.publish(until_spring(BIT, name="past", opens=date(2026, 10, 1)))
    for number, yes in ((681, 100), (682, 900)):
        add_round(here.store, published, number, [[1_000 - yes, yes]])
    assert marks()[1] != open_ones, "final"


def test_the_page_of_many_options_and_rounds_is_small(pages: FlaskClient, here: World) -> None:
    """The page is complete without scripts: it contains every option."""
    first = NOW.date() - timedelta(days=199)
    published = here.publish(until_spring(choice(1_024), round="day", opens=first))
    cells = np.full(1_024, 20)
    with here.store.transaction() as transaction:
        for number in range(published.survey.first_round, published.survey.first_round + 200):
            transaction.add(published.sequence, RoundTally(number, 20 * 1_024, cells))
    response = pages.get(f"/surveys/{published.id}")
    check_page(response)
    assert len(response.data) < 150_000
    assert response.text.count('<th scope="row">option') == 1_024


# Empty pages


def test_an_empty_list_shows_the_commands_to_publish(pages: FlaskClient, here: World) -> None:
    response = pages.get("/")
    check_page(response)
    assert f"deniable survey publish survey.toml --data {here.store.data}" in response.text


def test_without_reports_a_survey_s_page_shows_how_an_app_answers(
    pages: FlaskClient, here: World
) -> None:
    published = here.publish(until_spring())
    response = pages.get(f"/surveys/{published.id}")
    check_page(response)
    assert (
        "client.answer(&#34;app-health&#34;" in response.text
        or 'client.answer("app-health"' in response.text
    )
    assert published.key in response.text
    assert "No report has been sent yet" in response.text


def test_the_page_states_how_many_reports_are_missing_for_an_estimate(
    pages: FlaskClient, here: World
) -> None:
    published = here.publish(until_spring())
    held = [[60, 0], spread(60, grid_steps(published), 0.5), [60, 0, 0, 0, 0]]
    add_round(here.store, published, FIRST_ROUND, held)
    text = pages.get(f"/surveys/{published.id}").text
    assert "Estimates appear at 100 reports; 40 to go." in text
    assert "<svg" not in text


def test_the_page_of_a_future_survey_states_when_it_starts(pages: FlaskClient, here: World) -> None:
    published = here.publish(until_spring(opens=date(2027, 3, 1)))
    text = pages.get(f"/surveys/{published.id}").text
    assert "Starts on 1 March 2027" in text
    assert "waiting" in text


@pytest.mark.parametrize("path", ["/surveys/none", "/surveys/app-health?round=1", "/nothing/here"])
def test_an_unknown_address_gets_a_page_with_a_link_back(
    pages: FlaskClient, published: PublishedSurvey, path: str
) -> None:
    response = pages.get(path, headers={"Accept": "text/html,*/*;q=0.8"})
    assert response.status_code == 404
    assert 'href="/"' in response.text
    check_page(response)


def test_under_v1_programs_still_get_a_problem_document(pages: FlaskClient) -> None:
    response = pages.get("/v1/nothing", headers={"Accept": "text/html"})
    assert (response.status_code, response.mimetype) == (404, "application/problem+json")


def test_style_and_icon_are_served_by_the_server(pages: FlaskClient) -> None:
    links = [a for a in Page(pages.get("/").text).addresses if a.startswith("/static/")]
    assert [_static(pages, link) != "" for link in links] == [True, True, True]
    style = _static(pages, "/static/style.css")
    assert "url(" not in style
    assert "@import" not in style
    assert "prefers-color-scheme: dark" in style


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(pages: FlaskClient, scheme: str) -> None:
    """WCAG 2.1 AA requires a contrast of 4.5 for text, in the light and the dark scheme."""
    blocks = re.findall(r":root \{(.*?)\}", _static(pages, "/static/style.css"), re.DOTALL)
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", blocks[scheme == "dark"]))
    pairs = [(text, back) for text in ("ink", "soft", "accent") for back in ("page", "paper")]
    pairs += [("good", "good-back"), ("note", "note-back"), ("bad", "bad-back"), ("ink", "code")]
    pairs += [("soft", "code"), ("paper", "accent")]
    for text, back in pairs:
        assert _contrast(colours[text], colours[back]) >= 4.5, (text, back)


def _static(pages: FlaskClient, path: str) -> str:
    with pages.get(path) as response:
        assert response.status_code == 200
        return response.get_data(as_text=True)


def _contrast(one: str, other: str) -> float:
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    parts = (int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5))
    linear = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("path", ["", "?round=683", "/figures/crashed/round.svg"])
def test_a_page_looks_up_the_role_of_its_visitor_once(
    pages: FlaskClient,
    here: World,
    published: PublishedSurvey,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
) -> None:
    asked, valid_token = list[str](), here.store.valid_token

    def counted(token: str, now: datetime) -> Token | None:
        asked.append(token)
        return valid_token(token, now)

    monkeypatch.setattr(here.store, "valid_token", counted)
    assert pages.get(f"/surveys/{published.id}{path}").status_code == 200
    assert len(asked) == 1
