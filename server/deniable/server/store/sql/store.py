"""What both stores do in the same way: all but envelopes, transactions and what is theirs alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import date, datetime
from types import TracebackType
from typing import Self

from sqlalchemy import Connection, select

from deniable.server.store.records import Annotation, RoundTally, SurveyRow, Token
from deniable.server.store.register import RegisterEntry
from deniable.server.store.sql import happening, register, reports, surveys, tokens
from deniable.server.store.sql.tables import about
from deniable.server.store.sql.upsert import put

DAY = "day"


class SqlStore(ABC):
    """`Store` says what the methods do."""

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def _reading(self, aim: str) -> AbstractContextManager[Connection]: ...

    def _reading_reports(self, aim: str) -> AbstractContextManager[Connection]:
        return self._reading(aim)

    @abstractmethod
    def _writing(self, aim: str) -> AbstractContextManager[Connection]: ...

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

    def surveys_mark(self) -> int:
        with self._reading("read its surveys") as connection:
            return register.register_length(connection)

    def surveys(self, after: int = 0) -> list[SurveyRow]:
        with self._reading("read its surveys") as connection:
            return surveys.read_surveys(connection, after)

    def survey_states(self) -> Mapping[int, bool]:
        with self._reading("read its surveys") as connection:
            return surveys.survey_states(connection)

    def publish(self, document: bytes, signature: str, key: str) -> str:
        with self._writing("publish a survey") as connection:
            return surveys.add_survey(connection, document, signature, key)

    def close_survey(self, sequence: int) -> None:
        with self._writing("close a survey") as connection:
            surveys.close_survey(connection, sequence)

    def register(self, after: int = 0, most: int | None = None) -> list[RegisterEntry]:
        with self._reading("read its register") as connection:
            return register.read_register(connection, after, most)

    def enrolled_keys(self) -> frozenset[str]:
        with self._reading("read its keys") as connection:
            return surveys.enrolled_keys(connection)

    def enrol_key(self, key: str) -> None:
        with self._writing("enrol a key") as connection:
            surveys.enrol_key(connection, key)

    def retired_keys(self) -> frozenset[str]:
        with self._reading("read its keys") as connection:
            return surveys.read_retired_keys(connection)

    def retire_key(self, key: str) -> None:
        with self._writing("retire a key") as connection:
            surveys.retire_key(connection, key)

    # Reports

    def tallies(
        self, sequence: int, first: int | None = None, last: int | None = None
    ) -> list[RoundTally]:
        with self._reading_reports("read tallies") as connection:
            return reports.read_tallies(connection, sequence, first, last)

    def report_totals(self) -> Mapping[int, int]:
        with self._reading_reports("read tallies") as connection:
            return reports.report_totals(connection)

    def unsealed_rounds(self) -> Mapping[int, Sequence[int]]:
        with self._reading_reports("read tallies") as connection:
            return reports.unsealed_rounds(connection)

    def seal(self, sequence: int, rounds: Sequence[int]) -> None:
        with self._writing("seal rounds") as connection:
            reports.seal_rounds(connection, sequence, rounds)

    # Annotations

    def annotations(self, sequence: int) -> list[Annotation]:
        with self._reading("read its annotations") as connection:
            return happening.read_annotations(connection, sequence)

    def annotate(self, sequence: int, annotation: Annotation) -> None:
        with self._writing("annotate a survey") as connection:
            happening.annotate(connection, sequence, annotation)

    def remove_annotation(self, sequence: int, annotation: Annotation) -> bool:
        with self._writing("remove an annotation") as connection:
            return happening.remove_annotation(connection, sequence, annotation)

    # Counters

    def counters(self, sequence: int) -> Mapping[str, int]:
        with self._reading("read counters") as connection:
            return reports.read_counters(connection, sequence)

    def add_counters(self, counts: Mapping[tuple[int, str], int]) -> None:
        with self._writing("add to its counters") as connection:
            reports.add_counters(connection, counts)

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

    def revoke_token(self, identifier: str) -> None:
        with self._writing("revoke a token") as connection:
            tokens.revoke_token(connection, identifier)

    # The calendar

    def latest_day(self) -> date | None:
        query = select(about.c.value).where(about.c.key == DAY)
        with self._reading("read its latest day") as connection:
            day = connection.scalar(query)
        return None if day is None else date.fromisoformat(day)

    def keep_day(self, day: date) -> None:
        with self._writing("keep the day") as connection:
            put(connection, about, {"key": DAY, "value": day.isoformat()})
