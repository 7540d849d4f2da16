"""Outcome of one call of `answer`: a status for programs and a sentence for people."""

from dataclasses import dataclass, field
from typing import Literal

Status = Literal[
    "queued", "already-answered", "not-drawn", "budget-spent", "refused", "no-survey", "closed",
    "no-consent", "unavailable",
]  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """Result of a call of `answer`. It contains no answer and no report, so it may be logged.

    queued            a report is on disk, or waits in memory for a locked disk; `detail` gives the
                      days if it leaves only after its round
    already-answered  this install has already answered this survey, or the same questions under its
                      name, in this round; or the report that several rounds share is no longer kept
    not-drawn         this install does not answer this survey in this round. Its rounds are drawn
                      in advance, so that the budget lasts. Nothing is charged or kept
    budget-spent      too little is left of the app's caps; quarterly caps renew the next quarter
    refused           no trusted key signed the survey, or it asks for more than the policy allows
    no-survey         the server lists no survey with that name or id
    closed            the survey is not open today, or its owner closed it
    no-consent        consent was not given, or the environment overrules it
    unavailable       the survey could not be fetched, or the state on disk cannot be used
    """

    status: Status
    detail: str
    survey: str | None = None  # the survey's id, if one was found
    round: int | None = None
    # The questions whose answer did not fit, so that a random one was randomized in its place. It
    # depends on the answers, so it is not in `repr`.
    unfit: tuple[str, ...] = field(default=(), repr=False, compare=False)
