"""Tutorials: their commands and programs run as shown, and end with the stated result."""

from __future__ import annotations

import math
import re
import shlex
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from deniable.client.environment import KEPT
from tests.command import DENIABLE, run
from tests.documents import commands, section_of, text_of
from tests.server.test_ask import asking
from tests.server.test_shown_commands import shell
from tests.server.world import serving

ASK, COMPARE = "server/README.md", "server/RELEASE_TUTORIAL.md"
SIMULATE, PRICE = "simulations/README.md", "simulations/PRICE_TUTORIAL.md"
ALPHA = 1e-9  # of a false alarm
LIE, WOMEN = 1 / (math.exp(2) + 1), 6_366  # of "What does privacy cost?", at ε 2
SLOWER = re.compile(r"wait, by version: 2\.4 is [\d.]+ s higher than 2\.3 \(([\d.]+) to ([\d.]+)")


def code(document: str, section: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", section_of(document, section), re.DOTALL)


def quotes(document: str, section: str) -> list[str]:
    """Return the quoted paragraphs of a section, each on one line."""
    quoted = re.findall(r"(?:^> .*\n)+", section_of(document, section), re.MULTILINE)
    return [" ".join(quote.replace("> ", "").split()) for quote in quoted]


def python(folder: Path, program: str) -> str:
    """Run a program in a folder, as a reader does; return its output."""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("document", "section"), [(ASK, "1. Plan"), (COMPARE, "1. Plan"), (PRICE, "2. What to expect")]
)
def test_a_plan_prints_what_the_tutorial_quotes(document: str, section: str) -> None:
    (block,) = code(document, section, "sh")
    (line,) = commands(block)
    printed = run(*shlex.split(line)).stdout
    assert quotes(document, section)
    assert all(quote in printed for quote in quotes(document, section))


def test_the_first_finding_is_the_one_that_the_studies_quote() -> None:
    """A long test compares the quotes of STUDIES.md with the output of the study."""
    studies = " ".join(text_of("simulations/STUDIES.md").replace("\n> ", " ").split())
    (quote,) = quotes(SIMULATE, "1. Ask a question")
    assert quote in studies


@pytest.mark.parametrize(
    ("document", "end", "most"),
    [
        *((document, "", 900) for document in (ASK, COMPARE, SIMULATE, PRICE)),
        (ASK, "## 5. Close", 600),  # an analyst decides
        ("server/RECIPES.md", "## Ask by link with TLS", 1_500),  # a server runs behind TLS
        (SIMULATE, "## 4. Choose a study", 900),  # a researcher has a figure
    ],
)
def test_a_reader_reads_few_words_before_a_result(document: str, end: str, most: int) -> None:
    text = text_of(document)
    assert len(text[: text.index(end) if end else None].split()) <= most


# Asking


@pytest.mark.long
def test_the_rehearsal_prints_an_interval(tmp_path: Path) -> None:
    (program,) = code(ASK, "2. Rehearse", "python")
    assert re.fullmatch(
        r"answer, round 0: yes -?\d+ % \(-?\d+ to \d+ %\)\. 200 reports; 95 % intervals for the "
        r"population, for repeated looks\.\n",
        python(tmp_path, program),
    )


def test_a_survey_is_asked_read_and_closed(tmp_path: Path) -> None:
    """Run "3. Ask", "4. Read" and "5. Close"."""
    first, later = code(ASK, "3. Ask", "sh")
    words = shlex.split(commands(first)[0])[1:]
    close_first, again = commands(later)
    with asking(tmp_path, *words):
        file = tmp_path / again.split()[1]
        file.write_text(file.read_text("utf-8").replace("to a friend", "to your best friend"))
    shell(f"deniable {close_first}", tmp_path)
    with asking(tmp_path, file.name) as asked:
        (read,), (close,) = code(ASK, "4. Read", "sh"), code(ASK, "5. Close", "sh")
        assert asked["id"] in shell(read, tmp_path)
        assert "closed our-team" in shell(close, tmp_path)


# Comparing two versions


@pytest.mark.long
def test_two_simulated_weeks_lead_to_the_sentence_for_the_team(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new version is slower by 1 s, and the margin about 0.25 s.

    The interval excludes 0 unless the noise exceeds 8 standard errors: less than ALPHA.
    """
    (write,), (play,), (app,) = (
        code(COMPARE, section, "python")
        for section in ("2. Write the survey", "4. Simulate two weeks", "6. Ask your own app")
    )
    python(tmp_path, write)
    (block,) = code(COMPARE, "3. Publish and serve", "sh")
    *prepare, serve = block.splitlines()
    said = shell("set -e\n" + "\n".join(prepare), tmp_path)
    assert "each install answers" in said
    assert serve == "deniable serve --data data"
    with serving(tmp_path / "data") as server:
        python(tmp_path, play.replace("http://127.0.0.1:8000", server.url))
        (read,) = code(COMPARE, "5. Read the result", "sh")
        last_week = (datetime.now(UTC).date() - timedelta(days=7)).isoformat()
        printed = " ".join(shell(read.replace("LAST_WEEK", last_week), tmp_path).split())
        found = SLOWER.search(printed)
        assert found is not None, printed
        low, high = map(float, found.groups())
        assert 0 < low < high < 2
        assert SLOWER.search(quotes(COMPARE, "5. Read the result")[0])
        assert not SLOWER.search(printed.replace("is ", "is not ")), "twin: another sentence"
        monkeypatch.setenv(KEPT, "1")
        monkeypatch.delenv("CI", raising=False)
        key = run("keys", "show", tmp_path / "data" / "signing-key.pem").stdout.strip()
        given = f"KEY, SERVER = {key!r}, {server.url!r}\n"
        status = app.replace("client.answer", "outcome = client.answer")
        assert python(tmp_path, f"{given}{status}print(outcome.status)") in OUTCOMES


OUTCOMES = ("queued\n", "not-drawn\n")  # rounds that an install answers are drawn at random


# The price of privacy


@pytest.mark.long
def test_the_answers_of_the_tutorial_are_estimated_near_the_truth(tmp_path: Path) -> None:
    """False alarm below ALPHA, by Hoeffding's inequality. Twin: the share of no."""
    (people,), (ask,), (compare,) = (
        code(PRICE, section, "python") for section in ("1. The truth", "3. Ask them", "4. Compare")
    )
    program = f"{people}{ask}{compare}print(estimate.estimate)\nprint(truth)\n"
    first, *lines, estimate, truth = python(tmp_path, program).splitlines()
    assert [first] == quotes(PRICE, "1. The truth")
    (shown,) = re.findall(r"```\n(truth.*?)```", section_of(PRICE, "4. Compare"), re.DOTALL)
    without_estimates = re.compile(r", estimate.*")
    assert [without_estimates.sub("", line) for line in lines] == [
        without_estimates.sub("", line) for line in shown.splitlines()
    ]
    farthest = math.sqrt(math.log(2 / ALPHA) / (2 * WOMEN)) / (1 - 2 * LIE)
    assert abs(float(estimate) - float(truth)) <= farthest
    assert abs(float(estimate) - (1 - float(truth))) > farthest
    (line,) = commands(code(PRICE, "5. What did privacy cost?", "sh")[0])
    words = [*shlex.split(line), "--repetitions", "20"]
    done = subprocess.run([*DENIABLE, *words], cwd=tmp_path, capture_output=True, text=True)
    assert "a trusted server" in done.stdout, done.stderr


# The simulator


@pytest.mark.long
def test_the_first_figure_is_drawn(tmp_path: Path) -> None:
    (first,) = code(SIMULATE, "1. Ask a question", "sh")
    (changed,) = code(SIMULATE, "2. Change it", "sh")
    (program,) = code(SIMULATE, "3. Make your own figure", "python")
    assert "--out bit" in first
    shell(changed, tmp_path)
    assert (tmp_path / "small" / "index.html").is_file()
    assert "devices with randomized response" in python(tmp_path, program)
    assert (tmp_path / "error.png").stat().st_size > 10_000


def test_every_study_has_a_row_in_the_tutorial() -> None:
    from deniable.simulations.engine.study import summaries

    listed = re.findall(r"`deniable simulate (\w+)", section_of(SIMULATE, "4. Choose a study"))
    assert sorted(listed) == sorted(summaries())
