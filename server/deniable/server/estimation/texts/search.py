"""Candidates: beginnings that stand out, made longer digit by digit, the most credible kept.

Each group but the final ones counts in buckets how many hold each beginning of one length. With z
the standard score of a beginning's bucket, its credit is

    credit = min(credit of the beginning without its last digit, 0) + min(z, MOST) - BIAS

the logarithm of the odds that it is one of a frequent text, but for its scale: the evidence of all
lengths adds up, while what is certain of a beginning says nothing about how it goes on. A bucket
that another beginning fills counts no more than MOST, and only once, since every group hashes
in its own way. BIAS is half of the z of a text at the floor, and what sixteen ways to go on cost.

After a wrong digit the credit goes down with every group, and after some digits more frequent texts
leave no more than a few thousand wrong beginnings above those of a text at the floor: KEPT has room
for them. So texts are found that are too rare to stand out in any one group.

The idea of prefixes from one group each: Wang, Li, Jha 2018, "Locally differentially private heavy
hitter identification", IEEE Transactions on Dependable and Secure Computing 18(2); that evidence
adds up along a path: Fano 1963, "A heuristic discussion of probabilistic decoding", IEEE
Transactions on Information Theory 9(2).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from deniable.server.estimation.texts.digits import FIRST as FIRST_STATE
from deniable.server.estimation.texts.digits import NEVER, following, whole
from deniable.shared.survey.kinds.beginnings import FINAL, FIRST, Beginnings

Digits = npt.NDArray[np.uint8]  # a row for each beginning
Array = npt.NDArray[np.float64]

KEPT = 32_768
BIAS, MOST = 2.4, 5.0
HEX = np.frombuffer(b"0123456789abcdef", np.uint8)


def candidates(scores: Array, beginnings: Beginnings, most: int) -> Digits:
    """The most credible texts, as rows of digits. `scores[group, bucket]` are standard scores."""
    steps = np.minimum(scores, MOST) - BIAS
    digits = np.zeros((1, 0), np.uint8)
    states, credit = np.array([FIRST_STATE], np.int16), np.zeros(1)
    for count in range(1, 2 * beginnings.length + 1):
        after = following()[states]
        reached = np.minimum(credit, 0.0)[:, None] + np.zeros(16)
        if (group := count - FIRST) >= 0:
            reached += steps[group][buckets_after(beginnings, group, digits)]
        ways = np.flatnonzero(after != NEVER)
        ways = ways[_highest(reached.flat[ways], KEPT)]
        parents, digit = np.divmod(ways, 16)
        digits = np.column_stack([digits[parents], digit.astype(np.uint8)])
        states, credit = after.flat[ways], reached.flat[ways]
    ended = whole(states)
    return digits[ended][_highest(credit[ended], most)]


def buckets_after(beginnings: Beginnings, group: int, digits: Digits) -> npt.NDArray[np.int64]:
    """Of each beginning the buckets of its sixteen continuations."""
    width, written = digits.shape[1], HEX[digits].tobytes()
    texts = [written[first : first + width] for first in range(0, len(written), width)]
    words = np.frombuffer(beginnings.words(group, texts), "<u2").reshape(len(digits), 16)
    return words.astype(np.int64) % beginnings.buckets


def final_buckets(beginnings: Beginnings, digits: Digits) -> npt.NDArray[np.int64]:
    """A row for each of the final groups: the buckets of these texts."""
    rows = np.arange(len(digits))
    return np.stack(
        [
            buckets_after(beginnings, group, digits[:, :-1])[rows, digits[:, -1]]
            for group in range(beginnings.groups - FINAL, beginnings.groups)
        ]
    )


def _highest(values: Array, most: int) -> npt.NDArray[np.intp]:
    """Where the so many highest stand, in no order."""
    if len(values) <= most:
        return np.arange(len(values))
    return np.argpartition(-values, most)[:most]
