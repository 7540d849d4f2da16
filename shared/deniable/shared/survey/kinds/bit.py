"""A question that is answered with yes or no."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import support_design
from deniable.shared.privacy.shapes.support import SupportDesign
from deniable.shared.survey.kinds.base import BaseQuestion, mechanism_name, plain
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

    def place(self, answer: object) -> int | None:
        """True and False, 1 and 0, also numpy's."""
        value = plain(answer)
        return int(value) if isinstance(value, int) and value in (0, 1) else None

    def answer_of(self, text: str) -> bool:
        if text.lower() not in TEXTS:
            raise ValueError("neither yes nor no")
        return TEXTS[text.lower()]

    def describe(self, symbol: int) -> str:
        return ("no", "yes")[symbol]
