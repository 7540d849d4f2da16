"""Search for frequent texts: beginnings that stand out, extended digit by digit.

Only digits that keep a beginning well-formed UTF-8 may follow. A state is what is expected next: a
byte, or the lower half of a byte whose upper half is given. Control characters are left out, and
zeros fill the end of a text (The Unicode Standard 15.0, table 3-7).

Each group but the final ones counts in buckets how many hold each beginning of one length. With z
the standard score of a beginning's bucket, its credit is

    credit = min(credit of the beginning without its last digit, 0) + min(z, MOST) - BIAS

the logarithm of the odds that it is one of a frequent text, but for its scale: the evidence of all
lengths adds up, while a certain beginning says nothing about its continuation. A bucket
that another beginning fills counts no more than MOST, and only once, since every group hashes
in its own way. BIAS is half of the z of a text at the floor, and what sixteen continuations cost.

After a wrong digit the credit goes down with every group, and after some digits more frequent texts
leave no more than a few thousand wrong beginnings above those of a text at the floor: KEPT has room
for them. So texts are found that are too rare to stand out in any one group.

The idea of prefixes from one group each: Wang, Li, Jha 2018, "Locally differentially private heavy
hitter identification", IEEE Transactions on Dependable and Secure Computing 18(2); that evidence
adds up along a path: Fano 1963, "A heuristic discussion of probabilistic decoding", IEEE
Transactions on Information Theory 9(2).
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from deniable.shared.survey.kinds.beginnings import FINAL, FIRST, Beginnings

START, NEXT, ENDED, FIRST_BYTE, TWO, THREE = range(6)  # NEXT, TWO, THREE: so many bytes must follow
AFTER_E0, AFTER_ED, AFTER_F0, AFTER_F4 = range(6, 10)
BYTES = 10  # states between bytes; others are between the halves of one

# In this state, from this byte to that one, comes this state.
RULES = (
    *((state, 0x20, 0x7E, START) for state in (FIRST_BYTE, START)),
    *((state, 0xC2, 0xDF, NEXT) for state in (FIRST_BYTE, START)),
    *((state, 0xE0, 0xE0, AFTER_E0) for state in (FIRST_BYTE, START)),
    *((state, 0xE1, 0xEC, TWO) for state in (FIRST_BYTE, START)),
    *((state, 0xED, 0xED, AFTER_ED) for state in (FIRST_BYTE, START)),
    *((state, 0xEE, 0xEF, TWO) for state in (FIRST_BYTE, START)),
    *((state, 0xF0, 0xF0, AFTER_F0) for state in (FIRST_BYTE, START)),
    *((state, 0xF1, 0xF3, THREE) for state in (FIRST_BYTE, START)),
    *((state, 0xF4, 0xF4, AFTER_F4) for state in (FIRST_BYTE, START)),
    (START, 0, 0, ENDED),
    (ENDED, 0, 0, ENDED),
    (NEXT, 0x80, 0xBF, START),
    (TWO, 0x80, 0xBF, NEXT),
    (THREE, 0x80, 0xBF, TWO),
    (AFTER_E0, 0xA0, 0xBF, NEXT),
    (AFTER_ED, 0x80, 0x9F, NEXT),
    (AFTER_F0, 0x90, 0xBF, TWO),
    (AFTER_F4, 0x80, 0x8F, TWO),
)
NEVER = -1


@cache
def following() -> npt.NDArray[np.int16]:
    """`following()[state, digit]` is the next state, or NEVER."""
    states = np.full((BYTES * 17, 16), NEVER, np.int16)
    for state, first, last, then in RULES:
        for byte in range(first, last + 1):
            half = BYTES + 16 * state + (byte >> 4)
            states[state, byte >> 4] = half
            states[half, byte & 15] = then
    return states


def whole(states: npt.NDArray[np.int16]) -> npt.NDArray[np.bool_]:
    """Return whether a text may end in each of these states."""
    return np.isin(states, (START, ENDED))


Digits = npt.NDArray[np.uint8]  # a row for each beginning
Array = npt.NDArray[np.float64]

KEPT = 32_768
BIAS, MOST = 2.4, 5.0
HEX = np.frombuffer(b"0123456789abcdef", np.uint8)


def candidates(scores: Array, beginnings: Beginnings, most: int) -> Digits:
    """Return the most credible texts as rows of digits.

    `scores[group, bucket]` are standard scores.
    """
    steps = np.minimum(scores, MOST) - BIAS
    digits = np.zeros((1, 0), np.uint8)
    states, credit = np.array([FIRST_BYTE], np.int16), np.zeros(1)
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
    """Return the buckets of each beginning's sixteen continuations."""
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
    """Return the indices of the highest values, in no order."""
    if len(values) <= most:
        return np.arange(len(values))
    return np.argpartition(-values, most)[:most]
