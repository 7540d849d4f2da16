"""Headlines: what estimates, changes and privacy amount to, each in one sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence

from deniable.server.planning.forecast import direct_equivalent, people_for
from deniable.server.planning.variances import half_width
from deniable.server.results.display import STYLES, Figures
from deniable.shared.survey.kinds.base import Question

MAX_NAMED = 3  # options that may be first
PEOPLE_DIGITS = 2  # of a number of people that is expected, not counted


def one_label(row: Figures) -> str:
    """Describe the only label's estimate, with its interval."""
    low, high = row.text(row.low), row.text(row.high)
    return row.style.sentence.format(value=row.whole, label=row.label, low=low, high=high)


def several_labels(rows: Sequence[Figures], most: int) -> str:
    """Say which label leads, as far as the joint intervals of `rows` can tell.

    For more than `most` labels, say how many are clearly above zero.
    """
    clear = sum(row.is_clear for row in rows)
    if not clear:
        return "No option stands out from zero yet."
    if len(rows) > most:
        verb = "is" if clear == 1 else "are"
        return f"{clear:,} of {len(rows):,} options {verb} clearly above zero."
    first, *others = sorted(rows, key=lambda row: -row.estimate)
    rivals = [row for row in others if row.high >= first.low]
    if not rivals:
        return f"{first.label} is first ({first.whole}){_second(others)}."
    if len(rivals) >= MAX_NAMED:
        return f"Too close to call: any of {1 + len(rivals):,} options may be first."
    *names, last = (row.label for row in (first, *rivals))
    return f"{', '.join(names)} and {last} lead. The data cannot say which is ahead."


def texts_found(count: int) -> str:
    if count == 1:
        return "1 answer is common enough to be found."
    return f"{count} answers are common enough to be found."


def change(row: Figures, since: str) -> str:
    """Describe one label's difference from an earlier round."""
    low, high = (row.text(end).lstrip("+−") for end in (row.low, row.high))
    size = row.whole.lstrip("+−")
    if row.low > 0:
        return f"{size} higher than in {since} ({low} to {high} higher)."
    if row.high < 0:
        return f"{size} lower than in {since} ({high} to {low} lower)."
    return f"No clear change since {since} (difference: {row.interval})."


def privacy_cost(question: Question, reports: int, asked_one_of: int = 1) -> str:
    """Say how many open answers are worth as much, and how many people a smaller error takes.

    Where each install is asked one of several questions, that many times as many people are needed.
    Both numbers are as planned, for the worst case.
    """
    style = STYLES[question.statistic]
    worth = direct_equivalent(question.mechanism, reports)
    smaller = smaller_error(style.factor * half_width(question, reports)) / style.factor
    people = asked_one_of * people_for(question, smaller)
    wanted = f"{style.factor * smaller:g}"
    unit = style.behind_margin(question.unit)
    unit = unit.removesuffix("s") if wanted == "1" and not question.unit else unit
    return (
        f"These {reports:,} answers are worth {_openly(worth)} asked openly. "
        f"For ± {wanted}{unit} you need about {rounded_people(people)} people."
    )


def smaller_error(error: float) -> float:
    """Return a round number, at most half the error.

    >>> smaller_error(2.8), smaller_error(1.2), smaller_error(0.3), smaller_error(20)
    (1.0, 0.5, 0.1, 10.0)
    """
    power = 10.0 ** math.floor(math.log10(error / 2) + 1e-9)
    return float(f"{max(m * power for m in (1, 2, 5) if m * power <= error / 2 + 1e-12):.12g}")


def rounded_people(people: int) -> str:
    """Return a number of people as text, rounded.

    >>> rounded_people(160_080), rounded_people(1_134), rounded_people(87)
    ('160,000', '1,100', '87')
    """
    digits = max(0, len(str(people)) - PEOPLE_DIGITS)
    return f"{round(people, -digits):,}"


def _second(others: Sequence[Figures]) -> str:
    """Name the second label if it is clearly ahead of the rest."""
    if len(others) < 2 or others[0].low <= max(row.high for row in others[1:]):
        return ""
    return f", {others[0].label} second ({others[0].whole})"


def _openly(worth: int) -> str:
    return "less than one answer" if worth < 1 else rounded_people(worth)
