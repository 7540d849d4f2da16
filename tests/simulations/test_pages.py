"""Pages of studies: clear answers, typeset formulas, and full keyboard access."""

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from matplotlib.mathtext import MathTextParser

from deniable.shared.errors import WrongUse
from deniable.simulations import simulate
from deniable.simulations.engine.estimators import POINTS
from deniable.simulations.engine.figures import INK, LOOKS, ON_DARK, SHUFFLED_LOOK
from deniable.simulations.engine.page import (
    MAX_OPEN_ROWS,
    PAGE_STYLE,
    card,
    formula_svg,
    index_page,
)
from deniable.simulations.engine.study import load
from deniable.simulations.engine.study_result import csv_bytes

EPSILONS = [0.5, 1, 2, 4]
SHORT: dict[str, Any] = {"epsilon": 1, "people": [100, 1000], "repetitions": 9}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the pages of a study with a long table and of one with short tables."""
    folder, many = tmp_path_factory.mktemp("pages"), [10**power for power in range(2, 9)]
    found = {
        "counts": simulate("counts", epsilon=EPSILONS, people=many, repetitions=9, counts=[1, 4]),
        "median": simulate("median", **SHORT),
    }
    return {name: page.write(folder / name).read_text("utf-8") for name, page in found.items()}


# Formulas


def above_and_below(formula: str) -> tuple[str, str]:
    """Return the glyphs above and below the only fraction bar of a formula, as typeset."""
    layout = MathTextParser("path").parse(f"${formula}$", 72)
    ((left, bar, width, _),) = layout.rects
    glyphs = sorted((float(x), float(y), chr(code)) for _, _, code, *_, x, y in layout.glyphs)
    inside = [(y, text) for x, y, text in glyphs if left <= x <= left + width]
    above = "".join(text for y, text in inside if y > bar)
    return above, "".join(text for y, text in inside if y < bar)


@pytest.mark.parametrize("name", ["regression", "median", "synthetic"])
def test_the_fraction_one_over_tanh_has_its_argument_below_the_bar(name: str) -> None:
    """Twin: the misread formula (1 / tanh)(ε / 2) has the argument outside."""
    (formula,) = {
        part.strip()
        for _, formula in load(name).formulas
        for part in formula.split(r"\quad")
        if "tanh" in part
    }
    right = formula.partition("= ")[2].rstrip(", ")
    assert above_and_below(right) == ("1", "tanh(ε/2)")
    assert above_and_below(r"\dfrac{1}{\tanh}(ε / 2)") == ("1", "tanh")


def test_a_formula_has_the_text_colour_and_is_drawn_deterministically() -> None:
    drawing = formula_svg(r"\dfrac{1}{n m^2}")
    assert drawing == formula_svg(r"\dfrac{1}{n m^2}")
    assert INK in drawing
    ET.fromstring(drawing[drawing.index("<svg") :])  # trusted


@pytest.mark.parametrize("text", ["\\frac{a}", "(a}", "\\nosuch", "a^"])
def test_a_wrong_formula_is_refused(text: str) -> None:
    with pytest.raises(WrongUse, match="formula"):
        formula_svg(text)


# Pages


@pytest.mark.parametrize("name", ["counts", "median"])
def test_a_page_begins_with_its_answer_and_hides_nothing(pages: dict[str, str], name: str) -> None:
    page, study = pages[name], load(name)
    assert page.startswith('<!doctype html>\n<html lang="en">')
    assert page.count("<main>") == page.count("<h1>") == 1
    assert "<script" not in page
    assert page.index("<h1>") < page.index('class="finding"') < page.index("<svg ")
    assert page.index("<svg ") < page.index("<table>") < page.index("<dl>")
    assert page.count("<dd><div") == len(study.formulas)
    assert f'href="{name}.csv"' in page
    assert f"<code>{study.run.__module__}</code>" in page
    for link in re.findall(r'href="#([^"]+)"', page):
        assert f'id="{link}"' in page


@pytest.mark.parametrize("name", ["counts", "median"])
def test_scrolling_boxes_can_be_reached_by_keyboard(pages: dict[str, str], name: str) -> None:
    """Every box that may be wider than a phone can be focused and has a name; ids are unique."""
    boxes = re.findall(r'<(?:div class="wide"|pre)([^>]*)>', pages[name])
    assert len(boxes) >= 7
    for box in boxes:
        assert re.search(r'tabindex="0" role="region" aria-label="[^"]+"', box), box
    assert "overflow-x: auto" in PAGE_STYLE
    labels = re.findall(r'<svg role="img" aria-label="([^"]+)"', pages[name])
    assert len(labels) == pages[name].count("<svg ")
    named = re.findall(r'\bid="([^"]+)"', pages[name])
    assert len(named) == len(set(named))


def test_a_long_table_is_folded_behind_the_figures(pages: dict[str, str]) -> None:
    assert pages["counts"].count(f"({4 * 8} rows)</summary>") == 1
    assert "rows)</summary>" not in pages["median"]
    assert MAX_OPEN_ROWS < 4 * 8


def test_the_python_of_a_page_computes_its_numbers(pages: dict[str, str], tmp_path: Path) -> None:
    """Run the snippet unchanged, without its markup; the other snippet reads its output."""
    from html import unescape

    both = re.findall(r"<pre[^>]*Python[^>]*>(.*?)</pre>", pages["median"], re.DOTALL)
    names: dict[str, object] = {}
    exec(unescape(both[0]), names)  # a snippet of this repository
    found = names["result"]
    assert getattr(found, "rows", None) == simulate("median", **SHORT).rows
    assert all(sentence in unescape(pages["median"]) for sentence in found.findings)  # type: ignore[attr-defined]  # of a snippet
    (tmp_path / "median.csv").write_bytes(csv_bytes(found.rows))  # type: ignore[attr-defined]  # as above
    exec(unescape(both[1]).replace('"median.csv"', repr(str(tmp_path / "median.csv"))), names)
    assert len(names["rows"]) == len(found.rows)  # type: ignore[arg-type, attr-defined]  # as above


def test_an_index_has_a_card_for_each_study() -> None:
    found = simulate("median", epsilon=1, people=[100, 1000], repetitions=9)
    page = index_page([card(found.study, found.report)])
    assert page.count("<li>") == page.count("<img ") == 1
    shown = page[page.index("<li>") :]
    assert f'alt="{found.report.figures[0].caption[:40]}' in shown
    assert '<a href="median/index.html">' in shown
    assert shown.index(found.study.question) < shown.index("<img ") < shown.index("With 100 people")


def test_each_panel_of_a_figure_has_the_limit_of_its_target() -> None:
    """Each limit is drawn at the values of the rows. Twin: the two limits differ."""
    found = simulate("counts", epsilon=1, people=100, repetitions=9, counts=[1, 4])
    drawn = []
    for axes, column in zip(found.figure("counts").axes, ("limit", "limit_drawn"), strict=True):
        lines = {line.get_label(): line for line in axes.lines}
        limits = [row[column] for row in found.rows if row["estimator"] == "one-question"]
        values = (np.asarray(lines["local limit"].get_ydata(), float) / POINTS.factor) ** 2
        assert sorted(values) == pytest.approx(sorted(map(float, limits)))  # type: ignore[arg-type]  # numbers
        drawn.append(sorted(values))
    assert drawn[0] != pytest.approx(drawn[1])


# Colours


def luminance(color: str) -> float:
    parts = (int(color[start : start + 2], 16) / 255 for start in (1, 3, 5))
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_text_has_enough_contrast_in_light_and_dark() -> None:
    """Require a contrast of 4.5 for text, and of 3 for lines on a dark page.

    Twin: a colour of the light page has too little contrast there.
    """
    light, dark = (
        dict(re.findall(r"--(\w+): (#\w+)", part)) for part in PAGE_STYLE.split("@media", 2)[:2]
    )
    assert contrast(light["ink"], "#ffffff") > contrast(light["faint"], "#ffffff") >= 4.5
    assert contrast(dark["ink"], dark["paper"]) > contrast(dark["faint"], dark["paper"]) >= 4.5
    assert contrast(light["faint"], light["soft"]) >= 4.5
    assert contrast(INK, "#ffffff") >= 4.5
    assert {look.color for look in (*LOOKS, SHUFFLED_LOOK)} <= set(ON_DARK)
    for color, on_dark in ON_DARK.items():
        assert dark[f"c{color[1:]}"] == on_dark
        assert contrast(on_dark, dark["paper"]) >= 4.5
    assert contrast("#8c510a", dark["paper"]) < 3
