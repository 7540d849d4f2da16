"""What the database says of itself in its table `about`."""

from sqlalchemy import Connection, select, update

from deniable.server.store.sql.tables import about


def said(connection: Connection, key: str) -> str:
    return str(connection.scalar(select(about.c.value).where(about.c.key == key)))


def say(connection: Connection, key: str, value: str) -> None:
    connection.execute(update(about).where(about.c.key == key).values(value=value))
