"""What is said and drawn of finding the most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deniable.simulations.engine import comparison
from deniable.simulations.engine.comparison import number
from deniable.simulations.engine.figures import new_figure
from deniable.simulations.engine.study import Figure, Options, Report, Row, Table
from deniable.simulations.studies.select.labels import LABELS, LOOKS

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure


def report(options: Options, rows: Sequence[Row]) -> Report:
    epsilon = comparison.middle(options["epsilon"])
    findings = _findings(options, rows, epsilon)
    right = options["right"]
    return Report(
        findings=findings,
        figures=[
            Figure(
                "people",
                f"How many people it takes to choose the right one of so many conditions with "
                f"probability {right:g}, at ε {epsilon}: as the logarithm with a trusted server, "
                "and as the number of conditions itself, and more, on devices. No local protocol "
                "is below the dotted line.",
                lambda: _people_figure(rows, options, epsilon),
            ),
            Figure(
                "votes",
                f"How many votes the leader has to be ahead to be chosen with probability "
                f"{right:g}, at ε {epsilon}; {options['people']:,} people vote on devices. No "
                "curator is below the dotted line.",
                lambda: _votes_figure(rows, options, epsilon),
            ),
        ],
        tables=[_people_table(rows, options), _votes_table(rows, options)],
        method=[
            (
                "Votes: everybody has one, and the others' votes are spread evenly. The "
                "exponential mechanism and permute and flip have closed forms; unary votes an "
                "exact sum over the leader's count."
            ),
            (
                f"Conditions: one of them has the mean {options['delta']:g}, all others 0. On "
                "devices each person answers one, drawn at random, by randomized response. Means "
                "are taken to be normally distributed; what is measured is drawn from binomials."
            ),
            (
                f"Measured by {options['repetitions']:,} choices where the probability is the one "
                f"asked for: the largest distance is {_worst(rows):.1f} Monte-Carlo errors."
            ),
        ],
        document={
            "options": dict(options),
            "rows": [dict(row) for row in rows],
            "findings": findings,
        },
    )


def _worst(rows: Sequence[Row]) -> float:
    known = [r for r in rows if r["measured"] is not None]
    return max(abs(number(r, "measured") - number(r, "exact")) / number(r, "error") for r in known)


def _needed(rows: Sequence[Row], epsilon: str, k: int) -> dict[str, Row]:
    found = comparison.pick(rows, question="conditions", epsilon=epsilon, options=k)
    return {str(row["model"]): row for row in found}


def _price(found: dict[str, Row]) -> str:
    return comparison.figure(
        number(found["local"], "people_needed") / number(found["central"], "people_needed")
    )


def _findings(options: Options, rows: Sequence[Row], epsilon: str) -> list[str]:
    sizes = sorted(options["options"])
    k = sizes[len(sizes) // 2]
    found = _needed(rows, epsilon, k)
    none, central, local = (f"{found[m]['people_needed']:,}" for m in ("none", "central", "local"))
    least = found["local"]["limit"]
    below = f"; no local protocol needs fewer than {least:,.0f}" if least else ""
    first, last = (_price(_needed(rows, epsilon, size)) for size in (sizes[0], sizes[-1]))
    votes = comparison.pick(rows, question="votes", epsilon=epsilon, options=k)
    gaps = {r["estimator"]: r["gap_needed"] for r in votes}
    ahead = gaps["unary"]
    return [
        (
            f"To choose the right one of {k:,} conditions at ε {epsilon} takes {none} people "
            f"without privacy, {central} with a trusted server and {local} devices{below}: the "
            f"price grows with the question, from {first} times at {sizes[0]:,} to {last} at "
            f"{sizes[-1]:,}, and not with the people."
        ),
        (
            f"With one vote each, a leader of {k:,} has to be ahead by {gaps['exponential']:.1f} "
            f"votes for the exponential mechanism, by {gaps['permute-and-flip']:.1f} for permute "
            f"and flip, and by {'more than all' if ahead is None else f'{ahead:,}'} of "
            f"{options['people']:,} on devices; no curator does with fewer than "
            f"{number(votes[0], 'limit'):.1f}."
        ),
    ]


def _people_table(rows: Sequence[Row], options: Options) -> Table:
    lines = []
    for epsilon in options["epsilon"]:
        for k in sorted(options["options"]):
            found = _needed(rows, epsilon, k)
            limit = found["local"]["limit"]
            needed = [f"{found[m]['people_needed']:,}" for m in ("none", "central", "local")]
            below = f"{limit:,.0f}" if limit else ""
            lines.append([epsilon, f"{k:,}", *needed, below, _price(found)])
    title = (
        f"People needed to choose the right condition, mean {options['delta']:g}, with probability "
        f"{options['right']:g}"
    )
    columns = ["ε", "conditions", "no privacy", "trusted", "devices", "no device below", "price"]
    return Table(title, columns, lines)


def _votes_table(rows: Sequence[Row], options: Options) -> Table:
    lines = []
    for epsilon in options["epsilon"]:
        for k in sorted(options["options"]):
            found = comparison.pick(rows, question="votes", epsilon=epsilon, options=k)
            gaps = ["" if r["gap_needed"] is None else _figure(r) for r in found]
            lines.append([epsilon, f"{k:,}", *gaps, f"{number(found[0], 'limit'):.2f}"])
    columns = ["ε", "options", *(LABELS[n] for n in ("exponential", "permute-and-flip", "unary"))]
    return Table(
        f"Votes by which the leader has to be ahead, {options['people']:,} people on devices",
        [*columns, "no curator below"],
        lines,
    )


def _figure(row: Row) -> str:
    gap = number(row, "gap_needed")
    return f"{gap:,.0f}" if row["model"] == "local" else f"{gap:.2f}"


def _people_figure(rows: Sequence[Row], options: Options, epsilon: str) -> matplotlib.figure.Figure:
    figure = new_figure()
    axes = figure.subplots()
    shown = comparison.pick(rows, question="conditions", epsilon=epsilon)
    for name in ("randomized-response", "gumbel", "mean"):
        _draw(axes, comparison.pick(shown, estimator=name), "people_needed", name)
    _draw_limit(axes, comparison.pick(shown, model="local"), "no local protocol below")
    axes.set(xlabel="conditions", ylabel="people needed")
    axes.set_title(
        f"One of many conditions, right with probability {options['right']:g}, ε {epsilon}"
    )
    axes.legend(loc="upper left")
    return figure


def _votes_figure(rows: Sequence[Row], options: Options, epsilon: str) -> matplotlib.figure.Figure:
    figure = new_figure()
    axes = figure.subplots()
    shown = comparison.pick(rows, question="votes", epsilon=epsilon)
    for name in ("unary", "exponential", "permute-and-flip"):
        _draw(axes, comparison.pick(shown, estimator=name), "gap_needed", name)
    _draw_limit(axes, comparison.pick(shown, estimator="exponential"), "no curator below")
    axes.set(xlabel="options", ylabel="votes ahead")
    axes.set_title(f"One vote each, right with probability {options['right']:g}, ε {epsilon}")
    axes.legend(loc="center left", bbox_to_anchor=(0, 0.62))
    return figure


def _draw(axes: matplotlib.axes.Axes, rows: Sequence[Row], key: str, name: str) -> None:
    known = sorted((number(r, "options"), number(r, key)) for r in rows if r[key] is not None)
    if known:
        axes.plot(*zip(*known, strict=True), label=LABELS[name], **LOOKS[name].style)
    axes.set(xscale="log", yscale="log")
    ticks = sorted({int(number(r, "options")) for r in rows})
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()
    axes.grid(visible=True)


def _draw_limit(axes: matplotlib.axes.Axes, rows: Sequence[Row], label: str) -> None:
    known = sorted((number(r, "options"), number(r, "limit")) for r in rows if r["limit"])
    style = LOOKS[str(rows[0]["estimator"])]
    if known:
        axes.plot(
            *zip(*known, strict=True), label=label, color=style.color, lw=1.2, ls=(0, (1, 1.5))
        )
