"""The tables in SQLite: the shared ones and envelopes, and the version that says which they are."""

from sqlalchemy import BigInteger, Computed, ForeignKey, Index, Integer, LargeBinary, Table

from deniable.server.store.sql.tables import SHARED, column, metadata
from deniable.server.store.sqlite.bucket import PLACE_BYTES

VERSION = 6
KIND = f"max(length(place), {PLACE_BYTES - 1}) - {PLACE_BYTES - 1}"

# A bucket fills a fixed place, so that it is overwritten there: that wants an integer key, since
# in a table without one large rows are spread over the inner pages too.
envelopes = Table(
    "envelopes",
    metadata,
    column("number", Integer, "a hash of survey, round and place: no order", primary_key=True),
    column("survey", Integer, "the survey's sequence", ForeignKey("surveys.sequence")),
    column("round", BigInteger, "the round of the reports"),
    column("place", LargeBinary, "the middle of the ids that belong in the bucket"),
    column(
        "rows",
        LargeBinary,
        "the bucket: ids, so that a retry counts once, and reports as they came",
    ),
    column("digest", LargeBinary(8), "of the columns before it: damage is noticed"),
    column(
        "kind",
        Integer,
        "0: a bucket, 1: an envelope that is alone, more: a part of such a one, not its first",
        Computed(KIND, persisted=False),
    ),
    Index("bucket", "survey", "round", "kind", "place", unique=True),
)

TABLES = (*SHARED, envelopes)
