"""Accountant of shuffled reports, compared with published values and with exact sums."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import reduce
from itertools import combinations_with_replacement, product
from math import comb
from pathlib import Path

import pytest

from deniable.server.shuffling.accountant import (
    BLANKETS,
    Blanket,
    blanket_delta,
    chernoff_delta,
    largest_report_epsilon,
    report_epsilon_among,
    survey_epsilon,
)
from deniable.server.shuffling.amplification import (
    count_delta,
    report_epsilon,
    shuffled_delta,
    shuffled_epsilon,
)
from deniable.server.shuffling.composition import composed_epsilon, rounds_epsilon
from deniable.server.surveys.optimal_table import optimal_table
from deniable.shared.cli.command import main
from deniable.shared.privacy.epsilon import Epsilon, decimal_text
from deniable.shared.privacy.mechanism import Mechanism
from deniable.shared.privacy.mechanisms import (
    KClosest,
    KRandomizedResponse,
    LocalLaplace,
    ProjectiveGeometry,
    RandomizedResponse,
    SquareWave,
    SubsetSelection,
    Ternary,
    Unary,
    mechanism,
)
from tests.server.surveys import BIT, survey
from tests.survey_texts import survey_text

DELTA = 1e-6
Law = dict[tuple[int, ...], Fraction]
NOBODY: Law = {(): Fraction(1)}


def bits(epsilon: str, number: int) -> list[Mechanism]:
    return [RandomizedResponse(Epsilon(epsilon), 2)] * number


def choice(epsilon: str, options: int) -> Mechanism:
    return KRandomizedResponse(Epsilon(epsilon), options)


def subset(epsilon: str, options: int) -> Mechanism:
    return SubsetSelection(Epsilon(epsilon), options)


# questions, ε₀ of a report, whether one of them is asked, and ε at δ = 1e-6 by number of people;
# computed with another program, from formula (1) of the blanket
REFERENCE: list[tuple[str, list[Mechanism], float, bool, dict[int, float]]] = [
    ("bit", bits("1", 1), 1, False, {1_000: 0.14867, 10_000: 0.04321, 100_000: 0.01243}),
    ("4 of", [choice("1", 4)], 1, False, {1_000: 0.11782, 10_000: 0.03426, 100_000: 0.00983}),
    ("8 of", [choice("1", 8)], 1, False, {1_000: 0.08861, 10_000: 0.02573, 100_000: 0.00736}),
    ("16", [subset("1", 16)], 1, False, {1_000: 0.10462, 10_000: 0.03038, 100_000: 0.00870}),
    ("1024", [subset("1", 1_024)], 1, False, {1_000: 0.10249, 10_000: 0.02974, 100_000: 0.00852}),
    ("16 at 2", [subset("2", 16)], 2, False, {1_000: 0.28259, 10_000: 0.08248, 100_000: 0.02389}),
    ("1024 at 2", [subset("2", 1_024)], 2, False, {1_000: 0.27020, 10_000: 0.07886}),
    ("4 at 4", [choice("4", 4)], 4, False, {1_000: 1.74897, 10_000: 0.40258, 100_000: 0.11593}),
    ("64 at 4", [subset("4", 64)], 4, False, {1_000: 0.89995, 10_000: 0.27032, 100_000: 0.07899}),
    ("two bits", bits("0.5", 2), 1, False, {1_000: 0.10578, 10_000: 0.03069}),
    ("bit, 4", [*bits("1", 1), choice("1", 4)], 2, False, {1_000: 0.25630, 10_000: 0.07465}),
    ("four bits", bits("0.5", 4), 2, False, {1_000: 0.20787, 10_000: 0.06042}),
    ("eight bits", bits("0.25", 8), 2, False, {1_000: 0.14099, 10_000: 0.04090}),
    ("ask 1", [*bits("1", 1), choice("1", 4), subset("1", 16)], 1, True,
     {1_000: 0.12485, 10_000: 0.03629}),
    ("number", [optimal_table(Epsilon("1"), 16)], 1, False, {1_000: 0.14692, 10_000: 0.04270}),
    ("number at 2", [optimal_table(Epsilon("2"), 16)], 2, False, {1_000: 0.38222}),
    ("number at 4", [optimal_table(Epsilon("4"), 16)], 4, False, {1_000: 1.75711}),
]  # fmt: skip


NAMES = [row[0] for row in REFERENCE]


@pytest.mark.parametrize(
    ("mechanisms", "local", "asks_one", "values"), [row[1:] for row in REFERENCE], ids=NAMES
)
def test_the_accountant_reproduces_reference_values(
    mechanisms: list[Mechanism], local: float, asks_one: bool, values: dict[int, float]
) -> None:
    check_values(mechanisms, local, asks_one, {1_000: values[1_000]})


@pytest.mark.long
@pytest.mark.parametrize(
    ("mechanisms", "local", "asks_one", "values"), [row[1:] for row in REFERENCE], ids=NAMES
)
def test_the_accountant_reproduces_reference_values_of_large_crowds(
    mechanisms: list[Mechanism], local: float, asks_one: bool, values: dict[int, float]
) -> None:
    check_values(mechanisms, local, asks_one, values)


def check_values(
    mechanisms: list[Mechanism], local: float, asks_one: bool, values: dict[int, float]
) -> None:
    for people, epsilon in values.items():
        made = report_epsilon_among(tuple(mechanisms), local, people, DELTA, asks_one=asks_one)
        assert made == pytest.approx(epsilon, rel=1e-4, abs=5.1e-6)
        assert made <= shuffled_epsilon(local, people, DELTA) * 1.0002


@pytest.mark.parametrize(
    ("local", "people", "delta"),
    [("7", 300_000, 1e-8), ("8", 1_000_000, 1e-6), ("9", 100_000, 1e-9), ("11", 100_000, 1e-6)],
)
def test_rounding_never_understates_epsilon(local: str, people: int, delta: float) -> None:
    """For one bit the general bound is the exact value; rounding errors grow with people and ε₀."""
    asked = bits(local, 1)
    made = report_epsilon_among(tuple(asked), float(local), people, delta)
    assert shuffled_delta(float(local), people, made) <= delta
    blanket = only_blanket(asked[0])
    for share in (0.5, 0.9, 0.99999):
        exact = shuffled_delta(float(local), people, share * float(local))
        assert blanket_delta(blanket, people, share * float(local), delta) >= exact * (1 - 1e-9)


@pytest.mark.parametrize(
    ("asked", "local", "people", "most"),
    [
        (bits("1", 10), 10.0, 100_000, 1.09),  # rounding errors once made the bound negative
        (bits("2", 10), 20.0, 1_000, 20.0),  # the exact lattice would take gigabytes
        pytest.param([choice("20", 65_536)], 20.0, 1_000, 20.0, marks=pytest.mark.long),
        (bits("0.001", 1), 0.001, 1_000_000, 0.0),  # δ alone allows everything
        (bits("0.000001", 1), 1e-6, 2, 0.0),
        (bits("0.1", 100), 10.0, 1_000, 10.0),  # their products have 2^100 values
    ],
)
def test_extreme_surveys_get_a_bound(
    asked: list[Mechanism], local: float, people: int, most: float
) -> None:
    made = report_epsilon_among(tuple(asked), local, people, DELTA)
    assert made <= most
    assert made <= shuffled_epsilon(local, people, DELTA)


@pytest.mark.parametrize(
    ("people", "epsilon", "delta"), [(100_000, "0.01", 1e-4), (1_000, "0.1", 1e-2)]
)
def test_a_large_delta_allows_no_more_than_the_exact_bound(
    people: int, epsilon: str, delta: float
) -> None:
    def design(local: Epsilon) -> Mechanism:
        return RandomizedResponse(local, 2)

    found = largest_report_epsilon(design, Epsilon(epsilon), people, delta)
    assert shuffled_delta(float(found), people, float(epsilon)) <= delta


# Exact shuffled divergence of few people, by enumeration

SMALL: dict[str, Mechanism] = {
    "bit": RandomizedResponse(Epsilon("1"), 2),
    "three options": KRandomizedResponse(Epsilon("1"), 3),
    "four options": KRandomizedResponse(Epsilon("3"), 4),
    "sets": SubsetSelection(Epsilon("1"), 4),
    "unary": Unary(Epsilon("1"), 2),
    "circle": ProjectiveGeometry(Epsilon("1"), 3),
    "ternary": Ternary(Epsilon("2"), 2),
    "laplace": LocalLaplace(Epsilon("2"), 2),
    "wave": SquareWave(Epsilon("2"), 2),
}


def rows_of(design: Mechanism) -> list[list[Fraction]]:
    symbols = list(design.encoding.symbols())
    return [[design.weight(symbol, x) for symbol in symbols] for x in range(design.answers)]


def added(law: Law, row: Sequence[Fraction]) -> Law:
    """Return the law of the sorted symbols after one more report."""
    made: Law = Counter()  # type: ignore[assignment]  # a Counter of fractions
    for symbols, probability in law.items():
        for symbol, weight in enumerate(row):
            if weight:
                made[tuple(sorted((*symbols, symbol)))] += probability * weight
    return made


def divergence(first: Law, second: Law, factor: float) -> float:
    gains = (p - Fraction(factor) * second.get(y, Fraction(0)) for y, p in first.items())
    return float(sum(gain for gain in gains if gain > 0))


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("people", [2, 3])
def test_the_bound_is_never_below_the_exact_divergence(name: str, people: int) -> None:
    """Over all answers of the others, and all pairs of answers of one person."""
    design = SMALL[name]
    rows = rows_of(design)
    blankets = BLANKETS.of(design)(design)
    assert blankets
    others = [
        reduce(added, (rows[x] for x in answers), NOBODY)
        for answers in combinations_with_replacement(range(design.answers), people - 1)
    ]
    for share in (0.1, 0.5, 0.9):
        epsilon = share * float(design.epsilon)
        bound = max(blanket_delta(blanket, people, epsilon, DELTA) for blanket in blankets)
        exact = max(
            divergence(added(rest, rows[x]), added(rest, rows[y]), math.exp(epsilon))
            for rest in others
            for x, y in product(range(design.answers), repeat=2)
            if x != y
        )
        assert 0 < exact <= bound


# The same value by nested binomials, without a lattice or a transform


def nested(blanket: Blanket, people: int, epsilon: float) -> float:
    """Return δ(ε) of two answers as a sum over the numbers of reports of each kind."""
    gains = [u - math.exp(epsilon) * v for u, v in zip(blanket.u, blanket.v, strict=True)]
    rates = [blanket.gamma * float(weight) for weight in blanket.weight]

    def total(index: int, left: int, gain: float, probability: float, free: float) -> float:
        if index == len(gains):
            return probability * max(0.0, gain)
        share, sum_ = rates[index] / free, 0.0
        for count in range(left + 1):
            chance = comb(left, count) * share**count * (1 - share) ** (left - count)
            rest = gain + count * gains[index]
            sum_ += total(index + 1, left - count, rest, probability * chance, free - rates[index])
        return sum_

    return total(0, people, 0.0, 1.0, 1.0) / (blanket.gamma * people)


NESTED = [
    (design, people, share)
    for design in (choice("1", 5), bits("2", 1)[0], subset("1", 12), Unary(Epsilon("1"), 9),
                   ProjectiveGeometry(Epsilon("1"), 20))
    for people in (8, 20)
    for share in (0.3, 0.6)
]  # fmt: skip


@pytest.mark.parametrize(("design", "people", "share"), NESTED)
def test_the_bound_is_the_blanket_s_divergence(
    design: Mechanism, people: int, share: float
) -> None:
    blanket = only_blanket(design)
    epsilon = share * float(design.epsilon)
    exact = nested(blanket, people, epsilon)
    made = blanket_delta(blanket, people, epsilon, exact)
    assert exact <= made <= 1.01 * exact
    assert chernoff_delta(blanket, people, epsilon) >= exact


def only_blanket(design: Mechanism) -> Blanket:
    blankets = BLANKETS.of(design)(design)
    assert blankets is not None
    (blanket,) = blankets
    return blanket


def test_an_accountant_that_rounds_inward_would_be_noticed() -> None:
    """The twin: if u is one per cent too small, the bound is below the exact value."""
    blanket = only_blanket(choice("1", 5))
    smaller = blanket._replace(u=blanket.u * 0.99)
    assert blanket_delta(smaller, 20, 0.5, 1e-3) < nested(blanket, 20, 0.5)


def test_answers_that_differ_in_every_question_are_the_worst() -> None:
    """The accountant compares only these for designs with two levels."""
    blanket = only_blanket(choice("1", 4))
    agreed = blanket._replace(v=blanket.u)
    other = bits("1", 1)[0]
    bit = only_blanket(other)
    for people, epsilon in product((10, 200), (0.1, 0.4, 0.9)):
        differ, agree = (
            blanket_delta(_both(one, bit), people, epsilon, DELTA) for one in (blanket, agreed)
        )
        assert agree < differ


def _both(one: Blanket, other: Blanket) -> Blanket:
    from deniable.server.shuffling.accountant import _product

    return _product([one, other])


def test_a_mechanism_without_a_known_blanket_gets_the_general_bound() -> None:
    table = SquareWave(Epsilon("1"), 128)  # too many pairs of rows
    made = report_epsilon_among((table,), 1.0, 1_000, DELTA)
    assert made == shuffled_epsilon(1.0, 1_000, DELTA)


def test_texts_and_vectors_have_the_blanket_of_their_design() -> None:
    text = mechanism("text", Epsilon("1"), 64)
    made = report_epsilon_among((text,), 1.0, 1_000, DELTA)
    each = report_epsilon_among((text.each,), 1.0, 1_000, DELTA)  # type: ignore[attr-defined]
    assert made == each < shuffled_epsilon(1.0, 1_000, DELTA)
    vector = KClosest(Epsilon("1"), 8)
    assert report_epsilon_among((vector,), 1.0, 1_000, DELTA) < 0.1487


def test_a_shuffle_allows_a_larger_epsilon_for_many_options() -> None:
    """The result is private enough, and a slightly larger one is not."""

    def design(epsilon: Epsilon) -> Mechanism:
        return KRandomizedResponse(epsilon, 64)

    wanted = Epsilon("1")
    found = largest_report_epsilon(design, wanted, 1_000, DELTA)
    assert found.billionths > report_epsilon(wanted, 1_000, DELTA).billionths

    def delta(epsilon: Epsilon) -> float:
        blanket = only_blanket(design(epsilon))
        return blanket_delta(blanket, 1_000, 1.0, DELTA)

    assert delta(found) <= DELTA < delta(Epsilon(decimal_text(found.billionths + 2 * 100_000)))


def test_check_states_what_a_crowd_of_this_size_hides(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "survey.toml"
    assert main(["survey", "new", str(file)]) == 0
    assert main(["survey", "check", str(file), "--crowd", "1000", "--json"]) == 0
    stated = json.loads(capsys.readouterr().out.partition("\n")[2])["shuffled"]
    assert list(stated) == ["1000", "900", "500"]
    assert 0 < float(stated["1000"]) < float(stated["900"]) < float(stated["500"]) < 2
    capsys.readouterr()
    assert main(["survey", "check", str(file), "--crowd", "1"]) == 2
    assert main(["survey", "check", str(file), "--crowd", "1000"]) == 0
    assert "if it were sealed, and shuffled among 1,000 honest people" in capsys.readouterr().out


def test_check_states_what_a_crowd_hides_over_all_rounds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "survey.toml"
    file.write_text(survey_text(BIT, round="month"))
    assert main(["survey", "check", str(file), "--crowd", "1000", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["shuffled_lifetime"] == "0.268"
    assert main(["survey", "check", str(file), "--crowd", "1000"]) == 0
    told = "all 3 reports of a person reveal at most ε 0.268 (δ 0.000001) instead of ε 3"
    assert told in capsys.readouterr().out


# Several rounds


def unshuffled_profile(local: float) -> Callable[[float], float]:
    odds = math.exp(local)
    return lambda epsilon: max(0.0, (odds - math.exp(epsilon)) / (1 + odds))


@pytest.mark.parametrize("rounds", [1, 2, 12, 90])
@pytest.mark.parametrize("local", [0.05, 0.3, 1.5])
def test_composition_is_never_below_the_exact_value_and_close(local: float, rounds: int) -> None:
    """The losses of T randomized responses are those of a binomial number."""
    keep = 1 / (1 + math.exp(-local))
    law = [comb(rounds, n) * keep**n * (1 - keep) ** (rounds - n) for n in range(rounds + 1)]

    def delta(epsilon: float) -> float:
        losses = ((2 * n - rounds) * local for n in range(rounds + 1))
        return sum(
            p * max(0.0, 1 - math.exp(epsilon - x)) for p, x in zip(law, losses, strict=True)
        )

    made = composed_epsilon(unshuffled_profile(local), local, rounds, DELTA)
    assert delta(made) <= DELTA * (1 + 1e-9)
    assert delta(0.999 * made) > DELTA


@pytest.mark.parametrize("rounds", [2, 5])
def test_chords_between_the_points_of_a_profile_are_private_enough(rounds: int) -> None:
    """The count of three shuffled bits, in several rounds: compare with all sequences."""
    local, people, delta = 1.0, 3, 0.01
    keep = 1 / (1 + math.exp(-local))
    pairs = [tuple(map(count_of, ((a, b, keep), (a, b, 1 - keep))))
             for a, b in product((keep, 1 - keep), repeat=2)]  # fmt: skip
    made = composed_epsilon(
        lambda epsilon: count_delta(local, people, epsilon), local, rounds, delta
    )
    for one, other in pairs:
        first = reduce(lambda x, y: [a * b for a in x for b in y], [one] * rounds)
        second = reduce(lambda x, y: [a * b for a in x for b in y], [other] * rounds)
        spent = sum(max(0.0, p - math.exp(made) * q) for p, q in zip(first, second, strict=True))
        assert spent <= delta


def count_of(rates: Sequence[float]) -> list[float]:
    law = [1.0]
    for rate in rates:
        law = [a * (1 - rate) + b * rate for a, b in zip([*law, 0], [0, *law], strict=True)]
    return law


def test_many_rounds_spend_less_than_the_sum_of_their_epsilons() -> None:
    asked = survey(BIT, round="day")
    one, ninety = survey_epsilon(asked, 10_000, DELTA), rounds_epsilon(asked, 10_000, DELTA)
    assert asked.draws == 90
    assert ninety == pytest.approx(0.4810, abs=5e-4)
    assert ninety < 90 * one / 8
