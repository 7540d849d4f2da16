"""What happened beside a survey, in the store."""

from __future__ import annotations

from datetime import date

from sqlalchemy import Connection, delete, select

from deniable.server.store.records import Annotation
from deniable.server.store.sql.tables import happened
from deniable.server.store.sql.upsert import put_new


def read_annotations(connection: Connection, sequence: int) -> list[Annotation]:
    rows = connection.execute(
        select(happened.c.day, happened.c.words)
        .where(happened.c.survey == sequence)
        .order_by(happened.c.day, happened.c.words)
    )
    return [Annotation(date.fromisoformat(day), words) for day, words in rows]


def annotate(connection: Connection, sequence: int, annotation: Annotation) -> None:
    put_new(connection, happened, _row(sequence, annotation))


def remove_annotation(connection: Connection, sequence: int, annotation: Annotation) -> bool:
    row = _row(sequence, annotation)
    gone = delete(happened).where(*(happened.c[key] == row[key] for key in row))
    return connection.execute(gone).rowcount > 0


def _row(sequence: int, annotation: Annotation) -> dict[str, object]:
    return {"survey": sequence, "day": annotation.day.isoformat(), "words": annotation.words}
