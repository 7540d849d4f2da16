"""The demo itself: publish, play, read the results back over HTTP, and show them."""

from __future__ import annotations

import json
import sys
import time
import webbrowser
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from deniable.server.parallel import progress
from deniable.server.results.annotations import ReferenceValue, reference_values_text
from deniable.shared.errors import Refused
from deniable.simulations.demo.crowd import (
    CRASHED_BY_DAY,
    HAPPENED,
    Day,
    Person,
    Truths,
    encoded,
    first_day,
    make_crowd,
    people_a_day,
    play_devices,
    play_story,
    play_together,
    send,
    truths,
)
from deniable.simulations.demo.demo_report import draw_picture, print_report
from deniable.simulations.demo.server_process import (
    Published,
    Publisher,
    RunningServer,
    interrupted_by_signals,
    running_server,
)

if TYPE_CHECKING:
    from deniable.server.results import Results, Row

DEVICES = 200
FEEDBACK = 500  # people who answered the survey that is closed


@dataclass(frozen=True)
class Wishes:
    people: int
    stop: bool  # when it is done, instead of keeping the dashboard open
    as_json: bool
    seed: int
    port: int
    browse: bool  # open the dashboard in the browser
    picture: Path | None  # of the story


@dataclass(frozen=True)
class Surveys:
    """Those of the demo: one is answered by everybody, one tells a story day by day."""

    health: Published
    crashes: Published


def run(wishes: Wishes) -> int:
    """Exit code 0; KeyboardInterrupt where a signal ended it while it was still playing."""
    begun = time.monotonic()
    with interrupted_by_signals(), TemporaryDirectory(prefix="deniable-demo-") as folder:
        data, known = Path(folder) / "server", Path(folder) / "truth.csv"
        known.write_text(reference_values_text([]), "utf-8")
        with running_server(data, wishes.port, "--known", str(known)) as server:
            surveys = _publish(Publisher(server, data))
            crowd = make_crowd(wishes.people, wishes.seed)
            days = _play(surveys, crowd, wishes.seed, Path(folder) / "devices")
            known.write_text(reference_values_text(_truths(surveys, truths(crowd), days)), "utf-8")
            answer: dict[str, Any] = {  # Any: a JSON document
                "url": server.page,
                "people": wishes.people,
                "seconds": round(time.monotonic() - begun, 2),
                "questions": _compare(_results(server, surveys.health), truths(crowd)),
                "story": _told(_results(server, surveys.crashes), days),
            }
            if wishes.picture is not None:
                wishes.picture.write_text(draw_picture(answer["story"]), "utf-8")
            if wishes.as_json:
                print(json.dumps(answer), flush=True)
            else:
                print_report(answer, surveys.health.survey, DEVICES)
            if not wishes.stop:
                _stay_open(server, wishes.browse)
    return 0


def _publish(press: Publisher) -> Surveys:
    """Also one that waits for its first day, and one that was closed by hand."""
    today = datetime.now(UTC).date()

    def days(number: int) -> timedelta:
        return timedelta(days=number)

    press.publish("next-release", today + days(7), today + days(35))
    feedback = press.publish("beta-feedback", today - days(3), today + days(28))
    survey = feedback.survey
    reports = [encoded(survey, {"keep": person % 3 > 0}) for person in range(FEEDBACK)]
    send(feedback, survey.first_round, reports)
    press.close(feedback)
    crashes = press.publish("daily-crashes", first_day(today), today)
    for number, words in HAPPENED.items():
        press.annotate(crashes, first_day(today) + days(number), words)
    return Surveys(
        crashes=crashes,
        health=press.publish("app-health", today - days(1), today + days(28)),
    )


def _play(surveys: Surveys, crowd: Sequence[Person], seed: int, folder: Path) -> list[Day]:
    devices, together, each_day = crowd[:DEVICES], crowd[DEVICES:], people_a_day(len(crowd))
    with progress("demo", len(crowd) + len(CRASHED_BY_DAY) * each_day, "people") as finished:
        answered = 0

        def done(more: int) -> None:
            nonlocal answered
            answered += more
            finished(answered)

        play_together(surveys.health, together, done)
        play_devices(surveys.health, devices, folder, done)
        return list(play_story(surveys.crashes, each_day, seed, done))


def _truths(surveys: Surveys, health: Truths, days: Sequence[Day]) -> Iterator[ReferenceValue]:
    """What only the demo knows, for the dots beside the estimates: in a file, and in no store."""
    rounds = [(surveys.health, surveys.health.survey.first_round, health)]
    rounds += [(surveys.crashes, day.round, day.truths) for day in days]
    for published, number, true in rounds:
        for question, values in true.items():
            for label, value in values.items():
                yield ReferenceValue(published.id, number, question, label, value)


def _results(server: RunningServer, published: Published) -> Results:
    import msgspec

    from deniable.server.results import Results

    answer = _get(f"{server.url}/v1/surveys/{published.id}/results", server.token)
    return msgspec.json.decode(answer, type=Results)


def _compare(results: Results, true: Truths) -> dict[str, list[dict[str, Any]]]:
    """The last round's rows, each with the truth that only the demo knows."""
    questions = results.rounds[-1].questions
    return {
        name: [_beside(row, true[name][row.label]) for row in rows]
        for name, rows in questions.items()
    }


def _told(results: Results, days: Sequence[Day]) -> list[dict[str, Any]]:
    """The crashes of each day, and what the server says of its reports."""
    rounds = {each.round: each for each in results.rounds}
    return [
        {
            "day": day.first_day.isoformat(),
            **_beside(rounds[day.round].questions["crashed"][0], day.truths["crashed"]["yes"]),
            "forged": day.forged,
            "warning": rounds[day.round].warning,
        }
        for day in days
    ]


def _beside(row: Row, truth: float) -> dict[str, Any]:
    return {
        "label": row.label,
        "truth": truth,
        "estimate": row.estimate,
        "low": row.low,
        "high": row.high,
        "standard_error": row.standard_error,
        "reports": row.reports,
    }


def _stay_open(server: RunningServer, browse: bool) -> None:
    print(f"\nThe dashboard is open at {server.page}\nPress Ctrl-C to end it.", file=sys.stderr)
    if browse:
        webbrowser.open(server.page)
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        print("\nEnded; the server and its folder are gone.", file=sys.stderr)


def _get(url: str, token: str) -> bytes:
    import requests

    answer = requests.get(url, headers={"Authorization": f"Bearer {token}"}, timeout=30)
    if answer.status_code != 200:
        raise Refused(f"the server answered {answer.status_code}: {answer.text}")
    return answer.content
