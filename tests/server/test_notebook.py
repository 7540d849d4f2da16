"""Asking from a notebook: a link, live results, and a simulated crowd through the real server."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import deniable.server
from deniable.server.notebook import AskedSurvey, _report
from deniable.server.process.addresses import running_server
from deniable.server.store import open_store
from deniable.server.surveys.catalogue import Catalogue
from deniable.server.surveys.link_surveys import TEMPLATES
from deniable.shared.envelope import CONTENT_TYPE
from deniable.shared.errors import Refused, WrongUse
from tests.documents import blocks
from tests.eventually import eventually

PEOPLE = 60


def tallied(asked: AskedSurvey) -> list[int]:
    """Return the counts of all reports that have reached the tables."""
    with open_store(asked._data) as store:
        tallies = store.tallies(Catalogue(store).find(asked.id).sequence)
    return [int(cell) for cell in tallies[0].cells] if tallies else []


def answer_once(asked: AskedSurvey) -> str:
    """Send the report of a person who is not simulated, and return the receipt."""
    server = running_server(asked._data)
    assert server is not None
    with open_store(asked._data) as store:
        published = Catalogue(store).find(asked.id)
    address = urlsplit(server.local)
    connection = HTTPConnection(address.hostname or "", address.port, timeout=30)
    body = _report(published, {"answer": True}, random.Random(1))
    connection.request("POST", "/v1/envelopes", body, {"Content-Type": CONTENT_TYPE})
    receipt = connection.getresponse().read().decode()
    connection.close()
    return receipt


@pytest.mark.parametrize("truth", [True, False])
def test_a_crowd_answers_through_the_server(tmp_path: Path, truth: bool) -> None:
    """At ε 8, 6 or more of 60 reports are not the true answer with a probability below 1e-12."""
    with deniable.server.ask("Is it so?", epsilon="8", folder=tmp_path) as asked:
        assert asked.link.endswith("/ask/is-it-so")
        assert asked.simulate(PEOPLE, lambda _: {"answer": truth}) == PEOPLE
        eventually(lambda: sum(tallied(asked)) == PEOPLE, "all reports are in the tables")
        assert tallied(asked)[truth] > PEOPLE - 6
        results = asked.results.document
        assert [period.reports for period in results.rounds] == [PEOPLE], "all are shown"
        assert [event.words for event in results.annotations or ()] == [
            "60 simulated reports; no person answered"
        ]
        assert "60 simulated reports" in repr(asked)
        assert "60 simulated reports" in asked._repr_html_()
        assert "<svg" not in asked._repr_html_(), "nobody is asked to answer"
        assert eventually(lambda: "closed" in answer_once(asked), "the link takes no answer")
        with pytest.raises(Refused, match="closed"):
            asked.simulate(1)
        assert sum(tallied(asked)) == PEOPLE
    assert running_server(tmp_path / "data") is None


def test_real_answers_are_never_mixed_with_simulated_ones_and_no_output_has_the_token(
    tmp_path: Path,
) -> None:
    with deniable.server.ask("Is it so?", folder=tmp_path, people=90) as asked:
        assert "step = 15 " in (tmp_path / "asked.toml").read_text()
        assert len(asked.token or "") > 20
        for shown in (repr(asked), asked._repr_html_()):
            assert asked.results_url in shown
            assert "`token`" in shown
            assert str(asked.token) not in shown
        assert "<svg" in asked._repr_html_()
        assert '"accepted":1' in answer_once(asked)
        eventually(lambda: sum(tallied(asked)) == 1, "the answer is in the tables")
        with pytest.raises(Refused, match="people have answered"):
            asked.simulate(1)


def test_the_example_of_a_notebook_works_as_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """Run the section "Ask from a notebook" of SURVEYS.md."""
    section = "Ask from a notebook"
    (block,) = [block for block in blocks("server/SURVEYS.md") if block.section == section]
    exec(block.text, {})
    printed = capsys.readouterr().out
    assert "/ask/would-you-recommend-working-here" in printed
    assert "answer, round 0: " in printed


def test_a_crowd_with_invitations_closes_a_survey_that_has_enough(tmp_path: Path) -> None:
    text = TEMPLATES["choice"].toml(datetime.now(UTC).date())
    extra = f'round = "once"\ninvitation = true\nclose_at = {PEOPLE}'
    (tmp_path / "asked.toml").write_text(text.replace('round = "once"', extra))
    with deniable.server.ask(tmp_path / "asked.toml") as asked:
        folder = asked._data
        assert asked.simulate(PEOPLE) == PEOPLE
        assert asked.results.document.rounds[0].reports == PEOPLE
        assert len({*asked.invite(3)}) == 3
        with pytest.raises(WrongUse, match="1 to 100,000"):
            asked.simulate(0)
    assert not folder.exists(), "without a folder, nothing is kept"
