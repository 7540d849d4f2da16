"""The `deniable` command: finds the verbs that each part brings, and runs one.

Parts name their verbs in the entry-point group `deniable.verbs`. A verb whose libraries are not
installed is answered with the line that installs them.

Exit codes: 0 well, 1 a finding, 2 wrong use, 3 refused by the server.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace

from deniable.shared.cli.entry_points import entry_points
from deniable.shared.cli.verb import Verb
from deniable.shared.errors import DeniableError, Refused

GROUP = "deniable.verbs"
EXTRAS = {"pyarrow": "archive", "dask": "cluster", "distributed": "cluster"}  # not of one part
WELL, WRONG_USE, REFUSED, INTERRUPTED = 0, 2, 3, 130  # 1: a verb has found something


def main(arguments: Sequence[str] | None = None) -> int:
    verbs = find_verbs()
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = make_parser(verbs, frozenset(given))
    words = _asked(parser, given, verbs)
    chosen, more = parser.parse_known_args(words)
    if more:
        parser.error(_not_known(more))
    if chosen.verb is None:
        parser.print_help()
        return WELL
    return _run(_meant(verbs[chosen.verb], chosen), chosen)


def _asked(
    parser: argparse.ArgumentParser, words: list[str], verbs: Mapping[str, Verb]
) -> list[str]:
    """`help VERB` is `VERB --help`; what is no verb is answered with the nearest."""
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    if words and not words[0].startswith("-") and words[0] not in verbs:
        from difflib import get_close_matches

        near = get_close_matches(words[0], verbs, 1)
        meant = f"; did you mean {near[0]}" if near else ""
        parser.error(f"there is no verb {words[0][:40]!r}{meant}; `deniable --help` lists them")
    return words


def find_verbs() -> dict[str, Verb]:
    """Every verb of every installed part, by name; those of one name together."""
    parts = [place.load() for place in entry_points(GROUP)]
    found: dict[str, Verb] = {}
    for verb in sorted((verb for verbs in parts for verb in verbs), key=lambda v: v.option or ""):
        first = found.get(verb.name)
        found[verb.name] = replace(first, also=(*first.also, verb)) if first else verb
    return found


def make_parser(
    verbs: Mapping[str, Verb], words: Container[str] | None = None
) -> argparse.ArgumentParser:
    """Of `words`, if they are given, only the verbs among them are told what they take."""
    parser = argparse.ArgumentParser(
        prog="deniable",
        description="Ask a crowd anything; hold nobody's answer.",
        epilog="`deniable help VERB` says more about each.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and stop")
    commands = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs")
    for name in sorted(verbs):
        parts = (verbs[name], *verbs[name].also)
        summary = "; ".join(verb.summary for verb in parts)
        conflicts = "resolve" if len(parts) > 1 else "error"  # each part has its --json
        command = commands.add_parser(
            name,
            help=summary,
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


def _meant(verb: Verb, chosen: argparse.Namespace) -> Verb:
    """Of the verbs of one name, that of which an option is given; else the first."""
    given = (each for each in verb.also if getattr(chosen, each.option or "", None) is not None)
    return next(given, verb)


def _not_known(more: Sequence[str]) -> str:
    """Without what stands there, which may be an answer that somebody wrote after an option: this
    ends in logs and mails."""
    options = [each.partition("=")[0] for each in more if each.startswith("--")]
    if options:
        return f"there is no option {', '.join(options)} here"
    return f"{len(more)} more than is expected; write what is no option together, and only once"


def _run(verb: Verb, chosen: argparse.Namespace) -> int:
    try:
        return verb.run(chosen)
    except Refused as error:
        print(f"deniable {verb.name}: {error}", file=sys.stderr)
        return REFUSED
    except DeniableError as error:
        print(f"deniable {verb.name}: {error}", file=sys.stderr)
        return WRONG_USE
    except ModuleNotFoundError as error:
        print(f"deniable {verb.name}: {_cure(verb, error)}", file=sys.stderr)
        return WRONG_USE
    except BrokenPipeError:
        sys.stderr.close()
        return WELL
    except KeyboardInterrupt:
        print(f"\ndeniable {verb.name}: interrupted", file=sys.stderr)
        return INTERRUPTED


def _cure(verb: Verb, error: ModuleNotFoundError) -> str:
    """The line that installs what is missing: most extras are named like the parts."""
    extra = EXTRAS.get(error.name or "") or verb.run.__module__.split(".")[1]
    return f"needs {error.name}, which is not installed; run: pip install 'deniable[{extra}]'"


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object, **__: object) -> None:
        from importlib.metadata import version

        print(f"deniable {version('deniable')}")
        parser.exit()


if __name__ == "__main__":
    sys.exit(main())
