"""`deniable odds`: it never understates what a report reveals; compared in decimal arithmetic."""

import json
from decimal import ROUND_UP, Decimal, localcontext

import pytest

from deniable.shared.cli.command import main
from deniable.shared.cli.odds import BELIEFS_PERCENT, DEFAULT_EPSILONS, odds


@pytest.mark.parametrize("epsilon", [*DEFAULT_EPSILONS, "0.000000001", "12.5"])
@pytest.mark.parametrize("belief", BELIEFS_PERCENT)
def test_the_posterior_is_bayes_rule_rounded_up(epsilon: str, belief: int) -> None:
    with localcontext(prec=60):
        more = belief * Decimal(epsilon).exp()
        after = 100 * more / (more + 100 - belief)
        shown = after.quantize(Decimal("0.1"), ROUND_UP)
    said = odds(epsilon)[f"from_{belief}"]
    assert said == ("over 99.9 %" if shown >= 100 else f"{shown.normalize():f} %")


def test_the_command_prints_the_same_in_both_forms(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["odds", "1", "2"]) == 0
    table = capsys.readouterr().out.splitlines()
    assert main(["odds", "1", "2", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["epsilon"] for row in rows] == ["1", "2"]
    for line, row in zip(table[1:], rows, strict=True):
        assert all(value in line for value in row.values())


def test_an_invalid_epsilon_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["odds", "0"]) == 2
    assert "above 0" in capsys.readouterr().err
