"""The kinds of questions: each is one class in one module, and its line here."""

from deniable.shared.survey.kinds.base import BaseQuestion, Statistic
from deniable.shared.survey.kinds.bit import Bit
from deniable.shared.survey.kinds.choice import Choice
from deniable.shared.survey.kinds.number import Number
from deniable.shared.survey.kinds.text import Text
from deniable.shared.survey.kinds.vector import Vector

__all__ = [
    "KINDS",
    "BaseQuestion",
    "Bit",
    "Choice",
    "Number",
    "Question",
    "Statistic",
    "Text",
    "Vector",
]

# Closed, so that every `match` on it must name them all.
Question = Bit | Number | Choice | Text | Vector
KINDS: dict[str, type[Question]] = {each.kind: each for each in (Bit, Number, Choice, Text, Vector)}
