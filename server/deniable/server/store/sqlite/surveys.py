"""Surveys and enrolled keys in SQLite."""

from __future__ import annotations

from sqlalchemy import Connection, func, select, update
from sqlalchemy.dialects.sqlite import insert

from deniable.server.store.records import SurveyRow
from deniable.server.store.sqlite.schema import keys, surveys
from deniable.shared.survey.document import survey_id


def surveys_mark(connection: Connection) -> tuple[int, int]:
    newest, closed = connection.execute(
        select(func.coalesce(func.max(surveys.c.sequence), 0), func.total(surveys.c.closed))
    ).one()
    return newest, int(closed)


def read_surveys(connection: Connection, after: int) -> list[SurveyRow]:
    rows = connection.execute(
        select(surveys).where(surveys.c.sequence > after).order_by(surveys.c.sequence)
    )
    return [
        SurveyRow(row.sequence, row.id, row.document, row.signature, row.key, row.closed)
        for row in rows
    ]


def closed_surveys(connection: Connection) -> frozenset[int]:
    return frozenset(connection.scalars(select(surveys.c.sequence).where(surveys.c.closed)))


def add_survey(connection: Connection, document: bytes, signature: str, key: str) -> str:
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


def close_survey(connection: Connection, sequence: int) -> None:
    connection.execute(update(surveys).where(surveys.c.sequence == sequence).values(closed=True))


def enrolled_keys(connection: Connection) -> frozenset[str]:
    return frozenset(connection.scalars(select(keys.c.key)))


def enrol_key(connection: Connection, key: str) -> None:
    connection.execute(insert(keys).values(key=key).on_conflict_do_nothing())
