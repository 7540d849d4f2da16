"""A study, run: in Python by `simulate`, and by the command, which reads its words and calls it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deniable.server.work.progress import progress
from deniable.shared.errors import WrongUse
from deniable.simulations.frame.cells import run_cells
from deniable.simulations.frame.journal import open_journal
from deniable.simulations.frame.option import read
from deniable.simulations.frame.plain import plain_text
from deniable.simulations.frame.registry import load
from deniable.simulations.frame.study import SEED, Options, Report, Row, Study

if TYPE_CHECKING:
    import matplotlib.figure


@dataclass(frozen=True, repr=False)
class Found:
    """What a study found. `rows` are plain mappings, one for each line of its table."""

    study: Study
    options: Options
    seed: int
    rows: Sequence[Row]

    @cached_property
    def report(self) -> Report:
        """Findings, figures and tables, computed from the rows."""
        return self.study.report(self.options, self.rows)

    @property
    def findings(self) -> Sequence[str]:
        """In sentences."""
        return self.report.findings

    def frame(self) -> Any:  # Any: of the library that is installed
        """The rows as a frame of pandas or polars, or as a table of Arrow."""
        from deniable.simulations.frame.frames import frame

        return frame(self.rows)

    def figure(self, name: str | None = None) -> matplotlib.figure.Figure:
        """The figure with this name, or the first."""
        from deniable.simulations.frame.figures import styled

        named = {each.name: each for each in self.report.figures}
        if name is not None and name not in named:
            raise WrongUse(f"there is no figure {name!r}; there are {', '.join(named)}")
        with styled():
            return (named[name] if name else next(iter(named.values()))).draw()

    def write(self, folder: str | Path) -> Path:
        """The page, the figures, the table and the run record; returns the page's path."""
        from deniable.simulations.frame.output import write_all

        Path(folder).mkdir(parents=True, exist_ok=True)
        write_all(Path(folder), self.study, self.report, self.rows, self.seed, self.options)
        return Path(folder) / "index.html"

    def __repr__(self) -> str:
        return plain_text(self.study, self.report)

    def _repr_html_(self) -> str:
        """For a notebook: the sentences and the figures."""
        from deniable.simulations.frame.figures import Drawn
        from deniable.simulations.frame.page import excerpt

        return excerpt(self.report, [Drawn(figure) for figure in self.report.figures])


def simulate(
    study: str | Study,
    *,
    seed: int = SEED,
    on: str | None = None,
    out: str | Path | None = None,
    **options: Any,  # Any: what the study's readers take
) -> Found:
    """Run a study, ours by its name or one's own. `on` is where its cells run: local, pool, dask or
    dask:ADDRESS. With `out`, finished cells are kept there, so that an interrupted run goes on.

    >>> simulate("repeat", epsilon=1, rounds=[1, 12]).rows[0]["scheme"]
    'fresh'
    """
    chosen = load(study) if isinstance(study, str) else study
    found = run(chosen, chosen.check(read(chosen.options, options)), seed, on, out)
    if out is not None:
        found.write(out)
    return found


def run(
    study: Study,
    options: Options,
    seed: int,
    on: str | None = None,
    out: str | Path | None = None,
    shown: bool = False,
) -> Found:
    """`shown` is progress on standard error."""
    if seed < 0:
        raise WrongUse(f"a seed is a whole number from 0 on, got {seed}")
    cells = study.cells(options)
    with (
        open_journal(None if out is None else Path(out), study, seed, options) as journal,
        progress(study.name, len(cells)) if shown else nullcontext(lambda _count: None) as finished,
    ):
        rows = run_cells(study, cells, seed, on or study.where, journal, finished)
    return Found(study, options, seed, rows)
