"""The store: everything that a server keeps, in one SQLite file of its data folder.

Safe from several threads and processes: the server and the verbs that open the same folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from sqlalchemy import Connection, Engine

from deniable.server.store import counters, reports, surveys, tokens
from deniable.server.store.database import create_database, empty_log, open_database, transaction
from deniable.server.store.records import PublishedSurvey, RoundTally, Token


class Store:
    def __init__(self, engine: Engine, data: Path) -> None:
        self._engine, self.data = engine, data

    @classmethod
    def create(cls, data: Path) -> Store:
        """Open a data folder, and make it if it is not there."""
        return cls(create_database(data), data)

    @classmethod
    def open(cls, data: Path) -> Store:
        """Open a data folder that must be there; StoreUnusable says why it cannot be."""
        return cls(open_database(data), data)

    def close(self) -> None:
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # Surveys

    def surveys(self) -> list[PublishedSurvey]:
        """All of them, in the order of publication."""
        with self._reading("read its surveys") as connection:
            return surveys.read_surveys(connection)

    def surveys_mark(self) -> tuple[int, int]:
        """Something small that changes whenever a survey is published or closed."""
        with self._reading("read its surveys") as connection:
            return surveys.surveys_mark(connection)

    def find(self, text: str) -> PublishedSurvey:
        """By name, id, or a beginning of an id of at least 6 digits; Refused says what there is."""
        return surveys.find_survey(self.surveys(), text)

    def publish(self, document: bytes, signature: str, key: str) -> str:
        """Keep a survey that has been verified; the same again changes nothing. Its id."""
        with self._writing("publish a survey") as connection:
            return surveys.add_survey(connection, document, signature, key)

    def close_survey(self, identifier: str) -> None:
        with self._writing("close a survey") as connection:
            surveys.close_survey(connection, identifier)

    def enrolled_keys(self) -> frozenset[str]:
        """The public keys whose surveys may be published over HTTP."""
        with self._reading("read its keys") as connection:
            return surveys.enrolled_keys(connection)

    def enrol_key(self, key: str) -> None:
        with self._writing("enrol a key") as connection:
            surveys.enrol_key(connection, key)

    # Reports

    @contextmanager
    def recording(self) -> Iterator[reports.Recording]:
        """One transaction of the writer: after the block all of it is on disk, or nothing."""
        with self._writing("record reports") as connection:
            yield reports.Recording(connection)

    def tallies(self, identifier: str) -> list[RoundTally]:
        """The counts of every round that has reports, in order."""
        sequence = self.find(identifier).sequence
        with self._reading("read tallies") as connection:
            return reports.read_tallies(connection, sequence)

    def unsealed_rounds(self, sequence: int) -> list[int]:
        """The rounds that have reports and whose envelopes are still kept."""
        with self._reading("read tallies") as connection:
            return reports.unsealed_rounds(connection, sequence)

    def purge(self, sequence: int, rounds: Sequence[int]) -> int:
        """Delete the envelopes of these rounds for good; their tallies stay. How many went."""
        with self._writing("purge envelopes") as connection:
            gone = reports.purge_rounds(connection, sequence, rounds)
        empty_log(self._engine)
        return gone

    # Counters

    def counters(self, identifier: str) -> dict[str, int]:
        """Reports of a survey by outcome: accepted, duplicates, and the codes of refusals."""
        sequence = self.find(identifier).sequence
        with self._reading("read counters") as connection:
            return counters.read_counters(connection, sequence)

    def all_counters(self, sequence: int) -> dict[str, int]:
        with self._reading("read counters") as connection:
            return counters.read_counters(connection, sequence)

    def add_counters(self, counts: Mapping[tuple[int, str], int]) -> None:
        with self._writing("add to its counters") as connection:
            counters.add_counters(connection, counts)

    # Tokens

    def add_token(self, token: str, role: str, now: datetime, expires: datetime) -> None:
        with self._writing("keep a token") as connection:
            tokens.add_token(connection, token, role, now, expires)

    def role_of(self, token: str, now: datetime) -> str | None:
        with self._reading("look up a token") as connection:
            return tokens.role_at(connection, token, now)

    def tokens(self) -> list[Token]:
        with self._reading("read its tokens") as connection:
            return tokens.read_tokens(connection)

    def revoke_token(self, beginning: str) -> Token:
        with self._writing("revoke a token") as connection:
            return tokens.revoke_token(connection, beginning)

    # Health

    def check_writable(self) -> None:
        """Return only if a transaction that writes can begin."""
        with self._writing("begin to write"):
            pass

    def _reading(self, aim: str) -> AbstractContextManager[Connection]:
        return transaction(self._engine, aim, writes=False)

    def _writing(self, aim: str) -> AbstractContextManager[Connection]:
        return transaction(self._engine, aim)
