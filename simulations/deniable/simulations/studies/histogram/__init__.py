"""A choice among options: every local mechanism for it against a trusted histogram of noisy bins.

    local      each frequency oracle                              variance V(f) / n for each option
    central    geometric noise on each bin, one person replaced   2 h / (h - 1)^2 / n^2, h = e^(ε/2)
    central    the same, one person added or deleted              2 a / (a - 1)^2 / n^2, a = e^ε
    central    the best of what keeps ε for one person replaced, local mechanisms among them
    shuffled   the oracle that a question would have at ε₀       V(f; ε₀) / n for each option

A local report protects a person who gives another answer, so it compares with the first central
line: such a person leaves one bin and enters another. Two options are one count, as the number of
people is public: there h is a. The second line keeps ε only where a neighbour is one person more or
fewer, in which case the number of people is not public; it has 2 ε against another answer. A
curator can also run a local mechanism, which is better where people are few and ε is large. With
many options, the price of unary against the first is (n / 2) / cosh(ε / 4)^2.

The limit is the least sum of squared errors of any local mechanism where all shares are equal, for
many people: (k - 1)^2 / (n T) when people are drawn (`planning/variances.py` of the server).
Errors of these designs, summed over the options, do not depend on the shares. From n of about
40 V k^2 on it is proved to within 25 to 40 %, V = e^ε / (e^ε - 1)^2, by van Trees' inequality.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from deniable.server.estimation.amplification import report_epsilon
from deniable.server.estimation.point_estimates import support_counts, unbiased_share
from deniable.server.planning.variances import (
    ADD_OR_DELETE,
    REPLACE_ONE,
    largest_information,
    least_of_a_share,
)
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.families.support import SupportDesign
from deniable.shared.privacy.mechanisms import support_design
from deniable.simulations.central import GeometricCounts, discrete_laplace
from deniable.simulations.engine import comparison, custom_mechanisms, option
from deniable.simulations.engine.comparison import SHUFFLED, Series
from deniable.simulations.engine.study import Cell, Options, Row, Study
from deniable.simulations.population import drawn, fixed, whole_people
from deniable.simulations.studies.building_blocks import cross
from deniable.simulations.studies.histogram.histogram_report import (
    ADD,
    REPLACE,
    local_series,
    report,
    run_by_the_curator,
)

Array = NDArray[np.float64]
BELOW = 1 - 1e-12  # a limit stays one in doubles


OPTIONS = (
    option.epsilons("0.5,1,2,4"),
    option.people("1e3,1e4,1e5,1e6,1e7,1e8"),
    option.repetitions(200),
    custom_mechanisms.mechanisms_option("choice"),
    option.Option(
        "options", "4,16,64,256,1024", option.several(option.whole(2, 4096)), "how many options"
    ),
    comparison.delta_option(),
)


def cells(options: Options) -> Sequence[Cell]:
    return cross(options, "people", "options", mechanisms=",".join(options["mechanisms"]))


def run(cell: Cell, generator: Generator) -> Sequence[Row]:
    epsilon, people = Epsilon(str(cell["epsilon"])), int(cell["people"])
    k, times = int(cell["options"]), int(cell["repetitions"])
    weights = 1 / np.arange(1, k + 1)
    crowd = Crowd(people, whole_people(weights.tolist(), people), weights / weights.sum())
    rows: list[Row] = []
    for series in local_series(str(cell["mechanisms"]).split(",")):
        if k in custom_mechanisms.find("choice", series.mechanism).sizes:
            design = custom_mechanisms.choice_mechanism(series.mechanism, epsilon, k)
            rows.append(_local(series, design, crowd, times, generator))
    moved = {REPLACE: REPLACE_ONE if k > 2 else ADD_OR_DELETE, ADD: ADD_OR_DELETE}
    rows += [
        _central(series, GeometricCounts(epsilon, by), crowd, times, generator)
        for series, by in moved.items()
    ]
    rows += run_by_the_curator(rows)
    mixed = report_epsilon(epsilon, people, float(cell["delta"]))
    rows.append(
        _shuffled(support_design("choice", mixed, k), str(epsilon), crowd, times, generator)
    )
    return [{"options": k, **row} for row in rows]


@dataclass(frozen=True)
class Crowd:
    """`held[option]` people with each option, and the `shares` of their population."""

    people: int
    held: NDArray[np.int64]
    shares: Array

    @property
    def sampling(self) -> float:
        """The variance that drawing the people adds, averaged over the options."""
        return float(np.mean(self.shares * (1 - self.shares)) / self.people)


def _local(
    series: Series, design: SupportDesign, crowd: Crowd, times: int, generator: Generator
) -> dict[str, str | int | float | None]:
    n, k = crowd.people, design.options

    def shares(counts: NDArray[np.int64]) -> Array:
        supporting = np.array([support_counts(design, cells) for cells in counts])
        return np.asarray(unbiased_share(supporting / n, design))

    these = shares(fixed(design, crowd.held, times, generator).counts) - crowd.held / n
    again = shares(drawn(design, crowd.shares.tolist(), n, times, generator).counts) - crowd.shares
    exact = float(np.mean([design.variance(n, f) for f in (crowd.held / n).tolist()]))
    epsilon = float(design.epsilon)
    equal = k * design.variance(1, 1 / k) + (k - 1) / k
    return {
        **_row(series, str(design.epsilon), crowd, exact, these, again),
        "limit": BELOW * least_of_a_share(epsilon, k) / n,
        "limit_ratio": equal * largest_information(epsilon, k) / (k - 1) ** 2,
        "report_epsilon": str(design.epsilon),
    }


def _shuffled(
    design: SupportDesign, epsilon: str, crowd: Crowd, times: int, generator: Generator
) -> dict[str, str | int | float | None]:
    row = _local(SHUFFLED, design, crowd, times, generator)
    return {**row, "epsilon": epsilon, "limit": None, "limit_ratio": None}  # not known


def _central(
    series: Series, trusted: GeometricCounts, crowd: Crowd, times: int, generator: Generator
) -> dict[str, str | int | float | None]:
    n = crowd.people
    errors = discrete_laplace(trusted.noise, (times, len(crowd.held)), generator) / n
    sampled = generator.multinomial(n, crowd.shares, times) / n - crowd.shares
    exact = trusted.variance(n)
    row = _row(series, str(trusted.epsilon), crowd, exact, errors, errors + sampled)
    return {**row, "limit": None, "limit_ratio": None, "report_epsilon": None}


def _row(
    series: Series, epsilon: str, crowd: Crowd, exact: float, these: Array, again: Array
) -> dict[str, str | int | float | None]:
    """Return a row from the errors of each option in each repetition."""
    these, again = (np.sqrt((errors**2).mean(axis=1)) for errors in (these, again))
    return {
        **comparison.row(series, epsilon, crowd.people, exact, these),
        **comparison.drawn_columns(exact + crowd.sampling, again),
    }


STUDY = Study(
    name="histogram",
    question="What does it cost to learn how popular each option is, without trusting the server?",
    options=OPTIONS,
    cells=cells,
    run=run,
    report=report,
    formulas=(
        (
            "devices; of those who hold an option p say so, of others q",
            r"\dfrac{V(f)}{n} = \dfrac{f p (1 - p) + (1 - f) q (1 - q)}{n (p - q)^2}",
        ),
        ("a trusted server's noisy bins", r"\dfrac{2h}{n^2 (h - 1)^2}, \quad h = e^{ε / 2}"),
        (
            "no mechanism on devices has a smaller sum",
            (
                r"\dfrac{(k - 1)^2}{n T}, \quad "
                r"T = \max_d \dfrac{k d (k - d) (e^ε - 1)^2}{(d e^ε + k - d)^2}"
            ),
        ),
    ),
)
