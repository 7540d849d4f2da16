"""The tables in PostgreSQL: the shared ones and envelopes, and the version that says which.

Rows lie in the order in which they were written, and each names its transaction. So envelopes come
into one of two tables of arrivals while what the other has gathered is settled: merged, in the
order of its key and in one transaction, with what was settled before, into the other of two tables.
Which table an envelope is in says whether it is settled, and nothing else.
"""

from sqlalchemy import BigInteger, Integer, LargeBinary, Table

from deniable.server.store.sql.tables import SHARED, column, metadata

VERSION = 3


def _envelopes(name: str) -> Table:
    return Table(
        name,
        metadata,
        column("survey", Integer, "the survey's sequence", primary_key=True, autoincrement=False),
        column(
            "round", BigInteger, "the round of the reports", primary_key=True, autoincrement=False
        ),
        column("id", LargeBinary, "the envelope's: a retry counts once", primary_key=True),
        column("count", Integer, "how many reports it holds"),
        column("payload", LargeBinary, "the reports as they came"),
        postgresql_with={"autovacuum_enabled": "off"},  # settling does it, and must not meet it
    )


arrivals = (_envelopes("arrivals_0"), _envelopes("arrivals_1"))
settled = (_envelopes("settled_0"), _envelopes("settled_1"))
ENVELOPES = (*arrivals, *settled)
TABLES = (*SHARED, *ENVELOPES)
RECEIVING = "receiving"  # in `about`: which table takes arrivals, 0 or 1
PURGED = "purged"  # in `about`: whether rows were deleted since the last settling
DELETED = "deleted"  # in `about`: the last deleted survey, until nothing of it is left in the files
