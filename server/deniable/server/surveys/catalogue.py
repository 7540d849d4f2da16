"""The published surveys in memory: where everything finds them that is asked for one.

A survey is read and parsed once, however many there are, and a change is seen within a quarter of a
second. Only one fact about the store is asked for each time: how long its register is.
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
    check_signed,
)
from deniable.server.surveys.clock import Clock
from deniable.server.surveys.listing import NOTHING, Listing, check_room, check_size, listing
from deniable.shared.errors import DeniableError, Refused, UntrustedSurvey
from deniable.shared.survey.document import Survey, parse_document, survey_id
from deniable.shared.survey.signing import verify

FRESH_SECONDS = 0.25  # what a verb has published is served within half a second
NAMES_SHOWN = 10
_BEGINNING = re.compile(r"[0-9a-f]{6,64}")
_FIRST_DIGITS = 6
DAMAGED = (
    "%s: nothing of it is shown, offered or taken. Copy the folder as it is and restore the newest "
    "backup that is whole; `deniable doctor` says more"
)

log = logging.getLogger("deniable.server")


class UnknownSurvey(Refused):
    """No survey, or not exactly one, is meant by a text."""


@dataclass(frozen=True)
class _Contents:
    """Never changed once it is made: readers need no lock."""

    mark: int
    by_id: Mapping[str, PublishedSurvey]  # in the order of publication
    by_name: Mapping[str, Sequence[PublishedSurvey]]
    by_beginning: Mapping[str, Sequence[PublishedSurvey]]  # the first digits of an id
    entries: Mapping[tuple[str, bool], str]  # in JSON, by id and whether it is closed
    damaged: Mapping[int, tuple[str, str]]  # by sequence: the id, and what is wrong


class Catalogue:
    """Safe from several threads."""

    def __init__(self, store: Store, clock: Clock | None = None) -> None:
        self._store, self._clock = store, clock or Clock()
        self._lock = threading.Lock()
        self._contents = _contents(0, (), {}, {})
        self._listing = self._contents, NOTHING
        self._look()

    def find(self, text: str) -> PublishedSurvey:
        """By its name, its id, or the beginning of one; UnknownSurvey says what there is.

        A name means its newest survey that is open.
        """
        contents = self._fresh()
        if text in contents.by_id:
            return contents.by_id[text]
        if named := contents.by_name.get(text):
            return max(named, key=lambda each: (not each.closed, each.survey.opens, each.sequence))
        begun = _begun(contents, text)
        if not begun and _BEGINNING.fullmatch(text):
            _refuse_damaged(contents, text)
        if len(begun) == 1:
            return begun[0]
        raise UnknownSurvey(f"{_problem(text, len(begun))}; {_known(contents.by_name)}")

    def to_close(self, text: str) -> PublishedSurvey:
        """The one that is meant for good: a name must have one survey that is not closed."""
        named = self._fresh().by_name.get(text, ())
        left = [each for each in named if not each.closed]
        if len(left) > 1 or (named and not left):
            which = ", ".join(f"{each.id[:12]} ({each.state})" for each in left or named)
            raise UnknownSurvey(
                f"{text} names {len(left) or 'no'} surveys that can be closed; "
                f"say which by its id: {which}"
            )
        return self.find(text)

    def to_delete(self, text: str) -> PublishedSurvey:
        """The one that is meant for good: a name must have one survey."""
        named = self._fresh().by_name.get(text, ())
        if len(named) > 1:
            which = ", ".join(f"{each.id[:12]} ({each.state})" for each in named)
            raise UnknownSurvey(f"{text} names {len(named)} surveys; say which by its id: {which}")
        return self.find(text)

    def known(self, identifier: str) -> PublishedSurvey | None:
        """The survey with exactly this id, if it is what was published."""
        return self._fresh().by_id.get(identifier)

    def get(self, identifier: str) -> PublishedSurvey | None:
        """The same; Damaged, where it is not what was published."""
        contents = self._fresh()
        found = contents.by_id.get(identifier)
        if found is None and contents.damaged:
            _refuse_damaged(contents, identifier)
        return found

    def surveys(self) -> list[PublishedSurvey]:
        """In the order of publication."""
        return list(self._fresh().by_id.values())

    def listing(self, *, compressed: bool = False) -> bytes:
        """The answer to anyone who asks which surveys there are: the same bytes for everybody."""
        listed = self._listed()
        return listed.compressed if compressed else listed.body

    def publish(self, document: bytes, signature: str, key: str) -> PublishedSurvey:
        """The survey as it is published now. The same document again changes nothing.

        It is read strictly, and its signature must be by a key that is enrolled here.
        """
        survey, enrolled = parse_document(document), self._store.enrolled_keys()
        if key not in enrolled:
            raise UntrustedSurvey(
                f"the key {key[:16]}… is not enrolled here, or retired; where it is one of yours: "
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
                f"exactly these bytes are published already, signed by {published.key[:16]}…; "
                "change anything in the survey to publish it under another key"
            )
        return published

    def close(self, published: PublishedSurvey) -> PublishedSurvey:
        """Take no more reports of it, for good."""
        self._store.close_survey(published.sequence)
        self.refresh()
        return self._contents.by_id[published.id]

    @property
    def fresh_for(self) -> float:
        """For how many seconds nobody who looks here has to wait for the store."""
        return self._looked + FRESH_SECONDS - self._clock.seconds()

    def refresh(self, parsed: Mapping[str, Survey] | None = None) -> None:
        """Look again at once, because something was just changed here; `parsed` are known by id."""
        with self._lock:
            self._look(parsed or {})

    def _fresh(self) -> _Contents:
        if self._stale():
            with self._lock:
                if self._stale():  # else another thread has looked
                    self._look()
        return self._contents

    def _stale(self) -> bool:
        return self._clock.seconds() - self._looked >= FRESH_SECONDS

    def _look(self, parsed: Mapping[str, Survey] | None = None) -> None:
        mark = self._store.surveys_mark()  # before the rest: a change meanwhile is seen next time
        if mark != self._contents.mark:
            self._contents = self._read(mark, parsed or {})
        self._looked = self._clock.seconds()

    def _listed(self) -> Listing:
        """Made anew when something has changed, or is over."""
        contents, now, (of, made) = self._fresh(), self._clock.now(), self._listing
        if of is not contents or not made.holds(now):
            made = listing(
                zip(contents.by_id.values(), contents.entries.values(), strict=True), now
            )
            self._listing = contents, made
        return made

    def _read(self, mark: int, parsed: Mapping[str, Survey]) -> _Contents:
        """What is known already and not deleted, what is new, and what is closed meanwhile."""
        known = self._contents
        seen = [each.sequence for each in known.by_id.values()]
        new, damaged = list[PublishedSurvey](), dict(known.damaged)
        for row in self._store.surveys(max([*seen, *damaged], default=0)):
            try:
                new.append(_published(row, parsed))
            except DeniableError as error:
                log.error(DAMAGED, error)
                damaged[row.sequence] = row.id, str(error)
        closed = self._store.survey_states()
        surveys = [
            _marked(each, closed[each.sequence])
            for each in [*known.by_id.values(), *new]
            if each.sequence in closed
        ]
        left = {sequence: each for sequence, each in damaged.items() if sequence in closed}
        return _contents(mark, surveys, known.entries, left)


class SurveyEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A published survey: the document's exact text, with the signature and the public key."""

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
    known: Mapping[tuple[str, bool], str],
    damaged: Mapping[int, tuple[str, str]],
) -> _Contents:
    entries = {
        (each.id, each.closed): known.get((each.id, each.closed)) or entry_text(each)
        for each in surveys
    }
    return _Contents(
        mark=mark,
        by_id={each.id: each for each in surveys},
        by_name=_grouped((each.name, each) for each in surveys),
        by_beginning=_grouped((each.id[:_FIRST_DIGITS], each) for each in surveys),
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
    """Parsing recomputes every probability: a document that was just read is not read again."""
    if (survey := parsed.get(row.id)) is None:
        check_signed(row)
        survey = parse_document(row.document)
    return PublishedSurvey(**vars(row), survey=survey)


def _refuse_damaged(contents: _Contents, identifier: str) -> None:
    """Damaged, if it is the id, or its beginning, of one that is."""
    for damaged, says in contents.damaged.values():
        if damaged.startswith(identifier):
            raise Damaged(DAMAGED % says)


def _marked(published: PublishedSurvey, closed: bool) -> PublishedSurvey:
    return published if published.closed == closed else replace(published, closed=closed)


def _begun(contents: _Contents, text: str) -> Sequence[PublishedSurvey]:
    """Those whose id begins so, with enough digits to mean one."""
    if not _BEGINNING.fullmatch(text):
        return ()
    near = contents.by_beginning.get(text[:_FIRST_DIGITS], ())
    return [published for published in near if published.id.startswith(text)]


def _problem(text: str, matches: int) -> str:
    if matches > 1:
        return f"{matches} surveys have ids that begin with {text}; give more digits"
    return f"there is no survey {text[:80]!r}"


def _known(by_name: Mapping[str, Sequence[PublishedSurvey]]) -> str:
    """The names of the newest surveys, the newest first."""
    if not by_name:
        return "none is published yet: deniable survey publish FILE --data DIR"
    names = sorted(by_name, key=lambda name: -by_name[name][-1].sequence)
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return f"there is {', '.join(names[:NAMES_SHOWN])}{more}"
