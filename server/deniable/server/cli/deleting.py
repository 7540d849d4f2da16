"""`deniable survey delete`: what goes and what stays is said before, and the right one is meant."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from deniable.shared.errors import Refused, WrongUse

if TYPE_CHECKING:
    from deniable.server.store import PublishedSurvey, Store

DIGITS = 12  # of an id, to be typed


def run(chosen: Namespace) -> int:
    from deniable.server.store import open_store
    from deniable.server.surveys.catalogue import Catalogue

    with open_store(chosen.data) as store:
        published = Catalogue(store).to_delete(chosen.survey)
        _check_over(published)
        print("\n".join(_said_before(published)), file=sys.stderr)
        if not chosen.yes:
            _ask(published)
        forgotten = delete(store, published)
    if chosen.json:
        gone = {"id": published.id, "name": published.name, "state": "deleted"}
        print(json.dumps(gone))
    else:
        print(f"deleted {published.name} ({published.id[:DIGITS]})")
    if not forgotten:
        print(
            "somebody reads the store meanwhile: until that ends, its files still hold what was "
            "deleted",
            file=sys.stderr,
        )
    return 0


def delete(store: Store, published: PublishedSurvey) -> bool:
    """Its envelopes first, some at a time; a server of the same store refuses more from now on.
    Whether nothing of it is left in a log, either."""
    from deniable.server.intake.upkeep import purge_sealed

    store.close_survey(published.sequence)
    rounds = store.unsealed_rounds().get(published.sequence, ())
    store.seal(published.sequence, rounds)
    purge_sealed(store)
    store.delete_survey(published.sequence)
    return purge_sealed(store)


def _check_over(published: PublishedSurvey) -> None:
    survey = published.survey
    if not published.closed and datetime.now(UTC) < survey.taken_until(survey.last_round):
        raise Refused(
            f"{published.name} ({published.id[:DIGITS]}) still takes reports; close it first: "
            f"deniable survey close {published.id[:DIGITS]}"
        )


def _said_before(published: PublishedSurvey) -> Iterator[str]:
    yield f"{published.name}: {published.survey.title}"
    yield f"id {published.id}, {published.state}"
    yield "What goes, for good: its document, its reports as far as they are kept, its tallies and"
    yield "with them all its results, its counters. Their pages in the store are overwritten."
    yield "What stays: its id and the key that signed it, in the public register; what is in"
    yield "backups and archives, which you must delete yourself; and what devices keep of it."


def _ask(published: PublishedSurvey) -> None:
    if not sys.stdin.isatty():
        raise WrongUse("nobody can be asked here; to delete it all the same, add --yes")
    typed = input(f"Type the first {DIGITS} digits of its id to delete it: ").strip()
    if len(typed) < DIGITS or not published.id.startswith(typed):
        raise Refused("that is not its id; nothing was deleted")
