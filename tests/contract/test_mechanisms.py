"""Contract of every mechanism: private, complete, unbiased, and drawn as its rows state."""

import math
import random
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from operator import mul

import mpmath
import pytest

from deniable.shared.privacy.encodings import BitSet, Encoding, WholeNumber
from deniable.shared.privacy.epsilon import ONE, Epsilon, exp_interval
from deniable.shared.privacy.families.group_design import GroupedDesign
from deniable.shared.privacy.families.number_table import NumberTable
from deniable.shared.privacy.families.support import SLACK, SupportDesign
from deniable.shared.privacy.families.vector_design import VectorDesign
from deniable.shared.privacy.mechanism import INDEPENDENT, MULTINOMIAL, SUMS, Mechanism
from deniable.shared.privacy.mechanisms import (
    KRandomizedResponse,
    LocalLaplace,
    ProjectiveGeometry,
    RandomizedResponse,
    SplitSign,
    SubsetSelection,
    Ternary,
    Unary,
    mechanism,
    mechanisms,
    number_table,
    sizes,
    support_design,
)
from deniable.shared.privacy.verification import certify, grid
from tests.contract.extensions import DESIGNS
from tests.plausible import assert_implausible, assert_plausible
from tests.shared.contract import exact_rows, for_each, seeds, small_mechanisms

SHIPPED = list(small_mechanisms())
# plus two of new families, which the product does not contain
ALL = [*SHIPPED, *small_mechanisms(DESIGNS)]
every_mechanism = for_each(ALL)
COUNTED = [mechanism for mechanism in ALL if not isinstance(mechanism, VectorDesign)]
Counting = NumberTable | SupportDesign | GroupedDesign
every_one_that_counts = for_each(COUNTED)


def exp_below(epsilon: Epsilon) -> Fraction:
    """Return a rational below e^ε, from a library that the code under test does not use."""
    with mpmath.workprec(400):
        value = mpmath.exp(mpmath.mpf(epsilon.billionths) / 10**9)
        return Fraction(int(mpmath.floor(value * 2**300)), 2**300)


def worst_column(rows: list[list[Fraction]]) -> Fraction:
    return max(Fraction(max(column), min(column)) for column in zip(*rows, strict=True))


def supporting(design: SupportDesign, option: int, row: list[Fraction]) -> Fraction:
    """Return the exact probability that a report from this row supports the option."""
    speaks = [
        any(option in design.supported_by(cell) for cell in design.cells_of(symbol))
        for symbol in design.encoding.symbols()
    ]
    return sum((p for p, does in zip(row, speaks, strict=True) if does), Fraction(0))


def mean_value(table: NumberTable, row: tuple[int, ...]) -> Fraction:
    """Return the exact mean of the values of one row, in steps."""
    common = math.lcm(*(value.denominator for value in table.values))
    whole = [value.numerator * (common // value.denominator) for value in table.values]
    return Fraction(sum(map(mul, row, whole)), common * ONE)


def test_every_mechanism_of_the_table_is_in_the_contract() -> None:
    assert {mechanism.name for mechanism in SHIPPED} == set(mechanisms())
    assert {mechanism.name for mechanism in grid()} == set(mechanisms())


@every_mechanism
def test_privacy_loss_never_exceeds_epsilon(mechanism: Mechanism) -> None:
    """The worst ratio of any column, computed exactly for all public bits, is at most e^ε."""
    for seed in seeds(mechanism):
        assert worst_column(exact_rows(mechanism, seed)) <= exp_below(mechanism.epsilon)
    assert mechanism.is_private()


@every_mechanism
def test_the_stated_worst_ratio_is_a_close_bound_on_that_of_the_rows(mechanism: Mechanism) -> None:
    stated, worst = Fraction(*mechanism.worst_ratio()), worst_column(exact_rows(mechanism))
    assert worst <= stated <= worst * (1 + Fraction(3, 2 * SLACK))


@for_each(SHIPPED)
def test_rounding_costs_almost_no_epsilon(mechanism: Mechanism) -> None:
    """Rounding costs less than a billionth of ε; the realised ε has forty digits."""
    spent = mechanism.realised_epsilon()
    assert len(spent.as_tuple().digits) == 40
    assert 0 <= Fraction(mechanism.epsilon.billionths, 10**9) - Fraction(spent) < Fraction(1, 10**9)


@every_mechanism
def test_rows_sum_to_one_and_every_symbol_is_possible(mechanism: Mechanism) -> None:
    assert mechanism.is_whole()
    for row in (row for seed in seeds(mechanism) for row in exact_rows(mechanism, seed)):
        assert sum(row) == 1
        assert min(row) > 0


@every_one_that_counts
def test_every_cell_has_its_stated_rate(mechanism: Mechanism) -> None:
    """Check each cell's rate to the nearest unit, and the stated joint rates, by enumeration."""
    symbols = list(mechanism.encoding.symbols())
    cells = [set(mechanism.cells_of(symbol)) for symbol in symbols]
    for answer, row in enumerate(exact_rows(mechanism)):
        for cell in range(mechanism.cells):
            rate = sum((p for p, own in zip(row, cells, strict=True) if cell in own), Fraction(0))
            near = (
                1 if isinstance(mechanism, GroupedDesign) else Fraction(1, 2) + Fraction(1, 2**30)
            )
            assert abs(rate * ONE - mechanism.rate(cell, answer)) <= near
    sizes = {len(own) for own in cells}
    assert (mechanism.joint == MULTINOMIAL) == (sizes == {1})


@every_one_that_counts
def test_cells_stated_to_be_independent_are_independent(mechanism: Mechanism) -> None:
    """For every pair, P[both cells] is the product. If cells are dependent, some pair differs."""
    if mechanism.joint == MULTINOMIAL:
        return
    symbols = list(mechanism.encoding.symbols())
    cells = [set(mechanism.cells_of(symbol)) for symbol in symbols]
    products = []
    for row in exact_rows(mechanism):
        for pair in ((0, 1), (0, mechanism.cells - 1)):
            chosen = [
                sum((p for p, own in zip(row, cells, strict=True) if wanted <= own), Fraction(0))
                for wanted in ({pair[0]}, {pair[1]}, set(pair))
            ]
            products.append(chosen[0] * chosen[1] == chosen[2])
    assert all(products) == (mechanism.joint == INDEPENDENT)


@every_mechanism
def test_every_mechanism_is_unbiased_by_enumeration(mechanism: Mechanism) -> None:
    """Enumerate the rows: the mean of the values is the answer to 2^-40 of a step.

    A design is unbiased if every option is supported with `keep` when true and with `lie`
    otherwise, to the nearest unit. Vectors have tests of their own
    (tests/shared/test_k_closest.py).
    """
    if isinstance(mechanism, SupportDesign):
        assert mechanism.keep > mechanism.lie
        near = Fraction(1, 2) + Fraction(1, 2**30)
        for answer, exact in enumerate(exact_rows(mechanism)):
            for option in {0, 1, answer, mechanism.options - 1}:
                stated = mechanism.keep if option == answer else mechanism.lie
                assert abs(supporting(mechanism, option, exact) * ONE - stated) <= near
        return
    if isinstance(mechanism, GroupedDesign):
        assert mechanism.each.keep > mechanism.each.lie
        return
    if not isinstance(mechanism, NumberTable):
        return
    for answer, row in enumerate(mechanism.rows):
        assert abs(mean_value(mechanism, row) - answer) <= Fraction(1, 2**40)


@every_mechanism
def test_the_range_that_a_report_names_is_the_most_probable_range(mechanism: Mechanism) -> None:
    """Answers in the range are equally probable, to one part in 2^40; all others are less so."""
    if isinstance(mechanism, NumberTable):
        for symbol in mechanism.encoding.symbols():
            first, last = mechanism.likeliest(symbol)
            column = [mechanism.weight(symbol, answer) for answer in range(mechanism.answers)]
            said = range(first, last + 1)
            alike = max(column) * (1 - Fraction(1, 2**40))
            assert all(column[answer] >= alike for answer in said)
            assert all(w < alike for a, w in enumerate(column) if a not in said)


@every_mechanism
def test_mechanisms_that_add_amounts_to_all_cells_declare_it(mechanism: Mechanism) -> None:
    """Every other mechanism adds one to each cell that a report supports."""
    for symbol in mechanism.encoding.symbols():
        amounts = list(mechanism.encoding.amounts(symbol))
        assert [cell for cell, _ in amounts] == list(mechanism.cells_of(symbol))
        assert all(amount == 1 for _, amount in amounts) or mechanism.joint == SUMS
    assert (mechanism.joint == SUMS) == isinstance(mechanism, VectorDesign)


@every_mechanism
def test_payloads_are_whole_bytes_that_hold_every_symbol(mechanism: Mechanism) -> None:
    assert 256 ** (mechanism.payload_size - 1) < mechanism.symbols <= 256**mechanism.payload_size


@every_mechanism
def test_the_json_form_returns_every_symbol_and_no_other(mechanism: Mechanism) -> None:
    encoding = mechanism.encoding
    symbols = set(encoding.symbols())
    assert all(encoding.from_json(encoding.to_json(symbol)) == symbol for symbol in symbols)
    for number in range(256**mechanism.payload_size if mechanism.payload_size == 1 else 0):
        assert encoding.is_symbol(number) == (number in symbols)
    for wrong in (-1, mechanism.symbols, 1.0, True, None, "", "zz", [0], encoding.to_json(0) * 2):
        if wrong not in (0, *(encoding.to_json(symbol) for symbol in symbols)):
            with pytest.raises(ValueError, match=r"symbol|digits"):
                encoding.from_json(wrong)


ENCODINGS = [WholeNumber(2), WholeNumber(300), BitSet(3), BitSet(9), BitSet(9, 4), BitSet(8, 8)]


@pytest.mark.parametrize(
    ("cells", "number", "bits"),
    [(2, 1, 1), (8, 1, 1), (9, 1, 2), (16, 1, 2), (17, 1, 3), (256, 1, 32), (257, 2, 33)],
)
def test_a_payload_has_no_unused_byte(cells: int, number: int, bits: int) -> None:
    assert (WholeNumber(cells).payload_size, BitSet(cells).payload_size) == (number, bits)
    assert WholeNumber(65_536).payload_size == 2


@pytest.mark.parametrize("encoding", ENCODINGS, ids=str)
def test_an_encoding_distinguishes_its_symbols_from_other_numbers(encoding: Encoding) -> None:
    symbols = list(encoding.symbols())
    everything = range(256**encoding.payload_size)
    assert symbols == [number for number in everything if encoding.is_symbol(number)]
    assert not encoding.is_symbol(-1)
    assert {cell for symbol in symbols for cell in encoding.cells_of(symbol)} == set(
        range(encoding.cells)
    )


def sampled(epsilon: str) -> list[Mechanism]:
    """Return mechanisms of each class that are small enough to count every symbol.

    tests/shared/test_k_closest.py contains the same test for mechanisms with public bits.
    """
    few = [m for m in ALL if str(m.epsilon) == epsilon and not m.encoding.public_bits]
    return [m for m in few if sum(1 for _ in m.encoding.symbols()) <= 64]


@for_each(sampled("2"))
def test_reports_follow_the_stated_probabilities(mechanism: Mechanism) -> None:
    """For each mechanism, the false-alarm probability is 1e-9 over all its answers and symbols."""
    check_that_reports_follow_their_probabilities(mechanism)


@pytest.mark.long
@for_each(sampled("0.5"))
def test_reports_at_a_small_epsilon_follow_the_stated_probabilities(mechanism: Mechanism) -> None:
    check_that_reports_follow_their_probabilities(mechanism)


def check_that_reports_follow_their_probabilities(mechanism: Mechanism) -> None:
    rows, symbols = exact_rows(mechanism), list(mechanism.encoding.symbols())
    draw, n = random.Random(20261118).getrandbits, 6_000
    alpha = 1e-9 / (len(rows) * len(symbols))
    for answer, row in enumerate(rows):
        given = mechanism.answer_at(answer)
        counts = Counter(mechanism.randomize(given, draw) for _ in range(n))
        assert set(counts) <= set(symbols)
        for symbol, probability in zip(symbols, row, strict=True):
            assert_plausible(counts[symbol], n, float(probability), alpha)


def test_the_test_above_can_fail() -> None:
    """Twin: the check rejects a randomizer for ε = 1.1 where ε = 1 is stated."""
    draw, n = random.Random(20261118).getrandbits, 200_000
    wrong = KRandomizedResponse(Epsilon("1.1"), 3)
    honest = sum(wrong.randomize(2, draw) == 2 for _ in range(n))
    assert_implausible(honest, n, KRandomizedResponse(Epsilon("1"), 3).keep / ONE)


def test_a_number_table_with_less_noise_is_rejected() -> None:
    """Twin: a Laplace table has the noise of ε = 2.2 but states ε = 2."""
    draw, n = random.Random(20261118).getrandbits, 200_000
    wrong = LocalLaplace(Epsilon("2.2"), 8)
    honest = sum(wrong.randomize(wrong.answer_at(4), draw) == 4 for _ in range(n))
    assert_implausible(honest, n, LocalLaplace(Epsilon("2"), 8).rows[4][4] / ONE)


@every_mechanism
def test_the_rarest_rolls_give_a_symbol_of_the_table(mechanism: Mechanism) -> None:
    """All drawn bits are 0, or all are 1: no roll falls outside the table."""
    for answer in {0, mechanism.answers - 1}:
        given = mechanism.answer_at(answer)
        for edge in (lambda bits: 0, lambda bits: (1 << bits) - 1):
            assert mechanism.encoding.is_symbol(mechanism.randomize(given, edge))


@every_mechanism
def test_the_draw_has_the_same_size_for_every_answer(mechanism: Mechanism) -> None:
    sizes = []
    draw = random.Random(1).getrandbits

    def counted(bits: int) -> int:
        sizes.append(bits)
        return draw(bits)

    for answer in range(mechanism.answers):
        for _ in range(3):
            mechanism.randomize(mechanism.answer_at(answer), counted)
    draws = 2 if isinstance(mechanism, GroupedDesign) else 1  # the group and its report
    reports = list(zip(*[iter(sizes)] * draws, strict=True))
    assert len(reports) == 3 * mechanism.answers
    assert len(set(reports)) == 1
    assert all(size % 8 == 0 for size in reports[0])


def nearest(numerator: Fraction) -> int:
    return round(numerator * ONE)


def test_rounding_to_nearest_would_break_epsilon() -> None:
    """Lies are rounded up. With rounding to the nearest unit, some cells would exceed e^ε."""
    broken = 0
    for hundredths in range(5, 400, 5):
        epsilon = Epsilon(f"{hundredths / 100:.2f}")
        for symbols in (2, 3, 10, 100):
            lie = nearest(1 / (exp_below(epsilon) + symbols - 1))
            broken += Fraction(ONE - lie * (symbols - 1), lie) > exp_below(epsilon)
    assert broken > 50


def test_the_default_choice_has_the_shortest_report_of_those_close_to_the_least_variance() -> None:
    """The default is k-ary response for few options, then subsets or geometries.

    The variance is the total over the options. Subsets of one option equal k-ary response, which
    has the shorter report.
    """
    names = [support_design("choice", Epsilon("1"), k).name for k in (2, 3, 5, 6, 50, 1_024)]
    few, many, most = "k-randomized-response", "subset-selection", "projective-geometry"
    assert names == [few, few, few, many, many, most]
    for text, k in product(("0.5", "1", "4"), (*range(2, 40), 120, 1_024, 8_192)):
        chosen = support_design("choice", Epsilon(text), k)
        designs = [
            support_design("choice", Epsilon(text), k, name) for name in mechanisms("choice")
        ]
        least = min(designs, key=lambda design: design.predicted_error(1))
        assert chosen.predicted_error(1) ** 2 <= 1.02 * least.predicted_error(1) ** 2
        assert chosen.leverage <= 1.1 * least.leverage
        for other in designs:
            if other.payload_size < chosen.payload_size:
                worse = other.predicted_error(1) ** 2 > 1.02 * least.predicted_error(1) ** 2
                heavier = other.leverage > 1.1 * least.leverage
                assert worse or heavier or other.cells > 10 * least.cells


def test_the_default_number_table_has_the_minimum_worst_variance() -> None:
    """Search every grid at several ε, and ternary; a grid of one step is one-bit-mean."""
    for text in ("0.3", "1", "1.38", "1.4", "2", "4"):
        epsilon = Epsilon(text)
        best = min(LocalLaplace(epsilon, m).worst_variance(1) for m in range(1, 33))
        best = min(best, Ternary(epsilon).worst_variance(1))
        assert number_table(epsilon).worst_variance(1) <= best * (1 + 1e-9)
    names = [number_table(Epsilon(text)).name for text in ("1.09", "1.1", "5.3", "5.4")]
    assert names == ["one-bit-mean", "ternary", "ternary", "local-laplace"]


@pytest.mark.parametrize(
    ("epsilon", "fine", "best"),
    [
        ("0.5", 19.491, 16.671),
        ("1", 5.5549, 4.6827),
        ("2", 1.6264, 1.47974),
        ("4", 0.46518, 0.46156),
    ],
)
def test_worst_variances_agree_with_independent_software(
    epsilon: str, fine: float, best: float
) -> None:
    """Compare the local Laplace table on [-1, 1], with 64 steps and with the best grid."""
    table = LocalLaplace(Epsilon(epsilon), 64)
    assert 4 * table.worst_variance(1) == pytest.approx(fine, rel=5e-5)
    chosen = number_table(Epsilon(epsilon), None, "local-laplace")
    assert 4 * chosen.worst_variance(1) == pytest.approx(best, rel=5e-5)


@every_one_that_counts
def test_predicted_variance_agrees_with_the_rows(mechanism: Counting) -> None:
    """Enumerate the variance of option 0's estimated share, or of the mean, from one report."""
    for answer, row in enumerate(exact_rows(mechanism)):
        if isinstance(mechanism, NumberTable):
            spread = math.fsum(
                float(p) * (float(v) - answer) ** 2
                for p, v in zip(row, mechanism.values, strict=True)
            )
            stated = mechanism.variance(1, answer / mechanism.steps) * mechanism.steps**2
        elif isinstance(mechanism, GroupedDesign):  # counting only the reports of the group
            each = mechanism.each
            speaking = [cell for cell in range(each.cells) if 0 in each.supported_by(cell)]
            rate = sum(mechanism.rate(cell, answer) for cell in speaking) / mechanism.shares[0]
            spread = rate * (1 - rate) * (ONE / (each.keep - each.lie)) ** 2
            stated = each.variance(1, float(answer == 0))
        else:
            rate = float(supporting(mechanism, 0, row))
            spread = rate * (1 - rate) * (ONE / (mechanism.keep - mechanism.lie)) ** 2
            stated = mechanism.variance(1, float(answer == 0))
        assert stated == pytest.approx(spread, rel=1e-6)


@every_one_that_counts
def test_the_predicted_error_equals_that_of_the_worst_answers_or_of_all_options(
    mechanism: Counting,
) -> None:
    """For designs, any shares give the error, here all on one option. For tables, search finely."""
    predicted = 7 * mechanism.predicted_error(7) ** 2
    if isinstance(mechanism, GroupedDesign):  # only the last groups determine it
        part = Fraction(mechanism.final, mechanism.groups)
        assert predicted == pytest.approx(
            mechanism.each.predicted_error(1) ** 2 / float(part), rel=1e-9
        )
    elif isinstance(mechanism, SupportDesign):
        nobody, everybody = mechanism.variance(1, 0.0), mechanism.variance(1, 1.0)
        total = everybody + (mechanism.options - 1) * nobody
        assert predicted == pytest.approx(total / mechanism.options, rel=1e-9)
    else:
        places = 64 * mechanism.steps
        searched = [mechanism.variance(1, step / places) for step in range(places + 1)]
        assert max(searched) * (1 - 1e-9) <= predicted <= max(searched) * (1 + 1e-3)
        assert 7 * mechanism.least_variance(7) == pytest.approx(min(searched), rel=1e-9)


@pytest.mark.parametrize("epsilon", ["0.01", "1", "20"])
def test_the_finest_grid_is_unbiased(epsilon: str) -> None:
    table = LocalLaplace(Epsilon(epsilon), 255)
    for answer, row in enumerate(table.rows):
        assert abs(mean_value(table, row) - answer) <= Fraction(1, 2**60)


@pytest.mark.parametrize(
    ("epsilon", "lie"),
    [
        ("0.5", 6964396094736529935),
        ("1", 4961093570831980854),
        ("2", 2198905795380358826),
        ("4", 331787012026708148),
    ],
)
def test_thresholds_agree_with_independent_figures(epsilon: str, lie: int) -> None:
    assert RandomizedResponse(Epsilon(epsilon)).lie == lie


def test_large_designs_are_private_by_their_structure() -> None:
    for text in ("0.01", "1", "20"):
        for options in (1_024, 65_536):
            for design in mechanisms("choice").values():
                if options in design.sizes:
                    assert certify(design(Epsilon(text), options)).holds


def test_a_table_with_one_unit_too_many_is_rejected() -> None:
    """One unit of 2^-64 is moved from a lie to the truth, and the proof rejects the table."""
    mechanism = RandomizedResponse(Epsilon("1"))
    mechanism.lie -= 1
    mechanism.keep += 1
    assert not mechanism.is_private()


@pytest.mark.parametrize(
    ("epsilon", "first", "variances"),
    [
        ("0.5", 4, {10: 12.566, 128: 15.411, 1024: 15.638}),
        ("1", 6, {2: 0.92067, 10: 2.8392, 128: 3.6098, 1024: 3.6736}),
        ("2", 12, {10: 0.37700, 128: 0.69710, 1024: 0.72070}),
        ("4", 79, {10: 0.021790, 128: 0.058424, 1024: 0.073908}),
    ],
)
def test_the_error_of_subset_selection_agrees_with_independent_figures(
    epsilon: str, first: int, variances: dict[int, float]
) -> None:
    """Compare n times the variance for an option that nobody holds.

    With `first` options or more, a report names two options.
    """
    for options, variance in variances.items():
        design = SubsetSelection(Epsilon(epsilon), options)
        assert design.variance(1, 0.0) == pytest.approx(variance, rel=5e-5)
    assert SubsetSelection(Epsilon(epsilon), first - 1).chosen == 1
    assert SubsetSelection(Epsilon(epsilon), first).chosen == 2


@pytest.mark.parametrize("sizes", [range(2, 60), (100, 1_000)])
@pytest.mark.parametrize("epsilon", ["0.01", "0.5", "1", "2", "4", "20"])
def test_the_chosen_subset_has_the_best_size(epsilon: str, sizes: Sequence[int]) -> None:
    """Compare with every other size in rational arithmetic, for lower and upper bounds on e^ε."""
    below = exp_below(Epsilon(epsilon))
    for options in sizes:
        chosen = SubsetSelection(Epsilon(epsilon), options).chosen
        for e in (below, below + Fraction(1, 2**290)):
            spread = [(d * e + options - d) ** 2 / (d * (options - d)) for d in range(1, options)]
            assert spread[chosen - 1] == min(spread)


@pytest.mark.parametrize("options", [3, 9, 8_192])
def test_a_miss_compensates_every_other_rounding(options: int) -> None:
    """Before the miss is rounded, the stated ratio including the slack is exactly e^ε."""
    design = SubsetSelection(Epsilon("1"), options)
    e = exp_interval(1, 1, 512)
    (miss,) = design._miss(e)
    held, missed = design.chosen * SLACK, (options - design.chosen) * (SLACK + 1)
    ratio = Fraction((2**512 - miss.low) * missed, miss.low * held)
    assert abs(ratio / Fraction(e.low, 2**512) - 1) < Fraction(1, 2**490)


def test_the_finest_grid_is_chosen_where_noise_is_rare() -> None:
    """At ε 20 every further step reduces the variance. At ε 3 the chosen grid beats all others."""
    assert LocalLaplace.best_size(Epsilon("20")) == LocalLaplace.sizes[-1]
    for text in ("3", "5"):
        best = LocalLaplace.best_size(Epsilon(text))
        errors = [LocalLaplace(Epsilon(text), m).worst_variance(1) for m in range(1, 40)]
        assert errors[best - 1] == min(errors)


@pytest.mark.parametrize("name", mechanisms())
def test_a_size_without_a_mechanism_is_refused(name: str) -> None:
    kind = mechanisms()[name].kind
    for size in (0, sizes(kind, name)[1] + 1):
        with pytest.raises(ValueError, match=f"takes size {size}"):
            mechanism(kind, Epsilon("1"), size, name)


class Planted(Ternary):
    """Planted mechanism with these three rows in its table."""

    planted: tuple[tuple[int, ...], ...]

    @property
    def rows(self) -> tuple[tuple[int, ...], ...]:
        return self.planted


def planted(least: int, total: int = ONE) -> Planted:
    """Return a table whose smallest entries are `least` and whose last row sums to `total`."""
    table, half = Planted(Epsilon("1")), ONE // 2
    row = (least, half, half - least)
    table.planted = row, row, (half + total - ONE, half - least, least)
    return table


def of_one_option(keep: int, lie: int) -> KRandomizedResponse:
    design = KRandomizedResponse(Epsilon("1"), 5)
    design.keep, design.lie = keep, lie
    return design


def of_bits(keep: int, lie: int) -> Unary:
    design = Unary(Epsilon("1"), 5)
    design.keep, design.lie = keep, lie
    return design


def of_sets(chosen: int, miss: int) -> SubsetSelection:
    design = SubsetSelection(Epsilon("1"), 9)
    design.chosen, design.miss = chosen, miss
    return design


HALF = ONE // 2


@pytest.mark.parametrize(
    ("whole", "broken"),
    [
        (planted(1), planted(0)),  # an impossible symbol
        (planted(1), planted(1, total=ONE - 1)),
        (planted(1), planted(1, total=ONE + 1)),
        (of_one_option(ONE - 4, 1), of_one_option(ONE, 0)),
        (of_one_option(4, HALF // 2 - 1), of_one_option(0, HALF // 2)),
        (of_one_option(ONE - 4, 1), of_one_option(ONE - 3, 1)),
        (of_one_option(ONE - 4, 1), of_one_option(ONE - 5, 1)),
        (of_bits(HALF, 1), of_bits(HALF, 0)),
        (of_bits(1, HALF), of_bits(0, HALF)),
        (of_bits(ONE - 1, HALF), of_bits(ONE, HALF)),
        (of_sets(3, 1), of_sets(3, 0)),
        (of_sets(3, ONE - 1), of_sets(3, ONE)),
        (of_sets(1, HALF), of_sets(0, HALF)),
        (of_sets(8, HALF), of_sets(9, HALF)),
    ],
)
def test_a_valid_table_has_at_least_one_unit_in_every_cell(
    whole: Mechanism, broken: Mechanism
) -> None:
    assert whole.is_whole()
    assert not broken.is_whole()


def test_certify_requires_rows_that_sum_to_one_as_well_as_small_ratios() -> None:
    """Rows that do not sum to one are refused even if all ratios are small; so is an extra lie."""
    assert certify(Ternary(Epsilon("1"))).holds
    short = Planted(Epsilon("1"))
    (keep, *lies), *others = Ternary(Epsilon("1")).rows
    short.planted = (keep - 1, *lies), *others
    assert short.is_private()
    assert not certify(short).holds
    lie_too_many = KRandomizedResponse(Epsilon("1"), 5)
    lie_too_many.lie += 1
    assert not certify(lie_too_many).holds


def test_a_table_too_fine_for_its_epsilon_is_refused() -> None:
    """Rounding adds up to a unit to each other entry, so the diagonal would be too small."""
    table = LocalLaplace(Epsilon("0.000000001"), 255)
    with mpmath.workprec(200):
        r = mpmath.exp(-mpmath.mpf(1) / (10**9 * 255))
        inside = int(mpmath.nint((1 - r) / (1 + r) * ONE))
    short = [inside - table.rows[i][i] for i in range(1, 255)]
    assert 100 < min(short) <= max(short) <= 255
    assert table.is_whole()
    assert not table.is_private()
    assert not certify(table).holds
    assert all(LocalLaplace(Epsilon("0.0000001"), m).is_private() for m in (64, 128, 255))


@pytest.mark.parametrize("planted", [[0, 1, 3], [0, 1, 3, 3], [0, 1, 3, 13], [-1, 0, 1, 3]])
def test_a_block_of_the_wrong_size_is_invalid(planted: list[int]) -> None:
    """One of 13 symbols is missing, repeated, beyond the circle, or before it."""
    design = ProjectiveGeometry(Epsilon("1"), 11)
    assert design.is_whole()
    design.__dict__["difference_set"] = planted
    assert design.is_private()
    assert not certify(design).holds


def test_leverage_is_the_largest_effect_of_one_report_on_an_estimate() -> None:
    mechanism = RandomizedResponse(Epsilon("1"))
    assert mechanism.leverage == pytest.approx(1.58198, rel=1e-5)
    assert number_table(Epsilon("1")).leverage == pytest.approx(1.58198, rel=1e-5)
    e = math.e
    ternary, split = Ternary(Epsilon("1")), SplitSign(Epsilon("1"))
    assert ternary.leverage == pytest.approx((1 + (e + 2) / (e - 1)) / 2, rel=1e-9)
    assert split.leverage == pytest.approx((1 + 2 * e / (e - 1)) / 2, rel=1e-9)
    assert math.isclose(KRandomizedResponse(Epsilon("1"), 256).leverage, 149.4, rel_tol=1e-3)


@pytest.mark.parametrize("options", [2, 3, 4, 20, 31])
@pytest.mark.parametrize("design", [KRandomizedResponse, SubsetSelection, Unary])
def test_no_report_is_further_from_any_true_share_than_the_leverage(
    design: type[SupportDesign], options: int
) -> None:
    """A subset of 4 options at an epsilon of 0.5 has 2, and lowers an option that all chose."""
    for epsilon in ("0.1", "0.5", "2"):
        mechanism = design(Epsilon(epsilon), options)
        span = mechanism.keep - mechanism.lie
        raised, lowered = (ONE - mechanism.lie) / span, -mechanism.lie / span
        assert mechanism.leverage == pytest.approx(max(raised - 0, 1 - lowered))


@for_each([mechanism for mechanism in ALL if isinstance(mechanism, NumberTable)])
def test_every_search_takes_the_same_number_of_steps(mechanism: NumberTable) -> None:
    """A bisection over 2^b - 1 entries takes exactly b steps for every value."""
    for row in mechanism._cumulative:
        assert (len(row) + 1).bit_count() == 1
        assert list(row) == sorted(row)
        assert row[mechanism.symbols - 2] < ONE
