"""Surveys and enrolled keys in the store."""

from __future__ import annotations

from sqlalchemy import Connection, func, select, update

from deniable.server.store.records import SurveyRow
from deniable.server.store.sql.tables import keys, surveys
from deniable.server.store.sql.upsert import put_new
from deniable.shared.survey.document import survey_id


def surveys_mark(connection: Connection) -> tuple[int, int]:
    closed = func.count().filter(surveys.c.closed)
    newest = func.coalesce(func.max(surveys.c.sequence), 0)
    (mark,) = connection.execute(select(newest, closed))
    return int(mark[0]), int(mark[1])


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
    put_new(connection, surveys, row)
    return identifier


def close_survey(connection: Connection, sequence: int) -> None:
    connection.execute(update(surveys).where(surveys.c.sequence == sequence).values(closed=True))


def enrolled_keys(connection: Connection) -> frozenset[str]:
    return frozenset(connection.scalars(select(keys.c.key)))


def enrol_key(connection: Connection, key: str) -> None:
    put_new(connection, keys, {"key": key})
