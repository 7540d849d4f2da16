"""What became of one call of `answer`: a word for programs and a sentence for people."""

from dataclasses import dataclass, field
from typing import Literal

Status = Literal[
    "queued",
    "already-answered",
    "budget-spent",
    "refused",
    "no-survey",
    "closed",
    "no-consent",
    "unavailable",
]


@dataclass(frozen=True)
class Outcome:
    """Holds no answer and no report, so it may be logged.

    queued            a report is on disk, and will be sent
    already-answered  this install has already answered this survey, or the same questions under its
                      name, in this round; or its one report of several rounds is kept no more
    budget-spent      too little is left of the app's caps over all surveys
    refused           no trusted key signed the survey, or it asks for more than the policy allows
    no-survey         the server lists no survey with that name or id
    closed            the survey is not open today, or was closed by its owner
    no-consent        consent was not given, or the environment overrules it
    unavailable       the survey could not be fetched, or the state on disk cannot be used
    """

    status: Status
    detail: str
    survey: str | None = None  # id of the survey that was meant, where one was found
    round: int | None = None
    # Questions whose answer did not fit, so that a random one went its way. Only here, and not in
    # a log line: it says something about the answer.
    unfit: tuple[str, ...] = field(default=(), repr=False, compare=False)
