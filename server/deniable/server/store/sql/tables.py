"""The tables that both stores have: every column with its meaning.

Nothing here says who sent a report: no address, and no time finer than the round.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
)

metadata = MetaData()


def column(name: str, kind: object, comment: str, *more: object, **options: object) -> Column:  # type: ignore[type-arg]  # columns of many types
    return Column(name, kind, *more, comment=comment, nullable=False, **options)  # type: ignore[arg-type]  # passed on as they are


about = Table(
    "about",
    metadata,
    column(
        "key",
        String,
        "what is said: `schema`, the version of these tables, and `day`, the latest it ran on",
        primary_key=True,
    ),
    column("value", String, "what it is, as text"),
)

surveys = Table(
    "surveys",
    metadata,
    column("sequence", Integer, "order of publication, from 1", primary_key=True),
    column("id", String(64), "SHA-256 of the document, in hex", unique=True),
    column("document", LargeBinary, "the published bytes, exactly"),
    column("signature", String(128), "Ed25519 over the document, in hex"),
    column("key", String(64), "the public key that signed it, in hex"),
    column("closed", Boolean, "whether the operator has closed it"),
    sqlite_autoincrement=True,
)

keys = Table(
    "keys",
    metadata,
    column("key", String(64), "a public key whose surveys this server publishes", primary_key=True),
)

retired_keys = Table(
    "retired_keys",
    metadata,
    column("key", String(64), "a key that is never enrolled again", primary_key=True),
)

register = Table(
    "register",
    metadata,
    column("number", Integer, "from 1, without gaps", primary_key=True, autoincrement=False),
    column("event", String, "published, closed or deleted"),
    column("survey", String(64), "the survey's id, in hex"),
    column("key", String(64), "the public key that signed it, in hex"),
    column("head", String(64), "SHA-256 of the head before and of this entry, in hex"),
)

tallies = Table(
    "tallies",
    metadata,
    column(
        "survey", Integer, "the survey's sequence", ForeignKey("surveys.sequence"), primary_key=True
    ),
    column(
        "round", BigInteger, "the round that was counted", primary_key=True, autoincrement=False
    ),
    column(
        "node", String, "which server counted: nodes never wait for each other", primary_key=True
    ),
    column("reports", BigInteger, "how many reports were counted"),
    column("sealed", Boolean, "whether its envelopes are purged: nothing is counted any more"),
    column("cells", LargeBinary, "the counts, int64 little-endian, as RoundTally has them"),
    column("digest", LargeBinary(8), "of the other columns: damage is noticed"),
)

counters = Table(
    "counters",
    metadata,
    column(
        "survey",
        Integer,
        "the survey's sequence; 0: one that is not published here",
        primary_key=True,
        autoincrement=False,
    ),
    column("outcome", String, "accepted, duplicates, or the code of a refusal", primary_key=True),
    column("reports", BigInteger, "how many reports ended so"),
)

happened = Table(
    "annotations",
    metadata,
    column(
        "survey", Integer, "the survey's sequence", ForeignKey("surveys.sequence"), primary_key=True
    ),
    column("day", String(10), "on which it happened, as 2026-12-01", primary_key=True),
    column("words", String, "what happened, as an operator says it", primary_key=True),
)

tokens = Table(
    "tokens",
    metadata,
    column("hash", String(64), "SHA-256 of the token, in hex", primary_key=True),
    column("role", String, "operator, analyst or app"),
    column("created", BigInteger, "when it was made, in seconds since 1970"),
    column("expires", BigInteger, "from when on it is worth nothing, in seconds since 1970"),
)

SHARED = (about, surveys, keys, retired_keys, register, tallies, counters, happened, tokens)
