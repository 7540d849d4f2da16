"""Template of a page: its fields are filled with options, values and rows."""

import pytest

from deniable.simulations.engine.estimators import THESE, Estimator, Risk, Rows, row_of
from deniable.simulations.engine.figures import LOOKS
from deniable.simulations.engine.page_text import PageText
from deniable.simulations.engine.sentences import TRUST
from deniable.simulations.engine.study import load

TEXT = PageText(
    "mine",
    """What does it cost?

With {people:,} people at ε {epsilon}, the error is {local:margin} points; {share:percent} of
{local[people]} is {third:figure}.

{nothing}

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
ROW = row_of(LOCAL, {"people": 7}, {}, Risk(1e-4))


def test_fields_have_options_values_and_rows_in_their_format() -> None:
    """The middle value of a list is shown; a paragraph without words is left out."""
    values = {"local": ROW, "third": 1 / 3, "nothing": ""}
    report = TEXT.report(OPTIONS, values, {"error": lambda: pytest.fail("not drawn")}, [])
    assert report.findings == [
        "With 1,000 people at ε 1, the error is ± 1.96 points; 25.0 % of 7 is 0.333.",
        f"The guarantee {TRUST}.",
    ]
    assert [(figure.name, figure.caption) for figure in report.figures] == [
        ("error", "An error at ε 1.")
    ]
    assert report.method == ["One paragraph."]
    assert Rows([ROW]).one(LOCAL)[THESE.exact] == 1e-4


def test_a_study_has_the_question_and_the_formulas_of_its_text() -> None:
    study = TEXT.study((), lambda _: [], lambda _cell, _generator: [], lambda _o, _r: None)  # type: ignore[arg-type, return-value]  # none is called
    assert (study.name, study.question) == ("mine", "What does it cost?")
    assert study.formulas == [("the error", "\\dfrac{V}{n}")]


def test_an_unknown_field_and_a_figure_without_a_caption_are_errors() -> None:
    with pytest.raises(KeyError, match="local"):
        TEXT.report(OPTIONS, {"third": 1.0, "nothing": ""}, {}, [])
    values = {"local": ROW, "third": 1.0, "nothing": ""}
    with pytest.raises(KeyError, match="other"):
        TEXT.report(OPTIONS, values, {"other": lambda: pytest.fail("not drawn")}, [])


def test_a_built_in_study_reads_its_file() -> None:
    assert PageText("bit").study((), *[lambda *_: []] * 3).question == load("bit").question  # type: ignore[arg-type]  # none is called
