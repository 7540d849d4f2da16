"""The demo itself: publish, play, read the results back over HTTP, and show them."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from deniable.server.surveys.authored import parse_authored
from deniable.server.work.progress import progress
from deniable.shared.errors import Refused
from deniable.shared.privacy.promises import round_promise
from deniable.shared.survey.document import Survey, render_document
from deniable.shared.survey.signing import public_hex, sign
from deniable.simulations.demo.crowd import Person, make_crowd, truths
from deniable.simulations.demo.play import Published, play_devices, play_together
from deniable.simulations.demo.running import Running, running_server

if TYPE_CHECKING:
    from deniable.server.results import Row

    Questions = Mapping[str, tuple[Row, ...]]

DEVICES = 200
SERVED_CHECKS = 200


@dataclass(frozen=True)
class Wishes:
    people: int
    stop: bool  # when it is done, instead of keeping the dashboard open
    as_json: bool
    seed: int
    port: int


def run(wishes: Wishes) -> int:
    """Exit code 0, or 130 where it was interrupted while still playing."""
    begun = time.monotonic()
    with TemporaryDirectory(prefix="deniable-demo-") as folder:
        data = Path(folder) / "server"
        with running_server(data, wishes.port) as server:
            crowd = make_crowd(wishes.people, wishes.seed)
            published = _publish(server, data)
            _play(published, crowd, Path(folder) / "devices")
            questions = _compare(_results(server, published), truths(crowd))
            seconds = time.monotonic() - begun
            _show(wishes, server, published.survey, questions, seconds)
            if not wishes.stop:
                _stay_open(server)
    return 0


def _publish(server: Running, data: Path) -> Published:
    """Into the running server's folder, as `deniable survey publish --data` does it; the server
    notices. The signing key is forgotten at once: this survey is the only one."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from deniable.server.http.auth import new_token
    from deniable.server.store import open_store
    from deniable.server.surveys.catalogue import Catalogue

    key, token, now = Ed25519PrivateKey.generate(), new_token(), datetime.now(UTC)
    survey = _survey(now.date())
    document = render_document(survey)
    with open_store(data) as store:
        store.add_token(token, "app", now, now + timedelta(days=1))
        store.enrol_key(public_hex(key))
        published = Catalogue(store).publish(document, sign(document, key), public_hex(key))
    _wait_until_served(server, published.id)
    return Published(server.url, published.id, survey, public_hex(key), token)


def _survey(today: date) -> Survey:
    text = files("deniable.simulations.demo").joinpath("survey.toml").read_text("utf-8")
    text = text.replace("opens = 2000-01-01", f"opens = {today - timedelta(days=1)}")
    text = text.replace("closes = 2000-01-01", f"closes = {today + timedelta(days=28)}")
    return parse_authored(text)


def _wait_until_served(server: Running, survey: str) -> None:
    """A server looks for new surveys every quarter of a second."""
    import requests

    for _ in range(SERVED_CHECKS):
        if requests.get(f"{server.url}/v1/surveys/{survey}", timeout=30).status_code == 200:
            return
        time.sleep(0.05)
    raise Refused("the server does not serve the survey that was just published")


def _play(published: Published, crowd: Sequence[Person], folder: Path) -> None:
    devices, together = crowd[:DEVICES], crowd[DEVICES:]
    with progress("demo", len(crowd), "people") as finished:
        answered = 0

        def done(more: int) -> None:
            nonlocal answered
            answered += more
            finished(answered)

        play_together(published, together, done)
        play_devices(published, devices, folder, done)


def _results(server: Running, published: Published) -> Questions:
    import msgspec

    from deniable.server.results import Results

    answer = _get(f"{server.url}/v1/surveys/{published.id}/results", server.token)
    return msgspec.json.decode(answer, type=Results).rounds[-1].questions


def _compare(
    questions: Questions, true: dict[str, dict[str, float]]
) -> dict[str, list[dict[str, Any]]]:
    """The server's rows, each with the truth that only the demo knows."""
    return {
        name: [
            {
                "label": row.label,
                "truth": true[name][row.label],
                "estimate": row.estimate,
                "low": row.low,
                "high": row.high,
                "standard_error": row.standard_error,
                "reports": row.reports,
            }
            for row in rows
        ]
        for name, rows in questions.items()
    }


def _show(
    wishes: Wishes,
    server: Running,
    survey: Survey,
    questions: dict[str, list[dict[str, Any]]],
    seconds: float,
) -> None:
    if wishes.as_json:
        answer = {
            "url": server.page,
            "people": wishes.people,
            "seconds": round(seconds, 2),
            "questions": questions,
        }
        print(json.dumps(answer), flush=True)
        return
    print(f"\n{wishes.people:,} people answered in {seconds:.1f} s; nobody's answer was kept.\n")
    print(f"{'question':<10}{'':<10}{'truth':>9}{'estimate':>10}   95 % interval")
    for name, rows in questions.items():
        shown = _as_minutes if name == "minutes" else _as_share
        for row in rows:
            print(f"{name:<10}{row['label']:<10}{_line(row, shown)}")
            name = ""  # noqa: PLW2901  # a question's name stands at its first row
    print(f"\nWhat a report gives away: {round_promise(survey.round_billionths)}.")
    print("Confidence intervals are about the people who reported; one in twenty misses the truth.")


def _line(row: dict[str, Any], shown: Any) -> str:  # a formatter of a number
    if row["estimate"] is None:
        return f"{shown(row['truth']):>9}   too few reports for an estimate"
    inside = "" if row["low"] <= row["truth"] <= row["high"] else "   (missed)"
    interval = f"{shown(row['low'])} to {shown(row['high'])}"
    return f"{shown(row['truth']):>9}{shown(row['estimate']):>10}   {interval}{inside}"


def _as_share(value: float) -> str:
    return f"{100 * value:.1f} %"


def _as_minutes(value: float) -> str:
    return f"{value:.1f}"


def _stay_open(server: Running) -> None:
    print(f"\nThe dashboard is open at {server.page}\nPress Ctrl-C to end it.", file=sys.stderr)
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
