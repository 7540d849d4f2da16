"""The reports of this device: the outbox of waiting envelopes, their schedule, and the history.

An envelope stays in the outbox until its fate is known. Each person has a random key for each
survey, from which the envelope ids are made. With the key, ids of different rounds and surveys
cannot be linked; without it, the envelopes cannot be traced to this device. So the key is
destroyed once the survey accepts no further reports.

A server that never accepts an envelope sees the same id again and again, and can link the addresses
that it comes from. So an envelope is sent at most ten times at first, and then at most once a day.
A try is counted before it is made, so that a try also counts if the app ends while it waits for the
reply. Each envelope waits for a random moment, and the next one is drawn from those that are due.

An acknowledged envelope is kept until its round's grace period ends, in case the server loses it.
Beyond a limit per person and a limit for all, the oldest are deleted. If the list of surveys has a
new epoch of the round, the envelope returns to the outbox, to leave at another random moment. Its
bytes are as deniable as before they were sent, and the survey's key, which is kept longer, links
them to the device anyway.

The history is for the person whose device it is. It holds randomized reports, never an answer, and
the day, not the hour.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from deniable.client.state import Transaction
from deniable.client.state.ledger import OWN, read_setting, withheld, write_setting

if TYPE_CHECKING:
    from deniable.shared.envelope import Envelope
    from deniable.shared.survey.document import Survey
    from deniable.shared.survey.kinds.base import Question

MAX_WAITING = 500  # limit per person, so that no one's reports displace those of others
MAX_WAITING_IN_ALL = 100_000
MAX_NUMBER = 2**63 - 1
MAX_PART = 500  # envelopes in one statement
MAX_DUES = 100  # moments in one statement, which compares each envelope with half of them
COUNT_EVERY = 1_024  # envelopes, on average: counting all of them is slow
MAX_HISTORY = 1_000  # entries per person
MAX_SYMBOL_CHARACTERS = 200
KEY_BYTES = 32
MAX_TRIES = 10
RESERVATION_MARGIN = 5.0  # seconds until the envelopes of an ended reservation are looked at again
MAX_CANDIDATES = 1_000  # so that a hundred thousand due envelopes are not sorted each time
DAY_SECONDS = 86_400.0
MAX_RESEND_SECONDS = 7 * DAY_SECONDS  # the moments after a new epoch are at most this far apart
MAX_ACKNOWLEDGED_BYTES = 2**18  # limit per person
MAX_ACKNOWLEDGED_BYTES_IN_ALL = 2**26
_OLDEST = """DELETE FROM acknowledged WHERE (person, survey, round) IN (
    SELECT person, survey, round FROM (SELECT person, survey, round, sum(length(envelope)) OVER
        (PARTITION BY {part} ORDER BY until DESC, number DESC) AS size
        FROM acknowledged WHERE {which}) AS sized
    WHERE size > {limit})"""

# The envelopes that may be sent to a server. A withdrawal deletes the person's envelopes; the check
# of consent here is a second guard, and `_sendable` adds a third. PostgreSQL turns EXISTS into a
# join, whose plan is a hundred times slower while it has no statistics.
SENDABLE = """server = :server AND (SELECT value FROM settings
    WHERE settings.person = outbox.person AND name = 'consent') = 'yes'"""

# An envelope due after `latest` was scheduled before the clock was set back, so it may go now.
# No report leaves before `earliest`, the moment after its round that was drawn with its first call.
_READY = ("due <= :now", "due > :latest", f"tries < {MAX_TRIES} AND number <= :up_to")
_ANY_READY = f"earliest <= :now AND ({' OR '.join(f'({ready})' for ready in _READY)})"

Delivery = Literal["waiting", "accepted", "relayed", "refused", "given-up", "dropped", "withdrawn"]
Item = TypeVar("Item")


class ReportedSymbol(NamedTuple):
    """Text about one question's symbol in a report. The stored JSON has the names of its fields."""

    question: str
    epsilon: str
    says: str
    odds: str
    drawn_from: int = 1  # number of questions from which this one was drawn
    repeats: int | None = None  # the round whose report is sent again
    chances: Mapping[str, str] = {}  # as `phrases.explain_report` takes it


class HistoryEntry(NamedTuple):
    """Report in the history. `symbols` and `delivery` are the columns `said` and `verdict`."""

    survey: str
    name: str
    round: int
    day: str
    symbols: tuple[ReportedSymbol, ...]
    delivery: Delivery = "waiting"
    detail: str = ""


class QueuedEnvelope(NamedTuple):
    """Envelope in the outbox, with the bytes that are sent on every try."""

    number: int
    person: bytes
    survey: str
    round: int
    packed: bytes  # empty for a draft
    due: float
    slot: int | None = None  # of a draft (drafts.py)
    tries: int = 0  # before this one


def uniform(low: float, high: float) -> float:
    """Draw a number from the operating system."""
    from random import SystemRandom  # only processes that send or wait need it

    return SystemRandom().uniform(low, high)


def random_moment(now: datetime, within: float) -> float:
    """Draw the time at which to send an envelope that is queued now, in seconds since 1970."""
    return now.timestamp() + uniform(0, within)


def put(
    db: Transaction,
    person: bytes,
    envelope: Envelope,
    packed: bytes,
    until: datetime,
    entry: HistoryEntry,
    server: str,
    due: float = 0.0,
    slot: int | None = None,
    kept: datetime | None = None,
) -> None:
    """Queue an envelope for this server, with its entry in the history.

    With a slot, it is a draft, which does not leave before it is due. Once acknowledged, it is kept
    until `kept` or, without it, until its grace period ends. Beyond the limits, the oldest
    envelopes of the person, and then of all, are dropped and counted.
    """
    db.execute(
        "INSERT INTO outbox"
        " (number, person, survey, round, envelope, until, server, due, earliest, slot, kept)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",  # it may be there
        (
            *(db.new_number(), person, envelope.survey, envelope.round, packed),
            *(int(until.timestamp()), server, due, 0.0 if slot is None else due, slot),
            kept and int(kept.timestamp()),
        ),
    )
    add_entry(db, entry, person)
    _drop(db, "WHERE person = ?", (person,), MAX_WAITING)
    if not int.from_bytes(os.urandom(2), "little") % COUNT_EVERY:
        _drop(db, "", (), MAX_WAITING_IN_ALL)


def waiting(db: Transaction, server: str, up_to: int | None = None) -> int:
    """Count the envelopes that wait for this server and may be sent, up to a number."""
    row = db.execute(
        f"SELECT count(*) FROM outbox WHERE {SENDABLE} AND number <= :up_to",  # noqa: S608 - a constant
        {"server": server, "up_to": MAX_NUMBER if up_to is None else up_to},
    ).fetchone()
    return int(row[0])


def dropped(db: Transaction, person: bytes = OWN) -> int:
    """Return the number of a person's reports that were dropped because too many waited."""
    return int(read_setting(db, person, "dropped") or 0)


def newest(db: Transaction) -> int:
    """Return the largest number of an envelope, for any server; 0 if there is none."""
    return int(db.execute("SELECT coalesce(max(number), 0) FROM outbox").fetchone()[0])


def oldest(db: Transaction, server: str, now: datetime) -> list[int]:
    """Return the numbers of the envelopes that have waited longest for this server.

    A draft before its moment, and an envelope that waits for the next day, would be in the way.
    """
    sendable, values = _sendable(db, server)
    free = f"tries < {MAX_TRIES} AND earliest <= :now"
    query = f"SELECT number FROM outbox WHERE {sendable} AND {free} ORDER BY due LIMIT :most"  # noqa: S608 - constants
    values |= {"now": now.timestamp(), "most": MAX_CANDIDATES}
    return [number for (number,) in db.execute(query, values).fetchall()]


def still_waiting(
    db: Transaction, server: str, numbers: Sequence[int]
) -> list[tuple[int, str, int]]:
    """Return the number, survey and round of each of these envelopes that waits for this server."""
    rows = list[tuple[int, str, int]]()
    for part, holders in _parts(numbers):
        where = f"server = ? AND number IN ({holders})"
        query = f"SELECT number, survey, round FROM outbox WHERE {where}"  # noqa: S608 - placeholders
        rows += db.execute(query, (server, *part)).fetchall()
    return rows


def are_being_sent(
    db: Transaction, server: str, numbers: Sequence[int], now: datetime, longest: float
) -> bool:
    """Return whether a process may be sending any of these envelopes.

    It has reserved them, for at most the `longest` seconds, or they are due and it takes them now.
    """
    second = now.timestamp()
    sendable, values = _sendable(db, server)
    values |= {"now": second, "ended": second - RESERVATION_MARGIN, "longest": second + longest}
    moments = "(earliest BETWEEN :ended AND :longest OR (earliest <= :now AND due <= :now))"
    for part, _ in _parts(numbers):
        each = {f"number{count}": number for count, number in enumerate(part)}
        chosen = f"number IN ({', '.join(f':{name}' for name in each)}) AND {sendable}"
        query = f"SELECT 1 FROM outbox WHERE {chosen} AND tries < {MAX_TRIES} AND {moments} LIMIT 1"  # noqa: S608 - constants
        if db.execute(query, values | each).fetchone():
            return True
    return False


def hurry(db: Transaction, numbers: Sequence[int], now: datetime) -> None:
    """Make these envelopes due, unless they wait for the next day after many tries."""
    for part, holders in _parts(numbers):
        where = f"number IN ({holders}) AND tries < {MAX_TRIES} {db.reserving}"
        free = f"SELECT number FROM outbox WHERE {where}"  # noqa: S608 - placeholders
        query = f"UPDATE outbox SET due = ? WHERE number IN ({free})"  # noqa: S608 - placeholders
        db.execute(query, (now.timestamp() - 1, *part))  # another machine's clock may be behind


def finish(db: Transaction, sent: QueuedEnvelope, delivery: Delivery, detail: str = "") -> None:
    """Record an envelope's fate and delete it, even if it was withdrawn while it was being sent."""
    finish_batch(db, [sent], delivery, detail)


def survey_key(db: Transaction, person: bytes, survey: str, until: datetime) -> bytes:
    """Return a person's key for a survey, which is created on first use."""
    db.execute(
        "INSERT INTO survey_keys VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (person, survey, os.urandom(KEY_BYTES), int(until.timestamp())),
    )
    key = kept_key(db, person, survey)
    assert key is not None, "it was just created"
    return key


def kept_key(db: Transaction, person: bytes, survey: str) -> bytes | None:
    """Return a person's key for a survey, if there is one."""
    query = "SELECT key FROM survey_keys WHERE person = ? AND survey = ?"
    row = db.execute(query, (person, survey)).fetchone()
    if row is not None and len(row[0]) != KEY_BYTES:
        raise ValueError("the survey's key is damaged")
    return None if row is None else bytes(row[0])


def delete_expired(db: Transaction, now: datetime) -> None:
    """Give up late envelopes, and destroy expired keys and kept reports."""
    second = {"now": int(now.timestamp())}
    late = db.execute(f"SELECT number FROM outbox WHERE {db.expired('outbox')}", second).fetchall()  # noqa: S608
    _remove(db, [number for (number,) in late], "given-up", "it could not be sent in time")
    for table in ("survey_keys", "kept_reports", "draft_surveys", "acknowledged"):
        deleted = db.execute(f"DELETE FROM {table} WHERE {db.expired(table)}", second)  # noqa: S608
        db.erased |= deleted.rowcount > 0


def withdraw_all(db: Transaction, person: bytes) -> None:
    """Delete a person's envelopes and kept reports."""
    for table in ("kept_reports", "acknowledged"):
        db.execute(f"DELETE FROM {table} WHERE person = ?", (person,))  # noqa: S608 - names above
    rows = db.execute("SELECT number FROM outbox WHERE person = ?", (person,)).fetchall()
    _remove(db, [number for (number,) in rows], "withdrawn", "")
    db.erased = True


def send_again(db: Transaction, server: str, now: datetime) -> None:
    """Queue acknowledged envelopes whose round has a new epoch, each for a random moment.

    The moments are far apart, so that timing does not link the envelopes of a device.
    """
    query = "SELECT survey, round, epoch FROM epochs WHERE server = ?"
    for survey, round_, epoch in db.execute(query, (server,)).fetchall():
        where = "server = ? AND survey = ? AND round = ? AND epoch < ?"
        rows = db.execute(
            f"SELECT number, person, envelope, until FROM acknowledged WHERE {where}"  # noqa: S608 - see above
            f" LIMIT {MAX_CANDIDATES}",
            (server, survey, round_, epoch),
        ).fetchall()
        for number, person, envelope, until in rows:
            updated = db.execute(
                "UPDATE acknowledged SET epoch = ? WHERE person = ? AND survey = ? AND round = ?"
                " AND epoch < ?",
                (epoch, person, survey, round_, epoch),
            )
            if not updated.rowcount:
                continue  # another process was faster
            longest = min(MAX_RESEND_SECONDS, (until - now.timestamp()) / 2)
            due = random_moment(now, max(0.0, longest))
            db.execute(
                "INSERT INTO outbox (number, person, survey, round, envelope, until, server, due,"
                " earliest) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                (number, person, survey, round_, envelope, until, server, due, due),
            )


def fewest_tries(
    db: Transaction, server: str, now: datetime, up_to: int, within: float
) -> int | None:
    """Return the least number of tries of the envelopes that `take` may return; None without one.

    The first try must be durable before a connection is opened.
    """
    candidates, values = _candidates(db, server, now, up_to, within)
    query = f"SELECT min(tries) FROM outbox WHERE number IN ({candidates})"  # noqa: S608 - constants
    row = db.execute(query, values).fetchone()
    return None if row is None or row[0] is None else int(row[0])


def take(
    db: Transaction,
    server: str,
    now: datetime,
    up_to: int,
    within: float,
    least_tries: int = 0,
    reserved: float = 0.0,
) -> QueuedEnvelope | None:
    """Return an envelope that may be sent now, and count the try. A flush sets `up_to`.

    No other process sends it for the seconds that it is reserved.
    """
    candidates, values = _candidates(db, server, now, up_to, within)
    query = f"""
        SELECT number, person, survey, round, envelope, due, slot, tries FROM outbox
        WHERE number IN ({candidates}) AND tries >= :least AND earliest <= :now
        ORDER BY random() LIMIT 1 {db.reserving}"""  # noqa: S608 - constants
    row = db.execute(query, values | {"least": least_tries}).fetchone()
    if row is None:
        return None
    taken = QueuedEnvelope(*row)
    due, earliest = _due_after_try(taken, now), now.timestamp() + reserved if reserved else 0.0
    db.execute(
        "UPDATE outbox SET tries = ?, due = ?, earliest = ? WHERE number = ?",
        (taken.tries + 1, due, earliest, taken.number),
    )
    return taken


def waiting_row(db: Transaction, person: bytes, survey: str, round_: int) -> QueuedEnvelope | None:
    """Return a person's row in the outbox for a round."""
    row = db.execute(
        "SELECT number, person, survey, round, envelope, due, slot FROM outbox"
        " WHERE person = ? AND survey = ? AND round = ?",
        (person, survey, round_),
    ).fetchone()
    return None if row is None else QueuedEnvelope(*row)


def freeze(
    db: Transaction, draft: QueuedEnvelope, packed: bytes, symbols: tuple[ReportedSymbol, ...]
) -> None:
    """Give a draft the bytes that are sent on every try, and release its slot."""
    db.execute(
        "UPDATE outbox SET envelope = ?, slot = NULL WHERE number = ?", (packed, draft.number)
    )
    db.execute(
        "UPDATE history SET said = ?, detail = '' WHERE person = ? AND survey = ? AND round = ?",
        (_described(symbols), draft.person, draft.survey, draft.round),
    )


def seconds_until_due(db: Transaction, server: str, now: datetime) -> float | None:
    """Return the seconds until the next envelope is due; None if none waits."""
    sendable, values = _sendable(db, server)
    query = f"SELECT due FROM outbox WHERE {sendable} ORDER BY due LIMIT 1"  # noqa: S608 - constants
    first = db.execute(query, values).fetchone()
    return None if first is None else max(0.0, first[0] - now.timestamp())


def reschedule(db: Transaction, server: str, now: datetime, within: float, up_to: int) -> None:
    """Give due envelopes above a number new random moments, because many are due after a pause."""
    if not within:
        return  # all of them would be due now, as they are
    sendable, values = _sendable(db, server)
    late = {"late": now.timestamp() - db.normal_delay, "up_to": up_to}
    due = db.execute(
        f"SELECT number FROM outbox WHERE {sendable} AND due <= :late AND number > :up_to"  # noqa: S608 - constants
        f" {db.reserving}",
        values | late,
    ).fetchall()
    _write_dues(db, [(number, random_moment(now, within)) for (number,) in due])


# Batches: envelopes of one survey and round, and so of different people


def due_batch(
    db: Transaction, server: str, now: datetime, up_to: int, within: float, most: int
) -> list[QueuedEnvelope]:
    """Return envelopes that may be sent now, of one random survey and round."""
    sendable, who = _sendable(db, server)
    values: dict[str, object] = {**who, **_bounds(now, up_to, within), "most": most}
    ready = f"FROM outbox WHERE {sendable} AND {_ANY_READY}"
    query = f"""SELECT survey, round FROM (SELECT survey, round {ready} LIMIT {MAX_CANDIDATES})
        AS ready ORDER BY random() LIMIT 1"""  # noqa: S608 - constants
    first = db.execute(query, values).fetchone()
    if first is None:
        return []
    values["survey"], values["round"] = first
    query = f"""
        SELECT number, person, survey, round, envelope, due, slot, tries
        {ready} AND survey = :survey AND round = :round ORDER BY due LIMIT :most {db.reserving}"""
    return [QueuedEnvelope(*row) for row in db.execute(query, values).fetchall()]


def reserve(
    db: Transaction, batch: Sequence[QueuedEnvelope], now: datetime, seconds: float
) -> None:
    """Count a try of each envelope, and reserve it for this process for some seconds."""
    until = now.timestamp() + seconds
    for part, holders in _parts(batch):
        query = f"UPDATE outbox SET tries = tries + 1, earliest = ? WHERE number IN ({holders})"  # noqa: S608
        db.execute(query, (until, *(envelope.number for envelope in part)))
    _write_dues(db, [(e.number, _due_after_try(e, now)) for e in batch if _is_last_try(e)])


def release(db: Transaction, batch: Sequence[QueuedEnvelope], tried: bool) -> None:
    """Let envelopes be sent again. If they never reached the server, undo the count of the try."""
    for part, holders in _parts(batch):
        query = f"UPDATE outbox SET tries = tries - ?, earliest = 0 WHERE number IN ({holders})"  # noqa: S608
        db.execute(query, (int(not tried), *(envelope.number for envelope in part)))
    if not tried:
        _write_dues(db, [(e.number, e.due) for e in batch if _is_last_try(e)])


def finish_batch(
    db: Transaction, batch: Sequence[QueuedEnvelope], delivery: Delivery, detail: str = ""
) -> None:
    """Record the outcome of envelopes of one survey and round, and delete them.

    Acknowledged envelopes are kept apart, unless they were withdrawn while being sent.
    """
    for part, holders in _parts(batch):
        if delivery in ("accepted", "relayed"):
            _keep_acknowledged(db, part, holders)
        query = f"DELETE FROM outbox WHERE number IN ({holders})"  # noqa: S608 - placeholders
        db.execute(query, [envelope.number for envelope in part])
        people = [envelope.person for envelope in part]
        _settle(db, people, part[0].survey, part[0].round, delivery, detail)


def _keep_acknowledged(db: Transaction, part: Sequence[QueuedEnvelope], holders: str) -> None:
    """Keep acknowledged envelopes, with their round's latest epoch in the list on disk."""
    db.execute(
        "INSERT INTO acknowledged SELECT number, person, survey, round, envelope,"  # noqa: S608 - placeholders
        " coalesce(kept, until), server,"
        " coalesce((SELECT epoch FROM epochs WHERE epochs.server = outbox.server AND"
        " epochs.survey = outbox.survey AND epochs.round = outbox.round), 0)"
        f" FROM outbox WHERE number IN ({holders}) ON CONFLICT DO NOTHING",
        [envelope.number for envelope in part],
    )
    of_these = f"person IN ({holders})"
    delete = _OLDEST.format(part="person", which=of_these, limit=MAX_ACKNOWLEDGED_BYTES)
    db.execute(delete, [envelope.person for envelope in part])
    if not int.from_bytes(os.urandom(2), "little") % COUNT_EVERY:
        limit = MAX_ACKNOWLEDGED_BYTES_IN_ALL
        db.execute(_OLDEST.format(part="0", which="TRUE", limit=limit))


def _parts(batch: Sequence[Item]) -> Iterator[tuple[Sequence[Item], str]]:
    """Yield the envelopes in parts, one for each statement, with a placeholder per envelope."""
    for start in range(0, len(batch), MAX_PART):
        part = batch[start : start + MAX_PART]
        yield part, ", ".join("?" * len(part))


def _is_last_try(envelope: QueuedEnvelope) -> bool:
    return envelope.tries + 1 >= MAX_TRIES


def _due_after_try(envelope: QueuedEnvelope, now: datetime) -> float:
    """Return when an envelope is due after a try: the next day, if it has had many tries."""
    if not _is_last_try(envelope):
        return envelope.due
    return now.timestamp() + uniform(DAY_SECONDS, 1.5 * DAY_SECONDS)


def _write_dues(db: Transaction, dues: Sequence[tuple[int, float]]) -> None:
    """Write many moments with each statement: a database may be far away."""
    for start in range(0, len(dues), MAX_DUES):
        part = dues[start : start + MAX_DUES]
        cases, holders = "WHEN ? THEN ? " * len(part), ", ".join("?" * len(part))
        query = f"UPDATE outbox SET due = CASE number {cases}END WHERE number IN ({holders})"  # noqa: S608 - placeholders
        db.execute(query, [*chain.from_iterable(part), *(number for number, _ in part)])


# The history


def describe_report(
    questions: Iterable[Question],
    symbols: Iterable[int | None],
    drawn_from: int = 1,
    repeats: int | None = None,
) -> tuple[ReportedSymbol, ...]:
    """Describe each symbol of a report, and how certain it is."""
    described = []
    for question, symbol in zip(questions, symbols, strict=True):
        if symbol is not None:
            text, odds = question.describe(symbol), question.mechanism.explain(symbol)
            limit, chances = MAX_SYMBOL_CHARACTERS, question.chances(symbol)
            says = text if len(text) <= limit else f"{text[:limit]}…"
            epsilon = str(question.epsilon)
            described.append(
                ReportedSymbol(question.name, epsilon, says, odds, drawn_from, repeats, chances)
            )
    return tuple(described)


def describe_envelope(
    survey: Survey, payload: bytes, symbols: Iterable[int | None], repeats: int | None = None
) -> tuple[ReportedSymbol, ...]:
    """Describe a report and its labels, which are neither randomized nor charged."""
    from deniable.shared.envelope import decode_labels

    labels = tuple(
        ReportedSymbol(name, "0", "not given" if value is None else value, "sent in clear")
        for name, value in decode_labels(survey, payload).items()
    )
    return labels + describe_report(survey.questions, symbols, survey.drawn_from, repeats)


def add_entry(db: Transaction, entry: HistoryEntry, person: bytes = OWN) -> None:
    """Add a queued report to the history. The person's oldest entries make room."""
    values = {"person": person, **entry._asdict(), "said": _described(entry.symbols)}
    db.execute(
        "INSERT INTO history SELECT coalesce(max(number), 0) + 1, :person, :survey, :name, :round,"  # noqa: S608
        f" :day, :said, :delivery, :detail FROM history WHERE {db.numbered}"
        " ON CONFLICT (person, survey, round) DO UPDATE SET number = excluded.number,"
        " day = excluded.day, said = excluded.said, verdict = excluded.verdict,"
        " detail = excluded.detail",
        values,
    )
    db.execute(
        "DELETE FROM history WHERE person = :person AND number <= (SELECT number FROM history"
        " WHERE person = :person ORDER BY number DESC LIMIT 1 OFFSET :limit)",
        {"person": person, "limit": MAX_HISTORY},
    )


def history_of(db: Transaction, person: bytes = OWN) -> list[HistoryEntry]:
    """Return a person's history, oldest entry first."""
    rows = db.execute(
        "SELECT survey, name, round, day, said, verdict, detail FROM history"
        " WHERE person = ? ORDER BY number",
        (person,),
    )
    entries = []
    for survey, name, round_, day, described, delivery, detail in rows:
        symbols = tuple(ReportedSymbol(**symbol) for symbol in json.loads(described))
        entries.append(HistoryEntry(survey, name, round_, day, symbols, delivery, detail))
    return entries


def settle(
    db: Transaction, person: bytes, survey: str, round_: int, delivery: Delivery, detail: str = ""
) -> None:
    """Record the fate of a report, unless the server's reply has already decided it."""
    _settle(db, [person], survey, round_, delivery, detail)


def _settle(
    db: Transaction,
    people: Sequence[bytes],
    survey: str,
    round_: int,
    delivery: Delivery,
    detail: str,
) -> None:
    holders = ", ".join("?" * len(people))
    db.execute(
        "UPDATE history SET verdict = ?, detail = ? WHERE survey = ? AND round = ?"  # noqa: S608
        f" AND person IN ({holders}) AND verdict NOT IN ('accepted', 'relayed', 'refused')",
        (delivery, detail, survey, round_, *people),
    )


def _described(symbols: Iterable[ReportedSymbol]) -> str:
    return json.dumps([symbol._asdict() for symbol in symbols], ensure_ascii=False)


def _sendable(db: Transaction, server: str) -> tuple[str, dict[str, object]]:
    """Return the SQL condition for envelopes that may be sent to a server, and its values."""
    others, values = withheld(db)
    return f"{SENDABLE} {others}", {"server": server, **values}


def _candidates(
    db: Transaction, server: str, now: datetime, up_to: int, within: float
) -> tuple[str, dict[str, object]]:
    """Return the query for the numbers of envelopes that may be sent now, and its values."""
    sendable, values = _sendable(db, server)
    queries = (
        f"""SELECT * FROM (SELECT number FROM outbox
        WHERE {sendable} AND earliest <= :now AND {ready} LIMIT {MAX_CANDIDATES}) AS ready"""  # noqa: S608 - constants
        for ready in _READY
    )
    return " UNION ALL ".join(queries), values | _bounds(now, up_to, within)


def _bounds(now: datetime, up_to: int, within: float) -> dict[str, float]:
    """Return the values in `_READY`."""
    second = now.timestamp()
    return {"now": second, "latest": second + 2 * DAY_SECONDS + within, "up_to": up_to}


def _drop(db: Transaction, where: str, values: tuple[bytes, ...], limit: int) -> None:
    (count,) = db.execute(f"SELECT count(*) FROM outbox {where}", values).fetchone()  # noqa: S608
    if count <= limit:
        return
    oldest = db.execute(
        f"SELECT number, person FROM outbox {where} ORDER BY until, number LIMIT ?",  # noqa: S608 - see put
        (*values, count - limit),
    ).fetchall()
    _remove(db, [number for number, _ in oldest], "dropped", "too many reports were waiting")
    for person, losses in Counter(person for _, person in oldest).items():
        write_setting(db, person, "dropped", str(dropped(db, person) + losses))


def _remove(db: Transaction, numbers: list[int], delivery: Delivery, detail: str) -> None:
    for number in numbers:
        query = "SELECT person, survey, round FROM outbox WHERE number = ?"
        removed = db.execute(query, (number,)).fetchall()
        db.execute("DELETE FROM outbox WHERE number = ?", (number,))
        for person, survey, round_ in removed:
            settle(db, person, survey, round_, delivery, detail)
    db.erased |= bool(numbers)
