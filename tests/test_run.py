"""`./run`: prints help and refusals without making .venv, and installs only locked packages."""

import ast
import fcntl
import hashlib
import json
import os
import runpy
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any  # Any: globals of a program that runs without being imported

import pytest

from tests.eventually import eventually

ROOT = Path(__file__).resolve().parent.parent
OLDEST_THAT_GETS_A_SENTENCE = (3, 6)
BASE_PYTHON = getattr(sys, "_base_executable", sys.executable)
UV = shutil.which("uv") or shutil.which(Path(sys.executable).with_name("uv"))
WRONG = "0" * 64

needs_uv = pytest.mark.skipif(UV is None, reason="needs uv")
needs_pip = pytest.mark.skipif(
    subprocess.run([BASE_PYTHON, "-m", "pip", "--version"], capture_output=True).returncode != 0,
    reason="needs a Python with pip",
)

# A fake program that prints a version, records its arguments and settings, and then fails.
STRANGE_UV = """\
#!python
import json, os, sys
if "--version" not in sys.argv:
    settings = {name: value for name, value in os.environ.items() if name[:3] == "UV_"}
    with open(os.environ["NOTES"], "w") as notes:
        json.dump({"arguments": sys.argv[1:], "settings": settings}, notes)
    sys.exit("strange uv was here")
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout without .venv, so that creating one would be visible."""
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
def test_help_is_printed_without_a_setup(checkout: Path, arguments: tuple[str, ...]) -> None:
    helped = run(checkout, *arguments)
    assert (helped.returncode, helped.stderr) == (0, "")
    for verb in ("demo", "test", "check", "format", "bench", "lock", "setup"):
        assert f"./run {verb}" in helped.stdout
    assert not (checkout / ".venv").exists()


def test_lock_without_uv_names_the_fix(checkout: Path, tmp_path: Path) -> None:
    refused = run(checkout, "lock", PATH=str(tmp_path / "nothing"))
    assert refused.returncode == 1
    assert "needs uv" in refused.stderr
    assert not (checkout / ".venv").exists()


def test_older_pythons_can_read_the_file() -> None:
    source = (ROOT / "run").read_text("utf-8")
    ast.parse(source, feature_version=OLDEST_THAT_GETS_A_SENTENCE)


def test_an_older_python_prints_the_requirement(checkout: Path) -> None:
    older = "import sys; sys.version_info = (3, 8, 18); import runpy; runpy.run_path(sys.argv[1])"
    output = subprocess.run(
        [sys.executable, "-c", older, checkout / "run"], capture_output=True, text=True
    )
    assert output.returncode == 1
    assert "needs Python 3.11 or newer, and this is Python 3.8" in output.stderr
    assert output.stdout == ""


def test_the_version_is_checked_before_anything_an_older_python_lacks() -> None:
    """Only the docstring, `import os` and `import sys` precede the check."""
    body = ast.parse((ROOT / "run").read_text("utf-8")).body
    before = [ast.unparse(node) for node in body[1:4]]
    assert before[:2] == ["import os", "import sys"]
    assert before[2].startswith("if sys.version_info < (3, 11)")


def test_run_uses_the_standard_library_only() -> None:
    for node in ast.walk(ast.parse((ROOT / "run").read_text("utf-8"))):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        assert all(name.split(".")[0] in sys.stdlib_module_names for name in names)


@pytest.mark.long
def test_a_failed_setup_names_the_fix_on_standard_error_only(checkout: Path) -> None:
    """The lock requires a package that does not exist, so setup fails with or without a network."""
    (checkout / "requirements.lock").write_text(
        "deniable-has-no-such-package==0 --hash=sha256:" + "0" * 64 + "\n", "utf-8"
    )
    failed = run(checkout, "setup", PIP_NO_INDEX="1", UV_OFFLINE="1", UV_NO_INDEX="1")
    assert failed.returncode == 1
    assert failed.stdout == ""
    assert "start again" in failed.stderr
    assert not (checkout / ".venv" / "deniable-stamp").exists()


# Simultaneous starts, with a fake uv that waits instead of installing

WAITING_UV = """\
#!{python}
import pathlib, sys, time
if "--version" not in sys.argv:
    pathlib.Path({started!r}).touch()
    while not pathlib.Path({proceed!r}).exists():
        time.sleep(0.01)
    sys.exit("enough waited")
"""


def test_a_start_waits_for_another_start_and_its_installer(checkout: Path, tmp_path: Path) -> None:
    started, proceed, bin_folder = tmp_path / "started", tmp_path / "go-on", tmp_path / "bin"
    bin_folder.mkdir()
    script = WAITING_UV.format(python=sys.executable, started=str(started), proceed=str(proceed))
    (bin_folder / "uv").write_text(script, "utf-8")
    (bin_folder / "uv").chmod(0o755)
    command = [BASE_PYTHON, checkout / "run", "setup"]
    environment = {**os.environ, "PATH": str(bin_folder), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""}
    environment["PIP_CONFIG_FILE"] = os.devnull
    try:
        with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as first:
            eventually(started.exists, "the first start installs")
            first.kill()
        left_over = checkout / ".venv" / "left-over"
        left_over.touch()
        with subprocess.Popen(
            command, env=environment, stderr=subprocess.PIPE, text=True
        ) as second:
            assert second.stderr is not None
            assert "waiting for another" in second.stderr.readline()
            assert is_locked(checkout / "run")
            assert left_over.exists(), (
                "the second start began while the installer of the first one ran"
            )
            proceed.touch()
            _, output = second.communicate(timeout=60)
        assert "making .venv" in output, "did not restart an interrupted setup"
        assert not left_over.exists()
    finally:
        proceed.touch()  # releases the waiting programs after any failure


def is_locked(path: Path) -> bool:
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


# Arguments of ./run test

LONG_TESTS = """
import pytest

def test_short():
    pass

@pytest.mark.long
@pytest.mark.parametrize("number", [1, 2])
def test_long(number):
    pass
"""


@pytest.fixture
def tests_of_another(checkout: Path) -> Path:
    """Return a checkout that uses this .venv, with two long tests and a short one."""
    tests = checkout / "tests"
    tests.mkdir()
    shutil.copy(ROOT / "tests" / "conftest.py", tests)
    (tests / "test_some.py").write_text(LONG_TESTS, "utf-8")
    (checkout / "pytest.ini").write_text(
        "[pytest]\nmarkers = long\naddopts = -p no:cacheprovider -p no:schemathesis"
    )
    return tests


def pytest_output(tests: Path, *arguments: str) -> str:
    usual = run_itself()["USUAL"]
    command = [sys.executable, "-m", "pytest", *usual, *arguments]
    done = subprocess.run(command, cwd=tests.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.parametrize(("arguments", "workers", "passed", "left"), [
    (["-n", "0"], False, "1 passed, 2 deselected", "2 long tests left"),
    pytest.param(
        ["-k", "test_short or 1"], True, "1 passed", "1 long test left", marks=pytest.mark.long
    ),
    pytest.param(["tests"], True, "1 passed", "2 long tests left to ./run", marks=pytest.mark.long),
    pytest.param(["-m", "long"], True, "2 passed", "", marks=pytest.mark.long),
])  # fmt: skip
def test_arguments_of_run_test_are_added_to_the_defaults(
    tests_of_another: Path, arguments: list[str], workers: bool, passed: str, left: str
) -> None:
    output = pytest_output(tests_of_another, *arguments)
    assert ("3 workers" in output) == workers
    assert f" {passed} in" in output
    assert left in output
    assert bool(left) == ("left to ./run bench" in output)


# Installation from a folder of two small wheels instead of an index


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    folder = tmp_path / "shelf"
    folder.mkdir()
    return folder


def test_uv_is_locked_with_hashes_and_can_be_left_out() -> None:
    text, uv = (ROOT / "requirements.lock").read_text("utf-8"), run_itself()["UV_IN_LOCK"]
    assert len(uv.findall(text)) == 1
    own, rest = uv.search(text)[0], uv.sub("", text)
    assert own.count("==") == 1
    assert own.count("--hash=sha256:") > 10  # one wheel per system
    assert sorted((own + rest).splitlines()) == sorted(text.splitlines())
    assert rest.count("==") == text.count("==") - 1


@needs_uv
@pytest.mark.long
@pytest.mark.parametrize("right", [True, False])
def test_uv_installs_only_packages_with_the_locked_hash(
    checkout: Path, shelf: Path, right: bool
) -> None:
    true_hash = wheel(shelf, "sample")
    lock(checkout, {"sample": true_hash if right else WRONG})
    (checkout / "bin").mkdir()
    (checkout / "bin" / "uv").symlink_to(str(UV))
    settings = {"UV_NO_INDEX": "1", "UV_FIND_LINKS": str(shelf), "PIP_FIND_LINKS": ""}
    done = set_up(checkout, PATH=str(checkout / "bin"), **settings)
    assert installed(checkout, "sample") == right, done.stderr
    assert ("ash mismatch" in done.stderr) != right


@needs_pip
@pytest.mark.long
@pytest.mark.parametrize("right", [True, False])
def test_pip_installs_only_packages_with_the_locked_hash(
    checkout: Path, shelf: Path, right: bool
) -> None:
    true_hash = wheel(shelf, "sample")
    lock(checkout, {"sample": true_hash if right else WRONG})
    foreign = checkout / "bin" / "uv"
    foreign.parent.mkdir()
    foreign.write_bytes(b"\x7fELF of another system")
    foreign.chmod(0o755)
    done = set_up(checkout, PATH=str(foreign.parent), PIP_FIND_LINKS=str(shelf))
    assert "continuing with pip" in done.stderr
    assert installed(checkout, "sample") == right, done.stderr
    assert ("DO NOT MATCH THE HASHES" in done.stderr) != right


@needs_pip
@pytest.mark.long
def test_the_locked_uv_is_fetched_and_gets_the_settings_of_pip(checkout: Path, shelf: Path) -> None:
    lock(checkout, {"sample": wheel(shelf, "sample"), "uv": wheel(shelf, "uv", STRANGE_UV)})
    (checkout / ".venv").mkdir()
    (checkout / ".venv" / "left-over").touch()  # left by a killed start
    done = set_up(
        checkout, PIP_FIND_LINKS=str(shelf), PIP_TRUSTED_HOST="a.invalid", UV_NO_INDEX="true"
    )
    noted = json.loads((checkout / "notes").read_text("utf-8"))
    assert noted["arguments"][:2] == ["pip", "install"]
    assert "--require-hashes" in noted["arguments"]
    assert noted["settings"]["UV_FIND_LINKS"] == str(shelf)
    assert noted["settings"]["UV_INSECURE_HOST"] == "a.invalid"
    assert noted["settings"]["UV_NO_INDEX"] == "true", (
        "the user's own setting of uv takes precedence"
    )

    # The failure of uv is printed, and pip has installed the rest into an empty .venv.
    assert "strange uv was here" in done.stderr
    assert installed(checkout, "sample"), done.stderr
    assert not (checkout / ".venv" / "bin" / "uv").exists()
    assert not (checkout / ".venv" / "left-over").exists()


@needs_pip
@pytest.mark.long
def test_a_uv_with_another_hash_is_never_started(checkout: Path, shelf: Path) -> None:
    wheel(shelf, "uv", STRANGE_UV)
    lock(checkout, {"sample": wheel(shelf, "sample"), "uv": WRONG})
    done = set_up(checkout, PIP_FIND_LINKS=str(shelf))
    assert not (checkout / "notes").exists()
    assert done.stderr.count("uv failed; continuing with pip") == 1
    assert installed(checkout, "sample"), done.stderr


def test_settings_of_pip_become_variables_of_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*os.environ]:
        if name.startswith("UV_") or name in ("SSL_CERT_FILE", "ALL_PROXY"):
            monkeypatch.delenv(name)
    listed = r"""
WARNING: something else
:env:.index-url='https://second.invalid/simple'
:env:.no-color='1'
global.extra-index-url='\nhttps://a.invalid/simple\nhttps://b.invalid/simple'
global.index-url='https://first.invalid/simple'
global.find-links=''
global.cert='/some folder/ca.pem'
install.find-links="/it's /there"
install.trusted-host='c.invalid d.invalid'
download.proxy='http://nobody.invalid'
"""
    uv_settings = run_itself()["uv_settings"]
    output = {
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_DEFAULT_INDEX": "https://second.invalid/simple",
        "UV_INDEX": "https://a.invalid/simple https://b.invalid/simple",
        "UV_FIND_LINKS": "/it's,/there",
        "UV_INSECURE_HOST": "c.invalid d.invalid",
        "SSL_CERT_FILE": "/some folder/ca.pem",
    }
    assert uv_settings(listed) == output
    monkeypatch.setenv("UV_INDEX", "https://mine.invalid/simple")
    del output["UV_INDEX"]
    assert uv_settings(listed) == output


def run_itself() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "run"))


def wheel(shelf: Path, name: str, script: str = "") -> str:
    """Put a small package into the folder, optionally with a command of the same name; return its
    hash.
    """
    about = f"{name}-1.0.dist-info"
    contents = {
        f"{name}/__init__.py": "",
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if script:
        contents[f"{name}-1.0.data/scripts/{name}"] = script
    contents[f"{about}/RECORD"] = "".join(f"{path},,\n" for path in [*contents, f"{about}/RECORD"])
    file = shelf / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        for path, text in contents.items():
            entry = zipfile.ZipInfo(path)
            entry.external_attr = (0o100755 if "/scripts/" in path else 0o100644) << 16
            archive.writestr(entry, text)
    return hashlib.sha256(file.read_bytes()).hexdigest()


def lock(checkout: Path, hashes: dict[str, str]) -> None:
    lines = [f"{name}==1.0 \\\n    --hash=sha256:{digest}\n" for name, digest in hashes.items()]
    (checkout / "requirements.lock").write_text("".join(lines), "utf-8")


def set_up(checkout: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run ./run setup without network, uv or user settings. Its last step fails: no hatchling."""
    own = {name: value for name, value in os.environ.items() if name[:3] not in ("PIP", "UV_")}
    own.pop("SSL_CERT_FILE", None)
    own |= {"PATH": str(checkout / "nothing"), "NOTES": str(checkout / "notes")}
    own |= {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1"}
    own |= {"UV_CACHE_DIR": str(checkout / "cache")} | environment
    command = [BASE_PYTHON, checkout / "run", "setup"]
    return subprocess.run(command, env=own, capture_output=True, text=True, timeout=120)


def installed(checkout: Path, name: str) -> bool:
    return any(checkout.glob(f".venv/lib/python*/site-packages/{name}/__init__.py"))
