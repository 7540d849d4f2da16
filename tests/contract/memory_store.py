"""In-memory store that was written from the protocol alone, as a newcomer would write a store.

It persists nothing and does not hide any order. It shows that intake, results and pages need only
the methods of the protocol.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from typing import Self

from deniable.server.store import (
    COMMAND,
    Annotation,
    AuditEntry,
    Crowd,
    Epoch,
    Event,
    Kept,
    LabelCounts,
    PublicPage,
    Purged,
    RegisterEntry,
    RoundTally,
    Share,
    SurveyRow,
    Token,
    Unsettled,
    Upload,
    UploadKey,
    next_entry,
)
from deniable.server.store.label_counts import KEY_BYTES
from deniable.server.store.records import TOTAL, Released
from deniable.shared.errors import Refused, StoreUnusable
from deniable.shared.survey.document import survey_id

Round = tuple[int, int]


@dataclass
class Contents:
    """Complete contents of the store."""

    rows: dict[int, SurveyRow] = field(default_factory=dict)
    closings: dict[int, datetime] = field(default_factory=dict)
    published: int = 0
    entries: list[RegisterEntry] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    retired: set[str] = field(default_factory=set)
    counts: dict[Round, RoundTally] = field(default_factory=dict)
    released: dict[Round, Released] = field(default_factory=dict)
    sealed: set[Round] = field(default_factory=set)
    kept: dict[Round, dict[bytes, Kept]] = field(default_factory=dict)
    invited: dict[int, dict[bytes, bool]] = field(default_factory=dict)  # code: whether spent
    events: dict[int, set[Annotation]] = field(default_factory=dict)
    outcomes: dict[tuple[int, str], int] = field(default_factory=dict)
    batches: dict[tuple[int, int, bytes, bytes], int] = field(default_factory=dict)
    drops: dict[tuple[int, int, bytes], int] = field(default_factory=dict)
    pages: dict[str, PublicPage] = field(default_factory=dict)
    held: dict[str, Token] = field(default_factory=dict)  # key: hash of the token
    actions: set[AuditEntry] = field(default_factory=set)
    alerts: dict[tuple[int, str], str] = field(default_factory=dict)
    shared: dict[str, tuple[Share, bytes]] = field(default_factory=dict)
    day: date | None = None

    def record(self, actor: str, action: str, subject: str) -> None:
        self.actions.add(AuditEntry(datetime.now(UTC).date(), actor, action, subject))

    def note(self, event: Event, row: SurveyRow, by: str) -> None:
        self.record(by, f"{event} a survey", row.id[:12])
        self.enter(event, row.id, row.key)

    def enter(self, event: Event, survey: str, key: str) -> None:
        before = self.entries[-1] if self.entries else None
        self.entries.append(next_entry(before, event, survey, key))


@dataclass(eq=False)
class Memory:
    """Location of a store in memory."""

    name: str
    contents: Contents | None = None
    lock: threading.RLock = field(default_factory=threading.RLock)

    def __str__(self) -> str:
        return self.name


class MemoryTransaction:
    def __init__(self, contents: Contents) -> None:
        self._now = contents

    def is_sealed(self, sequence: int, number: int) -> bool:
        return (sequence, number) in self._now.sealed

    def stored(self, uploads: Sequence[Upload]) -> set[UploadKey]:
        return {u.key for u in uploads if u.id in self._now.kept.get(u.key[:2], {})}

    def spend(self, sequence: int, codes: Sequence[bytes]) -> Mapping[bytes, bool]:
        invited = self._now.invited.get(sequence, {})
        found = {code: not invited[code] for code in codes if code in invited}
        invited |= dict.fromkeys(found, True)
        return found

    def insert(self, uploads: Sequence[Upload]) -> set[UploadKey]:
        new: set[UploadKey] = set()
        for upload in uploads:
            envelopes = self._now.kept.setdefault((upload.survey.sequence, upload.round), {})
            if upload.id not in envelopes:
                envelopes[upload.id] = Kept(upload.id, upload.count, upload.payload)
                new.add(upload.key)
        return new

    def count_batches(
        self, sequence: int, number: int, counts: Mapping[tuple[bytes, bytes], int]
    ) -> None:
        for key, reports in counts.items():
            row = (sequence, number, *key)
            self._now.batches[row] = self._now.batches.get(row, 0) + reports

    def add(self, sequence: int, tally: RoundTally) -> None:
        before = self._now.counts.get((sequence, tally.round))
        self._now.counts[sequence, tally.round] = before + tally if before else tally


class MemoryReader:
    def __init__(self, contents: Contents) -> None:
        self._read_only = contents

    @property
    def _now(self) -> Contents:
        return self._read_only

    def surveys_mark(self) -> int:
        return len(self._now.entries)

    def surveys(self, after: int = 0) -> list[SurveyRow]:
        return [row for sequence, row in sorted(self._now.rows.items()) if sequence > after]

    def survey_states(self) -> Mapping[int, date | None]:
        return {sequence: row.closed for sequence, row in self._now.rows.items()}

    def epochs(self) -> Mapping[int, tuple[Epoch, ...]]:
        return {key: row.epochs for key, row in self._now.rows.items() if row.epochs}

    def closings(self) -> dict[int, datetime]:
        return self._now.closings

    def register(self, after: int = 0, most: int | None = None) -> list[RegisterEntry]:
        return self._now.entries[after : None if most is None else after + most]

    def enrolled_keys(self) -> frozenset[str]:
        return frozenset(self._now.keys)

    def retired_keys(self) -> frozenset[str]:
        return frozenset(self._now.retired)

    def tallies(
        self, sequence: int, first: int | None = None, last: int | None = None
    ) -> list[RoundTally]:
        return self._of(self._now.counts, sequence, first, last)

    def released(
        self, sequence: int, first: int | None = None, last: int | None = None
    ) -> list[RoundTally]:
        rounds = dict[Round, RoundTally]()
        for key, parts in self._now.released.items():
            if (total := parts.get(TOTAL)) is None:
                continue
            labels = {k: v for part in parts.values() for k, v in part.labels.items()}
            rounds[key] = RoundTally(key[1], total.reports, total.cells, LabelCounts(labels))
        return self._of(rounds, sequence, first, last)

    def _of(
        self,
        counts: Mapping[Round, RoundTally],
        sequence: int,
        first: int | None,
        last: int | None,
    ) -> list[RoundTally]:
        return [
            tally
            for (survey, number), tally in sorted(counts.items())
            if survey == sequence
            and (first is None or number >= first)
            and (last is None or number <= last)
        ]

    def report_totals(self, unfinished: Mapping[int, range] | None = None) -> Mapping[int, int]:
        totals, now = Counter[int](), self._now
        for (sequence, number), tally in now.counts.items():
            if number not in (unfinished or {}).get(sequence, ()):
                totals[sequence] += tally.reports
            elif parts := now.released.get((sequence, number)):
                totals[sequence] += parts[TOTAL].reports
        return totals

    def unsealed_rounds(self) -> Mapping[int, Sequence[int]]:
        rounds: dict[int, list[int]] = {}
        for sequence, number in sorted(self._now.counts.keys() - self._now.sealed):
            rounds.setdefault(sequence, []).append(number)
        return rounds

    def annotations(self, sequence: int) -> list[Annotation]:
        return sorted(self._now.events.get(sequence, ()))

    def counters(self, sequence: int) -> Mapping[str, int]:
        outcomes = self._now.outcomes.items()
        return {outcome: count for (survey, outcome), count in outcomes if survey == sequence}

    def crowds(self, sequence: int) -> Mapping[int, Crowd]:
        crowds: dict[int, Crowd] = {}
        for (survey, number, _, labels), reports in self._now.batches.items():
            if survey == sequence:
                before = crowds.get(number, Crowd(reports))
                smallest, by_labels = min(before.smallest, reports), dict(before.by_labels)
                if labels:
                    by_labels[labels] = min(by_labels.get(labels, reports), reports)
                crowds[number] = Crowd(
                    smallest, before.reports + reports, by_labels=tuple(sorted(by_labels.items()))
                )
        for (survey, number, _), dropped in self._now.drops.items():
            if survey == sequence:
                before = crowds.get(number, Crowd())
                crowds[number] = before._replace(dropped=before.dropped + dropped)
        return crowds

    def public_page(self, path: str) -> PublicPage | None:
        return self._now.pages.get(path)

    def valid_token(self, token: str, now: datetime) -> Token | None:
        held = self._now.held.get(hashlib.sha256(token.encode()).hexdigest())
        return held if held and held.expires > now else None

    def tokens(self) -> list[Token]:
        return sorted(self._now.held.values(), key=lambda token: (token.created, token.id))

    def audit(self) -> list[AuditEntry]:
        return sorted(sorted(self._now.actions), key=lambda entry: entry.day, reverse=True)

    def shares(self) -> list[Share]:
        listed = (share for share, _ in self._now.shared.values())
        return sorted(listed, key=lambda share: (share.expires, share.path))

    def shared_page(self, path: str, today: date) -> bytes | None:
        share, page = self._now.shared.get(path, (None, b""))
        return page or None if share and share.expires >= today else None

    def alert_states(self) -> Mapping[tuple[int, str], str]:
        return dict(self._now.alerts)

    def latest_day(self) -> date | None:
        return self._now.day


class MemoryStore(MemoryReader):
    """Store that applies each write to a copy, which replaces the contents if all succeeds."""

    def __init__(self, place: Memory) -> None:
        self._place = place

    @classmethod
    def create(cls, place: Memory) -> Self:
        place.contents = place.contents or Contents()
        return cls(place)

    @classmethod
    def open(cls, place: Memory, node: str = "") -> Self:
        if place.contents is None:
            raise StoreUnusable(f"{place} holds no deniable data; create a store: deniable serve")
        return cls(place)

    @property
    def _now(self) -> Contents:
        assert self._place.contents is not None
        return self._place.contents

    @contextmanager
    def _changed(self) -> Iterator[Contents]:
        with self._place.lock:
            changed = deepcopy(self._now)
            yield changed
            self._place.contents = changed

    @property
    def option(self) -> str:
        return f"--memory {self._place}"

    def close(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def snapshot(self) -> Iterator[MemoryReader]:
        yield MemoryReader(self._now)

    def check_writable(self) -> None:
        pass

    def failover_risk(self) -> None:
        pass

    def publish(self, document: bytes, signature: str, key: str, by: str = COMMAND) -> str:
        identifier = survey_id(document)
        with self._changed() as now:
            if all(row.id != identifier for row in now.rows.values()):
                now.published += 1
                sequence = now.published
                label_key = os.urandom(KEY_BYTES)
                row = SurveyRow(sequence, identifier, document, signature, key, None, label_key)
                now.rows[sequence] = row
                now.note("published", row, by)
        return identifier

    def close_survey(self, sequence: int, moment: datetime, by: str = COMMAND) -> None:
        with self._changed() as now:
            row = now.rows.get(sequence)
            if row and not row.closed:
                now.rows[sequence] = replace(row, closed=moment.date())
                now.closings[sequence] = moment
                now.note("closed", row, by)

    def reconcile(self, sequence: int, epochs: Sequence[Epoch], by: str = COMMAND) -> None:
        with self._changed() as now:
            row = now.rows[sequence] = replace(now.rows[sequence], epochs=tuple(epochs))
            now.note("reconciled", row, by)

    def delete_survey(self, sequence: int) -> None:
        with self._changed() as now:
            now.counts = {key: tally for key, tally in now.counts.items() if key[0] != sequence}
            now.released = {key: part for key, part in now.released.items() if key[0] != sequence}
            now.kept = {key: kept for key, kept in now.kept.items() if key[0] != sequence}
            now.outcomes = {key: n for key, n in now.outcomes.items() if key[0] != sequence}
            now.sealed = {key for key in now.sealed if key[0] != sequence}
            now.batches = {key: n for key, n in now.batches.items() if key[0] != sequence}
            now.drops = {key: n for key, n in now.drops.items() if key[0] != sequence}
            now.events.pop(sequence, None)
            now.invited.pop(sequence, None)
            now.note("deleted", now.rows.pop(sequence), COMMAND)
            now.alerts = {key: state for key, state in now.alerts.items() if key[0] != sequence}
            now.shared = {p: kept for p, kept in now.shared.items() if kept[0].survey != sequence}

    def enrol_key(self, key: str) -> None:
        with self._changed() as now:
            if key in now.retired:
                raise Refused(f"the key {key[:16]}… is retired")
            if key not in now.keys:
                now.keys.add(key)
                now.record(COMMAND, "enrolled a key", key[:12])

    def retire_key(self, key: str) -> None:
        with self._changed() as now:
            now.keys.discard(key)
            if key not in now.retired:
                now.retired.add(key)
                now.record(COMMAND, "retired a key", key[:12])

    def release(
        self, sequence: int, number: int, change: Callable[[RoundTally, Released], Released]
    ) -> None:
        with self._changed() as now:
            key = sequence, number
            if key in now.counts:
                parts = now.released.get(key, {})
                now.released[key] = {**parts, **change(now.counts[key], parts)}
                if not now.released[key]:
                    del now.released[key]

    def invite(self, sequence: int, codes: Collection[bytes], by: str = COMMAND) -> None:
        with self._changed() as now:
            now.record(by, "created invitations", now.rows[sequence].id[:12])
            now.invited.setdefault(sequence, {}).update(dict.fromkeys(codes, False))

    def count_dropped(self, sequence: int, number: int, batch: bytes, dropped: int) -> None:
        with self._changed() as now:
            now.drops.setdefault((sequence, number, batch), dropped)

    @contextmanager
    def transaction(self, *, later: bool = False) -> Iterator[MemoryTransaction]:
        with self._changed() as now:
            yield MemoryTransaction(now)

    def unsettled(self) -> Sequence[Unsettled]:
        return ()

    def envelopes(self, sequence: int, number: int) -> Iterator[Kept]:
        yield from sorted(self._now.kept.get((sequence, number), {}).values())

    def seal(self, sequence: int, rounds: Sequence[int]) -> None:
        with self._changed() as now:
            now.sealed |= {(sequence, number) for number in rounds} & now.counts.keys()

    def purge(self, most: int) -> Purged:
        with self._changed() as now:
            for key in now.sealed & now.kept.keys():
                ids = list(now.kept[key])[:most]
                for identifier in ids:
                    del now.kept[key][identifier]
                if ids:
                    return Purged(len(ids), len(ids))
        return Purged(0, 0)

    def forget_order(self) -> bool:
        return True

    def annotate(self, sequence: int, annotation: Annotation) -> None:
        with self._changed() as now:
            now.events.setdefault(sequence, set()).add(annotation)

    def remove_annotation(self, sequence: int, annotation: Annotation) -> bool:
        with self._changed() as now:
            events = now.events.get(sequence, set())
            was_there = annotation in events
            events.discard(annotation)
        return was_there

    def register_page(self, survey: str, digest: str) -> None:
        with self._changed() as now:
            now.enter("page", survey, digest)

    def replace_public_pages(self, folder: str, pages: Mapping[str, PublicPage]) -> None:
        with self._changed() as now:
            others = {path: page for path, page in now.pages.items() if not path.startswith(folder)}
            now.pages = others | dict(pages)

    def share(self, share: Share) -> None:
        with self._changed() as now:
            now.shared[share.path] = share, b""
            now.record(share.actor, "shared results", now.rows[share.survey].id[:12])

    def set_shared_page(self, path: str, page: bytes) -> None:
        with self._changed() as now:
            if path in now.shared:
                now.shared[path] = now.shared[path][0], page

    def revoke_share(self, path: str, by: str) -> bool:
        with self._changed() as now:
            share, _ = now.shared.pop(path, (None, b""))
            if share:
                survey = now.rows[share.survey].id[:12]
                now.record(by, "stopped sharing results", survey)
        return share is not None

    def purge_shares(self, before: date) -> None:
        with self._changed() as now:
            now.shared = {p: kept for p, kept in now.shared.items() if kept[0].expires >= before}

    def add_counters(self, counts: Mapping[tuple[int, str], int]) -> None:
        with self._changed() as now:
            for key, reports in counts.items():
                now.outcomes[key] = now.outcomes.get(key, 0) + reports

    def add_token(
        self,
        token: str,
        role: str,
        now: datetime,
        expires: datetime,
        name: str = "",
        by: str = COMMAND,
        *,
        label: str = "",
        limit: int = 0,
    ) -> None:
        digest = hashlib.sha256(token.encode()).hexdigest()
        identifier = digest[:12]
        named = name or identifier
        made = Token(identifier, role, now.astimezone(UTC), expires, named, None, label, limit)
        with self._changed() as contents:
            if made.name in {held.name for held in contents.held.values()}:
                raise Refused(f"a token has the name {made.name!r}")
            contents.held[digest] = made
            contents.record(by, "created a token", f"{made.name} ({role})")

    def revoke_token(self, identifier: str, by: str = COMMAND) -> None:
        with self._changed() as now:
            for key in [key for key in now.held if key.startswith(identifier)]:
                held = now.held.pop(key)
                if held.label and held.expires > held.created:
                    now.held[key] = replace(held, expires=held.created, name=held.id)
                now.record(by, "revoked a token", f"{held.name} ({held.role})")

    def note_use(self, identifier: str, day: date) -> None:
        with self._changed() as now:
            for key, held in now.held.items():
                if key.startswith(identifier):
                    now.held[key] = replace(held, used=day)

    def record_sign_in(self, by: str) -> None:
        with self._changed() as now:
            now.record(by, "signed in", "")

    def purge_audit(self, before: date) -> None:
        with self._changed() as now:
            now.actions = {entry for entry in now.actions if entry.day >= before}

    def change_alert(self, sequence: int, subject: str, before: str, after: str) -> bool:
        with self._changed() as now:
            if now.alerts.get((sequence, subject), "") != before:
                return False
            now.alerts[sequence, subject] = after
            return True

    def keep_day(self, day: date) -> None:
        with self._changed() as now:
            now.day = day
