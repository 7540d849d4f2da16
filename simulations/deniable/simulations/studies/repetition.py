"""Repetition of a yes-or-no question in many rounds: what one install reveals, by noise scheme.

`pages/repeat.txt` has the formulas, limits and sources, under "theory".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import betaln, xlog1py, xlogy

from deniable.shared.errors import WrongUse
from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse
from deniable.simulations.engine import option
from deniable.simulations.engine.estimators import Rows, number, sweep
from deniable.simulations.engine.figures import LOOKS, Draw, Panel, curve, drawing
from deniable.simulations.engine.presentation import View, percent, study
from deniable.simulations.engine.study import Cell, Options, Report, Row, Table

Array = NDArray[np.float64]
SCHEMES = ("fresh", "kept", "two-stage", "latched")
MAX_ROUNDS = 400


def _factor(name: str, given: Any) -> str:  # Any: user input
    factor = option.epsilon(name, given)
    if float(factor) <= 1:
        raise WrongUse(
            f"{name} must be above 1, as the kept report has more ε than one report; got {factor}"
        )
    return factor


OPTIONS = (
    option.epsilons("0.5,1,2"),
    option.Option(
        "lasting", 2, _factor, "two-stage noise: ε of the kept report, in multiples of ε", "X"
    ),
    option.sizes("rounds", "1,2,4,7,12,15,31,52,104", 1, MAX_ROUNDS, "numbers of rounds"),
)


@dataclass(frozen=True)
class Scheme:
    """Noise scheme with `epsilon` for one report, and `lasting` for the kept report of two-stage.

    The kept report of two-stage noise is never sent itself, so it may have a larger ε.
    """

    name: str
    epsilon: Epsilon
    lasting: Epsilon | float

    @cached_property
    def log_kept(self) -> tuple[float, float]:
        """Log probabilities that the kept report is true and that it is false.

        With fresh noise the answer itself is kept, and each round adds noise.
        """
        if self.name == "fresh":
            return 0.0, -math.inf
        if self.name == "two-stage":
            true = -math.log1p(math.exp(-float(self.lasting)))
            return true, true - float(self.lasting)
        return math.log(self._truth), math.log(1 - self._truth)

    @cached_property
    def sent(self) -> float:
        """Probability that a round sends the kept report unchanged."""
        if self.name == "two-stage":
            a, b = math.exp(float(self.lasting)), math.exp(float(self.epsilon))
            second = (a * b - 1) / (a - b)
            return second / (second + 1)
        return self._truth if self.name == "fresh" else 1.0

    @property
    def _truth(self) -> float:
        return RandomizedResponse(self.epsilon).keep / ONE

    def guarantee(self, rounds: int) -> float:
        """Return the total ε for an answer that stays the same for this number of rounds."""
        if self.name == "fresh":
            return float(self.epsilon) * rounds
        return float(self.lasting if self.name == "two-stage" else self.epsilon)

    def guess_right(self, rounds: int) -> float:
        """Return the probability that an observer guesses a constant answer correctly.

        The best guess is the majority of the reports; a coin decides a tie.
        """
        ones = np.arange(rounds + 1)
        probabilities = self._sequences(ones, rounds, True) + _log_choose(rounds, ones)
        return float(np.exp(probabilities) @ (1 + np.sign(2 * ones - rounds)) / 2)

    def flip_right(self, rounds: int) -> float:
        """Return the probability of deciding correctly whether the answer changed halfway or never.

        Both are equally likely beforehand, so the probability is (1 + total variation) / 2.
        """
        half = rounds // 2
        if self.name == "latched" or half == 0:
            return 0.5
        never, flip, ways = self._histories(half, rounds)
        return float(1 + np.abs(np.exp(never + ways) - np.exp(flip + ways)).sum() / 2) / 2

    @property
    def flip_shown(self) -> float:
        """Probability that kept reports change with the answer and thereby reveal the change."""
        return self._truth**2 + (1 - self._truth) ** 2

    def flip_epsilon(self, rounds: int) -> float:
        """Return the ε that separates a constant answer from one that changes once.

        It is the largest log ratio of probabilities, over all reports and all times of the change.
        """
        if self.name == "latched":
            return 0.0
        if self.name == "kept" and rounds > 1:
            return math.inf
        changes = (self._histories(change, rounds)[:2] for change in range(1, rounds))
        return max((float(np.abs(never - flip).max()) for never, flip in changes), default=0.0)

    def _histories(self, change: int, rounds: int) -> tuple[Array, Array, Array]:
        """Return three arrays, indexed by the number of ones before and after the change.

        They are the log probability of one such sequence if the answer stays yes, the log
        probability if it becomes no, and the log number of such sequences.
        """
        before, after = np.arange(change + 1)[:, None], np.arange(rounds - change + 1)[None, :]
        never = self._sequences(before + after, rounds, True)
        flip = self._sequences(before, change, True) + self._sequences(
            after, rounds - change, False
        )
        ways = _log_choose(change, before) + _log_choose(rounds - change, after)
        return never, flip, ways

    def _sequences(self, ones: NDArray[np.int64], rounds: int, answer: bool) -> Array:
        """Return the log probability of a sequence with this many ones, for a constant answer."""
        as_one = xlogy(ones, self.sent) + xlog1py(rounds - ones, -self.sent)
        as_zero = xlog1py(ones, -self.sent) + xlogy(rounds - ones, self.sent)
        one, zero = self.log_kept if answer else self.log_kept[::-1]
        return np.asarray(np.logaddexp(one + as_one, zero + as_zero))


def _log_choose(total: int, chosen: NDArray[np.int64]) -> Array:
    return np.asarray(-np.log1p(total) - betaln(total - chosen + 1, chosen + 1))


# The study


def check(options: dict[str, Any]) -> Options:  # Any: JSON values
    return {**options, "rounds": sorted(options["rounds"])}


def cells(options: Options) -> Sequence[Cell]:
    return sweep(options, "epsilon", scheme=SCHEMES, rounds=options["rounds"])


def run(cell: Cell, generator: Generator) -> Sequence[Row]:  # noqa: ARG001 # nothing is random
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


def report(view: View) -> Report:
    rows, epsilon, last = view.rows, view.epsilon, max(view.options["rounds"])
    shown = rows.at(epsilon=epsilon)
    fresh, kept, two_stage, latched = (shown.at(scheme=s, rounds=last)[0] for s in SCHEMES)
    section = "single" if kept["flip_shown"] is None else "several"
    change = view.words(section, kept=kept, two_stage=two_stage, last=last)
    values = {"first": shown[0], "last": last, "fresh": fresh, "latched": latched, "change": change}
    tables: dict[str, Callable[[Row], str]] = {
        "Answer guessed correctly": lambda row: percent(row["guess_right"]),
        "Change guessed correctly": lambda row: percent(row["flip_right"]),
        "ε between an answer that never changes and one that changes once": lambda row: (
            "no limit" if row["flip_epsilon"] is None else f"{row['flip_epsilon']:.2f}"
        ),
    }
    return view.report(
        values,
        {
            "answer": _guesses(shown, "guess_right", f"An answer that never changes, ε {epsilon}"),
            "change": _guesses(shown, "flip_right", f"Changed halfway, or never, ε {epsilon}"),
        },
        [_table(rows, title, text) for title, text in tables.items()],
    )


def _guesses(rows: Rows, key: str, title: str) -> Draw:
    curves = [
        curve(rows.at(scheme=scheme), look, "rounds", lambda r: 100 * number(r, key), scheme)
        for scheme, look in zip(SCHEMES, LOOKS, strict=False)
    ]
    y, scales = "guessed correctly, %", ("log", "linear")
    return drawing(Panel(title, curves, "rounds", y, scales, reference=50, limits=(48, 102)))


def _table(rows: Rows, title: str, text: Callable[[Row], str]) -> Table:
    lines = [
        [f"{scheme}, ε {epsilon}", *map(text, group)]
        for (epsilon, scheme), group in rows.groups("epsilon", "scheme").items()
    ]
    return Table(title, ["rounds", *dict.fromkeys(str(row["rounds"]) for row in rows)], lines)


STUDY = study("repeat", OPTIONS, cells, run, report, check=check)
