"""How reports ended: counted by survey and outcome, beside the uploads and never inside them."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, select
from sqlalchemy.dialects.sqlite import insert

from deniable.server.store.schema import counters

NO_SURVEY = 0  # reports for a survey that is not published here


def read_counters(connection: Connection, sequence: int) -> dict[str, int]:
    query = select(counters.c.outcome, counters.c.reports).where(counters.c.survey == sequence)
    return {row.outcome: row.reports for row in connection.execute(query)}


def add_counters(connection: Connection, counts: Mapping[tuple[int, str], int]) -> None:
    for (sequence, outcome), reports in counts.items():
        statement = insert(counters).values(survey=sequence, outcome=outcome, reports=reports)
        total = {"reports": counters.c.reports + reports}
        connection.execute(
            statement.on_conflict_do_update(index_elements=["survey", "outcome"], set_=total)
        )
