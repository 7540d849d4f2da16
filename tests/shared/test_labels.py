"""Labels: rules for their declaration, their bytes in a report, and proof that they cost no ε."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deniable.shared.envelope import decode_labels, decode_report, encode_report
from deniable.shared.errors import InvalidSurvey
from deniable.shared.privacy.epsilon import exp_interval
from deniable.shared.survey.document import Survey, parse_document, parse_toml, render_document
from deniable.shared.survey.labels import Label, read_labels
from tests.shared.test_vectors import vectors
from tests.survey_texts import bit, choice, label, survey_text

PLATFORM = label("platform", values=["linux", "mac"])
VERSION = label("version", pattern=r"\d+\.\d+\.\d+")
ARMS = label("search", arms=["control", "new"])
ASCII = "".join(map(chr, range(32, 127)))
ALL = PLATFORM + VERSION + ARMS


def labelled(labels: str = ALL, questions: str = bit(), **changes: object) -> Survey:
    return parse_toml(survey_text(questions + labels, **changes))


def test_a_document_with_labels_survives_a_round_trip() -> None:
    survey = labelled()
    document = render_document(survey)
    assert render_document(parse_document(document)) == document
    assert parse_document(document).labels == survey.labels
    assert [item.name for item in survey.labels] == ["platform", "version", "search"]
    assert '"label"' not in render_document(parse_toml(survey_text(bit()))).decode()


BROKEN = {
    "two kinds": (label("a", values=["x"], pattern="x"), "exactly one of values"),
    "no kind": (label("a"), "exactly one of values"),
    "no value": (label("a", values=[]), "1 to 64 texts"),
    "one arm": (label("a", arms=["x"]), "2 to 64 texts"),
    "too many values": (label("a", values=[f"v{n}" for n in range(65)]), "1 to 64 texts"),
    "repeated value": (label("a", values=["x", "x"]), "repeated"),
    "long value": (label("a", values=["x" * 33]), "1 to 32 bytes"),
    "long in bytes": (label("a", values=["é" * 17]), "1 to 32 bytes"),
    "control character": (label("a", values=["x\u0007"]), "control characters"),
    "number": (label("a", values=[3]), "must be text"),
    "question's name": (label("crashed", values=["x"]), "question's name"),
    "repeated name": (label("a", values=["x"]) * 2, "name each label once"),
    "two lists of arms": (ARMS + label("a", arms=["x", "y"]), "one list of arms"),
    "nine labels": ("".join(label(f"a{n}", values=["x"]) for n in range(9)), "at most 8"),
    "group": (label("a", pattern="(a+)+"), "no groups"),
    "bad repetition": (label("a", pattern="a{3,1}"), "no groups"),
    "long pattern": (label("a", pattern="a" * 101), "at most 100"),
    "not ASCII": (label("a", pattern="é+"), "ASCII"),
    "matches nothing": (label("a", pattern="a*"), "empty text"),
    "misspelt": (label("a", value=["x"]), "exactly one of values"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_faulty_label_is_refused_with_a_reason(name: str) -> None:
    text, reason = BROKEN[name]
    with pytest.raises(InvalidSurvey, match=reason):
        labelled(text)


def test_a_question_named_label_is_refused_only_with_labels() -> None:
    with pytest.raises(InvalidSurvey, match="reserved"):
        labelled(questions=bit("label"))
    assert labelled("", bit("label")).labels == ()


def test_the_counts_of_a_round_stay_bounded() -> None:
    many = choice(2_000, "subset-selection")
    assert labelled(PLATFORM, many).cells == 2_000
    with pytest.raises(InvalidSurvey, match="counts a round"):
        labelled(VERSION, many)


def test_every_value_takes_the_same_number_of_bytes() -> None:
    survey = labelled()
    for platform, version, arm in product(
        ("linux", "mac", "beos", None), ("3.0.1", "beta", "1" * 40, None), ("control", "new")
    ):
        given_labels = {"platform": platform, "version": version, "search": arm}
        payload = encode_report(survey, (1,), given_labels)
        assert len(payload) == survey.report_size == 1 + 32 + 1 + 1
        assert decode_report(survey, payload) == (1,)
        assert decode_labels(survey, payload) == {
            "platform": platform if platform in ("linux", "mac") else None,
            "version": version if version == "3.0.1" else None,
            "search": arm,
        }


def test_a_device_always_states_its_arm() -> None:
    with pytest.raises(ValueError, match="not in"):
        encode_report(labelled(), (1,), {"platform": "mac"})


Law = dict[bytes, Fraction]  # probability of each report


def law_of(survey: Survey, answers: tuple[int, ...], labels: dict[str, str | None]) -> Law:
    """Return the exact probability of each report; `ask = 1` draws each question equally often."""
    law: Law = defaultdict(Fraction)
    for symbols in product(*(range(q.mechanism.symbols) for q in survey.questions)):
        weight = Fraction(1, survey.drawn_from)
        for question, symbol, answer in zip(survey.questions, symbols, answers, strict=True):
            weight *= question.mechanism.weight(symbol, answer)
        for drawn in range(survey.drawn_from):
            one = tuple(s if n == drawn else None for n, s in enumerate(symbols))
            law[encode_report(survey, one if survey.asks_one else symbols, labels)] += weight
    assert sum(law.values()) == 1
    return law


def largest_ratio(survey: Survey, labels: dict[str, str | None]) -> Fraction:
    laws = [law_of(survey, answers, labels) for answers in product(range(2), range(3))]
    return max(one[sent] / other[sent] for one in laws for other in laws for sent in one)


def exp_below(billionths: int) -> Fraction:
    return Fraction(exp_interval(billionths, 10**9, 128).low, 2**128)


@pytest.mark.parametrize("changes", [{}, {"ask": 1}])
def test_the_loss_of_a_report_with_its_labels_never_exceeds_epsilon(
    changes: dict[str, object],
) -> None:
    """Exact: P[bytes | x, l] / P[bytes | x', l] <= e^ε for all labels l and answers x, x'."""
    survey = labelled(PLATFORM + ARMS, bit("crashed", "0.5") + choice(3, epsilon="1"), **changes)
    for platform, arm in product(("linux", "mac", None), ("control", "new")):
        worst = largest_ratio(survey, {"platform": platform, "search": arm})
        assert worst <= exp_below(survey.round_billionths)
        assert worst > exp_below(survey.round_billionths - 1_000)


@pytest.mark.parametrize("vector", vectors("survey_labels.json")["arms"])
def test_arms_agree_with_the_vectors(vector: dict[str, str]) -> None:
    arms = Label("search", arms=("control", "new-search"))
    assert arms.drawn_arm(bytes.fromhex(vector["key"])) == vector["arm"]


def test_random_keys_draw_each_arm_equally_often() -> None:
    """With 30,000 keys, 6.5 standard deviations give a false-alarm probability below 1e-9."""
    arms = Label("search", arms=("a", "b", "c"))
    drawn = Counter(arms.drawn_arm(n.to_bytes(32, "big")) for n in range(30_000))
    assert all(abs(drawn[arm] - 10_000) < 6.5 * (30_000 * 2 / 9) ** 0.5 for arm in arms.arms)


PARTS = st.tuples(
    st.sampled_from(["a", r"\.", r"\d", ".", "[0-9]", "[ab.-]", "[a-f0-9]", "-", " "]),
    st.sampled_from(
        [("", 1, 1), ("?", 0, 1), ("*", 0, 32), ("+", 1, 32), ("{2}", 2, 2), ("{1,3}", 1, 3)]
    ),
)


@given(st.lists(PARTS, min_size=1, max_size=6), st.text("ab1.- f", max_size=12))
def test_each_part_of_a_pattern_is_greedy_and_never_backtracks(
    parts: list[tuple[str, tuple[str, int, int]]], text: str
) -> None:
    """A matcher that reads the text once from left to right agrees with the real one."""
    rest, fits = text, True
    for chars, (_, least, most) in parts:
        taken = next((n for n, c in enumerate(rest) if not re.fullmatch(chars, c)), len(rest))
        fits &= min(taken, most) >= least
        rest = rest[min(taken, most) :]
    pattern = "".join(chars + repeat for chars, (repeat, *_) in parts)
    assert Label("it", pattern=pattern).matches(text) == (fits and not rest)


@pytest.mark.parametrize("character", ASCII)
def test_a_pattern_may_hold_any_character_of_printable_ascii(character: str) -> None:
    special = character in r".?*+^$()[]{}|\\"
    pattern = f"\\{character}" if special else character
    (read,) = labelled(label("it", pattern=pattern + "x")).labels
    assert read.matches(f"{character}x")
    assert not read.matches("\x7fx")


BAD_PATTERNS = (
    "(a+)+", "a|b", "^a", "a$", "[^a]", "a**", "a{", "{2}", r"\w", r"\n", "[", "[]", "a)", "?a",
    "[z-a]", "a{3,1}", "[a\\d]", "a+?", "a++",
)  # fmt: skip


@pytest.mark.parametrize("pattern", BAD_PATTERNS)
def test_other_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(InvalidSurvey, match="no groups"):
        labelled(label("it", pattern=pattern))


def test_no_pattern_takes_long() -> None:
    """A backtracking matcher would take more than 10^12 steps."""
    assert not Label("it", pattern="a*" * 49 + "b").matches("a" * 32)


def test_patterns_match_printable_ascii_of_at_most_32_bytes() -> None:
    anything = Label("it", pattern=".+")
    assert anything.matches(ASCII[:32])
    assert not any(anything.matches(text) for text in ("a" * 33, "é", "\n", "\0", "", "a\n"))


def test_surveys_with_other_labels_ask_the_same_but_share_no_drafts() -> None:
    """A release that adds a version label must not ask for a second report in a round."""
    assert labelled().asks_the_same(labelled(title="Another title"))
    assert labelled().asks_the_same(labelled(PLATFORM))
    assert labelled().shares_drafts_with(labelled(title="Another title"))
    assert not labelled().shares_drafts_with(labelled(PLATFORM))


def test_read_labels_refuses_a_value_that_is_no_table() -> None:
    with pytest.raises(InvalidSurvey, match="must be a table"):
        read_labels([3], [], 2)
