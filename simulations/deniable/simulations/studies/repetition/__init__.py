"""Repetition of one question in many rounds: what one install leaks, by noise scheme."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from numpy.random import Generator

from deniable.shared.errors import WrongUse
from deniable.shared.privacy.epsilon import Epsilon
from deniable.simulations.engine import comparison, option
from deniable.simulations.engine.comparison import figure, look, number, one, pick
from deniable.simulations.engine.figures import plain_ticks
from deniable.simulations.engine.study import Cell, Figure, Options, Report, Row, Study, Table
from deniable.simulations.studies.building_blocks import (
    chart,
    marked_line,
    paragraphs,
    percent,
    reference_line,
    sweep,
)
from deniable.simulations.studies.repetition.noise_schemes import SCHEMES, Scheme

if TYPE_CHECKING:
    import matplotlib.figure

LOOKS = dict(zip(SCHEMES, map(look, range(4)), strict=True))
MAX_ROUNDS = 400


def _factor(name: str, given: Any) -> str:  # Any: as it was given
    factor = option.epsilon(name, given)
    if float(factor) <= 1:
        raise WrongUse(
            f"{name} must be above 1: a kept report has more ε than one report; got {factor}"
        )
    return factor


OPTIONS = (
    option.epsilons("0.5,1,2"),
    option.Option(
        "lasting", 2, _factor, "two-stage: ε of the kept report, as a multiple of one report's", "X"
    ),
    option.Option(
        "rounds",
        "1,2,4,7,12,15,31,52,104",
        option.several(option.whole(1, MAX_ROUNDS)),
        "how often they are asked",
    ),
)


def _check(options: dict[str, Any]) -> Options:  # Any: what JSON can hold
    return {**options, "rounds": sorted(options["rounds"])}


def cells(options: Options) -> Sequence[Cell]:
    return sweep(options, "epsilon", scheme=SCHEMES, rounds=options["rounds"])


def run(cell: Cell, generator: Generator) -> Sequence[Row]:  # noqa: ARG001 # exact
    epsilon, rounds = Epsilon(str(cell["epsilon"])), int(cell["rounds"])
    lasting = option.product(epsilon, Epsilon(str(cell["lasting"])))
    scheme = Scheme(str(cell["scheme"]), epsilon, float(lasting))
    flip = scheme.flip_epsilon(rounds)
    return [
        {
            "scheme": scheme.name,
            "epsilon": str(epsilon),
            "lasting": lasting if scheme.name == "two-stage" else None,
            "rounds": rounds,
            "guarantee": scheme.guarantee(rounds),
            "guess_right": scheme.guess_right(rounds),
            "flip_right": scheme.flip_right(rounds),
            "flip_epsilon": flip if math.isfinite(flip) else None,
            "flip_shown": scheme.flip_shown if scheme.name == "kept" and rounds > 1 else None,
        }
    ]


def report(options: Options, rows: Sequence[Row]) -> Report:
    epsilon = comparison.middle(options["epsilon"])
    shown = pick(rows, epsilon=epsilon)
    return Report(
        findings=_findings(shown, epsilon, max(options["rounds"])),
        figures=[
            Figure(
                "answer",
                "The probability that an observer of all reports of one install guesses its "
                f"answer, at ε {epsilon} for one report. One half is a blind guess. Fresh noise "
                "averages away.",
                lambda: _figure(shown, "guess_right", f"An answer that never changes, ε {epsilon}"),
            ),
            Figure(
                "change",
                "The probability of deciding correctly whether an answer changed halfway or never. "
                "A latched report reveals nothing about it; all others do.",
                lambda: _figure(shown, "flip_right", f"Changed halfway, or never, ε {epsilon}"),
            ),
        ],
        tables=[
            _table(rows, "The answer is guessed correctly", lambda r: percent(r["guess_right"])),
            _table(
                rows,
                "Change or no change: guessed correctly",
                lambda row: percent(row["flip_right"]),
            ),
            _table(
                rows,
                "ε between an answer that never changes and one that changes once",
                lambda row: (
                    "no limit" if row["flip_epsilon"] is None else f"{row['flip_epsilon']:.2f}"
                ),
            ),
        ],
        method=paragraphs(
            f"""Nothing is sampled: these are sums over binomials. The observer sees every report of
            one install and makes the best guess; before, both answers are equally likely.

            Two-stage keeps a report at {options["lasting"]} times the ε of one report and
            randomizes it again in each round, so that a single report has ε.

            Kept and two-stage reports protect an answer that never changes, with their ε. They do
            not protect that it changes, or when. Latched noise keeps ε for every history within its
            period; in return, changes within the period are not seen."""
        ),
        document=comparison.cells_document(options, rows),
    )


def _findings(rows: Sequence[Row], epsilon: str, rounds: int) -> list[str]:
    fresh, latched, kept, two_stage = (
        one(rows, scheme=scheme, rounds=rounds)
        for scheme in ("fresh", "latched", "kept", "two-stage")
    )
    first = pick(rows, scheme="fresh")[0]
    if kept["flip_shown"] is None:
        change = "In a single round no answer changes: only the answer itself can leak."
    else:
        change = (
            "When the answer changes once, kept (memoized) reports reveal the change and its time "
            f"with probability {percent(kept['flip_shown'])}, and two-stage reports of {rounds} "
            "rounds can change the odds about it by a factor of "
            f"e^{figure(float(two_stage['flip_epsilon'] or 0))}; latched reports reveal nothing "
            "about it."
        )
    return paragraphs(
        f"""At ε {epsilon} an observer of {number(first, "rounds"):.0f} fresh report guesses the
        answer correctly with probability {percent(first["guess_right"])}, an observer of {rounds}
        with {percent(fresh["guess_right"])}; with {rounds} latched reports it stays
        {percent(latched["guess_right"])}.

        {change}"""
    )


def _table(rows: Sequence[Row], title: str, text: Callable[[Row], str]) -> Table:
    lines = []
    for epsilon, scheme in dict.fromkeys((str(row["epsilon"]), str(row["scheme"])) for row in rows):
        mine = pick(rows, epsilon=epsilon, scheme=scheme)
        lines.append([f"{scheme}, ε {epsilon}", *map(text, mine)])
    return Table(title, ["rounds", *dict.fromkeys(str(row["rounds"]) for row in rows)], lines)


def _figure(rows: Sequence[Row], key: str, title: str) -> matplotlib.figure.Figure:
    picture, axes = chart(title, "rounds", "guessed correctly, %", height=4.0)
    for scheme in SCHEMES:
        mine = pick(rows, scheme=scheme)
        points = [(number(row, "rounds"), 100 * number(row, key)) for row in mine]
        marked_line(axes, points, LOOKS[scheme], scheme)
    reference_line(axes, 50, dotted=False)
    axes.annotate("blind guess", (18, 51.4), fontsize=9)
    axes.set(yscale="linear", ylim=(48, 102))
    plain_ticks(axes, [number(row, "rounds") for row in pick(rows, scheme="fresh")])
    axes.legend(loc="upper left")
    return picture


STUDY = Study(
    name="repeat",
    question="What do many rounds of the same question give away about one person?",
    options=OPTIONS,
    check=_check,
    cells=cells,
    run=run,
    report=report,
    formulas=(
        ("a guess from one report", r"\dfrac{e^ε}{1 + e^ε}"),
        ("fresh reports of T rounds change the odds by at most", r"e^{T ε}"),
        ("latched reports", r"e^ε"),
    ),
)
