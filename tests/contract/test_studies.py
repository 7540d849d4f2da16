"""Contract of studies, for every entry in the table of studies.

Each study runs in Python at a small size. The command then runs it with the same options and prints
JSON. All forms of the result must agree. The long tests write the page of every study.
"""

import csv
import io
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any, NoReturn

import pytest

from deniable.shared.errors import WrongUse
from deniable.simulations import Study, simulate
from deniable.simulations.engine.page import formula_svg
from deniable.simulations.engine.study import STUDIES, load, summaries
from deniable.simulations.engine.study_result import StudyResult, csv_bytes
from tests.command import run
from tests.simulations.small_studies import SMALL

# A limit, and a column that may not be below the limit.
LIMITS = (("limit", "exact"), ("limit_drawn", "exact_drawn"), ("limit_worst", "worst"),
          ("limit", "first_order"),
          ("lower_bound", "risk_exact"), ("lower_bound", "risk_bound"))  # fmt: skip
# Columns that are computed without sampling: by formula, exact sums, or the server's code.
REFERENCES = ("exact", "first_order", "risk_exact", "total", "guess_right", "half_width",
              "people_needed", "gap_needed", "y")  # fmt: skip
PAGES = ("repeat", "select", "survey")  # written in the fast tests; drawing takes most of the time
JARGON = r"minimax|histogram|locality|estimator|oracle|ε|δ"


@dataclass(frozen=True)
class Outcome:
    """Completed run of a study, and the command's output for the same run."""

    result: StudyResult
    printed: str


def run_both_ways(name: str) -> Outcome:
    result = simulate(name, on="local", **SMALL[name])
    words = as_words(load(name), SMALL[name])
    done = run("simulate", name, *words, "--on", "local", "--json")
    assert done.returncode == 0, done.stderr
    return Outcome(result, done.stdout)


def as_words(study: Study, options: Mapping[str, Any]) -> Iterator[str]:
    """Yield these options as words of the command line."""
    for option in study.options:
        if option.name not in options:
            continue
        value = options[option.name]
        values = value if isinstance(value, list) else [value]
        if option.positional:
            yield str(value)
        elif option.repeated:
            yield from (word for v in values for word in (f"--{option.name}", str(v)))
        else:
            yield from (f"--{option.name}", ",".join(map(str, values)))


def refuse_constant(name: str) -> NoReturn:
    raise AssertionError(f"{name} is not JSON")


def number(row: Mapping[str, Any], key: str) -> float | None:
    value = row.get(key)
    return float(value) if isinstance(value, (int, float)) else None


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_has_a_question_options_and_formulas(name: str) -> None:
    """The question is short and free of jargon, and no option hides an option of the engine."""
    study = load(name)
    assert study.name == name
    assert study.question.endswith("?")
    assert len(study.question) <= 95
    assert not re.search(JARGON, study.question)
    names = [option.name for option in study.options]
    assert len(set(names)) == len(names)
    assert not {"on", "out", "seed", "study", "json"} & set(names)
    assert all(option.help for option in study.options)
    assert summaries()[name]
    assert study.formulas
    for words, formula in study.formulas:
        assert words
        assert formula_svg(formula)


def test_every_study_has_a_small_size() -> None:
    """A study that is added must run here too."""
    assert set(SMALL) == set(STUDIES)


def check_that_the_command_prints_one_json_document(outcome: Outcome) -> None:
    document = json.loads(outcome.printed, parse_constant=refuse_constant)
    assert list(document)[:3] == ["options", "rows", "findings"]
    assert len(document["rows"]) == len(outcome.result.rows)
    again = json.loads(json.dumps(outcome.result.document))
    assert document == again


def check_that_rows_have_the_same_columns_everywhere(outcome: Outcome) -> None:
    rows = outcome.result.rows
    assert rows
    assert {tuple(row) for row in rows} == {tuple(rows[0])}
    written = list(csv.DictReader(io.StringIO(csv_bytes(rows).decode(), newline="")))
    assert len(written) == len(rows)
    for row, texts in zip(rows, written, strict=True):
        assert all(texts[key] == ("" if row[key] is None else str(row[key])) for key in row)


def check_that_rows_have_reference_values_and_keep_their_limits(outcome: Outcome) -> None:
    """Check the limits and reference values of every row, up to the rounding of doubles.

    `select` has its limits in people and votes. If the minimax estimate is 0, the hardest
    distribution has the largest mean, so its risk equals the bound.
    """
    rows: Sequence[Mapping[str, Any]] = outcome.result.rows
    assert any(number(row, key) is not None for row in rows for key in REFERENCES)
    pairs: Sequence[tuple[str, str]] = LIMITS
    if outcome.result.study.name == "select":
        pairs = (("limit", "gap_needed"), ("limit", "people_needed"))
    for row in rows:
        for limit, exact in ((number(row, a), number(row, b)) for a, b in pairs):
            assert limit is None or exact is None or limit <= exact * (1 + 1e-12), row


def check_that_text_begins_with_the_question_and_ends_with_the_findings(outcome: Outcome) -> None:
    text, report = repr(outcome.result), outcome.result.report
    assert text.startswith(f"{outcome.result.study.question}\n\n")
    assert text.endswith("\n".join(report.findings))
    assert 1 <= len(report.findings) <= 6
    for sentence in report.findings:
        assert re.match(r"[A-Z0-9]|n ", sentence), sentence
        assert sentence.endswith(".")
        assert "nan" not in sentence.lower().split()
    assert all(table.title in text for table in report.tables)


def check_that_the_page_has_findings_figures_tables_and_formulas(
    result: StudyResult, folder: Path
) -> None:
    report, study = result.report, result.study
    page = (folder / "index.html").read_text("utf-8")
    assert "<script" not in page
    assert all(sentence in unescape(page) for sentence in report.findings)
    assert page.count("<figure>") == len(report.figures) >= 1
    assert page.count("<table>") == len(report.tables) >= 1
    assert page.count("<dd><div") == len(study.formulas)
    assert report.method
    for figure in report.figures:
        assert figure.caption.endswith(".")
        assert (folder / f"{figure.name}.svg").stat().st_size
        assert (folder / f"{figure.name}.png").stat().st_size


def check_that_every_curve_of_a_figure_has_its_own_look(outcome: Outcome) -> None:
    for figure in outcome.result.report.figures:
        canvas = outcome.result.figure(figure.name)
        for legend in [*canvas.legends, *filter(None, (a.get_legend() for a in canvas.axes))]:
            looks = [(h.get_color(), h.get_linestyle(), h.get_marker()) for h in legend.get_lines()]
            assert len(set(looks)) == len(looks), figure.name


def check_that_the_run_record_names_the_options(result: StudyResult, folder: Path) -> None:
    record = tomllib.loads((folder / "run.toml").read_text("utf-8"))
    assert record["run"]["study"] == result.study.name
    assert set(record["arguments"]) == set(result.options)


def check_that_an_unknown_option_is_refused(outcome: Outcome) -> None:
    unknown: dict[str, Any] = {"no_such_option": 1}
    with pytest.raises(WrongUse, match="unknown option no_such_option"):
        simulate(outcome.result.study, **unknown)


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_fulfils_the_contract(name: str) -> None:
    """Run the study at a small size, in Python and by the command; then check what both return."""
    outcome = run_both_ways(name)
    check_that_the_command_prints_one_json_document(outcome)
    check_that_rows_have_the_same_columns_everywhere(outcome)
    check_that_rows_have_reference_values_and_keep_their_limits(outcome)
    check_that_text_begins_with_the_question_and_ends_with_the_findings(outcome)
    check_that_every_curve_of_a_figure_has_its_own_look(outcome)
    check_that_an_unknown_option_is_refused(outcome)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name not in PAGES)) for name in STUDIES]
)
def test_every_study_writes_its_page_and_record(name: str, tmp_path: Path) -> None:
    words = as_words(load(name), SMALL[name])
    done = run("simulate", name, *words, "--on", "local", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    result = simulate(name, on="local", **SMALL[name])
    check_that_the_page_has_findings_figures_tables_and_formulas(result, tmp_path)
    check_that_the_run_record_names_the_options(result, tmp_path)
    csv_file = (tmp_path / f"{name}.csv").read_bytes()
    assert csv_file == csv_bytes(result.rows)
