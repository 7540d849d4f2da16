"""Imports: loading the client costs an app almost nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from deniable.shared.survey.keys import public_hex
from tests.client.scripted import KEY, Script, bit, document

HEAVY = ("numpy", "scipy", "flask", "requests", "cryptography", "importlib.metadata", "psycopg")
# Modules that only calls need which read a document, use the network or log.
LATER = {
    *HEAVY, "asyncio", "base64", "certifi", "decimal", "email", "fractions", "hmac", "http.client",
    "logging", "random", "socket", "ssl", "subprocess", "tempfile",
    "deniable.client.disclosure", "deniable.client.net.exchange", "deniable.shared.envelope",
    "deniable.shared.privacy.encodings", "deniable.shared.privacy.mechanisms",
    "deniable.shared.survey.document", "deniable.shared.survey.labels",
    "deniable.shared.survey.phrases",
}  # fmt: skip


def loaded(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint('\\n'.join(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(ran.stdout.split())


def test_importing_the_client_loads_no_heavy_module() -> None:
    modules = loaded("import deniable.client")
    assert modules.isdisjoint({*HEAVY, "sqlite3", "dataclasses", "json", "threading", "typing"})


def test_importing_a_client_and_a_policy_loads_only_what_every_run_needs() -> None:
    assert loaded("from deniable.client import Client, Policy").isdisjoint(LATER)


@pytest.mark.parametrize(
    ("status", "changes"),
    [
        ("already-answered", {"per": "lifetime"}),
        ("not-drawn", {"max_epsilon_per_survey": "0.5"}),
    ],
)
def test_a_tool_with_nothing_to_do_loads_nothing_and_starts_no_thread(
    script: Script, tmp_path: Path, status: str, changes: dict[str, str]
) -> None:
    """A year of weeks has one drawn week in each quarter, and the others are not drawn."""
    questions = bit("crashed", "0.5")
    script.publish(document(opens="2026-01-01", period="week", questions=questions))
    runs = (tool(script.url, tmp_path / str(attempt), changes) for attempt in range(100))
    code = next(code for code in runs if status in (outcome_of(code), outcome_of(code)))
    requests = len(script.requests)
    modules = loaded(
        f"{code}\nassert outcome.status == {status!r}, outcome\n"
        "import threading\nassert threading.active_count() == 1"
    )
    assert (modules & LATER, len(script.requests)) == (set(), requests)


def tool(server: str, folder: Path, changes: dict[str, str]) -> str:
    """Return the code of a tool that answers, on a fixed day."""
    return (
        "from datetime import UTC, datetime\n"
        "from deniable.client import Client, Policy\n"
        f"policy = Policy(keys=[{public_hex(KEY)!r}], **{changes})\n"
        f"client = Client({server!r}, policy=policy, state={str(folder)!r}, allow_ci=True,\n"
        "    now=lambda: datetime(2026, 12, 10, 12, tzinfo=UTC))\n"
        "if not client.consented: client.consent(True)\n"
        "outcome = client.answer('app-health', crashed=True)"
    )


def outcome_of(code: str) -> str:
    script = f"{code}\nprint(outcome.status)"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return ran.stdout.strip()


@pytest.mark.parametrize(
    "name", ["Client", "Person", "Policy", "Outcome", "Budget", "Description", "Summary"]
)
def test_no_public_name_loads_a_heavy_library(name: str) -> None:
    modules = loaded(f"from deniable.client import {name}\nassert {name}.__name__ == {name!r}")
    assert modules.isdisjoint(HEAVY)


def test_checking_the_kinds_of_questions_imports_none_of_them() -> None:
    modules = loaded(
        "from deniable.client import Policy\n"
        "Policy(keys=['ab' * 32], questions={'crashed': 'bit', 'load': 'vector'})"
    )
    assert not [name for name in modules if name.startswith("deniable.shared.survey.kinds.")]


def test_a_client_without_consent_loads_no_heavy_library(tmp_path: object) -> None:
    modules = loaded(
        "from deniable.client import Client, Policy\n"
        "policy = Policy(keys=['ab' * 32])\n"
        f"client = Client('https://example.org', policy=policy, state={str(tmp_path)!r})\n"
        "assert client.answer('app-health', crashed=True).status == 'no-consent'\n"
        "client.close()"
    )
    assert modules.isdisjoint(HEAVY)


def test_the_version_is_read_only_on_request() -> None:
    assert "importlib.metadata" not in loaded("import deniable.client")
    modules = loaded("import deniable.client\nassert deniable.client.__version__[0].isdigit()")
    assert "importlib.metadata" in modules


def test_the_public_names_are_listed_completely() -> None:
    import deniable.client

    assert deniable.client.__all__ == [
        "Budget",
        "Client",
        "DeniableError",
        "Description",
        "InvalidAnswer",
        "InvalidPerson",
        "InvalidPolicy",
        "Outcome",
        "Person",
        "Policy",
        "Summary",
        "state_folder",
    ]
    with pytest.raises(AttributeError, match="no attribute 'client2'"):
        deniable.client.client2  # type: ignore[attr-defined]  # noqa: B018 - the lookup is the test
