"""How the results of a survey are read, in sentences that stand with them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from deniable.server.estimation.estimate import CONFIDENCE
from deniable.server.estimation.texts import FALSE_DISCOVERY
from deniable.shared.survey.document import Survey
from deniable.shared.survey.kinds.base import Estimation

NOTES = (
    "Estimates and intervals are about the people who reported, not about those who did not.",
    (
        f"Each interval by itself holds the truth in {CONFIDENCE:.0%} of cases: at one look once "
        "its round is closed, and at all looks together while it is open."
    ),
    (
        "`low` to `high` is about people like these, drawn at random; `low_these` to `high_these` "
        "about these very people, for whom only the noise is drawn."
    ),
    (
        f"All of a question's intervals from `low_all` to `high_all` hold at once in "
        f"{CONFIDENCE:.0%} of cases: take these for the highest of a list. What is below `floor` "
        "is not told from 0."
    ),
    (
        "A `change` since an earlier round holds however many people are in both; its `low_these` "
        "and `high_these` are about these very people."
    ),
    "Estimates are unbiased and never clipped: `consistent` is the nearest that is possible.",
    "`leverage` is how many honest answers one forged report can be worth.",
)
TEXTS = (
    (
        "Of a text question those answers are listed that stand out, as people wrote them: "
        "`floors` says from how many people on a text is found."
    ),
    (
        "Unlike others, its intervals and the probabilities of what is listed are for one look, "
        "also while a round is open."
    ),
    (
        "The probability that any text is listed which nobody reported is at most "
        f"{FALSE_DISCOVERY:.0%} at one look at a round, if no report is forged; its `note` has "
        "its p-value."
    ),
)
VECTORS = (
    (
        "How often a vector's intervals hold, at one look and at all looks, is measured and not "
        "proved."
    ),
)
BY_ESTIMATION: Mapping[Estimation, tuple[str, ...]] = {"texts": TEXTS, "coordinates": VECTORS}
ONE_OF = (
    (
        "Each install was asked one of the {0} questions, drawn at random: the estimates of a "
        "question come from those who were asked it, and are about all who reported."
    ),
    ("`low_these` and `high_these` are about those who were asked the question, and no others."),
    (
        "A forger chooses the question: against all who reported, of whom one in {0} answered it, "
        "a forged report weighs {0} times its `leverage`."
    ),
)

CROSSED = (
    "`cross` says how many hold two answers at once: from the same reports, so it adds no ε.",
)
LATCHED = (
    (
        "Each install sends one report for {0} rounds at a time: it says what was answered first "
        "among them, and a change shows in the next {0} at the earliest."
    ),
    (
        "Such rounds share their noise: they are not independent, so neither average them nor "
        "judge a difference between them by their intervals."
    ),
)


def notes(survey: Survey) -> tuple[str, ...]:
    """Those that this one needs."""
    ways = {question.estimation for question in survey.questions}
    one = (note.format(len(survey.questions)) for note in ONE_OF if survey.asks_one)
    kept = (note.format(survey.repeat_rounds) for note in LATCHED if survey.repeats)
    own = [notes for way, notes in BY_ESTIMATION.items() if way in ways]
    return (*NOTES, *chain.from_iterable(own), *one, *kept, *(CROSSED if survey.cross else ()))
