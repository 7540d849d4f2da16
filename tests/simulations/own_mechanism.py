"""Custom mechanisms of a user: a table given by its rows, and a design of options."""

from fractions import Fraction
from functools import cached_property

from deniable.shared.privacy.epsilon import ONE, lie_units
from deniable.shared.privacy.families.number_table import GatheredTable
from deniable.shared.privacy.mechanisms import SubsetSelection


class HalfBit(GatheredTable):
    """Bit that always spends only half of its ε."""

    name, label, sizes, proved_sizes = "half-bit", "half a bit", range(1, 2), (1,)
    inside = ()

    def __init__(self, epsilon, steps=1):  # type: ignore[no-untyped-def]
        super().__init__(epsilon, steps)
        self.ends = (ONE // 2 - (ONE // 2 - lie_units(epsilon, 2)) // 2,)

    @cached_property
    def values(self) -> tuple[Fraction, ...]:
        excess = Fraction(self.ends[0], ONE - 2 * self.ends[0])
        return -excess, 1 + excess


class Cheating(HalfBit):
    """Bit with twice its ε."""

    name = "cheating"

    def __init__(self, epsilon, steps=1):  # type: ignore[no-untyped-def]
        GatheredTable.__init__(self, epsilon, steps)
        self.ends = (lie_units(type(epsilon)(str(2 * float(epsilon))), 2),)


class Sets(SubsetSelection):
    name, label = "sets", "own sets"
