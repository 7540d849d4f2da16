"""A hypothesis test: how many people distinguish two shares, in each model.

Every test here is the most powerful one of its model, so its power is the limit too: no private
test detects the larger share more often.

    none       reject where many say yes, with a coin at the boundary       Neyman, Pearson
    central    reject with probability F(s - m), F that of Tulap noise      [1]
    local      as none, on randomized responses: every report about two points is a function of
               one, so no local test is more powerful                       [2]

All power is an exact sum over binomials; tests of populations that are drawn, with their noise, are
a check. Power grows with the people, as a test may ignore some of them: so bisection finds the
least number that reaches a power.

[1] Awan, Slavkovic 2018, "Differentially private uniformly most powerful tests for binomial data",
    NeurIPS.
[2] Kairouz, Oh, Viswanath 2015, "The composition theorem for differential privacy", ICML.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from deniable.shared.errors import WrongUse
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.shared.privacy.thresholds import ONE
from deniable.simulations.central.discrete_laplace import tulap, tulap_below
from deniable.simulations.engine import comparison, estimator_rows, option
from deniable.simulations.engine.comparison import look, number, pick
from deniable.simulations.engine.figures import plain_ticks
from deniable.simulations.engine.study import Cell, Figure, Options, Report, Row, Study, Table
from deniable.simulations.studies.building_blocks import (
    bars,
    chart,
    marked_line,
    paragraphs,
    reference_line,
    sweep,
)

if TYPE_CHECKING:
    import matplotlib.figure

Array = NDArray[np.float64]
Counts = NDArray[np.int64]
MODELS = ("none", "central", "local")
ESTIMATORS = {"none": "binomial", "central": "tulap", "local": "randomized-response"}
LABELS = {"none": "no privacy", "central": "trusted server", "local": "devices"}
LOOKS = dict(zip(MODELS, map(look, (2, 1, 0)), strict=True))
MAX_PEOPLE = 10**10  # the search for the people needed ends here
DEVIATIONS, COUNTS = 9, 60  # of a binomial: what lies beyond has a probability below 1e-18
OPTIONS = (
    option.epsilons("0.1,0.5,1,2,4"),
    option.people("30,100,200,300,500,800,1200,2e3,3e3,5e3,1e4,2e4,1e5,1e6"),
    option.repetitions(4_000),
    option.Option("low", 0.5, option.inside(), "the share under the null hypothesis", "SHARE"),
    option.Option("high", 0.55, option.inside(), "the larger share, to be detected", "SHARE"),
    option.Option("level", 0.05, option.inside(), "probability of detecting it falsely", "ALPHA"),
    option.Option("power", 0.9, option.inside(), "probability of detecting it", "POWER"),
)


@dataclass(frozen=True)
class ShareTest:
    """The most powerful test of `low` against `high`, at a level: the rate of rejecting `low`."""

    model: str
    epsilon: Epsilon
    low: float
    high: float
    level: float

    @cached_property
    def rates(self) -> tuple[float, float]:
        """The probabilities of a yes in what the test counts, for `low` and for `high`."""
        if self.model != "local":
            return self.low, self.high
        mechanism = RandomizedResponse(self.epsilon)
        keep, lie = mechanism.keep / ONE, mechanism.lie / ONE
        return lie + (keep - lie) * self.low, lie + (keep - lie) * self.high

    def power(self, people: int) -> float:
        if self.model == "central":
            return self._expected(binomial(people, self.high), self._threshold(people))
        from scipy.stats import binom

        boundary, coin = self._boundary(people)
        high = binom(people, self.rates[1])
        return float(high.sf(boundary) + coin * high.pmf(boundary))

    def rejects(self, people: int, counts: Counts, generator: Generator) -> NDArray[np.bool_]:
        """Return whether the test rejects each of these drawn counts."""
        if self.model == "central":
            noisy = counts + tulap(self.epsilon, len(counts), generator)
            return np.asarray(noisy > self._threshold(people))
        boundary, coin = self._boundary(people)
        tie = (counts == boundary) & (generator.random(len(counts)) < coin)
        return np.asarray((counts > boundary) | tie)

    def people_needed(self, power: float) -> int | None:
        most = 1
        while self.power(most) < power:
            most *= 2
            if most > MAX_PEOPLE:
                return None
        least = most // 2
        while most - least > 1:
            middle = (least + most) // 2
            least, most = (middle, most) if self.power(middle) < power else (least, middle)
        return most

    def _boundary(self, people: int) -> tuple[int, float]:
        """Return the count above which the test rejects, and the probability of rejecting at it."""
        from scipy.stats import binom

        low = binom(people, self.rates[0])
        boundary = int(low.isf(self.level))
        at = float(low.pmf(boundary))
        return boundary, (self.level - float(low.sf(boundary))) / at if at else 0.0

    def _threshold(self, people: int) -> float:
        """Return m, at which `low` is rejected with the probability of the level."""
        from scipy.optimize import brentq

        low = binomial(people, self.low)
        reach = 60 / float(self.epsilon)
        return float(
            brentq(
                lambda m: self._expected(low, m) - self.level,
                low[0][0] - reach,
                low[0][-1] + reach,
                xtol=1e-9,  # of a person
                rtol=1e-14,
            )
        )

    def _expected(self, counted: tuple[Array, Array], threshold: float) -> float:
        counts, chances = counted
        return float(chances @ tulap_below(counts - threshold, float(self.epsilon)))


def binomial(people: int, share: float) -> tuple[Array, Array]:
    """Return counts and their probabilities, except for a negligible tail."""
    from scipy.stats import binom

    room = DEVIATIONS * math.sqrt(people * share * (1 - share)) + COUNTS
    counts = np.arange(
        max(0, math.floor(people * share - room)), min(people, math.ceil(people * share + room)) + 1
    )
    return counts.astype(float), np.asarray(binom.pmf(counts, people, share))


def _check(options: dict[str, Any]) -> Options:  # Any: what JSON can hold
    if not options["low"] < options["high"]:
        raise WrongUse(f"low is below high, got {options['low']:g} and {options['high']:g}")
    if not options["level"] < options["power"]:
        raise WrongUse("level is below power: a coin has as much power as its level")
    return options


def cells(options: Options) -> Sequence[Cell]:
    people = ",".join(map(str, options["people"]))
    return sweep({**options, "people": people}, "epsilon", model=MODELS)


def run(cell: Cell, generator: Generator) -> Sequence[Row]:
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
                "estimator": ESTIMATORS[model],
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


def report(options: Options, rows: Sequence[Row]) -> Report:
    epsilon, power = comparison.middle(options["epsilon"]), options["power"]
    findings = _findings(options, rows, epsilon)
    off = max(
        (
            abs(number(row, "measured") - number(row, "exact")) / number(row, "error")
            for row in rows
            if number(row, "error") > 0.001  # below, the few that differ weigh too much
        ),
        default=0.0,
    )
    return Report(
        findings=findings,
        figures=[
            Figure(
                "power",
                f"The power of distinguishing {_shares(options)}, against the number of people, at "
                f"ε {epsilon}. Lines are exact, and no test of the model has more power; points "
                "are simulations.",
                lambda: _power_figure(rows, options, epsilon),
            ),
            Figure(
                "people",
                f"The number of people needed for power {power:g}, against ε. Lower is better.",
                lambda: _people_figure(rows, options),
            ),
        ],
        tables=[_table(rows, options)],
        method=paragraphs(
            f"""A test may take {options["low"]:g} for {options["high"]:g} with probability
            {options["level"]:g}. Each is the most powerful one: of all tests, of all private tests
            of the true answers (Tulap noise), of all tests of deniable reports (randomized
            response, whatever else a device might send).

            Power is a sum over a binomial, with a coin at the boundary; nothing is approximated.

            As a check, {options["repetitions"]:,} populations are drawn for each number of people,
            and tested: the largest distance from the sum is {off:.1f} Monte-Carlo errors."""
        ),
        document=estimator_rows.document(options, rows, findings),
    )


def _shares(options: Options) -> str:
    return f"shares of {100 * options['low']:g} % and {100 * options['high']:g} %"


def _needed(rows: Sequence[Row], epsilon: str) -> dict[str, int | None]:
    needed = {str(row["model"]): row["people_needed"] for row in pick(rows, epsilon=epsilon)}
    return {model: None if n is None else int(n) for model, n in needed.items()}


def _text(people: int | None) -> str:
    return "over ten billion" if people is None else f"{people:,}"


def _findings(options: Options, rows: Sequence[Row], epsilon: str) -> list[str]:
    needed = {model: _text(n) for model, n in _needed(rows, epsilon).items()}
    ends = options["epsilon"][0], options["epsilon"][-1]
    first, last = (_text(_needed(rows, end)["local"]) for end in ends)
    return paragraphs(
        f"""Distinguishing {_shares(options)} with power {options["power"]:g} needs
        {needed["none"]} people without privacy, {needed["central"]} with a trusted server, and
        {needed["local"]} devices, at ε {epsilon}.

        This needs {first} devices at ε {ends[0]} and {last} at ε {ends[1]}; no other reports and no
        other test need fewer."""
    )


def _table(rows: Sequence[Row], options: Options) -> Table:
    lines = []
    for epsilon in options["epsilon"]:
        needed = _needed(rows, epsilon)
        none, local = needed["none"], needed["local"]
        price = f"{local / none:,.1f}" if none and local else ""
        lines.append([epsilon, *(_text(needed[model]) for model in MODELS), price])
    return Table(
        f"People needed to distinguish {_shares(options)}, power {options['power']:g}, level "
        f"{options['level']:g}",
        ["ε", *LABELS.values(), "devices / no privacy"],
        lines,
    )


def _power_figure(rows: Sequence[Row], options: Options, epsilon: str) -> matplotlib.figure.Figure:
    title = f"{_shares(options).capitalize()} distinguished, ε {epsilon}"
    picture, axes = chart(title, "people", "power, %")
    for model in MODELS:
        mine = sorted(
            pick(rows, epsilon=epsilon, model=model), key=lambda row: number(row, "people")
        )
        test = ShareTest(model, Epsilon(epsilon), *(options[k] for k in ("low", "high", "level")))
        first, last = (int(number(mine[end], "people")) for end in (0, -1))
        fine = np.unique(np.geomspace(first, last, 80).astype(int)).tolist()
        exact = [100 * test.power(people) for people in fine]
        axes.plot(fine, exact, color=LOOKS[model].color, ls=LOOKS[model].dash)
        points = [
            (number(row, "people"), 100 * number(row, "measured"), 300 * number(row, "error"))
            for row in mine
        ]
        bars(axes, points, LOOKS[model], LABELS[model])
    for line in (options["power"], options["level"]):
        reference_line(axes, 100 * line, dotted=False)
    axes.set(yscale="linear", ylim=(0, 103))
    axes.legend(loc="center right")
    return picture


def _people_figure(rows: Sequence[Row], options: Options) -> matplotlib.figure.Figure:
    title = f"People needed, power {options['power']:g}, level {options['level']:g}"
    picture, axes = chart(title, "ε", "people needed", height=4.0)
    for model in MODELS:
        needed = [(float(e), _needed(rows, e)[model]) for e in options["epsilon"]]
        points = [(epsilon, people) for epsilon, people in needed if people is not None]
        marked_line(axes, points, LOOKS[model], LABELS[model])
    plain_ticks(axes, sorted(float(epsilon) for epsilon in options["epsilon"]))
    axes.legend(loc="upper right")
    return picture


STUDY = Study(
    name="test",
    question="How many people are needed to distinguish two shares?",
    options=OPTIONS,
    cells=cells,
    run=run,
    report=report,
    check=_check,
    formulas=(
        ("devices say yes with probability", r"\dfrac{1 + (e^ε - 1) s}{e^ε + 1}"),
        (
            "devices needed to distinguish shares s and t, about",
            (
                r"n \approx \dfrac{(z_α + z_β)^2 (V + s(1 - s))}{(t - s)^2}, \quad "
                r"V = \dfrac{e^ε}{(e^ε - 1)^2}"
            ),
        ),
    ),
)
