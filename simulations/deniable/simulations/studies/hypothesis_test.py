"""Hypothesis test: how many people are needed to distinguish two shares, in each model.

`pages/test.txt` has the formulas, limits and sources, under "theory".
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
from deniable.simulations.central.noise import tulap, tulap_below
from deniable.simulations.engine import option
from deniable.simulations.engine.estimators import Estimator, Rows, number, sweep, value_of
from deniable.simulations.engine.figures import LOOKS, Curve, Panel, curve, drawing, scaled
from deniable.simulations.engine.presentation import View, study, table, worst_deviation
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
    shared = {"model": model, "estimator": estimator.name, "epsilon": str(cell["epsilon"])}
    needed = test.people_needed(float(cell["power"]))
    rows: list[Row] = []
    for people in map(int, str(cell["people"]).split(",")):
        exact = test.power(people)
        counts = generator.binomial(people, test.rates[1], times)
        simulated = {
            "measured": float(test.rejects(people, counts, generator).mean()),
            "error": math.sqrt(max(0.0, exact * (1 - exact)) / times),
        }
        limits = {"limit": exact, "people_needed": needed}
        rows.append({**shared, "people": people, "exact": exact, **simulated, **limits})
    return rows


def report(view: View) -> Report:
    rows, power = view.rows, view.power
    ends = (view.options["epsilon"][0], view.options["epsilon"][-1])
    shares = f"shares of {100 * view.low:g} % and {100 * view.high:g} %"
    kept = f"power {power:g}, level {view.level:g}"
    values = {
        "shares": shares,
        "needed": {one.model: _needed(one)(view.along("people")) for one in ESTIMATORS},
        "at_ends": [_needed(LOCAL)(rows.at(epsilon=end)) for end in ends],
        "off": worst_deviation([r for r in rows if number(r, "error") > LEAST_ERROR]),
    }
    powers = Panel(
        f"Power to distinguish {shares}, ε {view.epsilon}",
        *(_power_curves(view), "people", "power, %", ("log", "linear"), 100 * power, (0, 103)),
    )
    people = [
        curve(rows.of(one), one.look, "epsilon", "people_needed", one.label) for one in ESTIMATORS
    ]
    columns = {one.label: _needed(one) for one in ESTIMATORS} | {"devices / no privacy": _price}
    title = f"People needed to distinguish {shares}, {kept}"
    return view.report(
        values,
        {
            "power": drawing(powers),
            "people": drawing(Panel(f"People needed, {kept}", people, "ε", "people needed")),
        },
        [table(title, rows, {"ε": "epsilon"}, columns)],
    )


def _needed(one: Estimator) -> Callable[[Rows], str]:
    def text(rows: Rows) -> str:
        people = rows.of(one)[0]["people_needed"]
        return "over ten billion" if people is None else f"{people:,}"

    return text


def _price(rows: Rows) -> str:
    none, local = (value_of(rows.of(one)[0], "people_needed") for one in (NONE, LOCAL))
    return f"{local / none:,.1f}" if none and local else ""


def _power_curves(view: View) -> list[Curve]:
    """Return curves of exact power on a fine grid of people, and points of measured power."""
    people = view.options["people"]
    fine = np.unique(np.geomspace(min(people), max(people), 80).astype(int)).tolist()
    points, curves = scaled(lambda _: 100.0), list[Curve]()
    for one in ESTIMATORS:
        test = ShareTest(one.model, Epsilon(view.epsilon), view.low, view.high, view.level)
        exact = [(float(n), 100 * test.power(n), 0.0) for n in fine]
        _, measured = points.curves(view.along("people").of(one), one.look, "", "people")
        curves += [Curve(exact, one.look, one.label, "line"), measured]
    return curves


STUDY = study("test", OPTIONS, cells, run, report, check=_check)
