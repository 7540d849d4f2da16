"""Which is the most? Votes with a leader, and many conditions of which one holds more often.

`chances.py` has the probabilities, and what nobody can beat. The first question is a report noisy
max; the second is model selection, where each of 2^d models is a condition.

The JSON form: `options`, `rows` (`question` votes or conditions, `model` none, central or local,
`estimator`, `epsilon`, `options` how many there are to choose from, `people`, `exact` the
probability of the right choice there, `measured` with its Monte-Carlo error `error`, `gap_needed`
by which the leader has to be ahead, `people_needed`, each for the probability that was asked for,
and `limit`, the least gap or number of people with which anybody of this model is right as often)
and `findings`. What does not belong to a question is null.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse, Unary
from deniable.shared.privacy.thresholds import ONE
from deniable.simulations.frame import comparison, option
from deniable.simulations.frame.comparison import look, number
from deniable.simulations.frame.figures import new_figure
from deniable.simulations.frame.study import Cell, Figure, Options, Report, Row, Study, Table
from deniable.simulations.population import fixed
from deniable.simulations.studies.select import chances

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

Array = NDArray[np.float64]
LABELS = {
    "mean": "no privacy",
    "exponential": "exponential mechanism",
    "permute-and-flip": "permute and flip",
    "gumbel": "trusted, Gumbel noise",
    "unary": "devices, unary votes",
    "randomized-response": "devices, one condition each",
}
LOOKS = dict(zip(LABELS, map(look, (2, 1, 3, 1, 0, 0)), strict=True))


OPTIONS = (
    option.epsilons("0.5,1,2"),
    option.Option(
        "options", "2,4,16,64,256,1024", option.several(option.whole(2, 4096)), "to choose from"
    ),
    option.Option("people", 100_000, option.whole(100, 10**8), "who vote", "N"),
    option.Option(
        "delta", 0.1, option.inside(), "the mean of the right condition, all others' is 0", "MEAN"
    ),
    option.Option("right", 0.9, option.inside(0.5), "how probably the right one is chosen", "P"),
    option.repetitions(1_000),
)


def cells(options: Options) -> Sequence[Cell]:
    shared = {key: options[key] for key in ("people", "delta", "right", "repetitions")}
    return [
        {"question": question, "epsilon": epsilon, "options": k, **shared}
        for question in ("votes", "conditions")
        for epsilon in options["epsilon"]
        for k in options["options"]
    ]


def run(cell: Cell, generator: np.random.Generator) -> Sequence[Row]:
    return (_votes if cell["question"] == "votes" else _conditions)(cell, generator)


def _row(
    cell: Cell, model: str, estimator: str, exact: float | None, right: Array, **more: Any
) -> Row:
    """`right` is for each repetition whether the choice was. Any: numbers, or None."""
    times = len(right)
    measured = float(right.mean()) if times else None
    return {
        "question": cell["question"],
        "model": model,
        "estimator": estimator,
        "epsilon": cell["epsilon"],
        "options": cell["options"],
        "people": None,
        "exact": exact,
        "measured": measured,
        "error": math.sqrt(exact * (1 - exact) / times) if times and exact is not None else None,
        "gap_needed": None,
        "people_needed": None,
        "limit": None,
        **more,
    }


# Votes


def _votes(cell: Cell, generator: np.random.Generator) -> Sequence[Row]:
    epsilon, k, people = Epsilon(str(cell["epsilon"])), int(cell["options"]), int(cell["people"])
    right, times, e = float(cell["right"]), int(cell["repetitions"]), float(epsilon)
    limit = chances.packing(k, e, right)
    rows = []
    for name, chance, noise in (
        ("exponential", chances.exponential, generator.gumbel),
        ("permute-and-flip", chances.permute_and_flip, generator.exponential),
    ):
        gap = _real_gap(lambda g, chance=chance: chance(k, e, g) - right)
        noisy = noise(scale=2 / e, size=(times, k))
        noisy[:, 0] += gap
        found = noisy.argmax(axis=1) == 0
        more = {"gap_needed": gap, "limit": limit}
        rows.append(_row(cell, "central", name, chance(k, e, gap), found, **more))
    return [*rows, _local_votes(cell, epsilon, k, people, generator)]


def _real_gap(above: Any) -> float:  # Any: a function of the gap, which grows
    from scipy.optimize import brentq

    most = 1.0
    while above(most) < 0:
        most *= 2
    return float(brentq(above, 0, most, xtol=1e-12)) if above(0) < 0 else 0.0


def _local_votes(
    cell: Cell, epsilon: Epsilon, k: int, people: int, generator: np.random.Generator
) -> Row:
    right = float(cell["right"])
    gap = chances.least(lambda g: g >= people or chances.unary(k, epsilon, people, g) >= right, k)
    assert gap is not None
    if gap >= people:
        return _row(cell, "local", "unary", None, np.empty(0), people=people)
    leader, other = chances.votes(k, people, gap)
    held = [leader, *[other] * (k - 1)]
    counts = fixed(Unary(epsilon, k), held, int(cell["repetitions"]), generator).counts
    found = _first_is_most(counts.astype(float), generator)
    exact = chances.unary(k, epsilon, people, gap)
    return _row(cell, "local", "unary", exact, found, people=sum(held), gap_needed=gap)


def _first_is_most(values: Array, generator: np.random.Generator) -> Array:
    """For each repetition; a tie of whole numbers is decided by a coin."""
    coins = generator.random(values.shape) * 1e-3
    return np.asarray((values + coins).argmax(axis=1) == 0)


# Conditions


def _conditions(cell: Cell, generator: np.random.Generator) -> Sequence[Row]:
    epsilon, k = Epsilon(str(cell["epsilon"])), int(cell["options"])
    right, delta, e = float(cell["right"]), float(cell["delta"]), float(epsilon)
    spread = 1 / math.tanh(e / 2)
    asked: dict[tuple[str, str], Callable[[int], float]] = {
        ("none", "mean"): lambda n: chances.normal(k, n, delta, 1, 1),
        ("central", "gumbel"): lambda n: chances.trusted(k, n, delta, e),
        ("local", "randomized-response"): lambda n: chances.normal(k, n, delta, spread, k),
    }
    rows = []
    for (model, name), chance in asked.items():
        limit = chances.fano(k, e, delta, right) or None if model == "local" else None
        needed = chances.least(partial(_enough, chance, right), 2)
        assert needed is not None, "normal distributions get as narrow as one likes"
        found = _choose(name, epsilon, k, needed, delta, int(cell["repetitions"]), generator)
        more = {"people": needed, "people_needed": needed, "limit": limit}
        rows.append(_row(cell, model, name, chance(needed), found, **more))
    return rows


def _enough(chance: Callable[[int], float], right: float, people: int) -> bool:
    return chance(people) >= right


def _choose(
    name: str,
    epsilon: Epsilon,
    k: int,
    people: int,
    delta: float,
    times: int,
    generator: np.random.Generator,
) -> Array:
    """Whether the right condition, the first, was chosen: by counts of +1, or of reports."""
    rates = np.full(k, 0.5)
    rates[0] += delta / 2
    if name == "randomized-response":
        mechanism = RandomizedResponse(epsilon)
        keep, lie = mechanism.keep / ONE, mechanism.lie / ONE
        asked = generator.multinomial(people, np.full(k, 1 / k), times)
        reports = generator.binomial(asked, lie + (keep - lie) * rates)
        return _first_is_most(reports / np.maximum(asked, 1) * people, generator)
    counts = generator.binomial(people, rates, (times, k)).astype(float)
    if name == "gumbel":
        counts += generator.gumbel(scale=2 / float(epsilon), size=counts.shape)
    return _first_is_most(counts, generator)


# What was found


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


STUDY = Study(
    name="select",
    question="What does it cost to find the most popular of many, without trusting the server?",
    options=OPTIONS,
    cells=cells,
    run=run,
    report=report,
    formulas=(
        ("a trusted server's exponential mechanism is right", "P = 1 / (1 + (k - 1) e^(-ε g / 2))"),
        ("no curator is right in 90 % with a smaller lead", "g >= ln(9 (k - 1)) / ε"),
        (
            "no devices tell k conditions with fewer people",
            "n >= 4 V k ((1 - β) ln k - ln 2) / δ^2",
        ),
    ),
)
