"""Accountant of shuffled reports, compared with published values and with exact sums."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import date
from fractions import Fraction
from functools import lru_cache, reduce
from itertools import combinations_with_replacement, permutations, product
from math import comb
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from deniable.server.shuffling.accountant import (
    BLANKETS,
    Blanket,
    _blankets,
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
    ProjectiveGeometry,
    RandomizedResponse,
    SquareWave,
    SubsetSelection,
    Unary,
    mechanism,
    mechanisms,
)
from tests.server.surveys import BIT, survey
from tests.shared.test_sealing import PUBLIC
from tests.survey_texts import survey_text

DELTA = 1e-6
Rows = npt.NDArray[np.float64]


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
    ("1024 at 2", [subset("2", 1_024)], 2, False,
     {1_000: 0.27020, 10_000: 0.07886, 100_000: 0.02283}),
    ("4 at 4", [choice("4", 4)], 4, False, {1_000: 1.74897, 10_000: 0.40258, 100_000: 0.11593}),
    ("64 at 4", [subset("4", 64)], 4, False, {1_000: 0.89995, 10_000: 0.27032, 100_000: 0.07899}),
    ("two bits", bits("0.5", 2), 1, False, {1_000: 0.10578, 10_000: 0.03069}),
    ("bit, 4", [*bits("1", 1), choice("1", 4)], 2, False, {1_000: 0.25630, 10_000: 0.07465}),
    ("four bits", bits("0.5", 4), 2, False, {1_000: 0.20787, 10_000: 0.06042}),
    ("eight bits", bits("0.25", 8), 2, False, {1_000: 0.14099, 10_000: 0.04090}),
    ("ask 1", [*bits("1", 1), choice("1", 4), subset("1", 16)], 1, True,
     {1_000: 0.12485, 10_000: 0.03629}),
    ("number", [optimal_table(Epsilon("1"), 16)], 1, False, {1_000: 0.14692, 10_000: 0.04270}),
    ("number at 2", [optimal_table(Epsilon("2"), 16)], 2, False, {1_000: 0.38222, 10_000: 0.11038}),
    ("number at 4", [optimal_table(Epsilon("4"), 16)], 4, False, {1_000: 1.75711, 10_000: 0.40327}),
]  # fmt: skip


NAMES = [row[0] for row in REFERENCE]


@pytest.mark.parametrize(
    ("asked", "local", "asks_one", "values"), [row[1:] for row in REFERENCE], ids=NAMES
)
def test_the_accountant_reproduces_reference_values(
    asked: list[Mechanism], local: float, asks_one: bool, values: dict[int, float]
) -> None:
    check_values(asked, local, asks_one, {1_000: values[1_000]})


@pytest.mark.long
@pytest.mark.parametrize(
    ("asked", "local", "asks_one", "values"), [row[1:] for row in REFERENCE], ids=NAMES
)
def test_the_accountant_reproduces_reference_values_of_large_crowds(
    asked: list[Mechanism], local: float, asks_one: bool, values: dict[int, float]
) -> None:
    check_values(asked, local, asks_one, values)


def check_values(
    asked: list[Mechanism], local: float, asks_one: bool, values: dict[int, float]
) -> None:
    for people, epsilon in values.items():
        made = report_epsilon_among(tuple(asked), local, people, DELTA, asks_one=asks_one)
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


def columns(design: Mechanism) -> Rows:
    """Return the probability of each report by answer; join reports that reveal the same."""
    merged = dict[tuple[Fraction, ...], list[Fraction]]()
    for symbol in design.encoding.symbols():
        column = [design.weight(symbol, x) for x in range(design.answers)]
        if total := sum(column):
            merged.setdefault(tuple(weight / total for weight in column), []).append(total)
    scaled = [[float(share * sum(totals)) for share in like] for like, totals in merged.items()]
    rows: Rows = np.array(scaled).T
    return rows


def small(made: type[Mechanism]) -> Mechanism:
    for size in made.sizes[:4]:
        with suppress(ValueError):  # only some optimal tables are stored
            return made(Epsilon("1"), size)
    raise AssertionError(f"{made.name} has no small size")


@lru_cache
def places_after(reports: int, symbols: int) -> npt.NDArray[np.int64]:
    """Return the number of each multiset with one more report, by multiset and that report."""
    larger = combinations_with_replacement(range(symbols), reports + 1)
    place = {multiset: number for number, multiset in enumerate(larger)}
    return np.array(
        [
            [place[tuple(sorted((*multiset, symbol)))] for symbol in range(symbols)]
            for multiset in combinations_with_replacement(range(symbols), reports)
        ]
    )


def added(law: Rows, reports: int, row: Rows) -> Rows:
    """Return the law of the multiset of reports after one more."""
    places = places_after(reports, len(row))
    return np.bincount(places.ravel(), weights=np.outer(law, row).ravel()).astype(np.float64)


def exact_delta(rows: Rows, people: int, epsilon: float) -> float:
    """Return the largest δ, over all answers of the others, and two of one person."""
    worst = 0.0
    for crowd in combinations_with_replacement(rows, people - 1):
        law: Rows = np.ones(1)
        for reports, row in enumerate(crowd):
            law = added(law, reports, row)
        laws = [added(law, people - 1, row) for row in rows]
        for one, other in permutations(laws, 2):
            worst = max(worst, float(np.maximum(one - math.exp(epsilon) * other, 0).sum()))
    return worst


SEVERAL: dict[str, tuple[list[Mechanism], bool]] = {
    "seven points": ([ProjectiveGeometry(Epsilon("0.5"), 5)], False),
    "two bits": (bits("0.5", 2), False),
    "bit and three options": ([*bits("1", 1), choice("1", 3)], False),
    "one of them": ([*bits("1", 1), choice("1", 3)], True),
}
ENUMERATED = {name: ([small(made)], False) for name, made in mechanisms().items()} | SEVERAL


def joint(asked: Sequence[Mechanism], asks_one: bool) -> Rows:
    """Return the probability of each report by all answers, to questions or to one of them."""
    parts = [columns(design) for design in asked]
    answers = product(*(range(len(part)) for part in parts))
    if asks_one:
        return np.array([np.concatenate([p[x] for p, x in zip(parts, held, strict=True)])
                         for held in answers]) / len(parts)  # fmt: skip
    whole: Rows = np.ones((1, 1))
    for part in parts:
        whole = np.kron(whole, part).astype(np.float64)
    return whole


def bound_of(asked: Sequence[Mechanism], asks_one: bool, people: int, epsilon: float) -> float:
    listed = _blankets(asked, asks_one=asks_one)
    assert listed
    return max(blanket_delta(blanket, people, epsilon, DELTA) for blanket in listed)


@pytest.mark.parametrize("name", ENUMERATED)
@pytest.mark.parametrize("people", range(2, 7))
def test_the_bound_is_never_below_the_exact_divergence(name: str, people: int) -> None:
    asked, asks_one = ENUMERATED[name]
    rows = joint(asked, asks_one)
    largest = float(np.log(rows.max(axis=0) / rows.min(axis=0)).max())
    for share in (0.1, 0.5, 0.9):
        exact = exact_delta(rows, people, share * largest)
        assert 0 < exact * (1 - 1e-12) <= bound_of(asked, asks_one, people, share * largest)


def test_a_blanket_that_is_too_large_would_be_noticed() -> None:
    """The twin: with half of the others' noise, the bound is below the exact value."""
    asked = [choice("1", 3)]
    exact, blanket = exact_delta(joint(asked, False), 3, 0.9), only_blanket(asked[0])
    assert blanket_delta(blanket, 3, 0.9, DELTA) >= exact
    assert blanket_delta(blanket._replace(gamma=2 * blanket.gamma), 3, 0.9, DELTA) < exact


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


LABEL = '[[label]]\nname = "version"\nvalues = ["1.0", "2.0"]\n'


def test_anyone_can_certify_what_a_shuffle_hides(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Certify the author's file, what a server publishes, and a survey in a store."""
    file, published, data = tmp_path / "survey.toml", tmp_path / "survey.json", tmp_path / "data"
    file.write_text(survey_text(LABEL + BIT, sealed_to=PUBLIC, closes=date(2026, 12, 31)))

    def printed(*words: str) -> str:
        assert main(list(words)) == 0
        return capsys.readouterr().out

    printed("survey", "publish", str(file), "--data", str(data))
    published.write_text(printed("survey", "show", "app-health", "--data", str(data), "--json"))
    named = [str(file)], [str(published)], ["app-health", "--data", str(data)]
    documents = [
        json.loads(printed("certify", "--json", "--shuffled", *words, "--crowd", "1000"))
        for words in named
    ]
    assert documents == [{
        "name": "app-health", "epsilon": "1", "crowd": 1_000, "delta": "0.000001",
        "shuffled": {"1000": "0.149", "900": "0.158", "500": "0.216"},
    }] * 3  # fmt: skip
    told = "shuffled among 900 honest people with the same labels, one report reveals at most"
    assert f"{told} ε 0.158 (δ 0.000001) instead of ε 1" in printed(
        "certify", "--shuffled", str(published)
    )


@pytest.mark.parametrize(
    ("text", "words", "says"),
    [
        (survey_text(BIT), ["--crowd", "1"], "--crowd must be from 2 to 1,000,000, got 1"),
        (survey_text(BIT, repeat="latched", repeat_rounds=3), [], "can link repeated reports"),
        ("{}", [], "is not a survey in the form that `deniable survey show --json` prints"),
        ('{"document": "{}"}', [], "survey"),
    ],
)
def test_a_survey_that_cannot_be_certified_is_refused_in_one_line(
    text: str, words: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "survey").write_text(text)
    assert main(["certify", "--shuffled", str(tmp_path / "survey"), *words]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert said.count("\n") == 1


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
