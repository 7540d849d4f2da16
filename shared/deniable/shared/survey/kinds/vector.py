"""Questions with a vector of length at most one as the answer; the mean vector is estimated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from operator import mul
from typing import Any, Self

from deniable.shared.privacy.epsilon import ONE, Epsilon
from deniable.shared.privacy.families.vector_design import AXIS, Placed, VectorDesign
from deniable.shared.privacy.mechanisms import VECTORS, sizes, usual_mechanism
from deniable.shared.survey.kinds.base import PlanField, Question, mechanism_name
from deniable.shared.survey.kinds.number import is_number
from deniable.shared.survey.reader import Reader

MAX_COORDINATE = 2.0**1000  # larger coordinates are clamped to this
WHOLE = 1.5 * 2**52  # adding it to a float and subtracting it rounds to the nearest integer
NO_VECTORS = str, bytes, bytearray


@dataclass(frozen=True)
class Vector(Question):
    kind = mechanism_kind = "vector"
    form_label = "A vector"
    statistic, estimation = "coordinate", "coordinates"
    plan_fields = (PlanField("dimension", "Coordinates", 10, "coordinates of a vector"),)
    size_option, in_javascript = "dimension", True
    range, axis = (-1.0, 1.0), (0.0, 0.0)
    mechanism: VectorDesign

    @classmethod
    def parse(cls, reader: Reader, name: str, epsilon: Epsilon) -> Self:
        mechanism = mechanism_name(reader, "vector")
        dimension = reader.take(
            "dimension", int, "write the number of coordinates, like dimension = 10"
        )
        least, most = sizes("vector", mechanism)
        if not least <= dimension <= most:
            raise reader.error("dimension", f"a vector has {least} to {most} coordinates")
        if "integers" not in reader:
            return cls(name, usual_mechanism(VECTORS, epsilon, dimension, mechanism))
        named = next(design for design in VECTORS if mechanism in (None, design.name))
        integers = reader.integers("integers", "leave them out")
        try:
            return cls(name, named.read(epsilon, dimension, integers))
        except ValueError as error:
            raise reader.error("integers", str(error)) from None

    def fields(self) -> dict[str, Any]:
        return {"dimension": self.mechanism.dimension}

    def facts(self) -> dict[str, Any]:
        return {**self.fields(), "gain": self.mechanism.gain}

    @property
    def example(self) -> list[float]:
        return [0.5] + [0.0] * (self.mechanism.dimension - 1)

    @property
    def shown_example(self) -> str:
        return f"[0.5] + [0.0] * {self.mechanism.dimension - 1}"

    @property
    def javascript_example(self) -> str:
        return f"[0.5, ...Array({self.mechanism.dimension - 1}).fill(0)]"

    @property
    def labels(self) -> Sequence[str]:
        return tuple(map(str, range(self.mechanism.dimension)))

    def place(self, answer: object) -> Placed | None:
        """Return the vector's direction, and its length of at most 1 in units of 2^-64."""
        dimension = self.mechanism.dimension
        listed = _listed(answer, dimension + 1)
        padded = (listed + [math.nan] * dimension)[:dimension]
        read = [_float((math.nan, x)[is_number(type(x))]) for x in padded]  # type: ignore[arg-type]  # types are hashable
        numbers = sum([x == x for x in read])
        fits = (len(listed) == dimension) & (numbers == dimension)
        values = [(0.0, x)[x == x] for x in read]
        largest = max(map(abs, values))
        small = [x / (1.0, largest)[largest > 0] for x in values]
        small[0] += largest == 0  # a vector of length 0 also gets a direction, in the same time
        length = math.sqrt(sum(map(mul, small, small)))
        scale = AXIS / length
        direction = [x * scale + WHOLE - WHOLE for x in small]
        return (None, (direction, int(min(1.0, largest * length) * ONE)))[fits]

    def answer_of(self, text: str) -> list[float]:
        """Parse numbers separated by spaces."""
        return [float(number) for number in text.split()]

    def describe(self, symbol: int) -> str:
        encoding = self.mechanism.encoding
        number = symbol >> encoding.public_bits
        return f"direction {number} of {encoding.codewords} random directions"


def _listed(answer: Any, limit: int) -> list[Any]:  # Any: of any type
    """Return the members of a sequence or an array, up to a limit."""
    vector: Any = ((), answer)[is_listed(type(answer))]  # type: ignore[arg-type]  # it is hashable
    # `tolist` returns a number for a zero-dimensional array
    members = getattr(type(vector), "tolist", iter)(vector)
    return list(islice(((), members)[hasattr(type(members), "__iter__")], limit))


@lru_cache(maxsize=64)
def is_listed(kind: type) -> bool:
    """Return whether a type is a sequence or array type; cached as in `is_number`."""
    return not issubclass(kind, NO_VECTORS) and (
        issubclass(kind, Sequence) or hasattr(kind, "tolist")
    )


def _float(number: Any) -> float:  # Any: any type of number
    return float(min(max(number, -MAX_COORDINATE), MAX_COORDINATE))
