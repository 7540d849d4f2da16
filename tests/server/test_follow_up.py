"""Follow-up surveys: their questions, their gain, and what their intervals are about."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import binom

from deniable.server.estimation import ESTIMATORS
from deniable.server.estimation.distribution import band, informative_parts, quantile_interval
from deniable.server.estimation.statements import CONFIDENCE
from deniable.server.planning.follow_up import (
    BAND_CONFIDENCE,
    epsilons,
    follow_up,
    follows,
    mismatch,
    rule_of,
    spent_before,
)
from deniable.server.planning.planned_question import read
from deniable.server.results import survey_results
from deniable.server.store import PublishedSurvey, RoundTally
from deniable.server.surveys.survey_file import parse_survey_file
from deniable.shared.errors import InvalidSurvey, Refused
from deniable.shared.privacy.epsilon import BILLION, ONE
from deniable.shared.survey.document import parse_document, parse_toml, render_document
from deniable.shared.survey.kinds.base import Question
from deniable.shared.survey.kinds.text import Text
from deniable.simulations.population import text_tally
from tests import survey_texts as texts
from tests.command import asked_json, run
from tests.server.surveys import survey
from tests.server.world import World

Array = npt.NDArray[np.float64]
DRAWS = 360
ALLOWED = int(binom.isf(1e-9, DRAWS, 1 - CONFIDENCE))  # more misses have a probability of 1e-9

ONCE: dict[str, Any] = {
    "opens": date(2024, 1, 1), "closes": date(2024, 3, 31), "round": "once", "grace_days": 2,
    "minimum_reports": 100,
}  # fmt: skip
WORD = texts.question("word", "text", "8", length=5, buckets=1_024)
BROWSERS = ["firefox", "chrome", "safari", "edge", "opera", "other"]
QUESTIONS = (
    texts.bit() + WORD + texts.number(0, 120, "local-laplace", grid=16, epsilon="4")
    + texts.choice(BROWSERS, other="other", epsilon="4")
)  # fmt: skip


@cache
def rates(design: Any) -> Array:
    """Return the probability of each cell, with a row for each answer."""
    rows = np.array([design.cell_rates(n) for n in range(design.answers)], float)
    return np.asarray(rows / rows.sum(1, keepdims=True))


def reported(question: Question, held: Sequence[int], rng: np.random.Generator) -> Any:
    """Return the cells of honest reports, by the number of people at each answer."""
    pairs = zip(held, rates(question.mechanism), strict=True)
    return sum(rng.multinomial(n, row) for n, row in pairs if n)


def number(low: float, high: float, epsilon: str) -> Question:
    asked = {"name": "it", "kind": "number", "low": low, "high": high, "epsilon": epsilon}
    return read(asked)


def counted(question: Any, answers: Array, rng: np.random.Generator) -> Array:
    """Return the tally of people with these numbers, as devices would report them."""
    table, (low, high) = question.mechanism, question.range
    places = np.clip((answers - low) / (high - low), 0, 1) * table.steps
    below = np.minimum(np.floor(places).astype(int), table.steps - 1)
    held = np.bincount(below + (rng.random(len(answers)) < places - below), minlength=table.answers)
    rows = np.array([[units / ONE for units in row] for row in table.rows])
    cells = [rng.multinomial(n, row / row.sum()) for n, row in zip(held, rows, strict=True)]
    return np.asarray(np.sum(cells, axis=0), np.float64)


def median(
    question: Any, answers: Array, confidence: float, rng: np.random.Generator
) -> tuple[float, float]:
    parts = informative_parts(question.mechanism, len(answers), confidence)
    assert parts is not None
    cells = counted(question, answers, rng)[None]
    low, high = band(question.mechanism, cells, parts, confidence)
    first, last = question.range
    ends = quantile_interval(0.5, low[0], high[0])
    return first + (last - first) * ends[0], first + (last - first) * ends[1]


@pytest.mark.parametrize(
    ("epsilon", "one_shot", "two_waves"),
    [("1", 2.5, 0.91), pytest.param("2", 1.25, 0.77, marks=pytest.mark.long)],
)
def test_a_second_wave_finds_the_median_of_an_exponential_more_precisely(
    epsilon: str, one_shot: float, two_waves: float
) -> None:
    """Waves of 6,000 and 14,000 people, instead of 20,000 who are asked once, on [0, 10].

    The interval of the second wave covers the median of its people and, because they are other
    people, that of the population. Twin: the interval of the median is not that of another
    quantile.
    """
    rng, first = np.random.default_rng(6), number(0, 10, epsilon)
    once, twice, misses = list[float](), list[float](), np.zeros(3, int)
    second = {ends: number(*ends, epsilon) for ends in [(0.0, 10.0)]}
    for draw in range(DRAWS):
        people = rng.exponential(size=20_000)
        if draw < 40:
            low, high = median(first, people, CONFIDENCE, rng)
            once.append(high - low)
        ends = median(first, people[:6_000], BAND_CONFIDENCE, rng)
        asked = second.setdefault(ends, number(*ends, epsilon))
        low, high = median(asked, people[6_000:], CONFIDENCE, rng)
        twice.append(high - low)
        theirs = float(np.median(people[6_000:]))
        misses += [
            not low <= theirs <= high,
            not low <= np.log(2) <= high,
            not low <= np.log(4) <= high,
        ]
    print(f"ε {epsilon}: {np.mean(once):.2f} once, {np.mean(twice):.2f} in two waves")
    assert np.mean(once) == pytest.approx(one_shot, abs=0.02)
    assert np.mean(twice) <= two_waves
    assert misses[:2].max() <= ALLOWED
    assert misses[2] > ALLOWED


def test_intervals_are_about_the_respondents_if_the_same_people_chose_the_question() -> None:
    """Options that two of 200 people hold by chance are kept, and asked again.

    The twin is the population's interval, which misses nearly always.
    """
    rng, options, people = np.random.default_rng(7), 1_000, 200
    asked = parse_toml(texts.survey_text(texts.choice(options, epsilon="12"), **ONCE))
    intervals, theirs, everyone = 0, 0, 0
    for _ in range(30):
        held = rng.multinomial(people, [1 / options] * options)
        cells = reported(asked.questions[0], held.tolist(), rng)
        made = follow_up(asked, RoundTally(0, people, cells), "0.5").questions["browser"]
        kept = [asked.questions[0].labels.index(option) for option in made["options"][:-1]]
        again = read({"name": "it", "epsilon": "12", **made, "mechanism": "k-randomized-response"})
        of_kept = [*held[kept].tolist(), people - int(held[kept].sum())]
        counts = reported(again, of_kept, rng)
        estimator = ESTIMATORS["shares"](again, counts[None], np.array([people]))
        statements = estimator.statements(CONFIDENCE, respondents=True)
        for column, truth in ((statements.like, held[kept] / people), (None, 1 / options)):
            low, high = column or estimator.like(CONFIDENCE)
            inside = (low[0, :-1] <= truth + 1e-12) & (truth - 1e-12 <= high[0, :-1])
            theirs += int(inside.sum()) if column else 0
            everyone += 0 if column else int(inside.sum())
        intervals += len(kept)
    assert intervals > 300
    assert intervals - theirs <= binom.isf(1e-9, intervals, 1 - CONFIDENCE)
    assert everyone < intervals / 2


# The rules


def filled(here: World, **changes: Any) -> PublishedSurvey:
    """Publish a survey, and add 3,000 people: one word, minutes near 30, two of six browsers."""
    return fill(here, here.publish(survey(QUESTIONS, **(ONCE | changes))))


def fill(here: World, asked: PublishedSurvey) -> PublishedSurvey:
    rng, people = np.random.default_rng(8), 3_000
    bit, word, minutes, browser = asked.survey.questions
    assert isinstance(word, Text)
    numbers = counted(minutes, rng.normal(30, 5, people), rng)
    cells = [
        reported(bit, [people - 300, 300], rng),
        text_tally(word, {"crash": 1_500, "slow": 1_000}, 500, rng),
        numbers.astype(np.int64),
        reported(browser, [2_000, 900, 0, 2, 0, 98], rng),
    ]
    tally = RoundTally(asked.survey.first_round, people, np.concatenate(cells).astype(np.int64))
    with here.store.transaction() as transaction:
        transaction.add(asked.sequence, tally)
    return asked


def tally_of(here: World, asked: PublishedSurvey) -> RoundTally:
    (tally,) = here.store.tallies(asked.sequence)
    return tally


def test_each_kind_is_asked_more_precisely(here: World) -> None:
    asked = filled(here)
    made = follow_up(asked.survey, tally_of(here, asked), "0.5")
    assert {**made.questions["word"]} == {
        "kind": "choice", "options": ["crash", "slow", "other"], "other": "other"
    }  # fmt: skip
    assert {**made.questions["browser"]} == {
        "kind": "choice", "options": ["firefox", "chrome", "other"], "other": "other"
    }  # fmt: skip
    minutes = made.questions["minutes"]
    assert 0 <= minutes["low"] <= 30 <= minutes["high"] <= 60
    assert {**made.left_out} == {"crashed": "a bit cannot be asked more precisely"}
    later = follow_up(asked.survey, tally_of(here, asked), "0.9").questions["minutes"]
    assert later["high"] >= minutes["high"]


def test_questions_that_the_results_do_not_change_are_left_out() -> None:
    asked = parse_toml(texts.survey_text(QUESTIONS, **ONCE))
    empty = RoundTally(0, 0, np.zeros(asked.cells, np.int64))
    assert set(follow_up(asked, empty, "0.5").left_out.values()) == {"no one answered it"}
    rng, people = np.random.default_rng(9), 200
    bit, word, minutes, browser = asked.questions
    assert isinstance(word, Text)
    cells = [
        reported(bit, [100, 100], rng),
        text_tally(word, {}, people, rng),
        counted(minutes, rng.uniform(0, 120, people), rng).astype(np.int64),
        reported(browser, [60, 50, 40, 30, 20, 0], rng),
    ]
    made = follow_up(asked, RoundTally(0, people, np.concatenate(cells)), "0.5")
    assert made.left_out["word"] == "no text is common enough to be found"
    assert made.left_out["minutes"] in (
        "its reports are too few or too coarse for a distribution",
        "its quantile may be anywhere in the range",
    )


def test_an_option_named_other_does_not_collide(here: World) -> None:
    asked = here.publish(survey(WORD, **ONCE))
    (word,) = asked.survey.questions
    assert isinstance(word, Text)
    cells = text_tally(word, {"other": 2_000}, 500, np.random.default_rng(1))
    made = follow_up(asked.survey, RoundTally(0, 2_500, cells), "0.5").questions["word"]
    assert (made["options"], made["other"]) == (["other", "any other"], "any other")


# The budget


@pytest.mark.parametrize(
    ("spent", "budget", "given"),
    [("1", "2", "1"), ("1", "1.75", "0.75"), ("1.5", "2", "0.5")],
)
def test_both_surveys_together_stay_within_one_cap(spent: str, budget: str, given: str) -> None:
    asked = parse_toml(texts.survey_text(texts.bit(epsilon=spent), **ONCE))
    most = round(float(budget) * BILLION)
    assert epsilons(asked, ["crashed"], most, asked.opens) == {"crashed": given}
    assert spent_before(asked, most, asked.opens) == round(float(spent) * BILLION)
    later = asked.closes + timedelta(days=100)
    assert epsilons(asked, ["crashed"], most, later) == {"crashed": spent}


def test_a_spent_budget_is_reported() -> None:
    asked = parse_toml(texts.survey_text(texts.bit(epsilon="2"), **ONCE))
    with pytest.raises(Refused, match=r"may have spent ε 2 .* budget is ε 2, .* give --budget"):
        epsilons(asked, ["crashed"], 2 * BILLION, asked.opens)
    weekly = parse_toml(texts.survey_text(texts.bit(epsilon="0.5"), round="week"))
    assert spent_before(weekly, 2 * BILLION, weekly.opens) == 2 * BILLION, "four of the weeks"


# The document


def draft(data: Path, asked: PublishedSurvey, *more: str) -> Any:
    return run("survey", "next", asked.id, "--data", data, "--budget", "20", *more)


def test_a_draft_can_be_checked_and_published(here: World, tmp_path: Path) -> None:
    asked, data = filled(here), tmp_path / "data"
    done = draft(data, asked)
    assert done.returncode == 0, done.stderr
    made = parse_survey_file(done.stdout)
    assert made.follows == follows(asked.id, tally_of(here, asked), "0.5")
    assert rule_of(made.follows) == ("0.5", 0)
    assert [question.name for question in made.questions] == ["word", "minutes", "browser"]
    assert (made.name, made.period, made.owner) == ("app-health", "once", asked.survey.owner)
    assert "# Left out: crashed, because a bit cannot be asked more precisely.\n" in done.stdout
    assert "ε 0 of it, this survey costs ε 16, and ε 4 is left." in done.stdout
    file = tmp_path / "next.toml"
    assert draft(data, asked, "--output", str(file)).returncode == 0
    assert file.read_text("utf-8") == done.stdout
    assert "already exists" in draft(data, asked, "--output", str(file)).stderr
    checked = run("survey", "check", file, "--data", data).stdout
    assert "its questions are those that the counts lead to\n" in checked
    assert "its intervals are about exactly its respondents" in checked
    assert "add --data DIR" in run("survey", "check", file).stdout
    found = asked_json("survey", "check", file, "--data", data)["follows"]
    assert found[-1] == "its questions are those that the counts lead to"
    file.write_text(done.stdout.replace('"slow", ', ""))
    wrong = run("survey", "check", file, "--data", data)
    checked = wrong.stdout
    assert wrong.returncode == 1
    assert "it does NOT follow from the counts: the counts lead to another question word" in checked
    document = render_document(made)
    assert render_document(parse_document(document)) == document


def test_other_counts_are_detected(here: World) -> None:
    asked = filled(here)
    tally = tally_of(here, asked)
    made = follow_up(asked.survey, tally, "0.5")
    word = texts.question(
        "word", "choice", options=made.questions["word"]["options"], other="other"
    )
    chosen = follows(asked.id, tally, "0.5")
    plain = parse_toml(texts.survey_text(word, **ONCE))
    assert mismatch(replace(plain, follows=chosen), asked.survey, tally) is None
    moved = RoundTally(0, tally.reports, np.roll(tally.cells, 1))
    for other in (None, moved):
        found = mismatch(replace(plain, follows=chosen), asked.survey, other)
        assert found == "the counts of that round have another digest"


FOLLOWS = {
    "follows": "a" * 64,
    "follows_rule": "quantile 0.5 of round 0",
    "follows_tally": "b" * 64,
}


@pytest.mark.parametrize(
    "changes",
    [
        {"follows": "a" * 63},
        {"follows_rule": "quantile 1 of round 0"},
        {"follows_tally": None},
        {"round": "month"},
    ],
)
def test_a_document_states_all_about_its_choice_or_nothing(changes: dict[str, Any]) -> None:
    parse_toml(texts.survey_text(texts.bit(), **(ONCE | FOLLOWS)))
    with pytest.raises(InvalidSurvey, match="follows"):
        parse_toml(texts.survey_text(texts.bit(), **(ONCE | FOLLOWS | changes)))
    with pytest.raises(InvalidSurvey, match="follows"):
        parse_toml(
            texts.survey_text(texts.bit(), **(ONCE | FOLLOWS)) + texts.label("v", values=["1"])
        )


# Errors of the command


def test_a_survey_without_final_results_has_no_follow_up(here: World, tmp_path: Path) -> None:
    asked, data = filled(here, closes=date(2099, 1, 1)), tmp_path / "data"
    done = draft(data, asked)
    assert (done.returncode, done.stdout) == (3, "")
    assert (
        "has no final results of 100 reports yet: its first round is final on 2099-01-04"
        in done.stderr
    )
    few = here.catalogue.close(filled(here, name="few", minimum_reports=5_000))
    assert "no final results of 5,000 reports yet" in draft(data, few).stderr


def test_results_that_lead_to_no_question_are_reported(here: World, tmp_path: Path) -> None:
    data = tmp_path / "data"
    asked = here.publish(survey(texts.bit(), **ONCE))
    with here.store.transaction() as transaction:
        transaction.add(asked.sequence, RoundTally(0, 1_000, np.array([600, 400])))
    done = draft(data, here.catalogue.close(asked))
    assert done.returncode == 3
    assert "lead to no further question: crashed: a bit cannot be asked more" in done.stderr
    wrong = draft(data, asked, "--quantile", "0.3")
    assert (wrong.returncode, "--quantile must be one of 0.1, 0.25, 0.5" in wrong.stderr) == (
        2,
        True,
    )


# Results


def test_results_say_that_they_are_about_the_respondents(here: World, tmp_path: Path) -> None:
    """Twin: the same survey without `follows` has wider intervals, for the population."""
    rows, data = dict[bool, Any](), tmp_path / "data"
    for is_next in (True, False):
        changes: Any = FOLLOWS if is_next else {"name": "plain"}
        asked = here.publish(survey(texts.bit(epsilon="2"), **(ONCE | changes)))
        with here.store.transaction() as transaction:
            transaction.add(asked.sequence, RoundTally(0, 1_000, np.array([600, 400])))
        results = survey_results(asked, here.store.tallies(asked.sequence), here.clock.now())
        (rows[is_next],) = results.rounds[0].questions["crashed"]
        page = here.client.get(f"/surveys/{asked.id}", headers=here.bearer("analyst")).text
        assert ("all 95 % intervals are about exactly these people" in page) == is_next
        assert ("Asked openly, these" in page) != is_next
        assert any("not about the population" in note for note in results.notes) == is_next
        found = json.loads(run("results", asked.id, "--data", data, "--json").stdout)
        assert found["about"]["crashed"].get("people") == ("respondents" if is_next else None)
        assert found.get("follows", {}).get("survey") == ("a" * 64 if is_next else None)
        listed = run("results", asked.id, "--data", data).stdout
        assert ("every interval is about exactly" in listed) == is_next
        judged = run("results", asked.id, "--data", data, "--fail-if", "crashed > 0.01")
        people = "respondents" if is_next else "population"
        assert f"the interval for the {people} is" in judged.stdout + judged.stderr
    following, plain = rows[True], rows[False]
    assert (following.low, following.high) == (following.low_these, following.high_these)
    assert (following.low_these, following.estimate) == (plain.low_these, plain.estimate)
    assert plain.low < following.low
    assert (following.standard_error, plain.standard_error > 0) == (None, True)
    done = run("results", "app-health", "--against", "plain", "--data", data)
    assert done.returncode == 3
    assert "a follow-up survey cannot be compared" in done.stderr
