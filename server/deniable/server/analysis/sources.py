"""Sources of results: a store on this machine, or a server, which is asked over HTTP."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import Request

import msgspec

from deniable.server.analysis.notebook import SurveyResults
from deniable.server.process.server_requests import OPENER, checked
from deniable.server.process.settings import TOKEN
from deniable.server.results import Results, SurveyEstimates
from deniable.server.results.comparison import comparison
from deniable.server.results.document import Comparison
from deniable.server.results.round_selection import RoundSelection
from deniable.server.results.survey_results import check_round
from deniable.server.store import Database, Place, RegisterEntry, open_store
from deniable.server.surveys.catalogue import Catalogue
from deniable.shared.errors import Refused, WrongUse

Document = TypeVar("Document", bound=msgspec.Struct)
MAX_BYTES = 2**26
TIMEOUT_SECONDS = 30.0


def open_results(
    place: str | Path, survey: str | None = None, *, token: str | None = None
) -> SurveyResults:
    """Read the results of a survey from a store or from a server.

    `place` is a data folder, a database (postgresql://...) or a server (https://...), which needs
    an analyst's token: given here or in DENIABLE_TOKEN. `survey` is a name, an id or its beginning;
    a store with only one survey needs none.
    """
    text = str(place)
    if not text.startswith(("http://", "https://")):
        where = Database(text) if "://" in text else Path(place)
        return SurveyResults(local_estimates(where, survey).document())
    if survey is None:
        raise WrongUse("name the survey to read from the server")
    return SurveyResults(remote_results(text, survey, {}, token))


def local_estimates(
    place: Place,
    survey: str | None,
    number: int | None = None,
    first: int | None = None,
    last: int | None = None,
) -> SurveyEstimates:
    """Return the results of one round, of the rounds from `first` to `last`, or of all."""
    with open_store(place) as store:
        catalogue = Catalogue(store)
        published = catalogue.find(survey if survey is not None else _only(catalogue))
        tallies = store.tallies(published.sequence, None, last)
        annotations = store.annotations(published.sequence)
    asked = published.survey
    if number is not None:
        first = last = number
    selection = RoundSelection(
        asked.first_round if first is None else max(asked.first_round, first),
        asked.last_round if last is None else min(asked.last_round, last),
    )
    now = datetime.now(UTC)
    estimates = SurveyEstimates(published, tallies, now, selection, annotations)
    if number is not None:
        check_round(estimates, number)
    return estimates


def stored_comparison(
    place: Place, survey: str, other: str, number: int | None = None
) -> Comparison:
    """Compare the newest rounds with reports, or the rounds with the same number."""
    with open_store(place) as store:
        catalogue = Catalogue(store)
        both = [catalogue.find(text) for text in (survey, other)]
        tallies = [store.tallies(published.sequence) for published in both]
    return comparison((both[0], tallies[0]), (both[1], tallies[1]), datetime.now(UTC), number)


def remote_results(
    server: str, survey: str, asked: Mapping[str, int], token: str | None
) -> Results:
    """Ask a server. Refused if it refuses, or if nothing answers there."""
    address = f"{checked(server, '--server')}/v1/surveys/{quote(survey, safe='')}/results"
    address = f"{address}?{urlencode(asked)}" if asked else address
    return _fetched(server, address, Results, {"Authorization": f"Bearer {_token(token)}"})


def remote_register(server: str) -> list[RegisterEntry]:
    """Ask a server for its whole register, one page after the other."""
    from deniable.server.http.openapi import Register

    entries: list[RegisterEntry] = []
    while True:
        address = f"{checked(server, '--server')}/v1/register?{urlencode({'after': len(entries)})}"
        page = _fetched(server, address, Register, {})
        entries += [RegisterEntry(**msgspec.structs.asdict(entry)) for entry in page.entries]
        if not (page.more and page.entries):
            return entries


def _only(catalogue: Catalogue) -> str:
    ids = [published.id for published in catalogue.surveys()]
    if len(ids) != 1:
        raise WrongUse(f"there are {len(ids)} surveys here: name the one that you mean")
    return ids[0]


def _fetched(
    server: str, address: str, kind: type[Document], headers: Mapping[str, str]
) -> Document:
    request = Request(address, headers={"Accept": "application/json", **headers})  # noqa: S310 # https, or this machine
    try:
        with OPENER.open(request, timeout=TIMEOUT_SECONDS) as reply:
            text = reply.read(MAX_BYTES + 1)
    except HTTPError as error:
        raise Refused(f"{server} refused: {_reason(error)}") from None
    except (URLError, OSError) as error:
        raise Refused(f"no answer from {server}: {getattr(error, 'reason', error)}") from None
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError:
        raise Refused(f"cannot read the answer of {server}; is it a deniable server?") from None


def _token(given: str | None) -> str:
    token = given or os.environ.get(TOKEN)
    if not token:
        raise WrongUse(f"results over HTTP need an analyst's token: set {TOKEN}, or give --token")
    return token.strip()


def _reason(error: HTTPError) -> str:
    try:
        problem = json.loads(error.read(MAX_BYTES))
        return str(problem.get("detail") or problem["title"])
    except (ValueError, KeyError, AttributeError, OSError):
        return f"HTTP {error.code}"
