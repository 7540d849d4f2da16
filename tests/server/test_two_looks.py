"""Surveys whose results are shown at two looks, or at one: nothing is shown before, by any path."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from deniable.server.analysis import open_results
from deniable.server.http.context import COOKIE
from deniable.server.intake.upkeep import Upkeep
from deniable.server.results import Results, stored_estimates
from deniable.server.results.advice import describe, facts
from deniable.server.results.document import Effect, Row
from deniable.server.results.survey_estimates import select_rounds
from deniable.server.store import (
    LabelCounts,
    PublishedSurvey,
    RoundTally,
    Share,
    Store,
    Upload,
    create_store,
)
from deniable.server.store.records import SETTLING
from deniable.server.surveys.catalogue import Catalogue
from deniable.shared.cli.command import main
from deniable.shared.survey.document import LOOKS
from tests import survey_texts as texts
from tests.server.released import release_all
from tests.server.surveys import BIT, DECEMBER, envelope, published, survey
from tests.server.world import Hands, World, world

PEOPLE = 40_000
GRACE = {"grace_days": 10, "minimum_reports": 1}
SHARED = "/shared/known"
RANDOM = re.compile(r'name="form_token" value="[^"]*"|urn:uuid:[0-9a-f-]*')
QUESTIONS = (
    BIT + texts.choice(("a", "b")) + texts.number(mechanism="local-laplace", grid=8, epsilon="4")
)
MORE = {"cross": [["crashed", "browser"]], "grace_days": 10, "minimum_reports": 100}
ROUND_ENDS = datetime(2027, 1, 1, tzinfo=UTC)
FIRST, FINAL = ROUND_ENDS + timedelta(days=1), ROUND_ENDS + timedelta(days=10)


@pytest.fixture
def here(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path / "data", ROUND_ENDS - timedelta(days=1)) as made:
        yield made


def add(store: Store, asked: PublishedSurvey, yes: int, number: int = DECEMBER) -> None:
    """Add PEOPLE reports, of which this many support each first answer."""
    cells, labels = list[int](), LabelCounts(key=asked.label_key)
    for question in asked.survey.questions:
        others = question.mechanism.cells - 1
        parts = [(PEOPLE - yes) // others] * (others - 1)
        cells += [PEOPLE - yes - sum(parts), *parts, yes]
    singles = cells.copy()
    if asked.survey.crossed:
        cells += [PEOPLE - yes, 0, 0, yes]
    if asked.survey.labels:
        for value in (b"\0", b"\1"):
            labels[0, value] = np.array([PEOPLE // 2, *(count // 2 for count in singles)])
    with store.transaction() as transaction:
        tally = RoundTally(number, PEOPLE, np.array(cells, np.int64), labels)
        transaction.add(asked.sequence, tally)


def publish(here: World, looks: str, **more: object) -> PublishedSurvey:
    label = texts.label("platform", values=["linux", "mac"])
    asked = here.publish(survey(QUESTIONS + label, looks=looks, **(MORE | more)))
    if not here.store.shares():
        days = date(2026, 12, 1), date(2027, 12, 1)
        here.store.share(Share(SHARED, asked.sequence, "ci", *days, "", None, ""))
    return asked


def seen(here: World, asked: PublishedSurvey) -> list[str]:
    """Return everything that an analyst, an operator or anyone else can read about the survey."""
    paths = [f"/v1/surveys/{asked.id}/{form}" for form in ("results", "results.csv", "counters")]
    paths += [f"{path}?round={DECEMBER}" for path in paths[:2]]
    paths += [
        f"/surveys/{asked.id}{end}" for end in ("", f"?round={DECEMBER}", ".json", "/report.html")
    ]
    paths.append(SHARED)
    paths += [
        f"/surveys/{asked.id}/figures/{q.name}/{figure}.{form}"
        for q in asked.survey.questions
        for figure in ("round", "trend", "change", "distribution")
        for form in ("svg", "csv")
    ]
    paths += ["/", "/surveys.json", "/metrics", f"/surveys/{asked.id}/waiting.json"]  # fmt: skip
    texts_seen = []
    for role in ("analyst", "operator"):
        client, bearer = here.client, here.bearer(role)
        client.set_cookie(COOKIE, here.session(here.token(role)))
        for path in paths:
            page = client.get(path, headers={} if path.startswith("/surveys/") else bearer).text
            if path == "/metrics":  # the others measure time
                page = "\n".join(line for line in page.splitlines() if "survey=" in line)
            texts_seen.append(RANDOM.sub("", page))
    return texts_seen


def results(here: World, asked: PublishedSurvey) -> Results:
    now = here.clock.now()
    return stored_estimates(here.store, asked, now, select_rounds(asked.survey, now)).document()


@pytest.mark.parametrize("looks", ["twice", "once"])
def test_nothing_depends_on_the_counts_before_the_first_look(tmp_path: Path, looks: str) -> None:
    """Two servers with different counts answer every request alike, until results are shown."""
    answers = []
    shown_from = FIRST if looks == "twice" else FINAL
    for yes in (400, 3_600):
        with world(tmp_path / str(yes), shown_from - timedelta(minutes=1)) as here:
            asked = publish(here, looks)
            add(here.store, asked, yes)
            before = seen(here, asked)
            assert any(f"{PEOPLE:,} reports" in text for text in before)
            here.clock.pass_(minutes=2)
            answers.append((before, seen(here, asked)))
    assert answers[0][0] == answers[1][0]
    assert answers[0][1] != answers[1][1]


@pytest.mark.parametrize("form", [[], ["--json"], ["--csv"]])
def test_the_command_shows_nothing_before_the_first_look(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: list[str]
) -> None:
    printed = []
    today = datetime.now(UTC).date()
    for yes in (400, 3_600):
        with create_store(tmp_path / str(yes)) as store:
            asked = published(
                store,
                survey(BIT, looks="twice", round="once", opens=today, closes=today, **GRACE),
            )
            add(store, asked, yes, 0)
            release_all(store)
        for command in (
            ["results", "app-health", *form],
            ["results", "app-health", "--round", "0"],
        ):
            assert main([*command, "--data", str(tmp_path / str(yes))]) == 0
        printed.append(capsys.readouterr().out)
        assert open_results(tmp_path / str(yes)).estimate("crashed").rows[0].estimate is None
    assert printed[0] == printed[1]
    assert "results are shown on" in printed[0]
    assert "Forgery check: passed" not in printed[0]


def test_two_surveys_are_not_compared_before_the_first_look(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    today = datetime.now(UTC).date()
    with create_store(tmp_path) as store:
        for name in ("one", "other"):
            asked = survey(
                BIT, name=name, looks="twice", round="once", opens=today, closes=today, **GRACE
            )
            add(store, published(store, asked), 400, 0)
        release_all(store)
    assert main(["results", "one", "--against", "other", "--data", str(tmp_path)]) == 3
    assert "no round with enough reports to compare" in capsys.readouterr().err


def test_pages_show_the_first_look_until_the_round_is_final(here: World) -> None:
    asked = publish(here, "twice")
    add(here.store, asked, 1_000)
    release_all(here.store)
    (before,) = results(here, asked).rounds
    assert (before.covers, before.reports, before.state) == ("nothing", PEOPLE, "open")
    assert before.note == (
        "open, then collecting late reports; results are shown on 2027-01-02 and 2027-01-11"
    )
    here.clock.pass_(days=2, minutes=1)
    first = results(here, asked).rounds[0]
    add(here.store, asked, 3_000)
    second = results(here, asked).rounds[0]
    assert (second.state, second.covers, second.reports) == ("collecting", "first look", PEOPLE)
    for name in ("questions", "cross", "labels", "distributions", "fit", "vectors"):
        assert getattr(first, name) == getattr(second, name)
    assert second.questions["crashed"][0].reports == PEOPLE
    assert second.note == (
        "collecting late reports; these results are from 2027-01-02; final ones follow on "
        "2027-01-11"
    )
    here.clock.pass_(days=9)
    final = results(here, asked).rounds[0]
    assert (final.state, final.covers, final.note) == ("final", "all", None)
    assert final.questions["crashed"][0].reports == 2 * PEOPLE
    assert {round_.confidence for round_ in (first, final)} == {0.975}


def test_nothing_is_released_between_the_first_look_and_the_final_one(tmp_path: Path) -> None:
    """Neither more reports, nor a restart, nor another server's upkeep changes what is shown."""
    with world(tmp_path, FIRST - timedelta(hours=1), steps=True) as here:
        asked = here.publish(survey(BIT, looks="twice", step=5, **GRACE))

        def shown(first: int) -> int:
            for number in range(first, first + 20):
                here.send(envelope(asked, number))
                here.clock.pass_(seconds=2)
            return results(here, asked).rounds[0].reports

        assert 0 < shown(0) < shown(20)
        before = shown(40)
        here.clock.pass_(hours=1)
        assert shown(60) == before
        again = Upkeep(here.store, here.catalogue, here.clock)
        upload = Upload(asked, DECEMBER, bytes(16), 20, b"")
        for _ in range(3):
            again.note_committed([upload])
            again.do_what_is_due()
            here.clock.pass_(seconds=2)
        assert shown(80) == before
        here.clock.pass_(days=9)
        assert results(here, asked).rounds[0].reports == 100


def test_a_first_look_at_few_reports_stays_empty(here: World) -> None:
    asked = publish(here, "twice")
    here.clock.pass_(days=2, seconds=SETTLING.total_seconds())
    add(here.store, asked, 1_000)
    (shown, _) = results(here, asked).rounds
    assert (shown.covers, shown.reports) == ("first look", 0)
    assert shown.questions["crashed"][0].estimate is None
    assert "collecting late reports; these results are from 2027-01-02" in (shown.note or "")
    here.clock.pass_(days=9)
    assert results(here, asked).rounds[0].questions["crashed"][0].reports == PEOPLE


def test_rounds_are_unfinished_until_the_end_of_their_grace(tmp_path: Path) -> None:
    """With daily rounds and a grace of ten days, eleven rounds accept reports."""
    clock = Hands(datetime(2026, 12, 20, tzinfo=UTC))
    with world(tmp_path, clock.now()) as here:
        asked = publish(here, "twice", round="day")
        oldest = asked.survey.round_of(date(2026, 12, 10))
        for moment in (clock.now() + SETTLING, clock.now() + timedelta(hours=23)):
            assert asked.unfinished(moment) == range(oldest, asked.survey.last_round + 1)
        assert asked.unfinished(datetime(2020, 1, 1, tzinfo=UTC))[0] == asked.survey.first_round
        assert not asked.unfinished(datetime(2030, 1, 1, tzinfo=UTC))
        here.catalogue.close(asked)
        for catalogue in (here.catalogue, Catalogue(here.store, clock)):  # running, or restarted
            closed = catalogue.find(asked.id)
            assert closed.unfinished(clock.now()), "another node may not have noticed"
            assert not closed.unfinished(clock.now() + SETTLING)


def test_a_slow_clock_that_closes_a_survey_shows_no_counts_early(here: World) -> None:
    """For ten seconds after a reader sees the close, another node may still accept reports."""
    asked = publish(here, "any-time")
    add(here.store, asked, 1_000)
    now, other = here.clock.now(), published(here.store, survey(name="other"))
    for survey_, seconds in ((asked, -60), (other, 25)):  # the second drops the first's moment
        here.store.close_survey(survey_.sequence, now + timedelta(seconds=seconds))
        before = results(here, asked).rounds[0]
        here.catalogue.refresh()
        closed = here.catalogue.find(asked.id)
        for shown in (before, results(here, closed).rounds[0]):
            assert not any(row.reports for row in shown.questions["crashed"])
        assert closed.unfinished(now)
        assert not closed.unfinished(now + SETTLING)


def widths(document: Results) -> dict[str, float]:
    """Return the width of each kind of interval in the first round and the change after it."""
    before, after = document.rounds[:2]
    made = dict[str, float]()
    for name, (first, *_) in before.questions.items():
        low, high, low_these, high_these = ends(first)
        made |= {name: high - low, f"{name}, these": high_these - low_these}
    (cross,), (label, other) = before.cross or (), before.labels or ()
    assert other.effects
    effect, (rate, *_) = other.effects.questions["browser"][0], cross.rates[0].rows
    rows: dict[str, Row | Effect] = {
        "joint": before.questions["browser"][0],
        "cross": cross.rows[0],
        "label": label.questions["browser"][0],
        "effect": effect,
        "rate": rate,
    }
    for name, row in rows.items():
        assert row.low_all is not None
        assert row.high_all is not None
        made[name] = row.high_all - row.low_all
    assert after.change
    for name, (difference, *_) in after.change.questions.items():
        made[f"{name} change"] = difference.high - difference.low
        made[f"{name} change, these"] = difference.high_these - difference.low_these
    point = (before.distributions or {})["minutes"].points[2]
    return made | {"share": point.high - point.low, "below": point.below_high - point.below_low}


def test_each_interval_of_a_final_round_has_the_confidence_of_its_reading(here: World) -> None:
    """With two looks, each kind is wider than with one, by about the ratio of the quantiles."""
    made = {}
    here.clock.pass_(days=60)
    for looks in ("twice", "once"):
        asked = publish(here, looks, name=looks)
        for number, yes in ((DECEMBER, 1_000), (DECEMBER + 1, 1_200)):
            add(here.store, asked, yes, number)
        made[looks] = widths(results(here, asked))
    assert len(made["twice"]) == 19
    for kind, width in made["twice"].items():
        assert 1.02 < width / made["once"][kind] < 1.2, kind


# Closing


def ends(row: Row) -> tuple[float, float, float, float]:
    numbers = row.low, row.high, row.low_these, row.high_these
    low, high, low_these, high_these = (number for number in numbers if number is not None)
    return low, high, low_these, high_these


@pytest.mark.parametrize("looks", ["any-time", "twice"])
def test_closing_never_narrows_an_interval_that_was_readable(here: World, looks: str) -> None:
    asked = publish(here, looks)
    add(here.store, asked, 1_000)
    here.clock.pass_(days=2, minutes=1)
    release_all(here.store)
    before = results(here, asked).rounds[0]
    closed = here.catalogue.close(asked)
    after = results(here, closed).rounds[0]
    here.clock.pass_(days=300)
    later = results(here, closed).rounds[0]
    assert (before.state, after.state, later.state) == ("collecting", "final", "final")
    assert after.note == "closed before it was final, so its intervals hold for repeated looks"
    for name in before.questions:
        for old, *new in zip(*(r.questions[name] for r in (before, after, later)), strict=True):
            low, high, low_these, high_these = ends(old)
            for row in map(ends, new):
                assert row[0] <= low < high <= row[1]
                assert row[2] <= low_these < high_these <= row[3]
    assert later.questions == after.questions


def test_a_restarted_server_still_knows_when_a_survey_was_closed(here: World) -> None:
    asked = publish(here, "any-time")
    here.clock.pass_(days=2, seconds=SETTLING.total_seconds())
    here.catalogue.close(asked)
    day = here.clock.now().date()
    here.clock.pass_(days=5)
    here.store.close_survey(asked.sequence, here.clock.now())
    assert here.store.survey_states() == {asked.sequence: day}
    (row,) = here.store.surveys()
    assert row.closed == day


# Words


def test_a_state_has_the_same_word_everywhere(here: World) -> None:
    """In the list, on the page, in JSON and in CSV."""
    asked = publish(here, "any-time", closes=date(2026, 12, 31))
    add(here.store, asked, 1_000)
    client, analyst = here.client, here.bearer("analyst", days=400)
    for word in ("open", "collecting", "final"):
        document = client.get(f"/v1/surveys/{asked.id}/results", headers=analyst).json
        table = client.get(f"/v1/surveys/{asked.id}/results.csv", headers=analyst).text
        assert (document["state"], document["rounds"][0]["state"]) == (word, word)
        assert f",2026-12-31,{word}," in table
        assert client.get("/surveys.json", headers=analyst).json["surveys"][0]["state"] == word
        client.set_cookie(COOKIE, here.session(here.token("analyst")))
        for page in ("/", f"/surveys/{asked.id}"):
            assert f'<span class="state {word}">{word}</span>' in client.get(page).text
        here.clock.pass_(days=9)


def test_a_page_forecasts_the_final_margin_while_late_reports_arrive(here: World) -> None:
    more = {"looks": "any-time", "grace_days": 10, "minimum_reports": 100}
    asked = here.publish(survey(BIT, **more))
    cells = np.array([PEOPLE - 18_000, 18_000])
    with here.store.transaction() as transaction:
        transaction.add(asked.sequence, RoundTally(DECEMBER, PEOPLE, cells))
    release_all(here.store)
    here.clock.pass_(days=2, seconds=SETTLING.total_seconds())
    found = results(here, asked).rounds[0]
    assert found.warning is None
    assert found.forecasts
    made = found.forecasts["crashed"]
    low, high, *_ = ends(found.questions["crashed"][0])
    assert made.margin == pytest.approx((high - low) / 2)
    here.clock.pass_(days=9)
    final = results(here, asked).rounds[0]
    low, high, *_ = ends(final.questions["crashed"][0])
    assert not final.forecasts
    assert made.final_margin == pytest.approx((high - low) / 2)
    here.clock.pass_(days=-9)
    client = here.client
    client.set_cookie(COOKIE, here.session(here.token("analyst")))
    page = client.get(f"/surveys/{asked.id}?round={DECEMBER}").text
    now, then = (f"{100 * margin:.1f}" for margin in (made.margin, made.final_margin))
    assert f"Collecting late reports until 11 January: ± {now} points now, ± {then} then." in page


def test_a_document_states_its_looks_only_if_they_are_not_the_default(here: World) -> None:
    documents = [json.loads(publish(here, looks).document)["survey"] for looks in LOOKS]
    assert [document.get("looks") for document in documents] == [None, "twice", "once"]


@pytest.mark.parametrize(
    ("looks", "words"),
    [
        (
            "any-time",
            "at any time, in steps of 20 or more reports; intervals are twice as wide until",
        ),
        ("twice", "on 2027-01-02 and 2027-01-11, both 14 % wider than for one look"),
        ("once", "on 2027-01-11"),
    ],
)
def test_an_author_learns_when_results_will_be_shown(looks: str, words: str) -> None:
    asked = survey(BIT, looks=looks, grace_days=10)
    assert any(f"results of the first round are shown {words}" in line for line in describe(asked))
    assert facts(asked)["looks"] == looks


def test_only_intervals_for_every_look_allow_an_experiment_to_stop_early(here: World) -> None:
    arms = texts.label("platform", arms=["control", "new"])
    asked = here.publish(survey(BIT + arms, grace_days=10))
    add(here.store, asked, 1_000)
    for wait, is_safe in ((2, True), (20, False)):
        here.clock.pass_(days=wait)
        client = here.client
        client.set_cookie(COOKIE, here.session(here.token("analyst")))
        page = client.get(f"/surveys/{asked.id}?round={DECEMBER}").text
        assert "Devices drew these arms at random" in page
        assert ("so stopping early is safe" in page) == is_safe
