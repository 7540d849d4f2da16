"""Attacks on one person's answer: from exact counts, from noisy counts, and from deniable reports.

    reconstruct   4 n counts of random subsets of n people, each with a bounded error: a linear
                  program finds the answers that fit best (blatant non-privacy)                 [1]
    difference    the count of all people, and that of all but one                              [2]
    average       the same question in T rounds: a majority of T reports
    family        k people with one answer: the total variation of all their reports, at most
                  tanh(k ε / 2)

against the same people with deniable reports, by the devices' mechanism: from any function of the
reports, the best guess of one person's answer is right with probability e^ε / (1 + e^ε). Before an
attack every answer is a fair coin, so a blind guess is right with probability one half.

[1] Dinur, Nissim 2003, "Revealing information while preserving privacy"; Dwork, McSherry, Talwar
    2007, for decoding by linear programming.
[2] Denning, Denning, Schwartz 1979, "The tracker".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.shared.privacy.thresholds import ONE
from deniable.simulations.engine import comparison, estimator_rows, option
from deniable.simulations.engine.comparison import look, number, one, pick
from deniable.simulations.engine.figures import new_figure
from deniable.simulations.engine.study import Cell, Figure, Options, Report, Row, Study, Table
from deniable.simulations.studies.building_blocks import paragraphs, percent, reference_line
from deniable.simulations.studies.repetition.noise_schemes import Scheme

if TYPE_CHECKING:
    import matplotlib.figure

COUNTS_PER_PERSON = 4
MODELS = ("none", "central", "local")
LABELS = {"none": "counts", "central": "counts with ε noise", "local": "deniable reports"}
LOOKS = dict(zip(MODELS, map(look, (1, 2, 0)), strict=True))
OPTIONS = (
    option.epsilons("0.5,1,2"),
    option.Option("people", 60, option.whole(10, 200), "whose answers are reconstructed", "N"),
    option.Option(
        "off", "0,2,4,8", option.several(option.whole(0, 1000)), "largest error of a count"
    ),
    option.Option(
        "rounds", "1,10,100", option.several(option.whole(1, 400)), "rounds of one question"
    ),
    option.Option("family", "1,3,10", option.several(option.whole(1, 1000)), "people in a family"),
    option.repetitions(20),
)


def cells(options: Options) -> Sequence[Cell]:
    shared = {key: options[key] for key in ("people", "repetitions")}
    counts = [
        {"attack": "reconstruct", "model": "none", "parameter": off} for off in options["off"]
    ]
    return [
        *(cell | shared for cell in counts),
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


def run(cell: Cell, generator: Generator) -> Sequence[Row]:
    attack, model, parameter = str(cell["attack"]), str(cell["model"]), int(cell["parameter"])
    epsilon = Epsilon(str(cell["epsilon"])) if "epsilon" in cell else None
    row: Row = {"attack": attack, "model": model, "epsilon": str(epsilon) if epsilon else None}
    exact = _exact_probability(attack, model, epsilon, parameter) if epsilon else None
    measured, error = None, None
    if attack == "reconstruct":
        people, times = int(cell["people"]), int(cell["repetitions"])
        shares = np.array(
            [_reconstructed(people, epsilon, parameter, generator) for _ in range(times)]
        )
        measured, error = float(shares.mean()), float(shares.std(ddof=1) / math.sqrt(times))
    right = measured if exact is None else exact
    more = {"parameter": parameter, "right": right, "exact": exact}
    return [{**row, **more, "measured": measured, "error": error}]


def _reconstructed(people: int, epsilon: Epsilon | None, off: int, generator: Generator) -> float:
    """Return the share of people whose answer is found."""
    answers = generator.integers(0, 2, people)
    if epsilon is not None:
        mechanism = RandomizedResponse(epsilon)

        def draw(bits: int) -> int:
            return int.from_bytes(generator.bytes(bits // 8), "little")

        guesses = np.array([mechanism.randomize(int(answer), draw) for answer in answers])
        return float((guesses == answers).mean())
    subsets = generator.integers(0, 2, (COUNTS_PER_PERSON * people, people)).astype(float)
    counts = subsets @ answers + generator.uniform(-off, off, len(subsets))
    return float((decode(subsets, counts) == answers).mean())


def decode(subsets: NDArray[np.float64], released: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return the answers whose counts are nearest to those released, in the sum of distances."""
    from scipy.optimize import linprog

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


def _exact_probability(attack: str, model: str, epsilon: Epsilon, parameter: int) -> float:
    if attack == "reconstruct":
        return _guess(epsilon)
    if attack == "difference":
        return {"none": 1.0, "central": _two_counts(epsilon), "local": _guess(epsilon)}[model]
    if attack == "average":
        return Scheme("fresh", epsilon, epsilon).guess_right(parameter)
    return (1 + family_variation(epsilon, parameter)) / 2


def _guess(epsilon: Epsilon) -> float:
    """Return the probability of the best guess about one person, from any mechanism with this ε."""
    return RandomizedResponse(epsilon).keep / ONE


def _two_counts(epsilon: Epsilon) -> float:
    """Return the probability of the best guess from two counts, which have ε / 2 each.

    Only one of them includes the person; the other adds nothing to what the attacker knows.
    """
    half = math.exp(float(epsilon) / 2)
    return half / (1 + half)


def family_variation(epsilon: Epsilon, family: int) -> float:
    """Return the total variation between all reports of a family that says yes, or says no."""
    from scipy.stats import binom

    mechanism = RandomizedResponse(epsilon)
    ones = np.arange(family + 1)
    yes, no = (binom.pmf(ones, family, units / ONE) for units in (mechanism.keep, mechanism.lie))
    return float(np.abs(yes - no).sum() / 2)


def report(options: Options, rows: Sequence[Row]) -> Report:
    findings = _findings(options, rows, comparison.middle(options["epsilon"]))
    return Report(
        findings=findings,
        figures=[
            Figure(
                "reconstruct",
                f"The share of {options['people']} answers that is found from {COUNTS_PER_PERSON} "
                "counts for each person, against the error of the counts; and from deniable "
                "reports. One half is a blind guess.",
                lambda: _reconstruct_figure(rows, options),
            ),
        ],
        tables=[_table(rows)],
        method=paragraphs(
            """Counts are of random halves of the people, each with a uniform error; the attacker
            solves a linear program, which takes a tenth of a second. Reports are those of the
            devices' mechanism.

            Rounds and families are exact sums over binomials: the information of all reports
            together about the answer that they have in common. A family of k has k ε, which is
            tanh(k ε / 2) in total variation; the sum is the actual loss."""
        ),
        document=estimator_rows.document(options, rows, findings),
    )


def _findings(options: Options, rows: Sequence[Row], epsilon: str) -> list[str]:
    counts = pick(rows, attack="reconstruct", model="none")
    first, second = counts[0], counts[min(1, len(counts) - 1)]
    guess = one(rows, attack="difference", model="local", epsilon=epsilon)
    rounds, family = (
        pick(rows, attack=attack, epsilon=epsilon)[-1] for attack in ("average", "family")
    )
    return paragraphs(
        f"""{COUNTS_PER_PERSON * options["people"]} counts of {options["people"]} people, each with
        an error of at most {first["parameter"]}, reveal {percent(first["right"])} of the answers,
        and {percent(second["right"])} with an error of at most {second["parameter"]}. From deniable
        reports at ε {epsilon}, the best guesses are right in {percent(guess["right"])} of cases.

        Repetition with fresh noise weakens that protection: after {rounds["parameter"]} rounds,
        {percent(rounds["right"])} of guesses are right. An answer that {family["parameter"]} people
        have in common is guessed correctly with probability {percent(family["right"])}."""
    )


def _table(rows: Sequence[Row]) -> Table:
    words = {
        "reconstruct": "all answers, from counts with error",
        "difference": "one answer, from two counts",
        "average": "one answer, rounds",
        "family": "an answer in common, people",
    }
    lines = []
    for row in rows:
        measured = ""
        if row["measured"] is not None:
            error = 100 * number(row, "error")
            measured = f"{100 * number(row, 'measured'):.1f} ± {error:.1f} %"
        parameter = f"{row['parameter']:,}" if row["parameter"] else ""
        first = words[str(row["attack"])], LABELS[str(row["model"])], str(row["epsilon"] or "none")
        lines.append([*first, parameter, percent(row["right"]), measured])
    return Table(
        "Probability of a right guess", ["what", "from", "ε", "number", "right", "measured"], lines
    )


def _reconstruct_figure(rows: Sequence[Row], options: Options) -> matplotlib.figure.Figure:
    picture = new_figure(height=4.0)
    axes = picture.subplots()
    counts = pick(rows, attack="reconstruct", model="none")
    axes.errorbar(
        [number(row, "parameter") for row in counts],
        [100 * number(row, "measured") for row in counts],
        yerr=[300 * number(row, "error") for row in counts],
        label=f"from {COUNTS_PER_PERSON * options['people']} counts",
        **LOOKS["none"].style,
        capsize=2,
    )
    color = LOOKS["local"].color
    for epsilon in options["epsilon"]:
        row = one(rows, attack="reconstruct", model="local", epsilon=epsilon)
        level = 100 * number(row, "right")
        axes.axhline(level, color=color, linewidth=1.2)
        axes.annotate(
            f"deniable reports, ε {epsilon}",
            (1.0, level),
            xytext=(0, 3),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            ha="right",
            color=color,
            fontsize=9,
        )
    reference_line(axes, 50, dotted=False)
    axes.annotate("blind guess", (0, 50.8), fontsize=9)
    axes.set(ylim=(48, 102), xlabel="largest error of a count, in people", ylabel="found, %")
    axes.set_title(f"Answers of {options['people']} people that an attacker finds")
    axes.grid(visible=True)
    axes.legend(loc="upper right")
    return picture


STUDY = Study(
    name="attack",
    question="What does an attacker learn about one person?",
    options=OPTIONS,
    cells=cells,
    run=run,
    report=report,
    formulas=(
        ("a guess of one answer from a report is right with at most", r"\dfrac{e^ε}{1 + e^ε}"),
        ("a family of k with one answer", r"\tanh(k ε / 2)"),
    ),
)
