"""Wheel and source distribution, each installed alone in an empty environment.

Dependencies have their newest versions instead of the locked ones, because that is what users get.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
UV = str(Path(sys.executable).with_name("uv"))
RUNS = {
    "": ["certify --kind bit --epsilon 1", "sent --help"],
    "server": ["survey new survey.toml", "survey publish survey.toml --data data"],
    "postgres": ["survey new survey.toml", "survey check survey.toml"],
    "archive": ["--version"],
    "cluster": ["--version"],
    "simulations": ["simulate bit --json"],
    "demo": ["demo --people 200 --exit"],
    "simulations,archive,cluster,postgres": ["simulate bit --on dask --json"],
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run([UV, "build", "--no-build-isolation", "--python", sys.executable, "-o", str(folder)], ROOT)
    return folder


def run(command: list[str], folder: Path) -> str:
    """Run with only those environment variables that locate programs and packages."""
    kept = ("PATH", "HOME", "TMPDIR", "LANG", "SSL_CERT_FILE")
    settings = {name: value for name, value in os.environ.items() if name in kept}
    settings |= {name: os.environ[name] for name in os.environ if name.startswith(("UV_", "PIP_"))}
    done = subprocess.run(
        command, cwd=folder, env=settings, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("extras", RUNS, ids=lambda extras: extras or "none")
def test_the_wheel_works_in_an_empty_environment(built: Path, tmp_path: Path, extras: str) -> None:
    (wheel,) = built.glob("*.whl")
    works_alone(wheel, tmp_path, extras)


def test_the_source_distribution_works_in_an_empty_environment(built: Path, tmp_path: Path) -> None:
    (source,) = built.glob("*.tar.gz")
    works_alone(source, tmp_path, "demo")


def works_alone(package: Path, folder: Path, extras: str) -> None:
    run([UV, "venv", "--python", sys.executable, str(folder / "env")], folder)
    python, wanted = folder / "env/bin/python", f"[{extras}]" if extras else ""
    run([UV, "pip", "install", "--python", str(python), f"deniable{wanted} @ {package}"], folder)
    for line in RUNS[extras]:
        run([str(python.with_name("deniable")), *line.split()], folder)
    installed = run([UV, "pip", "list", "--format", "freeze", "--python", str(python)], folder)
    has_web_server = {"flask", "granian"} <= {line.partition("==")[0] for line in installed.split()}
    assert has_web_server == bool({"server", "postgres", "demo"} & set(extras.split(",")))
