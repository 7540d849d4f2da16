"""The tables in SQLite: the shared ones and envelopes, and the version that says which they are."""

from sqlalchemy import BigInteger, Boolean, Computed, ForeignKey, Index, Integer, LargeBinary, Table

from deniable.server.store.sql.tables import SHARED, column, metadata
from deniable.server.store.sqlite.bucket import PLACE_BYTES

VERSION = 5
ALONE = f"length(place) = {PLACE_BYTES}"

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
    column("alone", Boolean, "whether a single id belongs there", Computed(ALONE, persisted=False)),
    Index("bucket", "survey", "round", "alone", "place", unique=True),
)

TABLES = (*SHARED, envelopes)
