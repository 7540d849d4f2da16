"""What a round's reports give away where a relay shuffles them: (ε, δ), in figures and in words."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Literal

from deniable.server.estimation.shuffled import shuffled_epsilon
from deniable.server.results.document import Shuffled
from deniable.shared.privacy.epsilon import BILLION
from deniable.shared.sealed_envelope import BATCH
from deniable.shared.survey.document import Survey

Among = Literal["batch", "round"]
DELTA = "0.000001"
MOST_PEOPLE = 1_000_000  # with more of them ε is smaller still
DIGITS = 3
SEEN = {
    "batch": "to whoever sees the relay's batches come, as the server does",
    "round": "to whoever sees the whole round and not its batches",
}


def shuffled(survey: Survey, reports: int) -> tuple[Shuffled, ...]:
    """Of one report among those of a batch, and of all the round; nothing where none are sealed,
    or where rounds share a report, which comes again and again."""
    if survey.sealed_to is None or survey.repeats or reports < 2:
        return ()
    batch = _shuffled(survey.round_billionths, min(reports, BATCH), "batch")
    if reports <= BATCH:
        return (batch,)
    return batch, _shuffled(survey.round_billionths, _leading(reports), "round")


def sentences(found: tuple[Shuffled, ...], epsilon: str) -> Iterator[str]:
    """The same for people; `epsilon` is that of a report by itself."""
    for each in found:
        yield (
            f"If the relay is honest and {each.people:,} people are whose reports it shuffles "
            f"together, one report gives away (ε {each.epsilon}, δ {each.delta}) and not ε "
            f"{epsilon}, {SEEN[each.among]}."
        )


def _leading(reports: int) -> int:
    """Only the first digit, so that few values are ever computed; fewer people, larger ε.

    >>> _leading(123_456), _leading(99), _leading(10**9)
    (100000, 90, 1000000)
    """
    unit = int("1".ljust(len(str(reports)), "0"))
    return min(reports // unit * unit, MOST_PEOPLE)


@lru_cache(maxsize=1_024)
def _shuffled(billionths: int, people: int, among: Among) -> Shuffled:
    local = billionths / BILLION
    epsilon = shuffled_epsilon(local, people, float(DELTA))
    return Shuffled(among=among, people=people, epsilon=_upward(epsilon), delta=DELTA)


def _upward(epsilon: float) -> str:
    """In three digits, rounded up.

    >>> _upward(0.1486712), _upward(2.0), _upward(0.00012301)
    ('0.149', '2', '0.000124')
    """
    from decimal import ROUND_CEILING, Context, Decimal

    rounded = Context(prec=DIGITS, rounding=ROUND_CEILING).create_decimal(Decimal(epsilon))
    text = f"{rounded:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
