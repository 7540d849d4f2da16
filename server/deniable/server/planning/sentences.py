"""A plan in two sentences: how exact, for how many people; and what as many direct answers tell."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

Found = Mapping[str, Any]  # what `plan` says; Any: what JSON holds


def sentences(found: Found, margin: Callable[[float], str]) -> list[str]:
    """`margin` writes half of an interval, in the question's own measure, with its ±."""
    if "floor" in found:
        return [_from_where_on(found, margin)]
    return [_how_exact(found, margin), _how_much_it_is_worth(found)]


def _from_where_on(found: Found, margin: Callable[[float], str]) -> str:
    people, floor = found["people"], found["floor"]
    if floor >= 1:
        return f"{people:,} people are too few to find any text."
    return (
        f"Of {people:,} people, a text that {math.ceil(floor * people):,} or more answer is found "
        f"with a probability of 99 %, and its share told to {margin(found['half_width_95'])}."
    )


def _how_exact(found: Found, margin: Callable[[float], str]) -> str:
    ratio = found["limit_ratio"]
    above = "" if ratio is None else f", {ratio:.3f} times the least variance that can be had"
    told = f"{found['people']:,} people tell it to {margin(found['half_width_95'])}{above}"
    if found["people_for_error"] == found["people"]:
        return f"{told}; for half of that it takes {4 * found['people']:,}."
    return f"{told}; for {margin(_error(found))} it takes {found['people_for_error']:,} people."


def _how_much_it_is_worth(found: Found) -> str:
    return (
        f"{found['people']:,} deniable answers carry the information of about "
        f"{found['direct_equivalent']:,} direct ones."
    )


def _error(found: Found) -> float:
    """That of as many people as are enough for what was asked for."""
    width, people, enough = (found[k] for k in ("half_width_95", "people", "people_for_error"))
    return float(width) * math.sqrt(people / enough)
