"""Run of the demo: publish surveys, send answers, read results over HTTP, and report."""

from __future__ import annotations

import sys
import time
import webbrowser
from argparse import Namespace
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import msgspec
import requests

from deniable.server.parallel import progress
from deniable.server.results import Results
from deniable.server.results.annotations import ReferenceValue, reference_values_text
from deniable.server.results.document import Row
from deniable.server.store import Annotation, open_store
from deniable.server.store.records import SETTLING
from deniable.server.surveys.catalogue import Catalogue
from deniable.shared.cli.verb import show
from deniable.shared.errors import Refused
from deniable.simulations.demo import crowd, server_process
from deniable.simulations.demo.crowd import Day, Person, Truths
from deniable.simulations.demo.demo_report import draw_picture, report_lines
from deniable.simulations.demo.server_process import Published, Publisher, RunningServer

DEVICES = 200
FEEDBACK_PEOPLE = 500  # who answered the closed survey


class Surveys(NamedTuple):
    """Surveys of the demo: one that everyone answers, and one with a round per day."""

    health: Published
    crashes: Published


def run(arguments: Namespace) -> int:
    """Run the demo; a signal that ends it early raises KeyboardInterrupt."""
    started = time.monotonic()
    with (
        server_process.interrupted_by_signals(),
        TemporaryDirectory(prefix="deniable-demo-") as folder,
    ):
        data, known = Path(folder) / "server", Path(folder) / "truth.csv"
        known.write_text(reference_values_text([]), "utf-8")
        with server_process.running_server(data, arguments.port, "--known", str(known)) as server:
            surveys = _publish(server, data)
            people = crowd.make_crowd(arguments.people, arguments.seed)
            days = _play(surveys, people, arguments.seed, Path(folder))
            seconds = round(time.monotonic() - started, 2)
            _close(surveys, data)
            _wait_for_complete_counts(server, surveys.health, arguments.people)
            truths = crowd.truths(people)
            known.write_text(reference_values_text(_truths(surveys, truths, days)), "utf-8")
            answer: dict[str, Any] = {  # Any: a JSON document
                "url": server.page,
                "people": arguments.people,
                "seconds": seconds,
                "questions": _compare(_results(server, surveys.health), truths),
                "story": _story(_results(server, surveys.crashes), days),
            }
            if arguments.picture is not None:
                arguments.picture.write_text(draw_picture(answer["story"]), "utf-8")
            show(arguments, answer, report_lines(answer, surveys.health.survey, DEVICES))
            sys.stdout.flush()
            if not arguments.exit:
                _stay_open(server, arguments.open)
    return 0


def _publish(server: RunningServer, data: Path) -> Surveys:
    """Publish four surveys; one is not open yet, and one is closed by hand."""
    today = datetime.now(UTC).date()
    begin = today - timedelta(days=len(crowd.CRASHED_BY_DAY))

    with open_store(data) as store:
        publisher = Publisher(server, store)

        def publish(name: str, first: int, last: int) -> Published:
            return publisher.publish(name, today + timedelta(first), today + timedelta(last))

        publish("next-release", 7, 35)
        feedback = publish("beta-feedback", -3, 28)
        survey = feedback.survey
        reports = [
            crowd.encoded(survey, [{"keep": person % 3 > 0}]) for person in range(FEEDBACK_PEOPLE)
        ]
        crowd.send(feedback, survey.first_round, reports)
        publisher.catalogue.close(publisher.catalogue.find(feedback.id))
        crashes = publisher.publish("daily-crashes", begin, today)
        sequence = publisher.catalogue.find(crashes.id).sequence
        for number, words in crowd.ANNOTATIONS.items():
            store.annotate(sequence, Annotation(begin + timedelta(number), words))
        return Surveys(crashes=crashes, health=publish("app-health", -1, 28))


def _close(surveys: Surveys, data: Path) -> None:
    """Close the surveys that everyone has answered, the longer one first.

    Until a survey is closed, results lack the last step.
    """
    with open_store(data) as store:
        catalogue = Catalogue(store)
        for published in reversed(surveys):
            catalogue.close(catalogue.find(published.id))


def _play(surveys: Surveys, people: Sequence[Person], seed: int, folder: Path) -> list[Day]:
    each_day = crowd.people_a_day(len(people))
    total = len(people) + len(crowd.CRASHED_BY_DAY) * each_day
    with progress("demo", total, "people") as finished:
        answered = 0

        def done(more: int) -> None:
            nonlocal answered
            answered += more
            finished(answered)

        crowd.play_backend(surveys.health, people[DEVICES:], done)
        crowd.play_devices(surveys.health, people[:DEVICES], folder / "devices", done)
        return list(crowd.play_story(surveys.crashes, each_day, seed, done))


def _truths(surveys: Surveys, health: Truths, days: Sequence[Day]) -> Iterator[ReferenceValue]:
    """Yield the true values, which are in no store: the dashboard reads them from a file."""
    rounds = [(surveys.health, surveys.health.survey.first_round, health)]
    rounds += [(surveys.crashes, day.round, day.truths) for day in days]
    for published, number, true in rounds:
        for question, values in true.items():
            for label, value in values.items():
                yield ReferenceValue(published.id, number, question, label, value)


def _wait_for_complete_counts(server: RunningServer, published: Published, people: int) -> None:
    """Wait until a closed survey can receive no more reports, some seconds after its end."""
    end = time.monotonic() + 2 * SETTLING.total_seconds()
    while sum(round_.reports for round_ in _results(server, published).rounds) < people:
        if time.monotonic() > end:
            raise Refused(f"the server did not show the reports of {people:,} people")
        time.sleep(0.2)


def _results(server: RunningServer, published: Published) -> Results:
    url = f"{server.dashboard}/v1/surveys/{published.id}/results"
    headers = {"Authorization": f"Bearer {server.token}"}
    response = requests.get(url, headers=headers, timeout=30)
    if response.status_code != 200:
        raise Refused(f"the server answered {response.status_code}: {response.text}")
    return msgspec.json.decode(response.content, type=Results)


def _compare(results: Results, true: Truths) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of the last round, each with its true value."""
    questions = results.rounds[-1].questions
    return {
        name: [_with_truth(row, true[name][row.label]) for row in rows]
        for name, rows in questions.items()
    }


def _story(results: Results, days: Sequence[Day]) -> list[dict[str, Any]]:
    """Return each day's crashes, also by version, and whether forged reports were detected."""
    rounds = {result.round: result for result in results.rounds}
    return [
        {
            "day": day.first_day.isoformat(),
            **_with_truth(rounds[day.round].questions["crashed"][0], day.truths["crashed"]["yes"]),
            "forged": day.forged,
            "warning": rounds[day.round].warning,
            "versions": [
                {"version": part.value}
                | _with_truth(part.questions["crashed"][0], day.by_version[part.value])
                for part in rounds[day.round].labels or ()
                if part.value in day.by_version
            ],
        }
        for day in days
    ]


def _with_truth(row: Row, truth: float) -> dict[str, Any]:
    keys = ("estimate", "low", "high", "standard_error", "reports")
    return {"label": row.label, "truth": truth} | {key: getattr(row, key) for key in keys}


def _stay_open(server: RunningServer, browse: bool) -> None:
    print(
        f"\nThe dashboard is open at {server.page}\nPress Ctrl-C to end the demo.", file=sys.stderr
    )
    if browse:
        webbrowser.open(server.page)
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        print("\nEnded. The server is stopped and its folder is deleted.", file=sys.stderr)
