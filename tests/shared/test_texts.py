"""Texts on the device: the prefix that is hashed, and its buckets."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from fractions import Fraction
from typing import Any

import pytest

from deniable.shared.errors import InvalidSurvey
from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.families.group_design import grouped
from deniable.shared.privacy.mechanisms import Unary
from deniable.shared.survey.document import parse_document, parse_toml, render_document
from deniable.shared.survey.kinds.text import FINAL, FIRST, Beginnings, Text
from tests.plausible import assert_implausible, assert_plausible
from tests.survey_texts import question as in_toml
from tests.survey_texts import survey_text


def asking(length: int = 8, **more: Any) -> Text:  # Any: TOML
    (question,) = parse_toml(
        survey_text(in_toml("word", "text", **{"length": length, **more}))
    ).questions
    assert isinstance(question, Text)
    return question


QUESTION = asking()
SETS = "grouped-subset-selection"


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("a", "a"),
        ("exactly8", "exactly8"),
        ("more than eight", "more tha"),
        ("müßiggang", "müßigg"),  # ten bytes
        ("日本語", "日本"),  # three bytes each; the third is incomplete, so it is dropped
        ("😀😀😀", "😀😀"),
        (" a ", " a "),
        ("日本語\n", "日本"),  # characters after the prefix are not checked
        ("日本\u202e", "日本"),
        ("eight ch\ud800", "eight ch"),
    ],
)
def test_only_whole_characters_within_the_first_bytes_are_used(text: str, counts: str) -> None:
    filled = counts.encode().ljust(8, b"\0")
    assert len(filled) == 8
    assert QUESTION.place(text) == QUESTION.beginnings.of(filled)
    assert QUESTION.place(text + "\n" if len(text) >= 8 else text) == QUESTION.place(text)


@pytest.mark.parametrize(
    "answer",
    [
        "",
        " ",
        "\t",
        "a\nb",
        "a\0",
        "\x1b[2J",
        "\u202eabc",
        "\ud800",
        "\u2028",
        "seven c\n",
        "日本\n",
        "seven c\ud800",
        None,
        7,
        b"a",
    ],
)
def test_a_text_must_be_printable_on_one_line(answer: object) -> None:
    assert QUESTION.place(answer) is None


def test_an_invalid_text_is_reported_from_a_uniform_bucket() -> None:
    """At ε 20, the report is the bucket itself."""
    question = asking(4, buckets=1_024, epsilon="20", mechanism="grouped-k-randomized-response")
    draw = random.Random(20261119).getrandbits
    reports = [question.report(None, draw) for _ in range(20_000)]
    assert not any(fits for _, fits in reports)
    buckets = Counter(question.mechanism.encoding.split(symbol)[1] for symbol, _ in reports)
    for bucket in range(1_024):
        assert_plausible(buckets[bucket], 20_000, 1 / 1_024, 1e-9 / 1_024)
    groups = Counter(question.mechanism.encoding.split(symbol)[0] for symbol, _ in reports)
    for group in range(question.mechanism.groups):
        assert_plausible(groups[group], 20_000, 1 / question.mechanism.groups, 1e-11)
    assert_implausible(groups[0], 20_000, 1.6 / question.mechanism.groups)


def test_groups_are_almost_equally_probable_and_sum_to_one() -> None:
    shares = QUESTION.mechanism.shares
    assert sum(shares) == ONE
    assert max(shares) - min(shares) <= 1
    small = grouped(Unary)(Epsilon("1"), 2)
    for group, share in enumerate(small.shares):
        symbols = [s for s in small.encoding.symbols() if s & 255 == group]
        assert sum(small.weight(symbol, 1) for symbol in symbols) == Fraction(share, ONE)
    edges = [
        QUESTION.mechanism.randomize((0,) * 19, draw) & 255
        for draw in (lambda _: 0, lambda bits: (1 << bits) - 1)
    ]
    assert edges == [0, QUESTION.mechanism.groups - 1]


def test_the_hash_follows_the_protocol() -> None:
    """Implement the protocol's text independently, for a word in every group."""
    own = Beginnings("word", 4, 4_096)
    digits = "6d61c3bc"  # maü
    assert own.digits == (4, 5, 6, 7, 8, *[8] * FINAL)
    expected = []
    for group, count in enumerate(own.digits):
        head = hashlib.sha256(b"deniable text v1\0word\0" + bytes([group])).digest()[:16]
        digest = hashlib.sha256(head + digits[: count - 1].encode()).digest()
        at = 2 * int(digits[count - 1], 16)
        expected.append(int.from_bytes(digest[at : at + 2], "little") % 4_096)
    assert own.of("maü".encode()) == tuple(expected)


def test_hashes_of_continuations_agree_with_single_buckets() -> None:
    own = Beginnings("word", 4, 4_096)
    for group, count in enumerate(own.digits[:-FINAL]):
        digits = "6d61c3bc"[:count]
        words = own.words(group, [digits[:-1].encode()])
        at = 2 * int(digits[-1], 16)
        word = int.from_bytes(words[at : at + 2], "little")
        assert word % 4_096 == own.of("maü".encode())[group]
    assert own.digits[0] == FIRST


def test_salts_and_groups_change_the_hash() -> None:
    """Hardly any of 2,000 texts has the same bucket in two groups."""
    texts = [f"{n:04x}".encode() for n in range(2_000)]
    one, other = Beginnings("one", 4, 4_096), Beginnings("other", 4, 4_096)
    final = [(one.of(t)[-1], one.of(t)[-2], other.of(t)[-1]) for t in texts]
    for salted in (1, 2):
        same = sum(buckets[0] == buckets[salted] for buckets in final)
        assert same < 12  # exceeded with probability 1e-9; the expected number is one half


def test_a_text_question_survives_a_round_trip() -> None:
    survey = parse_toml(survey_text(in_toml("word", "text", "2", length=8)))
    document = render_document(survey)
    assert b'"buckets": 4096,\n   "salt": "word",' in document
    again = parse_document(document)
    assert again.questions[0].fields() == {"length": 8, "buckets": 4096, "salt": "word"}
    assert render_document(again) == document


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"length": None}, "length: is missing; write how many bytes"),
        ({"length": 3}, "length: must be 4 to 32, got 3"),
        ({"length": 33}, "length: must be 4 to 32, got 33"),
        ({"length": 8, "buckets": 1_023}, "buckets: must be 1024 to 65536"),
        ({"length": 8, "buckets": 4_095}, "power of two"),
        (
            {"length": 8, "buckets": 16_384, "mechanism": "grouped-unary"},
            "from 2 to 8,192 for grouped-u",
        ),
        ({"length": 8, "salt": ""}, "salt: must be one line"),
        ({"length": 8, "mechanism": "unary"}, "must be one of grouped-"),
        ({"length": 8, "options": ["a", "b"]}, "options: is not a key"),
    ],
)
def test_an_invalid_text_question_is_refused(more: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidSurvey, match=says):
        parse_toml(survey_text(in_toml("word", "text", **more)))


def test_three_bytes_support_as_many_buckets_as_513() -> None:
    """With 65,536 buckets, too many for such a set, a report has four bytes."""
    sets, small = asking(epsilon="2", mechanism=SETS), asking(epsilon="2")
    assert small.mechanism.name == "grouped-projective-geometry"
    assert (sets.mechanism.payload_size, small.mechanism.payload_size) == (513, 3)
    assert small.mechanism.floor(10**6) < 1.01 * sets.mechanism.floor(10**6)
    most = asking(epsilon="2", buckets=65_536)
    assert most.mechanism.name == "grouped-projective-geometry"
    assert most.mechanism.payload_size == 4
    spoken = int(small.describe(5 << 8).partition("is in ")[2].partition(" of")[0])
    assert spoken == len(list(small.mechanism.each.supported_by(5))) > 300


def test_a_report_of_a_text_is_described_by_the_words_that_it_supports() -> None:
    sets = asking(mechanism=SETS)
    split = sets.mechanism.encoding.joined
    said = [sets.describe(split(group, 0b11)) for group in (0, 1, 18)]
    into = "is in 2 of 4,096 buckets, into which all texts are put"
    assert said == [
        f"its beginning of 2 bytes {into}",
        f"its beginning of 2 and a half bytes {into}",
        f"the text {into}",
    ]


def test_a_floor_falls_with_the_root_of_the_people_and_rises_with_the_length() -> None:
    floor = asking(8, epsilon="2", mechanism=SETS).mechanism.floor
    assert floor(4_000_000) == pytest.approx(floor(1_000_000) / 2)
    assert floor(1_000_000) == pytest.approx(0.01483, rel=1e-3)
    longer = asking(16, epsilon="2", mechanism=SETS).mechanism
    assert longer.floor(10**6) == pytest.approx(0.02012, rel=1e-3)
    assert QUESTION.expected_findings(100) == "too few to find any text: 100 people"
    assert "texts that at least 14,828 give" in asking(
        8, epsilon="2", mechanism=SETS
    ).expected_findings(10**6)


def test_a_group_is_drawn_from_64_bits() -> None:
    """Each group is drawn equally often to within 2^-64.

    The last number of each group and the first number of the next group show this. Twin: with 256
    numbers, the first of three groups gets 86.
    """
    mechanism = asking(8, epsilon="2").mechanism
    groups, asked = mechanism.groups, list[int]()

    def group(number: int) -> int:
        def draw(bits: int) -> int:
            asked.append(bits)
            return number if len(asked) % 2 else 0

        answer = mechanism.answer_at(0)
        return mechanism.encoding.split(mechanism.randomize(answer, draw))[0]

    for first in range(1, groups):
        begin = -(-first * 2**64 // groups)
        assert [group(begin - 1), group(begin)] == [first - 1, first]
    assert set(asked[::2]) == {64}
    assert len({number * groups >> 8 for number in range(256)}) == groups
    assert 256 % groups
