"""Conformance of both clients; each check of the kit fails for a client that violates it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from deniable.shared.survey import kinds
from tests.conformance.checks import run
from tests.conformance.claims import CHECKS
from tests.conformance.device import FEATURES, KINDS, Claims
from tests.conformance.faulty import CAUGHT_BY
from tests.documents import section_of
from tests.eventually import PATIENCE
from tests.node import NODE

HERE = Path(__file__).parent
CLIENTS = {
    "python": ([sys.executable, "-m", "tests.conformance.python_client"], Claims()),
    "javascript": (
        [NODE, str(HERE / "javascript_client.mjs")],
        Claims(features=tuple(f for f in FEATURES if f not in ("over", "reconcile"))),
    ),
    "bits": ([sys.executable, str(HERE / "bits_client.py")], Claims(("bit",), ("participation",))),
}
QUARTERS = "some_rounds_of_each_quarter_are_answered"  # starts a client 27 times
# The client for bits shows that the protocol and the kit suffice to write a client. It changes
# only with them. These quick checks cover its surveys, ledger, mechanism and envelopes.
QUICK_FOR_BITS = (
    "a_round_is_answered_once",
    "a_spent_budget_is_never_refilled",
    "envelopes_follow_the_protocol",
    "integers_equal_those_of_the_vectors",
    "only_trusted_signatures_count",
)


def is_long(check: str, client: str) -> bool:
    """Leave out what the tests of each client's participation check without starting processes."""
    return check == QUARTERS or (client == "bits" and check not in QUICK_FOR_BITS)


@pytest.mark.parametrize(
    ("check", "client"),
    [
        pytest.param(check, client, marks=[pytest.mark.long] * is_long(check, client))
        for check in CHECKS
        for client in CLIENTS
    ],
)
def test_the_client_keeps_the_protocol(client: str, check: str) -> None:
    """Every check applies to our complete clients, except those of features that they lack."""
    command, claims = CLIENTS[client]
    result = run(command, check, claims)
    assert result.fault is None
    assert result.passed or CHECKS[check].unclaimed(claims) or client == "bits"


@pytest.mark.long
@pytest.mark.parametrize("fault", CAUGHT_BY)
def test_the_kit_catches_each_fault(fault: str) -> None:
    """Twin: a client with this fault fails the check for it."""
    faulty = [sys.executable, "-m", "tests.conformance.faulty", fault]
    assert run(faulty, CAUGHT_BY[fault]).fault is not None


def test_every_check_has_a_fault_that_it_catches() -> None:
    assert set(CAUGHT_BY.values()) == set(CHECKS)


RULES = section_of("shared/PROTOCOL.md", "6. Client rules")
NAMED = re.findall(r"^- `([a-z-]+)`: ((?:.+\n)+?)(?=- |\n|\Z)", RULES, re.MULTILINE)
ELSEWHERE = re.compile(r"\(Not checked by the\s+kit:\s+`(tests/[a-z_/]+\.py)`\.\)")


def test_each_check_names_a_rule_and_each_rule_has_a_check() -> None:
    """A rule that the kit cannot check names the test that does."""
    assert len(NAMED) == len(dict(NAMED)) == RULES.count("\n- `")
    elsewhere = {name: found[1] for name, text in NAMED if (found := ELSEWHERE.search(text))}
    assert all((HERE.parents[1] / test).is_file() for test in elsewhere.values())
    by_kit = {check.rule for check in CHECKS.values()}
    assert by_kit == dict(NAMED).keys() - elsewhere.keys()


def test_a_client_may_leave_out_what_the_protocol_lists() -> None:
    listed = re.findall(
        r"^\| `([a-z]+)` \| (?:surveys|answers|policies|addresses|epochs)\b", RULES, re.MULTILINE
    )
    assert tuple(listed) == FEATURES
    assert {*KINDS} == {*kinds.KINDS}


def test_the_client_for_bits_imports_nothing_of_deniable() -> None:
    source = (HERE / "bits_client.py").read_text()
    imported = re.findall(r"^ *(?:from|import) (\w+)", source, re.MULTILINE)
    assert {*imported} <= {*sys.stdlib_module_names, "cryptography"}


def test_the_kit_prints_what_was_tested_and_what_was_not_claimed() -> None:
    only = "one_question_is_drawn_for_every_answer,a_round_is_answered_once"
    client = [sys.executable, str(HERE / "bits_client.py")]
    kit = [sys.executable, "-m", "tests.conformance", "--kinds", "bit", "--only", only, *client]
    done = subprocess.run(kit, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == PRINTED


PRINTED = """\
n/a     one_question_is_drawn_for_every_answer [one-question] not claimed: ask, number, choice
ok      a_round_is_answered_once [one-report]

1 checks passed, 0 failed, 1 do not apply
claimed:      kinds bit; features none
not claimed:  kinds number, choice, text, vector; features ask, cross, ended, labels, latched, \
over, participation, reconcile, relay, sealing; surveys that need one of these must be refused
"""


def test_a_failing_check_names_its_rule() -> None:
    faulty = [sys.executable, "-m", "tests.conformance.faulty", "caps_no_round"]
    fault = run(faulty, "no_survey_exceeds_the_cap_of_a_round").fault
    assert fault is not None
    assert fault.endswith("expected 'refused' (rule round-cap of the protocol)")
