"""Shared pages: read-only results of a survey at a secret address, for a limited time."""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta

from deniable.server.store import PublishedSurvey, Share, Store
from deniable.shared.errors import Refused, WrongUse

SHARED_PAGES = "/shared/"
NO_SHARED_PAGE = f"{SHARED_PAGES}none"  # path of the page that explains a missing one
SECRET_BYTES = 24
MAX_DAYS = 365
MAX_SHARES = 20  # of one survey at the same time


def share_results(
    store: Store,
    published: PublishedSurvey,
    actor: str,
    now: datetime,
    days: int,
    division: str = "",
    number: int | None = None,
    is_linked: bool = False,
) -> Share:
    """Share a view of a survey's results, in the language of its texts, and return it.

    The view is a round or a division of the rounds; without either, it is the newest round.
    """
    if not 1 <= days <= MAX_DAYS:
        raise WrongUse(f"a shared page can be read for 1 to {MAX_DAYS} days")
    if sum(one.survey == published.sequence for one in store.shares()) >= MAX_SHARES:
        raise Refused(f"at most {MAX_SHARES} pages of a survey can be shared; revoke one")
    survey, today = published.survey, now.date()
    has_begun = number is None or survey.round_starts(number) <= now
    if number is not None and not (has_begun and survey.first_round <= number <= survey.last_round):
        raise Refused("this round does not exist, or has not begun")
    share = Share(
        path=SHARED_PAGES + secrets.token_urlsafe(SECRET_BYTES),
        survey=published.sequence,
        actor=actor,
        created=today,
        expires=today + timedelta(days=days),
        division=division,
        round=number,
        language=survey.language,
        is_linked=is_linked,
    )
    store.share(share)
    return share
