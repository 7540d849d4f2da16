"""Template of a page: its fields are filled with options, values and rows."""

import pytest

from deniable.simulations.engine.estimators import THESE, Estimator, Risk, Rows, row_of
from deniable.simulations.engine.figures import LOOKS
from deniable.simulations.engine.presentation import TRUST, PageText, View, study
from deniable.simulations.engine.study import load

TEXT = PageText(
    "mine",
    """What does it cost?

With {people:,} people at ε {epsilon}, the error is {local:margin} points; {share:percent} of
{local[people]} is {third:figure}.

{nothing}

The largest of {first[people]} and {last[people]} is {most[people]}; {at[mine]:margin} and
{rows[0]:margin} points.

The guarantee {TRUST}.

= error
An error at ε {epsilon}.

= method
One paragraph.

= formulas
the error: \\dfrac{V}{n}
""",
)
LOCAL = Estimator("local", "mine", "mine", LOOKS[0])
OPTIONS = {"epsilon": ["0.5", "1", "2"], "people": [1000, 2000], "share": 0.25}
ROW = row_of(LOCAL, {"people": 1000, "epsilon": "1"}, {}, Risk(1e-4))
VIEW = View(TEXT, OPTIONS, Rows([ROW, row_of(LOCAL, {**ROW, "people": 2000}, {}, Risk(1.0))]))


def test_fields_have_options_values_and_rows_in_their_format() -> None:
    """The middle value of a list is shown; a paragraph without words is left out."""
    values = {"local": ROW, "third": 1 / 3, "nothing": ""}
    report = VIEW.report(values, {"error": lambda: pytest.fail("not drawn")}, [])
    assert report.findings == [
        "With 1,000 people at ε 1, the error is ± 1.96 points; 25.0 % of 1000 is 0.333.",
        "The largest of 1000 and 2000 is 2000; ± 1.96 and ± 1.96 points.",
        f"The guarantee {TRUST}.",
    ]
    assert [(figure.name, figure.caption) for figure in report.figures] == [
        ("error", "An error at ε 1.")
    ]
    assert report.method == ["One paragraph."]
    assert VIEW.words("method") == "One paragraph."
    assert Rows([ROW]).one(LOCAL)[THESE.exact] == 1e-4


def test_a_view_has_the_middle_value_of_each_option_and_the_rows_there() -> None:
    rows = [{"estimator": None, "people": n, "epsilon": e} for n in (1, 2, 3) for e in ("1", "2")]
    view = View(TEXT, {"people": [1, 2, 3], "epsilon": ["1", "2"], "share": 0.3}, Rows(rows))
    assert (view.people, view.epsilon, view.share) == (2, "1", 0.3)
    assert [row["people"] for row in view.along("people")] == [1, 2, 3]
    assert view.cell == ({"estimator": None, "people": 2, "epsilon": "1"},)
    with pytest.raises(AttributeError, match="other"):
        _ = view.other


def test_a_study_has_the_question_and_the_formulas_of_its_text() -> None:
    mine = study("mine", (), lambda _: [], lambda _cell, _generator: [], lambda _: None, TEXT.text)  # type: ignore[arg-type, return-value]  # none is called
    assert (mine.name, mine.question) == ("mine", "What does it cost?")
    assert mine.formulas == [("the error", "\\dfrac{V}{n}")]


def test_an_unknown_field_and_a_figure_without_a_caption_are_errors() -> None:
    with pytest.raises(KeyError, match="local"):
        VIEW.report({"third": 1.0, "nothing": ""}, {}, [])
    values = {"local": ROW, "third": 1.0, "nothing": ""}
    with pytest.raises(KeyError, match="other"):
        VIEW.report(values, {"other": lambda: pytest.fail("not drawn")}, [])


def test_a_built_in_study_reads_its_file() -> None:
    assert study("bit", (), *[lambda *_: []] * 3).question == load("bit").question  # type: ignore[arg-type]  # none is called
