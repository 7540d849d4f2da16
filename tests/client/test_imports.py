"""Imports: loading the client costs an app almost nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("numpy", "scipy", "flask", "requests", "cryptography", "importlib.metadata", "psycopg")


def loaded(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint('\\n'.join(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(ran.stdout.split())


def test_importing_the_client_loads_no_heavy_module() -> None:
    modules = loaded("import deniable.client")
    assert modules.isdisjoint({*HEAVY, "sqlite3", "dataclasses", "json", "threading", "typing"})


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
