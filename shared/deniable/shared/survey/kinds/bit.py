"""A question that is answered with yes or no."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from deniable.shared.errors import InvalidAnswer
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import support_design
from deniable.shared.privacy.shapes.support import SupportDesign
from deniable.shared.survey.kinds.base import BaseQuestion, mechanism_name
from deniable.shared.survey.reader import Reader

TEXTS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


@dataclass(frozen=True)
class Bit(BaseQuestion):
    kind, statistic = "bit", "share"
    asked, example = "yes or no", True
    labels, first_label = ("yes",), 1  # estimates are of the people who say yes
    mechanism: SupportDesign

    @classmethod
    def parse(cls, reader: Reader, name: str, epsilon: Epsilon) -> Self:
        return cls(name, support_design("bit", epsilon, name=mechanism_name(reader, "bit")))

    def fields(self) -> dict[str, Any]:
        return {}

    def read(self, answer: object) -> int:
        if not isinstance(answer, int) or answer not in (0, 1):
            raise InvalidAnswer(self.name, "answer it with True or False")
        return int(answer)

    def answer_of(self, text: str) -> bool:
        if text.lower() not in TEXTS:
            raise ValueError("neither yes nor no")
        return TEXTS[text.lower()]

    def describe(self, symbol: int) -> str:
        return ("no", "yes")[symbol]
