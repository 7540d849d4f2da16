"""The verb `demo`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from deniable.shared.cli.verb import Verb
from deniable.shared.errors import WrongUse

MOST_PEOPLE = 10_000_000


def _arguments(parser: ArgumentParser) -> None:
    parser.description = (
        "Start a server on loopback, publish surveys, let simulated people answer them through the "
        "real envelope and HTTP path, and print the truth beside every estimate: of one survey, "
        "and of twelve days with a bad release and with forged reports."
    )
    parser.add_argument(
        "--people", type=int, default=20_000, metavar="N", help="how many (default 20,000)"
    )
    parser.add_argument(
        "--exit", action="store_true", help="stop when done; otherwise the dashboard stays open"
    )
    parser.add_argument("--open", action="store_true", help="open the dashboard in the browser")
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    parser.add_argument(
        "--picture", type=Path, metavar="FILE", help="draw the twelve days as an SVG into this file"
    )
    parser.add_argument("--seed", type=int, default=2026, help="of the people; never of the noise")
    parser.add_argument("--port", type=int, default=0, help="of the server; default: a free one")


def _run(arguments: Namespace) -> int:
    from deniable.simulations.demo.demo import Wishes, run

    if not 1 <= arguments.people <= MOST_PEOPLE:
        raise WrongUse(f"--people is 1 to {MOST_PEOPLE:,}, got {arguments.people}")
    if arguments.seed < 0:
        raise WrongUse(f"--seed is 0 or more, got {arguments.seed}")
    if arguments.open and arguments.exit:
        raise WrongUse("--open shows the dashboard, which --exit ends; give one of them")
    return run(
        Wishes(
            people=arguments.people,
            stop=arguments.exit,
            as_json=arguments.json,
            seed=arguments.seed,
            port=arguments.port,
            browse=arguments.open,
            picture=arguments.picture,
        )
    )


DEMO = Verb(
    "demo",
    "server, survey and a simulated crowd: truth beside estimate",
    _arguments,
    _run,
    example="deniable demo --people 20000",
)
