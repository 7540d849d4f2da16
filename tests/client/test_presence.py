"""Presence: nothing around a report reveals an answer.

For any two values, requests, charges and records are the same. Only names and declared kinds lead
to a refusal.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from deniable.client import Client
from deniable.client.outcome import Outcome
from deniable.client.state.database import DATABASE
from deniable.shared.errors import InvalidPolicy
from deniable.shared.privacy.mechanism import kernel_draw
from tests.client.conftest import MakeClient
from tests.client.scripted import (
    ANSWERS,
    QUESTIONS,
    TODAY,
    Listing,
    Script,
    bit,
    document,
    lifetime_policy,
)
from tests.raising import Raising

KINDS = {"crashed": "bit", "minutes": "number", "browser": "choice"}
COUNTED = ("charges", "outbox", "history", "survey_keys", "kept_reports")


anything = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.decimals(),
    st.fractions(),
    st.text(max_size=20),
    st.binary(max_size=5),
    st.lists(st.integers(), max_size=2),
    st.complex_numbers(),
    st.sampled_from([np.bool_(True), np.float64("nan"), np.int64(3), Raising(), object()]),
    st.sampled_from(["firefox", "safari", 0, 120, 34.5, Decimal("sNaN"), Fraction(1, 3)]),
)


PUBLISHED = document()
NOON = TODAY.timestamp()


def transcript(
    values: dict[str, object], published: bytes = PUBLISHED, first: int | None = None
) -> tuple[object, ...]:
    """Return everything about one answer that others than the app can see, except the report.

    `first` is the kernel's first number.
    """
    bits: list[int] = []

    def draw(wanted: int) -> int:
        bits.append(wanted)
        return kernel_draw(wanted) if first is None or len(bits) > 1 else first

    with TemporaryDirectory() as folder:
        carrier = Listing(published)
        policy = lifetime_policy(questions=KINDS)
        client = Client(
            "https://stats.example.org",
            policy=policy,
            state=folder,
            now=lambda: TODAY,
            draw=draw,
            transport=carrier,
        )
        client.consent(True)
        outcome = client.answer("app-health", **values)
        client._uploader.stop(30)
        assert client.flush(0) == 1
        client._uploader.stop(30)
        client._state.close()
        kept = rows(Path(folder))
        gets = [asked for asked in carrier.asked if asked[0] == "GET"]
        sizes = {asked[2] for asked in carrier.asked if asked[0] == "POST"}
    return repr(outcome), bits, kept, gets, sizes <= {len(kept_envelope(kept))}


def rows(folder: Path) -> dict[str, list[tuple[object, ...]]]:
    """Return the tables without the random columns: key, id, payload, meaning."""
    with closing(sqlite3.connect(folder / DATABASE)) as db:
        tables = {table: db.execute(f"SELECT * FROM {table}").fetchall() for table in COUNTED}
    tables["survey_keys"] = [(*row[:2], len(row[2]), row[3]) for row in tables["survey_keys"]]
    tables["outbox"] = [
        tuple(len(value) if isinstance(value, bytes) else in_a_minute(value) for value in row)
        for row in tables["outbox"]
    ]
    tables["kept_reports"] = [(*row[:5], len(row[5]), row[6]) for row in tables["kept_reports"]]
    tables["history"] = [
        tuple(value for value in row if not (isinstance(value, str) and value.startswith("[{")))
        for row in tables["history"]
    ]
    return tables


def in_a_minute(value: object) -> object:
    """Replace a drawn moment of sending by its range, because it depends on nothing."""
    return "soon" if isinstance(value, float) and 0 <= value - NOON <= 60 else value


def kept_envelope(kept: dict[str, list[tuple[object, ...]]]) -> range:
    ((*_, size, _until),) = [row[:6] for row in kept["outbox"]]
    assert isinstance(size, int)
    return range(size)


FITTING = transcript(ANSWERS)


@settings(max_examples=60)
@example(dict.fromkeys(KINDS, Raising()))
@example(dict.fromkeys(KINDS, Decimal("sNaN")))
@given(st.fixed_dictionaries(dict.fromkeys(KINDS, anything)))
def test_any_values_leave_the_same_transcript(values: dict[str, object]) -> None:
    """Compare status, charge, sizes, requests, randomness and records for any answers."""
    assert transcript(values) == FITTING


ONE = document(asks_one=True)
ASKED_ONE = transcript(ANSWERS, ONE)


@settings(max_examples=30)
@given(st.fixed_dictionaries(dict.fromkeys(KINDS, anything)), st.integers(0, 2**64 - 1))
def test_every_drawn_question_of_a_survey_leaves_the_same_transcript(
    values: dict[str, object], first: int
) -> None:
    assert transcript(values, ONE, first) == ASKED_ONE


LATCHED = document(repeat_rounds=3)
KEPT = transcript(ANSWERS, LATCHED)


@settings(max_examples=30)
@given(st.fixed_dictionaries(dict.fromkeys(KINDS, anything)))
def test_any_values_leave_the_same_transcript_for_latched_reports(
    values: dict[str, object],
) -> None:
    """Vary the values of the first answer; later ones are not examined (test_latched.py)."""
    assert transcript(values, LATCHED) == KEPT


@pytest.mark.parametrize("question", range(len(KINDS)))
def test_each_question_drawn_leaves_the_same_transcript(question: int) -> None:
    assert transcript(ANSWERS, ONE, -(-question * 2**64 // len(KINDS))) == ASKED_ONE


def test_guessed_options_learn_nothing_from_whether_a_report_comes(
    script: Script, client_of: MakeClient
) -> None:
    """The holder of a signing key could ask for one guess after another."""
    policy = lifetime_policy(questions={"browser": "choice"}, max_epsilon="2")
    client = client_of(policy=policy)
    seen = set()
    for guess in ("firefox", "chrome", "safari", "lynx"):
        question = (
            '[[question]]\nname = "browser"\nkind = "choice"\nover = "first"\n'
            f'options = ["{guess}", "zzz"]\n'
            'epsilon = "0.000001"\n'
        )
        script.publish(document(f"guess-{guess}", questions=question))
        outcome = client.answer(f"guess-{guess}", browser="firefox")
        seen.add((outcome.status, outcome.detail))
        assert outcome.unfit == (() if guess == "firefox" else ("browser",))
        assert "unfit" not in repr(outcome)
    assert seen == {("queued", "a report is on disk and will be sent")}


def test_a_question_of_another_kind_is_refused_before_a_value_is_examined(
    script: Script, client_of: MakeClient
) -> None:
    policy = lifetime_policy(questions={"crashed": "bit"})
    script.publish(
        document(questions=bit("crashed", "1").replace('"bit"', '"number"\nlow = 0\nhigh = 9'))
    )
    outcome = client_of(policy=policy).answer("app-health", crashed=Raising())
    assert outcome.status == "refused"
    assert "asked as a number, and the app declares a bit" in outcome.detail


def test_a_new_question_under_the_same_name_crashes_no_deployed_app(
    script: Script, client_of: MakeClient, tmp_path: Path
) -> None:
    """The client answers the newest open survey whose questions fit the call, or none."""
    old = script.publish(document())
    client = client_of()
    newer = document(opens="2026-12-02", questions=QUESTIONS + bit("froze", "0.1"))
    script.publish(newer)
    assert client.answer("app-health", **ANSWERS).survey == old
    script.surveys.pop(0)
    client = client_of(state=tmp_path / "elsewhere")
    outcome = client.answer("app-health", **ANSWERS)
    assert outcome.status == "refused"
    assert "and froze is missing" in outcome.detail


@pytest.mark.parametrize("questions", [{}, {"crashed": "yes-no"}, ["crashed"], {"crashed": None}])
def test_an_invalid_declaration_is_refused(questions: Any) -> None:
    with pytest.raises(InvalidPolicy, match=r"(kinds are|is one of) bit, number, choice"):
        lifetime_policy(questions=questions)


@pytest.mark.parametrize("given", ["no", 1, None, np.bool_(True)])
def test_consent_must_be_true_or_false(client_of: MakeClient, given: Any) -> None:
    client = client_of(consent=False)
    with pytest.raises(TypeError, match="consent is True or False"):
        client.consent(given)
    assert client.consented is None


def test_an_app_can_read_a_withdrawal_before_asking_again(
    client_of: MakeClient,
) -> None:
    client = client_of(consent=False)
    said = [client.consented]
    for answer in (True, False):
        client.consent(answer)
        said += [client.consented, client_of(consent=False).consented]
    assert said == [None, True, True, False, False]


def test_consent_that_cannot_be_stored_is_not_a_refusal(
    client_of: MakeClient, tmp_path: Path
) -> None:
    (tmp_path / "state").write_text("a file where the folder should be")
    client = client_of(consent=False)
    assert client.consent(True) is False
    outcome: Outcome = client.answer("app-health", **ANSWERS)
    assert outcome.status == "unavailable"
    assert "consent could not be stored" in outcome.detail
