"""Many rounds of one question: what an observer of one install's reports learns, by kind of noise.

The JSON form: `options` and `cells` (`scheme` fresh, kept, two-stage or latched, `epsilon` of one
report, `lasting` of a two-stage kept report, `rounds`, `guarantee` ε about an answer that never
changes, `guess_right` the probability of naming it, `flip_right` the probability of telling never
from a change halfway, `flip_epsilon` the largest log ratio between never and one change, null where
there is no limit, `flip_shown` for kept reports the probability that a change shows), all exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from deniable.shared.errors import WrongUse
from deniable.shared.privacy.epsilon import Epsilon
from deniable.simulations.engine import comparison, option
from deniable.simulations.engine.comparison import look, number
from deniable.simulations.engine.figures import FAINT, new_figure
from deniable.simulations.engine.study import Cell, Figure, Options, Report, Row, Study, Table
from deniable.simulations.studies.repetition import SCHEMES, Scheme

if TYPE_CHECKING:
    import matplotlib.figure


LOOKS = dict(zip(SCHEMES, map(look, range(4)), strict=True))
MOST_ROUNDS = 400


def _factor(name: str, given: Any) -> str:  # Any: as it was given
    factor = option.epsilon(name, given)
    if float(factor) <= 1:
        raise WrongUse(
            f"{name} is above 1, as what is kept spends more than one report does; got {factor}"
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
        option.several(option.whole(1, MOST_ROUNDS)),
        "how often they are asked",
    ),
)


def _check(options: dict[str, Any]) -> Options:  # Any: what JSON can hold
    return {**options, "rounds": sorted(options["rounds"])}


def cells(options: Options) -> Sequence[Cell]:
    return [
        {"scheme": scheme, "epsilon": epsilon, "lasting": options["lasting"], "rounds": rounds}
        for epsilon in options["epsilon"]
        for scheme in SCHEMES
        for rounds in options["rounds"]
    ]


def run(cell: Cell, generator: np.random.Generator) -> Sequence[Row]:  # noqa: ARG001 # exact
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
    shown = comparison.pick(rows, epsilon=epsilon)
    return Report(
        findings=_findings(shown, epsilon, max(options["rounds"])),
        figures=[
            Figure(
                "answer",
                "The probability that someone who sees all reports of one install guesses its "
                f"answer, at ε {epsilon} for one report. One half is a blind guess. Fresh noise "
                "averages away.",
                lambda: _figure(shown, "guess_right", f"An answer that never changes, ε {epsilon}"),
            ),
            Figure(
                "change",
                "The probability of telling rightly whether an answer changed halfway or never. A "
                "latched report shows nothing of it; all others do.",
                lambda: _figure(shown, "flip_right", f"Changed halfway, or never, ε {epsilon}"),
            ),
        ],
        tables=[
            _table(rows, options["rounds"], "guess_right", "The answer is guessed correctly"),
            _table(rows, options["rounds"], "flip_right", "Change or no change: guessed correctly"),
            _flip_table(rows, options["rounds"]),
        ],
        method=[
            (
                "Nothing is sampled: these are sums over binomials. The observer sees every "
                "report of "
                "one install and makes the best guess; before, both answers are equally likely."
            ),
            (
                f"Two-stage keeps a report at {options['lasting']} times the ε of one report and "
                "randomizes it again in each round, so that a single report spends ε."
            ),
            (
                "Kept and two-stage reports promise their ε for an answer that never changes. "
                "When it "
                "changes, that it did and when is not protected. Latched noise keeps ε for every "
                "history within its period, at the price that changes inside it are not seen."
            ),
        ],
        document=comparison.cells_document(options, rows),
    )


def _findings(rows: Sequence[Row], epsilon: str, rounds: int) -> list[str]:
    fresh, latched, kept, two = (
        comparison.one(rows, scheme=s, rounds=rounds)
        for s in ("fresh", "latched", "kept", "two-stage")
    )
    once = comparison.pick(rows, scheme="fresh")[0]
    joint = two["flip_epsilon"]
    if kept["flip_shown"] is None:
        change = "In a single round no answer changes: there is nothing to tell but the answer."
    else:
        change = (
            f"When the answer changes once, kept (memoized) reports show that and when with "
            f"probability {_percent(kept['flip_shown'])}, and two-stage reports of {rounds} rounds "
            f"can change the odds about it by a factor of e^"
            f"{comparison.figure(float(joint or 0))}; latched reports show nothing of it."
        )
    return [
        (
            f"At ε {epsilon} an observer of {number(once, 'rounds'):.0f} fresh report guesses the "
            f"answer correctly with probability {_percent(once['guess_right'])}, an observer of "
            f"{rounds} with {_percent(fresh['guess_right'])}; with {rounds} latched reports it "
            f"stays {_percent(latched['guess_right'])}."
        ),
        change,
    ]


def _percent(value: object) -> str:
    """Never 100 % for what is less."""
    assert isinstance(value, (int, float))
    text = f"{100 * value:.1f}"
    return f"{'> 99.9' if text == '100.0' and value < 1 else text} %"


def _table(rows: Sequence[Row], rounds: Sequence[int], key: str, title: str) -> Table:
    lines = []
    for epsilon, scheme in dict.fromkeys((str(r["epsilon"]), str(r["scheme"])) for r in rows):
        found = comparison.pick(rows, epsilon=epsilon, scheme=scheme)
        lines.append([f"{scheme}, ε {epsilon}", *(_percent(r[key]) for r in found)])
    return Table(title, ["rounds", *(str(r) for r in rounds)], lines)


def _flip_table(rows: Sequence[Row], rounds: Sequence[int]) -> Table:
    lines = []
    for epsilon, scheme in dict.fromkeys((str(r["epsilon"]), str(r["scheme"])) for r in rows):
        found = comparison.pick(rows, epsilon=epsilon, scheme=scheme)
        texts = [
            "no limit" if r["flip_epsilon"] is None else f"{r['flip_epsilon']:.2f}" for r in found
        ]
        lines.append([f"{scheme}, ε {epsilon}", *texts])
    return Table(
        "ε between an answer that never changes and one that changes once",
        ["rounds", *(str(r) for r in rounds)],
        lines,
    )


def _figure(rows: Sequence[Row], key: str, title: str) -> matplotlib.figure.Figure:
    figure = new_figure(height=4.0)
    axes = figure.subplots()
    for scheme in SCHEMES:
        found = comparison.pick(rows, scheme=scheme)
        axes.plot(
            [number(r, "rounds") for r in found],
            [100 * number(r, key) for r in found],
            color=LOOKS[scheme].color,
            linestyle=LOOKS[scheme].dash,
            marker=LOOKS[scheme].marker,
            label=scheme,
        )
    axes.axhline(50, color=FAINT, linewidth=0.8)
    axes.annotate("blind guess", (18, 51.4), fontsize=9)
    ticks = [int(number(r, "rounds")) for r in comparison.pick(rows, scheme="fresh")]
    axes.set(
        xscale="log", ylim=(48, 102), xlabel="rounds", ylabel="guessed correctly, %", title=title
    )
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.grid(visible=True)
    axes.legend(loc="upper left")
    return figure


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
