"""Opening a store with all that was acknowledged in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from deniable.server.intake.commit import recover
from deniable.server.store import Place, Store, open_store
from deniable.server.surveys.catalogue import Catalogue


@contextmanager
def open_recovered(place: Place) -> Iterator[Store]:
    """Also what a server had on disk and not yet in its tables when it was killed, or has now."""
    with open_store(place) as store:
        if store.unsettled():
            recover(store, Catalogue(store))
        yield store
