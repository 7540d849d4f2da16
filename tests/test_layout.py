"""The layout: four roots of one namespace, one lock, and who may import whom."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("client", "server", "shared", "simulations")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
DOCUMENTS = ("README.md", "LICENSE", "CHANGELOG.md")
TOP_LEVEL = {*PARTS, *DOCUMENTS, "tests", "pyproject.toml", "run", "requirements.lock"}


# The tree


def test_nothing_else_is_visible_at_the_top() -> None:
    visible = {path.split("/")[0] for path in tracked() if not path.startswith(".")}
    assert visible <= TOP_LEVEL


@pytest.mark.parametrize("part", PARTS)
def test_no_root_claims_the_namespace(part: str) -> None:
    """A `deniable/__init__.py` in one root would hide the other three."""
    assert [path.name for path in (ROOT / part / "deniable").glob("*.py*")] == []


@pytest.mark.parametrize("part", PARTS)
def test_every_root_says_that_it_is_typed(part: str) -> None:
    assert (ROOT / part / "deniable" / part / "py.typed").is_file()


@pytest.mark.parametrize("part", PARTS)
def test_every_root_is_in_the_wheel_and_in_editable_installs(part: str) -> None:
    build = PROJECT["tool"]["hatch"]["build"]
    assert f"{part}/deniable" in build["targets"]["wheel"]["packages"]
    assert part in build["dev-mode-dirs"]


# The lock


def test_every_locked_package_has_its_version_and_a_hash() -> None:
    for requirement, hashes in locked().items():
        assert re.fullmatch(r"[a-z0-9-]+==\S+( ; [^;]+)?", requirement), requirement
        assert hashes, requirement
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", each) for each in hashes)


def test_the_lock_names_no_place_to_download_from() -> None:
    text = (ROOT / "requirements.lock").read_text("utf-8")
    assert not re.search(r"://|--(?!hash=|upgrade)|@ |^\s*/", text, re.MULTILINE)


def test_the_lock_fits_every_declared_dependency() -> None:
    versions: dict[str, list[str]] = {}
    for requirement in locked():
        name, version = requirement.split(" ;")[0].split("==")
        versions.setdefault(canonicalize_name(name), []).append(version)
    extras = PROJECT["project"]["optional-dependencies"].values()
    for text in sum(extras, PROJECT["project"]["dependencies"]):
        wanted = Requirement(text)
        if wanted.name != "deniable":
            assert versions.get(canonicalize_name(wanted.name)), f"./run lock: {text} is missing"
            for version in versions[canonicalize_name(wanted.name)]:
                assert version in wanted.specifier, f"./run lock: {text}, locked {version}"


# Who may import whom

DIRECTION, LIGHT, PURE, APART, LAYERS, SQL = (
    contract["name"] for contract in PROJECT["tool"]["importlinter"]["contracts"]
)
BREACHES = {
    "client imports server": (DIRECTION, "client/client.py", "import deniable.server"),
    "server imports client": (DIRECTION, "server/app.py", "import deniable.client"),
    "client imports simulations": (DIRECTION, "client/client.py", "import deniable.simulations"),
    "shared imports client": (DIRECTION, "shared/errors.py", "import deniable.client"),
    "client imports scipy, late": (LIGHT, "client/client.py", "def f():\n    import scipy.stats"),
    "client imports numpy through shared": (LIGHT, "shared/envelope.py", "from numpy import array"),
    "shared imports flask": (LIGHT, "shared/envelope.py", "import flask"),
    "shared imports sqlalchemy": (LIGHT, "shared/envelope.py", "import sqlalchemy.engine"),
    "a mechanism imports requests": (PURE, "shared/mechanisms/unary.py", "import requests"),
    "a mechanism imports another": (
        APART,
        "shared/mechanisms/unary.py",
        "import deniable.shared.mechanisms.local_laplace",
    ),
    "a mechanism imports another through the table of all": (
        APART,
        "shared/mechanisms/unary.py",
        "import deniable.shared.mechanisms",
    ),
    "ingest imports app": (LAYERS, "server/ingest.py", "import deniable.server.app"),
    "ingest imports results": (LAYERS, "server/ingest.py", "import deniable.server.results"),
    "writer imports ingest": (LAYERS, "server/writer.py", "import deniable.server.ingest"),
    "writer imports estimation": (LAYERS, "server/writer.py", "import deniable.server.estimation"),
    "store imports writer": (LAYERS, "server/store/__init__.py", "import deniable.server.writer"),
    "the writer speaks SQL": (SQL, "server/writer.py", "import sqlalchemy"),
    "the application speaks SQL": (SQL, "server/app.py", "import sqlite3"),
}
MODULES = {
    *(path for _, path, _ in BREACHES.values()),
    *(f"server/{name}/__init__.py" for name in ("estimation", "dashboard")),
    *(f"server/{name}.py" for name in ("results", "admin")),
    "shared/mechanisms/local_laplace.py",
}
ALLOWED = {
    "server/store/__init__.py": "import sqlalchemy, sqlite3",
    "server/store/schema.py": "import sqlalchemy",
    "server/writer.py": "import numpy, deniable.server.store, deniable.shared",
    "server/ingest.py": "import deniable.server.writer",
    "server/results.py": "import deniable.server.estimation, deniable.server.store",
    "server/app.py": "import flask, deniable.server.ingest, deniable.server.results",
    "client/client.py": "import requests, deniable.shared.mechanisms, deniable.shared.envelope",
    "shared/mechanisms/__init__.py": (
        "import deniable.shared.mechanisms.unary, deniable.shared.mechanisms.local_laplace"
    ),
    "shared/mechanisms/unary.py": "import fractions, deniable.shared.errors",
    "simulations/demo.py": "import numpy, deniable.client, deniable.server.app",
}


def test_the_import_rules_allow_the_data_s_way(tmp_path: Path) -> None:
    checked = imports_of_skeleton(tmp_path)
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("breach", BREACHES)
def test_the_import_rules_forbid(breach: str, tmp_path: Path) -> None:
    """The twin of the test above: each breach alone turns its rule red, and no other."""
    rule, module, line = BREACHES[breach]
    checked = imports_of_skeleton(tmp_path, module, line)
    assert checked.returncode == 1, checked.stdout
    assert re.findall(r"^(.+) BROKEN\b", checked.stdout, re.MULTILINE) == [rule]


def test_mechanisms_need_the_standard_library_only() -> None:
    """The rule that import-linter cannot say: nothing but the standard library and shared."""
    for path in sorted((ROOT / "shared/deniable/shared/mechanisms").rglob("*.py")):
        for module in imported(path):
            top = module.split(".")[0]
            assert top in sys.stdlib_module_names or module.startswith("deniable.shared."), path


# Helpers


def tracked() -> list[str]:
    if not (ROOT / ".git").exists() or not shutil.which("git"):
        pytest.skip("needs the git checkout")
    command = ["git", "-c", "safe.directory=*", "-C", str(ROOT), "ls-files"]
    return subprocess.check_output(command, text=True).splitlines()


def locked() -> dict[str, list[str]]:
    """Each requirement of the lock, with its hashes."""
    text = (ROOT / "requirements.lock").read_text("utf-8").replace("\\\n", " ")
    entries = [line.split() for line in text.splitlines() if not line.lstrip().startswith("#")]
    return {
        " ".join(word for word in words if not word.startswith("--")): [
            word for word in words if word.startswith("--")
        ]
        for words in entries
    }


def imported(path: Path) -> list[str]:
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.append(node.module or "")
    return names


def imports_of_skeleton(
    folder: Path, module: str = "shared/errors.py", line: str = ""
) -> "subprocess.CompletedProcess[str]":
    """Our contracts, checked over a small tree that keeps them, with one line that may not."""
    contents = dict.fromkeys(MODULES, "") | ALLOWED
    for part in PARTS:
        contents.setdefault(f"{part}/__init__.py", "")
    contents[module] += f"\n{line}\n"
    for name, text in contents.items():
        path = folder / name.split("/")[0] / "deniable" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    shutil.copy(ROOT / "pyproject.toml", folder)
    roots = os.pathsep.join(str(folder / part) for part in PARTS)
    return subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=folder,
        env={**os.environ, "COLUMNS": "200", "PYTHONPATH": roots},
        capture_output=True,
        text=True,
    )
