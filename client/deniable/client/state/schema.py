"""The state's tables. Times are whole seconds since 1970; days are ISO text."""

VERSION = 1
APPLICATION = 0x444E424C  # "DNBL": tells our file from any other SQLite file

STATEMENTS = (
    # consent ("yes" once given), fetched (when, and for which policy), dropped (how many)
    "CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    # The ledger. One row for each survey and round that was paid for, never deleted.
    # costs: {question: billionths of ε}; seal: a hash over this row and the seal before it.
    """CREATE TABLE charges (
        number INTEGER PRIMARY KEY,
        survey TEXT NOT NULL,
        round INTEGER NOT NULL,
        costs TEXT NOT NULL,
        seal TEXT NOT NULL,
        UNIQUE (survey, round))""",
    # Each survey's own random key, until the survey's grace is over.
    """CREATE TABLE survey_keys (
        survey TEXT PRIMARY KEY,
        key BLOB NOT NULL,
        until INTEGER NOT NULL)""",
    # Envelopes to send, until their round's grace is over. Numbers are never used twice.
    """CREATE TABLE outbox (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        survey TEXT NOT NULL,
        round INTEGER NOT NULL,
        envelope BLOB NOT NULL,
        until INTEGER NOT NULL,
        UNIQUE (survey, round))""",
    # The server's list as last fetched. A survey that is not to be answered has a problem
    # and no document.
    """CREATE TABLE surveys (
        id TEXT PRIMARY KEY,
        listed INTEGER NOT NULL,
        name TEXT NOT NULL,
        state TEXT NOT NULL,
        document BLOB,
        signature TEXT NOT NULL,
        key TEXT NOT NULL,
        problem TEXT)""",
    # What left this device, or waits to. said: what the report says, question by question;
    # verdict: waiting, accepted, refused, given-up, dropped or withdrawn.
    """CREATE TABLE history (
        number INTEGER PRIMARY KEY,
        survey TEXT NOT NULL,
        name TEXT NOT NULL,
        round INTEGER NOT NULL,
        day TEXT NOT NULL,
        said TEXT NOT NULL,
        verdict TEXT NOT NULL,
        detail TEXT NOT NULL,
        UNIQUE (survey, round))""",
)
