"""Privacy of releases in full: trade-offs between errors, privacy profiles and privacy losses.

`pages/privacy.txt` has the formulas, limits and sources, under "theory".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from deniable.server.shuffling.amplification import shuffled_delta
from deniable.shared.errors import WrongUse
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanism import Mechanism
from deniable.shared.privacy.mechanisms import mechanisms
from deniable.simulations.engine import custom_mechanisms, figures, option
from deniable.simulations.engine.estimators import Estimator, Rows, grid, number
from deniable.simulations.engine.figures import LOOKS, Panel, curve
from deniable.simulations.engine.presentation import View, figure, study
from deniable.simulations.engine.study import Cell, Options, Report, Row, Table
from deniable.simulations.studies import composition
from deniable.simulations.studies.privacy import privacy_profiles as profiles
from deniable.simulations.studies.privacy.privacy_profiles import Array, Profile

GROUP, OPTIONS_OF_A_CHOICE = 3, 4
MAX_LOSS = 600.0  # so that e^x is a number
REPORT = Estimator("local", "report", "one report", LOOKS[0])
REPORTS = Estimator("local", "reports", "T reports", LOOKS[1])
MAJORITY = Estimator("local", "majority", "majority of T reports", LOOKS[4])
GROUPED = Estimator("local", "group", f"one report each of {GROUP} people", LOOKS[5])
SHUFFLED = Estimator("shuffled", "shuffled", "shuffled report", figures.SHUFFLED_LOOK, False)
SAMPLED = Estimator("central", "sampled", "secret sample", LOOKS[2], False)
KNOWN = Estimator("central", "sample-known", "known sample", LOOKS[3], False)
GAUSSIAN = Estimator("central", "gaussian", "Gaussian noise", LOOKS[1], False)
CLASSICAL = Estimator("central", "classical", "classical Gaussian noise", LOOKS[4], False)
SAMPLED_GAUSSIAN = Estimator("central", "sampled-gaussian", "Gaussian, sample", LOOKS[5], False)
COVER = Estimator("local", "cover", "Gaussian cover of a report", LOOKS[2], False)
LIMIT = Estimator("local", "limit", "central limit", LOOKS[3], False)
DEVICES = (REPORT, REPORTS, MAJORITY, GROUPED, COVER, LIMIT)
OTHERS = (REPORT, SHUFFLED, SAMPLED, KNOWN, GAUSSIAN, CLASSICAL, SAMPLED_GAUSSIAN)
ALPHA = np.union1d(np.linspace(0, 1, 101), 0.05)
LEVELS = (0.05, 0.5)


def _made(text: str, epsilon: Epsilon) -> Mechanism:
    """Return the mechanism, held to its ε; a choice has four options."""
    kind = custom_mechanisms.find(None, text).kind
    if kind == "number":
        return custom_mechanisms.number_mechanism(text, epsilon)
    if kind != "choice" or (text not in mechanisms("choice") and ":" not in text):
        raise WrongUse(f"mechanisms: {text} is for neither numbers nor choices; leave it out")
    return custom_mechanisms.choice_mechanism(text, epsilon, OPTIONS_OF_A_CHOICE)


def check(options: dict[str, Any]) -> Options:  # Any: JSON values
    for text in options["mechanisms"]:
        for epsilon in options["epsilon"]:
            _made(text, Epsilon(epsilon))
    return options


def releases(cell: Cell) -> Mapping[Estimator, Profile]:
    """Return the profile of every release, with the mechanisms last."""
    exact, rounds, people = Epsilon(str(cell["epsilon"])), int(cell["rounds"]), int(cell["people"])
    epsilon, delta, rate = float(exact), float(cell["delta"]), float(cell["sampling"])
    one, named = profiles.reports(epsilon), str(cell["mechanisms"])
    noisy = profiles.gaussian(composition.gaussian_mu(epsilon, delta))
    slopes = np.arange(GROUP + 1) * epsilon
    return {
        REPORT: one,
        REPORTS: profiles.reports(epsilon, rounds),
        MAJORITY: profiles.majority(epsilon, rounds),
        GROUPED: profiles.of_group(one, GROUP, slopes),
        COVER: profiles.gaussian(profiles.gaussian_cover(epsilon)),
        LIMIT: profiles.gaussian(profiles.rounds_limit(epsilon, rounds)),
        SHUFFLED: lambda x: shuffled_delta(epsilon, people, x),
        SAMPLED: profiles.sampled(one, rate),
        KNOWN: lambda x: rate * one(x),
        GAUSSIAN: noisy,
        CLASSICAL: profiles.gaussian(1 / profiles.classical_deviation(epsilon, delta)),
        SAMPLED_GAUSSIAN: profiles.sampled(noisy, rate),
        **{own: profiles.of_mechanism(_made(own.name, exact)) for own in _own(named)},
    }


def _own(names: str) -> list[Estimator]:
    return custom_mechanisms.local_estimators(None, names.split(","), [REPORT.look])


def run(cell: Cell, generator: Generator) -> Sequence[Row]:  # noqa: ARG001 # nothing is random
    epsilon, rounds = float(cell["epsilon"]), int(cell["rounds"])
    sampled = profiles.sampled_epsilon(epsilon, float(cell["sampling"]))
    total = composition.exact(epsilon, rounds, float(cell["delta"]))
    bends = [sampled, *np.arange(rounds + 1) * epsilon]  # where profiles of reports bend
    wide = np.linspace(0, min(MAX_LOSS, max(total, GROUP * epsilon)), 121)
    tangents = np.minimum(np.union1d(wide, bends), MAX_LOSS)
    rows: list[Row] = []
    for release, profile in releases(cell).items():
        xs = wide if release in DEVICES[1:] else np.linspace(0, 1.5 * epsilon, 61)
        curves: dict[str, tuple[Array, Sequence[float]]] = {
            "trade-off": (ALPHA, profiles.trade_off(profile, tangents)(ALPHA).tolist()),
            "profile": (xs, [profile(x) for x in xs.tolist()]),
            "loss": (xs, [profiles.loss_above(profile, x) for x in xs.tolist()]),
        }
        names = {"model": release.model, "release": release.name, "epsilon": cell["epsilon"]}
        rows += [
            {**names, "curve": name, "x": x, "y": y}
            for name, points in curves.items()
            for x, y in zip(points[0].tolist(), points[1], strict=True)
        ]
    return rows


def numbers(options: Options, epsilon: str) -> dict[str, float]:
    """Return the powers of tests of a report, and the consequences of its ε and δ."""
    e, delta = float(epsilon), options["delta"]
    missed = profiles.trade_off(profiles.reports(e), np.array([0.0, e]))(np.array(LEVELS))
    return {
        "epsilon": e,
        **{f"power_{level:g}": 1 - beta for level, beta in zip(LEVELS, missed, strict=True)},
        "cover": profiles.gaussian_cover(e),
        "sampled": profiles.sampled_epsilon(e, options["sampling"]),
        "deviation": 1 / composition.gaussian_mu(e, delta),
        "classical": profiles.classical_deviation(e, delta),
    }


def report(view: View) -> Report:
    people, epsilons, delta = view.people, view.options["epsilon"], view.delta
    chance = [(x, exposed(x, people), 0.0) for x in np.geomspace(1e-3, 10, 41).tolist()]
    exposure = Panel("", [figures.Curve(chance, LOOKS[0])], "n δ", "probability", reference=1.0)
    found = {epsilon: numbers(view.options, epsilon) for epsilon in epsilons}
    names = {
        "ε": "epsilon", "power at level 5 %": "power_0.05", "power at level 50 %": "power_0.5",
        "Gaussian cover μ": "cover", f"ε of a {view.sampling:g} sample": "sampled",
        f"least Gaussian σ, δ {delta:g}": "deviation", "classical σ": "classical",
    }  # fmt: skip
    lines = [[figure(one[key]) for key in names.values()] for one in found.values()]
    edge = profiles.blackwell_edge()
    shown = {
        "devices": DEVICES,
        "others": OTHERS,
        "mechanisms": [REPORT, *_own(",".join(view.options["mechanisms"]))],
    }
    return view.report(
        {"one": found[view.epsilon], "exposed": exposed(1, people), "edge": edge},
        {name: _figure(view.cell, releases) for name, releases in shown.items()}
        | {"exposure": figures.drawing(exposure)},
        [Table("Conversions", list(names), lines)],
        {"numbers": list(found.values())},
    )


def _figure(rows: Rows, shown: Sequence[Estimator]) -> figures.Draw:
    def panel(name: str, x: str, y: str, scale: str, limits: tuple[float, float]) -> Panel:
        positive = Rows(row for row in rows.at(curve=name) if number(row, "y") > 0)
        curves = [
            curve(positive.at(release=one.name), one.look, "x", "y", one.label, "line")
            for one in shown
        ]
        return Panel(name, curves, x, y, ("linear", scale), limits=limits)

    return figures.drawing(
        panel("trade-off", "false alarms", "missed detections", "linear", (0.0, 1.0)),
        panel("profile", "ε", "δ", "log", (1e-9, 1.0)),
        panel("loss", "x", "P[privacy loss > x]", "log", (1e-9, 1.0)),
        columns=3,
        share_y=False,
    )


def exposed(expected: float, people: int) -> float:
    """Return the probability that any of n answers is published, each with δ = `expected` / n."""
    return -math.expm1(people * math.log1p(-min(expected / people, 1 - 1e-9)))


OPTIONS = (
    option.epsilons("0.5,1,2"),
    option.Option("rounds", 10, option.whole(1, 1000), "reports about the same answer", "T"),
    option.Option("people", 1000, option.whole(2, 10**9), "number of people", "N"),
    option.delta("probability that the guarantee fails"),
    option.probability("sampling", 0.1, "probability that a person is sampled", "Q"),
    custom_mechanisms.mechanisms_option(None, "ternary,unary"),
)
STUDY = study("privacy", OPTIONS, grid("epsilon"), run, report, check=check)
