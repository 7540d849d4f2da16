"""Sentences that accompany results: how to read them, and what a relay's shuffle adds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import ROUND_CEILING, Context, Decimal

from deniable.server.estimation.amplification import shuffled_epsilon
from deniable.server.estimation.estimate import CONFIDENCE
from deniable.server.estimation.text_estimates import FALSE_DISCOVERY
from deniable.server.results.document import Shuffled
from deniable.server.results.estimate_cache import EstimateCache
from deniable.shared.privacy.epsilon import BILLION
from deniable.shared.sealed_envelope import BATCH
from deniable.shared.survey.document import Survey
from deniable.shared.survey.kinds.base import Estimation

NOTES = (
    "Results describe the people who reported, not those who did not.",
    (
        f"Each interval on its own contains the truth in {CONFIDENCE:.0%} of cases: at one look "
        "once the round no longer accepts reports, and for repeated looks while it does."
    ),
    (
        "`low` to `high` refers to the population that the respondents came from; `low_these` to "
        "`high_these` refers to exactly the respondents, for whom only the privacy noise is random."
    ),
    (
        f"All of a question's intervals from `low_all` to `high_all` hold jointly in "
        f"{CONFIDENCE:.0%} of cases: use them for the highest of a list. Estimates below `floor` "
        "cannot be distinguished from 0."
    ),
    (
        "A `change` since an earlier round is valid even if the same people answered in both; its "
        "`low_these` and `high_these` refer to exactly the respondents."
    ),
    "Estimates are unbiased and never clipped; `consistent` is the closest possible value.",
    "`leverage` is how many honest answers one forged report can be worth.",
)
TEXTS = (
    (
        "For a text question, the answers that stand out are listed as people wrote them; `floors` "
        "gives the number of people from which on a text is found."
    ),
    (
        "Unlike other intervals, those of texts are for one look, even while a round is open, and "
        "so are the probabilities of what is listed."
    ),
    (
        "If no report is forged, the probability that any listed text was given by no one is at "
        f"most {FALSE_DISCOVERY:.0%} at one look at a round; the `note` of a text has its p-value."
    ),
)
VECTORS = (
    (
        "The coverage of a vector's intervals, for one look and for repeated looks, is measured, "
        "not proved."
    ),
)
BY_ESTIMATION: Mapping[Estimation, tuple[str, ...]] = {"texts": TEXTS, "coordinates": VECTORS}
ONE_OF = (
    (
        "Each install was asked one of the {0} questions, drawn at random: a question's estimates "
        "come from those who were asked it, and describe all who reported."
    ),
    "`low_these` and `high_these` refer only to those who were asked the question.",
    (
        "A forger chooses the question: among all who reported, of whom one in {0} answered it, a "
        "forged report weighs {0} times its `leverage`."
    ),
)
CROSSED = (
    (
        "`cross` gives the share of people who gave two answers, counted from the same reports: it "
        "adds no ε."
    ),
)
LATCHED = (
    (
        "Each install sends one report for {0} rounds at a time: it holds the first answer among "
        "them, and a change shows in the next {0} at the earliest."
    ),
    (
        "Such rounds contain the same reports: do not average them, and do not judge a difference "
        "between them by their intervals."
    ),
)

DELTA = "0.000001"
MAX_PEOPLE = 1_000_000  # with more people ε is smaller still
EPSILON_DIGITS = 3
OBSERVERS = {
    "batch": "to anyone who sees the relay's batches arrive, as the server does",
    "round": "to anyone who sees the whole round but not its batches",
}


def notes(survey: Survey) -> tuple[str, ...]:
    """Return the notes that this survey's results need."""
    ways = {question.estimation for question in survey.questions}
    return (
        *NOTES,
        *(note for way, own in BY_ESTIMATION.items() if way in ways for note in own),
        *(note.format(len(survey.questions)) for note in ONE_OF if survey.asks_one),
        *(note.format(survey.repeat_rounds) for note in LATCHED if survey.repeats),
        *(CROSSED if survey.cross else ()),
    )


# The relay's shuffle


def shuffled(survey: Survey, reports: int, cache: EstimateCache) -> tuple[Shuffled, ...]:
    """Return the (ε, δ) of one report among those of a batch, and among those of the round.

    Nothing where reports are not sealed, or where rounds share a report: observers see it
    repeatedly.
    """
    if survey.sealed_to is None or survey.repeats or reports < 2:
        return ()
    amongs = [("batch", min(reports, BATCH))]
    if reports > BATCH:
        amongs.append(("round", _leading(reports)))
    keys = [("shuffled", survey.round_billionths, *among) for among in amongs]
    return tuple(cache.get(keys, lambda missing: [_shuffled(*keys[i]) for i in missing], _no_rows))


def shuffle_sentences(found: Sequence[Shuffled], epsilon: str) -> Iterator[str]:
    """Yield the same as sentences; `epsilon` is that of a report on its own."""
    for among in found:
        yield (
            f"If the relay is honest, and so are the {among.people:,} people whose reports it "
            f"shuffles together, one report reveals at most (ε {among.epsilon}, δ {among.delta}) "
            f"instead of ε {epsilon} {OBSERVERS[among.among]}."
        )


def _shuffled(_: str, billionths: int, among: str, people: int) -> Shuffled:
    epsilon = shuffled_epsilon(billionths / BILLION, people, float(DELTA))
    return Shuffled(among=among, people=people, epsilon=_upward(epsilon), delta=DELTA)  # type: ignore[arg-type]  # one of OBSERVERS


def _no_rows(_: Shuffled) -> int:
    return 0


def _leading(reports: int) -> int:
    """Keep only the first digit, so that few values are ever computed; fewer people, larger ε.

    >>> _leading(123_456), _leading(99), _leading(10**9)
    (100000, 90, 1000000)
    """
    unit = int("1".ljust(len(str(reports)), "0"))
    return min(reports // unit * unit, MAX_PEOPLE)


def _upward(epsilon: float) -> str:
    """Round up to three digits.

    >>> _upward(0.1486712), _upward(2.0), _upward(0.00012301)
    ('0.149', '2', '0.000124')
    """
    rounded = Context(prec=EPSILON_DIGITS, rounding=ROUND_CEILING).create_decimal(Decimal(epsilon))
    text = f"{rounded:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
