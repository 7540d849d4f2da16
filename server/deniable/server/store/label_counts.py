"""Counts of a round by label value, kept in the row of the round's tally.

Each value of a label has an array: its number of reports, followed by the questions' cells in the
order of RoundTally. OTHER stands for values that are missing, not listed, or folded.

Devices choose the values of an open set, so only the KEPT_VALUES values with the smallest hashes
have arrays of their own. The largest of these hashes can only decrease, so a value that was folded
into OTHER stays there. Counts are therefore exact and bounded, and independent of the order of
reports and of the nodes. Keeping the first or the most common values would reveal the order.

The hash has the survey's label key, which only stores and archives contain. Without the key, no one
can find values with small hashes, which would displace real ones.

In stored form, the key comes first, and the entries are sorted. Each has the number of the label
(u8), the lengths of the value (u8) and the array (u32), the value, and the array as int64, all
little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from deniable.shared.survey.labels import KEPT_VALUES, Label

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

LabelValue = tuple[int, bytes]  # the label's number, and the value as sent, without padding
KEY_BYTES, HASH_BYTES = 16, 8


class LabelCounts(dict[LabelValue, "npt.NDArray[np.int64]"]):
    """Counts by label value, with the survey's secret key that ranks the values of open sets."""

    def __init__(self, counts: Any = (), key: bytes = b"") -> None:  # Any: as `dict` takes it
        super().__init__(counts)
        self.key = key

    def rank(self, value: LabelValue) -> bytes:
        assert len(self.key) == KEY_BYTES, "counts by label belong to a survey of a store"
        return blake2b(value[1], digest_size=8, key=self.key).digest()


def label_hash(label: int, sent: bytes, key: bytes, round_: int) -> bytes:
    """Return the keyed hash of a label's number and its value as sent, with padding.

    The hashes of two rounds differ, so that they do not link a rare install's reports.
    """
    hashed = bytes([label]) + round_.to_bytes(4, "little") + sent
    return blake2b(hashed, digest_size=HASH_BYTES, key=key).digest()


def label_hashes(labels: Iterable[Label], report: bytes, key: bytes, round_: int) -> bytes:
    """Return the hashes of all labels of a report, one after the other."""
    hashes, start = list[bytes](), 0
    for number, label in enumerate(labels):
        hashes.append(label_hash(number, report[start : start + label.size], key, round_))
        start += label.size
    return b"".join(hashes)


OTHER = b"\xff"  # "not given" among listed values; no value of an open set begins with it
NO_LABELS = LabelCounts()
CELL_TYPE = "<i8"
_HEAD = struct.Struct("<BBI")


def added(one: LabelCounts, other: LabelCounts, limit: int = KEPT_VALUES) -> LabelCounts:
    """Return the sum of two rounds' counts; at most `limit` values of each label stay separate."""
    assert one.key == other.key or not (one.key and other.key), "they are of one survey"
    total = LabelCounts(one, one.key or other.key)
    for key, counts in other.items():
        total[key] = total[key] + counts if key in total else counts
    for label in {label for label, _ in other} if len(total) > limit else ():
        values = [key for key in total if key[0] == label and key[1] != OTHER]
        values.sort(key=total.rank)
        rest = (label, OTHER)
        for key in values[limit:]:
            counts = total.pop(key)
            total[rest] = total[rest] + counts if rest in total else counts
    return total


def packed_labels(labels: LabelCounts) -> bytes:
    parts = [labels.key] if labels else []
    for (label, value), counts in sorted(labels.items(), key=lambda item: item[0]):
        content = counts.astype(CELL_TYPE).tobytes()
        parts += (_HEAD.pack(label, len(value), len(content)), value, content)
    return b"".join(parts)


def read_labels(packed: bytes) -> LabelCounts:
    import numpy as np

    labels, start = LabelCounts(key=packed[:KEY_BYTES]), KEY_BYTES
    while start < len(packed):
        label, size, length = _HEAD.unpack_from(packed, start)
        middle = start + _HEAD.size + size
        value, start = packed[start + _HEAD.size : middle], middle + length
        labels[label, value] = np.frombuffer(packed[middle:start], CELL_TYPE).astype(np.int64)
    return labels
