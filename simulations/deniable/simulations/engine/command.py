"""The verb `simulate`: run one study or all of them, and print or write the results.

A study's module is imported only when that study is requested, so that `deniable --help` does not
wait for numpy.
"""

from __future__ import annotations

import os
import sys
from argparse import SUPPRESS, ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from deniable.shared.cli.verb import Verb, add_json, show
from deniable.shared.errors import WrongUse, installation
from deniable.simulations.engine.option import Option, read
from deniable.simulations.engine.study import SEED, load, summaries

ALL = "all"
ALL_SUMMARY = "run every study, and write an overview page"


def add_arguments(parser: ArgumentParser) -> None:
    studies = parser.add_subparsers(
        dest="study", metavar="STUDY", required=True, parser_class=_StudyParser
    )
    for name, summary in {**summaries(), ALL: ALL_SUMMARY}.items():
        studies.add_parser(name, help=summary, description=summary).set_defaults(study=name)


class _StudyParser(ArgumentParser):
    """Parser that imports its study and adds the study's options when it is first used."""

    _filled = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # Any: argparse
        if not self._filled:
            self._filled = True
            self._fill(self.prog.split()[-1])
        return super().parse_known_args(args, namespace)

    def _fill(self, name: str) -> None:
        # Matrices are small: several threads would mostly wait for each other, at full speed.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        folder: dict[str, Any] = {"type": Path, "metavar": "DIR"}  # Any: arguments of argparse
        if name == ALL:
            self.add_argument("--out", required=True, help="folder for the pages", **folder)
        else:
            self._add_study(name, folder)
        words = "root of all randomness (default %(default)s)"
        self.add_argument("--seed", type=int, default=SEED, help=words)

    def _add_study(self, name: str, folder: dict[str, Any]) -> None:  # Any: as above
        try:
            study = load(name)
        except ModuleNotFoundError as error:
            hint = installation("simulations")
            self.exit(2, f"{self.prog}: needs {error.name}, which is not installed; {hint}\n")
        for option in study.options:
            _add_option(self, option)
        words = "where cells run: local, pool, dask or dask:ADDRESS (default %(default)s)"
        self.add_argument("--on", default=study.where, metavar="WHERE", help=words)
        words = "folder for a page, figures, a CSV and run.toml"
        self.add_argument("--out", help=words, **folder)
        add_json(self)


def _add_option(parser: ArgumentParser, option: Option) -> None:
    default = "" if option.default in (None, []) else f" (default {option.default})"
    settings: dict[str, Any] = {  # Any: keyword arguments of argparse, of various types
        "metavar": option.metavar,
        "help": (option.help + default).replace("%", "%%"),
        "default": SUPPRESS,
    }
    if option.positional:
        parser.add_argument(option.name, nargs="?", **settings)
    else:
        action = "append" if option.repeated else "store"
        parser.add_argument(f"--{option.name}", action=action, **settings)


def simulate(arguments: Namespace) -> int:
    from deniable.simulations.engine.study_result import run

    if arguments.seed < 0:
        raise WrongUse(f"--seed must be a whole number of at least 0, got {arguments.seed}")
    if arguments.study == ALL:
        return _simulate_all(arguments.out, arguments.seed)
    study = load(arguments.study)
    positional = {option.name for option in study.options if option.positional}
    names = {option.name for option in study.options}
    given = {name: value for name, value in vars(arguments).items() if name in names}
    options = study.check(
        read(study.options, given, lambda n: n.upper() if n in positional else f"--{n}")
    )
    result = run(study, options, arguments.seed, arguments.on, arguments.out, show_progress=True)
    if arguments.out:
        print(f"written: {result.write(arguments.out)}", file=sys.stderr)
    return show(arguments, result.document, map(str, [result]))


def _simulate_all(folder: Path, seed: int) -> int:
    """Run every study in its own folder, resuming where it can, and write the overview page."""
    from deniable.simulations.engine.page import card, index_page
    from deniable.simulations.engine.study_result import run

    cards = []
    for name in summaries():
        study = load(name)
        options = study.check(read(study.options, {}))
        result = run(study, options, seed, out=folder / name, show_progress=True)
        result.write(folder / name)
        cards.append(card(study, result.report))
    (folder / "index.html").write_text(index_page(cards), "utf-8")
    print(f"written: {folder / 'index.html'}", file=sys.stderr)
    return 0


SIMULATE = Verb(
    "simulate",
    "simulate what privacy costs before you ask anyone",
    add_arguments,
    simulate,
    group="research",
    example="deniable simulate bit --out bit",
)
