"""Surveys and enrolled keys in the store."""

from __future__ import annotations

from sqlalchemy import Connection, delete, select, update

from deniable.server.store.records import SurveyRow
from deniable.server.store.sql.register import add_entry
from deniable.server.store.sql.tables import (
    counters,
    happened,
    keys,
    retired_keys,
    surveys,
    tallies,
)
from deniable.server.store.sql.upsert import put_new
from deniable.shared.errors import Refused
from deniable.shared.survey.document import survey_id


def read_surveys(connection: Connection, after: int) -> list[SurveyRow]:
    rows = connection.execute(
        select(surveys).where(surveys.c.sequence > after).order_by(surveys.c.sequence)
    )
    return [
        SurveyRow(row.sequence, row.id, row.document, row.signature, row.key, row.closed)
        for row in rows
    ]


def survey_states(connection: Connection) -> dict[int, bool]:
    rows = connection.execute(select(surveys.c.sequence, surveys.c.closed))
    return {row.sequence: row.closed for row in rows}


def add_survey(connection: Connection, document: bytes, signature: str, key: str) -> str:
    identifier = survey_id(document)
    row = {
        "id": identifier,
        "document": document,
        "signature": signature,
        "key": key,
        "closed": False,
    }
    if put_new(connection, surveys, row):
        add_entry(connection, "published", identifier, key)
    return identifier


def close_survey(connection: Connection, sequence: int) -> None:
    this = surveys.c.sequence == sequence, ~surveys.c.closed
    ended = update(surveys).where(*this).values(closed=True)
    for identifier, key in connection.execute(ended.returning(surveys.c.id, surveys.c.key)).all():
        add_entry(connection, "closed", identifier, key)


def delete_survey(connection: Connection, sequence: int) -> None:
    """All but its envelopes, which must be gone, and its entries in the register."""
    for table in (tallies, counters, happened):
        connection.execute(delete(table).where(table.c.survey == sequence))
    gone = delete(surveys).where(surveys.c.sequence == sequence)
    for identifier, key in connection.execute(gone.returning(surveys.c.id, surveys.c.key)).all():
        add_entry(connection, "deleted", identifier, key)


def enrolled_keys(connection: Connection) -> frozenset[str]:
    return frozenset(connection.scalars(select(keys.c.key)))


def enrol_key(connection: Connection, key: str) -> None:
    if key in read_retired_keys(connection):
        raise Refused(
            f"the key {key[:16]}… is retired, and is never enrolled again: publish with another one"
        )
    put_new(connection, keys, {"key": key})


def read_retired_keys(connection: Connection) -> frozenset[str]:
    return frozenset(connection.scalars(select(retired_keys.c.key)))


def retire_key(connection: Connection, key: str) -> None:
    connection.execute(delete(keys).where(keys.c.key == key))
    put_new(connection, retired_keys, {"key": key})
