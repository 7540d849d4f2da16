"""`deniable simulate NAME`: runs a study, and prints or writes what it found."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from deniable.shared.errors import WrongUse
from deniable.simulations.frame.registry import SUMMARIES, load
from deniable.simulations.frame.study import Options, Row, Study

SEED = 20240501


def add_arguments(parser: ArgumentParser) -> None:
    studies = parser.add_subparsers(
        dest="study", metavar="STUDY", required=True, parser_class=_StudyParser
    )
    for name, summary in SUMMARIES.items():
        studies.add_parser(name, help=summary, description=summary).set_defaults(study=name)


class _StudyParser(ArgumentParser):
    """A study is imported, and says what it takes, only when it is the one that was asked for."""

    _filled = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # Any: argparse's
        if not self._filled:
            self._filled = True
            self._fill(self.prog.split()[-1])
        return super().parse_known_args(args, namespace)

    def _fill(self, name: str) -> None:
        try:
            study = load(name)
        except ModuleNotFoundError as error:
            self.exit(
                2,
                f"{self.prog}: needs {error.name}, which is not installed; "
                "run: pip install 'deniable[simulations]'\n",
            )
        study.arguments(self)
        _add_common(self, study.where)


def _add_common(parser: ArgumentParser, where: str) -> None:
    frame = parser.add_argument_group("where and how")
    frame.add_argument(
        "--out", type=Path, metavar="DIR", help="write a page, figures, a CSV and run.toml here"
    )
    frame.add_argument("--json", action="store_true", help="print one JSON document")
    frame.add_argument(
        "--seed", type=int, default=SEED, help="root of all randomness (default %(default)s)"
    )
    frame.add_argument(
        "--on",
        default=where,
        metavar="WHERE",
        help="local, pool, dask, or dask:ADDRESS of a scheduler (default %(default)s)",
    )


def simulate(chosen: Namespace) -> int:
    from deniable.simulations.frame.output import write_all
    from deniable.simulations.frame.plain import plain_text

    study = load(chosen.study)
    if chosen.seed < 0:
        raise WrongUse(f"--seed takes a whole number from 0 on, got {chosen.seed}")
    options = study.options(chosen)
    rows = _rows(study, options, chosen)
    report = study.report(options, rows)
    if chosen.out:
        write_all(chosen.out, study, report, rows, chosen.seed, options)
        print(f"written: {chosen.out / 'index.html'}", file=sys.stderr)
    if chosen.json:
        print(json.dumps(report.document, allow_nan=False))
    else:
        print(plain_text(study, report))
    return 0


def _rows(study: Study, options: Options, chosen: Namespace) -> list[Row]:
    from deniable.simulations.frame.cells import run_cells
    from deniable.simulations.frame.journal import open_journal
    from deniable.simulations.frame.progress import progress

    cells = study.cells(options)
    with (
        open_journal(chosen.out, study.name, chosen.seed, options) as journal,
        progress(study.name, len(cells)) as finished,
    ):
        return run_cells(study, cells, chosen.seed, chosen.on, journal, finished)
