"""`deniable survey delete`: show what is deleted and what stays, ask, and delete."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from deniable.server.cli.store_arguments import opened
from deniable.shared.cli.verb import show
from deniable.shared.errors import Refused, WrongUse

if TYPE_CHECKING:
    from deniable.server.store import PublishedSurvey, Store


ID_DIGITS = 12  # number of digits to type


def run(args: Namespace) -> int:
    with opened(args) as (store, catalogue):
        published = catalogue.to_delete(args.survey)
        _check_over(published)
        print("\n".join(_summary(published)), file=sys.stderr)
        if not args.yes:
            _ask(published)
        forgotten = delete(store, published)
    if not forgotten:
        print(
            "the store is being read: until that ends, its files still hold what was deleted",
            file=sys.stderr,
        )
    gone = {"id": published.id, "name": published.name, "state": "deleted"}
    return show(args, gone, [f"deleted {published.name} ({published.id[:ID_DIGITS]})"])


def delete(store: Store, published: PublishedSurvey) -> bool:
    """Delete a survey, its envelopes first, in slices.

    A server of the same store refuses its reports from now on. Return whether no trace of the
    survey is left in a log either.
    """
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
            f"{published.name} ({published.id[:ID_DIGITS]}) still accepts reports; close it first: "
            f"deniable survey close {published.id[:ID_DIGITS]}"
        )


def _summary(published: PublishedSurvey) -> Iterator[str]:
    yield f"{published.name}: {published.survey.title}"
    yield f"id {published.id}, {published.state}"
    yield "Permanently deleted: its document, the reports that are still kept, its tallies and with"
    yield "them all its results, and its counters. Their pages in the store are overwritten."
    yield "Not deleted: its id and the key that signed it, in the public register; backups and"
    yield "archives, which you must delete yourself; and the data on devices."


def _ask(published: PublishedSurvey) -> None:
    if not sys.stdin.isatty():
        raise WrongUse(
            "this is not a terminal, so you cannot be asked; add --yes to delete the survey"
        )
    typed = input(f"Type the first {ID_DIGITS} digits of its id to delete it: ").strip()
    if len(typed) < ID_DIGITS or not published.id.startswith(typed):
        raise Refused("that is not the survey's id; nothing was deleted")
