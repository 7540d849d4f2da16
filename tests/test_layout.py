"""Layout: four roots of one namespace, one lock, and the import rules."""

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


def test_only_the_listed_files_are_visible_at_the_top() -> None:
    visible = {path.split("/")[0] for path in tracked() if not path.startswith(".")}
    assert visible <= TOP_LEVEL


@pytest.mark.parametrize("part", PARTS)
def test_no_root_claims_the_namespace(part: str) -> None:
    """A `deniable/__init__.py` in one root would hide the other three.

    `python -m deniable` needs only a `__main__.py`, which is next to the command.
    """
    main = ["__main__.py"] if part == "shared" else []
    assert [path.name for path in (ROOT / part / "deniable").glob("*.py*")] == main


@pytest.mark.parametrize("part", PARTS)
def test_every_root_is_marked_as_typed(part: str) -> None:
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
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", digest) for digest in hashes)


def test_the_lock_names_no_download_location() -> None:
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


# Import rules

CONTRACTS = PROJECT["tool"]["importlinter"]["contracts"]
(
    DIRECTION,
    LIGHT,
    PURE,
    APART,
    SERVER,
    INTAKE,
    RELAY,
    CLIENT,
    SHARED,
    SIMULATIONS,
    SQL,
    STATE_SQL,
) = (contract["name"] for contract in CONTRACTS)
UNARY = "shared/privacy/mechanisms/unary.py"
BREACHES = {
    "client imports server": (DIRECTION, "client/client.py", "import deniable.server"),
    "server imports client": (DIRECTION, "server/app.py", "import deniable.client"),
    "client imports simulations": (DIRECTION, "client/client.py", "import deniable.simulations"),
    "shared imports client": (DIRECTION, "shared/errors.py", "import deniable.client"),
    "client imports scipy, late": (LIGHT, "client/client.py", "def f():\n    import scipy.stats"),
    "client imports numpy through shared": (LIGHT, "shared/envelope.py", "from numpy import array"),
    "shared imports flask": (LIGHT, "shared/envelope.py", "import flask"),
    "shared imports psycopg": (LIGHT, "shared/envelope.py", "import psycopg.conninfo"),
    "a mechanism imports requests": (PURE, UNARY, "import requests"),
    "a mechanism imports another": (
        APART,
        UNARY,
        "import deniable.shared.privacy.mechanisms.local_laplace",
    ),
    "a mechanism imports another through the table of all": (
        APART,
        UNARY,
        "import deniable.shared.privacy.mechanisms",
    ),
    "a view imports app": (SERVER, "server/http/api.py", "import deniable.server.app"),
    "http imports pages": (SERVER, "server/http/api.py", "import deniable.server.pages"),
    "intake imports results": (SERVER, "server/intake/writer.py", "import deniable.server.results"),
    "intake imports http": (SERVER, "server/intake/writer.py", "import deniable.server.http"),
    "estimation imports results": (
        SERVER,
        "server/estimation/__init__.py",
        "import deniable.server.results",
    ),
    "store imports intake": (SERVER, "server/store/__init__.py", "import deniable.server.intake"),
    "intake's front imports flask": (INTAKE, "server/http/intake_front.py", "import flask"),
    "intake's front imports the reader's views": (
        INTAKE,
        "server/http/intake_front.py",
        "import deniable.server.http.api",
    ),
    "the relay imports flask": (RELAY, "server/relay/__init__.py", "import flask"),
    "state imports net": (CLIENT, "client/state/__init__.py", "import deniable.client.net"),
    "the client imports its testing": (
        CLIENT,
        "client/pipeline.py",
        "import deniable.client.testing",
    ),
    "the state imports what an app calls": (
        CLIENT,
        "client/state/ledger.py",
        "import deniable.client.client",
    ),
    "privacy imports survey": (
        SHARED,
        "shared/privacy/__init__.py",
        "import deniable.shared.survey",
    ),
    "survey imports envelope": (
        SHARED,
        "shared/survey/__init__.py",
        "import deniable.shared.envelope",
    ),
    "the engine imports a study": (
        SIMULATIONS,
        "simulations/engine/__init__.py",
        "import deniable.simulations.studies",
    ),
    "the writer uses SQL": (SQL, "server/intake/writer.py", "import sqlite3"),
    "the application uses SQL": (SQL, "server/app.py", "import sqlite3"),
    "the pipeline uses SQL": (STATE_SQL, "client/pipeline.py", "import sqlite3"),
    "the surveys module uses SQL": (STATE_SQL, "client/net/surveys.py", "import sqlite3"),
}
ALLOWED = {
    "server/store/__init__.py": "import psycopg, sqlite3",
    "server/intake/writer.py": "import numpy, deniable.server.store, deniable.shared",
    "server/http/intake_front.py": "import deniable.server.http.uploads",
    "server/http/uploads.py": "import deniable.server.intake.writer",
    "server/http/api.py": "import deniable.server.results, deniable.server.store",
    "server/app.py": "import flask, deniable.server.http.api, deniable.server.pages",
    "client/state/outbox.py": "import sqlite3",
    "client/testing/__init__.py": "import deniable.client.client",
    "client/client.py": "import requests, deniable.shared.privacy, deniable.shared.envelope",
    "shared/privacy/mechanisms/__init__.py": (
        "import deniable.shared.privacy.mechanisms.unary\n"
        "import deniable.shared.privacy.mechanisms.local_laplace"
    ),
    "shared/privacy/mechanisms/local_laplace.py": "",
    UNARY: "import fractions, deniable.shared.errors",
    "simulations/demo/__init__.py": "import numpy, deniable.client, deniable.server.app",
}


def test_the_import_rules_allow_the_intended_imports(tmp_path: Path) -> None:
    checked = imports_of_skeleton(tmp_path)
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("breach", BREACHES)
def test_each_forbidden_import_breaks_its_rule_only(breach: str, tmp_path: Path) -> None:
    """Twin of the test above: each violation breaks its own rule, and no other."""
    rule, module, line = BREACHES[breach]
    checked = imports_of_skeleton(tmp_path, module, line)
    assert checked.returncode == 1, checked.stdout
    assert re.findall(r"^(.+) BROKEN\b", checked.stdout, re.MULTILINE) == [rule]


def test_mechanisms_need_only_the_standard_library() -> None:
    """They import only the standard library and `shared`; import-linter cannot check this."""
    for path in sorted((ROOT / "shared/deniable/shared/privacy/mechanisms").rglob("*.py")):
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
    """Return each requirement of the lock with its hashes."""
    text = (ROOT / "requirements.lock").read_text("utf-8").replace("\\\n", " ")
    entries = [line.split() for line in text.splitlines() if not line.lstrip().startswith("#")]
    return {
        " ".join(word for word in words if not word.startswith("--")): [
            word for word in words if word.startswith("--")
        ]
        for words in entries
    }


def layer_members() -> list[str]:
    """Return every package and module that a contract of layers names, such as `server/intake`."""
    return [
        f"{container.removeprefix('deniable.')}/{name}"
        for contract in CONTRACTS
        for container in contract.get("containers", ())
        for layer in contract["layers"]
        for name in layer.split(" | ")
    ]


def test_a_module_in_no_layer_is_refused(tmp_path: Path) -> None:
    """A module that no layer names violates the contract of its part."""
    checked = imports_of_skeleton(tmp_path, "server/helpers.py")
    assert checked.returncode == 1
    assert "deniable.server.helpers" in checked.stdout


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
    """Check the contracts on a small valid tree, plus one line that may violate a contract."""
    contents = dict.fromkeys((path for _, path, _ in BREACHES.values()), "") | ALLOWED
    for part in PARTS:
        contents.setdefault(f"{part}/__init__.py", "")
    for member in layer_members():
        if f"{member}.py" not in contents:
            contents.setdefault(f"{member}/__init__.py", "")
    contents[module] = contents.get(module, "") + f"\n{line}\n"
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
