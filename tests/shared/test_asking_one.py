"""Surveys that ask each install one question: their exact privacy loss, estimates and document."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, pairwise, product

import pytest

from deniable.shared.envelope import decode_report, encode_report
from deniable.shared.errors import InvalidEnvelope, InvalidSurvey
from deniable.shared.privacy.epsilon import ONE, exp_interval
from deniable.shared.privacy.mechanism import kernel_draw
from deniable.shared.privacy.mechanisms import mechanisms
from deniable.shared.survey.document import (
    Survey,
    Symbols,
    parse_document,
    parse_toml,
    render_document,
)
from tests.asked import ANSWERS, survey
from tests.survey_texts import bit, choice, number, survey_text

THREE = bit("crashed", "0.5") + number(0, 2, "ternary", epsilon="1.5") + choice(3, epsilon="1")


def asking(questions: str = THREE, **changes: object) -> Survey:
    return parse_toml(survey_text(questions, **({"ask": 1} | changes)))


def drawn(asked: Survey, first: int) -> int:
    numbers = iter([first])
    report = asked.report(dict.fromkeys(asked.costs), lambda bits: next(numbers, 0))
    (place,) = [index for index, symbol in enumerate(report.symbols) if symbol is not None]
    return place


def shares(asked: Survey) -> list[int]:
    """Return how many of the 2^64 numbers select each question, found by the ends of each range."""
    d = asked.drawn_from
    ends = [-(-question * ONE // d) for question in range(d + 1)]
    for index in range(d):
        assert drawn(asked, ends[index]) == drawn(asked, ends[index + 1] - 1) == index
    return [after - before for before, after in pairwise(ends)]


@pytest.mark.parametrize("questions", [2, 3, 7, 100])
def test_questions_are_drawn_equally_often_to_one_part_in_two_to_the_64(
    questions: int,
) -> None:
    asked = asking("".join(bit(f"q{n}") for n in range(questions)))
    assert all(abs(share - Fraction(ONE, questions)) < 1 for share in shares(asked))


Distribution = dict[tuple[int, int], Fraction]


def distribution(asked: Survey, shares: list[int], answers: tuple[int, ...]) -> Distribution:
    """Return P[question, symbol | answers] exactly."""
    return {
        (index, symbol): Fraction(share, ONE) * question.mechanism.weight(symbol, answer)
        for index, (share, question, answer) in enumerate(
            zip(shares, asked.questions, answers, strict=True)
        )
        for symbol in question.mechanism.encoding.symbols()
    }


def largest_ratio(asked: Survey) -> Fraction:
    """Return the largest ratio between two people's probabilities of sending the same report."""
    everyone = product(*(range(question.mechanism.answers) for question in asked.questions))
    drawn = shares(asked)
    people = [distribution(asked, drawn, answers) for answers in everyone]
    assert all(sum(person.values()) == 1 for person in people)
    return max(max(p[r] for p in people) / min(p[r] for p in people) for r in people[0])


def exp_below(billionths: int) -> Fraction:
    return Fraction(exp_interval(billionths, 10**9, 128).low, 2**128)


@pytest.mark.parametrize("epsilons", [("0.5", "1.5", "1"), ("2", "2", "2"), ("1", "0.1", "0.01")])
def test_privacy_loss_is_exactly_the_largest_epsilon(
    epsilons: tuple[str, str, str],
) -> None:
    """Enumerate all answers to all questions, and all reports.

    Charging the sum of all ε would be far too much. Charging less than the largest ε would be too
    little.
    """
    one, two, three = epsilons
    asked = asking(bit("a", one) + number(0, 2, "ternary", epsilon=two) + choice(3, epsilon=three))
    worst = largest_ratio(asked)
    assert worst <= exp_below(asked.round_billionths)
    assert worst > exp_below(asked.round_billionths - 1_000)
    assert asked.round_epsilon == max(epsilons, key=float)


def test_the_real_report_has_the_enumerated_distribution() -> None:
    """Run `Survey.report` on a coarse grid of random numbers, and compare the counts."""
    asked = asking(bit("a") + bit("b", "2"))
    counts: dict[tuple[int, int | None], int] = defaultdict(int)
    steps = 32
    for numbers in product(range(steps), repeat=3):  # for the question and for each bit
        coarse = iter([numbers[0], 0, numbers[1], 0, numbers[2]])
        report = asked.report({"a": True, "b": False}, lambda _, c=coarse: next(c) * ONE // steps)  # type: ignore[misc]  # bound at once
        place = next(n for n, symbol in enumerate(report.symbols) if symbol is not None)
        counts[place, report.symbols[place]] += 1
    exact = distribution(asked, shares(asked), (1, 0))
    for outcome, probability in exact.items():
        assert abs(counts[outcome] / steps**3 - probability) < 1 / steps


def test_randomness_size_and_outcome_do_not_depend_on_question_or_answer() -> None:
    """Try every mechanism, every drawn question, and answers that fit or do not fit."""
    asked = parse_toml(
        survey(list(mechanisms())).replace('round = "month"', 'round = "month"\nask = 1')
    )
    assert asked.asks_one
    fitting = {question.name: ANSWERS[question.kind][0] for question in asked.questions}
    seen = set()
    for index, answers in product(range(asked.drawn_from), (fitting, dict.fromkeys(fitting))):
        bits: list[int] = []
        first = iter([-(-index * ONE // asked.drawn_from)])

        def draw(wanted: int, bits: list[int] = bits, first: Iterator[int] = first) -> int:
            bits.append(wanted)
            return next(first, None) or (kernel_draw(wanted) if len(bits) > 1 else 0)

        report = asked.report(answers, draw)
        assert report.symbols[index] is not None
        assert sum(symbol is not None for symbol in report.symbols) == 1
        assert report.unfit == (() if answers is fitting else tuple(fitting))
        seen.add((tuple(bits), len(encode_report(asked, report.symbols))))
    assert len(seen) == 1


def test_every_report_is_decoded_and_every_other_payload_refused() -> None:
    """Try all 2^16 payloads for a small survey."""
    asked = asking(bit("a") + choice(3, name="b"))
    reports: list[Symbols] = [(symbol, None) for symbol in range(2)]
    reports += [(None, symbol) for symbol in range(3)]
    payloads = {encode_report(asked, report): report for report in reports}
    assert len(payloads) == len(reports)
    for value in range(2**16):
        payload = value.to_bytes(asked.report_size, "little")
        if payload in payloads:
            assert decode_report(asked, payload) == payloads[payload]
        else:
            with pytest.raises(InvalidEnvelope):
                decode_report(asked, payload)


def test_a_shorter_symbol_is_padded_and_the_padding_is_checked() -> None:
    asked = asking(bit("a") + choice(300, name="b"))
    assert encode_report(asked, (1, None)) == bytes([0, 1, 0])
    with pytest.raises(InvalidEnvelope, match="'a': the padding after its symbol must be zero"):
        decode_report(asked, bytes([0, 1, 1]))


def test_estimates_are_unbiased_over_sampling_and_noise() -> None:
    """Enumerate three fixed people, two questions, every draw and every report.

    For each number of people asked, the mean of the estimates is the truth about all three.
    """
    asked = asking(bit("a") + bit("b"))
    table, people = asked.questions[0].mechanism, (1, 0, 0)
    for n in (1, 2, 3):
        total, sets = Fraction(0), list(combinations(people, n))
        for chosen in sets:
            for symbols in product((0, 1), repeat=n):
                chance = Fraction(1)
                for symbol, answer in zip(symbols, chosen, strict=True):
                    chance *= table.weight(symbol, answer)
                total += chance * unbiased(Fraction(sum(symbols), n), asked)
        assert total / len(sets) == Fraction(1, 3)


def unbiased(rate: Fraction, asked: Survey) -> Fraction:
    """Return the unbiased estimate, from the two rates of the mechanism itself."""
    table = asked.questions[0].mechanism
    keep, lie = (table.weight(1, answer) for answer in (1, 0))
    return (rate - lie) / (keep - lie)


@pytest.mark.parametrize("ask", [None, 1])
def test_a_report_has_exactly_the_length_of_its_survey(ask: int | None) -> None:
    asked = parse_toml(survey_text(bit("a") + bit("b"), ask=ask))
    for size in {*range(6)} - {asked.report_size}:
        with pytest.raises(InvalidEnvelope, match=f"a report has 2 bytes, got {size}"):
            decode_report(asked, bytes(size))


# The document


def test_a_document_with_ask_survives_a_round_trip() -> None:
    asked = asking()
    document = render_document(asked)
    assert json.loads(document)["survey"]["ask"] == 1
    assert render_document(parse_document(document)) == document
    assert (asked.round_epsilon, asked.lifetime_epsilon) == ("1.5", "4.5")
    assert (asked.drawn_from, asked.reports_of(10_000)) == (3, 3_333)


def test_ask_has_no_effect_with_a_single_question() -> None:
    one, plain = asking(bit()), parse_toml(survey_text(bit()))
    assert not one.asks_one
    assert render_document(one) == render_document(plain)
    table = json.loads(render_document(plain))
    table["survey"]["ask"] = 1
    with pytest.raises(InvalidSurvey, match="has missing or superfluous keys"):
        parse_document(json.dumps(table).encode())


@pytest.mark.parametrize("value", [0, 2, 3, -1])
def test_other_values_of_ask_are_refused_with_the_fix(value: int) -> None:
    with pytest.raises(InvalidSurvey, match=rf"survey\.ask: must be 1 .* or left out.*got {value}"):
        asking(ask=value)


@pytest.mark.parametrize("value", ["1", 1.0, True])
def test_ask_is_a_whole_number(value: object) -> None:
    with pytest.raises(InvalidSurvey, match=r"survey\.ask: must be a whole number"):
        asking(ask=value)
