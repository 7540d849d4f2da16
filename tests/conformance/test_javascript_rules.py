"""Rules of the JavaScript client that need access to its internals, and planted faults."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from deniable.shared.survey.keys import public_hex
from tests.client.scripted import KEY, bit, document, entry
from tests.conformance.checks import run
from tests.conformance.faulty_javascript import CHECK_FAULTS, RULE_FAULTS, SOURCE, planted
from tests.eventually import PATIENCE
from tests.node import NODE

HERE = Path(__file__).parent
UNKNOWN = (
    ("uses the mechanism", "mechanism", "hadamard-response"),
    ("asks a question of kind", "kind", "rating"),
)
LONG = [pytest.mark.long]  # all faults but two; only changed rules and checks can miss them
RULES = sorted({rule for rule, _ in RULE_FAULTS.values()})


def results(source: Path) -> dict[str, str | None]:
    """Run every rule on a source, and return the violations by rule."""
    known = document(questions=bit("crashed", "0.5"))
    entries, unknown = [entry(known)], []
    for what, key, value in UNKNOWN:
        other = json.loads(known)
        other["question"][0][key] = value
        entries.append(entry(json.dumps(other).encode()))
        unknown.append([entries[-1]["id"], f"{what} {value}"])
    given: dict[str, object] = {"list": json.dumps({"surveys": entries}), "key": public_hex(KEY)}
    given |= {"survey": "app-health", "unknown": unknown}
    done = subprocess.run(
        [NODE, str(HERE / "javascript_rules.mjs"), str(source)],
        input=json.dumps(given | {"answers": {"crashed": True}}),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, str | None] = json.loads(done.stdout)
    return found


def test_the_client_keeps_every_rule_and_each_has_a_fault() -> None:
    assert results(SOURCE) == dict.fromkeys(RULES)


@pytest.mark.parametrize(
    "fault",
    [pytest.param(name, marks=LONG * (number > 1)) for number, name in enumerate(RULE_FAULTS)],
)
def test_a_rule_catches_its_fault(fault: str, tmp_path: Path) -> None:
    rule, change = RULE_FAULTS[fault]
    broken = {name for name, wrong in results(planted(change, tmp_path)).items() if wrong}
    assert broken == {rule}


@pytest.mark.parametrize(
    "fault",
    [pytest.param(name, marks=LONG * (number > 1)) for number, name in enumerate(CHECK_FAULTS)],
)
def test_a_check_of_the_kit_catches_its_fault(fault: str, tmp_path: Path) -> None:
    check, change = CHECK_FAULTS[fault]
    source = planted(change, tmp_path)
    assert run([NODE, str(HERE / "javascript_client.mjs"), str(source)], check).fault is not None
