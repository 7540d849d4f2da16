"""The `deniable` command: finds the verbs that each part brings, and runs one.

Parts name their verbs in the entry-point group `deniable.verbs`. A verb whose libraries are not
installed is answered with the line that installs them.

Exit codes: 0 well, 1 a finding, 2 wrong use, 3 refused by the server.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from deniable.shared.errors import DeniableError, Refused
from deniable.shared.verb import Verb

GROUP = "deniable.verbs"
WELL, FINDING, WRONG_USE, REFUSED, INTERRUPTED = 0, 1, 2, 3, 130


def main(arguments: Sequence[str] | None = None) -> int:
    verbs = find_verbs()
    parser = _parser(verbs)
    chosen = parser.parse_args(arguments)
    if chosen.verb is None:
        parser.print_help()
        return WELL
    return _run(verbs[chosen.verb], chosen)


def find_verbs() -> dict[str, Verb]:
    """Every verb of every installed part, by name."""
    from importlib.metadata import entry_points

    return {verb.name: verb for point in entry_points(group=GROUP) for verb in point.load()}


def _parser(verbs: dict[str, Verb]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="deniable",
        description="Ask a crowd anything; hold nobody's answer.",
        epilog="`deniable VERB --help` says more about each.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and stop")
    commands = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs")
    for name in sorted(verbs):
        verb = verbs[name]
        verb.arguments(commands.add_parser(name, help=verb.summary, description=verb.summary))
    return parser


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
        return INTERRUPTED


def _cure(verb: Verb, error: ModuleNotFoundError) -> str:
    """The line that installs what is missing: extras are named like the parts."""
    extra = verb.run.__module__.split(".")[1]
    return f"needs {error.name}, which is not installed; run: pip install 'deniable[{extra}]'"


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object, **__: object) -> None:
        from importlib.metadata import version

        print(f"deniable {version('deniable')}")
        parser.exit()


if __name__ == "__main__":
    sys.exit(main())
