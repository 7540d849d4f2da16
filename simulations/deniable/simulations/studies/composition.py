"""Composition of many rounds: the total ε by each account, for devices and a trusted server.

`pages/compose.txt` has the formulas, limits and sources, under "theory".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.optimize import brentq, minimize_scalar
from scipy.special import expit, gammaln, log_ndtr, ndtr

from deniable.simulations.engine import option
from deniable.simulations.engine.estimators import Rows, grid, number
from deniable.simulations.engine.figures import LOOKS, Draw, Panel, curve, drawing
from deniable.simulations.engine.presentation import View, figure, study, table
from deniable.simulations.engine.study import Cell, Report, Row

MAX_ROUNDS = 100_000
LOSS_STEP = 1e-4  # grid of the privacy loss distributions
OPTIONS = (
    option.epsilons("0.1,0.5,1"),
    option.sizes("rounds", "1,3,10,30,100,300,1000", 1, MAX_ROUNDS, "numbers of rounds"),
    option.delta("probability that the guarantee fails"),
    option.probability("sampling", 0.01, "the trusted server's sampling rate in each round", "Q"),
)


# Accounts


def basic(epsilon: float, rounds: int, _delta: float) -> float:
    return epsilon * rounds


def advanced(epsilon: float, rounds: int, delta: float) -> float:
    spread = math.sqrt(2 * rounds * math.log(1 / delta)) * epsilon
    return spread + rounds * epsilon * math.expm1(epsilon)


def rdp(epsilon: float, rounds: int, delta: float) -> float:
    def total(log: float) -> float:
        order = 1 + math.exp(log)
        both = np.logaddexp(order * epsilon, (1 - order) * epsilon) - np.logaddexp(0, epsilon)
        return _convert(rounds * float(both) / (order - 1), order, delta)

    best = minimize_scalar(total, bounds=(-12, 12), method="bounded", options={"xatol": 1e-10})
    return float(best.fun)


def clt(epsilon: float, rounds: int, delta: float) -> float:
    return gaussian(2 * math.sinh(epsilon / 2), rounds, delta)


def exact(epsilon: float, rounds: int, delta: float) -> float:
    from scipy.stats import binom

    lies = np.arange(rounds + 1)
    true, false = (binom.logpmf(lies, rounds, expit(sign * epsilon)) for sign in (-1, 1))

    def left(total: float) -> float:
        above = np.minimum(0.0, total + false - true)  # a negative term adds nothing
        return math.fsum(np.exp(true) * -np.expm1(above)) - delta

    return _root(left, rounds * epsilon)


def gaussian(mu: float, rounds: int, delta: float) -> float:
    """Return the total ε; `mu` is the sensitivity / standard deviation of one round."""
    mu *= math.sqrt(rounds)

    def left(total: float) -> float:
        far = math.exp(total + log_ndtr(-total / mu - mu / 2))
        return float(ndtr(mu / 2 - total / mu)) - far - delta

    return _root(left, mu * mu / 2 + mu * 10)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the μ of the least Gaussian noise that is (ε, δ)-private in one round."""
    return float(brentq(lambda mu: gaussian(mu, 1, delta) - epsilon, 1e-6, 50 + 10 * epsilon))


def sampled_pld(mu: float, rate: float, rounds: int, delta: float) -> float:
    """Return the total ε of sampled rounds; neighbours differ by one added or removed person."""
    return float(_sampled(mu, rate).self_compose(rounds).get_epsilon_for_delta(delta))


@lru_cache(maxsize=1)  # cells of one ε follow each other, and differ in their rounds only
def _sampled(mu: float, rate: float) -> Any:  # Any: the library has no types
    """Return the privacy loss of one sampled round, which takes most of the time."""
    from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

    return from_gaussian_mechanism(
        1 / mu, sampling_prob=rate, value_discretization_interval=LOSS_STEP
    )


def sampled_rdp(mu: float, rate: float, rounds: int, delta: float) -> float:
    """Return the moments accountant's upper bound at whole orders, which is exact for removal."""
    orders = np.unique(np.concatenate([np.arange(2, 65), np.geomspace(65, 1024, 40).astype(int)]))

    def renyi(order: int) -> float:
        k = np.arange(order + 1)
        ways = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
        terms = (
            ways + k * math.log(rate) + (order - k) * math.log1p(-rate) + k * (k - 1) * mu**2 / 2
        )
        return rounds * float(np.logaddexp.reduce(terms)) / (order - 1)

    return min(_convert(renyi(int(order)), int(order), delta) for order in orders)


def _convert(divergence: float, order: float, delta: float) -> float:
    return divergence + math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)


def _root(left: Callable[[float], float], most: float) -> float:
    """Return the root of a decreasing function in [0, `most`], or the nearer end."""
    if left(0.0) <= 0:
        return 0.0
    return float(brentq(left, 0.0, most, xtol=1e-12)) if left(most) < 0 else most


# The study

ACCOUNTS = {  # name: (label, look)
    "basic": ("basic (δ = 0)", LOOKS[0]),
    "advanced": ("advanced", LOOKS[1]),
    "rdp": ("Rényi", LOOKS[4]),
    "clt": ("central limit", LOOKS[3]),
    "exact": ("exact", LOOKS[2]),
    "gaussian": ("trusted, Gaussian", LOOKS[5]),
    "sampled-rdp": ("sampled, Rényi", LOOKS[1]),
    "sampled-pld": ("sampled, numerical", LOOKS[3]),
}
LOCAL = {"basic": basic, "advanced": advanced, "rdp": rdp, "clt": clt, "exact": exact}
CENTRAL = ("gaussian", "sampled-rdp", "sampled-pld")


def run(cell: Cell, generator: Generator) -> Sequence[Row]:  # noqa: ARG001 # nothing is random
    epsilon, rounds, delta = float(cell["epsilon"]), int(cell["rounds"]), float(cell["delta"])
    mu, rate = gaussian_mu(epsilon, delta), float(cell["sampling"])
    totals = {name: account(epsilon, rounds, delta) for name, account in LOCAL.items()} | {
        "gaussian": gaussian(mu, rounds, delta),
        "sampled-rdp": sampled_rdp(mu, rate, rounds, delta),
        "sampled-pld": sampled_pld(mu, rate, rounds, delta),
    }
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


def report(view: View) -> Report:
    first, epsilon = view.options["epsilon"][0], view.epsilon
    totals = {row["account"]: row for row in view.rows.at(epsilon=first, rounds=view.rounds)}
    values = {
        "first": first,
        "percent": f"{100 * view.sampling:g} %",
        **{name: totals[name] for name in ("basic", "exact", "gaussian")},
        "sampled": totals["sampled-pld"],
    }

    def curves(title: str, *accounts: str) -> Draw:
        shown = [
            curve(view.rows.at(epsilon=epsilon, account=one), look, "rounds", "total", label)
            for one in accounts
            for label, look in [ACCOUNTS[one]]
        ]
        return drawing(Panel(title, shown, "rounds", "ε of all rounds"))

    return view.report(
        values,
        {
            "local": curves(f"One device's reports, ε {epsilon} each", *LOCAL),
            "curator": curves("Device and trusted server", "exact", *CENTRAL),
        },
        [
            table(
                f"ε of all rounds, δ = {view.delta:g}",
                *(view.rows, {"ε of one": "epsilon", "rounds": "rounds"}),
                {label: partial(_total, account) for account, (label, _) in ACCOUNTS.items()},
            )
        ],
    )


def _total(account: str, rows: Rows) -> str:
    return figure(number(rows.at(account=account)[0], "total"))


STUDY = study("compose", OPTIONS, grid("epsilon", "rounds"), run, report)
