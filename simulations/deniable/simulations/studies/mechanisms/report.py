"""What is said and drawn of mechanisms beside the least error that is possible."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING

from deniable.simulations.engine import comparison, custom_mechanisms
from deniable.simulations.engine.comparison import look, number
from deniable.simulations.engine.figures import FAINT, new_figure
from deniable.simulations.engine.study import Figure, Options, Report, Row, Table
from deniable.simulations.studies.mechanisms.measuring import PEOPLE, SOME, with_costs

if TYPE_CHECKING:
    import matplotlib.figure


def report(options: Options, rows: Sequence[Row]) -> Report:
    epsilon = comparison.middle(options["epsilon"])
    costly = [with_costs(row) for row in rows]
    chosen = comparison.pick(costly, epsilon=epsilon)
    return Report(
        findings=_findings(rows, options),
        figures=[
            Figure(
                "options",
                f"n times the variance of one option over the least that is possible, at ε "
                f"{epsilon}, against the number of options. Lines are formulas, points are "
                "simulations.",
                lambda: _against(
                    comparison.pick(chosen, kind="choice"),
                    "size",
                    f"Choices, ε {epsilon}",
                    "options",
                ),
            ),
            Figure(
                "numbers",
                "The same for the mean of numbers at the worst place, against ε.",
                lambda: _against(comparison.pick(costly, kind="number"), "epsilon", "Numbers", "ε"),
            ),
        ],
        tables=[_table(chosen, epsilon)],
        method=[
            (
                f"{PEOPLE:,} people, or a few more where shares are to be alike; only noise is "
                "drawn. Errors do not depend on the people."
            ),
            f"{_off(rows):.1f} Monte-Carlo errors is the most that a figure is off its formula.",
            (
                "The time of a report on a device is with the kernel's randomness; that of "
                f"counting one is of {SOME:,} at once. Both are of this machine and this run, and "
                "stand in the JSON form only: they are no part of what is computed again to the "
                "byte."
            ),
        ],
        document={
            "options": dict(options),
            "rows": costly,
        },
    )


def _over(row: Row, key: str = "predicted_n_variance") -> float:
    return number(row, key) / number(row, "limit")


def _off(rows: Sequence[Row]) -> float:
    return max(
        abs(number(r, "measured_n_variance") - number(r, "predicted_n_variance"))
        / number(r, "measurement_error")
        for r in rows
    )


def _findings(rows: Sequence[Row], options: Options) -> list[str]:
    known = [row for row in rows if row["limit"] is not None]
    least: dict[tuple[object, ...], Row] = {}
    for row in known:
        asked = (row["kind"], row["epsilon"], row["size"] if row["kind"] == "choice" else 0)
        least[asked] = min(least.get(asked, row), row, key=_over)
    far = max(least.values(), key=_over)
    epsilon, most = comparison.middle(options["epsilon"]), max(options["options"])
    many = comparison.pick(rows, kind="choice", size=most, epsilon=epsilon)
    best, worst = min(many, key=_over), max(many, key=_over)
    return [
        (
            f"The best mechanism for each question is at most {_over(far):.3f} times the least "
            f"variance that is possible: that is {_label(far)} at ε {far['epsilon']}, size "
            f"{number(far, 'size'):,}."
        ),
        (
            f"With {most:,} options at ε {epsilon}, {_label(best)} has {_over(best):.4f} times "
            f"the least in {best['payload_bytes']} bytes, and {_label(worst)} "
            f"{_over(worst):,.4g} times."
        ),
    ]


def _label(row: Row) -> str:
    return custom_mechanisms.label(str(row["kind"]), str(row["mechanism"]))


def _against(rows: Sequence[Row], key: str, title: str, axis: str) -> matplotlib.figure.Figure:
    figure = new_figure()
    axes = figure.subplots()
    names = dict.fromkeys(str(row["mechanism"]) for row in rows)
    for name, appearance in zip(names, cycle(map(look, range(6))), strict=False):
        mine = [r for r in rows if r["mechanism"] == name and r["limit"] is not None]
        x = [float(str(r[key])) for r in mine]
        over = [_over(r) for r in mine]
        axes.plot(x, over, color=appearance.color, ls=appearance.dash, label=_label(mine[0]))
        bars = [3 * _over(r, "measurement_error") for r in mine]
        measured = [_over(r, "measured_n_variance") for r in mine]
        axes.errorbar(
            x, measured, yerr=bars, fmt=appearance.marker, color=appearance.color, capsize=2
        )
    axes.axhline(1, color=FAINT, linewidth=1)
    axes.set(xscale="log", yscale="log", xlabel=axis, ylabel="variance / the least", title=title)
    axes.grid(visible=True, which="major")
    axes.legend()
    return figure


def _table(rows: Sequence[Row], epsilon: str) -> Table:
    return Table(
        f"Every mechanism at ε {epsilon}",
        ["kind", "size", "mechanism", "n × variance", "over the least", "bytes", "device", "count"],
        [
            [
                str(row["kind"]),
                f"{number(row, 'size'):,}",
                _label(row),
                f"{number(row, 'predicted_n_variance'):,.4g}",
                "-" if row["limit"] is None else f"{_over(row):,.4g}",
                f"{number(row, 'payload_bytes'):,}",
                f"{number(row, 'client_ns') / 1e3:,.3g} µs",
                f"{number(row, 'tally_ns'):,.3g} ns",
            ]
            for row in rows
        ],
    )
