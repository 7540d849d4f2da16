"""Attacks on one person's answer: from exact counts, from noisy counts, and from deniable reports.

`pages/attack.txt` has the formulas, limits and sources, under "theory".
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.special import expit
from scipy.stats import binom

from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.simulations.engine import figures, option
from deniable.simulations.engine.estimators import number
from deniable.simulations.engine.figures import Curve, Look, distinct_looks, scaled
from deniable.simulations.engine.presentation import View, percent, study, with_error
from deniable.simulations.engine.study import Cell, Options, Report, Row, Table
from deniable.simulations.studies.repetition import Scheme

COUNTS_PER_PERSON = 4
UNLIKELY = 1e-6  # probability that more answers stay hidden than the bound
LABELS = {"none": "counts", "central": "counts with ε noise", "local": "deniable reports"}
ATTACKS = {
    "reconstruct": "all answers",
    "difference": "one answer",
    "average": "one answer, several rounds",
    "family": "the answer of a family",
}


def cells(options: Options) -> Sequence[Cell]:
    attacks = (
        ("reconstruct", "local", [0]),
        *(("difference", model, [0]) for model in LABELS),
        ("average", "local", options["rounds"]),
        ("family", "local", options["family"]),
    )
    shared = {key: options[key] for key in ("people", "repetitions")}
    counts = [
        {"attack": "reconstruct", "model": "none", "parameter": off, "wild": wild}
        for wild in options["wild"]
        for off in options["off"]
    ]
    others = [
        {"attack": attack, "model": model, "epsilon": epsilon, "parameter": parameter}
        for epsilon in options["epsilon"]
        for attack, model, parameters in attacks
        for parameter in parameters
    ]
    return [cell | shared for cell in counts + others]


def run(cell: Cell, generator: Generator) -> Sequence[Row]:
    attack, model, parameter = str(cell["attack"]), str(cell["model"]), int(cell["parameter"])
    epsilon = Epsilon(str(cell["epsilon"])) if "epsilon" in cell else None
    exact = _exact_probability(attack, model, epsilon, parameter) if epsilon else None
    measured, error, wild, least = None, None, float(cell.get("wild", 0)), None
    if attack == "reconstruct":
        n, times = int(cell["people"]), int(cell["repetitions"])
        shares = np.array(
            [_reconstructed(n, epsilon, parameter, generator, wild) for _ in range(times)]
        )
        if "wild" in cell:
            least = 1 - hidden(n, COUNTS_PER_PERSON * n, parameter, wild) / n
        measured, error = float(shares.mean()), float(shares.std(ddof=1) / math.sqrt(times))
    row = {"attack": attack, "model": model, "epsilon": cell.get("epsilon"), "parameter": parameter}
    found = {"right": measured if exact is None else exact, "exact": exact}
    found |= {"measured": measured, "error": error, "at_least": least}
    return [{**row, **found, "wild": cell.get("wild")}]


def _reconstructed(
    people: int, epsilon: Epsilon | None, off: int, generator: Generator, wild: float
) -> float:
    """Return the share of people whose answer the attacker finds.

    A share `wild` of the counts is replaced by random numbers.
    """
    answers = generator.integers(0, 2, people)
    if epsilon is not None:
        mechanism = RandomizedResponse(epsilon)

        def draw(bits: int) -> int:
            return int.from_bytes(generator.bytes(bits // 8), "little")

        guesses = np.array([mechanism.randomize(int(answer), draw) for answer in answers])
        return float((guesses == answers).mean())
    subsets = generator.integers(0, 2, (COUNTS_PER_PERSON * people, people)).astype(float)
    counts = subsets @ answers + generator.uniform(-off, off, len(subsets))
    counts[: round(wild * len(counts))] = generator.integers(0, people, round(wild * len(counts)))
    return float((decode(subsets, counts) == answers).mean())


def decode(subsets: NDArray[np.float64], released: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return the answers that minimize the sum of distances between their counts and `released`."""
    counts, people = subsets.shape
    distance = np.eye(counts)
    solution = linprog(
        np.concatenate([np.zeros(people), np.ones(counts)]),
        A_ub=np.block([[subsets, -distance], [-subsets, -distance]]),
        b_ub=np.concatenate([released, -released]),
        bounds=[(0, 1)] * people + [(0, None)] * counts,
    )
    assert solution.x is not None, solution.message
    return np.asarray(solution.x[:people] > 1 / 2)


def hidden(people: int, counts: int, off: int, wild: float) -> int:
    """Return how many answers can stay hidden, at most, from counts of random subsets.

    This holds for an attacker who tries all tables and takes one that agrees with enough counts.
    """
    expected = 0.0  # number of tables that agree and are wrong about more answers
    for wrong in range(people, 0, -1):
        chances = np.sort(binom.pmf(np.arange(wrong + 1), wrong, 0.5))
        agree = min(1.0, float(chances[-(4 * off + 1) :].sum()))
        enough = math.ceil((1 - 2 * wild) * counts)
        expected += math.comb(people, wrong) * float(binom.sf(enough - 1, counts, agree))
        if expected > UNLIKELY:
            return wrong
    return 0


def _exact_probability(attack: str, model: str, epsilon: Epsilon, parameter: int) -> float:
    """Return the probability that the best guess is right.

    Two noisy counts have ε / 2 each. Only one of them includes the person; the other count adds no
    information.
    """
    if attack == "average":
        return Scheme("fresh", epsilon, epsilon).guess_right(parameter)
    if attack == "family":
        return (1 + family_variation(epsilon, parameter)) / 2
    central = float(expit(float(epsilon) / 2))
    return {"none": 1.0, "central": central, "local": RandomizedResponse(epsilon).keep / ONE}[model]


def family_variation(epsilon: Epsilon, family: int) -> float:
    """Return the total variation distance between a yes family's and a no family's reports."""
    mechanism = RandomizedResponse(epsilon)
    ones = np.arange(family + 1)
    yes, no = (binom.pmf(ones, family, units / ONE) for units in (mechanism.keep, mechanism.lie))
    return float(np.abs(yes - no).sum() / 2)


def report(view: View) -> Report:
    rows, epsilon = view.rows, view.epsilon
    every = rows.at(attack="reconstruct", model="none")
    counts = every.at(wild=view.options["wild"][0])
    values = {
        "per_person": COUNTS_PER_PERSON,
        "counts": COUNTS_PER_PERSON * view.people,
        "first": counts[0],
        "second": counts[min(1, len(counts) - 1)],
        "spoiled": every[-len(counts)],
        "guess": rows.at(attack="difference", model="local", epsilon=epsilon)[0],
        "repeated": rows.at(attack="average", epsilon=epsilon)[-1],
        "shared": rows.at(attack="family", epsilon=epsilon)[-1],
    }
    table = Table(
        "Probability of a right guess",
        ["attack on", "error, rounds, or people", "wild", "from", "ε", "right", "measured"],
        [_line(row) for row in rows],
    )
    return view.report(values, {"reconstruct": figures.drawing(_panel(view))}, [table])


def _line(row: Row) -> list[str]:
    measured = [
        f"{100 * number(row, key):.1f}" for key in ("measured", "error") if row[key] is not None
    ]
    return [
        ATTACKS[str(row["attack"])],
        "" if row["epsilon"] and not row["parameter"] else f"{row['parameter']:,}",
        percent(row["wild"]) if row["wild"] else "",
        LABELS[str(row["model"])],
        str(row["epsilon"] or "none"),
        percent(row["right"]),
        f"{with_error(*measured)} %" if measured else "",
    ]


def _panel(view: View) -> figures.Panel:
    found, people = view.rows.at(attack="reconstruct"), view.people
    reports, percents = found.at(model="local"), scaled(lambda _: 100.0, "measured")
    label, taken = f"from {COUNTS_PER_PERSON * people} counts, {{:g}} % wild", list[Look]()
    curves, least = list[Curve](), scaled(lambda _: 100.0, "at_least").formula
    for wild in view.options["wild"]:
        rows, (look,) = found.at(wild=wild), distinct_looks(1, taken)
        taken.append(look)
        curves += percents.curves(rows, look, label.format(100 * wild), "parameter")
        curves.append(figures.curve(rows, look, "parameter", least, "lower bound", "limit"))
    levels = [
        Curve(
            [(off, 100 * number(row, "right"), 0.0) for off in view.options["off"]],
            *(look, f"deniable reports, ε {row['epsilon']}", "line"),
        )
        for row, look in zip(reports, distinct_looks(len(reports), taken), strict=True)
    ]
    return figures.Panel(
        f"Answers of {people} people that an attacker finds",
        [*curves, *levels],
        *("largest error of a count, in people", "answers found, %", ("linear", "linear")),
        reference=50,
        limits=(48, 102),
    )


OPTIONS = (
    option.epsilons("0.5,1,2"),
    option.Option("people", 60, option.whole(10, 200), "people whose answers are attacked", "N"),
    option.sizes("off", "0,2,4,8", 0, 1000, "largest errors of a count"),
    option.Option(
        "wild", "0,0.2", option.several(option.share), "shares of counts that are arbitrary"
    ),
    option.sizes("rounds", "1,10,100", 1, 400, "how many rounds ask one question"),
    option.sizes("family", "1,3,10", 1, 1000, "how many people share one answer"),
    option.repetitions(20),
)
STUDY = study("attack", OPTIONS, cells, run, report)
