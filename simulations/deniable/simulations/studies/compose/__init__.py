"""Many rounds: what they cost in all, by each way of counting, for devices and for a curator.

    local      T reports of randomized response with fresh noise: basic, advanced, Rényi, by the
               central limit, and exactly
    central    T answers with Gaussian noise, of which one is (ε, δ); and the same where each round
               takes in each person with a probability only, as in DP-SGD

Nothing is drawn. `accounts.py` has the formulas and their sources.

The JSON form: `options`, `rows` (`model`, `account`, `epsilon` of one round, `rounds`, `delta`,
`total` the ε of all rounds, `guarantee` 1 where it is one: the central limit is not) and
`findings`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from deniable.simulations.engine import comparison, option
from deniable.simulations.engine.comparison import look, number
from deniable.simulations.engine.figures import new_figure
from deniable.simulations.engine.study import Cell, Figure, Options, Report, Row, Study, Table
from deniable.simulations.studies.compose import accounts

if TYPE_CHECKING:
    import matplotlib.figure

MOST_ROUNDS = 100_000
LOCAL: Mapping[str, Callable[[float, int, float], float]] = {
    "basic": accounts.basic,
    "advanced": accounts.advanced,
    "rdp": accounts.rdp,
    "clt": accounts.clt,
    "exact": accounts.exact,
}
LABELS = {
    "basic": "added up (δ = 0)",
    "advanced": "advanced",
    "rdp": "Rényi",
    "clt": "central limit",
    "exact": "exactly",
    "gaussian": "curator, Gaussian",
    "sampled-rdp": "sampled, Rényi",
    "sampled-pld": "sampled, numerically",
}
LOOKS = dict(zip(LABELS, map(look, (0, 1, 4, 3, 2, 5, 1, 3)), strict=True))


OPTIONS = (
    option.epsilons("0.1,0.5,1"),
    option.Option(
        "rounds", "1,3,10,30,100,300,1000", option.several(option.whole(1, MOST_ROUNDS)), "rounds"
    ),
    option.Option("delta", 1e-6, option.inside(), "the probability that is given up", "δ"),
    option.Option(
        "sampling", 0.01, option.inside(), "the curator takes each person in a round with", "Q"
    ),
)


def cells(options: Options) -> Sequence[Cell]:
    shared = {key: options[key] for key in ("delta", "sampling")}
    return [
        {"epsilon": epsilon, "rounds": rounds, **shared}
        for epsilon in options["epsilon"]
        for rounds in options["rounds"]
    ]


def run(cell: Cell, generator: np.random.Generator) -> Sequence[Row]:  # noqa: ARG001 # exact
    epsilon, rounds, delta = float(cell["epsilon"]), int(cell["rounds"]), float(cell["delta"])
    mu, rate = accounts.gaussian_mu(epsilon, delta), float(cell["sampling"])
    totals = {name: account(epsilon, rounds, delta) for name, account in LOCAL.items()}
    totals["gaussian"] = accounts.gaussian(mu, rounds, delta)
    totals["sampled-rdp"] = accounts.sampled_rdp(mu, rate, rounds, delta)
    totals["sampled-pld"] = accounts.sampled_pld(mu, rate, rounds, delta)
    return [
        {
            "model": "local" if name in LOCAL else "central",
            "account": name,
            "epsilon": str(cell["epsilon"]),
            "rounds": rounds,
            "delta": delta,
            "total": total,
            "guarantee": int(name != "clt"),
        }
        for name, total in totals.items()
    ]


def report(options: Options, rows: Sequence[Row]) -> Report:
    epsilon = comparison.middle(options["epsilon"])
    shown = comparison.pick(rows, epsilon=epsilon)
    findings = _findings(options, rows)
    sampling = options["sampling"]
    return Report(
        findings=findings,
        figures=[
            Figure(
                "local",
                f"What reports of one device cost in all, at ε {epsilon} each: added up, and with "
                f"a probability of {options['delta']:g} given up. The central limit is no "
                "guarantee; nobody counts less than 'exactly'.",
                lambda: _figure(shown, tuple(LOCAL), f"One device's reports, ε {epsilon} each"),
            ),
            Figure(
                "curator",
                f"The same for a curator whose answers have Gaussian noise: each about everybody, "
                f"and each about {100 * sampling:g} % of the people, drawn anew.",
                lambda: _figure(
                    shown, ("exact", "gaussian", "sampled-rdp", "sampled-pld"), "Device and curator"
                ),
            ),
        ],
        tables=[_table(rows, options["delta"])],
        method=[
            (
                "Randomized response is the worst of all mechanisms with its ε, so that its exact "
                "composition (Kairouz, Oh, Viswanath) is what any reports of this ε may cost."
            ),
            (
                "A client of deniable adds up: its promise holds with δ = 0, against whoever has "
                "all reports. The other accounts say how much of that is lost to safety."
            ),
            (
                "The curator's noise is the least that makes one answer (ε, δ). Sampled rounds are "
                "counted for a person more or fewer, numerically by privacy loss distributions "
                "(dp-accounting), which are never too small, and by Rényi divergences."
            ),
        ],
        document={
            "options": dict(options),
            "rows": [dict(row) for row in rows],
            "findings": findings,
        },
    )


def _findings(options: Options, rows: Sequence[Row]) -> list[str]:
    epsilon, rounds = options["epsilon"][0], comparison.middle(options["rounds"])
    found = {r["account"]: number(r, "total") for r in comparison.pick(
        rows, epsilon=epsilon, rounds=rounds
    )}  # fmt: skip
    said = {name: comparison.figure(total) for name, total in found.items()}
    return [
        (
            f"{rounds:,} reports at ε {epsilon} cost {said['basic']} added up, as the client does; "
            f"whoever gives up a probability of {options['delta']:g} may say {said['exact']}, and "
            "not less."
        ),
        (
            f"A curator whose every answer costs as much comes to {said['gaussian']}, and to "
            f"{said['sampled-pld']} where each is about {100 * options['sampling']:g} % of the "
            "people only: sampling is what devices cannot have, as the server sees who answers."
        ),
    ]


def _table(rows: Sequence[Row], delta: float) -> Table:
    lines = []
    for epsilon, rounds in dict.fromkeys((str(r["epsilon"]), r["rounds"]) for r in rows):
        found = comparison.pick(rows, epsilon=epsilon, rounds=rounds)
        lines.append(
            [epsilon, f"{rounds:,}", *(comparison.figure(number(r, "total")) for r in found)]
        )
    return Table(f"ε of all rounds, δ = {delta:g}", ["ε of one", "rounds", *LABELS.values()], lines)


def _figure(rows: Sequence[Row], shown: Sequence[str], title: str) -> matplotlib.figure.Figure:
    figure = new_figure()
    axes = figure.subplots()
    for name in shown:
        found = comparison.pick(rows, account=name)
        axes.plot(
            [number(r, "rounds") for r in found],
            [number(r, "total") for r in found],
            label=LABELS[name],
            **LOOKS[name].style,
        )
    axes.set(xscale="log", yscale="log", xlabel="rounds", ylabel="ε of all rounds", title=title)
    axes.grid(visible=True)
    axes.legend(loc="upper left")
    return figure


STUDY = Study(
    name="compose",
    question="How much privacy do many rounds cost together?",
    options=OPTIONS,
    cells=cells,
    run=run,
    report=report,
    formulas=(
        ("T rounds added up", "T ε"),
        ("advanced composition", "√(2 T ln(1 / δ)) ε + T ε (e^ε - 1)"),
        (
            "exactly, for reports of one bit",
            'δ = "Σ"_l "C"(T, l) max(0, e^((T - l) ε) - e^(E + l ε)) / (1 + e^ε)^T',
        ),
    ),
)
