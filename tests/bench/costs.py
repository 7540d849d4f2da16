"""Cost of counting the reports of many devices, calculated from figures that were measured.

    python -m tests.bench.costs     prints the table of server/RECIPES.md

Each device sends a report and fetches the list once a day. In the worst minutes, ten times as many
requests arrive as on average.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

SIZES = (10**7, 10**8, 10**9)
DAY_SECONDS, YEAR_DAYS, WORST = 86_400, 365, 10
UNITS = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6))


@dataclass(frozen=True)
class Measured:
    """Figures of one node with a folder, and of the archive, with the bench that measures each."""

    cpu_seconds: float = 110e-6  # per durable request: ingest
    requests_per_second: float = 9_000.0  # of one node: ingest
    written_bytes: float = 6_300.0  # per report: written
    stored_bytes: float = 37.0  # per report: written
    report_bytes: float = 1_000.0  # with its headers: arithmetic
    list_bytes: float = 20_000.0  # without compression and caches: arithmetic
    recounted_per_second: float = 65e6  # in one process: archive


def rows(devices: int, measured: Measured = Measured()) -> Iterator[tuple[str, str]]:
    """Yield each quantity with its figure.

    >>> dict(rows(10**7))["reports a second, on average and in the worst minutes"]
    '116 / 1,157'
    >>> dict(rows(10**9))["nodes for the worst minutes"]
    '13'
    """
    average = devices / DAY_SECONDS
    worst = WORST * average
    yield "reports a second, on average and in the worst minutes", f"{average:,.0f} / {worst:,.0f}"
    yield "CPU for the worst minutes", f"{worst * measured.cpu_seconds:.2g} cores"
    yield "nodes for the worst minutes", str(math.ceil(worst / measured.requests_per_second))
    yield "disk, written in a day", amount(devices * measured.written_bytes)
    yield "disk, stored with grace and retention (104 days)", stored(devices, 104, measured)
    yield "disk, stored with `archive --purge` (16 days)", stored(devices, 16, measured)
    yield "network, reports in a day", amount(devices * measured.report_bytes)
    yield "network, the list in a day", amount(devices * measured.list_bytes)
    minutes = devices * YEAR_DAYS / measured.recounted_per_second / 60
    yield "recount of a year, in one process", f"{minutes:.2g} min"


def stored(devices: int, days: int, measured: Measured) -> str:
    return amount(devices * days * measured.stored_bytes)


def amount(size: float) -> str:
    """Return a number of bytes with two digits.

    >>> amount(6.3e10), amount(3.7e8), amount(2e13)
    ('63 GB', '370 MB', '20 TB')
    """
    unit, factor = next((unit, factor) for unit, factor in UNITS if size >= factor)
    return f"{float(f'{size / factor:.2g}'):g} {unit}"


def table() -> str:
    """Return the table in Markdown."""
    columns = [dict(rows(devices)) for devices in SIZES]
    head = ["| a day | 10 million devices | 100 million | a billion |", "|---|---:|---:|---:|"]
    cells = [(name, *(column[name] for column in columns)) for name in columns[0]]
    return "\n".join([*head, *(f"| {' | '.join(row)} |" for row in cells)])


if __name__ == "__main__":
    print(table())
