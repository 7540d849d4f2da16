"""Encodings: the bytes of a symbol on the wire, and the cells of a tally in which it counts.

A symbol is a whole number. On the wire it takes `payload_size` bytes, lowest first. The server
counts payloads with vectorized code for each class of encoding (`intake/tally.py`); the code here
is the reference.

    WholeNumber    one of n symbols           a cell for each symbol: a report counts in exactly one
    BitSet         a set of n bits            a cell for each bit that may be set
    Codeword       a seed and a codeword      a cell for each coordinate, and one for its square: a
                                              report adds a whole number to each
    Grouped        a group, then a symbol     each group's own cells; then one for its reports
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt
from operator import mul
from typing import ClassVar

from deniable.shared.privacy.codewords import SEED_BITS, codeword

UNIT, ROOT = 2**30, 2**15  # a codeword's coordinates and their squares are in units of 2^-30


class Encoding(ABC):
    cells: int  # number of counts in a tally
    public_bits: ClassVar[int] = 0  # number of its lowest bits that ignore the answer

    @property
    @abstractmethod
    def limit(self) -> int:
        """Exclusive upper bound of the symbols."""

    @property
    def payload_size(self) -> int:
        return ((self.limit - 1).bit_length() + 7) // 8

    def is_symbol(self, number: int) -> bool:
        """Return whether a device could report this number."""
        return 0 <= number < self.limit

    @abstractmethod
    def symbols(self) -> Iterator[int]:
        """Yield all symbols, with public bits at zero: for enumeration at small sizes."""

    @property
    def max_cells(self) -> int:
        """Largest number of cells in which one report counts."""
        return self.cells

    @abstractmethod
    def symbol_in(self, cell: int) -> int:
        """Return a symbol that counts in this cell, and in as few others as possible."""

    @abstractmethod
    def cells_of(self, symbol: int) -> Iterator[int]:
        """Yield the cells that a report of this symbol counts in, ascending."""

    def amounts(self, symbol: int) -> Iterator[tuple[int, int]]:
        """Yield the cells that a report of this symbol changes, each with the amount it adds."""
        return ((cell, 1) for cell in self.cells_of(symbol))

    def to_json(self, symbol: int) -> int | str:
        """Return the symbol for JSON: its payload in hex digits, or a WholeNumber as it is."""
        return symbol.to_bytes(self.payload_size, "little").hex()

    def from_json(self, value: object) -> int:
        """Return the symbol that JSON holds. A ValueError never repeats the value."""
        digits = 2 * self.payload_size
        if not isinstance(value, str) or len(value) != digits or not is_hex(value):
            raise ValueError(f"write {digits} hex digits in lower case")
        symbol = int.from_bytes(bytes.fromhex(value), "little")
        if not self.is_symbol(symbol):
            raise ValueError("symbol out of range")
        return symbol


@dataclass(frozen=True)
class WholeNumber(Encoding):
    cells: int
    max_cells = 1  # a symbol counts in the cell of its number

    @property
    def limit(self) -> int:
        return self.cells

    def symbols(self) -> Iterator[int]:
        return iter(range(self.cells))

    def symbol_in(self, cell: int) -> int:
        return cell

    def cells_of(self, symbol: int) -> Iterator[int]:
        yield symbol

    def to_json(self, symbol: int) -> int:
        return symbol

    def from_json(self, value: object) -> int:
        if type(value) is not int or not self.is_symbol(value):
            raise ValueError("symbol out of range")
        return value


@dataclass(frozen=True)
class BitSet(Encoding):
    """Bit n of the symbol stands for option n. With a weight, exactly that many bits are set."""

    cells: int
    weight: int | None = None

    @property
    def limit(self) -> int:
        return 1 << self.cells

    def is_symbol(self, number: int) -> bool:
        return super().is_symbol(number) and self.weight in (None, number.bit_count())

    def symbols(self) -> Iterator[int]:
        return filter(self.is_symbol, range(self.limit))

    @property
    def max_cells(self) -> int:
        return self.cells if self.weight is None else self.weight

    def symbol_in(self, cell: int) -> int:
        """Return a symbol with this bit and as many of the following bits as the weight needs."""
        return sum(1 << (cell + n) % self.cells for n in range(self.weight or 1))

    def cells_of(self, symbol: int) -> Iterator[int]:
        return (bit for bit in range(self.cells) if symbol >> bit & 1)


@dataclass(frozen=True)
class Codeword(Encoding):
    """Symbol with a seed in its lowest bits, and above it the number of one of its codewords.

    The codeword is scaled to length one. A report adds each coordinate, rounded to a unit of 2^-30,
    to one cell, and the square of the coordinate, rounded to a multiple of 2^-15, to another.
    """

    cells: int
    codewords: int
    public_bits = SEED_BITS

    @property
    def dimension(self) -> int:
        return self.cells // 2

    @property
    def limit(self) -> int:
        return self.codewords << SEED_BITS

    def symbols(self) -> Iterator[int]:
        return (number << SEED_BITS for number in range(self.codewords))

    def symbol_in(self, cell: int) -> int:  # noqa: ARG002 # every symbol counts in all cells
        return 0

    def cells_of(self, symbol: int) -> Iterator[int]:  # noqa: ARG002 # all symbols are alike
        return iter(range(self.cells))

    def amounts(self, symbol: int) -> Iterator[tuple[int, int]]:
        number, seed = symbol >> SEED_BITS, symbol & (1 << SEED_BITS) - 1
        pair = codeword(seed, number >> 1, self.dimension)
        scale = (UNIT, -UNIT)[number & 1] / sqrt(sum(map(mul, pair, pair)))
        whole = [round(coordinate * scale) for coordinate in pair]
        return enumerate([*whole, *(round(units / ROOT) ** 2 for units in whole)])


@dataclass(frozen=True)
class Grouped(Encoding):
    """Number of a group in the first byte, followed by a symbol of the encoding `each`."""

    each: Encoding
    groups: int

    @property
    def cells(self) -> int:  # type: ignore[override]  # follows from the other two
        return self.groups * (self.each.cells + 1)

    @property
    def limit(self) -> int:
        return (self.each.limit - 1 << 8) + self.groups

    def split(self, symbol: int) -> tuple[int, int]:
        """Return the group and the symbol within it."""
        return symbol & 0xFF, symbol >> 8

    def joined(self, group: int, symbol: int) -> int:
        return symbol << 8 | group

    def is_symbol(self, number: int) -> bool:
        group, symbol = self.split(number)
        return number >= 0 and group < self.groups and self.each.is_symbol(symbol)

    def symbols(self) -> Iterator[int]:
        return (
            self.joined(group, symbol)
            for symbol in self.each.symbols()
            for group in range(self.groups)
        )

    @property
    def max_cells(self) -> int:
        """Largest number within one group, without the cell that counts the group's reports."""
        return self.each.max_cells

    def symbol_in(self, cell: int) -> int:
        if (group := cell - self.groups * self.each.cells) >= 0:
            return self.joined(group, self.each.symbol_in(0))
        group, own = divmod(cell, self.each.cells)
        return self.joined(group, self.each.symbol_in(own))

    def cells_of(self, symbol: int) -> Iterator[int]:
        group, own = self.split(symbol)
        yield from (group * self.each.cells + cell for cell in self.each.cells_of(own))
        yield self.groups * self.each.cells + group


def is_hex(text: str) -> bool:
    """Return whether these are hex digits in lower case, as the protocol writes them."""
    return all(character in "0123456789abcdef" for character in text)
