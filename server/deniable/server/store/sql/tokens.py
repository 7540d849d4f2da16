"""Tokens in the store: hashed, with a role and an end."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

from sqlalchemy import Connection, delete, select

from deniable.server.store.records import Token
from deniable.server.store.sql.tables import tokens

ID_DIGITS = 12


def hash_of(token: str) -> str:
    """A plain hash is enough: tokens are 256 random bits, which nobody can guess."""
    return hashlib.sha256(token.encode()).hexdigest()


def add_token(connection: Connection, token: str, role: str, now: datetime, end: datetime) -> None:
    times = {"created": int(now.timestamp()), "expires": int(end.timestamp())}
    connection.execute(tokens.insert().values(hash=hash_of(token), role=role, **times))


def role_at(connection: Connection, token: str, now: datetime) -> str | None:
    """The role of a token that is known and has not ended."""
    query = select(tokens.c.role).where(
        tokens.c.hash == hash_of(token), tokens.c.expires > now.timestamp()
    )
    return connection.scalar(query)


def read_tokens(connection: Connection) -> list[Token]:
    rows = connection.execute(select(tokens).order_by(tokens.c.created, tokens.c.hash))
    return [
        Token(row.hash[:ID_DIGITS], row.role, _moment(row.created), _moment(row.expires))
        for row in rows
    ]


def revoke_token(connection: Connection, identifier: str) -> None:
    connection.execute(delete(tokens).where(tokens.c.hash.startswith(identifier, autoescape=True)))


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
