"""Adversary that estimates the order of arrival, and the links between two surveys, from files.

It ranks the ids in a file by many traces: their positions in pages of each kind (a page of an index
or of a table), their pages, and the number of their copies. A trace is right about a pair of ids
if it ranks them in their order of arrival. Under chance, the number of right pairs of n ids is the
number of inversions of a random permutation. Its moment generating function is

    M_n(t) = Π over j = 1 … n of (1 - e^(jt)) / (j (1 - e^t))

so that Chernoff's bound limits the probability of that many, or few, right pairs over all trials.
Over all traces it is multiplied by their number. A trace wins if that is at most 1e-9.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import exp, expm1, log, log1p
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FALSE_ALARM = 1e-9
PAGE = 1_024  # our page size in SQLite; one of PostgreSQL's has eight times as many bytes
KINDS = {0x02: "index", 0x0A: "index", 0x05: "table", 0x0D: "table"}
Places = NDArray[np.int64]
Trace = Callable[[Places], tuple[int, ...]]  # of the positions of an id

TRACES: dict[str, Trace] = {
    "first": lambda places: (int(places[0]),),
    "last": lambda places: (int(places[-1]),),
    "page": lambda places: (int(places[0]) // PAGE,),
    "end of page": lambda places: (int(places[0]) // PAGE, -int(places[0])),
    "end of any page": lambda places: (-int(places[0] % PAGE),),
    "end of last page": lambda places: (int(places[-1]) // PAGE, -int(places[-1])),
    "copies": lambda places: (len(places),),
}


@dataclass
class Score:
    """Right pairs of one trace, over all trials."""

    right: float = 0.0
    sizes: list[int] = field(default_factory=list)  # number of ids in each trial

    @property
    def share(self) -> float:
        return self.right / self.pairs

    @property
    def pairs(self) -> float:
        return sum(size * (size - 1) / 2 for size in self.sizes)

    def chance(self) -> float:
        """Return a bound on the probability that a random order is as far from half the pairs."""
        return min(1.0, 2 * bound(max(self.right, self.pairs - self.right), self.sizes))


CATALOGUE_CACHE = "pg_internal.init"  # a file that PostgreSQL deletes and writes at any time


class Adversary:
    """Adversary who sees several folders, whose order of arrival differs."""

    def __init__(self) -> None:
        self.scores: dict[tuple[str, ...], Score] = {}

    def see(self, folder: Path, surveys: Sequence[Sequence[bytes]]) -> None:
        """Rank the ids of each survey, given in their order of arrival; relate two surveys."""
        for file in sorted(folder.iterdir() if folder.is_dir() else [folder]):
            if file.name == CATALOGUE_CACHE:
                continue
            for trace, ranks in rankings(file, surveys):
                names = file.name if folder.is_dir() else "file", *trace
                for ranked in ranks:
                    self._count((*names, "order"), ranked)
                if len(ranks) == 2 and len(ranks[0]) == len(ranks[1]):
                    by_first = [number for _, number in sorted(zip(*ranks, strict=True))]
                    self._count((*names, "links"), by_first)

    def _count(self, key: tuple[str, ...], ranked: Sequence[int]) -> None:
        if len(ranked) > 1:
            score = self.scores.setdefault(key, Score())
            score.right += right_pairs(ranked)
            score.sizes.append(len(ranked))

    def best(self, aim: str = "") -> tuple[float, tuple[str, ...], float]:
        """Return the best trace for an aim: its bound over all traces, its name, and its share."""
        keys = [key for key in self.scores if aim in ("", key[-1])]
        key = min(keys, key=lambda key: self.scores[key].chance())
        score = self.scores[key]
        return min(1.0, len(self.scores) * score.chance()), key, score.share

    def wins(self, aim: str = "") -> bool:
        return self.best(aim)[0] <= FALSE_ALARM


def rankings(
    file: Path, surveys: Sequence[Sequence[bytes]]
) -> Iterator[tuple[tuple[str, str], list[list[int]]]]:
    """Yield each trace with the ranks of each survey's ids, in their order of arrival."""
    content = file.read_bytes()
    places = positions(content, [id_ for ids in surveys for id_ in ids])
    if not places:
        return
    kinds = np.array([KINDS.get(kind, "other") for kind in content[::PAGE]] or ["other"])
    for kind, (name, trace) in product(("any", "index", "table"), TRACES.items()):
        ranks = []
        for ids in surveys:
            found = {id_: chosen(places.get(id_), kinds, kind) for id_ in ids}
            there = [id_ for id_ in ids if len(found[id_])]
            ordered = sorted(there, key=lambda id_: (trace(found[id_]), id_))
            rank = {id_: number for number, id_ in enumerate(ordered)}
            ranks.append([rank[id_] for id_ in there])
        yield (kind, name), ranks


def chosen(places: Places | None, kinds: NDArray[np.str_], kind: str) -> Places:
    if places is None:
        return np.empty(0, np.int64)
    return places if kind == "any" else places[kinds[places // PAGE] == kind]


def positions(content: bytes, ids: Sequence[bytes]) -> dict[bytes, Places]:
    """Return the positions of each id, found by its first eight bytes."""
    if len(content) < 16:
        return {}
    windows = np.ndarray(len(content) - 15, "<u8", content, strides=(1,))
    keys = np.array([int.from_bytes(id_[:8], "little") for id_ in ids], np.uint64)
    at = np.flatnonzero(np.isin(windows, keys))
    found: dict[bytes, list[int]] = {}
    for start in at.tolist():
        found.setdefault(content[start : start + 16], []).append(start)
    return {id_: np.array(found[id_], np.int64) for id_ in ids if id_ in found}


def right_pairs(ranked: Sequence[int]) -> int:
    """Return how many pairs are in ascending order."""
    values = np.asarray(ranked)
    return int(sum(np.count_nonzero(values[i + 1 :] > value) for i, value in enumerate(values)))


def bound(right: float, sizes: Sequence[int]) -> float:
    """Return Chernoff's bound on the probability of at least this many right pairs.

    >>> bound(6, [4]) >= 1 / 24  # the one order of four that is completely right
    True
    """
    return exp(min(_moments(t, sizes) - t * right for t in STEPS))


STEPS = [10 ** (exponent / 8) for exponent in range(-48, 9)]


def _moments(t: float, sizes: Sequence[int]) -> float:
    """Return the sum of log M_n(t)."""
    return sum(sizes.count(n) * _log_moment(n, t) for n in set(sizes))


def _log_moment(n: int, t: float) -> float:
    """Return log M_n(t), with (e^(jt) - 1) / (j (e^t - 1)) without overflow."""
    one = log(expm1(t)) if t < 1 else t + log1p(-exp(-t))
    j = np.arange(1, n + 1)
    grown = np.where(
        j * t < 1, np.log(np.expm1(np.minimum(j * t, 1))), j * t + np.log1p(-np.exp(-j * t))
    )
    return float((grown - np.log(j) - one).sum())
