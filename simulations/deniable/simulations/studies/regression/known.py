"""What is known of an estimator's mean squared error, with so many people."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Known:
    first_order: float  # the formula for many people
    noise: float | None  # of which privacy adds this, where it is a part of its own
    exact: float | None  # but for rounding of doubles, where a distribution is known
    limit: float | None  # what no estimator of the same model is below


def known(
    people: int,
    formula: tuple[float, float | None, float | None],
    exact: float | None,
    limit: float | None,
    off: float = 0.0,
    noisy: bool = False,
) -> Known:
    """`formula` is n times the error, and what noise adds, n times and n^2 times; an
    estimate stays `off` however many people there are."""
    once, noise, small = formula
    added = (noise or 0.0) / people + (small or 0.0) / people**2
    return Known(
        once / people + added + off**2,
        added if noisy else None,
        exact,
        limit,
    )
