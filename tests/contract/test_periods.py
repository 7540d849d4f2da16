"""Periods: each works end to end, with dates, documents, both clients, server and page.

A period is one row of PERIODS. The tests register `quarter` as a newcomer would add it, and it
passes the same checks. The JavaScript client's table is generated from PERIODS. Without a generated
row for `quarter`, that client refuses the period.
"""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path

import pytest

from deniable.client import Client, Policy
from deniable.client.net.transport import Reply
from deniable.shared.envelope import parse_envelopes
from deniable.shared.errors import InvalidSurvey
from deniable.shared.survey.document import (
    EARLY,
    PERIODS,
    Period,
    Survey,
    parse_document,
    parse_toml,
    render_document,
)
from tests.end_to_end.test_every_mechanism import InProcess, here
from tests.node import NODE
from tests.server.surveys import PUBLIC
from tests.server.world import World
from tests.survey_texts import bit, survey_text

__all__ = ["here"]

ROOT = Path(__file__).parents[2]
SURVEY_JS = ROOT / "client" / "javascript" / "src" / "survey.js"
PROTOCOL = ROOT / "shared" / "PROTOCOL.md"
DAY = timedelta(days=1)
# Leap days, ends of years, and the days around the epoch.
DAYS = [
    *(date(1970, 1, 1) + n * DAY for n in range(9)),
    *(date(year, month, 28) + n * DAY for year in (1999, 2024, 2100) for month in (2, 12)
      for n in range(5)),
    date(2026, 12, 15),
]  # fmt: skip

QUARTER = Period(
    "quarter",
    "every quarter",
    lambda day: (day.year - 1970) * 4 + (day.month - 1) // 3,
    lambda number: date(1970 + number // 4, number % 4 * 3 + 1, 1),
    "quarter from %b %Y",
    "%b %Y",
)


@pytest.fixture(params=[*PERIODS, QUARTER.name])
def period(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Period:
    if request.param not in PERIODS:
        monkeypatch.setitem(PERIODS, QUARTER.name, QUARTER)
    return PERIODS[request.param]


def asking(period: Period, **changes: object) -> Survey:
    return parse_toml(survey_text(bit(), round=period.name, **changes))


# Dates


@pytest.mark.parametrize("day", DAYS, ids=str)
def test_a_day_is_in_exactly_one_round(period: Period, day: date) -> None:
    number, noon = period.round_of(day), datetime.combine(day, time(12), UTC)
    assert period.starts(number, day) < noon < period.ends(number, day)
    if period.first_day is not None:
        assert period.ends(number - 1, day) == period.starts(number, day)
        assert period.ends(number, day) == period.starts(number + 1, day)
        assert period.first_day(number) <= day < period.first_day(number + 1)


def test_the_first_day_of_a_round_has_its_number(period: Period) -> None:
    if period.first_day is None:
        assert {period.round_of(day) for day in DAYS} == {0}
        return
    for number in range(1, 3_000):
        first = period.first_day(number)
        assert (period.round_of(first), period.round_of(first - DAY)) == (number, number - 1)


@pytest.mark.parametrize(
    ("name", "day", "number"),
    [
        ("once", date(2026, 1, 1), 0),
        ("day", date(1970, 1, 2), 1),
        ("week", date(1970, 1, 4), 0),
        ("week", date(1970, 1, 5), 1),
        ("month", date(2026, 12, 1), 683),
    ],
)
def test_round_numbers_follow_the_protocol(name: str, day: date, number: int) -> None:
    assert PERIODS[name].round_of(day) == number


# Documents


def test_a_document_keeps_its_period(period: Period) -> None:
    survey = asking(period)
    assert survey.calendar is period
    document = render_document(survey)
    assert parse_document(document).calendar is period
    assert render_document(parse_document(document)) == document


def test_a_survey_s_rounds_cover_its_days(period: Period) -> None:
    survey = asking(period)
    days = [survey.opens + n * DAY for n in range((survey.closes - survey.opens).days + 1)]
    assert {survey.round_of(day) for day in days} == {
        *range(survey.first_round, survey.last_round + 1)
    }
    assert survey.lifetime_billionths == survey.rounds * survey.round_billionths


def test_another_period_is_refused_with_the_list() -> None:
    with pytest.raises(InvalidSurvey, match=", ".join(PERIODS)):
        parse_toml(survey_text(bit(), round="year"))


def test_the_protocol_lists_every_period_and_no_other() -> None:
    (row,) = (line for line in PROTOCOL.read_text("utf-8").splitlines() if "| `round` |" in line)
    listed = row.split("|")[2].replace(" or ", ", ").split(", ")
    assert [name.strip().strip("`") for name in listed] == [*PERIODS]


# From a device to the page


class Recorder(InProcess):
    """Transport that records the bodies of uploads."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.bodies = list[bytes]()

    def request(
        self, method: str, path: str, body: bytes | None, content_type: str | None, timeout: float
    ) -> Reply:
        if body is not None:
            self.bodies.append(body)
        return super().request(method, path, body, content_type, timeout)


def test_an_answer_is_sent_in_the_round_of_its_day(
    period: Period, here: World, tmp_path: Path
) -> None:
    survey = asking(period)
    published, transport = here.publish(survey), Recorder(here)
    policy = Policy(keys=[PUBLIC], max_epsilon_per_round="1", per="lifetime")
    client = Client(
        "https://stats.example.org",
        policy=policy,
        state=tmp_path / "device",
        now=here.clock.now,
        transport=transport,
    )
    client.consent(True)
    assert client.answer(survey.name, crashed=True).status == "queued"
    assert client.flush(30) == 0
    client.close()
    number = period.round_of(here.clock.now().date())
    assert [envelope.round for body in transport.bodies for envelope in parse_envelopes(body)] == [
        number
    ]
    assert {number: 1} == {n: reports for n, (reports, _) in here.tallies(published).items()}
    page = here.client.get(f"/surveys/{published.id}", headers=here.bearer("analyst")).text
    assert period.every in page
    assert survey.round_title(number).casefold() in page.casefold()
    results = here.client.get(f"/v1/surveys/{published.id}/results", headers=here.bearer("analyst"))
    assert [row["round"] for row in results.json["rounds"] if row["reports"]] == [number]


def test_the_server_accepts_a_round_from_an_hour_before_it_to_the_end_of_grace(
    period: Period,
) -> None:
    survey = asking(period, grace_days=3)
    number = survey.first_round
    assert survey.taken_from(number) == survey.round_starts(number) - EARLY
    assert survey.taken_until(number) == survey.round_ends(number) + 3 * DAY


# The JavaScript client


def test_the_javascript_client_numbers_rounds_the_same_or_refuses(period: Period) -> None:
    days = [day for day in DAYS if day.year < 2100]
    stamps = [int(datetime.combine(day, time(12), UTC).timestamp() * 1000) for day in days]
    survey = asking(period)
    script = f"""
        import {{ parseSurvey }} from {json.dumps(SURVEY_JS.as_uri())};
        let rounds = null, until = null;
        try {{
          const survey = parseSurvey({json.dumps(render_document(survey).decode())});
          rounds = {json.dumps(stamps)}.map((at) => survey.roundOf(at));
          until = survey.takenUntil({survey.last_round});
        }} catch {{}}
        console.log(JSON.stringify([rounds, until]));
    """
    command = [NODE, "--input-type=module", "-e", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    rounds, until = json.loads(done.stdout)
    if period is QUARTER:
        assert rounds is None
        return
    assert rounds == [period.round_of(day) for day in days]
    assert until == survey.taken_until(survey.last_round).timestamp() * 1000
