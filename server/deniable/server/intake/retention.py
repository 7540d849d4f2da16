"""Retention: raw reports are deleted when their survey's time for them ends; tallies stay."""

from __future__ import annotations

from datetime import datetime, timedelta

from deniable.server.store import PublishedSurvey, Store

MARGIN = timedelta(hours=1)  # whatever was taken in the last moment has long been counted


def purge(store: Store, now: datetime) -> int:
    """Delete every envelope that is past its time. How many went."""
    gone = 0
    for published in store.surveys():
        ended = [n for n in store.unsealed_rounds(published.sequence) if _ends(published, n) <= now]
        if ended:
            gone += store.purge(published.sequence, ended)
    return gone


def _ends(published: PublishedSurvey, number: int) -> datetime:
    survey = published.survey
    return survey.taken_until(number) + timedelta(days=survey.retention_days) + MARGIN
