"""The catalogue of published surveys, in memory.

Each survey is read and parsed once. Changes in the store appear within a quarter of a second: a
look at the store reads only the length of its register, unless that has changed.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from msgspec import Struct, to_builtins

from deniable.server.store import (
    Damaged,
    PublishedSurvey,
    State,
    Store,
    SurveyRow,
)
from deniable.server.surveys.clock import Clock
from deniable.server.surveys.public_list import NOTHING, Listing, check_room, check_size, listing
from deniable.shared.errors import DeniableError, Refused, UntrustedSurvey
from deniable.shared.survey.document import Survey, parse_document, survey_id
from deniable.shared.survey.keys import verify

FRESH_SECONDS = 0.25  # a survey that a verb publishes is served within half a second
NAMES_SHOWN = 10
_BEGINNING = re.compile(r"[0-9a-f]{6,64}")
_FIRST_DIGITS = 6
DAMAGED = (
    "%s: the survey is not shown or offered, and its reports are refused. Copy the folder as it is "
    "and restore the newest intact backup; `deniable doctor` gives details"
)

log = logging.getLogger("deniable.server")


class UnknownSurvey(Refused):
    """A text names no survey, or more than one."""


@dataclass(frozen=True)
class _Contents:
    """Immutable contents, so that readers need no lock."""

    mark: int
    by_id: Mapping[str, PublishedSurvey]  # in the order of publication
    by_name: Mapping[str, Sequence[PublishedSurvey]]
    by_beginning: Mapping[str, Sequence[PublishedSurvey]]  # the first digits of an id
    entries: Mapping[tuple[str, bool], str]  # in JSON, by id and whether it is closed
    damaged: Mapping[int, tuple[str, str]]  # by sequence: the id and the fault


class Catalogue:
    """Published surveys of a store, by name, id or the beginning of an id. Thread-safe."""

    def __init__(self, store: Store, clock: Clock | None = None) -> None:
        self._store, self._clock = store, clock or Clock()
        self._lock = threading.Lock()
        self._contents = _contents(0, (), {}, {})
        self._listing = self._contents, NOTHING
        self._look()

    def find(self, text: str) -> PublishedSurvey:
        """Return the survey with this name, id or beginning of an id, else raise UnknownSurvey.

        A name means the newest open survey of that name.
        """
        contents = self._fresh()
        if text in contents.by_id:
            return contents.by_id[text]
        if named := contents.by_name.get(text):
            return max(named, key=lambda p: (not p.closed, p.survey.opens, p.sequence))
        matches = _with_prefix(contents, text)
        if not matches and _BEGINNING.fullmatch(text):
            _refuse_damaged(contents, text)
        if len(matches) == 1:
            return matches[0]
        raise UnknownSurvey(f"{_problem(text, len(matches))}; {_names(contents.by_name)}")

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

    def known(self, identifier: str) -> PublishedSurvey | None:
        """Return the survey with exactly this id; None if there is none or it is damaged."""
        return self._fresh().by_id.get(identifier)

    def get(self, identifier: str) -> PublishedSurvey | None:
        """Return the survey with exactly this id, or None; raise Damaged if it is damaged."""
        contents = self._fresh()
        published = contents.by_id.get(identifier)
        if published is None and contents.damaged:
            _refuse_damaged(contents, identifier)
        return published

    def surveys(self) -> list[PublishedSurvey]:
        """Return the surveys in the order of publication."""
        return list(self._fresh().by_id.values())

    def listing(self, *, compressed: bool = False) -> bytes:
        """Return the public list: the same bytes for everyone."""
        listed = self._listed()
        return listed.compressed if compressed else listed.body

    def entry_text(self, published: PublishedSurvey) -> str:
        """Return the survey's entry as JSON, from memory."""
        entry = self._contents.entries.get((published.id, published.closed))
        return entry or entry_text(published)

    @property
    def mark(self) -> int:
        """Length of the register when the store was last asked."""
        return self._contents.mark

    def publish(self, document: bytes, signature: str, key: str) -> PublishedSurvey:
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
            row = SurveyRow(0, survey_id(document), document, signature, key, closed=False)
            check_room(entry_text(row), self._listed())
        identifier = self._store.publish(document, signature, key)
        self.refresh({identifier: survey})
        published = self._contents.by_id[identifier]
        if published.key != key:
            raise UntrustedSurvey(
                f"this document is already published, signed by {published.key[:16]}…; "
                "change anything in the survey to publish it under another key"
            )
        return published

    def close(self, published: PublishedSurvey) -> PublishedSurvey:
        """Close a survey permanently: its reports are refused from now on."""
        self._store.close_survey(published.sequence)
        self.refresh()
        return self._contents.by_id[published.id]

    @property
    def fresh_for(self) -> float:
        """Seconds for which a look here does not have to wait for the store."""
        return self._looked + FRESH_SECONDS - self._clock.seconds()

    def refresh(self, parsed: Mapping[str, Survey] | None = None) -> None:
        """Look at the store now, after a change; `parsed` holds surveys that were just read."""
        with self._lock:
            self._look(parsed or {})

    def _fresh(self) -> _Contents:
        if self._stale():
            with self._lock:
                if self._stale():  # otherwise another thread has looked
                    self._look()
        return self._contents

    def _stale(self) -> bool:
        return self._clock.seconds() - self._looked >= FRESH_SECONDS

    def _look(self, parsed: Mapping[str, Survey] | None = None) -> None:
        mark = self._store.surveys_mark()  # read first: the next look sees a later change
        if mark != self._contents.mark:
            self._contents = self._read(mark, parsed or {})
        self._looked = self._clock.seconds()

    def _listed(self) -> Listing:
        """Return the list; make it again if a survey changed or left it."""
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
        new, damaged = list[PublishedSurvey](), dict(before.damaged)
        for row in self._store.surveys(max([*sequences, *damaged], default=0)):
            try:
                new.append(_published(row, parsed))
            except DeniableError as error:
                log.error(DAMAGED, error)
                damaged[row.sequence] = row.id, str(error)
        closed = self._store.survey_states()
        surveys = [
            _with_state(published, closed[published.sequence])
            for published in [*before.by_id.values(), *new]
            if published.sequence in closed
        ]
        left = {sequence: fault for sequence, fault in damaged.items() if sequence in closed}
        return _contents(mark, surveys, before.entries, left)


class SurveyEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A published survey: the document's exact text, its signature and the public key."""

    id: str
    document: str
    signature: str
    key: str
    state: State


def entry(published: SurveyRow) -> SurveyEntry:
    return SurveyEntry(
        id=published.id,
        document=published.document.decode(),
        signature=published.signature,
        key=published.key,
        state=published.state,
    )


def entry_text(published: SurveyRow) -> str:
    return json.dumps(to_builtins(entry(published)), ensure_ascii=False)


def _contents(
    mark: int,
    surveys: Sequence[PublishedSurvey],
    old_entries: Mapping[tuple[str, bool], str],
    damaged: Mapping[int, tuple[str, str]],
) -> _Contents:
    entries = {
        key: old_entries.get(key) or entry_text(published)
        for published in surveys
        for key in [(published.id, published.closed)]
    }
    return _Contents(
        mark=mark,
        by_id={published.id: published for published in surveys},
        by_name=_grouped((p.name, p) for p in surveys),
        by_beginning=_grouped((p.id[:_FIRST_DIGITS], p) for p in surveys),
        entries=entries,
        damaged=damaged,
    )


def _grouped(
    pairs: Iterable[tuple[str, PublishedSurvey]],
) -> Mapping[str, Sequence[PublishedSurvey]]:
    groups: dict[str, list[PublishedSurvey]] = {}
    for key, published in pairs:
        groups.setdefault(key, []).append(published)
    return groups


def _published(row: SurveyRow, parsed: Mapping[str, Survey]) -> PublishedSurvey:
    """Return the survey of a row; parse it only if needed, as that computes every probability."""
    if (survey := parsed.get(row.id)) is None:
        row.check_signed()
        survey = parse_document(row.document)
    return PublishedSurvey(**vars(row), survey=survey)


def _refuse_damaged(contents: _Contents, identifier: str) -> None:
    """Raise Damaged if a damaged survey has this id or beginning of an id."""
    for damaged, fault in contents.damaged.values():
        if damaged.startswith(identifier):
            raise Damaged(DAMAGED % fault)


def _with_state(published: PublishedSurvey, closed: bool) -> PublishedSurvey:
    return published if published.closed == closed else replace(published, closed=closed)


def _with_prefix(contents: _Contents, text: str) -> Sequence[PublishedSurvey]:
    """Return the surveys whose id begins with this text, if it has enough digits."""
    if not _BEGINNING.fullmatch(text):
        return ()
    near = contents.by_beginning.get(text[:_FIRST_DIGITS], ())
    return [published for published in near if published.id.startswith(text)]


def _problem(text: str, matches: int) -> str:
    if matches > 1:
        return f"{matches} surveys have ids that begin with {text}; give more digits"
    return f"there is no survey {text[:80]!r}"


def _names(by_name: Mapping[str, Sequence[PublishedSurvey]]) -> str:
    """Return a phrase with the names of the newest surveys, the newest first."""
    if not by_name:
        return "no survey is published yet; run: deniable survey publish FILE --data DIR"
    names = sorted(by_name, key=lambda name: -by_name[name][-1].sequence)
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return f"published: {', '.join(names[:NAMES_SHOWN])}{more}"


def _ids(surveys: Iterable[PublishedSurvey]) -> str:
    return ", ".join(f"{published.id[:12]} ({published.state})" for published in surveys)
