"""Surveys in the store, and finding one by what a person types."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Row, func, select, update
from sqlalchemy.dialects.sqlite import insert

from deniable.server.store.records import PublishedSurvey
from deniable.server.store.schema import keys, surveys
from deniable.shared.errors import Refused
from deniable.shared.survey.document import Survey, parse_document, survey_id

_BEGINNING = re.compile(r"[0-9a-f]{6,64}")
NAMES_SHOWN = 10


def read_surveys(connection: Connection) -> list[PublishedSurvey]:
    """Every survey in the order of publication."""
    return [
        _published(row) for row in connection.execute(select(surveys).order_by(surveys.c.sequence))
    ]


def surveys_mark(connection: Connection) -> tuple[int, int]:
    """Changes whenever a survey is published or closed."""
    published, closed = connection.execute(
        select(func.count(), func.coalesce(func.sum(surveys.c.closed), 0)).select_from(surveys)
    ).one()
    return published, closed


def add_survey(connection: Connection, document: bytes, signature: str, key: str) -> str:
    """Publish it; the same bytes again are the same survey, and change nothing."""
    identifier = survey_id(document)
    row = {
        "id": identifier,
        "document": document,
        "signature": signature,
        "key": key,
        "closed": False,
    }
    connection.execute(insert(surveys).values(row).on_conflict_do_nothing())
    return identifier


def close_survey(connection: Connection, identifier: str) -> None:
    connection.execute(update(surveys).where(surveys.c.id == identifier).values(closed=True))


def enrolled_keys(connection: Connection) -> frozenset[str]:
    return frozenset(connection.scalars(select(keys.c.key)))


def enrol_key(connection: Connection, key: str) -> None:
    connection.execute(insert(keys).values(key=key).on_conflict_do_nothing())


def find_survey(published: list[PublishedSurvey], text: str) -> PublishedSurvey:
    """By name, by id, or by the beginning of an id; a name means its newest survey that is open."""
    named = [survey for survey in published if survey.name == text]
    if named:
        return max(named, key=lambda s: (not s.closed, s.survey.opens, s.sequence))
    begun = [survey for survey in published if survey.id.startswith(text)]
    if len(begun) == 1 and _BEGINNING.fullmatch(text):
        return begun[0]
    raise Refused(f"{_problem(text, len(begun))}; {_known(published)}")


def _problem(text: str, matches: int) -> str:
    if matches > 1 and _BEGINNING.fullmatch(text):
        return f"{matches} surveys begin with {text}, write more digits"
    return f"there is no survey {text[:80]!r}"


def _known(published: list[PublishedSurvey]) -> str:
    names = list(dict.fromkeys(survey.name for survey in reversed(published)))
    if not names:
        return "none is published yet: deniable survey publish FILE --data DIR"
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return f"there is {', '.join(names[:NAMES_SHOWN])}{more}"


def _published(row: Row[Any]) -> PublishedSurvey:  # Any: columns of several types
    return PublishedSurvey(
        id=row.id,
        document=row.document,
        signature=row.signature,
        key=row.key,
        closed=row.closed,
        survey=_parsed(row.document),
        sequence=row.sequence,
    )


@lru_cache(maxsize=256)
def _parsed(document: bytes) -> Survey:
    """Documents never change, and parsing recomputes every probability: once is enough."""
    return parse_document(document)
