"""./run before it installs anything: it helps, explains and refuses without making .venv."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
OLDEST_THAT_GETS_A_SENTENCE = (3, 6)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout without .venv, in which making one would show."""
    for name in ("run", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def run(checkout: Path, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, checkout / "run", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("arguments", [(), ("help",), ("-h",), ("--help",)])
def test_help_comes_without_setting_up(checkout: Path, arguments: tuple[str, ...]) -> None:
    helped = run(checkout, *arguments)
    assert (helped.returncode, helped.stderr) == (0, "")
    for verb in ("demo", "test", "check", "format", "bench", "lock", "setup"):
        assert f"./run {verb}" in helped.stdout
    assert not (checkout / ".venv").exists()


def test_lock_says_that_it_needs_uv(checkout: Path, tmp_path: Path) -> None:
    refused = run(checkout, "lock", PATH=str(tmp_path / "nothing"))
    assert refused.returncode == 1
    assert "needs uv" in refused.stderr
    assert not (checkout / ".venv").exists()


def test_older_pythons_can_read_the_file_and_so_the_sentence() -> None:
    source = (ROOT / "run").read_text("utf-8")
    ast.parse(source, feature_version=OLDEST_THAT_GETS_A_SENTENCE)


def test_an_older_python_is_told_what_is_needed(checkout: Path) -> None:
    older = "import sys; sys.version_info = (3, 8, 18); import runpy; runpy.run_path(sys.argv[1])"
    told = subprocess.run(
        [sys.executable, "-c", older, checkout / "run"], capture_output=True, text=True
    )
    assert told.returncode == 1
    assert "needs Python 3.11 or newer, and this is Python 3.8" in told.stderr
    assert told.stdout == ""


def test_the_version_is_checked_before_anything_an_older_python_lacks() -> None:
    """Before the check: the docstring, `import os`, `import sys`, and nothing else."""
    body = ast.parse((ROOT / "run").read_text("utf-8")).body
    before = [ast.unparse(node) for node in body[1:4]]
    assert before[:2] == ["import os", "import sys"]
    assert before[2].startswith("if sys.version_info < (3, 11)")


def test_run_uses_the_standard_library_only() -> None:
    for node in ast.walk(ast.parse((ROOT / "run").read_text("utf-8"))):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        assert all(name.split(".")[0] in sys.stdlib_module_names for name in names)


def test_a_failed_set_up_says_what_to_do_on_standard_error_only(checkout: Path) -> None:
    """The lock asks for what cannot be: no index is reachable, or none has it."""
    (checkout / "requirements.lock").write_text(
        "deniable-has-no-such-package==0 --hash=sha256:" + "0" * 64 + "\n", "utf-8"
    )
    failed = run(checkout, "setup", PIP_NO_INDEX="1", UV_OFFLINE="1", UV_NO_INDEX="1")
    assert failed.returncode == 1
    assert failed.stdout == ""
    assert "start again" in failed.stderr
    assert not (checkout / ".venv" / "deniable-stamp").exists()
