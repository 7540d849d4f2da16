"""Results through a relay: amplification is stated only if it holds."""

from __future__ import annotations

from collections.abc import Mapping
from html import unescape
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from deniable.server.archive import archive_round, recount, rounds_of
from deniable.server.http.context import COOKIE
from deniable.server.results import Results, survey_results
from deniable.server.results.document import Relayed, RoundFacts
from deniable.server.results.sentences import shuffle_sentences, shuffled
from deniable.server.results.survey_estimates import RoundSelection, stored_estimates
from deniable.server.store import PublishedSurvey, Upload
from deniable.server.store.records import SETTLING
from deniable.shared.envelope import encode_report
from tests.documents import text_of
from tests.server.surveys import BIT, EACH_KIND, envelope, survey
from tests.server.world import NOON, World
from tests.shared.test_sealing import PUBLIC


def facts(reports: int, smallest: int) -> RoundFacts:
    """Return the facts of a round with these reports, and this many of them in one batch."""
    relayed = Relayed(smallest_batch=smallest, alone=False, dropped=0)
    return RoundFacts(
        round=683, first_day="2026-12-01", last_day="2026-12-31", state="final",
        final_on="2027-01-15", confidence=0.95, any_time=False, covers="all", reports=reports,
        relayed=relayed, note=None,
    )  # fmt: skip


def test_amplification_is_computed_for_the_smallest_batch_not_for_a_round() -> None:
    """The server sees batches arrive, so a report hides only within its batch."""
    batch, whole = shuffled(survey(sealed_to=PUBLIC), facts(54_321, 1_000))
    assert (batch.among, batch.people, batch.epsilon) == ("batch", 1_000, "0.149")
    assert (whole.among, whole.people, whole.epsilon) == ("round", 50_000, "0.0182")
    assert batch.delta == whole.delta == "0.000001"
    shown = " ".join(text_of("server/GUARANTEES.md").split())
    assert f"ε is {batch.epsilon} for 1,000 people and {whole.epsilon} for 50,000" in shown


def test_a_small_batch_is_stated_although_the_round_is_large() -> None:
    (batch, _) = shuffled(survey(sealed_to=PUBLIC), facts(5_000, 10))
    assert (batch.people, batch.epsilon) == (10, "1")


def test_a_small_round_is_one_batch() -> None:
    (batch,) = shuffled(survey(sealed_to=PUBLIC), facts(300, 300))
    assert (batch.people, float(batch.epsilon) > 0.149) == (300, True)


def test_a_report_spends_the_sum_of_its_questions() -> None:
    """The questions of one report spend ε 0.5 + 2 + 1, more than any single question."""
    few = float(shuffled(survey(EACH_KIND, sealed_to=PUBLIC), facts(1_000, 1_000))[0].epsilon)
    assert 0.397 < few < 1.853


@pytest.mark.parametrize(
    ("changes", "smallest"),
    [({"sealed_to": PUBLIC}, 0),
     ({"sealed_to": PUBLIC, "repeat": "latched", "repeat_rounds": 3}, 5_000)],
    ids=["no batch", "latched"],
)  # fmt: skip
def test_amplification_is_not_stated_where_it_would_be_false(
    changes: dict[str, Any], smallest: int
) -> None:
    assert shuffled(survey(**changes), facts(5_000, smallest)) == ()


@pytest.mark.parametrize(
    ("number", "people"),
    [(1, "1 person in the smallest batch is"), (7, "7 people in the smallest batch are")],
)
def test_crowds_are_read_from_the_batches(here: World, number: int, people: str) -> None:
    """A report that came alone hides in no batch, and a lost batch is no crowd."""
    asked = here.publish(survey(BIT, sealed_to=PUBLIC))
    send(here, asked, {b"one": 50, b"other": number, b"": 3})
    here.store.count_dropped(asked.sequence, 683, b"dropped", 12)
    here.store.count_dropped(asked.sequence, 683, b"dropped", 12)  # the relay was killed
    crowd = here.store.crowds(asked.sequence)[683]
    assert crowd == (number, 50 + number, 12, ())
    results = final_results(here, asked)
    (period,) = results.rounds
    assert period.relayed == Relayed(smallest_batch=number, alone=True, dropped=12)
    said = " ".join(shuffle_sentences(period, "1"))
    assert f"the {people} honest" in said
    assert "Some of these reports came without a relay" in said
    assert "Relays dropped 12 reports" in said


def test_labels_divide_the_crowd_of_a_batch(here: World) -> None:
    """The server sees labels in clear, so a report hides only among those with the same labels."""
    label = '[[label]]\nname = "version"\nvalues = ["1.0", "2.0"]\n'
    asked = here.publish(survey(label + BIT, sealed_to=PUBLIC))
    uploads = []
    for number in range(30):
        version = "1.0" if number < 26 else "2.0"
        payload = encode_report(asked.survey, (0,), {"version": version})
        uploads.append(
            Upload(asked, 683, number.to_bytes(16, "big"), 1, payload, batch=b"the batch")
        )
    here.writer.write(uploads)
    assert here.store.crowds(asked.sequence)[683][:3] == (4, 30, 0)
    results = final_results(here, asked)
    (stated,) = results.rounds[0].shuffled or ()
    assert (stated.among, stated.people) == ("batch", 4)


def test_each_value_of_a_label_has_its_own_smallest_crowd(here: World, tmp_path: Path) -> None:
    """A rare value does not weaken the statement about others, and an archive keeps it."""
    labels = (
        '[[label]]\nname = "version"\nvalues = ["1.0", "2.0", "3.0"]\n'
        '[[label]]\nname = "theme"\npattern = "[a-z]+"\n'
    )
    asked = here.publish(survey(labels + BIT, sealed_to=PUBLIC))
    crowds = [
        (b"one", "1.0", "dark", 300), (b"one", "2.0", "dark", 250), (b"one", "3.0", "dark", 2),
        (b"two", "1.0", "dark", 260), (b"two", "2.0", "light", 210), (b"two", None, None, 200),
    ]  # fmt: skip
    uploads = [
        Upload(asked, 683, (1000 * crowd + number).to_bytes(16), 1, payload, batch=batch)
        for crowd, (batch, version, theme, reports) in enumerate(crowds)
        for payload in [encode_report(asked.survey, (0,), {"version": version, "theme": theme})]
        for number in range(reports)
    ]
    here.writer.write(uploads)
    (period,) = final_results(here, asked).rounds
    found = {
        (part.name, part.value): part.shuffled and part.shuffled.people
        for part in period.labels or ()
    }
    assert found == {
        ("version", "1.0"): 260, ("version", "2.0"): 210, ("version", "other"): 2,
        ("theme", "dark"): 2, ("theme", "light"): 210, ("theme", "other"): 200,
    }  # fmt: skip
    said = " ".join(shuffle_sentences(period, "1"))
    assert "one report reveals at most ε 0.307 for 1.0 (260 people), ε 0.345 for 2.0" in said
    moment = asked.survey.taken_until(683) + SETTLING
    (tally,) = here.store.tallies(asked.sequence)
    archive_round(here.store, asked, tally, tmp_path)
    (kept,) = rounds_of(tmp_path)
    among = {683: kept.manifest.crowd}
    counted = recount([kept])[asked.id]
    (again,) = survey_results(kept.published, counted, moment, 683, crowds=among).rounds
    assert again == period


def final_results(here: World, asked: PublishedSurvey) -> Results:
    selected, final = RoundSelection(683, 683), asked.survey.taken_until(683) + SETTLING
    return stored_estimates(here.store, asked, final, selected).document()


@pytest.mark.parametrize("reports", [30, 60])
def test_crowds_are_not_stated_before_a_round_is_final(here: World, reports: int) -> None:
    """The growing size of an arriving batch would show each report."""
    asked = here.publish(survey(BIT, sealed_to=PUBLIC))
    send(here, asked, {b"one": reports})
    selected = RoundSelection(683, 683)
    (period,) = stored_estimates(here.store, asked, NOON, selected).document().rounds
    assert (period.relayed, period.shuffled) == (UNSET, UNSET)
    (period,) = final_results(here, asked).rounds
    assert period.relayed == Relayed(smallest_batch=reports, alone=False, dropped=0)


def send(here: World, asked: PublishedSurvey, batches: Mapping[bytes, int]) -> None:
    """Store reports, by the number of their relay's batch."""
    of = [batch for batch, count in batches.items() for _ in range(count)]
    sent = [(envelope(asked, number), batch) for number, batch in enumerate(of)]
    here.writer.write(
        [Upload(asked, e.round, e.id, e.count, e.payload, batch=batch) for e, batch in sent]
    )


def test_amplification_is_in_the_document_the_text_and_the_page(here: World) -> None:
    from deniable.server.results.export import report_lines

    asked = here.publish(survey(BIT, sealed_to=PUBLIC))
    send(here, asked, {b"one": 50})
    here.clock.time = asked.survey.taken_until(683) + SETTLING
    bearer = here.bearer("analyst")
    text = here.client.get(f"/v1/surveys/{asked.id}/results", headers=bearer).data
    results = msgspec.json.decode(text, type=Results)
    period = next(round_ for round_ in results.rounds if round_.reports)
    (stated,) = period.shuffled or ()
    assert (stated.people, stated.among) == (50, "batch")
    (sentence,) = shuffle_sentences(period, "1")
    assert "does not collude with the server, and the 50 people in the smallest batch" in sentence
    assert sentence in " ".join(" ".join(report_lines(results)).split())
    browser = here.app.test_client()
    browser.set_cookie(COOKIE, here.session(here.token("analyst")))
    page = browser.get(f"/surveys/{asked.id}").get_data(as_text=True)
    assert sentence in unescape(page)
