"""Texts that many people write, found without a list: devices against a trusted server.

`pages/texts.txt` has the formulas, limits and sources, under "theory".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from numpy.random import Generator

from deniable.server.estimation.frequent_texts import FALSE_DISCOVERY, found
from deniable.shared.errors import WrongUse
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import mechanisms
from deniable.shared.survey.kinds.text import BUCKETS, FINAL, Beginnings, Text
from deniable.simulations.central.noise import DiscreteLaplace, discrete_laplace
from deniable.simulations.engine import figures, option
from deniable.simulations.engine.estimators import Case, Estimator, grid, number
from deniable.simulations.engine.figures import LOOKS, Panel, curve
from deniable.simulations.engine.presentation import View, estimator_table, figure, study
from deniable.simulations.engine.study import Cell, Options, Report, Row
from deniable.simulations.population import text_tally
from deniable.simulations.studies.bit_reports import noise

DEVICES = Estimator("local", "grouped", "devices, grouped reports", LOOKS[0])
TRUSTED = Estimator("central", "threshold", "trusted, noisy threshold", LOOKS[1], False)
NONE = Estimator("none", "counts", "no privacy", LOOKS[2])
ESTIMATORS = (DEVICES, TRUSTED, NONE)
RIGHT = 0.99  # probability of finding a text that enough people write
WRITTEN = 5  # texts that just enough people write, in each repetition
MECHANISM = "grouped-subset-selection"
MAX_EPSILON = 8.0  # beyond, other texts in a bucket matter more than the noise


def check(options: dict[str, Any]) -> Options:  # Any: JSON values
    if most := [e for e in options["epsilon"] if float(e) > MAX_EPSILON]:
        raise WrongUse(f"epsilon must be at most {MAX_EPSILON:g} for texts, got {most[0]}")
    return options


def run(cell: Cell, generator: Generator) -> Sequence[Row]:
    case = Case(cell, generator)
    noisy, n = DiscreteLaplace(case.epsilon, 2), case.people
    question = question_of(case.epsilon, case.length)
    floor = max(1, math.ceil(question.mechanism.floor(n) * n))
    threshold, least = reach(noisy, case.delta), reach(noisy, 1 - RIGHT)
    limits = {"local": local_limit(float(case.epsilon), n)}
    needed = {DEVICES: floor, TRUSTED: threshold + least, NONE: 1}
    rows = []
    for one, people in needed.items():
        right, false, drawn = None, None, case.repetitions * min(WRITTEN, n // people)
        if one is DEVICES and drawn:
            right, false = searched(question, people, case, case.generator(one))
        elif drawn:
            added = discrete_laplace(noisy, drawn, case.generator(one)) * (one is TRUSTED)
            right, false = float((people + added > threshold * (one is TRUSTED)).mean()), 0
        row = {"model": one.model, "estimator": one.name, "epsilon": cell["epsilon"], "people": n}
        row |= {"delta": case.delta if one is TRUSTED else 0.0, "people_needed": people}
        row |= {"share_needed": people / n if drawn else None, "measured": right, "false": false}
        row["error"] = math.sqrt(RIGHT * (1 - RIGHT) / drawn) if drawn else None
        rows.append(row | {"limit": limits.get(one.model, 1 / n)})
    return rows


def question_of(epsilon: Epsilon, length: int) -> Text:
    """Return a question for texts of at most this many bytes, as a survey would ask it."""
    groups = Beginnings("texts", length, BUCKETS).groups
    design: Any = mechanisms("text")[MECHANISM]  # Any: a class made by `grouped`
    return Text("texts", design(epsilon, BUCKETS, groups, FINAL), length, "texts")


def searched(question: Text, people: int, case: Case, generator: Generator) -> tuple[float, int]:
    """Return the share of the written texts that the server finds, and how many others it lists.

    `people` write each of a few texts; everyone else writes a text of their own.
    """
    written = {f"t{i:03}": people for i in range(min(WRITTEN, case.people // people))}
    right, listed = 0, 0
    for _ in range(case.repetitions):
        alone = case.people - sum(written.values())
        tally = text_tally(question, written, alone, generator)
        labels = [text.label for text in found(question, tally, case.people, 0.95)]
        listed += len(labels)
        right += len(written.keys() & labels)
    return right / len(written) / case.repetitions, listed - right


def reach(noise: DiscreteLaplace, probability: float) -> int:
    """Return the least k >= 0 for which noise of at least k has at most this probability."""
    d = noise.decay
    return max(0, math.ceil(math.log(probability * (1 + d)) / math.log(d)))


def local_limit(epsilon: float, people: int) -> float:
    """Return a share that no local protocol can find as reliably, even if it knows the text."""
    distance = RIGHT - FALSE_DISCOVERY
    return max(1 / people, math.sqrt(-noise(epsilon) * math.log(1 - distance**2) / people))


def report(view: View) -> Report:
    rows, drawn = view.along("people"), view.rows.of(DEVICES)
    tried = [row for row in drawn if row["measured"] is not None]
    written = [min(WRITTEN, int(1 / number(row, "share_needed"))) for row in tried]
    hits = [number(row, "measured") * n for row, n in zip(tried, written, strict=True)]
    times = view.repetitions
    values = {
        "needed": {one.name: _share(view.cell.one(one)) for one in ESTIMATORS},
        "count": view.cell.one(TRUSTED),
        "limit": figure(100 * number(view.cell.one(DEVICES), "limit")),
        "written": times * sum(written),
        "hits": round(times * sum(hits)),
        "false": sum(int(number(row, "false")) for row in tried),
        "buckets": BUCKETS,
        "right": RIGHT,
    }
    curves = [curve(rows.of(o), o.look, "people", "share_needed", o.label) for o in ESTIMATORS]
    limit = curve(rows.of(DEVICES), DEVICES.look, "people", "limit", "local limit", "limit")
    title = f"Share of people who must write a text, ε {view.epsilon}"
    return view.report(
        values,
        {"share": figures.drawing(Panel(title, [*curves, limit], "people", "share of people"))},
        [
            estimator_table(
                f"Share of people who must write a text that is found with probability {RIGHT:g}",
                *(view.rows, ESTIMATORS, _share),
                more={"local limit": lambda group: f"{100 * number(group[0], 'limit'):.3g} %"},
            )
        ],
    )


def _share(row: Row) -> str:
    share = row["share_needed"]
    return "more than all" if share is None else f"{100 * float(share):.3g} %"


OPTIONS = (
    option.epsilons("1,4"),
    option.people("1e5,1e6,1e7,1e8,1e9", least=1),
    option.Option("length", 4, option.whole(4, 32), "bytes of a text", "N"),
    option.delta("probability that the trusted server's guarantee fails"),
    option.repetitions(2, 1),
)
STUDY = study("texts", OPTIONS, grid("epsilon", "people"), run, report, check=check)
