"""Randomness from the kernel, drawn for every report.

A `Draw` is asked for a number of bits, a multiple of 8, and answers with a uniform whole number of
that many bits. Nothing is kept between calls: a pool of random bytes would be handed on to both
sides of a fork, and two reports with the same noise reveal their answers.
"""

from collections.abc import Callable
from os import urandom

Draw = Callable[[int], int]


def kernel_draw(bits: int) -> int:
    """Uniform in 0 .. 2^bits - 1, from the operating system, nothing kept."""
    return int.from_bytes(urandom(bits >> 3), "little")


def random_pause() -> None:
    """Pause for a random number of microseconds, drawn from the kernel.

    The same operations take some nanoseconds more for one number than for another, as a processor
    guesses and keeps. Each answer is given once, so no one sees the average.
    """
    sum(range(kernel_draw(16) >> 6))
