"""Year of an app with three weekly surveys and a monthly one, and the bias of its estimates.

`pages/year.txt` has the details and sources, under "theory".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, timedelta
from functools import cache
from importlib.resources import files

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from deniable.client import Policy
from deniable.client.state.ledger import Charge, Ledger
from deniable.server.estimation import estimates
from deniable.shared.privacy.epsilon import ONE
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.shared.survey.document import Block, Survey, parse_toml
from deniable.shared.survey.participation import LIFETIME, drawn_in
from deniable.simulations.engine import option
from deniable.simulations.engine.estimators import Rows, number
from deniable.simulations.engine.figures import LOOKS, Panel, curve, drawing
from deniable.simulations.engine.presentation import View, study, table
from deniable.simulations.engine.study import Cell, Options, Report, Row

Array = NDArray[np.bool_]
DRAWN, AS_IT_COMES = "drawn", "as it comes"
SURVEYS = (("crashes", "week", "1"), ("search", "week", "0.5"), ("sync", "week", "0.5"),
           ("satisfaction", "month", "1"))  # name, round and ε  # fmt: skip
FIRST_MONDAY, WEEK, WEEKS = date(2027, 1, 4), timedelta(days=7), 52
NEW_WEEKS = 3  # how long an install counts as new
MIN_COVERED = 36  # with honest intervals, fewer weeks have a probability below 1e-9
POLICIES = {
    DRAWN: Policy(keys=["00" * 32]),
    AS_IT_COMES: Policy(keys=["00" * 32], per=LIFETIME, max_epsilon_per_survey="8"),
}
OPTIONS = (
    option.Option("people", 40_000, option.whole(100, 10**5), "number of installs", "N"),
    option.probability("replaced", 0.02, "share of installs replaced each week", "X"),
    option.probability("new", 0.12, "share of new installs that crash in a week", "X"),
    option.probability("old", 0.03, "the same share of the other installs", "X"),
)


@cache
def surveys() -> tuple[Survey, ...]:
    text = (
        files("deniable.simulations.studies.survey").joinpath("year_survey.toml").read_text("utf-8")
    )
    return tuple(parse_toml(text.format(*values)) for values in SURVEYS)


def run(cell: Cell, generator: Generator) -> Sequence[Row]:
    installs = Installs(cell, generator)
    return [row for number in range(WEEKS) for row in [installs.week(FIRST_MONDAY + number * WEEK)]]


class Installs:
    """All installs of an app under one policy. A replaced install is forgotten with its key."""

    def __init__(self, cell: Cell, generator: Generator) -> None:
        self.cell, self.generator, self.people = cell, generator, int(cell["people"])
        self.policy, self.survey = POLICIES[str(cell["policy"])], surveys()[0]
        # the age in weeks, as after many years
        self.age = generator.geometric(float(cell["replaced"]), self.people) - 1
        self.keys = [generator.bytes(32) for _ in range(self.people)]
        self.block: Block | None = None  # the quarter whose rounds are drawn
        self.answers: Array  # a row for each install, a column for each round of the block

    def week(self, monday: date) -> Row:
        number, generator = self.survey.round_of(monday), self.generator
        self._replace()
        answering = self._answering(number, monday)
        rates = np.where(self.age < NEW_WEEKS, self.cell["new"], self.cell["old"])
        crashed = generator.random(self.people) < rates
        self.age += 1
        yes, reports = int(crashed[answering].sum()), int(answering.sum())
        (question,) = self.survey.questions
        mechanism = RandomizedResponse(question.epsilon)
        says_yes = generator.binomial(yes, mechanism.keep / ONE)
        says_yes += generator.binomial(reports - yes, mechanism.lie / ONE)
        cells = np.array([reports - says_yes, says_yes])
        told = estimates(question, cells, reports)[-1]
        truth = float(crashed.mean())
        return {
            "policy": self.cell["policy"],
            "week": monday.isoformat(),
            "reports": reports,
            "truth": truth,
            "estimate": told.estimate,
            "low": told.low,
            "high": told.high,
            "half_width": (told.high - told.low) / 2,
            "covered": int(told.low <= truth <= told.high),
        }

    def _replace(self) -> None:
        replaced = np.flatnonzero(
            self.generator.random(self.people) < float(self.cell["replaced"])
        ).tolist()
        self.age[replaced] = 0
        for install in replaced:
            self.keys[install] = self.generator.bytes(32)
        if self.block is not None:
            self._draw(self.block, replaced)

    def _answering(self, number: int, monday: date) -> Array:
        if not self.policy.renews:
            weeks = np.array([answered_weeks(monday - age * WEEK) for age in range(MAX_AGE + 1)])
            return np.asarray(self.age < weeks[np.minimum(self.age, MAX_AGE)])
        block = self.survey.block_of(number)
        assert block is not None, "the survey has rounds"
        if block != self.block:
            self.block, self.answers = block, np.zeros((self.people, len(block.rounds)), bool)
            self._draw(block, range(self.people))
        return np.asarray(self.answers[:, number - block.rounds[0]])

    def _draw(self, block: Block, installs: Sequence[int]) -> None:
        """Draw the rounds of the quarter that these installs answer, as the client does."""
        count = block.answered(self.survey.round_billionths, self.policy.budget_of(self.survey))
        for install in installs:
            drawn = drawn_in(block, self.keys[install], self.survey.name, count)
            self.answers[install] = [number in drawn for number in block.rounds]


MAX_AGE = 60  # weeks; older installs have spent everything


@cache
def answered_weeks(arrival: date) -> int:
    """Return how many weeks an install answers the first survey until its budget is spent."""
    ledger, charged, policy = Ledger(), set[tuple[str, int]](), POLICIES[AS_IT_COMES]
    for week in range(MAX_AGE):
        for survey in surveys():
            number = survey.round_of(arrival + week * WEEK)
            charge = charge_of(survey, number)
            if (survey.name, number) in charged:
                continue
            if ledger.obstacle(charge, policy) is None:
                ledger = ledger.plus(charge, "")
                charged.add((survey.name, number))
            elif survey is surveys()[0]:
                return week
    return MAX_AGE


def charge_of(survey: Survey, number: int) -> Charge:
    quarter, costs = survey.quarter_of(number), survey.costs
    return Charge("", number, quarter, survey.name, "", costs, survey.round_billionths)


# The study


def cells(options: Options) -> Sequence[Cell]:
    return [{**options, "policy": name} for name in POLICIES]


def report(view: View) -> Report:
    parts = {name: view.rows.at(policy=name) for name in POLICIES}
    covered = {name: sum(int(row["covered"] or 0) for row in parts[name]) for name in parts}
    values = {
        "covered": covered,
        "verdicts": [
            "as it should" if count >= MIN_COVERED else "so the estimates are biased"
            for count in covered.values()
        ],
        "last": {name: parts[name][-1] for name in parts},
        "new_weeks": NEW_WEEKS,
        "weeks": WEEKS,
        "least": MIN_COVERED,
    }
    panels = [_panel(f"Budget {name}", rows) for name, rows in parts.items()]
    return view.report(
        values,
        {"year": drawing(*panels)},
        [table(f"Budget {name}", rows, {"week": "week"}, COLUMNS) for name, rows in parts.items()],
    )


def _panel(title: str, rows: Rows) -> Panel:
    weeks = {row["week"]: n for n, row in enumerate(rows, 1)}

    def percent(key: str) -> Callable[[Row], float]:
        return lambda row: 100 * number(row, key)

    def week(row: Row) -> float:
        return weeks[row["week"]]

    curves = [
        curve(rows, LOOKS[0], week, percent("truth"), "truth", "line"),
        curve(rows, LOOKS[1], week, percent("estimate"), "estimate", "points",
              percent("half_width")),
    ]  # fmt: skip
    return Panel(title, curves, "week", "crashed, %", ("linear", "linear"))


def _share(key: str) -> Callable[[Rows], str]:
    return lambda week: f"{100 * number(week[0], key):.1f} %"


COLUMNS: dict[str, Callable[[Rows], str]] = {
    "reports": lambda week: f"{week[0]['reports']:,}",
    "truth": _share("truth"),
    "estimate": _share("estimate"),
    "95 % interval": lambda week: f"{_share('low')(week)} to {_share('high')(week)}",
    "contains the truth": lambda week: "yes" if week[0]["covered"] else "no",
}
STUDY = study("year", OPTIONS, cells, run, report)
