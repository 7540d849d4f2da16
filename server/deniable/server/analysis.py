"""Results in Python, for notebooks and scripts, with comparisons of two surveys.

`open_results` reads a local store, or queries a server over HTTP.
"""

from __future__ import annotations

import json
import math
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import Request

import msgspec

from deniable.server.estimation.statements import CONFIDENCE, reading
from deniable.server.process.server_requests import TOKEN, checked, send
from deniable.server.results import Results, Round, SurveyEstimates, stored_estimates
from deniable.server.results.answers import SHARED_NOISE, Differences, about, compared
from deniable.server.results.display import known_figures
from deniable.server.results.document import About, Comparison, Difference, Distribution, Row
from deniable.server.results.estimate_cache import Counts, EstimateCache
from deniable.server.results.survey_estimates import RoundSelection, shown_tallies
from deniable.server.store import (
    Database,
    Place,
    PublishedSurvey,
    RegisterEntry,
    RoundTally,
    open_store,
)
from deniable.server.store.protocol import StoreReader
from deniable.server.surveys.catalogue import Catalogue
from deniable.shared.errors import Refused, WrongUse

if TYPE_CHECKING:
    import pandas as pd


__all__ = ["Answer", "SurveyResults", "open_results"]

Document = TypeVar("Document", bound=msgspec.Struct)

CROSS, WITHIN = " x ", " within "  # in the names of a cross table and of its rates
MAX_LABELS_IN_REPR = 5
MAX_BYTES = 2**26
TIMEOUT_SECONDS = 30.0
MAX_REGISTER_ENTRIES = 100_000
REGISTER_SECONDS = 60.0


def open_results(
    place: str | Path, survey: str | None = None, *, token: str | None = None
) -> SurveyResults:
    """Read the results of a survey from a store or from a server.

    `place` is a data folder, a database (postgresql://...) or a server (https://...). A server
    needs an analyst's token, given here or in DENIABLE_TOKEN. `survey` is a name, an id or the
    beginning of an id; it is optional if a store has only one survey.
    """
    text = str(place)
    if not text.startswith(("http://", "https://")):
        where = Database(text) if "://" in text else Path(place)
        return SurveyResults(local_estimates(where, survey).document())
    if survey is None:
        raise WrongUse("name the survey to be read from the server")
    return SurveyResults(remote_results(text, survey, {}, token))


class Answer:
    """Result of one question in one round: rows by label. Its `repr` is a summary."""

    def __init__(self, question: str, about: About, period: Round, rows: tuple[Row, ...]) -> None:
        self.question, self.about, self.round, self.rows = question, about, period, rows

    def __getitem__(self, label: str) -> Row:
        return {row.label: row for row in self.rows}[label]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __repr__(self) -> str:
        joint = len(self.rows) > MAX_LABELS_IN_REPR  # only the highest labels are shown
        known = known_figures(self.rows, self.about.statistic, self.about.unit, joint)
        start = f"{self.question}, round {self.round.round}: "
        reports = f"{self.rows[0].reports:,} reports"
        if not known:
            return f"{start}{reports}, {self.rows[0].note}"
        ordered = sorted(known, key=lambda row: -row.estimate) if joint else known
        shown = [f"{row.label} {row.whole} ({row.interval})" for row in ordered]
        if others := len(shown[MAX_LABELS_IN_REPR:]):
            lower = f"{others:,} other option{' is' if others == 1 else 's are'} lower"
            shown[MAX_LABELS_IN_REPR:] = [lower]
        return (
            f"{start}{'; '.join(shown)}. {reports}; 95 % intervals for the "
            f"population{', jointly' if joint else ''}"
            f"{', for repeated looks' if self.round.any_time else ''}."
        )

    @property
    def distribution(self) -> Distribution | None:
        """Distribution of a number, or None if there are too few reports."""
        return (self.round.distributions or {}).get(self.question)

    @property
    def change(self) -> tuple[Difference, ...]:
        """Differences from the previous round, if both rounds have an estimate."""
        change = self.round.change
        return change.questions.get(self.question, ()) if change else ()

    def people_needed(self, error: float) -> int:
        """Return the number of reports for a margin of error of at most `error` at every label.

        The error is in the question's units. Other people are assumed to answer as these did.
        """
        if not error > 0:
            raise WrongUse(f"the error must be above 0, got {error}")
        known = known_figures(self.rows, self.about.statistic, self.about.unit)
        if not known:
            raise Refused(f"{self.question} has no estimate to start from: {self.rows[0].note}")
        largest = max(row.half for row in known)
        return math.ceil(self.rows[0].reports * (largest / error) ** 2)


class SurveyResults:
    """All results of a survey, from `open_results`; `document` is the content of the JSON."""

    def __init__(self, document: Results) -> None:
        self.document = document

    def estimate(self, question: str, *, round: int | None = None) -> Answer:  # noqa: A002 - the protocol's word
        """Return the answer in a round, or in the newest round that has an estimate.

        For a cross table, `question` is "crashed x browser" (shares of people who gave both
        answers) or "crashed within browser" (rates among those with each answer to browser).
        """
        facts = self._about(question)
        answers = [
            Answer(question, facts, period, rows)
            for period in self.document.rounds
            if round in (None, period.round) and (rows := _rows(period, question))
        ]
        if not answers:
            raise Refused(f"{self.document.name} does not have that round yet")
        return ([answer for answer in answers if answer.rows[0].estimate is not None] or answers)[
            -1
        ]

    def _about(self, name: str) -> About:
        """Return the facts about a question, or about the first one of a cross table."""
        crossed = (table for period in self.document.rounds for table in period.cross or ())
        pairs = list(dict.fromkeys(table.questions for table in crossed))
        rates = [f"{one}{WITHIN}{other}" for pair in pairs for one, other in (pair, pair[::-1])]
        names = [*self.document.about, *(CROSS.join(pair) for pair in pairs), *rates]
        if name not in names:
            listed = ", ".join(names)
            raise Refused(
                f"{self.document.name} has no question {name!r}; its questions are {listed}"
            )
        return self.document.about[re.split(f"{CROSS}|{WITHIN}", name, maxsplit=1)[0]]

    def over_rounds(self, question: str) -> list[Answer]:
        """Return the answers of all rounds that have an estimate, oldest first."""
        answers = (self.estimate(question, round=period.round) for period in self.document.rounds)
        return [answer for answer in answers if answer.rows[0].estimate is not None]

    def people_needed(self, error: float, question: str | None = None) -> int:
        """Return the number of reports that one question needs, or the largest of all questions."""
        names = self.document.about if question is None else [question]
        return max(self.estimate(name).people_needed(error) for name in names)

    def rows(self) -> Iterator[dict[str, Any]]:  # Any: values of a row
        """Yield one row for each label of each question of each round."""
        for period in self.document.rounds:
            for name, rows in period.questions.items():
                for row in rows:
                    facts = {"round": period.round, "state": period.state, "question": name}
                    yield facts | msgspec.structs.asdict(row)

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a table; pandas must be installed separately."""
        try:
            import pandas as pd
        except ImportError:
            raise WrongUse("to_pandas needs pandas: pip install pandas") from None
        return pd.DataFrame(list(self.rows()))

    def __repr__(self) -> str:
        return "\n".join(map(repr, map(self.estimate, self.document.about)))


def _rows(period: Round, name: str) -> tuple[Row, ...]:
    """Return the rows of a question, a cross table or its rates; empty without rates."""
    for table in period.cross or ():
        if CROSS.join(table.questions) == name:
            return table.rows
        for rates in table.rates:
            if f"{rates.question}{WITHIN}{rates.within}" == name:
                return rates.rows
    return period.questions.get(name, ())


def local_estimates(
    place: Place,
    survey: str | None,
    number: int | None = None,
    first: int | None = None,
    last: int | None = None,
) -> SurveyEstimates:
    """Read one round of a store, the rounds from `first` to `last`, or all rounds."""
    with open_store(place) as store:
        catalogue = Catalogue(store)
        published = catalogue.find(survey if survey is not None else _only(catalogue))
        asked = published.survey
        if number is not None:
            first = last = number
        selection = RoundSelection(
            asked.first_round if first is None else max(asked.first_round, first),
            asked.last_round if last is None else min(asked.last_round, last),
            is_complete=True,
        )
        estimates = stored_estimates(store, published, datetime.now(UTC), selection)
    if number is not None:
        estimates.check_round(number)
    return estimates


def stored_comparison(
    place: Place, survey: str, other: str, number: int | None = None
) -> Comparison:
    """Compare two surveys in round `number`, or in the newest round of each with enough reports."""
    with open_store(place) as store:
        catalogue = Catalogue(store)
        both = [catalogue.find(text) for text in (survey, other)]
        now = datetime.now(UTC)
        with store.snapshot() as reader:
            sides = [(side, _round(reader, side, number, now)) for side in both]
    (published, first), (against, second) = sides
    if published.id == against.id:
        if first.round == second.round:
            raise Refused("a round cannot be compared with itself: name two surveys")
        if second.round in published.survey.span_of(first.round):
            raise Refused(SHARED_NOISE)
    facts, questions = _common_questions(sides, now)
    if not questions:
        raise Refused(
            f"{published.name} and {against.name} have no estimates in common: a comparison needs "
            "a question of the same name, kind and unit, and enough reports in both surveys"
        )
    return Comparison(
        survey=published.id,
        name=published.name,
        round=first.round,
        against=against.id,
        against_name=against.name,
        against_round=second.round,
        confidence=CONFIDENCE,
        about=facts,
        questions=questions,
    )


def remote_results(
    server: str, survey: str, asked: Mapping[str, int], token: str | None
) -> Results:
    """Query a server; raise Refused if it refuses or does not respond."""
    address = f"{checked(server, '--server')}/v1/surveys/{quote(survey, safe='')}/results"
    address = f"{address}?{urlencode(asked)}" if asked else address
    token = token or os.environ.get(TOKEN)
    if not token:
        raise WrongUse(f"results over HTTP need an analyst's token: set {TOKEN}, or give --token")
    return _fetched(server, address, Results, {"Authorization": f"Bearer {token.strip()}"})


def remote_register(server: str) -> list[RegisterEntry]:
    """Fetch a server's register, page by page. Raise Refused if the pages are inconsistent."""
    from deniable.server.http.openapi import Register

    entries: list[RegisterEntry] = []
    end = time.monotonic() + REGISTER_SECONDS
    while len(entries) < MAX_REGISTER_ENTRIES:
        if time.monotonic() > end:
            raise Refused(f"{server} did not send its register within {REGISTER_SECONDS:g} seconds")
        address = f"{checked(server, '--server')}/v1/register?{urlencode({'after': len(entries)})}"
        page = _fetched(server, address, Register, {})
        for number, entry in enumerate(page.entries, len(entries) + 1):
            if entry.number != number:
                raise Refused(f"{server} sent entry {entry.number} in place of entry {number}")
            entries.append(RegisterEntry(**msgspec.structs.asdict(entry)))
        if not page.more:
            return entries
        if not page.entries:
            raise Refused(f"{server} announced entries after number {len(entries)}, but sent none")
    raise Refused(
        f"{server} claims that its register has more than {MAX_REGISTER_ENTRIES:,} entries"
    )


def _common_questions(
    sides: Sequence[tuple[PublishedSurvey, RoundTally]], now: datetime
) -> tuple[dict[str, About], dict[str, Differences]]:
    """Return the facts and the differences of the questions that both sides estimate."""
    cache, (first, second) = EstimateCache(), (side.survey.questions for side, _ in sides)
    counterparts = {(asked.name, asked.kind, asked.unit): asked for asked in second}
    facts, questions = dict[str, About](), dict[str, Differences]()
    for question in first:
        if counterpart := counterparts.get((question.name, question.kind, question.unit)):
            now_counts, then_counts = (
                [Counts.of(side.survey, asked, tally, kind)]
                for asked, (side, tally) in zip((question, counterpart), sides, strict=True)
                for kind in [reading(side.survey, tally.round, now, side.closed)]
            )
            (rows,) = compared(cache, question, now_counts, counterpart, then_counts)
            if rows:
                facts[question.name], questions[question.name] = about(question), rows
    return facts, questions


def _round(
    reader: StoreReader, published: PublishedSurvey, number: int | None, now: datetime
) -> RoundTally:
    minimum, sequence = published.survey.minimum_reports, published.sequence
    counted = {tally.round: tally for tally in reader.tallies(sequence)}
    shown = shown_tallies(published, counted, reader.first_looks(sequence), now)
    if number is None:
        kept, which = [t for t in shown.values() if t.reports >= minimum], "with enough reports"
    else:
        kept, which = [t for t in shown.values() if t.round == number], f"{number} with results"
    if not kept:
        raise Refused(f"survey {published.name!r} has no round {which} to compare")
    return max(kept, key=lambda tally: tally.round)


def _only(catalogue: Catalogue) -> str:
    ids = [published.id for published in catalogue.surveys()]
    if len(ids) != 1:
        raise WrongUse(f"the store has {len(ids)} surveys; name one")
    return ids[0]


def _fetched(
    server: str, address: str, kind: type[Document], headers: Mapping[str, str]
) -> Document:
    request = Request(address, headers={"Accept": "application/json", **headers})  # noqa: S310 # https, or this machine
    try:
        with send(request, TIMEOUT_SECONDS) as reply:
            text = reply.read(MAX_BYTES + 1)
    except HTTPError as error:
        raise Refused(f"{server} refused: {_reason(error)}") from None
    except (URLError, OSError) as error:
        raise Refused(f"no answer from {server}: {getattr(error, 'reason', error)}") from None
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError:
        raise Refused(f"cannot read the response of {server}; is it a deniable server?") from None


def _reason(error: HTTPError) -> str:
    try:
        problem = json.loads(error.read(MAX_BYTES))
        return str(problem.get("detail") or problem["title"])
    except (ValueError, KeyError, AttributeError, OSError):
        return f"HTTP {error.code}"
