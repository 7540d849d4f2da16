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
from msgspec import UNSET

from deniable.server.estimation.statements import CONFIDENCE, reading
from deniable.server.process.server_requests import TOKEN, checked, send
from deniable.server.results import Results, Round, SurveyEstimates, stored_estimates
from deniable.server.results.answers import SHARED_NOISE, Differences, about, compared
from deniable.server.results.display import known_figures
from deniable.server.results.document import (
    About,
    Comparison,
    Difference,
    Distribution,
    Period,
    Row,
    Smoothed,
)
from deniable.server.results.estimate_cache import EstimateCache, Pool
from deniable.server.results.export import result_records
from deniable.server.results.periods import Division, parse_round, pools
from deniable.server.results.survey_estimates import (
    RoundSelection,
    estimated_tallies,
    shown_tallies,
)
from deniable.server.store import (
    Database,
    Place,
    PublishedSurvey,
    RegisterEntry,
    open_store,
)
from deniable.server.store.protocol import StoreReader
from deniable.server.store.records import SETTLING
from deniable.server.surveys.catalogue import Catalogue
from deniable.shared.errors import Refused, WrongUse, quantity
from deniable.shared.survey.document import Survey

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
    place: str | Path,
    survey: str | None = None,
    *,
    token: str | None = None,
    by: Division | None = None,
    first: str = "",
    last: str = "",
    language: str = "",
) -> SurveyResults:
    """Read the results of a survey from a store or from a server.

    `place` is a data folder, a database (postgresql://...) or a server (https://...). A server
    needs an analyst's token, given here or in DENIABLE_TOKEN. `survey` is a name, an id or the
    beginning of an id; it is optional if a store has only one survey.

    With `by` ("week", "month", "event" or "all"), `periods` has pooled results. `first` and `last`
    limit the rounds: days like 2026-12-01, or round numbers. `language`, a tag like "de", chooses
    the language of titles, units and labels, if the survey has several.
    """
    text, limits = str(place), {"from": first, "until": last}
    given = {name: limit for name, limit in limits.items() if limit}
    if not text.startswith(("http://", "https://")):
        where = Database(text) if "://" in text else Path(place)
        return SurveyResults(local_estimates(where, survey, given, by, language).document())
    if survey is None:
        raise WrongUse("name the survey to be read from the server")
    asked = given | {key: text for key, text in (("by", by), ("language", language)) if text}
    return SurveyResults(remote_results(text, survey, asked, token))


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
        first = self.round.round
        last = self.round.last_round if isinstance(self.round, Period) else first
        rounds = f"round {first}" if first == last else f"rounds {first} to {last}"
        start = f"{self.question}, {rounds}: "
        reports = quantity(self.rows[0].reports, "report")
        if not known:
            return f"{start}{reports}, {self.rows[0].note}"
        ordered = sorted(known, key=lambda row: -row.estimate) if joint else known
        shown = [f"{row.label} {row.whole} ({row.interval})" for row in ordered]
        if others := len(shown[MAX_LABELS_IN_REPR:]):
            lower = f"{quantity(others, 'other option is', 'other options are')} lower"
            shown[MAX_LABELS_IN_REPR:] = [lower]
        return (
            f"{start}{'; '.join(shown)}. {reports}; 95 % intervals for the "
            f"{self.about.people or 'population'}{', jointly' if joint else ''}"
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

    def periods(self, question: str) -> list[Answer]:
        """Return the pooled answers of all periods that have an estimate, oldest first."""
        about = self._about(question)
        answers = [
            Answer(question, about, period, period.questions[question])
            for period in self.document.periods or ()
        ]
        return [answer for answer in answers if answer.rows[0].estimate is not None]

    def trend(self, question: str) -> list[Smoothed]:
        """Return the smoothed estimates of every round, if the survey states `most_change`."""
        self._about(question)
        return [*(self.document.trends or {}).get(question, ())]

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
        """Yield the rows of the CSV, with numbers and None instead of texts."""
        for records in result_records(self.document, self.document.rounds):
            yield from records

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
    given: Mapping[str, str],
    by: Division | None,
    language: str = "",
) -> SurveyEstimates:
    """Read the rounds of a store; `given` may limit them by `round`, `from` and `until`."""
    with open_store(place) as store:
        catalogue = Catalogue(store)
        named = survey if survey is not None else _only(catalogue)
        published = catalogue.find(named).in_language(language)
        asked, limits = published.survey, _limits(published.survey, given)
        selection = RoundSelection(
            max(asked.first_round, limits.get("from", 0)),
            min(asked.last_round, limits.get("until", asked.last_round)),
            is_complete=True,
        )
        estimates = stored_estimates(store, published, datetime.now(UTC), selection, by=by)
    if "round" in limits:
        estimates.check_round(limits["round"])
    return estimates


def _limits(survey: Survey, given: Mapping[str, str]) -> dict[str, int]:
    """Parse the rounds of a request; a single round is also the first and the last."""
    limits = {name: parse_round(survey, text) for name, text in given.items()}
    if "round" in limits:
        limits |= {"from": limits["round"], "until": limits["round"]}
    return limits


def stored_comparison(
    place: Place, survey: str, other: str, given: Mapping[str, str], language: str = ""
) -> Comparison:
    """Compare a survey with another survey, or with an earlier period like 2026-12-01..2026-12-07.

    `given` is the round, or the period, of the first; the default is the newest round with enough
    reports.
    """
    now, (start, is_period, end) = datetime.now(UTC), other.partition("..")
    with open_store(place) as store:
        catalogue = Catalogue(store)
        both = [catalogue.find(survey), catalogue.find(survey if is_period else other)]
        limits = [_limits(side.survey, given) for side in both]
        if is_period:
            limits[1] = _limits(both[1].survey, {"from": start, "until": end})
        with store.snapshot() as reader:
            sides = [
                (side, _pooled(reader, side, now, asked))
                for side, asked in zip(both, limits, strict=True)
            ]
    (published, first), (against, second) = sides
    if published.survey.follows or against.survey.follows:
        raise Refused(
            "a follow-up survey cannot be compared with another: its intervals are about exactly "
            "its respondents, and the results of the first survey chose its questions"
        )
    if published.id == against.id:
        if {*first.rounds} & {*second.rounds}:
            raise Refused(
                "a round cannot be compared with itself: name two surveys, or periods without a "
                "common round"
            )
        if first.shares_reports(published.survey, second):
            raise Refused(SHARED_NOISE)
    questions = _common_questions(sides)
    if not questions:
        raise Refused(
            f"{published.name} and {against.name} have no estimates in common: a comparison needs "
            "a question of the same name, kind and unit, and enough reports in both surveys"
        )
    return Comparison(
        survey=published.id,
        name=published.name,
        round=first.rounds[0],
        last_round=first.rounds[-1] if len(first.rounds) > 1 else UNSET,
        against=against.id,
        against_name=against.name,
        against_round=second.rounds[0],
        against_last_round=second.rounds[-1] if len(second.rounds) > 1 else UNSET,
        confidence=CONFIDENCE,
        about={
            question.name: about(question)
            for question in published.survey.in_language(language).questions
            if question.name in questions
        },
        questions=questions,
    )


def remote_results(
    server: str, survey: str, asked: Mapping[str, str], token: str | None
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
    sides: Sequence[tuple[PublishedSurvey, Pool]],
) -> dict[str, Differences]:
    """Return the differences of the questions that both sides estimate."""
    cache, (first, second) = EstimateCache(), (side.survey.questions for side, _ in sides)
    counterparts = {(asked.name, asked.kind, asked.unit): asked for asked in second}
    questions = dict[str, Differences]()
    for question in first:
        if counterpart := counterparts.get((question.name, question.kind, question.unit)):
            now_counts, then_counts = (
                [pool.counts(side.survey, asked)]
                for asked, (side, pool) in zip((question, counterpart), sides, strict=True)
            )
            (rows,) = compared(cache, question, now_counts, counterpart, then_counts)
            if rows:
                questions[question.name] = rows
    return questions


def _pooled(
    reader: StoreReader, published: PublishedSurvey, now: datetime, limits: Mapping[str, int]
) -> Pool:
    """Return the rounds within the limits, or the newest round with enough reports."""
    survey = published.survey
    first = limits.get("from", survey.first_round)
    last = limits.get("until", survey.last_round)
    shown = estimated_tallies(published, shown_tallies(reader, published, now)[0], now)
    minimum = 1 if limits else survey.minimum_reports
    kept = {n: t for n, t in shown.items() if t.reports >= minimum and first <= n <= last}
    if not kept:
        which = f"{first} to {last} with reports" if limits else "with enough reports"
        raise Refused(f"survey {published.name!r} has no round {which} to compare")
    rounds = range(first, last + 1) if limits else range(max(kept), max(kept) + 1)
    closed, settled = published.closed, now - SETTLING
    (pool,) = pools(survey, [rounds], kept, lambda n: reading(survey, n, settled, closed))
    return pool


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
