"""A centre, where nobody says how much one person may change: subsample and aggregate, or a search.

People stand normally distributed in a range 20 deviations wide. A trusted server parts them into
k = √n blocks, takes the mean of each, and a private centre of these (`central/subsample.py`); on
devices a search by yes-or-no questions finds the median. n times the mean squared error, in squared
deviations, to first order, with C = 1 / tanh(ε / 2):

    none       the mean                       1
    central    the range is known             1 + 2 (20 / ε)^2 / n
    central    winsorized mean of blocks      1 + 8 (8 · 1.349)^2 / (ε^2 k)
    central    median of blocks               π / 2 + 16 π / (ε^2 k)
    local      search for the median          (π / 2) C^2
    local      clipped at 3 deviations        9 C^2, if the centre is known

As blocks become many, aggregating costs nothing; a device has no block, and what it can be asked is
on which side of a point it is. Limit, local, for many people: (π / 2) C^2 up to ε = 1.04 [1], and
1 / m^2 beyond, with m = max over z of (e^ε - 1) φ(z) / (1 + (e^ε - 1) Φ(-z)), the largest that
|E f s| / E f can be for an f with values in [1, e^ε] and the score s.

Without privacy, with a known range (but for people 10 deviations away) and of clipped numbers this
is exact. Nobody's error is below 1 / (n + (π / 10)^2) wherever in the range the centre is: van
Trees' inequality with a prior on all of it.

The JSON form: `options`, `rows` (`model`, `estimator`, `epsilon`, `people`, `blocks` null where
there are none, `exact` null where only `first_order` is known, `measured` with its Monte-Carlo
error `error`, `limit`; in squared deviations) and `findings`.

[1] Kalinin, Steinberger 2025, "Efficient estimation of a Gaussian mean with local differential
    privacy", AISTATS.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.shared.privacy.thresholds import ONE
from deniable.simulations.central import subsample as central
from deniable.simulations.engine import comparison, estimator_rows, option
from deniable.simulations.engine import estimator_rows as forms
from deniable.simulations.engine.comparison import Series, look
from deniable.simulations.engine.estimator_rows import FORMULA
from deniable.simulations.engine.figures import new_figure
from deniable.simulations.engine.study import Cell, Figure, Options, Report, Row, Study, Table
from deniable.simulations.studies.median.local_search import crowd, search
from deniable.simulations.studies.median.people import CENTRE, CLIPPED, SIGMA, Target

if TYPE_CHECKING:
    import matplotlib.figure

Array = forms.Array
NONE = Series("none", "mean", "no privacy", look(2))
RANGE = Series("central", "known-range", "trusted, range known", look(4))
WINSORIZED = Series("central", "winsorized", "trusted, winsorized blocks", look(1))
BLOCK_MEDIAN = Series("central", "block-median", "trusted, median of blocks", look(3))
SEARCH = Series("local", "search", "devices, search", look(0))
CLIP = Series("local", "clip", "devices, clipped mean", look(5))
SERIES = (NONE, RANGE, WINSORIZED, BLOCK_MEDIAN, SEARCH, CLIP)
BLOCKS = (WINSORIZED, BLOCK_MEDIAN)
EXACT = (NONE, RANGE, CLIP)  # of the formulas
WIDTH = 1 / SIGMA  # of the range, in deviations
QUARTILES = 1.3489795003921634  # deviations between them
SHARP = 1.04  # ε up to which the search is known to be the best


OPTIONS = (
    option.epsilons("0.5,1,2,4"),
    option.people("1e3,1e4,1e5,1e6,1e7,1e8", least=100),
    option.repetitions(300),
)


def cells(options: Options) -> Sequence[Cell]:
    return [
        {"epsilon": epsilon, "people": people, "repetitions": options["repetitions"]}
        for epsilon in options["epsilon"]
        for people in options["people"]
    ]


def formulas(epsilon: float, people: int) -> dict[Series, float]:
    """n times the error."""
    c2, k = 1 / math.tanh(epsilon / 2) ** 2, math.isqrt(people)
    return {
        NONE: 1.0,
        RANGE: 1 + 2 * (WIDTH / epsilon) ** 2 / people,
        WINSORIZED: 1 + 8 * (2 * central.WIDE * QUARTILES / epsilon) ** 2 / k,
        BLOCK_MEDIAN: math.pi / 2 + 16 * math.pi / (epsilon**2 * k),
        SEARCH: math.pi / 2 * c2,
        CLIP: CLIPPED**2 * c2,
    }


def limit(epsilon: float) -> float:
    """n times what no local protocol is below."""
    if epsilon <= SHARP:
        return math.pi / 2 / math.tanh(epsilon / 2) ** 2
    from scipy.special import ndtr

    z = np.linspace(0, 8, 8_001)
    more = math.expm1(epsilon)
    gains = more * np.exp(-z * z / 2) / math.sqrt(2 * math.pi) / (1 + more * ndtr(-z))
    return float(1 / gains.max() ** 2)


def least(people: int) -> float:
    """What nobody at all is below."""
    return 1 / (people + (math.pi / (WIDTH / 2)) ** 2)


def run(cell: Cell, generator: np.random.Generator) -> Sequence[Row]:
    epsilon, n, times = Epsilon(str(cell["epsilon"])), int(cell["people"]), int(cell["repetitions"])
    e, response, k = float(epsilon), RandomizedResponse(epsilon), math.isqrt(n)
    blocks = generator.normal(CENTRE, SIGMA * math.sqrt(k / n), (times, k))
    mean = blocks.mean(axis=1)
    keep, lie = response.keep / ONE, response.lie / ONE
    share = (generator.binomial(n, 0.5, times) / n - lie) / (keep - lie)
    ask = crowd(response, generator, Target("location", 0.5))
    found = {
        NONE: mean,
        RANGE: mean + generator.laplace(0, 1 / (e * n), times),
        WINSORIZED: central.winsorized_mean(blocks, e, generator),
        BLOCK_MEDIAN: central.private_quantile(blocks, 0.5, e, generator),
        SEARCH: search(response, n, times, ask),
        CLIP: CENTRE + CLIPPED * SIGMA * (2 * share - 1),
    }
    return [
        {
            "model": series.model,
            "estimator": series.mechanism,
            "epsilon": str(epsilon),
            "people": n,
            "blocks": k if series in BLOCKS else None,
            "exact": once / n if series in EXACT else None,
            FORMULA: once / n,
            **forms.measured(((found[series] - CENTRE) / SIGMA) ** 2),
            "limit": limit(e) / n if series.model == "local" else least(n),
        }
        for series, once in formulas(e, n).items()
    ]


def report(options: Options, rows: Sequence[Row]) -> Report:
    epsilon, most = comparison.middle(options["epsilon"]), max(options["people"])
    findings = _findings(rows, epsilon, comparison.middle(options["people"]), most)
    shown = comparison.pick(rows, epsilon=epsilon)
    return Report(
        findings=findings,
        figures=[
            Figure(
                "price",
                f"n times the mean squared error of a centre, in squared deviations, at ε "
                f"{epsilon}: aggregates of blocks come near that of no privacy, devices keep their "
                "price. Lines are formulas for many people, points are simulations.",
                lambda: _figure(shown, epsilon),
            )
        ],
        tables=[_table(rows)],
        method=[
            (
                "People are normally distributed, in a range that is 20 deviations wide. Blocks "
                "are √n, and their means are drawn from the normal distribution that they have."
            ),
            (
                "A trusted server that knows how far one person can move a mean needs no blocks: "
                "they are for statistics of which nobody knows that. Its noise, and its private "
                "quantiles, are drawn in doubles: simulations of their distributions."
            ),
            (
                "Devices are asked in turn, by groups, and report randomized bits. 'Clipped' is "
                "one bit of a number that is cut off 3 deviations from the centre, as if that were "
                f"known. Each line is drawn {options['repetitions']:,} times; with {most:,} people "
                f"mean squared errors are {forms.ratios(rows, most, FORMULA)} times the formulas."
            ),
        ],
        document=forms.document(options, rows, findings),
    )


def _findings(rows: Sequence[Row], epsilon: str, people: int, most: int) -> list[str]:
    here, there = (comparison.pick(rows, epsilon=epsilon, people=n) for n in (people, most))
    said = {each: comparison.figure(people * forms.value(here, each, FORMULA)) for each in SERIES}
    later = comparison.figure(most * forms.value(there, WINSORIZED, FORMULA))
    (row,) = forms.of(here, WINSORIZED)
    first = comparison.figure(people * comparison.number(row, "measured"))
    over = forms.value(here, SEARCH, FORMULA) * people / limit(float(epsilon))
    return [
        (
            f"The centre of {most:,} people at ε {epsilon} costs a trusted server that winsorizes "
            f"the means of blocks {later} times the people, and {people:,} came to {first} times: "
            "of few blocks private quartiles may miss the centre. A search on devices costs "
            f"{said[SEARCH]} times, however many they are."
        ),
        (
            f"Numbers that are clipped at three deviations cost devices {said[CLIP]} times: the "
            "local answer to a winsorized mean is a median, within a factor of "
            f"{over:.2f} of the best that any local protocol can do."
        ),
    ]


def _table(rows: Sequence[Row]) -> Table:
    lines = []
    for row in forms.of(rows, NONE):
        epsilon, people = row["epsilon"], row["people"]
        here = comparison.pick(rows, epsilon=epsilon, people=people)
        n = comparison.number(row, "people")
        lines.append(
            [str(epsilon), f"{people:,}",
             *(comparison.figure(n * forms.value(here, each, FORMULA)) for each in SERIES),
             *(comparison.figure(n * comparison.number(row, "measured"))
               for row in forms.of(here, WINSORIZED))]
        )  # fmt: skip
    return Table(
        "n times the squared error of a centre, in squared deviations, by formula for many people",
        ["ε", "people", *(each.label for each in SERIES), "winsorized, measured"],
        lines,
    )


def _figure(rows: Sequence[Row], epsilon: str) -> matplotlib.figure.Figure:
    figure = new_figure(width=8.4)
    axes = figure.subplots()
    for each in SERIES:
        found = sorted(forms.of(rows, each), key=lambda row: comparison.number(row, "people"))
        people = [comparison.number(row, "people") for row in found]
        exact, measured, bars = (
            [factor * n * comparison.number(row, key) for n, row in zip(people, found, strict=True)]
            for factor, key in ((1, FORMULA), (1, "measured"), (3, "error"))
        )
        color = each.look.color
        axes.plot(people, exact, color=color, ls=each.look.dash)
        axes.errorbar(
            people, measured, bars, fmt=each.look.marker, color=color, capsize=2, label=each.label
        )
    axes.axhline(limit(float(epsilon)), color=SEARCH.look.color, ls=estimator_rows.DOTS, lw=1.2,
                 label="local limit")  # fmt: skip
    axes.set(xscale="log", yscale="log", xlabel="people")
    axes.set(ylabel="n × mean squared error, squared deviations", ylim=(0.7, None))
    axes.set_title(f"The centre of a normal distribution, ε {epsilon}")
    axes.grid(visible=True)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=9)
    return figure


STUDY = Study(
    name="subsample",
    question="What does a typical value cost when one person may move it by any amount?",
    options=OPTIONS,
    cells=cells,
    run=run,
    report=report,
    formulas=(
        ("a trusted server that keeps a width w of k blocks' means", "1 / n + 8 w^2 / (ε^2 k n)"),
        ("devices, a search for the median", "π C^2 / (2 n), C = 1 / tanh(ε / 2)"),
        ("devices, clipped at three deviations", "9 C^2 / n"),
    ),
)
