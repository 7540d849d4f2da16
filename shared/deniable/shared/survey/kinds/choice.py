"""Questions with the answers yes and no, or with several options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import sizes, support_design
from deniable.shared.survey.kinds.base import PlanField, Population, ShareQuestion, mechanism_name
from deniable.shared.survey.reader import Reader

FILL = "\ud800"  # cannot occur in a document: UTF-8 has no lone surrogates
MAX_OPTIONS = 65_536  # limit of any mechanism
MAX_FILLED_CHARACTERS = 2**23  # limit on all options together, once they are padded to one length
NUMBERS = {0: 0, 1: 1}
REPLACES = {"any": (0, 1), "all": (1, 0)}  # whether no and yes replace the report
TEXTS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


@dataclass(frozen=True)
class Bit(ShareQuestion):
    kind = mechanism_kind = "bit"
    form_label = "Yes or no"
    in_javascript = True
    example = True
    labels, first_label = ("yes",), 1  # estimates refer to the people who answer yes
    answer_labels = ("no", "yes")
    overs, usual_over = ("first", "last", "any", "all"), "any"
    assumed = "10 % say yes"

    @classmethod
    def parse(cls, reader: Reader, name: str, epsilon: Epsilon) -> Self:
        return cls(name, support_design("bit", epsilon, name=mechanism_name(reader, "bit")))

    def fields(self) -> dict[str, Any]:
        return {}

    def place(self, answer: object) -> int | None:
        """Accept True and False, 1 and 0, including numpy's."""
        value: Any = _plain(answer)  # Any: a whole number after the lookup
        number = (2, value)[issubclass(type(value), int)]
        return NUMBERS.get(number)

    def replaces(self, placed: int) -> int:
        return REPLACES.get(self.over, (1, 1))[placed]

    def answer_of(self, text: str) -> bool:
        if text.lower() not in TEXTS:
            raise ValueError("neither yes nor no")
        return TEXTS[text.lower()]

    def default_population(self) -> Population:
        return [[0, 0.9], [1, 0.1]]

    def describe(self, symbol: int) -> str:
        return ("no", "yes")[symbol]


@dataclass(frozen=True)
class Choice(ShareQuestion):
    kind = mechanism_kind = "choice"
    form_label = "A choice"
    in_javascript = True
    plan_fields = (PlanField("options", "Options", 5, "of a choice", low=2, high=MAX_OPTIONS),)
    size_option = "options"
    axis = (0.0, 0.1)
    options: tuple[str, ...]
    other: str | None = None

    @classmethod
    def parse(cls, reader: Reader, name: str, epsilon: Epsilon) -> Self:
        mechanism = mechanism_name(reader, "choice")
        options = _options(reader, *sizes("choice", mechanism))
        other = reader.optional("other", str)
        if other is not None and other not in options:
            raise reader.error("other", f"{other!r} is not one of the options; add it to them")
        design = support_design("choice", epsilon, len(options), mechanism)
        return cls(name, design, tuple(options), other)

    def fields(self) -> dict[str, Any]:
        other = {} if self.other is None else {"other": self.other}
        return {"options": list(self.options), **other}

    def facts(self) -> dict[str, Any]:
        return {"options": len(self.options)}

    @classmethod
    def planned(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        return {"options": [f"option {number}" for number in range(1, int(values["options"]) + 1)]}

    @property
    def remark(self) -> str | None:
        if self.other is None:
            return (
                "an answer that is not one of its options is reported as a random option; "
                'name the option that takes other answers: other = "..."'
            )
        return None

    @property
    def example(self) -> str:
        return self.options[0]

    @property
    def labels(self) -> tuple[str, ...]:
        return self.options

    @property
    def answer_labels(self) -> tuple[str, ...]:
        return self.options

    def place(self, answer: object) -> int | None:
        """Return the option's number, or that of `other` for an answer that is not an option.

        The lookup pads the answer to the length of all options. The padded text is a new object
        whose hash is not cached yet, so the lookup takes the same time for every answer.
        """
        text = ("", answer)[issubclass(type(answer), str)]
        numbers, most, filling, other = self._listed
        return numbers.get((text[:most] + filling)[:most], other)  # type: ignore[index]  # a text

    @cached_property
    def _listed(self) -> tuple[dict[str, int], int, str, int | None]:
        """Numbers of the padded options, their length, the padding, and the number of `other`."""
        most = max(map(len, self.options)) + 1
        filling = FILL * (most if most * len(self.options) <= MAX_FILLED_CHARACTERS else 1)
        numbers = {(text + filling)[:most]: n for n, text in enumerate(self.options)}
        other = None if self.other is None else self.options.index(self.other)
        return numbers, most, filling, other

    def answer_of(self, text: str) -> str:
        return text

    def describe(self, symbol: int) -> str:
        cells = self.mechanism.cells_of(symbol)
        named = [self.called[n] for cell in cells for n in self.mechanism.supported_by(cell)]
        return ", ".join(named) or "none of the options"


def _plain(answer: object) -> object:
    """Convert a numpy scalar to a Python value; return anything else unchanged."""
    return answer.item() if type(answer).__module__ == "numpy" else answer  # type: ignore[attr-defined]  # a scalar has it, and what has not does not fit


def _options(reader: Reader, least: int, most: int) -> list[str]:
    options: list[Any] = reader.take("options", list, 'write texts, like options = ["yes", "no"]')
    if not all(isinstance(option, str) and option.strip() for option in options):
        raise reader.error("options", "every option must be a non-empty text")
    if unclear := next((option for option in options if not option.isprintable()), None):
        problem = f"{unclear!r} has a character that cannot be shown; write one line of text"
        raise reader.error("options", problem)
    if len(set(options)) < len(options):
        twice = next(option for option in options if options.count(option) > 1)
        raise reader.error("options", f"{twice!r} is repeated; name each option once")
    if not least <= len(options) <= most:
        raise reader.error("options", f"must be {least} to {most} options, got {len(options)}")
    return options
