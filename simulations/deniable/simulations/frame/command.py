"""`deniable simulate NAME`: runs a study, and prints or writes what it found."""

from __future__ import annotations

import json
import sys
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deniable.shared.errors import WrongUse
from deniable.simulations.frame.option import Option, read
from deniable.simulations.frame.registry import load, summaries
from deniable.simulations.frame.study import SEED, Study

if TYPE_CHECKING:
    from argparse import _ArgumentGroup

ALL = "all"


def add_arguments(parser: ArgumentParser) -> None:
    studies = parser.add_subparsers(
        dest="study", metavar="STUDY", required=True, parser_class=_StudyParser
    )
    for name, summary in summaries().items():
        studies.add_parser(name, help=summary, description=summary).set_defaults(study=name)
    words = "every study, and a page with a card for each"
    studies.add_parser(ALL, help=words, description=words).set_defaults(study=ALL)


class _StudyParser(ArgumentParser):
    """A study is imported, and says what it takes, only when it is the one that was asked for."""

    _filled = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # Any: argparse's
        if not self._filled:
            self._filled = True
            self._fill(self.prog.split()[-1])
        return super().parse_known_args(args, namespace)

    def _fill(self, name: str) -> None:
        if name == ALL:
            self.add_argument("--out", type=Path, metavar="DIR", required=True, help="written here")
            _add_seed(self)
            return
        try:
            study = load(name)
        except ModuleNotFoundError as error:
            self.exit(
                2,
                f"{self.prog}: needs {error.name}, which is not installed; "
                "run: pip install 'deniable[simulations]'\n",
            )
        for option in study.options:
            _add(self, option)
        _add_common(self, study.where)


def _add(parser: ArgumentParser, option: Option) -> None:
    default = "" if option.default in (None, []) else f" (default {option.default})"
    words = (option.help + default).replace("%", "%%")
    if option.positional:
        parser.add_argument(
            option.name, metavar=option.metavar, help=words, nargs="?", default=SUPPRESS
        )
        return
    parser.add_argument(
        f"--{option.name}",
        metavar=option.metavar,
        help=words,
        default=SUPPRESS,
        action="append" if option.repeated else "store",
    )


def _add_common(parser: ArgumentParser, where: str) -> None:
    frame = parser.add_argument_group("where and how")
    frame.add_argument(
        "--out", type=Path, metavar="DIR", help="write a page, figures, a CSV and run.toml here"
    )
    frame.add_argument("--json", action="store_true", help="print one JSON document")
    _add_seed(frame)
    frame.add_argument(
        "--on",
        default=where,
        metavar="WHERE",
        help="local, pool, dask, or dask:ADDRESS of a scheduler (default %(default)s)",
    )


def _add_seed(parser: ArgumentParser | _ArgumentGroup) -> None:
    parser.add_argument(
        "--seed", type=int, default=SEED, help="root of all randomness (default %(default)s)"
    )


def simulate(chosen: Namespace) -> int:
    if chosen.study == ALL:
        from deniable.simulations.frame.index import simulate_all

        simulate_all(chosen.out, chosen.seed)
        _written(chosen.out)
        return 0
    from deniable.simulations.frame.found import run

    study = load(chosen.study)
    options = study.check(read(study.options, _given(study, chosen), _spelled(study)))
    if chosen.seed < 0:
        raise WrongUse(f"--seed takes a whole number from 0 on, got {chosen.seed}")
    found = run(study, options, chosen.seed, chosen.on, chosen.out, shown=True)
    if chosen.out:
        found.write(chosen.out)
        _written(chosen.out)
    print(json.dumps(found.report.document, allow_nan=False) if chosen.json else found)
    return 0


def _given(study: Study, chosen: Namespace) -> dict[str, Any]:  # Any: texts, or lists of them
    names = {option.name for option in study.options}
    return {name: value for name, value in vars(chosen).items() if name in names}


def _spelled(study: Study) -> Callable[[str], str]:
    first = {option.name for option in study.options if option.positional}
    return lambda name: name.upper() if name in first else f"--{name}"


def _written(folder: Path) -> None:
    print(f"written: {folder / 'index.html'}", file=sys.stderr)
