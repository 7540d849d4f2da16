"""Tallies: validation and counting of the reports in whole envelopes, with numpy.

A report holds its labels and its questions one after another, each in a whole number of bytes, so a
payload is a matrix of bytes with one row per report. If each install is asked one question, the
rows are split by the first byte after the labels, which is the question's number. All symbols are
counted, even invalid ones; a count beyond the last cell reveals an invalid report.

The mechanism's encoding defines how symbols are transmitted. COUNTERS has a vectorised function for
most encodings; any other encoding is counted by its own methods, report by report.

    WholeNumber    a symbol in one to three bytes; the cells count the symbols
    BitSet         a bit for each option, lowest bit first; the cells count the set bits
    Codeword       a seed and a number; the cells sum the coordinates and their squares
    Grouped        a byte for the group, and a symbol of the group; each group's cells come first,
                   followed by the number of reports of each group
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from deniable.server.intake.tally_kernels import codeword_sums, pair_counts
from deniable.server.store import NO_LABELS, OTHER, Cells, Kept, LabelCounts, RoundTally
from deniable.server.store.label_counts import added
from deniable.shared.envelope import NO_QUESTION, NOT_ZERO, decode_report
from deniable.shared.errors import InvalidEnvelope, quantity
from deniable.shared.privacy.encodings import BitSet, Codeword, Encoding, Grouped, WholeNumber
from deniable.shared.survey.document import Survey
from deniable.shared.survey.kinds.base import Question
from deniable.shared.survey.labels import Label

Bytes = npt.NDArray[np.uint8]
Counted = tuple[Cells, bool]  # the cells, and whether any report is invalid
FEW_SYMBOLS, FEW_ROWS = 3, 1_024  # up to these numbers, `_few` is faster than bincount
ROWS = 255  # the largest number of rows whose count of set bits fits in one byte
BLOCKS = 63  # number of blocks of rows that are added bit by bit
ROWS_PER_STEP = 8_192  # small enough for a processor's caches


def tally(survey: Survey, payload: bytes, count: int) -> Cells:
    """Return the counts of `count` reports, in the order that `RoundTally.cells` defines.

    Raise InvalidEnvelope("bad-payload") if any of the reports is invalid for the survey.
    """
    size = survey.report_size
    if count < 1 or len(payload) != count * size:
        raise InvalidEnvelope(
            "bad-payload",
            f"{quantity(count, 'report')} of {quantity(size, 'byte')} would have "
            f"{quantity(count * size, 'byte')}, got {len(payload)}",
        )
    rows = np.frombuffer(payload, np.uint8).reshape(count, size)
    for _, label, columns in _label_columns(survey, rows):
        for value in np.unique(_values(label, columns)):
            label.decode(value.tobytes())
    parts = _parts(survey, rows)
    counts = _question_counts(survey, parts)
    counts += pair_counts(survey, {question.name: columns for question, columns in parts})
    return counts[0] if len(counts) == 1 else np.concatenate(counts)


def label_counts(survey: Survey, payload: bytes, count: int, key: bytes) -> LabelCounts:
    """Return the counts of valid reports by label value: for each, its reports and its cells.

    The survey's secret key decides which values of an open set are kept apart.
    """
    if not survey.labels:
        return NO_LABELS
    rows, counts = np.frombuffer(payload, np.uint8).reshape(count, -1), LabelCounts(key=key)
    for number, label, columns in _label_columns(survey, rows):
        values, which = np.unique(_values(label, columns), return_inverse=True)
        ends = np.cumsum(np.bincount(which))[:-1]
        groups = np.split(np.argsort(which, kind="stable"), ends)
        for sent, members in zip(map(bytes, values), groups, strict=True):
            value = sent if label.listed else sent.rstrip(b"\0") or OTHER
            parts = _question_counts(survey, _parts(survey, rows[members]))
            counts[number, value] = np.concatenate([np.array([len(members)]), *parts])
    return added(NO_LABELS, counts)


def round_tally(
    survey: Survey, number: int, parts: Iterable[tuple[bytes, int]], label_key: bytes
) -> RoundTally:
    """Return the counts of a round, from payloads and their numbers of reports."""
    total = RoundTally(number, 0, empty_cells(survey))
    for payload, count in parts:
        labels = label_counts(survey, payload, count, label_key)
        total += RoundTally(number, count, tally(survey, payload, count), labels)
    return total


def empty_cells(survey: Survey) -> Cells:
    pairs = sum(one.mechanism.cells * other.mechanism.cells for one, other in survey.crossed)
    return np.zeros(survey.cells + pairs, np.int64)


def joined(envelopes: Iterable[Kept], least_bytes: int) -> Iterator[tuple[bytes, int]]:
    """Join payloads into parts of at least `least_bytes`; yield (part, number of reports)."""
    parts, count, size = list[bytes](), 0, 0
    for envelope in envelopes:
        parts.append(envelope.payload)
        count, size = count + envelope.reports, size + len(envelope.payload)
        if size >= least_bytes:
            yield b"".join(parts), count
            parts, count, size = [], 0, 0
    if parts:
        yield b"".join(parts), count


def check(survey: Survey, payload: bytes, count: int) -> None:
    """Raise InvalidEnvelope if `tally` would. It is fast for one report, as a device sends it."""
    if count == 1:
        decode_report(survey, payload)
    else:
        tally(survey, payload, count)


def _label_columns(survey: Survey, rows: Bytes) -> Iterator[tuple[int, Label, Bytes]]:
    start = 0
    for number, label in enumerate(survey.labels):
        yield number, label, rows[:, start : start + label.size]
        start += label.size


def _values(label: Label, columns: Bytes) -> npt.NDArray[np.void]:
    """Return each row of a label's columns as one value, which numpy can sort."""
    return np.ascontiguousarray(columns).view(f"V{label.size}")[:, 0]


def _parts(survey: Survey, rows: Bytes) -> list[tuple[Question, Bytes]]:
    """Return each question with the columns of its reports."""
    split = _drawn if survey.asks_one else _all
    return list(split(survey, rows[:, survey.labels_size :]))


def _question_counts(survey: Survey, parts: list[tuple[Question, Bytes]]) -> list[Cells]:
    counts = [_counts(question, columns) for question, columns in parts]
    if survey.asks_one:
        counts.append(np.array([len(columns) for _, columns in parts], np.int64))
    return counts


def _all(survey: Survey, rows: Bytes) -> Iterator[tuple[Question, Bytes]]:
    start = 0
    for question in survey.questions:
        end = start + question.mechanism.payload_size
        yield question, rows[:, start:end]
        start = end


def _drawn(survey: Survey, rows: Bytes) -> Iterator[tuple[Question, Bytes]]:
    """Yield each question with its rows, without their padding."""
    if (rows[:, 0] >= len(survey.questions)).any():
        raise InvalidEnvelope("bad-payload", NO_QUESTION)
    for number, question in enumerate(survey.questions):
        columns, size = rows[rows[:, 0] == number, 1:], question.mechanism.payload_size
        if columns[:, size:].any():
            raise InvalidEnvelope("bad-payload", f"question {question.name!r}: {NOT_ZERO}")
        yield question, columns[:, :size]


def _counts(question: Question, columns: Bytes) -> Cells:
    encoding = question.mechanism.encoding
    counts, wrong = _counted(encoding, columns)
    if wrong:
        raise InvalidEnvelope("bad-payload", f"question {question.name!r}: symbol out of range")
    return counts


def _counted(encoding: Encoding, columns: Bytes) -> Counted:
    return COUNTERS.get(type(encoding), _one_by_one)(encoding, columns)


def _whole_numbers(encoding: Encoding, columns: Bytes) -> Counted:
    if columns.shape[1] > 3:
        return _one_by_one(encoding, columns)
    if encoding.cells <= FEW_SYMBOLS:
        counts = _few(np.ascontiguousarray(columns), encoding.cells)
    elif columns.shape[1] < 3:
        symbols = np.ascontiguousarray(columns).view(f"<u{columns.shape[1]}")[:, 0]
        counts = np.bincount(symbols, minlength=encoding.cells)
    else:
        # Three bytes can hold sixteen million symbols, so count all invalid ones in one cell.
        symbols = columns[:, 2].astype(np.intp) << 16
        symbols |= np.ascontiguousarray(columns[:, :2]).view("<u2")[:, 0]
        counts = np.bincount(np.minimum(symbols, encoding.cells), minlength=encoding.cells + 1)
    return counts[: encoding.cells], bool(counts[encoding.cells :].any())


def _few(column: Bytes, symbols: int) -> Cells:
    """Count the symbols of one-byte rows, and then the invalid rows.

    Python counts small numbers of rows: numpy would release the interpreter's lock, and under load
    acquiring it again takes longer than counting.
    """
    if len(column) <= FEW_ROWS:
        content = column.tobytes()
        counts = [content.count(symbol) for symbol in range(symbols)]
    else:
        counts = [int(np.count_nonzero(column == symbol)) for symbol in range(symbols)]
    return np.array([*counts, len(column) - sum(counts)], np.int64)


def _bit_sets(encoding: Encoding, columns: Bytes) -> Counted:
    """Count set bits. Padding bits must be zero; the encoding may fix the number of set bits."""
    assert isinstance(encoding, BitSet)
    total = _set_bits(columns)
    wrong = bool(total[encoding.cells :].any())
    if encoding.weight is not None:
        wrong |= any(
            (_weights(columns[first : first + ROWS_PER_STEP]) != encoding.weight).any()
            for first in range(0, len(columns), ROWS_PER_STEP)
        )
    return total[: encoding.cells], wrong


def _set_bits(columns: Bytes) -> Cells:
    """Return how many rows set each bit.

    Most rows are first added bit by bit, as columns of binary numbers: 63 blocks of rows become six
    blocks with the weights 1, 2, 4, 8, 16 and 32.
    """
    total, size = np.zeros(8 * columns.shape[1], np.int64), BLOCKS * ROWS
    whole = len(columns) - len(columns) % size
    for first in range(0, whole, size):
        blocks = columns[first : first + size].reshape(BLOCKS, ROWS, -1)
        for power, digits in enumerate(_binary_sums(list(blocks))):
            total += _of_few_rows(digits).astype(np.int64) << power
    for first in range(whole, len(columns), ROWS):
        total += _of_few_rows(columns[first : first + ROWS])
    return total


def _binary_sums(blocks: list[Bytes]) -> Iterator[Bytes]:
    """Yield the binary digits of the sums of 2^n - 1 blocks, lowest first, with full adders."""
    while blocks:
        carries = []
        while len(blocks) > 1:
            a, b, c = blocks.pop(), blocks.pop(), blocks.pop()
            half = a ^ b
            blocks.append(half ^ c)
            carries.append(a & b | half & c)
        yield blocks[0]
        blocks = carries


def _of_few_rows(rows: Bytes) -> npt.NDArray[np.uint8]:
    bits = np.unpackbits(rows, axis=1, bitorder="little")
    return np.asarray(bits.sum(axis=0, dtype=np.uint8))


def _weights(rows: Bytes) -> npt.NDArray[np.float32]:
    """Return how many bits each row sets, counted eight bytes at a time."""
    missing = -rows.shape[1] % 8
    whole = np.pad(rows, ((0, 0), (0, missing))) if missing else np.ascontiguousarray(rows)
    counts = np.bitwise_count(whole.view(np.uint64)).astype(np.float32)
    return np.asarray(counts @ np.ones(counts.shape[1], np.float32))


def _codewords(encoding: Encoding, columns: Bytes) -> Counted:
    """Count codewords. If any of them is invalid, expand none."""
    assert isinstance(encoding, Codeword)
    last = (encoding.limit - 1).to_bytes(columns.shape[1], "little")[-1]
    if (columns[:, -1] > last).any():
        return np.zeros(encoding.cells, np.int64), True
    return codeword_sums(encoding, columns), False


def _groups(encoding: Encoding, columns: Bytes) -> Counted:
    assert isinstance(encoding, Grouped)
    group = columns[:, 0]
    parts = [_counted(encoding.each, columns[group == n, 1:]) for n in range(encoding.groups)]
    reports = np.bincount(group, minlength=encoding.groups)
    wrong = any(wrong for _, wrong in parts) or len(reports) > encoding.groups
    return np.concatenate([*(cells for cells, _ in parts), reports[: encoding.groups]]), wrong


def _one_by_one(encoding: Encoding, columns: Bytes) -> Counted:
    """Count report by report with the encoding's methods; the reference for the other counters."""
    cells = np.zeros(encoding.cells, np.int64)
    for row in columns:
        symbol = int.from_bytes(row.tobytes(), "little")
        if not encoding.is_symbol(symbol):
            return cells, True
        for cell, amount in encoding.amounts(symbol):
            cells[cell] += amount
    return cells, False


COUNTERS: Mapping[type[Encoding], Callable[[Encoding, Bytes], Counted]] = {
    WholeNumber: _whole_numbers,
    BitSet: _bit_sets,
    Codeword: _codewords,
    Grouped: _groups,
}
