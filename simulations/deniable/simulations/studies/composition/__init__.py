"""Composition of many rounds: their total ε by each account, for devices and for a curator.

    local      T reports of randomized response with fresh noise: basic, advanced, Rényi, by the
               central limit, and exact
    central    T answers with Gaussian noise, each (ε, δ) on its own; and the same where each round
               samples each person with a small probability, as in DP-SGD

Nothing is drawn. `privacy_accounts.py` has the formulas and their sources.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from numpy.random import Generator

from deniable.simulations.engine import comparison, estimator_rows, option
from deniable.simulations.engine.comparison import figure, look, number, pick
from deniable.simulations.engine.study import Cell, Figure, Options, Report, Row, Study
from deniable.simulations.studies.building_blocks import (
    chart,
    grid,
    marked_line,
    paragraphs,
    table,
)
from deniable.simulations.studies.composition import privacy_accounts as accounts

if TYPE_CHECKING:
    import matplotlib.figure

MAX_ROUNDS = 100_000
LOCAL: Mapping[str, Callable[[float, int, float], float]] = {
    "basic": accounts.basic,
    "advanced": accounts.advanced,
    "rdp": accounts.rdp,
    "clt": accounts.clt,
    "exact": accounts.exact,
}
LABELS = {
    "basic": "basic (δ = 0)",
    "advanced": "advanced",
    "rdp": "Rényi",
    "clt": "central limit",
    "exact": "exact",
    "gaussian": "curator, Gaussian",
    "sampled-rdp": "sampled, Rényi",
    "sampled-pld": "sampled, numerical",
}
LOOKS = dict(zip(LABELS, map(look, (0, 1, 4, 3, 2, 5, 1, 3)), strict=True))
OPTIONS = (
    option.epsilons("0.1,0.5,1"),
    option.Option(
        "rounds", "1,3,10,30,100,300,1000", option.several(option.whole(1, MAX_ROUNDS)), "rounds"
    ),
    option.Option("delta", 1e-6, option.inside(), "probability that the guarantee fails", "δ"),
    option.Option(
        "sampling", 0.01, option.inside(), "the curator's sampling rate in each round", "Q"
    ),
)


def run(cell: Cell, generator: Generator) -> Sequence[Row]:  # noqa: ARG001 # exact
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
    epsilon, delta = comparison.middle(options["epsilon"]), options["delta"]
    shown, percent = pick(rows, epsilon=epsilon), f"{100 * options['sampling']:g} %"
    findings = _findings(options, rows)
    return Report(
        findings=findings,
        figures=[
            Figure(
                "local",
                f"The total cost of one device's reports, at ε {epsilon} each: added up, and with "
                f"a failure probability of {delta:g}. The central limit is not a guarantee; no "
                "valid account is below 'exact'.",
                lambda: _figure(shown, tuple(LOCAL), f"One device's reports, ε {epsilon} each"),
            ),
            Figure(
                "curator",
                "The same for a curator whose answers have Gaussian noise: answers about all "
                f"people, and answers about {percent} of them, sampled again in each round.",
                lambda: _figure(
                    shown, ("exact", "gaussian", "sampled-rdp", "sampled-pld"), "Device and curator"
                ),
            ),
        ],
        tables=[
            table(
                f"ε of all rounds, δ = {delta:g}",
                rows,
                {"ε of one": "epsilon", "rounds": "rounds"},
                {label: _total_of(account) for account, label in LABELS.items()},
            )
        ],
        method=paragraphs(
            """Randomized response is the worst of all mechanisms with its ε, so its exact
            composition (Kairouz, Oh, Viswanath) bounds the cost of any reports with this ε.

            A client of deniable adds up: its promise holds with δ = 0, against an attacker who has
            all reports. The other accounts show how much of that is a safety margin.

            The curator's noise is the least that makes one answer (ε, δ). Sampled rounds are
            accounted for adding or removing one person: numerically by privacy loss distributions
            (dp-accounting), which are never too small, and by Rényi divergences."""
        ),
        document=estimator_rows.document(options, rows, findings),
    )


def _total_of(account: str) -> Callable[[Sequence[Row]], str]:
    return lambda rows: figure(number(comparison.one(rows, account=account), "total"))


def _findings(options: Options, rows: Sequence[Row]) -> list[str]:
    epsilon, rounds = options["epsilon"][0], comparison.middle(options["rounds"])
    cell = pick(rows, epsilon=epsilon, rounds=rounds)
    total = {row["account"]: figure(number(row, "total")) for row in cell}
    return paragraphs(
        f"""{rounds:,} reports at ε {epsilon} cost {total["basic"]} added up, as the client does.
        With a failure probability of {options["delta"]:g}, the exact cost is {total["exact"]}; no
        smaller number is valid.

        A curator whose answers cost the same comes to {total["gaussian"]}, and to
        {total["sampled-pld"]} where each answer is about {100 * options["sampling"]:g} % of the
        people only. Devices cannot gain from sampling, as the server sees who answers."""
    )


def _figure(rows: Sequence[Row], shown: Sequence[str], title: str) -> matplotlib.figure.Figure:
    picture, axes = chart(title, "rounds", "ε of all rounds")
    for name in shown:
        points = [(number(r, "rounds"), number(r, "total")) for r in pick(rows, account=name)]
        marked_line(axes, points, LOOKS[name], LABELS[name])
    axes.legend(loc="upper left")
    return picture


STUDY = Study(
    name="compose",
    question="How much privacy do many rounds cost together?",
    options=OPTIONS,
    cells=grid("epsilon", "rounds"),
    run=run,
    report=report,
    formulas=(
        ("T rounds added up", r"T ε"),
        ("advanced composition", r"\sqrt{2T \ln(1 / δ)}\, ε + T ε (e^ε - 1)"),
        (
            "exact, for reports of one bit",
            r"δ = \sum_l \binom{T}{l} \dfrac{\max(0,\ e^{(T - l) ε} - e^{E + l ε})}{(1 + e^ε)^T}",
        ),
    ),
)
