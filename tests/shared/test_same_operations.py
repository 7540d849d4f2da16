"""Constant operations: the same instructions run for all answers and all noise.

The complete sequences of bytecode instructions of reports, in every Python function, are compared
exactly. They do not show the time within one instruction, such as arithmetic on integers of
different lengths; `./run bench --only timing` measures that.
"""

from __future__ import annotations

import gc
import random
import sys
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from decimal import Decimal
from types import FrameType
from typing import Any

import numpy as np
import pytest

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.families.group_design import Options, grouped
from deniable.shared.privacy.mechanism import Draw, Mechanism
from deniable.shared.privacy.mechanisms import KRandomizedResponse, LocalLaplace, Unary, mechanisms
from deniable.shared.survey.document import Survey, parse_toml
from deniable.shared.survey.kinds.base import Question
from deniable.shared.survey.kinds.choice import Bit, Choice
from deniable.shared.survey.kinds.number import Number
from deniable.shared.survey.kinds.text import FINAL, Beginnings, Text
from deniable.shared.survey.kinds.vector import Vector

Instruction = tuple[object, int]
EPSILON = Epsilon("1")
SIZES = (1, 2, 9, 300)
SIZES_OF_TEXTS = (9,)  # each group uses one of the designs above
COORDINATES = 3  # of vectors; more coordinates would only take longer


def sizes(each: type[Mechanism]) -> tuple[int, ...]:
    if each.kind == "vector":
        return (COORDINATES,)
    return each.proved_sizes if each.given else SIZES_OF_TEXTS if each.kind == "text" else SIZES


MADE = [
    design(EPSILON, n)
    for design in mechanisms().values()
    for n in sizes(design)
    if n in design.sizes
]
SURVEY = """
[survey]
name = "app-health"
title = "How is the app doing?"
purpose = "Find crashes."
owner = "Example Ltd"
opens = 2026-12-01
closes = 2026-12-31
round = "once"
[[question]]
name = "asked"
kind = "bit"
over = "first"
epsilon = "1"
"""
NO_ANSWER = [None, "text", "x" * 10_000]
BITS = [True, False, 1, 0, 2, -(10**400), 0.5, *NO_ANSWER]
WHOLE = [0, 1, 34, 120, -5, 10**400, -(10**400)]
FLOATS = [0.0, -0.0, 34.0, 34.1, 1e-300, 5e-324, 120.0, 1e300, -1e300, float("inf"), float("nan")]
DECIMALS = [Decimal(text) for text in ("0", "34.1", "1e9999", "-7", "NaN")]
SCALARS = [np.float64(34.1), np.float64("nan"), np.float32(500), np.int64(-3), np.int8(34)]
LENGTH = 6
TEXTS: list[object] = ["", "a", "text", "x" * LENGTH, "x" * 10_000, " ", "\n", "a\0b", "\ud800"]
TEXTS += ["äöü", "日本語", "\U0001f600" * 3, "\u202e", np.str_("text"), 7, 0.5, None, b"text"]
NUMBERS = [*WHOLE, *FLOATS, *DECIMALS, *SCALARS, True, *NO_ANSWER]


def asking(question: Question) -> Survey:
    survey = parse_toml(SURVEY)
    object.__setattr__(survey, "questions", (question,))
    return survey


def asked(mechanism: Any, other: bool) -> tuple[Question, list[Any]]:  # Any: depends on the kind
    """Return a question with this mechanism, and various answers to it."""
    match mechanism.kind:
        case "bit":
            return Bit("asked", mechanism), BITS
        case "number":
            return Number("asked", mechanism, 0, 120), NUMBERS
        case "vector":
            return Vector("asked", mechanism), list(vectors(mechanism.size))
        case "text":
            groups = Beginnings("salt", LENGTH, mechanism.size).groups
            made = type(mechanism)(EPSILON, mechanism.size, groups, FINAL)
            return Text("asked", made, LENGTH, "salt"), TEXTS
    options = tuple(f"option {n}" * (1 + n % 3) for n in range(mechanism.size))
    answers = [*options[:3], options[-1], "".join(list(options[0])), "lynx", 7, 0.5, *NO_ANSWER]
    return Choice("asked", mechanism, options, options[1] if other else None), answers


def vectors(size: int) -> Iterator[Any]:
    """Yield vectors, short, long, empty or of the wrong length, and values that are no vectors."""
    for value in (0, -0.0, 5e-324, 1e300, float("inf"), float("nan"), 10**400):
        yield [0.3, *[value] * (size - 1)]
    yield from ([0.0] * size, tuple(range(size)), np.zeros(size, np.float32))
    yield from (deque([0.1] * size), deque([0.1] * (size + 1)), array("d", [0.1] * size))
    yield from (range(size), np.zeros((size, size)), np.array(0.1), np.float64(0.1), b"text")
    yield from ([0.1] * (size - 1), [0.1] * (size + 1), [None] * size, 7, {1: 2}, *NO_ANSWER)


def draws() -> Iterator[Draw]:
    """Yield draws at the boundaries that all answers share, and random draws, some of them lies."""
    yield lambda bits: 0
    yield lambda bits: (1 << bits) - 1
    for seed in range(12):
        yield random.Random(seed).getrandbits


def instructions(survey: Survey, answer: object, draw: Draw) -> list[Instruction]:
    """Return all instructions that one report runs, in order, except those of the draw."""
    passed: list[Instruction] = []

    def trace(frame: FrameType, event: str, arg: object) -> Callable[..., Any] | None:
        if frame.f_code is getattr(draw, "__code__", None):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            passed.append((frame.f_code, frame.f_lasti))
        return trace

    before = sys.gettrace()
    # callbacks of the garbage collector, such as Hypothesis's, would appear in the trace
    gc.disable()
    sys.settrace(trace)
    try:
        survey.report({"asked": answer}, draw)
    finally:
        sys.settrace(before)
        gc.enable()
    return passed


def sequences(question: Question, answers: list[Any]) -> set[tuple[Instruction, ...]]:
    survey = asking(question)
    for answer in answers:
        survey.report({"asked": answer}, random.Random(1).getrandbits)  # fill caches
    return {tuple(instructions(survey, answer, draw)) for answer in answers for draw in draws()}


def title(mechanism: Mechanism) -> str:
    return f"{mechanism.name}-{mechanism.size}"


@pytest.mark.parametrize("other", [False, True], ids=["", "other"])
@pytest.mark.parametrize("mechanism", MADE, ids=title)
def test_instructions_do_not_depend_on_answer_or_noise(mechanism: Mechanism, other: bool) -> None:
    if other and mechanism.kind != "choice":
        return  # covered by the cases above
    (only,) = sequences(*asked(mechanism, other))
    assert len(only) > 50


class EarlyReturn(KRandomizedResponse):
    """Planted fault: it returns earlier for the truth."""

    def randomize(self, answer: int, draw: Draw) -> int:
        if (roll := draw(64)) < self.keep:
            return answer
        other = (roll - self.keep) // self.lie
        return other + (other >= answer)


class Branching(Number):
    """Planted fault: it branches on a number before placing it."""

    def place(self, answer: object) -> int | None:
        return super().place(0 if isinstance(answer, float) and answer < 0 else answer)


def test_an_early_return_is_detected() -> None:
    question, answers = asked(EarlyReturn(EPSILON, 9), other=True)
    assert len(sequences(question, answers)) == 2


class Hurried(Text):
    """Planted fault: it hashes only values that are text."""

    def place(self, answer: object) -> Options | None:
        return super().place(answer) if answer else None


def test_skipping_the_hash_is_detected() -> None:
    question, answers = asked(grouped(Unary)(EPSILON, 9), other=False)
    assert isinstance(question, Text)
    hurried = Hurried("asked", question.mechanism, LENGTH, "salt")
    assert len(sequences(hurried, answers)) == 2


def test_a_branch_on_the_answer_is_detected() -> None:
    question = Branching("asked", LocalLaplace(EPSILON, 9), 0, 120)
    assert len(sequences(question, FLOATS)) > 1
