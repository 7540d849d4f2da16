"""Privacy of releases in full: trade-offs between errors, privacy profiles and privacy losses.

The releases, each of whose guarantees is exact except that of shuffled reports, which is a bound:

    report           one ε-private report by randomized response, the worst of all ε-private ones
    reports          T of them, about the same answer
    majority         the majority of these reports: post-processing, which never reveals more
    group            one report about each of 3 people who all change their answers
    shuffled         one report among those of n people, shuffled
    sampled          one report of a person who was sampled with probability q in secret
    sample-known     the same, where it is known who was sampled
    gaussian         Gaussian noise with the least deviation that is (ε, δ)-private
    classical        Gaussian noise with the classical deviation √(2 ln(1.25 / δ)) / ε, for ε < 1
    sampled-gaussian the least Gaussian noise on an answer about a secret sample
    cover            the least Gaussian privacy that one report has, μ = 2 Φ^-1(e^ε / (1 + e^ε))
    limit            Gaussian noise as the limit of many rounds, μ = 2 √T sinh(ε / 2): no guarantee

and any mechanism, also your own, with its worst pair of answers. `privacy_profiles` has the
mathematics. Nothing is simulated.

A release with δ but without ε may publish each person's answer with probability δ. Then it
publishes that of someone with probability 1 - (1 - δ)^n, which is why δ must be far below 1 / n.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from deniable.server.estimation.amplification import shuffled_delta
from deniable.shared.errors import WrongUse
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanism import Mechanism
from deniable.shared.privacy.mechanisms import mechanisms
from deniable.simulations.engine import custom_mechanisms, figures, option
from deniable.simulations.engine.estimators import Estimator, Rows, grid, middle, number
from deniable.simulations.engine.figures import LOOKS, Panel, curve
from deniable.simulations.engine.sentences import figure, paragraphs, percent
from deniable.simulations.engine.study import Cell, Figure, Options, Report, Row, Study, Table
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
    epsilon, rounds = float(cell["epsilon"]), int(cell["rounds"])
    delta, rate, people = (cell[key] for key in ("delta", "sampling", "people"))
    one = profiles.reports(epsilon)
    noisy = profiles.gaussian(composition.gaussian_mu(epsilon, float(delta)))
    slopes = np.arange(GROUP + 1) * epsilon
    return {
        REPORT: one,
        REPORTS: profiles.reports(epsilon, rounds),
        MAJORITY: profiles.majority(epsilon, rounds),
        GROUPED: profiles.of_group(one, GROUP, slopes),
        COVER: profiles.gaussian(profiles.gaussian_cover(epsilon)),
        LIMIT: profiles.gaussian(profiles.rounds_limit(epsilon, rounds)),
        SHUFFLED: lambda x: shuffled_delta(epsilon, int(people), x),
        SAMPLED: profiles.sampled(one, float(rate)),
        KNOWN: lambda x: float(rate) * one(x),
        GAUSSIAN: noisy,
        CLASSICAL: profiles.gaussian(1 / profiles.classical_deviation(epsilon, float(delta))),
        SAMPLED_GAUSSIAN: profiles.sampled(noisy, float(rate)),
        **{
            own: profiles.of_mechanism(_made(own.name, Epsilon(str(cell["epsilon"]))))
            for own in _own(str(cell["mechanisms"]).split(","))
        },
    }


def _own(names: Sequence[str]) -> list[Estimator]:
    return custom_mechanisms.local_estimators(None, names, [REPORT.look])


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
    """Return the powers of tests of a report, and what follows from its ε and δ."""
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


def report(options: Options, found: Sequence[Row]) -> Report:
    rows, epsilon, people = Rows(found), middle(options["epsilon"]), options["people"]
    shown, delta, rate = rows.at(epsilon=epsilon), options["delta"], f"{options['sampling']:g}"
    exposed = np.geomspace(1e-3, 10, 41)
    chance = [(x, _exposed(x, people), 0.0) for x in exposed.tolist()]
    exposure = Panel("", [figures.Curve(chance, LOOKS[0])], "n δ", "probability", reference=1.0)
    all_numbers = [numbers(options, e) for e in options["epsilon"]]
    names = {
        "ε": "epsilon", "power at level 5 %": "power_0.05", "power at level 50 %": "power_0.5",
        "Gaussian cover μ": "cover", f"ε of a {rate} sample": "sampled",
        f"least Gaussian σ, δ {delta:g}": "deviation", "classical σ": "classical",
    }  # fmt: skip
    return Report(
        _findings(options, all_numbers[options["epsilon"].index(epsilon)]),
        [
            _figure("devices", "Reports of devices, their central limit, and Gaussian privacy "
                    "that covers one report.", shown, DEVICES),
            _figure("others", "One report next to a shuffled report, samples and Gaussian noise.",
                    shown, OTHERS),
            _figure("mechanisms", "One report next to other mechanisms with this ε.", shown,
                    [REPORT, *_own(options["mechanisms"])]),
            Figure("exposure", f"The probability that one of {people:,} answers is published, if "
                   "each is published with probability δ, which no ε > 0 limits.",
                   lambda: figures.draw([exposure])),
        ],
        [Table("Conversions", list(names), [
            [figure(one[key]) for key in names.values()] for one in all_numbers])],
        paragraphs(
            f"""Each figure has three panels. The trade-off shows the least rate of missed
            detections for each rate of false alarms, if someone tests which of two answers a person
            gave. The profile shows the least δ for each ε. The privacy loss is the logarithm of how
            much more likely a release is with one answer than with the other; δ is not the
            probability that it exceeds ε, but the smaller mean of 1 - e^(ε - loss) where it does.

            There are {options["rounds"]} rounds, {people:,} shuffled reports, and samples of a
            share {rate}. The central limit is no guarantee. The profile of shuffled reports is an
            upper bound; all others are exact.

            For ε below {profiles.blackwell_edge():.3f}, a report has at most the Rényi divergences
            of Gaussian noise with μ = ε, and yet some test distinguishes its two answers
            better. So Rényi divergences do not tell which of two releases is more private."""
        ),
        {"numbers": all_numbers},
    )  # fmt: skip


def _figure(name: str, words: str, rows: Rows, shown: Sequence[Estimator]) -> Figure:
    axes = {
        "trade-off": ("false alarms", "missed detections", ("linear", "linear"), (0.0, 1.0)),
        "profile": ("ε", "δ", ("linear", "log"), (1e-9, 1.0)),
        "loss": ("x", "P[privacy loss > x]", ("linear", "log"), (1e-9, 1.0)),
    }
    panels = [
        Panel(title, [
            curve([row for row in rows.at(curve=title, release=one.name) if number(row, "y") > 0],
                  one.look, "x", "y", one.label, "line") for one in shown
        ], x, y, scales, limits=limits)
        for title, (x, y, scales, limits) in axes.items()
    ]  # fmt: skip
    caption = f"{words} ε {rows[0]['epsilon']}."
    return Figure(name, caption, lambda: figures.draw(panels, columns=3, share_y=False))


def _exposed(expected: float, people: int) -> float:
    """Return the probability that any of n answers is published, each with δ = `expected` / n."""
    return -math.expm1(people * math.log1p(-min(expected / people, 1 - 1e-9)))


def _findings(options: Options, one: Mapping[str, float]) -> list[str]:
    delta, rate = options["delta"], options["sampling"]
    return paragraphs(
        f"""Someone who tests which answer a report at ε {one["epsilon"]:g} comes from, and accuses
        {percent(LEVELS[0])} of the innocent, detects at most {percent(one["power_0.05"])} of the
        guilty. One Gaussian guarantee covers the whole trade-off: μ = {one["cover"]:.4f}.

        In a secret sample of {percent(rate)} of the people, the same report has
        ε {one["sampled"]:.4g}. Gaussian noise with the same ε and δ {delta:g} needs the standard
        deviation {one["deviation"]:.4g} per unit of sensitivity. The classical formula,
        which is valid for ε < 1, has {one["classical"]:.4g}. At δ = 1 / n, a release may publish
        one whole answer with probability {percent(_exposed(1, options["people"]))}.
        """
    )


STUDY = Study(
    name="privacy",
    question="What can be learned about one person, from every kind of private release?",
    options=(
        option.epsilons("0.5,1,2"),
        option.Option("rounds", 10, option.whole(1, 1000), "reports about the same answer", "T"),
        option.Option("people", 1000, option.whole(2, 10**9), "number of people", "N"),
        option.delta("probability that the guarantee fails"),
        option.probability("sampling", 0.1, "probability that a person is sampled", "Q"),
        custom_mechanisms.mechanisms_option(None, "ternary,unary"),
    ),
    check=check,
    cells=grid("epsilon"),
    run=run,
    report=report,
    formulas=(
        ("privacy profile", r"δ(ε) = \sup_S\ P[S] - e^ε Q[S]"),
        ("trade-off between both errors of a test", r"f(α) = \sup_ε\ 1 - δ(ε) - e^ε α"),
        ("secret sample", r"ε' = \ln(1 + q (e^ε - 1))"),
        (
            "Gaussian cover of every ε-private release",
            r"μ = 2 Φ^{-1}\left(\dfrac{e^ε}{1 + e^ε}\right)",
        ),
    ),
)
