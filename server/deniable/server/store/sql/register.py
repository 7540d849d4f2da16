"""The register in the store: entries are added, and nothing else is done to them."""

from __future__ import annotations

from sqlalchemy import Connection, func, select

from deniable.server.store.register import Event, RegisterEntry, next_entry
from deniable.server.store.sql.tables import about, register, retired_keys, surveys


def add_entry(connection: Connection, event: Event, survey: str, key: str) -> None:
    """One after the other: where several nodes write, whoever comes second waits."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("LOCK TABLE register IN EXCLUSIVE MODE")
    newest = select(register).order_by(register.c.number.desc()).limit(1)
    row = connection.execute(newest).one_or_none()
    before = None if row is None else RegisterEntry(*row)
    connection.execute(register.insert().values(vars(next_entry(before, event, survey, key))))


def read_register(connection: Connection, after: int, most: int | None) -> list[RegisterEntry]:
    query = select(register).where(register.c.number > after).order_by(register.c.number)
    return [RegisterEntry(*row) for row in connection.execute(query.limit(most))]


def register_length(connection: Connection) -> int:
    return int(connection.scalar(select(func.coalesce(func.max(register.c.number), 0))) or 0)


def begin_register_in(connection: Connection) -> None:
    """Where surveys were published before there was one; what is closed comes last, since when it
    was closed is not known."""
    for table in (register, retired_keys):
        table.create(connection)
    rows = connection.execute(select(surveys).order_by(surveys.c.sequence)).all()
    for row in rows:
        add_entry(connection, "published", row.id, row.key)
    for row in rows:
        if row.closed:
            add_entry(connection, "closed", row.id, row.key)


def say_version(connection: Connection, version: int) -> None:
    """After a migration."""
    row = about.update().where(about.c.key == "schema")
    connection.execute(row.values(value=str(version)))
