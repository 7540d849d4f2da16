"""`deniable survey annotate`: mark an event, such as a release, on a survey's charts."""

from __future__ import annotations

from argparse import Namespace

from deniable.shared.cli.verb import show
from deniable.shared.errors import Refused


def run(args: Namespace) -> int:
    from deniable.server.results.annotations import parse_annotation
    from deniable.server.store import open_store
    from deniable.server.surveys.catalogue import Catalogue

    annotation = parse_annotation(args.day, args.words)
    with open_store(args.data) as store:
        published = Catalogue(store).find(args.survey)
        if not args.remove:
            store.annotate(published.sequence, annotation)
        elif not store.remove_annotation(published.sequence, annotation):
            raise Refused(f"{published.name} has no such event on {annotation.day}")
        left = store.annotations(published.sequence)
    listed = [{"day": day.isoformat(), "words": words} for day, words in left]
    document = {"id": published.id, "name": published.name, "annotations": listed}
    events = [f"  {day}  {words}" for day, words in left] or ["  no events"]
    return show(args, document, [f"{published.name}:", *events])
