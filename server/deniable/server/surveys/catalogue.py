"""The catalogue of published surveys, in memory.

Each survey is read and parsed once. Changes in the store appear within a quarter of a second. A
refresh reads only the length of the register unless that has changed.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Literal

from msgspec import UNSET, Struct, UnsetType, to_builtins

from deniable.server.store import COMMAND, Damaged, Epoch, PublishedSurvey, Store, SurveyRow
from deniable.server.surveys.clock import Clock
from deniable.server.surveys.public_list import NOTHING, Listing, check_room, check_size, listing
from deniable.shared.errors import DeniableError, Refused, UntrustedSurvey
from deniable.shared.survey.document import Survey, parse_document, survey_id
from deniable.shared.survey.keys import MAX_EPOCH, is_signed_epoch, verify

FRESH_SECONDS = 0.25  # short, so that a command's survey is served within half a second
NAMES_SHOWN = 10
_BEGINNING = re.compile(r"[0-9a-f]{6,64}")
DAMAGED = (
    "%s: the survey is neither shown nor listed, and its reports are refused. Copy the folder as "
    "it is and restore the newest intact backup; `deniable doctor` gives details"
)

log = logging.getLogger("deniable.server")


Entered = tuple[str, date | None, tuple[Epoch, ...]]  # id, `closed` and epochs of an entry


class UnknownSurvey(Refused):
    """Raised if a text names no survey, or more than one."""


@dataclass(frozen=True)
class _Contents:
    """Immutable contents, so that readers need no lock."""

    mark: int = 0
    by_id: Mapping[str, PublishedSurvey] = field(default_factory=dict)  # in order of publication
    by_name: Mapping[str, Sequence[PublishedSurvey]] = field(default_factory=dict)
    ids: Sequence[str] = ()  # sorted
    entries: Mapping[Entered, str] = field(default_factory=dict)
    damaged: Mapping[int, tuple[str, str]] = field(default_factory=dict)  # (id, fault) by sequence

    def beginning_with(self, text: str) -> Sequence[PublishedSurvey]:
        """Return the surveys whose ids begin with this text; none if it has too few digits."""
        if not _BEGINNING.fullmatch(text):
            return ()
        first, end = bisect_left(self.ids, text), bisect_left(self.ids, text + "g")
        return [self.by_id[identifier] for identifier in self.ids[first:end]]

    def refuse_damaged(self, identifier: str) -> None:
        """Raise Damaged if a damaged survey's id begins with this text."""
        for damaged, fault in self.damaged.values():
            if damaged.startswith(identifier):
                raise Damaged(DAMAGED % fault)


class Catalogue:
    """Thread-safe catalogue of a store's surveys, by name, id or the beginning of an id."""

    def __init__(self, store: Store, clock: Clock | None = None) -> None:
        self._store, self._clock = store, clock or Clock()
        self._lock = threading.Lock()
        self._contents = _Contents()
        self._listing = self._contents, NOTHING
        self._look()

    def find(self, text: str) -> PublishedSurvey:
        """Return the survey with this name, id or beginning of an id, or raise UnknownSurvey.

        If several surveys have the name, return the newest open survey.
        """
        contents = self._fresh()
        if text in contents.by_id:
            return contents.by_id[text]
        if named := contents.by_name.get(text):
            return max(named, key=lambda p: (not p.closed, p.survey.opens, p.sequence))
        matches = contents.beginning_with(text)
        if len(matches) == 1:
            return matches[0]
        if len(matches) > 1:
            problem = f"{len(matches)} surveys have ids that begin with {text}; give more digits"
        else:
            if _BEGINNING.fullmatch(text):
                contents.refuse_damaged(text)
            problem = f"no survey matches {text[:80]!r}"
            if near := _nearest(text, contents.by_name):
                raise UnknownSurvey(f"{problem}; did you mean {near}?")
        raise UnknownSurvey(f"{problem}; {_names(contents.by_name)}")

    def to_close(self, text: str) -> PublishedSurvey:
        """Return the survey to close permanently. A name must have exactly one open survey."""
        named = self._fresh().by_name.get(text, ())
        not_closed = [published for published in named if not published.closed]
        if len(not_closed) > 1 or (named and not not_closed):
            raise UnknownSurvey(
                f"{text} names {len(not_closed) or 'no'} surveys that can be closed; "
                f"give an id: {_ids(not_closed or named)}"
            )
        return self.find(text)

    def to_delete(self, text: str) -> PublishedSurvey:
        """Return the survey to delete permanently. A name must have exactly one survey."""
        named = self._fresh().by_name.get(text, ())
        if len(named) > 1:
            raise UnknownSurvey(f"{text} names {len(named)} surveys; give an id: {_ids(named)}")
        return self.find(text)

    def get(self, identifier: str) -> PublishedSurvey | None:
        """Return the survey with exactly this id, or None; raise Damaged if it is damaged."""
        contents = self._fresh()
        published = contents.by_id.get(identifier)
        if published is None:
            contents.refuse_damaged(identifier)
        return published

    def surveys(self) -> list[PublishedSurvey]:
        """Return the surveys in the order of publication."""
        return list(self._fresh().by_id.values())

    def listing(self, *, compressed: bool = False) -> bytes:
        """Return the public list: the same bytes for everyone."""
        listed = self._listed()
        return listed.compressed if compressed else listed.body

    def entry_text(self, published: PublishedSurvey) -> str:
        """Return the survey's entry as JSON."""
        return self._contents.entries.get(_entered(published)) or entry_text(published)

    @property
    def mark(self) -> int:
        """Length of the register at the last refresh."""
        return self._contents.mark

    def publish(
        self, document: bytes, signature: str, key: str, by: str = COMMAND
    ) -> PublishedSurvey:
        """Publish a document and return the survey. Publishing it again changes nothing.

        The document is read strictly, and an enrolled key must have signed it.
        """
        survey, enrolled = parse_document(document), self._store.enrolled_keys()
        if key not in enrolled:
            raise UntrustedSurvey(
                f"the key {key[:16]}… is not enrolled here, or is retired; if it is yours, run: "
                "deniable keys enrol KEY --data DIR"
            )
        verify(document, signature, key, enrolled)
        if self.get(survey_id(document)) is None:
            check_size(document)
            row = SurveyRow(0, survey_id(document), document, signature, key, closed=None)
            check_room(entry_text(row), self._listed())
        identifier = self._store.publish(document, signature, key, by)
        self.refresh({identifier: survey})
        published = self._contents.by_id[identifier]
        if published.key != key:
            raise UntrustedSurvey(
                f"this document is already published, signed by {published.key[:16]}…; "
                "change anything in the survey to publish it under another key"
            )
        return published

    def close(self, published: PublishedSurvey, by: str = COMMAND) -> PublishedSurvey:
        """Close a survey permanently, so that its reports are refused from now on."""
        self._store.close_survey(published.sequence, self._clock.now(), by)
        self.refresh()
        return self._contents.by_id[published.id]

    def reconcile(
        self, published: PublishedSurvey, epoch: Epoch, by: str = COMMAND
    ) -> PublishedSurvey:
        """Publish an epoch of a round that still accepts reports."""
        survey, now = published.survey, self._clock.now()
        number, before = epoch.round, last_epoch(published, epoch.round)
        accepts = survey.first_round <= number <= survey.last_round and (
            survey.round_starts(number) <= now < survey.taken_until(number)
        )
        if published.closed or not accepts:
            raise Refused(f"{published.name} accepts no reports of round {number} now")
        if not before < epoch.epoch <= MAX_EPOCH:
            raise Refused(
                f"an epoch of round {number} must now be above {before} and at most {MAX_EPOCH}, "
                "because devices resend a report at most twice"
            )
        signed = published.id, number, epoch.epoch, epoch.signature, published.key
        if not is_signed_epoch(*signed):
            raise UntrustedSurvey(
                f"the signature is not by {published.key[:16]}…, the key that signed the survey"
            )
        others = (
            e for e in published.epochs if e.round != number and now < survey.taken_until(e.round)
        )
        epochs = *others, epoch
        text = entry_text(replace(published, epochs=epochs))
        check_room(text, self._listed(), replaces=self.entry_text(published))
        self._store.reconcile(published.sequence, epochs, by)
        self.refresh()
        return self._contents.by_id[published.id]

    @property
    def fresh_for(self) -> float:
        """Seconds until the contents must be refreshed from the store."""
        return self._looked + FRESH_SECONDS - self._clock.seconds()

    def refresh(self, parsed: Mapping[str, Survey] | None = None) -> None:
        """Refresh from the store now. `parsed` holds surveys that need not be parsed again."""
        with self._lock:
            self._look(parsed or {})

    def _fresh(self) -> _Contents:
        if self.fresh_for <= 0:
            with self._lock:
                if self.fresh_for <= 0:  # no other thread has refreshed
                    self._look()
        return self._contents

    def _look(self, parsed: Mapping[str, Survey] | None = None) -> None:
        looked = self._clock.seconds()
        # Read the mark first: then the next refresh notices any change after it.
        mark = self._store.surveys_mark()
        if mark != self._contents.mark:
            self._contents = self._read(mark, parsed or {})
        self._looked = looked

    def _listed(self) -> Listing:
        """Return the public list. Rebuild it if a survey has changed or must be removed."""
        contents, now, (listed, current) = self._fresh(), self._clock.now(), self._listing
        if listed is not contents or not current.holds(now):
            entries = zip(contents.by_id.values(), contents.entries.values(), strict=True)
            current = listing(entries, now)
            self._listing = contents, current
        return current

    def _read(self, mark: int, parsed: Mapping[str, Survey]) -> _Contents:
        """Return the contents with new surveys added, deleted ones removed and states updated."""
        before = self._contents
        sequences = [published.sequence for published in before.by_id.values()]
        read, damaged = list(before.by_id.values()), dict(before.damaged)
        for row in self._store.surveys(max([*sequences, *damaged], default=0)):
            try:
                read.append(_published(row, parsed))
            except DeniableError as error:
                log.error(DAMAGED, error)
                damaged[row.sequence] = row.id, str(error)
        closed, epochs = self._store.survey_states(), self._store.epochs()
        closings = self._store.closings()
        surveys = [
            published
            if (published.closed, published.closing) == (day, closing)
            else replace(published, closed=day, closing=closing)
            for row in read
            if row.sequence in closed
            for day in [closed[row.sequence]]
            for closing in [_closing(row, day, closings.get(row.sequence), self._clock.now())]
            for listed in [epochs.get(row.sequence, ())]
            for published in [row if row.epochs == listed else replace(row, epochs=listed)]
        ]
        by_name: dict[str, list[PublishedSurvey]] = {}
        for published in surveys:
            by_name.setdefault(published.name, []).append(published)
        return _Contents(
            mark=mark,
            by_id={published.id: published for published in surveys},
            by_name=by_name,
            ids=sorted(published.id for published in surveys),
            entries={
                key: before.entries.get(key) or entry_text(published)
                for published in surveys
                for key in [_entered(published)]
            },
            damaged={number: fault for number, fault in damaged.items() if number in closed},
        )


class EpochEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Epoch of a round: devices that see a new one send the round's report again."""

    round: int
    epoch: int
    signature: str


class SurveyEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Published survey in the public list: the exact document, its signature and the key."""

    id: str
    document: str
    signature: str
    key: str
    state: Literal["open", "closed"]
    epochs: tuple[EpochEntry, ...] | UnsetType = UNSET


def entry(published: SurveyRow) -> SurveyEntry:
    return SurveyEntry(
        id=published.id,
        document=published.document.decode(),
        signature=published.signature,
        key=published.key,
        state=published.state,
        epochs=tuple(EpochEntry(**vars(epoch)) for epoch in published.epochs) or UNSET,
    )


def last_epoch(published: SurveyRow, round_: int) -> int:
    return max((epoch.epoch for epoch in published.epochs if epoch.round == round_), default=0)


def _closing(
    published: PublishedSurvey, day: date | None, stored: datetime | None, now: datetime
) -> datetime | None:
    """Return when a survey was closed, for this process: not before it saw that.

    The stored moment is by the clock of the machine that closed it, which may be slow.
    """
    if day is None or published.closed == day:
        return published.closing or stored
    return now if stored is None else max(now, stored)


def _entered(published: SurveyRow) -> Entered:
    return published.id, published.closed, published.epochs


def entry_text(published: SurveyRow) -> str:
    return json.dumps(to_builtins(entry(published)), ensure_ascii=False)


def _published(row: SurveyRow, parsed: Mapping[str, Survey]) -> PublishedSurvey:
    """Return the survey of a row; avoid parsing it, which is slow, if it has been parsed."""
    if (survey := parsed.get(row.id)) is None:
        row.check_signed()
        survey = parse_document(row.document)
    return PublishedSurvey(**vars(row), survey=survey)


def _nearest(text: str, names: Iterable[str]) -> str | None:
    from difflib import get_close_matches  # rarely needed

    return next(iter(get_close_matches(text[:80], names, 1)), None)


def _names(by_name: Mapping[str, Sequence[PublishedSurvey]]) -> str:
    """Return a phrase with the names of the newest surveys, newest first."""
    if not by_name:
        return "no survey is published yet; run: deniable survey publish FILE --data DIR"
    names = sorted(by_name, key=lambda name: -by_name[name][-1].sequence)
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return f"published: {', '.join(names[:NAMES_SHOWN])}{more}"


def _ids(surveys: Iterable[PublishedSurvey]) -> str:
    return ", ".join(f"{published.id[:12]} ({published.state})" for published in surveys)
