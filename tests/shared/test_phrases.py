"""Sentences for people: easy to read, the same everywhere, and replaceable by translations."""

from __future__ import annotations

import re
from datetime import date
from string import Formatter

import pytest

from deniable.client import Policy
from deniable.client.disclosure import Description, describe
from deniable.shared.privacy.epsilon import ONE
from deniable.shared.privacy.mechanism import Chances
from deniable.shared.privacy.mechanisms import mechanisms
from deniable.shared.survey.document import parse_toml
from deniable.shared.survey.kinds.base import Question
from deniable.shared.survey.phrases import (
    ENGLISH,
    explain_report,
    explain_survey,
)
from tests.asked import question as asked_with
from tests.survey_texts import bit, choice, number, question, survey_text, vector

MAX_READING_AGE = 14
POLICY = Policy(keys=["ab" * 32], max_epsilon="4")
TEXT = question("word", "text", "1", length=8, title="What do you call it?")
TITLED = (
    question("cheated", "bit", "0.5", title="Did you ever cheat in an exam?")
    + question(
        "minutes", "number", "0.5", title="How long did it take?", low=0, high=120, unit="min"
    )
    + question(
        "browser",
        "choice",
        "0.5",
        options=["ff", "ch", "sa"],
        labels=["Firefox", "Chrome", "Safari"],
    )
)
SURVEYS = {
    "titled": survey_text(TITLED),
    "once": survey_text(bit(), round="once"),
    "one of several": survey_text(TITLED, ask=1),
    "latched bit": survey_text(bit(), repeat="latched", repeat_rounds=2),
    "latched vector": survey_text(vector(10), repeat="latched", repeat_rounds=2),
    "text": survey_text(TEXT),
    "a day": survey_text(bit(), round="day", closes=date(2026, 12, 31)),
    "too much": survey_text(bit(epsilon="3") + number()),
    "one day kept": survey_text(bit() + choice(30), retention_days=1, grace_days=0),
}


def description(name: str) -> Description:
    return describe("5a" * 32, parse_toml(SURVEYS[name]), POLICY)


# Reading age


def reading_age(text: str) -> float:
    """Return 5 years more than the school grade by the formula of Flesch and Kincaid.

    Grade: 0.39 words a sentence + 11.8 syllables a word - 15.59.
    Kincaid, Fishburne, Rogers, Chissom 1975, "Derivation of new readability formulas for Navy
    enlisted personnel", Research Branch Report 8-75. A line ends a sentence, as does a full stop.
    """
    sentences = [re.findall(r"[A-Za-z]+", part) for part in re.split(r"[.!?:]\s|\n", text)]
    sentences = [words for words in sentences if words]
    words = [word for sentence in sentences for word in sentence]
    grade = 0.39 * len(words) / len(sentences) + 11.8 * sum(map(syllables, words)) / len(words)
    return 5 + grade - 15.59


def syllables(word: str) -> int:
    """Count the groups of vowels, except a silent e at the end."""
    groups = len(re.findall(r"[aeiouy]+", word.lower()))
    silent = re.search(r"[^aeiouyl]e$|[^aeiouytd]ed$|[^aeiouysxz]es$", word.lower())
    return max(1, groups - bool(silent))


@pytest.mark.parametrize("name", SURVEYS)
def test_a_description_has_a_reading_age_of_at_most_14(name: str) -> None:
    text = description(name)
    assert reading_age(text.text) <= MAX_READING_AGE
    prose = "\n".join([*text.privacy, text.kept, *text.stop])
    assert reading_age(prose) <= MAX_READING_AGE, "the sentences alone, without lists"


def test_a_convoluted_text_has_a_higher_reading_age() -> None:
    """Twin: the same facts, as lawyers would write them."""
    text = (
        "Notwithstanding the aforementioned randomization, which is irrevocably administered "
        "prior to any persistence or transmission of participants' individual declarations, the "
        "organization operating the infrastructure may incidentally ascertain your participation."
    )
    assert reading_age(text) > MAX_READING_AGE + 5


def test_syllables_are_counted_as_spoken() -> None:
    words = {
        "yes": 1,
        "sure": 1,
        "device": 2,
        "reports": 2,
        "suspicion": 3,
        "stored": 1,
        "table": 2,
    }
    assert {word: syllables(word) for word in words} == words


# Contents


def test_a_description_names_each_question_its_options_and_its_unit() -> None:
    told = description("titled")
    assert [(q.name, q.title, q.options, q.unit) for q in told.questions] == [
        ("cheated", "Did you ever cheat in an exam?", (), ""),
        ("minutes", "How long did it take?", (), "min"),
        ("browser", "browser", ("Firefox", "Chrome", "Safari"), ""),
    ]
    for line in (
        "- Did you ever cheat in an exam?",
        "  Your answer: yes or no.",
        "  Your answer: a number from 0 to 120 (min).",
        "  Your answer: one of: Firefox, Chrome, Safari.",
    ):
        assert line in told.text.splitlines()
    assert not told.asks_one
    assert "You are asked:" in told.text
    assert "a suspicion of 10 % can grow to at most 16 % (ε 0.5)" in told.questions[0].odds


def test_a_description_states_that_one_of_several_questions_is_asked() -> None:
    told = description("one of several")
    assert told.asks_one
    assert "You are asked one of these questions. This device picks it by chance:" in told.text


def test_a_description_states_address_retention_and_how_to_stop() -> None:
    """Rounds end in February; 14 days of grace and 90 days of retention follow."""
    told = description("titled")
    assert "the server sees the network address of this device" in told.text
    assert "Sent in clear with each report: the survey, the round." in told.text
    assert "90 days after its round stops taking reports" in told.kept
    assert "deleted on 2027-06-13" in told.kept
    assert "Backups and archives may keep reports longer" in told.kept
    assert "switch it off in the app" in told.stop[0]
    assert "forget you" in told.stop[1]
    for sentence in (*told.privacy, told.kept, *told.stop):
        assert sentence in told.text.splitlines()


def test_a_long_list_of_options_is_cut_short_and_complete_as_a_field() -> None:
    told = description("one day kept")
    assert told.questions[1].asked.endswith(" and 10 more")
    assert "deletes a report one day after" in told.kept
    assert len(told.questions[1].options) == 30


# One table of sentences


def test_every_sentence_can_be_replaced() -> None:
    """If each text of the table is marked, no English text is left except that of the survey."""
    marked = {
        key: "<" + re.sub(r"[A-Za-z']+(?![^{]*\})", "x", text) for key, text in ENGLISH.items()
    }
    for name, source in SURVEYS.items():
        survey = parse_toml(source)
        own = {survey.title, survey.purpose, survey.owner}
        lines = set(describe("5a" * 32, survey, POLICY, marked).text.splitlines()) - own
        for title in own:
            lines = {line.replace(title, "") for line in lines}
        for asked in survey.questions:
            texts = [asked.title, asked.unit, *asked.called]
            for text in sorted(filter(None, texts), key=len, reverse=True):
                lines = {line.replace(text, "") for line in lines}
        english = [line for line in lines if re.search(r"[A-Za-wyz]{2}", line)]
        assert english == [], name


def test_a_table_that_lacks_a_sentence_falls_back_to_english() -> None:
    told = explain_survey(
        parse_toml(SURVEYS["titled"]), {"address": "Der Server sieht die Adresse."}
    )
    assert "Der Server sieht die Adresse." in told.privacy
    assert ENGLISH["noise"] in told.privacy


def test_every_value_of_a_sentence_has_a_name() -> None:
    for key, text in ENGLISH.items():
        assert all(name != "" for _, name, _, _ in Formatter().parse(text)), key


# Reports


def explained(asked: Question, symbol: int = 0) -> str:
    return explain_report(asked.describe(symbol), asked.chances(symbol))


def test_a_report_of_a_bit_is_explained_as_promised() -> None:
    (asked,) = parse_toml(survey_text(bit(epsilon="0.5"))).questions
    assert explained(asked) == (
        "If your true answer is no, 'no' is sent 62 times in 100; if it is yes, 38 times, so no "
        "one can tell."
    )


@pytest.mark.parametrize("mechanism", mechanisms())
@pytest.mark.parametrize("epsilon", ["0.5", "1", "4"])
def test_a_report_of_every_mechanism_is_explained_by_its_own_probabilities(
    mechanism: str, epsilon: str
) -> None:
    (asked,) = parse_toml(survey_text(asked_with(mechanism, epsilon))).questions
    chances = asked.mechanism.chances(0)
    assert chances is not None
    assert chances.keep > chances.lie > 0
    says = explained(asked)
    told = re.search(r"([\d,]+) times in ([\d,]+)\b.*?([\d,]+) times", says)
    assert told, says
    keep, per, lie = (int(number.replace(",", "")) for number in told.groups())
    assert abs(keep / per - chances.keep / ONE) <= 0.5 / per + 1e-9
    assert abs(lie / per - chances.lie / ONE) <= 0.5 / per + 1e-9
    assert says.endswith((", so no one can tell.", ", so no one can be fully sure."))


def test_a_nearly_certain_report_is_not_called_deniable() -> None:
    for keep, doubt in ((ONE * 95 // 100, "no one can tell"), (ONE * 96 // 100, "be fully sure")):
        chances = Chances("option", keep, ONE - keep).values("no", ("no", "yes"))
        assert doubt in explain_report("no", chances)
