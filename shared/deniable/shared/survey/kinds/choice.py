"""Questions that are answered with one of several options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from deniable.shared.errors import InvalidSurvey
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.mechanisms import sizes, support_design
from deniable.shared.survey.kinds.base import PlanField, ShareQuestion, mechanism_name
from deniable.shared.survey.reader import Reader

FILL = "\ud800"  # in no document: no UTF-8 has half of a pair
MAX_OPTIONS = 65_536  # of any mechanism
MAX_FILLED_CHARACTERS = 2**23  # of all options, once they are of one length


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
            raise InvalidSurvey(
                f"{reader.path}.other", f"{other!r} is none of the options; add it to them"
            )
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
    def asked(self) -> str:
        return f"one of {len(self.options):,} options"

    @property
    def remark(self) -> str | None:
        if self.other is None:
            return (
                "an answer that is none of its options is reported as a random one of them; "
                'name the option that takes the others: other = "..."'
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
        """Return the option's number, or that of `other` for an answer that is not listed.

        The lookup is of a new text, whose hash nothing has kept, as long as all others.
        """
        text = ("", answer)[issubclass(type(answer), str)]
        numbers, most, filling, other = self._listed
        return numbers.get((text[:most] + filling)[:most], other)  # type: ignore[index]  # a text

    @cached_property
    def _listed(self) -> tuple[dict[str, int], int, str, int | None]:
        """Return the numbers by filled texts, the texts' length, their filling, and the number of
        `other`."""
        most = max(map(len, self.options)) + 1
        filling = FILL * (most if most * len(self.options) <= MAX_FILLED_CHARACTERS else 1)
        numbers = {(text + filling)[:most]: n for n, text in enumerate(self.options)}
        return (
            numbers,
            most,
            filling,
            None if self.other is None else self.options.index(self.other),
        )

    def answer_of(self, text: str) -> str:
        return text

    def describe(self, symbol: int) -> str:
        cells = self.mechanism.cells_of(symbol)
        named = [self.options[n] for cell in cells for n in self.mechanism.supported_by(cell)]
        return ", ".join(named) or "none of the options"


def _options(reader: Reader, least: int, most: int) -> list[str]:
    path = f"{reader.path}.options"
    options: list[Any] = reader.take("options", list, 'write texts, like options = ["yes", "no"]')
    if not all(isinstance(option, str) and option.strip() for option in options):
        raise InvalidSurvey(path, "every option is a text that is not empty")
    if len(set(options)) < len(options):
        twice = next(option for option in options if options.count(option) > 1)
        raise InvalidSurvey(path, f"{twice!r} is there twice; name each option once")
    if not least <= len(options) <= most:
        raise InvalidSurvey(path, f"a choice has {least} to {most} options, got {len(options)}")
    return options
