"""The verb `demo`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from deniable.shared.cli.verb import Verb, add_json
from deniable.shared.errors import WrongUse

MAX_PEOPLE = 10_000_000


def _arguments(parser: ArgumentParser) -> None:
    parser.description = (
        "Start a server on loopback, publish surveys, and let simulated people answer them with "
        "real envelopes over HTTP. Then print the truth next to every estimate, for one survey and "
        "for twelve days of an app with a bad release and forged reports."
    )
    parser.add_argument(
        "--people", type=int, default=20_000, metavar="N", help="number of people (default 20,000)"
    )
    parser.add_argument(
        "--exit", action="store_true", help="stop when done, instead of keeping the dashboard open"
    )
    parser.add_argument("--open", action="store_true", help="open the dashboard in the browser")
    add_json(parser)
    parser.add_argument(
        "--picture", type=Path, metavar="FILE", help="write an SVG of the twelve days to this file"
    )
    parser.add_argument(
        "--seed", type=int, default=2026, help="seed of the people; the noise is never seeded"
    )
    parser.add_argument(
        "--port", type=int, default=0, help="port of the dashboard (default: a free one)"
    )


def _run(arguments: Namespace) -> int:
    from deniable.simulations.demo.demo import run

    if not 1 <= arguments.people <= MAX_PEOPLE:
        raise WrongUse(f"--people must be from 1 to {MAX_PEOPLE:,}, got {arguments.people}")
    if arguments.seed < 0:
        raise WrongUse(f"--seed must be at least 0, got {arguments.seed}")
    if arguments.open and arguments.exit:
        raise WrongUse("--open shows the dashboard, which --exit stops; give only one of them")
    return run(arguments)


DEMO = Verb(
    "demo",
    "server, survey and simulated people: truth next to estimate",
    _arguments,
    _run,
    group="start",
    example="deniable demo --people 20000",
)
