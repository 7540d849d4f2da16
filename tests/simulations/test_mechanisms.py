"""Study of all mechanisms: measured and predicted errors, their limits, and their costs."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from deniable.shared.cli.command import main
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import mechanisms, number_table
from deniable.simulations import simulate
from deniable.simulations.studies.mechanisms import worst_point

FEW = ["--epsilon", "1,4", "--options", "4,700,20000", "--repetitions", "150"]
KEYS = {
    *(
        "model",
        "estimator",
        "kind",
        "epsilon",
        "size",
        "predicted_n_variance",
        "measured_n_variance",
    ),
    *("measurement_error", "limit", "payload_bytes", "client_ns", "tally_ns"),
}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    out = tmp_path_factory.mktemp("mechanisms") / "out"
    assert main(["simulate", "mechanisms", *FEW, "--out", str(out)]) == 0
    page = (out / "index.html").read_text("utf-8")
    assert page.count("<figure>") == 2
    return found(out)


def found(out: Path) -> list[dict[str, Any]]:
    """Return the rows of the saved cells, with the columns that are only printed."""
    lines = [json.loads(line) for line in (out / "cells.jsonl").read_text().splitlines()]
    return [row for line in lines if "rows" in line for row in line["rows"]]


def test_every_mechanism_has_its_predicted_error(
    rows: list[dict[str, Any]],
) -> None:
    """Allow 6.5 Monte-Carlo errors per row. The seed is fixed; any other would pass too."""
    kinds = ("bit", "number", "choice")  # a text is reported in groups, as a choice; vectors are
    # measured by the study of vectors
    assert {row["estimator"] for row in rows} == {name for k in kinds for name in mechanisms(k)}
    for row in rows:
        off = abs(row["measured_n_variance"] - row["predicted_n_variance"])
        assert off <= 6.5 * row["measurement_error"], row
        assert row["measurement_error"] < 0.2 * row["predicted_n_variance"], row


def test_the_test_above_can_fail(rows: list[dict[str, Any]]) -> None:
    """Twin: with the predictions for the other ε, every row fails."""
    predicted = {(r["estimator"], r["size"], r["epsilon"]): r["predicted_n_variance"] for r in rows}
    other = {"1": "4", "4": "1"}
    compared = 0
    for row in rows:
        wrong = predicted.get((row["estimator"], row["size"], other[row["epsilon"]]))
        if wrong is not None:
            compared += 1
            assert abs(row["measured_n_variance"] - wrong) > 6.5 * row["measurement_error"], row
    assert compared > 20


def test_no_mechanism_is_below_the_limit_and_the_best_is_close_to_it(
    rows: list[dict[str, Any]],
) -> None:
    best: dict[tuple[str, str, int], float] = {}
    for row in rows:
        ratio = row["predicted_n_variance"] / row["limit"]
        assert ratio >= 1 - 1e-9
        asked = (row["kind"], row["epsilon"], row["size"] if row["kind"] == "choice" else 0)
        best[asked] = min(best.get(asked, math.inf), ratio)
    assert len(best) == 2 * (1 + 1 + 3)
    assert max(best.values()) <= 1.035  # the largest is a number at ε 4; choices are below 1.03


def test_the_json_form_has_the_cost_of_a_report(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--epsilon", "1", "--options", "16", "--repetitions", "100"]
    assert main(["simulate", "mechanisms", *words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert set(document) == {"options", "rows", "findings"}
    for row in document["rows"]:
        assert set(row) == KEYS
        assert 50 < row["client_ns"] < 1e8
        assert 0.01 < row["tally_ns"] < 1e6


def test_draws_without_noise_have_no_deviation() -> None:
    """At ε 20, every simulated report of a bit is true, so the measured error is 0."""
    found = simulate("mechanisms", epsilon=20, options=2, repetitions=100)
    assert 0.0 in {row["measurement_error"] for row in found.rows}
    assert "Monte-Carlo standard errors" in " ".join(found.report.method)


def test_the_worst_position_equals_that_of_a_fine_search() -> None:
    for text in ("0.5", "2", "4"):
        table = number_table(Epsilon(text))
        searched = max(table.variance(1, step / 5_000) for step in range(5_001))
        worst = table.variance(1, worst_point(table))
        assert searched * (1 - 1e-12) <= worst == pytest.approx(table.worst_variance(1), rel=1e-9)
