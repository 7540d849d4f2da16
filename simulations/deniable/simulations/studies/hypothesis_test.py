"""Hypothesis test: how many people are needed to distinguish two shares, in each model.

Each test is the most powerful one of its model, so its power is also the limit: no other test of
the model detects the larger share more often.

    none       reject if many say yes, with a coin at the boundary (Neyman, Pearson)
    central    reject with probability F(s - m), where F is the distribution of Tulap noise [1]
    local      as "none", on randomized responses. Every report about two points is a function of
               randomized response, so no local test is more powerful [2]

Power is an exact sum over binomials; tests of simulated populations are a check. Power grows with
the number of people, because a test may ignore some of them. Bisection therefore finds the least
number of people that reaches a power.

[1] Awan, Slavkovic 2018, "Differentially private uniformly most powerful tests for binomial data",
    NeurIPS.
[2] Kairouz, Oh, Viswanath 2015, "The composition theorem for differential privacy", ICML.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import binom

from deniable.shared.errors import WrongUse
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.simulations.central.discrete_laplace import tulap, tulap_below
from deniable.simulations.engine import option, sentences
from deniable.simulations.engine.estimators import Estimator, Rows, middle, number, sweep, value_of
from deniable.simulations.engine.figures import LOOKS, Curve, Panel, curve, drawing
from deniable.simulations.engine.page_text import PageText
from deniable.simulations.engine.study import Cell, Options, Report, Row
from deniable.simulations.studies.bit_reports import Array, binomial, least_enough, reported_rate

Counts = NDArray[np.int64]
NONE = Estimator("none", "binomial", "no privacy", LOOKS[2])
CENTRAL = Estimator("central", "tulap", "trusted server", LOOKS[1])
LOCAL = Estimator("local", "randomized-response", "devices", LOOKS[0])
ESTIMATORS = (NONE, CENTRAL, LOCAL)
LEAST_ERROR = 0.001  # below this Monte-Carlo error, a single rejection weighs too much
MAX_PEOPLE = 10**10  # the search for the people needed gives up at this number
OPTIONS = (
    option.epsilons("0.1,0.5,1,2,4"),
    option.people("30,100,200,300,500,800,1200,2e3,3e3,5e3,1e4,2e4,1e5,1e6"),
    option.repetitions(4_000),
    option.probability("low", 0.5, "share under the null hypothesis", "SHARE"),
    option.probability("high", 0.55, "larger share, to be detected", "SHARE"),
    option.probability("level", 0.05, "probability of a false detection", "ALPHA"),
    option.probability("power", 0.9, "probability of a correct detection", "POWER"),
)


@dataclass(frozen=True)
class ShareTest:
    """Most powerful test of `low` against `high`, which rejects a true `low` at rate `level`."""

    model: str
    epsilon: Epsilon
    low: float
    high: float
    level: float

    @cached_property
    def rates(self) -> tuple[float, float]:
        """Probabilities of a counted yes, for the shares `low` and `high`."""
        if self.model != "local":
            return self.low, self.high
        low, high = reported_rate(RandomizedResponse(self.epsilon), np.array([self.low, self.high]))
        return float(low), float(high)

    def power(self, people: int) -> float:
        if self.model == "central":
            return self._expected(binomial(people, self.high), self._threshold(people))
        boundary, coin = self._boundary(people)
        high = binom(people, self.rates[1])
        return float(high.sf(boundary) + coin * high.pmf(boundary))

    def rejects(self, people: int, counts: Counts, generator: Generator) -> NDArray[np.bool_]:
        """Return whether the test rejects each of these counts."""
        if self.model == "central":
            noisy = counts + tulap(self.epsilon, len(counts), generator)
            return np.asarray(noisy > self._threshold(people))
        boundary, coin = self._boundary(people)
        tie = (counts == boundary) & (generator.random(len(counts)) < coin)
        return np.asarray((counts > boundary) | tie)

    def people_needed(self, power: float) -> int | None:
        return least_enough(lambda people: self.power(people) >= power, MAX_PEOPLE)

    def _boundary(self, people: int) -> tuple[int, float]:
        """Return the count above which the test rejects, and the probability of rejecting at it."""
        low = binom(people, self.rates[0])
        boundary = int(low.isf(self.level))
        at = float(low.pmf(boundary))
        return boundary, (self.level - float(low.sf(boundary))) / at if at else 0.0

    def _threshold(self, people: int) -> float:
        """Return the m at which `low` is rejected with probability `level`."""
        low = binomial(people, self.low)
        reach = 60 / float(self.epsilon)
        return float(
            brentq(
                lambda m: self._expected(low, m) - self.level,
                low[0][0] - reach,
                low[0][-1] + reach,
                xtol=1e-9,  # in people
                rtol=1e-14,
            )
        )

    def _expected(self, counted: tuple[Array, Array], threshold: float) -> float:
        counts, chances = counted
        return float(chances @ tulap_below(counts - threshold, float(self.epsilon)))


def _check(options: dict[str, Any]) -> Options:  # Any: JSON values
    if not options["low"] < options["high"]:
        raise WrongUse(f"low must be below high, got {options['low']:g} and {options['high']:g}")
    if not options["level"] < options["power"]:
        raise WrongUse(
            "level must be below power, as a random guess already has power equal to its level"
        )
    return options


def cells(options: Options) -> Sequence[Cell]:
    people = ",".join(map(str, options["people"]))
    return sweep({**options, "people": people}, "epsilon", model=[one.model for one in ESTIMATORS])


def run(cell: Cell, generator: Generator) -> Sequence[Row]:
    (estimator,) = (one for one in ESTIMATORS if one.model == cell["model"])
    model, times = str(cell["model"]), int(cell["repetitions"])
    low, high, level = (float(cell[key]) for key in ("low", "high", "level"))
    test = ShareTest(model, Epsilon(str(cell["epsilon"])), low, high, level)
    needed = test.people_needed(float(cell["power"]))
    rows: list[Row] = []
    for people in map(int, str(cell["people"]).split(",")):
        exact = test.power(people)
        counts = generator.binomial(people, test.rates[1], times)
        rows.append(
            {
                "model": model,
                "estimator": estimator.name,
                "epsilon": str(cell["epsilon"]),
                "people": people,
                "exact": exact,
                "measured": float(test.rejects(people, counts, generator).mean()),
                "error": math.sqrt(max(0.0, exact * (1 - exact)) / times),
                "limit": exact,
                "people_needed": needed,
            }
        )
    return rows


def report(options: Options, found: Sequence[Row]) -> Report:
    rows, power = Rows(found), options["power"]
    epsilon, ends = middle(options["epsilon"]), (options["epsilon"][0], options["epsilon"][-1])
    shares = f"shares of {100 * options['low']:g} % and {100 * options['high']:g} %"
    kept = f"power {power:g}, level {options['level']:g}"
    at_ends = [_needed(LOCAL)(rows.at(epsilon=end)) for end in ends]
    known = [row for row in rows if number(row, "error") > LEAST_ERROR]
    values = {
        "shares": shares,
        "needed": {one.model: _needed(one)(rows.at(epsilon=epsilon)) for one in ESTIMATORS},
        "ends": ends,
        "at_ends": at_ends,
        "off": sentences.worst_deviation(known),
    }
    title = f"Power to distinguish {shares}, ε {epsilon}"
    powers = Panel(
        *(title, _power_curves(rows.at(epsilon=epsilon), options), "people", "power, %"),
        *(("log", "linear"), 100 * power, (0, 103)),
    )
    people = [
        curve(rows.of(one), one.look, "epsilon", "people_needed", one.label) for one in ESTIMATORS
    ]
    columns = {one.label: _needed(one) for one in ESTIMATORS} | {"devices / no privacy": _price}
    title = f"People needed to distinguish {shares}, {kept}"
    return TEXT.report(
        options,
        values,
        {
            "power": drawing(powers),
            "people": drawing(Panel(f"People needed, {kept}", people, "ε", "people needed")),
        },
        [sentences.table(title, rows, {"ε": "epsilon"}, columns)],
    )


def _needed(one: Estimator) -> Callable[[Rows], str]:
    """Return a column with the number of people that the estimator needs, up to `MAX_PEOPLE`."""

    def text(rows: Rows) -> str:
        people = rows.of(one)[0]["people_needed"]
        return "over ten billion" if people is None else f"{people:,}"

    return text


def _price(rows: Rows) -> str:
    none, local = (value_of(rows.of(one)[0], "people_needed") for one in (NONE, LOCAL))
    return f"{local / none:,.1f}" if none and local else ""


def _power_curves(rows: Rows, options: Options) -> list[Curve]:
    """Return curves of exact power on a fine grid of people, and points of measured power."""
    people = options["people"]
    fine = np.unique(np.geomspace(min(people), max(people), 80).astype(int)).tolist()
    stated, curves = [options[key] for key in ("low", "high", "level")], list[Curve]()
    for one in ESTIMATORS:
        test = ShareTest(one.model, Epsilon(str(rows[0]["epsilon"])), *stated)
        exact = [(float(n), 100 * test.power(n), 0.0) for n in fine]
        measured = [
            (number(row, "people"), 100 * number(row, "measured"), 300 * number(row, "error"))
            for row in rows.of(one)
        ]
        curves += [
            Curve(exact, one.look, one.label, "line"), Curve(measured, one.look, form="points"),
        ]  # fmt: skip
    return curves


TEXT = PageText("test")
STUDY = TEXT.study(OPTIONS, cells, run, report, check=_check)
