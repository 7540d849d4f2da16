"""What a question's estimates say, in a sentence of what a figure does not show by itself."""

from __future__ import annotations

from collections.abc import Sequence

from deniable.server.results.display import Figures

MOST_NAMED = 3  # of those that may be first


def said_of_one(row: Figures) -> str:
    """The only label's estimate, with its interval."""
    low, high = row.text(row.low), row.text(row.high)
    return row.style.sentence.format(value=row.whole, label=row.label, low=low, high=high)


def said_of_shares(rows: Sequence[Figures], most: int) -> str:
    """Which of several labels is the highest, as far as it is told. Their intervals hold for all of
    them at once; of more than `most` it is said how many are told from none."""
    told = sum(row.told for row in rows)
    if not told:
        return f"None of {len(rows):,} is told from one that nobody holds."
    if len(rows) > most:
        verb = "is" if told == 1 else "are"
        return f"{told:,} of {len(rows):,} {verb} told from one that nobody holds."
    return _first(sorted(rows, key=lambda row: -row.estimate))


def said_of_texts(found: int) -> str:
    return "1 text stands out." if found == 1 else f"{found} texts stand out."


def changed(row: Figures, since: str) -> str:
    """Of one label's difference from an earlier round."""
    low, high = (row.text(end).lstrip("+−") for end in (row.low, row.high))
    size = row.whole.lstrip("+−")
    if row.low > 0:
        return f"That is {size} more than in {since}: between {low} and {high} more."
    if row.high < 0:
        return f"That is {size} less than in {since}: between {high} and {low} less."
    return f"No change since {since} is told: the difference is between {row.bounds_in_words}."


def _first(ordered: Sequence[Figures]) -> str:
    first, others = ordered[0], ordered[1:]
    near = [first, *(row for row in others if row.high >= first.low)]
    if len(near) == 1:
        return f"{first.label} comes first{_second(others)}."
    if len(near) > MOST_NAMED:
        return f"Which comes first is not told: {len(near):,} may."
    names = ", ".join(row.label for row in near[:-1])
    return f"{names} and {near[-1].label} lead; which comes first is not told."


def _second(others: Sequence[Figures]) -> str:
    """If it is told from all that are lower."""
    if len(others) < 2 or others[0].low <= max(row.high for row in others[1:]):
        return ""
    return f", {others[0].label} second"
