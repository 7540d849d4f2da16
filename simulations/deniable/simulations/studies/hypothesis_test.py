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
from collections.abc import Sequence
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
from deniable.simulations.engine.estimators import Estimator, Rows, middle, number, sweep
from deniable.simulations.engine.figures import LOOKS, Curve, Panel, curve, draw
from deniable.simulations.engine.study import Cell, Figure, Options, Report, Row, Study
from deniable.simulations.studies.bit_reports import Array, binomial, least_enough, reported_rate

Counts = NDArray[np.int64]
NONE = Estimator("none", "binomial", "no privacy", LOOKS[2])
CENTRAL = Estimator("central", "tulap", "trusted server", LOOKS[1])
LOCAL = Estimator("local", "randomized-response", "devices", LOOKS[0])
ESTIMATORS = (NONE, CENTRAL, LOCAL)
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
    rows, epsilons, power = Rows(found), options["epsilon"], options["power"]
    epsilon = middle(epsilons)
    shares = f"shares of {100 * options['low']:g} % and {100 * options['high']:g} %"
    kept = f"power {power:g}, level {options['level']:g}"
    needed = {e: _needed(rows.at(epsilon=e)) for e in epsilons}
    text = {one: _text(needed[epsilon][one]) for one in ESTIMATORS}
    known = [
        row for row in rows if number(row, "error") > 0.001
    ]  # below that, a single rejection weighs too much
    off = sentences.worst_deviation(known)
    powers = Panel(
        f"Power to distinguish {shares}, ε {epsilon}",
        _power_curves(rows.at(epsilon=epsilon), options),
        *("people", "power, %", ("log", "linear")),
        reference=100 * power,
        limits=(0, 103),
    )
    curves = [
        curve(rows.of(one), one.look, "epsilon", "people_needed", one.label) for one in ESTIMATORS
    ]
    people = Panel(f"People needed, {kept}", curves, "ε", "people needed")
    return Report(
        sentences.paragraphs(
            f"""To distinguish {shares} with power {power:g} at ε {epsilon}, you need {text[NONE]}
            people without privacy, {text[CENTRAL]} with a trusted server, and {text[LOCAL]} with
            devices that randomize their answers.

            At ε {epsilons[0]} you need {_text(needed[epsilons[0]][LOCAL])} devices, and at
            ε {epsilons[-1]} {_text(needed[epsilons[-1]][LOCAL])}. No other reports with this ε and
            no other test need fewer."""
        ),
        [
            Figure(
                "power",
                f"The power to distinguish {shares}, against the number of people, at ε {epsilon}. "
                "Lines are exact, and points are simulations. No test of the same model has more "
                "power.",
                lambda: draw([powers]),
            ),
            Figure(
                "people",
                f"The number of people needed for power {power:g}, against ε. Fewer is better.",
                lambda: draw([people]),
            ),
        ],
        [
            sentences.table(
                f"People needed to distinguish {shares}, {kept}",
                rows,
                {"ε": "epsilon"},
                {one.label: lambda group, one=one: _text(_needed(group)[one]) for one in ESTIMATORS}
                | {"devices / no privacy": _price},
            )
        ],
        sentences.paragraphs(
            f"""A test may mistake a share of {options["low"]:g} for {options["high"]:g} with
            probability {options["level"]:g}. Each test is the most powerful one of its model.
            Without privacy, it counts the true answers. With a trusted server, it adds Tulap noise
            to the count. With devices, it counts randomized responses; no other way of randomizing
            gives more power.

            Power is an exact sum over a binomial distribution, with a coin at the boundary.

            As a check, {options["repetitions"]:,} populations are simulated and tested for each
            number of people. The largest difference from the exact power is {off:.1f} Monte-Carlo
            standard errors."""
        ),
    )


def _needed(rows: Rows) -> dict[Estimator, int | None]:
    """Return the people needed by each estimator; None if more than `MAX_PEOPLE`."""
    needed = {one: rows.of(one)[0]["people_needed"] for one in ESTIMATORS}
    return {one: None if people is None else int(people) for one, people in needed.items()}


def _text(people: int | None) -> str:
    return "over ten billion" if people is None else f"{people:,}"


def _price(rows: Rows) -> str:
    needed = _needed(rows)
    none, local = needed[NONE], needed[LOCAL]
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


STUDY = Study(
    name="test",
    question="How many people are needed to distinguish two shares?",
    options=OPTIONS,
    cells=cells,
    run=run,
    report=report,
    check=_check,
    formulas=(
        (
            "probability of a yes from a device, if the share of yes is s",
            r"\dfrac{1 + (e^ε - 1) s}{e^ε + 1}",
        ),
        (
            "devices needed to distinguish shares s and t, approximately",
            (
                r"n \approx \dfrac{(z_α + z_β)^2 (V + s(1 - s))}{(t - s)^2}, \quad "
                r"V = \dfrac{e^ε}{(e^ε - 1)^2}"
            ),
        ),
    ),
)
