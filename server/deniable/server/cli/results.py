"""`deniable results`: the estimates of a survey, from the store itself or from a server."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from deniable.server.cli.place import add_place
from deniable.server.process.settings import TOKEN
from deniable.shared.cli.verb import Verb

if TYPE_CHECKING:
    from deniable.server.results import Results


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("survey", metavar="SURVEY", help="a name, an id or its beginning")
    add_place(parser).add_argument("--server", metavar="URL", help="ask a server, over HTTP")
    parser.add_argument(
        "--token", help=f"an analyst's, for --server; better in the environment's {TOKEN}"
    )
    parser.add_argument("--round", type=int, metavar="N", help="only this round")
    parser.add_argument(
        "--from", dest="first", type=int, metavar="N", help="only this round and later ones"
    )
    parser.add_argument(
        "--until", dest="last", type=int, metavar="N", help="only this round and earlier ones"
    )
    parser.add_argument(
        "--against", metavar="SURVEY", help="what differs from this survey's newest round"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON document")
    form.add_argument("--csv", action="store_true", help="print a table for other programs")


def run(chosen: Namespace) -> int:
    import msgspec

    from deniable.server.results import csv_text
    from deniable.server.results.text import lines

    if chosen.against:
        return _compare(chosen)
    results = _from_server(chosen) if chosen.server else _from_store(chosen)
    if chosen.json:
        print(msgspec.json.encode(results).decode())
    elif chosen.csv:
        sys.stdout.write(csv_text(results).replace("\r\n", "\n"))
    else:
        print("\n".join(lines(results)))
    return 0


def _compare(chosen: Namespace) -> int:
    import msgspec

    from deniable.server.analysis.opening import stored_comparison
    from deniable.server.results.text import comparison_lines
    from deniable.shared.errors import WrongUse

    if chosen.server or chosen.csv:
        raise WrongUse("--against compares two surveys of one store: with --data, without --csv")
    found = stored_comparison(chosen.data, chosen.survey, chosen.against, chosen.round)
    if chosen.json:
        print(msgspec.json.encode(found).decode())
    else:
        print("\n".join(comparison_lines(found)))
    return 0


def _from_store(chosen: Namespace) -> Results:
    from deniable.server.analysis.opening import stored_results

    return stored_results(chosen.data, chosen.survey, chosen.round, chosen.first, chosen.last)


def _from_server(chosen: Namespace) -> Results:
    from deniable.server.analysis.remote import remote_results

    return remote_results(chosen.server, chosen.survey, _asked(chosen), chosen.token)


def _asked(chosen: Namespace) -> dict[str, int]:
    given = {"round": chosen.round, "from": chosen.first, "until": chosen.last}
    return {name: number for name, number in given.items() if number is not None}


RESULTS = Verb(
    "results",
    "show a survey's estimates with their intervals",
    arguments,
    run,
    example="deniable results app-health --data ./data",
)
