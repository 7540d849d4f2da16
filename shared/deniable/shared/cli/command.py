"""The `deniable` command: find the verbs of all installed parts, and run one.

Parts list their verbs in the entry-point group `deniable.verbs`. If a verb's libraries are missing,
the command prints the line that installs them.

Exit codes: 0 success, 1 a finding, 2 wrong use, 3 refused by the server.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from deniable.shared.cli.verb import TITLES, Verb
from deniable.shared.errors import DeniableError, Refused, installation, quantity

GROUP = "deniable.verbs"
# extras of a library or verb, where the name differs from that of the part
EXTRAS = {"pyarrow": "archive", "dask": "cluster", "distributed": "cluster", "demo": "demo"}
SUCCESS, WRONG_USE, REFUSED, INTERRUPTED = 0, 2, 3, 130  # 1: a verb has a finding


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments; return its exit code."""
    verbs = find_verbs()
    words = list(sys.argv[1:] if arguments is None else arguments)
    parser = make_parser(verbs, frozenset(words))
    args, unexpected = parser.parse_known_args(_checked_words(parser, words, verbs))
    if unexpected:
        parser.error(_unexpected(unexpected, args.verb))
    if args.verb is None:
        parser.print_help()
        return SUCCESS
    verb = verbs[args.verb]
    given = (part for part in verb.also if getattr(args, part.option or "", None) is not None)
    return _run(next(given, verb), args)


def find_verbs() -> dict[str, Verb]:
    """Return every verb of every installed part by name; verbs with the same name are merged."""
    parts = [point.load() for point in entry_points(GROUP)]
    by_name: dict[str, Verb] = {}
    for verb in sorted((verb for verbs in parts for verb in verbs), key=lambda v: v.option or ""):
        first = by_name.get(verb.name)
        by_name[verb.name] = replace(first, also=(*first.also, verb)) if first else verb
    return by_name


def make_parser(
    verbs: Mapping[str, Verb], words: Container[str] | None = None
) -> argparse.ArgumentParser:
    """Return the parser. Given `words`, add arguments only for the verbs among them."""
    parser = Parser(
        prog="deniable",
        usage="deniable [-h] [--version] VERB ...",
        description="Ask a crowd anything; hold nobody's answer.",
        epilog=_grouped(verbs),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(
        prog="deniable", dest="verb", metavar="VERB", help=argparse.SUPPRESS
    )
    for name in sorted(verbs):
        parts, summary = (verbs[name], *verbs[name].also), _summary(verbs[name])
        conflicts = "resolve" if len(parts) > 1 else "error"  # several parts add --json
        command = commands.add_parser(
            name,
            description=summary,
            conflict_handler=conflicts,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if words is not None and name not in words:
            continue
        for verb in parts:
            verb.arguments(command)
        examples = "\n".join(["for example:", *(f"  {verb.example}" for verb in parts)])
        command.epilog = "\n\n".join(filter(None, [command.epilog, examples]))
    return parser


def _grouped(verbs: Mapping[str, Verb]) -> str:
    """List the verbs by the readers who need them."""
    width = max(map(len, verbs), default=0)
    lines = list[str]()
    for group, title in TITLES.items():
        named = [verb for name, verb in sorted(verbs.items()) if verb.group == group]
        lines += [f"{title}:", *(f"  {verb.name:{width}}  {_summary(verb)}" for verb in named), ""]
    return "\n".join([*lines, "`deniable help VERB` explains a verb."])


def _summary(verb: Verb) -> str:
    return "; ".join(part.summary for part in (verb, *verb.also))


class Parser(argparse.ArgumentParser):
    """Parser that suggests the nearest of the possible words for a mistyped one."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:  # Any: as in argparse
        if action.choices is not None and value not in action.choices:
            named = "value" if action.option_strings else str(action.metavar or action.dest).lower()
            raise argparse.ArgumentError(
                action, _no_such(f"{named} {value!r}", value, action.choices)
            )


def _no_such(what: str, word: str, known: Iterable[object]) -> str:
    """Say that a word is unknown, with the nearest known one, or all of a few."""
    from difflib import get_close_matches

    words = sorted(map(str, known))
    if near := get_close_matches(str(word), words, 1):
        return f"there is no {what[:60]}; did you mean {near[0]}?"
    return f"there is no {what[:60]}; choose from {', '.join(words)}"


class EntryPoint(NamedTuple):
    """Object that an installed package provides in a group."""

    name: str
    module: str
    attribute: str

    def load(self) -> Any:  # Any: a package may provide any object
        return getattr(import_module(self.module), self.attribute)


def entry_points(group: str) -> Iterator[EntryPoint]:
    """Return the entry points of a group in the order of `sys.path`; a name may repeat.

    Reading the metadata files directly takes 2 ms. Importing `importlib.metadata` takes 70 ms, half
    of the time budget of `--help`.
    """
    for folder in dict.fromkeys(sys.path):
        for path in sorted(Path(folder).glob("*.dist-info/entry_points.txt")):
            with path.open(encoding="utf-8") as file:
                yield from _points_in(group, file)


def _points_in(group: str, lines: Iterator[str]) -> Iterator[EntryPoint]:
    section = ""
    for line in map(str.strip, lines):
        if line.startswith("["):
            section = line.strip("[]")
        elif section == group and "=" in line:
            name, _, target = line.partition("=")
            module, _, attribute = target.partition(":")
            yield EntryPoint(name.strip(), module.strip(), attribute.strip())


def _checked_words(
    parser: argparse.ArgumentParser, words: list[str], verbs: Mapping[str, Verb]
) -> list[str]:
    """Read `help VERB` as `VERB --help`; refuse an unknown verb and suggest the nearest."""
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    if words and not words[0].startswith("-") and words[0] not in verbs:
        parser.error(_no_such(f"verb {words[0]!r}", words[0], verbs))
    return words


def _unexpected(words: Sequence[str], verb: str) -> str:
    """Return the message for unexpected arguments. It never repeats a value.

    A value may be an answer, and messages end up in logs and mails.
    """
    options = [word.partition("=")[0] for word in words if word.startswith("--")]
    if options:
        return f"unknown option {', '.join(options)}; see `deniable help {verb}`"
    number = quantity(len(words), "unexpected argument")
    return f"{number}; write positional arguments next to each other, see `deniable help {verb}`"


def _run(verb: Verb, args: argparse.Namespace) -> int:
    try:
        return verb.run(args)
    except BrokenPipeError:
        sys.stderr.close()
        return SUCCESS
    except KeyboardInterrupt:
        print(f"\ndeniable {verb.name}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except (DeniableError, ModuleNotFoundError, OSError) as error:
        print(f"deniable {verb.name}: {_message(verb, error)}", file=sys.stderr)
        return REFUSED if isinstance(error, Refused) else WRONG_USE


def _message(verb: Verb, error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError):
        # by default, the extra is named like the part
        part = verb.run.__module__.split(".")[1]
        extra = EXTRAS.get(error.name or "") or EXTRAS.get(verb.name, part)
        return f"needs {error.name}, which is not installed; {installation(extra)}"
    if isinstance(error, OSError) and error.filename is not None:
        reason = (error.strerror or type(error).__name__).lower()
        return f"cannot use {error.filename}: {reason}; name another path or change this one"
    return str(error) or type(error).__name__


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object, **__: object) -> None:
        from importlib.metadata import version

        print(f"deniable {version('deniable')}")
        parser.exit()


if __name__ == "__main__":
    sys.exit(main())
