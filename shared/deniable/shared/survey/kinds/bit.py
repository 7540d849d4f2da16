"""Questions that are answered with yes or no."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import support_design
from deniable.shared.survey.kinds.base import Population, ShareQuestion, mechanism_name
from deniable.shared.survey.reader import Reader

NUMBERS = {0: 0, 1: 1}
TEXTS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


@dataclass(frozen=True)
class Bit(ShareQuestion):
    kind = mechanism_kind = "bit"
    form_label = "Yes or no"
    in_javascript = True
    asked, example = "yes or no", True
    labels, first_label = ("yes",), 1  # estimates are of the people who say yes
    answer_labels = ("no", "yes")
    assumed = "10 % say yes"

    @classmethod
    def parse(cls, reader: Reader, name: str, epsilon: Epsilon) -> Self:
        return cls(name, support_design("bit", epsilon, name=mechanism_name(reader, "bit")))

    def fields(self) -> dict[str, Any]:
        return {}

    def place(self, answer: object) -> int | None:
        """Take True and False, 1 and 0, also numpy's."""
        value: Any = _plain(answer)  # Any: a whole number, once it is looked up
        number = (2, value)[issubclass(type(value), int)]
        return NUMBERS.get(number)

    def answer_of(self, text: str) -> bool:
        if text.lower() not in TEXTS:
            raise ValueError("neither yes nor no")
        return TEXTS[text.lower()]

    def default_population(self) -> Population:
        return [[0, 0.9], [1, 0.1]]

    def describe(self, symbol: int) -> str:
        return ("no", "yes")[symbol]


def _plain(answer: object) -> object:
    """Return a scalar of numpy's as Python's own, anything else as it is."""
    return answer.item() if type(answer).__module__ == "numpy" else answer  # type: ignore[attr-defined]  # a scalar has it, and what has not does not fit
