"""Forged reports: a round with forgeries is marked everywhere; an honest round never is."""

from __future__ import annotations

import csv
import io
import logging
import threading

import numpy as np
import pytest

from deniable.server.alerts import monitor
from deniable.server.alerts.monitor import Monitor
from deniable.server.http.context import COOKIE, parts_of
from deniable.server.results import Results, csv_chunks, survey_results
from deniable.server.results.export import report_lines
from deniable.server.store import PublishedSurvey, RoundTally
from deniable.shared.errors import StoreUnusable
from tests.eventually import eventually
from tests.server.released import release_all
from tests.server.results_data import FIRST_ROUND, NOW, add_round, draw_cells, fill
from tests.server.surveys import choice, until_spring
from tests.server.world import World

pytestmark = pytest.mark.at(NOW)

PEOPLE, FORGED = 80_000, 20_000
SAID = "cannot be honest"
LANGUAGES = choice(["de", "en", "fr", "it", "es"], "unary", name="languages", epsilon="2")


def forge(here: World, name: str = "app-health") -> PublishedSurvey:
    """Store an honest round, and a round in which a fifth of the reports name every language."""
    published = here.publish(until_spring(LANGUAGES, name=name))
    (question,) = published.survey.questions
    held = [PEOPLE // 2, PEOPLE // 2, 0, 0, 0]
    add_round(here.store, published, FIRST_ROUND, [held])
    cells = draw_cells(question, held, np.random.default_rng(3)) + FORGED
    with here.store.transaction() as transaction:
        transaction.add(published.sequence, RoundTally(FIRST_ROUND + 1, PEOPLE + FORGED, cells))
    release_all(here.store)
    return published


def results_of(here: World, published: PublishedSurvey) -> Results:
    return survey_results(published, here.store.tallies(published.sequence), NOW)


def test_the_document_states_a_lower_bound_on_forgeries_and_their_leverage(here: World) -> None:
    honest, forged, *_ = results_of(here, forge(here)).rounds
    assert (honest.warning, honest.fit["languages"].forged) == (None, 0)
    assert honest.fit["languages"].p_value == 1
    found = forged.fit["languages"]
    assert found.p_value <= 1e-6
    assert 0.9 * FORGED < found.forged <= FORGED
    leverage = results_of(here, forge(here)).about["languages"].leverage
    assert found.shift == pytest.approx(found.forged / (PEOPLE + FORGED) * leverage)
    assert forged.warning is not None
    assert f"at least {found.forged:,} of 100,000 reports {SAID}" in forged.warning
    assert f"by up to {100 * found.shift:.3g} points" in forged.warning


def test_the_shift_is_at_most_the_stated_leverage(here: World) -> None:
    honest, forged, *_ = results_of(here, forge(here)).rounds
    most = forged.fit["languages"].shift * FORGED / forged.fit["languages"].forged
    for one, other in zip(
        honest.questions["languages"], forged.questions["languages"], strict=True
    ):
        assert one.estimate is not None
        assert other.estimate is not None
        assert abs(other.estimate - one.estimate) <= most + 0.02


def test_table_command_and_page_warn_before_the_figures(here: World) -> None:
    published = forge(here)
    results = results_of(here, published)
    rows = list(csv.DictReader(io.StringIO("".join(csv_chunks(results, results.rounds)))))
    assert {row["round"] for row in rows if SAID in row["note"]} == {str(FIRST_ROUND + 1)}
    text = "\n".join(report_lines(results))
    _, honest, forged, *_ = text.split("\nRound ")
    assert "WARNING" not in honest
    assert forged.index("WARNING: this round contains forged reports") < forged.index("estimate")
    client = here.client
    client.set_cookie(COOKIE, here.session(here.token("analyst")))
    page = client.get(f"/surveys/{published.id}?round={FIRST_ROUND + 1}").text
    assert page.index(SAID) < page.index("<table>")
    assert SAID not in client.get(f"/surveys/{published.id}?round={FIRST_ROUND}").text


def test_one_check_logs_all_its_rounds_in_one_record(
    here: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Within a minute, the log drops further records from the same line of code."""
    first, second = forge(here), forge(here, name="next")
    with caplog.at_level(logging.WARNING, "deniable.server"):
        Monitor(parts_of(here.app)).check()
    (said,) = caplog.messages
    assert f"survey {first.name}, round" in said
    assert f"survey {second.name}, round" in said


def gauge(here: World, published: PublishedSurvey, state: str) -> str | None:
    labels = f'id="{published.id[:12]}",state="{state}",survey="{published.name}"'
    start = f"deniable_forged_rounds{{{labels}}} "
    found = [
        line for line in here.client.get("/metrics").text.splitlines() if line.startswith(start)
    ]
    return found[0].removeprefix(start) if found else None


def test_metrics_count_forged_rounds_and_the_log_names_each_once_a_day(
    here: World, caplog: pytest.LogCaptureFixture
) -> None:
    published, honest = forge(here), fill(here)
    watch = Monitor(parts_of(here.app))
    with caplog.at_level(logging.WARNING, "deniable.server"):
        watch.check()
        watch.check()
        assert [SAID in line for line in caplog.messages] == [True]
        assert f"survey app-health, round {FIRST_ROUND + 1}: " in caplog.text
        here.clock.pass_(days=1)
        watch.check()
        assert len(caplog.messages) == 2
    assert gauge(here, published, "collecting") == "1.0"
    assert gauge(here, published, "final") == "0.0"
    assert gauge(here, honest, "collecting") == "0.0"
    here.clock.pass_(days=60)
    watch.check()
    assert (gauge(here, published, "collecting"), gauge(here, published, "final")) == ("0.0", "1.0")


def test_reports_that_arrive_later_are_checked_too(here: World) -> None:
    published = forge(here)
    watch = Monitor(parts_of(here.app))
    watch.check()
    with here.store.transaction() as transaction:
        transaction.add(published.sequence, RoundTally(FIRST_ROUND, FORGED, np.full(5, FORGED)))
    watch.check()
    assert gauge(here, published, "collecting") == "1.0"
    assert gauge(here, published, "final") == "1.0"


def end_all_rounds(here: World, published: PublishedSurvey) -> None:
    here.store.seal(published.sequence, here.store.unsealed_rounds()[published.sequence])


def test_metrics_no_longer_name_a_survey_whose_rounds_are_all_sealed(here: World) -> None:
    published, other = forge(here), forge(here, name="next")
    watch = Monitor(parts_of(here.app))
    watch.check()
    assert gauge(here, published, "collecting") == "1.0"
    end_all_rounds(here, published)
    here.clock.pass_(seconds=1)
    watch.check()
    assert (gauge(here, published, "collecting"), gauge(here, published, "final")) == (None, None)
    assert gauge(here, other, "collecting") == "1.0"
    assert {survey for survey, _ in watch._logged} == {other.id}


@pytest.mark.parametrize("error", [StoreUnusable("the store is damaged"), ValueError("5ca1ab1e")])
def test_a_failed_check_stops_neither_other_nor_later_checks(
    here: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """A check may fail for any reason, for one survey or before it reads the first."""
    monkeypatch.setattr(monitor, "CHECK_INTERVAL_SECONDS", 0.01)
    monkeypatch.setattr("threading.excepthook", lambda _: None)
    ours, theirs = here.publish(until_spring(LANGUAGES)), forge(here, name="next")
    add_round(here.store, ours, FIRST_ROUND, [[PEOPLE // 2, PEOPLE // 2, 0, 0, 0]])
    whole, broken, ended = here.store.tallies, set[object](), list[SystemExit]()

    def tallies(sequence: int, *window: int) -> list[RoundTally]:
        if sequence in broken:
            raise error
        return whole(sequence, *window)

    def rounds() -> dict[int, list[int]]:
        for failure in (*ended, *(error for known in broken if known is None)):
            raise failure
        return {published.sequence: [FIRST_ROUND, FIRST_ROUND + 1] for published in (ours, theirs)}

    monkeypatch.setattr(here.store, "tallies", tallies)
    monkeypatch.setattr(here.store, "unsealed_rounds", rounds)
    broken.add(ours.sequence)
    Monitor(parts_of(here.app)).start()
    eventually(lambda: fresh(here, theirs) == "1.0", "the other survey is looked at")
    assert fresh(here, ours) is None
    broken.add(None)
    caplog.clear()
    eventually(lambda: caplog.messages, "the failure is logged")
    broken.clear()
    eventually(lambda: fresh(here, ours) == "0.0", "later looks still work")
    ended.append(SystemExit())
    eventually(lambda: "monitor" not in {thread.name for thread in threading.enumerate()}, "ended")


def fresh(here: World, published: PublishedSurvey) -> str | None:
    here.clock.pass_(seconds=1)
    return gauge(here, published, "collecting")
