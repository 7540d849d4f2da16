"""Cost of one report on a device, compared with one call of the kernel's generator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from os import urandom
from typing import TypeVar

from deniable.server.surveys.optimal_table import optimal_table
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanism import Draw, kernel_draw
from deniable.shared.privacy.mechanisms import (
    KRandomizedResponse,
    OneBitMean,
    ProjectiveGeometry,
    RandomizedResponse,
    SubsetSelection,
    Unary,
    number_table,
)
from tests.bench.measure import Measurement, compare

CALLS = 20_000
Answer = TypeVar("Answer")


def measurements() -> Iterator[Measurement]:
    one = Epsilon("1")
    yield against_kernel("randomize a bit", RandomizedResponse(one).randomize, 1, 2)
    for k in (16, 1_024, 65_536):
        choice = KRandomizedResponse(one, k)
        yield against_kernel(f"randomize 1 of {k} options, k-ary", choice.randomize, 7, 5)
    for k in (1_024, 65_536):
        geometry = ProjectiveGeometry(one, k)
        geometry.randomize(7, kernel_draw)  # build its sets once
        yield against_kernel(
            f"randomize 1 of {k} options, {geometry.label}", geometry.randomize, 7, 8
        )
    tables = (
        OneBitMean(one),
        number_table(Epsilon("2"), 64, "local-laplace"),
        optimal_table(one, 16),
    )
    for table in tables:
        name = f"randomize a number, {table.name} of {table.answers} points"
        yield against_kernel(name, table.randomize, table.answer_at(1) // 3, 5)
    for k in (128, 1_024):
        for design in (Unary(one, k), SubsetSelection(one, k)):
            name = f"randomize 1 of {k} options, {design.label}"
            limit = 60 / 0.35  # at most 60 µs with 1,024 options, if urandom takes .35 µs
            yield against_kernel(name, design.randomize, 7, limit, calls=500)


def against_kernel(
    name: str,
    randomize: Callable[[Answer, Draw], int],
    answer: Answer,
    limit: float,
    calls: int = CALLS,
) -> Measurement:
    """Compare with the kernel's generator.

    Both are called in the same loop, so both times include its overhead.
    """

    def ours() -> None:
        for _ in range(calls):
            randomize(answer, kernel_draw)

    def kernel() -> None:
        for _ in range(calls):
            urandom(8)

    return compare(
        name, ours, kernel, unit="ns", per=1e9 / calls, limit=limit, note="os.urandom(8)"
    )
