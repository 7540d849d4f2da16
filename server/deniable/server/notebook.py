"""Asking from a notebook: one call publishes a survey, serves it, and returns its link and results.

with deniable.server.ask("Would you recommend working here?") as asked:
    print(asked.link)
    asked.simulate(200)  # instead of real answers: this closes the survey
    print(asked.results.estimate("answer"))
"""

from __future__ import annotations

import json
import random
import secrets
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from deniable.server.analysis import SurveyResults, open_results
from deniable.server.http.messages import INVITATION_HEADER
from deniable.server.http.tokens import invitation_hash, new_invitation
from deniable.server.process.addresses import running_server
from deniable.server.store import Annotation, PublishedSurvey, open_store
from deniable.server.store.records import SETTLING
from deniable.server.surveys.catalogue import Catalogue
from deniable.server.surveys.link_surveys import USUAL_PEOPLE, Draft, LinkQuestion
from deniable.shared.envelope import CONTENT_TYPE, Envelope, encode_report
from deniable.shared.errors import Refused, StoreUnusable, WrongUse, quantity
from deniable.shared.privacy.mechanism import kernel_draw
from deniable.shared.survey.kinds.base import Question
from deniable.shared.survey.kinds.number import Number

__all__ = ["AskedSurvey", "ask"]

COMMAND = (
    sys.executable,
    "-c",
    "from deniable.shared.cli.command import main; raise SystemExit(main())",
)
STOP_SECONDS = 10.0
SHOWN_SECONDS, POLL_SECONDS = 5.0, 0.1
MAX_SIMULATED = 100_000
SENDERS = 8  # connections of a simulated crowd: one commit stores the reports of all
REAL_ANSWERS = (
    "people have answered this survey, and a simulated crowd would be counted with them; simulate "
    "in another survey"
)
SIGN_IN = " (sign in there with the value of `token`)"
CLOSED = "this survey is closed; simulate in another survey"

Answers = Mapping[str, object]
Person = Callable[[random.Random], Answers]  # draws one person's true answers


def ask(
    question: str | Path,
    options: Sequence[str] = (),
    *,
    epsilon: str = "1",
    title: str = "",
    owner: str = "",
    people: int = USUAL_PEOPLE,
    folder: str | Path | None = None,
    url: str | None = None,
    port: int = 0,
) -> AskedSurvey:
    """Publish a survey with one question, serve it, and return its link and its results.

    `question` is answered with yes or no, or with one of the `options`. It may also be the path of
    a survey file. `people` is about how many will answer: with fewer people, results change in
    smaller steps. `folder` keeps the data; without it, the data is deleted when the survey is
    closed. `url` is the public address of a proxy or a tunnel that forwards to the `port`.
    """
    home = None if folder is not None else tempfile.TemporaryDirectory(prefix="deniable-")
    place = Path(home.name if home else folder or "").resolve()
    place.mkdir(parents=True, exist_ok=True)
    file = question if isinstance(question, Path) else place / "asked.toml"
    if not isinstance(question, Path):
        asked = LinkQuestion(question, "choice" if options else "bit", options)
        draft = Draft(title or question, [asked], epsilon=epsilon, people=people)
        draft = replace(draft, owner=owner) if owner else draft
        file.write_text(draft.toml(datetime.now(UTC).date(), str(file)), "utf-8")
    data = place / "data"
    more = ["--url", url] if url else []
    ports = ["--port", str(port), "--dashboard-port", "0"]
    command = [*COMMAND, "ask", str(file), "--data", str(data), *ports, *more, "--json"]
    # In its own session: an interrupt in the notebook does not stop the server.
    server = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert server.stdout is not None
    line = server.stdout.readline()
    if not line:
        server.wait()
        raise WrongUse("the survey was not published; see the message above")
    return AskedSurvey(data, json.loads(line), server, home)


class AskedSurvey:
    """Survey that this process serves, until `close` or the end of a `with` block."""

    def __init__(
        self,
        data: Path,
        shown: Mapping[str, str],
        server: subprocess.Popen[str],
        home: tempfile.TemporaryDirectory[str] | None = None,
    ) -> None:
        self.link, self.results_url = shown["link"], shown["results"].partition("?")[0]
        self.token = shown["token"]  # signs in at `results_url`; no output shows it
        self.name, self.id = shown["name"], shown["id"]
        self._data, self._simulated = data, 0
        self._close = weakref.finalize(self, _stop, server, home)

    @property
    def results(self) -> SurveyResults:
        """Results as the page shows them now; until the survey closes, they grow in steps."""
        return open_results(self._data, self.id)

    @property
    def qr_code(self) -> str:
        """QR code of the link, as SVG."""
        import segno

        return str(segno.make_qr(self.link, error="m").svg_inline(scale=4))

    def invite(self, count: int) -> list[str]:
        """Return new single-use links to a survey by invitation."""
        codes = [new_invitation() for _ in range(count)]
        with open_store(self._data) as store:
            published = Catalogue(store).find(self.id)
            store.invite(published.sequence, [invitation_hash(code) for code in codes])
        return [f"{self.link}#{code}" for code in codes]

    def simulate(self, people: int, answers: Person | None = None, seed: int | None = None) -> int:
        """Send the reports of a simulated crowd, and close the survey; return how many count.

        Each report is randomized like that of a device. `answers` draws the true answers of a
        person; without it, all answers are equally likely. Simulated and real answers never share a
        survey: one with real answers is refused, and the link of a closed one accepts none. The
        results of all reports are shown about 10 seconds after the end; an event marks them as
        simulated.
        """
        if not 1 <= people <= MAX_SIMULATED:
            raise WrongUse(f"simulate 1 to {MAX_SIMULATED:,} people, not {people}")
        with open_store(self._data) as store:
            published = Catalogue(store).find(self.id)
            if published.closed:
                raise Refused(CLOSED)
            if store.report_totals().get(published.sequence, 0):
                raise Refused(REAL_ANSWERS)
        by_invitation = published.survey.by_invitation
        codes = [link.partition("#")[2] for link in self.invite(people)] if by_invitation else []
        rng = random.Random(seed)  # noqa: S311 - draws answers, not noise
        drawn = [(answers or _evenly(published))(rng) for _ in range(people)]
        reports = [_report(published, person, rng) for person in drawn]
        self._simulated = self._send(reports, codes)
        with open_store(self._data) as store:
            words = f"{quantity(self._simulated, 'simulated report')}; no person answered"
            store.annotate(published.sequence, Annotation(datetime.now(UTC).date(), words))
            Catalogue(store).close(published)
        time.sleep(SETTLING.total_seconds())  # until then, the results of a closed survey may grow
        end = time.monotonic() + SHOWN_SECONDS
        while self._shown() < self._simulated and time.monotonic() < end:
            time.sleep(POLL_SECONDS)
        return self._simulated

    def _shown(self) -> int:
        return sum(shown.reports for shown in self.results.document.rounds)

    def close(self) -> None:
        """Stop the server."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{self._state}\nResults: {self.results_url}{SIGN_IN}"

    def _repr_html_(self) -> str:
        link, results = (f'<a href="{url}">{url}</a>' for url in (self.link, self.results_url))
        state = self._state.replace(self.link, link)
        code = "" if self._simulated else self.qr_code
        return f"<p>{state}</p>{code}<p>Results: {results}{SIGN_IN}</p>"

    @property
    def _state(self) -> str:
        if self._simulated:
            return f"Closed, with {quantity(self._simulated, 'simulated report')}"
        return f"Ask with this link: {self.link}"

    def _send(self, bodies: Sequence[bytes], codes: Sequence[str]) -> int:
        server = running_server(self._data)
        if server is None:
            raise StoreUnusable("the server is no longer running; call `ask` again")
        numbered = list(zip(bodies, codes or [""] * len(bodies), strict=True))
        send = partial(_send_share, urlsplit(server.local).netloc)
        with ThreadPoolExecutor(SENDERS) as pool:
            return sum(pool.map(send, (numbered[first::SENDERS] for first in range(SENDERS))))


def _send_share(address: str, share: Sequence[tuple[bytes, str]]) -> int:
    """Send these bodies with their codes over one connection; return how many count."""
    accepted = 0
    with closing(HTTPConnection(address, timeout=30)) as sender:
        for body, code in share:
            headers = {"Content-Type": CONTENT_TYPE}
            if code:
                headers[INVITATION_HEADER] = code
            sender.request("POST", "/v1/envelopes", body, headers)
            accepted += json.loads(sender.getresponse().read()).get("accepted", 0)
    return accepted


def _evenly(published: PublishedSurvey) -> Person:
    return lambda rng: {q.name: _any_answer(q, rng) for q in published.survey.questions}


def _any_answer(question: Question, rng: random.Random) -> object:
    if isinstance(question, Number):
        return rng.uniform(question.low, question.high)
    return rng.random() < 0.5 if question.kind == "bit" else rng.choice(question.answer_labels)


def _report(published: PublishedSurvey, answers: Answers, rng: random.Random) -> bytes:
    """Return the envelope of one report, randomized with noise from the kernel."""
    survey = published.survey
    labels = {label.name: rng.choice(label.listed) for label in survey.labels if label.listed}
    payload = encode_report(survey, survey.report(answers, kernel_draw).symbols, labels)
    number = survey.round_of(datetime.now(UTC).date())
    return Envelope(published.id, number, secrets.token_bytes(16), 1, payload).pack()


def _stop(
    server: subprocess.Popen[str], home: tempfile.TemporaryDirectory[str] | None = None
) -> None:
    server.terminate()
    with suppress(subprocess.TimeoutExpired):
        server.wait(STOP_SECONDS)
    server.kill()
    server.wait()
    if server.stdout is not None:
        server.stdout.close()
    if home is not None:
        home.cleanup()
