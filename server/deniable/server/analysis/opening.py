"""Where results come from: a store itself, or a server."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from deniable.server.analysis.reading import SurveyResults
from deniable.server.analysis.remote import remote_results
from deniable.server.results import Comparison, Results, Window, comparison, survey_results
from deniable.server.store import Database, Place, open_store
from deniable.server.surveys.catalogue import Catalogue
from deniable.shared.errors import WrongUse


def open_results(
    place: str | Path, survey: str | None = None, *, token: str | None = None
) -> SurveyResults:
    """Of a data folder, of a database (postgresql://...), or of a server (https://...), whose
    analyst's token is given or in DENIABLE_TOKEN. `survey` is a name, an id or its beginning; where
    a store has one survey only, it may be left out."""
    text = str(place)
    if not text.startswith(("http://", "https://")):
        where = Database(text) if "://" in text else Path(place)
        return SurveyResults(stored_results(where, survey))
    if survey is None:
        raise WrongUse("name the survey that the server is asked for")
    return SurveyResults(remote_results(text, survey, {}, token))


def stored_results(
    place: Place,
    survey: str | None,
    number: int | None = None,
    first: int | None = None,
    last: int | None = None,
) -> Results:
    """Of one round, of those from `first` through `last`, or of all."""
    with open_store(place) as store:
        catalogue = Catalogue(store)
        published = catalogue.find(survey if survey is not None else _only(catalogue))
        tallies = store.tallies(published.sequence, None, last)
        annotations = store.annotations(published.sequence)
    asked = published.survey
    shown = Window(
        max(asked.first_round, asked.first_round if first is None else first),
        min(asked.last_round, asked.last_round if last is None else last),
    )
    return survey_results(published, tallies, datetime.now(UTC), number, shown, annotations)


def stored_comparison(
    place: Place, survey: str, other: str, number: int | None = None
) -> Comparison:
    """Of the newest rounds with reports, or of the rounds of the same number."""
    with open_store(place) as store:
        catalogue = Catalogue(store)
        both = [catalogue.find(text) for text in (survey, other)]
        tallies = [store.tallies(published.sequence) for published in both]
    return comparison((both[0], tallies[0]), (both[1], tallies[1]), datetime.now(UTC), number)


def _only(catalogue: Catalogue) -> str:
    ids = [each.id for each in catalogue.surveys()]
    if len(ids) != 1:
        raise WrongUse(f"there are {len(ids)} surveys here: name the one that you mean")
    return ids[0]
