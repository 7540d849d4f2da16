"""Questions that are answered with a vector of length at most one; the mean vector is estimated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from operator import mul
from typing import Any, Self

from deniable.shared.errors import InvalidSurvey
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.privacy.families.vector_design import AXIS, Placed, VectorDesign
from deniable.shared.privacy.mechanisms import VECTORS, sizes, vector_design
from deniable.shared.privacy.thresholds import ONE
from deniable.shared.survey.kinds.base import PlanField, Question, mechanism_name
from deniable.shared.survey.kinds.number import is_number
from deniable.shared.survey.reader import Reader

MOST = 2.0**1000  # a coordinate that is larger counts as this
WHOLE = 1.5 * 2**52  # added to a float, and taken away again, it leaves the nearest whole number
NO_VECTORS = str, bytes, bytearray


@dataclass(frozen=True)
class Vector(Question):
    kind = mechanism_kind = "vector"
    form_label = "A vector"
    statistic, estimation = "coordinate", "coordinates"
    plan_fields = (PlanField("dimension", "Coordinates", 10, "coordinates of a vector"),)
    size_option = "dimension"
    range, axis = (-1.0, 1.0), (0.0, 0.0)
    mechanism: VectorDesign

    @classmethod
    def parse(cls, reader: Reader, name: str, epsilon: Epsilon) -> Self:
        mechanism = mechanism_name(reader, "vector")
        dimension = reader.take("dimension", int, "write how many coordinates, like dimension = 10")
        least, most = sizes("vector", mechanism)
        if not least <= dimension <= most:
            raise InvalidSurvey(
                f"{reader.path}.dimension", f"a vector has {least} to {most} coordinates"
            )
        if "integers" not in reader:
            return cls(name, vector_design(epsilon, dimension, mechanism))
        named = next(each for each in VECTORS if mechanism in (None, each.name))
        try:
            return cls(
                name, named.read(epsilon, dimension, reader.integers("integers", "leave them out"))
            )
        except ValueError as error:
            raise InvalidSurvey(f"{reader.path}.integers", str(error)) from None

    def fields(self) -> dict[str, Any]:
        return {"dimension": self.mechanism.dimension}

    def facts(self) -> dict[str, Any]:
        return {**self.fields(), "gain": self.mechanism.gain}

    @property
    def asked(self) -> str:
        return f"{self.mechanism.dimension:,} numbers, a vector of length at most 1"

    @property
    def example(self) -> list[float]:
        return [0.5] + [0.0] * (self.mechanism.dimension - 1)

    @property
    def shown_example(self) -> str:
        return f"[0.5] + [0.0] * {self.mechanism.dimension - 1}"

    @property
    def labels(self) -> Sequence[str]:
        """Its coordinates, counted from 0."""
        return tuple(map(str, range(self.mechanism.dimension)))

    def place(self, answer: object) -> Placed | None:
        """Return its direction, and its length in units of 2^-64; what is longer than 1 counts as
        1.

        Sequences and arrays of so many numbers are vectors. One with a not-a-number is none.
        """
        dimension = self.mechanism.dimension
        listed = _listed(answer, dimension + 1)
        padded = (listed + [math.nan] * dimension)[:dimension]
        read = [_float((math.nan, each)[is_number(type(each))]) for each in padded]  # type: ignore[arg-type]  # types are hashable
        numbers = sum([each == each for each in read])
        fits = (len(listed) == dimension) & (numbers == dimension)
        values = [(0.0, each)[each == each] for each in read]
        most = max(map(abs, values))
        small = [each / (1.0, most)[most > 0] for each in values]
        small[0] += most == 0  # what has no length has a direction too, and takes as long
        length = math.sqrt(sum(map(mul, small, small)))
        scale = AXIS / length
        direction = [each * scale + WHOLE - WHOLE for each in small]
        return (None, (direction, int(min(1.0, most * length) * ONE)))[fits]

    def answer_of(self, text: str) -> list[float]:
        """Numbers with spaces between them."""
        return [float(each) for each in text.split()]

    def describe(self, symbol: int) -> str:
        encoding = self.mechanism.encoding
        number = symbol >> encoding.public_bits
        return f"direction {number} of {encoding.codewords}, which were drawn at random before"


def _listed(answer: Any, most: int) -> list[Any]:  # Any: told by its type
    """Up to so many of its members."""
    some: Any = ((), answer)[is_listed(type(answer))]  # type: ignore[arg-type]  # it is hashable
    members = getattr(type(some), "tolist", iter)(some)  # of an array without dimension a number
    return list(islice(((), members)[hasattr(type(members), "__iter__")], most))


@lru_cache(maxsize=64)
def is_listed(kind: type) -> bool:
    """Sequences and arrays. Kept by type, as in `is_number`."""
    return not issubclass(kind, NO_VECTORS) and (
        issubclass(kind, Sequence) or hasattr(kind, "tolist")
    )


def _float(number: Any) -> float:  # Any: it is one
    return float(min(max(number, -MOST), MOST))
