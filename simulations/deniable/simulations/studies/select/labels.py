"""What the estimators are called, and how they look."""

from __future__ import annotations

from deniable.simulations.engine.comparison import look

LABELS = {
    "mean": "no privacy",
    "exponential": "exponential mechanism",
    "permute-and-flip": "permute and flip",
    "gumbel": "trusted, Gumbel noise",
    "unary": "devices, unary votes",
    "randomized-response": "devices, one condition each",
}
LOOKS = dict(zip(LABELS, map(look, (2, 1, 3, 1, 0, 0)), strict=True))
