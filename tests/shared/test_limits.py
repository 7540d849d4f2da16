"""Limits: the last accepted value, and the first refused value."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from deniable.shared.envelope import MAX_BODY_BYTES, MAX_REPORTS
from deniable.shared.errors import InvalidSurvey, WrongUse
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import KRandomizedResponse, mechanisms
from deniable.shared.privacy.verification import grid
from deniable.shared.survey.document import Survey, parse_document, parse_toml, render_document

VECTOR: dict[str, Any] = json.loads(
    (Path(__file__).parent.parent / "vectors" / "survey.json").read_text()
)
TOML: str = VECTOR["toml"]
HEAD = TOML[: TOML.index("[[question]]")]
FIRST, LAST = date(1970, 1, 1), date(8999, 12, 31)
DAY = timedelta(days=1)

EDGES = [  # a line, its last accepted value, its first refused value, and the reason
    ("grace_days = 14", "grace_days = 0", "grace_days = -1", "0 to 366, got -1"),
    ("grace_days = 14", "grace_days = 366", "grace_days = 367", "0 to 366, got 367"),
    ("retention_days = 90", "retention_days = 0", "retention_days = -1", "0 to 3660, got -1"),
    ("retention_days = 90", "retention_days = 3660", "retention_days = 3661", "0 to 3660, got 36"),
    ("minimum_reports = 100", "minimum_reports = 1", "minimum_reports = 0", "1 to 1000000000"),
    (
        "minimum_reports = 100",
        "minimum_reports = 1000000000",
        "minimum_reports = 1000000001",
        "1 to 1000000000",
    ),
    ("How is the app doing?", "x" * 2_000, "x" * 2_001, "1 to 2000 characters"),
    ("low = 0", f"low = {-(2**53)}", f"low = {-(2**53) - 1}", "between -2^53 and 2^53"),
    ("high = 120", f"high = {2**53}", f"high = {2**53 + 1}", "between -2^53 and 2^53"),
    ("grid = 64", "grid = 1", "grid = 0", "1 to 255 steps, got 0"),
    ("grid = 64", "grid = 255", "grid = 256", "1 to 255 steps, got 256"),
]

TO_4096 = (2, 3, 4, 5, 8, 16, 33, 100, 256, 1_024, 4_096)
SIZES = {  # minimum and maximum size of each mechanism, and the sizes of its proofs
    "randomized-response": (2, 2, (2,)),
    "k-randomized-response": (2, 65_536, (*TO_4096, 8_192, 20_000, 65_536)),
    "subset-selection": (2, 8_192, (*TO_4096, 8_192)),
    "unary": (2, 8_192, (*TO_4096, 8_192)),
    "projective-geometry": (2, 65_536, (*TO_4096, 8_192, 20_000, 65_536)),
    "one-bit-mean": (1, 1, (1,)),
    "local-laplace": (1, 255, (1, 2, 3, 8, 64, 100, 255)),
    "ternary": (2, 2, (2,)),
    "split-sign": (2, 2, (2,)),
    # only examples; a survey's own table is proved when the survey is read
    "optimal-table": (2, 32, (4,)),
    "square-wave": (2, 128, (2, 3, 8, 16, 64, 100, 128)),
    "k-closest": (2, 1_024, (2, 3, 11, 100, 1_000, 1_024)),
}
CHOICES = [name.removeprefix("grouped-") for name in mechanisms("text")]
SIZES |= {f"grouped-{name}": SIZES[name] for name in CHOICES}
EPSILONS = ["0.01", "0.05", "0.1", "0.3", "0.5", "0.7", "1", "1.386"]
EPSILONS += ["2", "3", "4", "5", "8", "12", "16", "20"]


def changed(old: str, new: str) -> str:
    assert old in TOML
    return TOML.replace(old, new, 1)


def dated(opens: date, closes: date, period: str = "once") -> str:
    other_days = HEAD.replace("2026-12-01", str(opens)).replace("2027-02-28", str(closes))
    return other_days.replace('"month"', f'"{period}"') + bits(1)


def bits(number: int) -> str:
    return "".join(
        f'[[question]]\nname = "q{n}"\nkind = "bit"\nover = "first"\nepsilon = "1"\n'
        for n in range(number)
    )


def choice(options: int, mechanism: str) -> str:
    listed = json.dumps([f"option {number}" for number in range(options)])
    return (
        f'{HEAD}[[question]]\nname = "q"\nkind = "choice"\nover = "first"\nepsilon = "1"\n'
        f'options = {listed}\nmechanism = "{mechanism}"\n'
    )


def refusal(parse: Callable[[], Survey]) -> str:
    with pytest.raises(InvalidSurvey) as caught:
        parse()
    return str(caught.value)


@pytest.mark.parametrize(("line", "taken", "refused", "reason"), EDGES, ids=lambda text: text[:24])
def test_values_are_accepted_up_to_their_limit(
    line: str, taken: str, refused: str, reason: str
) -> None:
    parse_toml(changed(line, taken))
    assert reason in refusal(lambda: parse_toml(changed(line, refused)))


def test_days_are_in_years_whose_rounds_can_be_computed() -> None:
    for day in (FIRST, LAST):
        parse_toml(dated(day, day))
    for opens, closes in ((FIRST - DAY, FIRST), (LAST, LAST + DAY)):
        assert "years from 1970 to 8999" in refusal(partial(parse_toml, dated(opens, closes)))


def test_a_survey_has_at_most_ten_thousand_rounds() -> None:
    last = FIRST + 9_999 * DAY
    assert parse_toml(dated(FIRST, last, "day")).rounds == 10_000
    beyond = refusal(lambda: parse_toml(dated(FIRST, last + DAY, "day")))
    assert "10001 rounds, more than 10000" in beyond


def test_a_survey_has_one_to_a_hundred_questions() -> None:
    for number in (1, 100):
        assert len(parse_toml(HEAD + bits(number)).questions) == number
    assert "1 to 100 questions" in refusal(lambda: parse_toml(HEAD + bits(101)))
    assert "1 to 100 questions" in refusal(lambda: parse_toml("question = []\n" + HEAD))


def test_a_document_is_read_up_to_four_mebibytes() -> None:
    document = VECTOR["document"].encode().ljust(4 * 1024 * 1024)
    assert render_document(parse_document(document)) == document.rstrip(b" ")
    assert "larger than 4194304 bytes" in refusal(lambda: parse_document(document + b" "))


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (0, "1 to 1000"),
        (2, "reads format 1; upgrade it"),
        (1_000, "reads format 1; upgrade it"),
        (1_001, "1 to 1000"),
    ],
)
def test_an_unknown_format_is_distinguished_from_a_wrong_one(number: int, says: str) -> None:
    assert says in refusal(lambda: parse_toml(f"deniable = {number}\n{TOML}"))


def test_grace_retention_and_reports_default_to_14_90_and_100() -> None:
    """Without a number of reports, the planned margin decides unless the survey says otherwise."""
    text = TOML
    for line in ("grace_days = 14\n", "retention_days = 90\n", "minimum_reports = 100\n"):
        assert line in text
        text = text.replace(line, "")
    assert parse_toml(text).show_when == 25
    limited = replace(parse_toml(text), show_when=None)
    assert render_document(limited) == render_document(parse_toml(TOML))


@pytest.mark.parametrize(("step", "published"), [(5, 5), (20, None), (1_000_000, 1_000_000)])
def test_a_document_states_its_step_only_if_it_is_not_the_default(
    step: int, published: int | None
) -> None:
    document = render_document(parse_toml(TOML.replace("grace_days", f"step = {step}\ngrace_days")))
    assert json.loads(document)["survey"].get("step") == published
    assert parse_document(document).step == step


@pytest.mark.parametrize("name", mechanisms())
def test_a_mechanism_is_proved_at_its_smallest_and_largest_sizes(name: str) -> None:
    each = mechanisms()[name]
    least, most, proved = SIZES[name]
    assert (each.sizes[0], each.sizes[-1], each.proved_sizes) == (least, most, proved)
    assert each.given or {proved[0], proved[-1]} == {least, most}


@pytest.mark.parametrize("name", mechanisms("choice"))
def test_a_choice_has_as_many_options_as_its_mechanism_allows(name: str) -> None:
    least, most, _ = SIZES[name]
    for size in (least, most):
        (question,) = parse_toml(choice(size, name)).questions
        assert question.mechanism.size == size
    for size in (least - 1, most + 1):
        reason = f"{least} to {most} options, got {size}"
        assert reason in refusal(partial(parse_toml, choice(size, name)))


def test_the_grid_of_proofs_has_every_mechanism_at_every_size_and_epsilon() -> None:
    proved = [(design.name, design.size, str(design.epsilon)) for design in grid()]
    assert len(proved) == len(set(proved))
    assert set(proved) == {
        (name, size, epsilon)
        for name, (_, _, sizes) in SIZES.items()
        for size in sizes
        for epsilon in EPSILONS
    }


def test_a_table_is_printed_up_to_a_million_probabilities() -> None:
    rows = KRandomizedResponse(Epsilon("1"), 1_000).written_out()["rows"]
    assert sum(map(len, rows)) == 1_000_000
    with pytest.raises(
        WrongUse, match="1001 × 1001 cells is too large to print: at most 1,000,000"
    ):
        KRandomizedResponse(Epsilon("1"), 1_001).written_out()


def test_a_body_has_at_most_a_mebibyte_and_an_envelope_65536_reports() -> None:
    assert (MAX_BODY_BYTES, MAX_REPORTS) == (1024 * 1024, 65_536)
