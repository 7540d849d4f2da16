"""`deniable` command: its verbs, its exit codes, and the install command for a missing extra."""

import argparse
import io
import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import mpmath
import pytest

from deniable.shared.cli import command
from deniable.shared.cli.command import find_verbs, main
from deniable.shared.cli.verb import GREEN, PLAIN, RED, TITLES, Verb, coloured
from deniable.shared.errors import DeniableError, Refused, WrongUse
from deniable.shared.privacy import verification
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import RandomizedResponse
from tests.command import run
from tests.eventually import PATIENCE
from tests.survey_texts import bit, survey_text

SCRIPT = str(Path(sys.executable).with_name("deniable"))


def script(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the script of an installed package."""
    return subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, timeout=PATIENCE)


def verb_that_raises(error: BaseException) -> Verb:
    def fail(_: argparse.Namespace) -> int:
        raise error

    return Verb("try", "for this test", lambda _: None, fail, group="ask", example="deniable try")


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (WrongUse("no such file"), 2, "deniable try: no such file\n"),
        (Refused("the server said no"), 3, "deniable try: the server said no\n"),
        (DeniableError("other"), 2, "deniable try: other\n"),
        (KeyboardInterrupt(), 130, "\ndeniable try: interrupted\n"),
    ],
)
def test_an_error_is_one_line_and_an_exit_code(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
    says: str,
) -> None:
    monkeypatch.setattr(command, "find_verbs", lambda: {"try": verb_that_raises(error)})
    assert command.main(["try"]) == code
    assert capsys.readouterr().err == says


@pytest.mark.parametrize(
    ("missing", "extra"),
    [("flask", "server"), ("pyarrow", "archive"), ("distributed", "cluster")],
)
def test_a_missing_library_gives_the_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], missing: str, extra: str
) -> None:
    verb = verb_that_raises(ModuleNotFoundError(f"No module named {missing!r}", name=missing))
    verb.run.__module__ = "deniable.server.cli.verbs"
    monkeypatch.setattr(command, "find_verbs", lambda: {"try": verb})
    assert command.main(["try"]) == 2
    assert missing in (message := capsys.readouterr().err)
    assert f"in a checkout of deniable, run: pip install '.[{extra}]'" in message


def test_every_part_adds_its_verbs() -> None:
    verbs = set(command.find_verbs())
    assert verbs >= {"certify", "demo", "keys", "results", "sent", "serve", "simulate", "survey"}
    assert verbs >= {"backup", "restore", "token"}


def test_help_and_version_work() -> None:
    assert "run a server" in script().stdout
    assert script("--version").stdout.startswith("deniable 0.")
    assert script("no-such-verb").returncode == 2


def test_the_package_runs_as_a_module() -> None:
    """`python -m deniable` works if the script is not on the PATH."""
    command = [sys.executable, "-m", "deniable", "--version"]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == (script("--version").stdout, "")
    command = [sys.executable, "-m", "deniable", "no-such-verb"]
    assert subprocess.run(command, capture_output=True).returncode == 2


@pytest.mark.parametrize(
    ("wrong", "says"),
    [("sruvey", "did you mean survey?"), ("result", "did you mean results?"), ("qqqq", "no verb")],
)
def test_a_mistyped_verb_suggests_the_nearest(wrong: str, says: str) -> None:
    done = run(wrong, "list")
    assert done.returncode == 2
    assert says in done.stderr


def test_help_lists_each_verb_once_by_its_readers() -> None:
    shown = run("help").stdout
    places = [shown.index(f"\n{title}:\n") for title in TITLES.values()]
    assert places == sorted(places)
    for verb in find_verbs().values():
        assert shown.count(f"\n  {verb.name} ") == 1
        assert shown.index(f"\n{TITLES[verb.group]}:\n") < shown.index(f"\n  {verb.name} ")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("survey", "chek"), "there is no action 'chek'; did you mean check?"),
        (("simulate", "histogramm"), "did you mean histogram?"),
        (("plan", "--kind", "numbr"), "there is no value 'numbr'; did you mean number?"),
        (("plan", "--kind", "zzz"), "choose from bit, choice, number, text, vector"),
    ],
)
def test_a_mistyped_word_suggests_the_nearest(words: tuple[str, ...], says: str) -> None:
    done = run(*words)
    assert done.returncode == 2
    assert says in done.stderr


def test_only_a_terminal_gets_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", terminal := io.StringIO())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert coloured("ok", GREEN) == "ok"
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    assert coloured("ok", GREEN) == f"{GREEN}ok{PLAIN}"
    monkeypatch.setenv("NO_COLOR", "1")
    assert coloured("ok", GREEN) == "ok"


def test_warnings_about_a_survey_have_a_colour(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "survey.toml"
    file.write_text(survey_text(bit(epsilon="5")), "utf-8")
    monkeypatch.setattr(sys, "stdout", terminal := io.StringIO())
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert command.main(["survey", "check", str(file)]) == 0
    assert f"\n{RED}warning:{PLAIN} " in terminal.getvalue()


def test_a_shell_completes_verbs_actions_and_options() -> None:
    """A real bash reads the output of `completion`."""

    def completed(*words: str) -> set[str]:
        typed = " ".join(f"'{word}'" for word in words)
        asks = (
            f"source <('{SCRIPT}' completion bash); COMP_WORDS=({typed}); "
            f"COMP_CWORD={len(words) - 1}; _deniable; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        )
        ran = subprocess.run(["bash", "-c", asks], capture_output=True, text=True, check=True)
        return set(ran.stdout.split())

    assert completed("deniable", "s") == {*("sent", "serve", "share", "simulate", "survey")}
    assert completed("deniable", "survey", "c") == {"check", "close"}
    assert "--replace" in completed("deniable", "survey", "publish", "x.toml", "--")
    assert completed("deniable", "survey", "close", "--d") == {"--data"}


def test_help_loads_no_heavy_library() -> None:
    """Without those libraries help stays fast; `./run bench` measures the time."""
    code = (
        "import sys; from deniable.shared.cli.command import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'scipy', 'flask', 'requests', 'cryptography', 'psycopg'}\n"
        "sys.exit(bool(heavy & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL).returncode == 0


def test_certify_proves_at_least_two_hundred_pairs_and_finds_no_excess() -> None:
    done = run("certify", "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["holds"]) == (0, True)
    assert report["pairs"] >= 200
    assert {row["worst_excess"] for row in report["mechanisms"]} == {"0"}
    assert all(float(row["worst_loss"]) < 1e-9 for row in report["mechanisms"])


def test_certify_exits_with_a_finding_if_one_proof_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Move one unit of 2^-64 from the lie to the truth, in one of two mechanisms."""
    made = [RandomizedResponse(Epsilon("1")) for _ in range(2)]
    made[1].lie, made[1].keep = made[1].lie - 1, made[1].keep + 1
    monkeypatch.setattr(verification, "grid", lambda: iter(made))
    assert main(["certify"]) == 1
    assert "NOT all spend at most their ε" in capsys.readouterr().out
    monkeypatch.setattr(verification, "grid", lambda: iter(made[:1]))
    assert main(["certify"]) == 0


@pytest.mark.parametrize(
    ("arguments", "rows", "columns"),
    [
        ("--kind bit --epsilon 0.5", 2, 2),
        ("--kind choice --epsilon 1 --options 7 --mechanism k-randomized-response", 7, 7),
        ("--kind number --epsilon 2 --low -5 --high 9 --grid 12", 13, 13),
        ("--kind number --epsilon 1 --mechanism ternary", 3, 3),
        ("--kind number --epsilon 1 --mechanism split-sign", 3, 4),
    ],
)
def test_certify_prints_integers_that_anyone_can_check(
    arguments: str, rows: int, columns: int
) -> None:
    report = json.loads(run("certify", *arguments.split(), "--json").stdout)
    table = report["rows"]
    assert (len(table), {len(row) for row in table}) == (rows, {columns})
    assert {sum(row) for row in table} == {2**64}
    assert (report["unit"], report["holds"]) == ("2**-64", True)
    worst = max(Fraction(max(column), min(column)) for column in zip(*table, strict=True))
    with mpmath.workprec(200):
        realised = mpmath.log(mpmath.mpf(worst.numerator) / worst.denominator)
        assert realised <= mpmath.mpf(report["epsilon"])
        assert abs(realised - mpmath.mpf(report["realised_epsilon"])) < mpmath.mpf(10) ** -35


def test_certify_explains_how_the_bits_of_unary_combine() -> None:
    report = json.loads(
        run(
            "certify", "--kind", "choice", "--mechanism", "unary", "--options", "9", "--json"
        ).stdout
    )
    assert {sum(row) for row in report["bit_rows"]} == {2**64}
    assert "product" in report["how"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("--kind bit --epsilon 0", "above 0"),
        ("--kind bit --epsilon x", "decimal text"),
        ("--kind bit --mechanism unary", "randomized-response"),
        ("--kind choice --options 1", "2 to"),
        ("--kind choice --options 5000 --epsilon 9 --json", "1,000,000"),
        ("--kind number --grid 999", "1 to 255"),
        ("--kind number --low 3 --high 3", "above --low"),
    ],
)
def test_certify_refuses_bad_arguments_in_one_line(arguments: str, says: str) -> None:
    done = run("certify", *arguments.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1
