"""The tables: every column with its meaning, and the version that says which tables they are.

Nothing here says who sent a report: no address, and no time finer than the round.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
)

VERSION = 2

metadata = MetaData()


def _column(name: str, kind: object, comment: str, *more: object, **options: object) -> Column:  # type: ignore[type-arg]  # columns of many types
    return Column(name, kind, *more, comment=comment, nullable=False, **options)  # type: ignore[arg-type]  # passed on as they are


about = Table(
    "about",
    metadata,
    _column(
        "key",
        String,
        "what is said: `schema`, the version of these tables, and `day`, the latest it ran on",
        primary_key=True,
    ),
    _column("value", String, "what it is, as text"),
)

surveys = Table(
    "surveys",
    metadata,
    _column("sequence", Integer, "order of publication, from 1", primary_key=True),
    _column("id", String(64), "SHA-256 of the document, in hex", unique=True),
    _column("document", LargeBinary, "the published bytes, exactly"),
    _column("signature", String(128), "Ed25519 over the document, in hex"),
    _column("key", String(64), "the public key that signed it, in hex"),
    _column("closed", Boolean, "whether the operator has closed it"),
    sqlite_autoincrement=True,
)

keys = Table(
    "keys",
    metadata,
    _column(
        "key", String(64), "a public key whose surveys this server publishes", primary_key=True
    ),
)

# A bucket fills a fixed place, so that it is overwritten there: that wants an integer key, since
# in a table without one large rows are spread over the inner pages too.
envelopes = Table(
    "envelopes",
    metadata,
    _column("number", Integer, "a hash of survey, round and place: no order", primary_key=True),
    _column("survey", Integer, "the survey's sequence", ForeignKey("surveys.sequence")),
    _column("round", BigInteger, "the round of the reports"),
    _column("place", LargeBinary, "the middle of the ids that belong in the bucket"),
    _column(
        "rows",
        LargeBinary,
        "the bucket: ids, so that a retry counts once, and reports as they came",
    ),
    _column("digest", LargeBinary(8), "of the other columns: damage is noticed"),
    Index("bucket", "survey", "round", "place", unique=True),
)

tallies = Table(
    "tallies",
    metadata,
    _column(
        "survey", Integer, "the survey's sequence", ForeignKey("surveys.sequence"), primary_key=True
    ),
    _column(
        "round", BigInteger, "the round that was counted", primary_key=True, autoincrement=False
    ),
    _column(
        "node", String, "which server counted: nodes never wait for each other", primary_key=True
    ),
    _column("reports", BigInteger, "how many reports were counted"),
    _column("sealed", Boolean, "whether its envelopes are purged: nothing is counted any more"),
    _column("cells", LargeBinary, "the counts, int64 little-endian, as RoundTally has them"),
    _column("digest", LargeBinary(8), "of the other columns: damage is noticed"),
)

counters = Table(
    "counters",
    metadata,
    _column(
        "survey",
        Integer,
        "the survey's sequence; 0: one that is not published here",
        primary_key=True,
        autoincrement=False,
    ),
    _column("outcome", String, "accepted, duplicates, or the code of a refusal", primary_key=True),
    _column("reports", BigInteger, "how many reports ended so"),
)

tokens = Table(
    "tokens",
    metadata,
    _column("hash", String(64), "SHA-256 of the token, in hex", primary_key=True),
    _column("role", String, "operator, analyst or app"),
    _column("created", BigInteger, "when it was made, in seconds since 1970"),
    _column("expires", BigInteger, "from when on it is worth nothing, in seconds since 1970"),
)
