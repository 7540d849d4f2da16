"""Surveys with `close_at` close once they have enough reports, whatever is in them."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from deniable.server.http.tokens import check_name
from deniable.server.intake.commit import commit
from deniable.server.store import PublishedSurvey, SqliteStore, Upload
from deniable.shared.errors import WrongUse
from tests.eventually import eventually
from tests.server.surveys import envelope, published, survey
from tests.server.world import World, world


@pytest.fixture
def here(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path / "data") as made:
        yield made


def test_a_survey_closes_once_it_has_enough_reports(here: World) -> None:
    """Only the number of reports matters. The report after it is refused, and all are counted."""
    asked = here.publish(survey(round="once", close_at=25))
    other = here.publish(survey(name="other", round="once"))
    for number in range(24):
        for one in (asked, other):
            assert here.send(envelope(one, number, round_number=0)).json["accepted"] == 1
    here.clock.pass_(seconds=5)
    assert here.send(envelope(other, 30, round_number=0)).json["accepted"] == 1
    assert not is_closed(here, asked)
    assert here.send(envelope(asked, 24, round_number=0)).json["accepted"] == 1
    here.clock.pass_(seconds=5)
    eventually(partial(is_closed, here, asked), "the survey is closed")
    (refused,) = here.send(envelope(asked, 25, round_number=0)).json["refused"]
    assert refused["code"] == "closed"
    assert not is_closed(here, other)
    assert here.tallies(asked)[0][0] == 25
    assert ("server", "closed a survey") in {entry[1:3] for entry in here.store.audit()}


def test_a_survey_that_became_full_before_a_crash_is_closed_at_the_next_start(
    tmp_path: Path,
) -> None:
    with SqliteStore.create(tmp_path / "data") as store:
        asked = published(store, survey(round="once", close_at=25))
        uploads = [envelope(asked, number, round_number=0) for number in range(25)]
        with store.transaction() as transaction:
            commit(transaction, [Upload(asked, 0, u.id, 1, u.payload) for u in uploads])
    with world(tmp_path / "data") as here:
        eventually(partial(is_closed, here, asked), "the survey is closed")


def is_closed(here: World, asked: PublishedSurvey) -> bool:
    found = here.catalogue.get(asked.id)
    assert found is not None
    return found.closed is not None


def test_no_token_has_the_name_under_which_the_server_acts() -> None:
    with pytest.raises(WrongUse, match="'server'"):
        check_name("server")
