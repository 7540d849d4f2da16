"""The report on selection: findings, figures and tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from deniable.simulations.engine import comparison, estimator_rows
from deniable.simulations.engine.comparison import figure, look, number, pick
from deniable.simulations.engine.figures import plain_ticks
from deniable.simulations.engine.study import Figure, Options, Report, Row, Table
from deniable.simulations.studies.building_blocks import (
    chart,
    limit_line,
    marked_line,
    paragraphs,
)

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

LABELS = {
    "mean": "no privacy",
    "exponential": "exponential mechanism",
    "permute-and-flip": "permute and flip",
    "gumbel": "trusted, Gumbel noise",
    "unary": "devices, unary votes",
    "randomized-response": "devices, one condition each",
}
LOOKS = dict(zip(LABELS, map(look, (2, 1, 3, 1, 0, 0)), strict=True))
MODELS = ("none", "central", "local")


def report(options: Options, rows: Sequence[Row]) -> Report:
    epsilon, right = comparison.middle(options["epsilon"]), options["right"]
    findings = _findings(options, rows, epsilon)
    people_caption, votes_caption = paragraphs(
        f"""The number of people needed to select the right one of many conditions with probability
        {right:g}, at ε {epsilon}: it grows as the logarithm of the number of conditions with a
        trusted server, and faster than that number on devices. No local protocol is below the
        dotted line.

        The number of votes by which the leader must be ahead to be selected with probability
        {right:g}, at ε {epsilon}; {options["people"]:,} people vote on devices. No curator is below
        the dotted line."""
    )
    off = max(
        abs(number(row, "measured") - number(row, "exact")) / number(row, "error")
        for row in rows
        if row["measured"] is not None
    )
    return Report(
        findings=findings,
        figures=[
            Figure("people", people_caption, lambda: _people_figure(rows, right, epsilon)),
            Figure("votes", votes_caption, lambda: _votes_figure(rows, right, epsilon)),
        ],
        tables=[_people_table(rows, options), _votes_table(rows, options)],
        method=paragraphs(
            f"""Votes: each person has one, and the votes for the other options are equal. The
            exponential mechanism and permute and flip have closed forms; unary votes an exact sum
            over the leader's count.

            Conditions: one of them has the mean {options["delta"]:g}, all others 0. On devices each
            person answers one condition, drawn at random, by randomized response. Means are taken
            to be normally distributed; the measured choices are drawn from binomials.

            Measured by {options["repetitions"]:,} choices where the probability is the requested
            one: the largest distance is {off:.1f} Monte-Carlo errors."""
        ),
        document=estimator_rows.document(options, rows, findings),
    )


def _conditions(rows: Sequence[Row], epsilon: str, k: int) -> dict[str, Row]:
    """Return the row of each model for k conditions."""
    return {
        str(row["model"]): row
        for row in pick(rows, question="conditions", epsilon=epsilon, options=k)
    }


def _price(models: dict[str, Row]) -> str:
    local, central = (number(models[model], "people_needed") for model in ("local", "central"))
    return figure(local / central)


def _findings(options: Options, rows: Sequence[Row], epsilon: str) -> list[str]:
    sizes = sorted(options["options"])
    k = sizes[len(sizes) // 2]
    models = _conditions(rows, epsilon, k)
    none, central, local = (f"{models[model]['people_needed']:,}" for model in MODELS)
    limit = models["local"]["limit"]
    below = f"; no local protocol needs fewer than {limit:,.0f}" if limit else ""
    first, last = (_price(_conditions(rows, epsilon, size)) for size in (sizes[0], sizes[-1]))
    votes = pick(rows, question="votes", epsilon=epsilon, options=k)
    gaps = {row["estimator"]: row["gap_needed"] for row in votes}
    ahead = "more than all" if gaps["unary"] is None else f"{gaps['unary']:,}"
    return paragraphs(
        f"""Finding the right one of {k:,} conditions at ε {epsilon} takes {none} people without
        privacy, {central} with a trusted server and {local} devices{below}. The price grows with
        the number of conditions, from {first} times at {sizes[0]:,} to {last} at {sizes[-1]:,}, and
        not with the people.

        With one vote per person, a leader of {k:,} options must be ahead by
        {gaps["exponential"]:.1f} votes for the exponential mechanism, by
        {gaps["permute-and-flip"]:.1f} for permute and flip, and by {ahead} of
        {options["people"]:,} on devices; no curator needs fewer than
        {number(votes[0], "limit"):.1f}."""
    )


def _people_table(rows: Sequence[Row], options: Options) -> Table:
    lines = []
    for epsilon in options["epsilon"]:
        for k in sorted(options["options"]):
            models = _conditions(rows, epsilon, k)
            limit = models["local"]["limit"]
            needed = [f"{models[model]['people_needed']:,}" for model in MODELS]
            below = f"{limit:,.0f}" if limit else ""
            lines.append([epsilon, f"{k:,}", *needed, below, _price(models)])
    return Table(
        f"People needed to select the right condition, mean {options['delta']:g}, with probability "
        f"{options['right']:g}",
        ["ε", "conditions", "no privacy", "trusted", "devices", "limit of devices", "price"],
        lines,
    )


def _votes_table(rows: Sequence[Row], options: Options) -> Table:
    lines = []
    for epsilon in options["epsilon"]:
        for k in sorted(options["options"]):
            votes = pick(rows, question="votes", epsilon=epsilon, options=k)
            gaps = ["" if row["gap_needed"] is None else _gap(row) for row in votes]
            lines.append([epsilon, f"{k:,}", *gaps, f"{number(votes[0], 'limit'):.2f}"])
    names = ("exponential", "permute-and-flip", "unary")
    return Table(
        f"Votes by which the leader must be ahead, {options['people']:,} people on devices",
        ["ε", "options", *(LABELS[name] for name in names), "limit of curators"],
        lines,
    )


def _gap(row: Row) -> str:
    return f"{number(row, 'gap_needed'):,.{0 if row['model'] == 'local' else 2}f}"


def _people_figure(rows: Sequence[Row], right: float, epsilon: str) -> matplotlib.figure.Figure:
    title = f"One of many conditions, right with probability {right:g}, ε {epsilon}"
    picture, axes = chart(title, "conditions", "people needed")
    shown = pick(rows, question="conditions", epsilon=epsilon)
    names = ("randomized-response", "gumbel", "mean")
    _draw(axes, shown, "people_needed", names, ("randomized-response", "limit of local protocols"))
    axes.legend(loc="upper left")
    return picture


def _votes_figure(rows: Sequence[Row], right: float, epsilon: str) -> matplotlib.figure.Figure:
    title = f"One vote per person, right with probability {right:g}, ε {epsilon}"
    picture, axes = chart(title, "options", "votes ahead")
    shown = pick(rows, question="votes", epsilon=epsilon)
    names = ("unary", "exponential", "permute-and-flip")
    _draw(axes, shown, "gap_needed", names, ("exponential", "limit of curators"))
    axes.legend(loc="center left", bbox_to_anchor=(0, 0.62))
    return picture


def _draw(
    axes: matplotlib.axes.Axes,
    rows: Sequence[Row],
    key: str,
    names: Iterable[str],
    limited: tuple[str, str],
) -> None:
    """Draw a line for each estimator, and the limit of one of them under its label."""
    for name in names:
        mine = [row for row in pick(rows, estimator=name) if row[key] is not None]
        points = [(number(row, "options"), number(row, key)) for row in mine]
        marked_line(axes, points, LOOKS[name], LABELS[name])
    name, label = limited
    limits = [row for row in pick(rows, estimator=name) if row["limit"]]
    points = [(number(row, "options"), number(row, "limit")) for row in limits]
    limit_line(axes, points, LOOKS[name], label)
    plain_ticks(axes, sorted({number(row, "options") for row in rows}))
