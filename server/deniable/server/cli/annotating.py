"""`deniable survey annotate`: what happened on a day, as a line in a survey's figures."""

from __future__ import annotations

import json
from argparse import Namespace

from deniable.shared.errors import Refused


def run(chosen: Namespace) -> int:
    from deniable.server.results.annotating import read_annotation
    from deniable.server.store import open_store
    from deniable.server.surveys.catalogue import Catalogue

    annotation = read_annotation(chosen.day, chosen.words)
    with open_store(chosen.data) as store:
        published = Catalogue(store).find(chosen.survey)
        if not chosen.remove:
            store.annotate(published.sequence, annotation)
        elif not store.remove_annotation(published.sequence, annotation):
            raise Refused(f"{published.name} has no such annotation on {annotation.day}")
        left = store.annotations(published.sequence)
    if chosen.json:
        listed = [{"day": day.isoformat(), "words": words} for day, words in left]
        said = {"id": published.id, "name": published.name, "annotations": listed}
        print(json.dumps(said, ensure_ascii=False))
        return 0
    print(f"{published.name}:")
    for day, words in left:
        print(f"  {day}  {words}")
    if not left:
        print("  no annotations")
    return 0
