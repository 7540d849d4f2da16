"""Inserting a row whether or not its key is there already, in either database's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import sqlite

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql


def put(connection: Connection, table: Table, row: Mapping[str, object]) -> None:
    """The row, in the place of one with the same key."""
    statement = _insert(connection, table).values(row)
    connection.execute(
        statement.on_conflict_do_update(index_elements=[*table.primary_key], set_=dict(row))
    )


def add(connection: Connection, table: Table, row: Mapping[str, object], column: str) -> None:
    """The row; where its key is there, this column is added to what stands there."""
    statement = _insert(connection, table).values(row)
    total = {column: table.c[column] + row[column]}
    connection.execute(
        statement.on_conflict_do_update(index_elements=[*table.primary_key], set_=total)
    )


def put_new(connection: Connection, table: Table, row: Mapping[str, object]) -> bool:
    """The row, unless one like it is there. Whether it was new."""
    statement = _insert(connection, table).values(row)
    new = statement.on_conflict_do_nothing().returning(*table.primary_key)
    return connection.execute(new).first() is not None


def _insert(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    if connection.dialect.name == "sqlite":
        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql

    return postgresql.insert(table)
