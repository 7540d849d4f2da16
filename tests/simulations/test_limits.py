"""What nobody can beat: no row of any study is below its limit, and limits are those of theory."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from scipy import optimize

from deniable.server.planning.variances import (
    largest_information,
    least_of_a_number,
    least_of_a_share,
)
from deniable.shared.cli.command import main
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import mechanisms, support_design
from deniable.simulations import simulate
from deniable.simulations.engine.comparison import drawn_columns
from deniable.simulations.studies.bit import drawn_price
from deniable.simulations.studies.histogram.histogram_report import ADD, BEST, with_best
from tests.simulations.small_studies import SMALL

Rows = Sequence[Mapping[str, Any]]  # Any: what rows hold

SIZES = ("epsilon", "people", "options", "counts", "dimension", "attributes", "response")


@pytest.mark.parametrize(
    "name", ["bit", "mean", "histogram", "counts", "vector", "synthetic", "regression"]
)
def test_curators_err_no_more_than_devices(name: str) -> None:
    """In every cell, for these people and for the population, at the same ε for one answer, and
    without a δ. In many of counts and of vectors a curator has to run what devices do."""
    rows: Any = simulate(name, on="local", **SMALL[name]).rows
    rows = [row for row in rows if row.get("mechanism") != ADD.mechanism and not row.get("delta")]
    keys = [key for key in SIZES if key in rows[0]]
    for cell in {tuple(row[key] for key in keys) for row in rows}:
        here = [row for row in rows if tuple(row[key] for key in keys) == cell]
        for exact in ("exact", "exact_drawn") if "exact_drawn" in here[0] else ("first_order",):
            local, central = (
                min(row[exact] for row in here if row["model"] == model and row[exact] is not None)
                for model in ("local", "central")
            )
            assert central <= local * (1 + 1e-12), cell


@pytest.mark.parametrize("name", ["bit", "mean", "histogram"])
def test_errors_about_the_population_are_as_exact(name: str) -> None:
    """Within 6.5 Monte-Carlo errors. Twin: without the spread of a sample, most are not."""
    more: dict[str, Any] = {"options": [4]} if name == "histogram" else {}
    asked: dict[str, Any] = {"epsilon": [1, 4], "people": [1e3, 1e6], "repetitions": 4000, **more}
    rows: Any = simulate(name, **asked).rows
    for row in rows:
        assert abs(row["measured_drawn"] - row["exact_drawn"]) <= 6.5 * row["error_drawn"], row
    central = [row for row in rows if row["model"] == "central"]
    for row in central:
        assert abs(row["measured_drawn"] - row["exact"]) > 6.5 * row["error_drawn"]


def test_columns_about_the_population_are_mean_squares() -> None:
    found = drawn_columns(2.0, np.array([1.0, -2.0]))
    assert found["measured_drawn"] == 2.5
    assert found["error_drawn"] == pytest.approx(1.5)


def test_the_price_of_a_share_has_two_answers(capsys: pytest.CaptureFixture[str]) -> None:
    """n / 2 for these people; 4.68 times for the population, at one half and ε 1."""
    assert drawn_price(1.0, 0.5) == pytest.approx(1 / math.tanh(0.5) ** 2, rel=1e-12)
    assert main(["simulate", "bit", "--epsilon", "1", "--people", "1e6", "--share", "0.5"]) == 0
    said = capsys.readouterr().out
    assert "500,000 times" in said
    assert "4.68 times" in said


# Shares of k options


@pytest.mark.parametrize("options", [3, 4, 5, 6])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_no_report_tells_more_about_shares(options: int, epsilon: float) -> None:
    """By linear programming over all channels with two-valued columns, which are extremal: the
    largest trace of the information about shares that are all alike."""
    columns = np.array(
        [[math.exp(epsilon) if bits >> x & 1 else 1.0 for x in range(options)]
         for bits in range(2**options)]
    )  # fmt: skip
    means = columns.mean(axis=1)
    deviations = columns - means[:, None]
    information = (deviations**2).sum(axis=1) / means
    found = optimize.linprog(-information, A_eq=columns.T, b_eq=np.ones(options))
    assert found.fun is not None
    assert -found.fun == pytest.approx(largest_information(epsilon, options), rel=1e-9)


@pytest.mark.parametrize(("options", "epsilon"), [(64, "1"), (4, "1"), (1024, "0.5")])
def test_subset_selection_is_at_the_limit(options: int, epsilon: str) -> None:
    design = support_design("choice", Epsilon(epsilon), options, "subset-selection")
    alike = options * design.variance(1, 1 / options) + (options - 1) / options
    least = (options - 1) ** 2 / largest_information(float(epsilon), options)
    assert alike == pytest.approx(least, rel=1e-9)


def test_two_options_are_a_yes_or_no_question() -> None:
    """The same errors in both studies, locally and centrally; randomized response is the limit."""
    asked: dict[str, Any] = {"epsilon": [0.5, 1, 20], "people": [2, 1000], "repetitions": 20}
    bits: Any = simulate("bit", **asked, share=0.5).rows
    choices: Any = with_best(simulate("histogram", **asked, options=2).rows)
    for bit in bits:
        wanted = {"randomized-response": "k-randomized-response", "geometric": BEST.mechanism}
        if bit["mechanism"] in wanted:
            (row,) = (
                row
                for row in choices
                if row["mechanism"] == wanted[bit["mechanism"]]
                and row["model"] == bit["model"]
                and (row["epsilon"], row["people"]) == (bit["epsilon"], bit["people"])
            )
            assert row["exact"] == pytest.approx(bit["exact"], rel=1e-9)
    for k, epsilon in ((3, 1.0), (64, 0.5), (5, 4.0)):
        direct = ((k - 1) ** 2 / largest_information(epsilon, k) - (k - 1) / k) / k
        assert least_of_a_share(epsilon, k) == pytest.approx(direct, rel=1e-9)
    for epsilon in (0.5, 1.0, 4.0, 20.0):
        v = math.exp(epsilon) / math.expm1(epsilon) ** 2
        assert least_of_a_share(epsilon, 2) == pytest.approx(v, rel=1e-12)


def test_a_histogram_has_every_mechanism_there_is() -> None:
    rows = simulate("histogram", epsilon=1, people=1000, options=16, repetitions=9).rows
    fit = {name for name, each in mechanisms("choice").items() if 16 in each.sizes}
    assert {row["mechanism"] for row in rows if row["model"] == "local"} == fit


def test_the_least_variance_of_a_number_is_below_one_bit() -> None:
    """3.99 where one bit has 4.68, at ε 1."""
    least = least_of_a_number(Epsilon("1"))
    assert least is not None
    assert 3.9 < least < 1 / math.tanh(0.5) ** 2
    assert least_of_a_number(Epsilon("20")) is None


def test_a_mean_shows_the_worst_place_beside_the_least(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--epsilon", "1", "--people", "1000", "--repetitions", "20", "--json"]
    assert main(["simulate", "mean", *words]) == 0
    cells = json.loads(capsys.readouterr().out)["cells"]
    worst = {c["mechanism"]: c["worst"] / c["limit_worst"] for c in cells if c["limit_worst"]}
    assert worst["optimal-table"] == pytest.approx(1, abs=0.02)
    assert min(worst.values()) >= 1
