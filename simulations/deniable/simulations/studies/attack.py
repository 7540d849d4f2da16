"""What attackers learn of one person: from exact counts, from counts with noise, from reports.

    reconstruct   4 n counts of random subsets of n people, each off by at most so much: a linear
                  program finds the answers that fit best (blatant non-privacy)                 [1]
    difference    the count of everybody, and that of everybody but one                         [2]
    average       the same question in T rounds: a majority of T reports
    family        k people with one answer: the total variation of all their reports, at most
                  tanh(k ε / 2)

against the same people who send deniable reports, through the mechanism that devices have: whatever
is asked of the reports, the best guess of one person's answer is right with probability e^ε / (1 +
e^ε). Before an attack every answer is a coin: one half is a blind guess.

The JSON form: `options`, `rows` (`attack`, `model` none, central or local, `epsilon`, `parameter`:
the largest error of a count, rounds, or people in the family; `right` the probability of a right
guess, `exact` and `measured` with its Monte-Carlo error `error`, null where there is none) and
`findings`.

[1] Dinur, Nissim 2003, "Revealing information while preserving privacy"; Dwork, McSherry, Talwar
    2007, for decoding by linear programming.
[2] Denning, Denning, Schwartz 1979, "The tracker".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.shared.privacy.thresholds import ONE
from deniable.simulations.engine import comparison, option
from deniable.simulations.engine.comparison import look, number
from deniable.simulations.engine.figures import FAINT, new_figure
from deniable.simulations.engine.study import Cell, Figure, Options, Report, Row, Study, Table
from deniable.simulations.studies.repetition import Scheme

if TYPE_CHECKING:
    import matplotlib.figure

COUNTS = 4  # for each person
MODELS = ("none", "central", "local")
LABELS = {"none": "counts", "central": "counts with ε noise", "local": "deniable reports"}
LOOKS = dict(zip(MODELS, map(look, (1, 2, 0)), strict=True))

OPTIONS = (
    option.epsilons("0.5,1,2"),
    option.Option("people", 60, option.whole(10, 200), "whose answers are reconstructed", "N"),
    option.Option(
        "off", "0,2,4,8", option.several(option.whole(0, 1000)), "largest error of a count"
    ),
    option.Option("rounds", "1,10,100", option.several(option.whole(1, 400)), "of one question"),
    option.Option("family", "1,3,10", option.several(option.whole(1, 1000)), "people in a family"),
    option.repetitions(20),
)


def cells(options: Options) -> Sequence[Cell]:
    shared = {key: options[key] for key in ("people", "repetitions")}
    counts = [
        {"attack": "reconstruct", "model": "none", "parameter": off} for off in options["off"]
    ]
    return [
        *(each | shared for each in counts),
        *(
            {"attack": attack, "model": model, "epsilon": epsilon, "parameter": parameter} | shared
            for epsilon in options["epsilon"]
            for attack, model, parameters in (
                ("reconstruct", "local", [0]),
                ("difference", "none", [0]),
                ("difference", "central", [0]),
                ("difference", "local", [0]),
                ("average", "local", options["rounds"]),
                ("family", "local", options["family"]),
            )
            for parameter in parameters
        ),
    ]


def run(cell: Cell, generator: np.random.Generator) -> Sequence[Row]:
    attack, model, parameter = str(cell["attack"]), str(cell["model"]), int(cell["parameter"])
    epsilon = Epsilon(str(cell["epsilon"])) if "epsilon" in cell else None
    row: Row = {"attack": attack, "model": model, "epsilon": str(epsilon) if epsilon else None}
    exact = _exactly(attack, model, epsilon, parameter) if epsilon else None
    measured, error = None, None
    if attack == "reconstruct":
        people, times = int(cell["people"]), int(cell["repetitions"])
        found = np.array(
            [_reconstructed(people, epsilon, parameter, generator) for _ in range(times)]
        )
        measured, error = float(found.mean()), float(found.std(ddof=1) / math.sqrt(times))
    right = measured if exact is None else exact
    more = {"parameter": parameter, "right": right, "exact": exact}
    return [{**row, **more, "measured": measured, "error": error}]


def _reconstructed(
    people: int, epsilon: Epsilon | None, off: int, generator: np.random.Generator
) -> float:
    """The share of people whose answer is found."""
    answers = generator.integers(0, 2, people)
    if epsilon is not None:
        mechanism = RandomizedResponse(epsilon)

        def draw(bits: int) -> int:
            return int.from_bytes(generator.bytes(bits // 8), "little")

        guesses = np.array([mechanism.randomize(int(answer), draw) for answer in answers])
        return float((guesses == answers).mean())
    subsets = generator.integers(0, 2, (COUNTS * people, people)).astype(float)
    told = subsets @ answers + generator.uniform(-off, off, len(subsets))
    return float((decode(subsets, told) == answers).mean())


def decode(subsets: NDArray[np.float64], told: NDArray[np.float64]) -> NDArray[np.bool_]:
    """The answers whose counts are nearest to those told, in the sum of distances."""
    from scipy.optimize import linprog

    counts, people = subsets.shape
    apart = np.eye(counts)
    found = linprog(
        np.concatenate([np.zeros(people), np.ones(counts)]),
        A_ub=np.block([[subsets, -apart], [-subsets, -apart]]),
        b_ub=np.concatenate([told, -told]),
        bounds=[(0, 1)] * people + [(0, None)] * counts,
    )
    assert found.x is not None, found.message
    return np.asarray(found.x[:people] > 1 / 2)


def _exactly(attack: str, model: str, epsilon: Epsilon, parameter: int) -> float:
    if attack == "reconstruct":
        return _guess(epsilon)
    if attack == "difference":
        return {"none": 1.0, "central": _two_counts(epsilon), "local": _guess(epsilon)}[model]
    if attack == "average":
        return Scheme("fresh", epsilon, epsilon).guess_right(parameter)
    return (1 + family_variation(epsilon, parameter)) / 2


def _guess(epsilon: Epsilon) -> float:
    """The best guess of an answer from its report, or from all that a mechanism of this ε lets out
    about one person."""
    mechanism = RandomizedResponse(epsilon)
    return mechanism.keep / ONE


def _two_counts(epsilon: Epsilon) -> float:
    """Of two counts with geometric noise of their own, ε in all, only one has the person in it:
    the other, with what the attacker knows of everybody else, adds nothing."""
    half = math.exp(float(epsilon) / 2)
    return half / (1 + half)


def family_variation(epsilon: Epsilon, family: int) -> float:
    """Between all reports of so many people who say yes, and who say no: two binomials."""
    from scipy.stats import binom

    mechanism = RandomizedResponse(epsilon)
    ones = np.arange(family + 1)
    yes, no = (binom.pmf(ones, family, units / ONE) for units in (mechanism.keep, mechanism.lie))
    return float(np.abs(yes - no).sum() / 2)


def report(options: Options, rows: Sequence[Row]) -> Report:
    epsilon = comparison.middle(options["epsilon"])
    findings = _findings(options, rows, epsilon)
    return Report(
        findings=findings,
        figures=[
            Figure(
                "reconstruct",
                f"How many of {options['people']} answers are found from {COUNTS} counts for each "
                "person, against the error of the counts; and from deniable reports. One half is "
                "a blind guess.",
                lambda: _reconstruct_figure(rows, options),
            ),
        ],
        tables=[_table(rows)],
        method=[
            (
                "Counts are of random halves of the people, each off by a uniform error; the "
                "attacker solves a linear program, which takes a tenth of a second. Reports are "
                "those of the mechanism that devices have."
            ),
            (
                "Rounds and families are exact sums over binomials: what all reports together "
                "tell about the answer that they have in common. A family of k is protected by k ε "
                "at least, tanh(k ε / 2) in total variation; the sum says how much is really lost."
            ),
        ],
        document={
            "options": dict(options),
            "rows": [dict(row) for row in rows],
            "findings": findings,
        },
    )


def _findings(options: Options, rows: Sequence[Row], epsilon: str) -> list[str]:
    counts = comparison.pick(rows, attack="reconstruct", model="none")
    first, next_ = counts[0], counts[min(1, len(counts) - 1)]
    guess = comparison.one(rows, attack="difference", model="local", epsilon=epsilon)
    rounds = comparison.pick(rows, attack="average", epsilon=epsilon)[-1]
    family = comparison.pick(rows, attack="family", epsilon=epsilon)[-1]
    return [
        (
            f"{COUNTS * options['people']} counts of {options['people']} people, each off by at "
            f"most {first['parameter']}, give away {_percent(first)} of the answers, and "
            f"{_percent(next_)} at {next_['parameter']}; whatever is asked of deniable "
            f"reports at ε {epsilon}, {_percent(guess)} of the guesses are right."
        ),
        (
            f"What wears off is asking again with fresh noise: {_percent(rounds)} after "
            f"{rounds['parameter']} rounds; and what {family['parameter']} people have in common "
            f"is guessed rightly with probability {_percent(family)}."
        ),
    ]


def _percent(row: Row) -> str:
    text = f"{100 * number(row, 'right'):.1f}"
    return f"{'> 99.9' if text == '100.0' and number(row, 'right') < 1 else text} %"


def _table(rows: Sequence[Row]) -> Table:
    words = {
        "reconstruct": "all answers, from counts off by",
        "difference": "one answer, from two counts",
        "average": "one answer, in rounds",
        "family": "an answer in common, people",
    }
    lines = []
    for row in rows:
        measured = ""
        if row["measured"] is not None:
            error = 100 * number(row, "error")
            measured = f"{100 * number(row, 'measured'):.1f} ± {error:.1f} %"
        how_many = f"{row['parameter']:,}" if row["parameter"] else ""
        first = words[str(row["attack"])], LABELS[str(row["model"])], str(row["epsilon"] or "none")
        lines.append([*first, how_many, _percent(row), measured])
    return Table("Guessed rightly", ["what", "from", "ε", "how many", "right", "measured"], lines)


def _reconstruct_figure(rows: Sequence[Row], options: Options) -> matplotlib.figure.Figure:
    figure = new_figure(height=4.0)
    axes = figure.subplots()
    counts = comparison.pick(rows, attack="reconstruct", model="none")
    axes.errorbar(
        [number(r, "parameter") for r in counts],
        [100 * number(r, "measured") for r in counts],
        yerr=[300 * number(r, "error") for r in counts],
        label=f"from {COUNTS * options['people']} counts",
        **LOOKS["none"].style,
        capsize=2,
    )
    for epsilon in options["epsilon"]:
        row = comparison.one(rows, attack="reconstruct", model="local", epsilon=epsilon)
        level = 100 * number(row, "right")
        axes.axhline(level, color=LOOKS["local"].color, linewidth=1.2)
        axes.annotate(
            f"deniable reports, ε {epsilon}",
            (1.0, level),
            xytext=(0, 3),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            ha="right",
            color=LOOKS["local"].color,
            fontsize=9,
        )
    axes.axhline(50, color=FAINT, linewidth=0.8)
    axes.annotate("blind guess", (0, 50.8), fontsize=9)
    axes.set(ylim=(48, 102), xlabel="largest error of a count, in people", ylabel="found, %")
    axes.set_title(f"Answers of {options['people']} people that an attacker finds")
    axes.grid(visible=True)
    axes.legend(loc="upper right")
    return figure


STUDY = Study(
    name="attack",
    question="What does an attacker learn of one person?",
    options=OPTIONS,
    cells=cells,
    run=run,
    report=report,
    formulas=(
        ("whoever guesses one answer from a report is right with at most", r"\dfrac{e^ε}{1 + e^ε}"),
        ("a family of k with one answer", r"\tanh(k ε / 2)"),
    ),
)
