"""Which hex digit may follow the digits of a text's beginning, so that it stays text in UTF-8.

States are what is expected next: a byte, or the lower half of a byte whose upper half is given.
Unicode's table of well-formed bytes, without control characters; zeros fill the end of a text.

Source: The Unicode Standard 15.0, table 3-7.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

START, NEXT, ENDED, FIRST, TWO, THREE = range(6)  # NEXT, TWO, THREE: so many bytes must follow
AFTER_E0, AFTER_ED, AFTER_F0, AFTER_F4 = range(6, 10)
BYTES = 10  # states between bytes; others are between the halves of one

# In this state, from this byte to that one, comes this state.
RULES = (
    *((state, 0x20, 0x7E, START) for state in (FIRST, START)),
    *((state, 0xC2, 0xDF, NEXT) for state in (FIRST, START)),
    *((state, 0xE0, 0xE0, AFTER_E0) for state in (FIRST, START)),
    *((state, 0xE1, 0xEC, TWO) for state in (FIRST, START)),
    *((state, 0xED, 0xED, AFTER_ED) for state in (FIRST, START)),
    *((state, 0xEE, 0xEF, TWO) for state in (FIRST, START)),
    *((state, 0xF0, 0xF0, AFTER_F0) for state in (FIRST, START)),
    *((state, 0xF1, 0xF3, THREE) for state in (FIRST, START)),
    *((state, 0xF4, 0xF4, AFTER_F4) for state in (FIRST, START)),
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
    """Whether a text may end here."""
    return np.isin(states, (START, ENDED))
