"""Results through a relay: amplification is stated only if it holds."""

from __future__ import annotations

from html import unescape
from pathlib import Path
from typing import Any

import msgspec
import pytest

from deniable.server.http.context import COOKIE
from deniable.server.results import Results
from deniable.server.results.sentences import shuffle_sentences, shuffled
from tests.server.surveys import BIT, EACH_KIND, survey
from tests.server.world import World
from tests.shared.test_sealing import PUBLIC


def test_amplification_is_computed_for_a_batch_not_for_a_round() -> None:
    """The server sees batches arrive, so a report hides only within its batch."""
    batch, whole = shuffled(survey(sealed_to=PUBLIC), 54_321)
    assert (batch.among, batch.people, batch.epsilon) == ("batch", 1_000, "0.149")
    assert (whole.among, whole.people, whole.epsilon) == ("round", 50_000, "0.0182")
    assert batch.delta == whole.delta == "0.000001"
    told = (Path(__file__).parents[2] / "server/DEPLOYING.md").read_text("utf-8")
    words = f"ε is {batch.epsilon} for 1,000 people and {whole.epsilon} for\n  50,000"
    assert words in told


def test_a_small_round_is_one_batch() -> None:
    (batch,) = shuffled(survey(sealed_to=PUBLIC), 300)
    assert (batch.people, float(batch.epsilon) > 0.149) == (300, True)


def test_a_report_spends_the_sum_of_its_questions() -> None:
    """The questions of one report spend ε 0.5 + 2 + 1, more than any single question."""
    few = float(shuffled(survey(EACH_KIND, sealed_to=PUBLIC), 1_000)[0].epsilon)
    assert 0.397 < few < 1.853


@pytest.mark.parametrize(
    ("changes", "reports"),
    [({}, 5_000), ({"sealed_to": PUBLIC}, 1), ({"sealed_to": PUBLIC}, 0),
     ({"sealed_to": PUBLIC, "repeat": "latched", "repeat_rounds": 3}, 5_000)],
    ids=["not sealed", "one", "none", "latched"],
)  # fmt: skip
def test_amplification_is_not_stated_where_it_would_be_false(
    changes: dict[str, Any], reports: int
) -> None:
    assert shuffled(survey(**changes), reports) == ()


def test_amplification_is_in_the_document_the_text_and_the_page(here: World) -> None:
    from deniable.server.results.export import report_lines
    from deniable.server.store import Upload
    from tests.server.surveys import envelope

    asked = here.publish(survey(BIT, sealed_to=PUBLIC))
    sent = [envelope(asked, number) for number in range(50)]
    uploads = [Upload(asked, e.round, e.id, e.count, e.payload, None) for e in sent]
    here.writer.write(uploads)
    bearer = here.bearer("analyst")
    text = here.client.get(f"/v1/surveys/{asked.id}/results", headers=bearer).data
    results = msgspec.json.decode(text, type=Results)
    (stated,) = next(round_.shuffled or () for round_ in results.rounds if round_.reports)
    assert (stated.people, stated.among) == (50, "batch")
    (sentence,) = shuffle_sentences((stated,), "1")
    assert "If the relay and the 50 people" in sentence
    assert sentence in " ".join(" ".join(report_lines(results)).split())
    browser = here.app.test_client()
    browser.set_cookie(COOKIE, here.session(here.token("analyst")))
    page = browser.get(f"/surveys/{asked.id}").get_data(as_text=True)
    assert sentence in unescape(page)
