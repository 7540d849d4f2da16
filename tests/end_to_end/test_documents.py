"""Documents: the commands shown work, quoted output is current, and links resolve.

The commands are run here or in the named test.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from deniable.shared.cli.command import find_verbs, main, make_parser
from deniable.shared.survey.kinds import KINDS
from tests.documents import ROOT, blocks, commands, documents, section_of, text_of

ALL = [block for document in documents() for block in blocks(document)]
HERE = "tests/end_to_end/test_documents.py"
RECIPES = "tests/client/test_recipes.py"
TOUR = "tests/end_to_end/test_readme_tour.py"
FIRST_HOUR = "tests/end_to_end/test_first_hour.py"
QUESTIONS = "tests/end_to_end/test_question_pages.py"
DRILLS = "tests/server/test_drills.py"
SHOWN = "tests/server/test_shown_commands.py"
DEPLOYED = "tests/end_to_end/test_deploying.py"
ASKED = "tests/server/test_ask.py"
ALERTS = "tests/server/test_alerts.py"
RESULTS = "tests/end_to_end/test_result_tutorials.py"
IN_PYTHON = "tests/simulations/test_in_python.py"
STEPS = ("1. Plan", "2. Rehearse", "3. Ask", "4. Read", "5. Close")
RELEASE_STEPS = (
    *("1. Plan", "2. Write the survey", "3. Publish and serve", "4. Simulate two weeks"),
    *("5. Read the result", "6. Ask your own app"),
)
PRICE_STEPS = (
    *("1. The truth", "2. What to expect", "3. Ask them", "4. Compare"),
    "5. What did privacy cost?",
)
# The test that runs the blocks of each section.
RUN = {
    ("client/README.md", "2. Write and publish a survey"): TOUR,
    ("client/README.md", "3. Answer from your code"): TOUR,
    ("client/README.md", "4. See what left the device"): TOUR,
    ("client/RECIPES.md", "A federated mean"): "tests/end_to_end/test_federated_mean.py",
    ("client/RECIPES.md", "Cron and small devices"): "tests/end_to_end/test_shown_clients.py",
    ("client/RECIPES.md", "Certificates and proxies"): "tests/end_to_end/test_shown_clients.py",
    ("client/RECIPES.md", "A page"): "tests/end_to_end/test_examples.py",
    ("client/RECIPES.md", "A service worker"): "tests/end_to_end/test_examples.py",
    ("client/RECIPES.md", "Test your app"): "tests/client/test_fakes.py",
    ("client/RECIPES.md", "Results by version"): "tests/client/test_labels.py",
    ("client/RECIPES.md", "Web apps on several machines"): "tests/client/test_postgres_state.py",
    ("client/RECIPES.md", "A script"): RECIPES,
    ("client/RECIPES.md", "A desktop app"): RECIPES,
    ("client/RECIPES.md", "Flask"): RECIPES,
    ("client/RECIPES.md", "FastAPI"): RECIPES,
    ("client/RECIPES.md", "Django"): RECIPES,
    ("client/RECIPES.md", "Celery"): RECIPES,
    ("client/RECIPES.md", "Serverless functions"): RECIPES,
    ("client/RECIPES.md", "A relay"): RECIPES,
    ("client/RECIPES.md", "Totals of a month"): RECIPES,
    ("client/RECIPES.md", "Phones"): "tests/end_to_end/test_shown_clients.py",
    ("client/javascript/README.md", "The JavaScript client: for Node and browsers"): (
        "tests/end_to_end/test_shown_clients.py"
    ),
    **dict.fromkeys((("server/README.md", step) for step in STEPS), RESULTS),
    **dict.fromkeys((("server/RELEASE_TUTORIAL.md", step) for step in RELEASE_STEPS), RESULTS),
    ("server/SURVEYS.md", "Ask by link"): ASKED,
    ("server/SURVEYS.md", "Invitations"): ASKED,
    ("server/SURVEYS.md", "Ask in several languages"): "tests/shared/test_languages.py",
    ("server/SURVEYS.md", "Ask from a notebook"): "tests/server/test_notebook.py",
    ("server/SURVEYS.md", "Ask an open question"): SHOWN,
    ("server/SURVEYS.md", "Embed it in a page"): "tests/end_to_end/test_ask.py",
    ("server/SURVEYS.md", "Read results in Python"): "tests/server/test_analysis.py",
    ("server/SURVEYS.md", "Judging a result"): ALERTS,
    ("server/SURVEYS.md", "HTTP"): SHOWN,
    ("server/RECIPES.md", "Install on Debian with nginx and TLS"): DEPLOYED,
    ("server/RECIPES.md", "Ask by link with TLS"): DEPLOYED,
    ("server/RECIPES.md", "Open the dashboard to other machines"): DEPLOYED,
    ("server/RECIPES.md", "Run in a container"): DEPLOYED,
    ("server/RECIPES.md", "Install the relay"): DEPLOYED,
    ("server/RECIPES.md", "Monitor with Prometheus"): DEPLOYED,
    ("server/RECIPES.md", "Send alerts from the server"): ALERTS,
    ("server/RECIPES.md", "Back up, and practise a restore"): SHOWN,
    ("server/RECIPES.md", "A fail-over drill"): DRILLS,
    ("server/RECIPES.md", "Reconciling a round"): DRILLS,
    ("server/RECIPES.md", "Restoring an old backup"): DRILLS,
    ("server/RECIPES.md", "Use a relay of another organization"): SHOWN,
    ("server/RECIPES.md", "Limit forged reports"): SHOWN,
    ("server/RECIPES.md", "Give each class of installs a token"): SHOWN,
    ("server/RECIPES.md", "Read results in other tools"): SHOWN,
    ("server/RECIPES.md", "Archive ended rounds"): SHOWN,
    ("server/RECIPES.md", "Reading an archive with other tools"): (
        "tests/server/test_archive_readers.py"
    ),
    ("server/RECIPES.md", "Delete a survey"): SHOWN,
    ("server/RECIPES.md", "Check the register"): SHOWN,
    ("server/RECIPES.md", "Check and repair a folder"): SHOWN,
    ("server/RECIPES.md", "Keep the signing key off the server"): SHOWN,
    **dict.fromkeys((("simulations/PRICE_TUTORIAL.md", step) for step in PRICE_STEPS), RESULTS),
    ("simulations/README.md", "1. Ask a question"): RESULTS,
    ("simulations/README.md", "2. Change it"): RESULTS,
    ("simulations/README.md", "3. Make your own figure"): RESULTS,
    ("simulations/RECIPES.md", "Run a study in Python"): IN_PYTHON,
    ("simulations/RECIPES.md", "Try a single mechanism"): IN_PYTHON,
    ("simulations/RECIPES.md", "Write your own study"): IN_PYTHON,
    ("simulations/RECIPES.md", "Short examples and baselines"): (
        "tests/simulations/test_baselines.py"
    ),
}
RUN |= {
    ("client/TELEMETRY.md", section): FIRST_HOUR
    for section in (
        "1. Write the survey", "2. Add the client", "3. Try it", "4. Look before you send",
        "7. Decide",
    )
}  # fmt: skip
RUN |= {
    ("shared/FIRST_QUESTION.md", section): FIRST_HOUR
    for section in (
        "3. Check that the group is large enough", "4. Ask by a link", "7. Decide",
    )
}  # fmt: skip
RUN |= {
    (f"shared/questions/{kind}.md", section): QUESTIONS
    for kind in KINDS
    for section in ("The survey lines", "The call", "How to test")
}
RUN["shared/SURVEY_KEYS.md", "Texts and languages"] = QUESTIONS
# Sections that no test runs, with the reason. The options of their commands are still checked.
NOT_RUN = {
    ("README.md", "Try it"): "clones; .ci/run does it from the tag, and test_demo the demo",
    ("client/README.md", "1. Install"): "test_packages installs a wheel; pip needs a network",
    ("server/README.md", "Install"): "sets PATH",
    ("simulations/README.md", "Install"): "pip installs; test_packages installs each extra",
    ("server/RECIPES.md", "Run several nodes on PostgreSQL"): "a database server's own tools",
    ("server/GUARANTEES.md", "What the database reveals about arrival times"): "its settings",
    (
        "server/RECIPES.md",
        "Practise a fail-over",
    ): "a setting; test_drills has another",
    ("server/RECIPES.md", "Back up a database"): "run by tests/server/test_postgres.py",
    ("tests/README.md", "Run the tests"): "starts the tests",
    ("shared/ARCHITECTURE.md", "The path of an answer"): "a drawing",
    ("shared/ARCHITECTURE.md", "The path of a page"): "a drawing",
    (
        "shared/CHOOSING_EPSILON.md",
        "What ε means for a person",
    ): "a table; test_the_odds compares it with the command",
    ("shared/PROTOCOL.md", "4. Envelopes"): "a form; tests/vectors has whole ones",
    (
        "tests/conformance/README.md",
        "The conformance kit: test a client in any language against the protocol",
    ): "tests/conformance/test_conformance.py runs both clients",
}
MAX_WORDS = {
    "README.md": 600,
    "client/README.md": 900,
    "client/TELEMETRY.md": 900,
    "shared/FIRST_QUESTION.md": 900,
}
# Number of blocks that the test of a section covers, if it is not one.
SEVERAL = {
    ("client/RECIPES.md", "A federated mean"): 2,
    ("client/TELEMETRY.md", "1. Write the survey"): 2,
    ("shared/FIRST_QUESTION.md", "4. Ask by a link"): 2,
    ("shared/FIRST_QUESTION.md", "7. Decide"): 2,
    ("server/README.md", "3. Ask"): 2,
    ("server/RECIPES.md", "Install on Debian with nginx and TLS"): 4,
    ("server/RECIPES.md", "Back up, and practise a restore"): 2,
    ("server/RECIPES.md", "A fail-over drill"): 2,
    ("server/RECIPES.md", "Restoring an old backup"): 2,
    ("server/RECIPES.md", "Read results in other tools"): 3,
    ("server/RECIPES.md", "Keep the signing key off the server"): 2,
    ("simulations/PRICE_TUTORIAL.md", "4. Compare"): 2,
}


def test_every_block_is_run_or_listed_as_not_run() -> None:
    shown = Counter(block.place[:2] for block in ALL if block.language != "indented")
    assert not RUN.keys() & NOT_RUN.keys()
    assert shown == {section: SEVERAL.get(section, 1) for section in RUN.keys() | NOT_RUN.keys()}


@pytest.mark.parametrize("place", RUN, ids=" ".join)
def test_the_named_test_reads_the_section(place: tuple[str, str]) -> None:
    text = (ROOT / RUN[place]).read_text("utf-8")
    name = place[0].rpartition("/")[2]
    assert name in text
    if name != "README.md" or "javascript" not in place[0]:
        assert place[1].partition(":")[0] in text or "snippets_run" in text


# Commands


@cache
def parser() -> argparse.ArgumentParser:
    return make_parser(find_verbs())


def parsed(line: str) -> argparse.Namespace:
    """Parse a line as the command does; raise AssertionError for a mistake."""
    line = re.sub(r'--store "\$[A-Z]+"', "--store postgresql:///name", line)
    words = shlex.split(line.replace("$(date +%F)", "today"))
    try:
        chosen, more = parser().parse_known_args(words)
    except SystemExit:
        raise AssertionError(f"the command does not accept: {line}") from None
    assert not more, f"the command does not know {more} of: {line}"
    return chosen


TYPED = [(block, line) for block in ALL for line in commands(block.text)]


def test_every_command_line_is_accepted_by_the_command() -> None:
    assert len(TYPED) > 50
    for _, line in TYPED:
        parsed(line)


@pytest.mark.parametrize("line", ["serve --data d --porth 1", "survey lost", "plan --kind bot"])
def test_the_test_above_can_fail(line: str) -> None:
    with pytest.raises(AssertionError, match=r"the command does not (accept|know)"):
        parsed(line)


def known_options(words: list[str]) -> set[str]:
    """Return the options of the verb, and of the action if one is named."""
    here, options = parser(), set[str]()
    for word in words:
        below = _below(here)
        if word not in below:
            break
        here = below[word]
    for level in [here, *_below(here).values()]:
        options |= {option for action in level._actions for option in action.option_strings}
    return options


def _below(here: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    """Return the parsers of a verb's actions, or of all verbs."""
    found = (action for action in here._actions if isinstance(action, argparse._SubParsersAction))
    return next((action.choices for action in found), {})


@pytest.mark.parametrize("document", documents())
def test_every_command_in_a_sentence_exists_with_its_options(document: str) -> None:
    text = text_of(document).replace("\\|", "|")
    for inline in re.findall(r"`deniable ([a-z][^`]*)`", text):
        words = [word for word in re.split(r"[\s\[\]|]+", inline) if word]
        if words[0] == "simulate" and words[1:] and not words[1].isupper():
            parsed(" ".join(words))  # each study parses its own options
            continue
        assert words[0] == "help" or words[0] in find_verbs(), inline
        asked = {word.split("=")[0] for word in words if word.startswith("--")}
        assert asked <= known_options(words) | known_options(words[:1]), inline


# Links


def slug(heading: str) -> str:
    """Return the anchor that GitHub and similar sites give a heading."""
    bare = re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower())
    return bare.replace(" ", "-")


@pytest.mark.parametrize("document", documents())
def test_every_link_resolves(document: str) -> None:
    for link in re.findall(r"\]\(([^)]+)\)", text_of(document)):
        place, _, anchor = link.partition("#")
        assert not place.startswith("http"), "documents link only within the project"
        target = (ROOT / document).parent / place if place else ROOT / document
        assert target.exists(), link
        if anchor:
            headings = re.findall(r"^#+ (.+)$", target.read_text("utf-8"), re.MULTILINE)
            assert anchor in map(slug, headings), link


# Readers


@pytest.mark.parametrize("document", documents())
def test_the_first_line_names_the_readers(document: str) -> None:
    assert re.match(r"# .+\n\n\*For ", text_of(document))


@pytest.mark.parametrize(("document", "words"), MAX_WORDS.items())
def test_what_a_reader_reads_first_is_short(document: str, words: int) -> None:
    assert len(text_of(document).split()) <= words


def test_an_app_developer_reads_little_before_the_first_report() -> None:
    """The top page, and the tutorial up to the section in which the report has arrived."""
    tutorial = text_of("client/README.md").partition("\n## 5. ")[0]
    assert len(f"{text_of('README.md')} {tutorial}".split()) <= 1_500


# Numbers


def printed(capsys: pytest.CaptureFixture[str], line: str) -> str:
    assert main(shlex.split(line)) == 0
    return capsys.readouterr().out


def plain(text: str) -> str:
    """Return the text without line breaks, quotation marks and indentation."""
    return " ".join(re.sub(r"^[>\s]+", "", text, flags=re.MULTILINE).split())


def test_the_odds_agree_with_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    shown = section_of("shared/CHOOSING_EPSILON.md", "What ε means for a person")
    table = printed(capsys, "odds").splitlines()
    assert "```\n" + "\n".join(table) + "\n```" in shown


def test_the_people_needed_for_a_point_agree_with_the_plan(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = section_of("shared/CHOOSING_EPSILON.md", "What ε means for a result")
    rows = re.findall(r"^\| (\S+) \| ([\d,]+) \| ([\d,]+) \|$", shown, re.MULTILINE)
    assert len(rows) == 5
    for epsilon, people, direct in rows:
        said = printed(capsys, f"plan --kind bit --epsilon {epsilon} --error 0.01")
        assert f"\n{people} people give ± 1.0 points (95 %) for a share of 50 %;" in said
        assert f"about {direct} asked openly" in said
    (forty,) = re.findall(
        r"Forty people at ε 1 give a share to (± [\d.]+ points) \(`deniable (.+)`\)",
        section_of("shared/CHOOSING_EPSILON.md", "Choose it in five steps"),
    )
    assert f"40 people give {forty[0]} (95 %) for" in printed(capsys, forty[1])


def test_the_planner_s_table_agrees_with_its_output(capsys: pytest.CaptureFixture[str]) -> None:
    section = "Plan"
    (text,) = [block.text for block in ALL if block.section == section]
    said, shown = printed(capsys, commands(text)[0]), section_of("server/SURVEYS.md", section)
    for line in filter(None, said.splitlines()):
        assert f"    {line}\n" in shown or f"> {line}\n" in shown, line


@pytest.mark.parametrize("section", ["Ask by link", "Results by version, platform or arm"])
def test_the_sentence_about_people_agrees_with_the_plan(
    capsys: pytest.CaptureFixture[str], section: str
) -> None:
    shown = section_of("server/SURVEYS.md", section)
    (line,) = re.findall(r"`deniable (plan [^`]*)`", shown)
    (quote,) = re.findall(r"(?:^> .+\n)+", shown, re.MULTILINE)
    assert f"\n{plain(quote)}\n" in printed(capsys, line)


def test_the_price_of_looks_agrees_with_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    shown = section_of("server/ESTIMATES.md", "Open rounds")
    (line,) = re.findall(r"`deniable plan ([^`]*)`", shown)
    said = planned(capsys, line)
    ratios = [said[name] / said["margin_shown_once"] for name in ("margin_until_final", "margin")]
    until_final, final = re.findall(r"about ([\d.]+) times until .*? then ([\d.]+) times", shown)[0]
    assert [until_final, final] == [f"{ratio:.2f}" for ratio in ratios]
    assert f"| {final} times at both looks |" in shown


def test_the_leverages_agree_with_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    shown = section_of("server/ESTIMATES.md", "Forged reports")
    (line,) = re.findall(r"`deniable (plan --[^`]*)`", shown)
    said = printed(capsys, line)
    pattern = r"^\| ([\w-]+).*? \| (± [\d.]+ points) \| ([\d.]+) \| ± ([\d.]+) points \|$"
    rows = re.findall(pattern, shown, re.MULTILINE)
    assert len(rows) == 4
    for name, margin, leverage, shift in rows:
        assert re.search(rf"^{name} +{margin} .* {leverage}$", said, re.MULTILINE)
        assert f"{float(leverage):.2g}" == shift


def planned(capsys: pytest.CaptureFixture[str], line: str) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(printed(capsys, f"plan {line} --json"))
    return said


def test_a_text_s_floors_agree_with_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    """Floors, in people out of a million, agree to the hundred for each stated length."""
    shown = plain(section_of("server/SURVEYS.md", "Ask an open question"))
    lengths = re.findall(r"up to (\d+) bytes needs (?:about )?([\d,]*\d)", shown)
    assert [int(length) for length, _ in lengths] == [8, 16, 32]
    for length, people in lengths:
        said = planned(capsys, f"--kind text --length {length} --epsilon 2 --people 1000000")
        assert f"{round(1e6 * said['floor'], -2):,.0f}" == people


def test_a_mean_vector_s_error_agrees_with_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    shown = plain(section_of("client/RECIPES.md", "A federated mean"))
    found = re.search(r"√\(([\d.]+) d / n\) at ε 1, .*√\(([\d.]+) d / n\) at ε 2", shown)
    assert found
    for epsilon, factor in enumerate(found.groups(), 1):
        said = planned(capsys, f"--kind vector --dimension 100 --epsilon {epsilon} --people 100000")
        assert float(factor) == pytest.approx(said["n_variance"] / 100, rel=0.02)
    assert "A report has 9 bytes up to ε 4.4, and 10 bytes from ε 4.8 on" in shown
    for dimension in (2, 1024):
        kind = f"--kind vector --dimension {dimension} --people 1000 --epsilon"
        sizes = [planned(capsys, f"{kind} {epsilon}") for epsilon in ("4.4", "4.8")]
        assert [row["payload_bytes"] for row in sizes] == [9, 10]


def test_the_figure_of_the_first_page_is_current(capsys: pytest.CaptureFixture[str]) -> None:
    shown = section_of("README.md", "What it costs")
    people, direct = re.findall(r"\b[\d,]{4,}\b", shown)
    (line,) = re.findall(r"`deniable ([^`]+)`", shown)
    said = printed(capsys, line)
    assert f"{people} people give ± 1.0 points (95 %) for a share of 50 %;" in said
    assert f"about {direct} asked openly" in said
    assert "by more than a factor of 2.8" in plain(shown)
    assert " 2.8 " in printed(capsys, "odds 1")


def quoting() -> Iterator[tuple[str, str]]:
    """Yield the sections that quote output, each with its first command.

    The sentence before a quote may add other options.
    """
    document, seen = "simulations/STUDIES.md", set[str]()
    yield "minimax", "simulate minimax"  # this command has all its options in one line
    for block in ALL:
        if block.place[::2] == (document, "indented") and block.section not in seen:
            seen.add(block.section)
            text = section_of(document, block.section)
            if re.search(r"^> ", text, re.MULTILINE):
                (line,) = commands(block.text)
                options = re.search(r"with\s`(--share [^`]+)`", text)
                line = f"simulate survey FILE {options[1]}" if options else line
                yield block.section, line.removesuffix(" --json")


@pytest.mark.long
@pytest.mark.parametrize(("section", "line"), list(quoting()))
def test_a_study_prints_the_sentences_that_its_section_quotes(
    section: str, line: str, tmp_path: Path
) -> None:
    """Every quoted sentence below the command occurs in its output, to the digit."""
    if "FILE" in line:
        assert main(["survey", "new", str(tmp_path / "FILE")]) == 0
    command = [sys.executable, "-m", "deniable.shared.cli.command", *shlex.split(line)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr
    for quote in re.findall(
        r"(?:^> .*\n)+", section_of("simulations/STUDIES.md", section), re.MULTILINE
    ):
        for sentence in re.split(r"(?<=[.:;]) (?=[A-Z])", plain(quote)):
            assert sentence in plain(done.stdout), sentence
