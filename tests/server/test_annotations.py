"""What operators know beside the reports: read strictly, again when it changes, never half."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from deniable.server.results.annotations import AnnotationFile, read_annotations
from deniable.server.store import PublishedSurvey
from deniable.shared.errors import WrongUse
from tests.server.results_data import NOW, fill
from tests.server.world import World, world

GOOD = """
[[mark]]
survey = "app-health"
day = 2027-01-20
text = "2.4 released"
[[mark]]
survey = "another"
day = 2027-01-20
text = "elsewhere"
[[known]]
survey = "app-health"
question = "crashed"
label = "yes"
day = 2027-02-03
value = 0.1
"""


@pytest.fixture
def here(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path / "data", NOW) as made:
        yield made


@pytest.fixture
def published(here: World) -> PublishedSurvey:
    return fill(here)


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "annotations.toml"
    file.write_text(text, "utf-8")
    return file


def test_a_day_means_its_round_and_a_name_or_an_id_the_survey(
    tmp_path: Path, published: PublishedSurvey
) -> None:
    for name in ("app-health", published.id):
        read = read_annotations(written(tmp_path, GOOD.replace("app-health", name)))
        assert read.marks_of(published) == {684: "2.4 released"}
        assert read.known_of(published, "crashed") == {(685, "yes"): 0.1}
        assert read.known_of(published, "minutes") == {}


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('text = "2.4', 'words = "2.4', "mark[1].text"),
        ("day = 2027-01-20", 'day = "soon"', "mark[1].day"),
        ("value = 0.1", 'value = "a tenth"', "known[1].value"),
        ("[[known]]", "[[knwon]]", "knwon"),
        ("[[mark]]", "[mark", "annotations.toml"),
        ('label = "yes"', 'label = "yes"\ncolour = 1', "known[1].colour"),
    ],
)
def test_a_mistake_is_said_with_its_place(tmp_path: Path, old: str, new: str, says: str) -> None:
    with pytest.raises(WrongUse, match=r"annotations\.toml") as caught:
        read_annotations(written(tmp_path, GOOD.replace(old, new, 1)))
    assert says in str(caught.value)


def test_it_is_read_again_when_it_changes_and_what_cannot_be_read_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = written(tmp_path, GOOD)
    kept = AnnotationFile(file)
    assert len(kept.annotations().marks) == 2
    written(tmp_path, GOOD + GOOD)
    assert len(kept.annotations().marks) == 4
    written(tmp_path, "[[mark")
    assert [len(kept.annotations().marks) for _ in range(3)] == [4, 4, 4]
    assert len(caplog.records) == 1, "said once, and not at each page"
    file.unlink()
    assert len(kept.annotations().marks) == 4
    assert AnnotationFile(None).annotations().marks == ()
