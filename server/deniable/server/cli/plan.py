"""The verb `plan`: what error to expect, how many people it takes, by which mechanism."""

from __future__ import annotations

import json
import math
from argparse import ArgumentParser, Namespace
from typing import Any

from deniable.shared.cli.verb import Verb
from deniable.shared.errors import WrongUse

MOST_PEOPLE = 10**12
MOST_OPTIONS = 65_536
KINDS = ("bit", "number", "choice", "text", "vector")


def _arguments(parser: ArgumentParser) -> None:
    parser.description = (
        "Say what one question will tell, before anyone is asked: with so many people, or how many "
        "it takes for a given error."
    )
    parser.add_argument("--kind", choices=KINDS, required=True)
    parser.add_argument("--epsilon", metavar="E", default="1", help="decimal text, 0 < E <= 20")
    parser.add_argument("--options", metavar="K", type=int, help="of a choice")
    parser.add_argument("--dimension", metavar="D", type=int, help="coordinates of a vector")
    parser.add_argument("--length", metavar="L", type=int, default=16, help="bytes of a text")
    parser.add_argument("--low", type=float, default=0.0, help="of a number (default 0)")
    parser.add_argument("--high", type=float, default=1.0, help="of a number (default 1)")
    parser.add_argument("--mechanism", metavar="NAME", help="left out: as a survey would have it")
    parser.add_argument("--people", metavar="N", type=int, help="who answer")
    parser.add_argument(
        "--error",
        metavar="X",
        type=float,
        help="half of the 95 %% interval: of a share 0.01 is one point, of a number its own unit, "
        "of a vector each coordinate",
    )
    parser.add_argument(
        "--bytes", metavar="B", type=int, help="only mechanisms whose report takes no more"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")


def _run(arguments: Namespace) -> int:
    from deniable.server.planning.figures import plan

    people, error = arguments.people, arguments.error
    if people is None and error is None:
        raise WrongUse("say how many people answer, --people N, or how exact it must be, --error X")
    if people is not None and not 1 <= people <= MOST_PEOPLE:
        raise WrongUse(f"--people is 1 to {MOST_PEOPLE:,}, got {people}")
    if error is not None and not (error > 0 and math.isfinite(error)):
        raise WrongUse(f"--error is a number above 0, got {error}")
    found = plan(_question(arguments), people, error, arguments.bytes)
    print(json.dumps(found, ensure_ascii=False) if arguments.json else _text(found))
    return 0


def _question(arguments: Namespace) -> dict[str, Any]:
    """As a survey file has it; the reader of surveys says what is wrong with it."""
    kind = arguments.kind
    asked = {"name": "it", "kind": kind, "epsilon": arguments.epsilon}
    if arguments.mechanism is not None:
        asked["mechanism"] = arguments.mechanism
    if kind == "number":
        asked |= {"low": arguments.low, "high": arguments.high}
    if kind == "text":
        asked["length"] = arguments.length
    if kind == "choice":
        if arguments.options is None or not 2 <= arguments.options <= MOST_OPTIONS:
            raise WrongUse(f"--options of a choice is 2 to {MOST_OPTIONS:,}")
        asked["options"] = [f"option {number}" for number in range(1, arguments.options + 1)]
    if kind == "vector":
        if arguments.dimension is None:
            raise WrongUse("--dimension of a vector is how many coordinates it has")
        asked["dimension"] = arguments.dimension
    return asked


def _text(found: dict[str, Any]) -> str:
    lines = [
        f"{'mechanism':<24}{'± 95 %':>10}  {'n × variance':>12}  {'bytes':>6}  {'leverage':>9}"
    ]
    lines += [
        f"{each['mechanism']:<24}{each['half_width_95']:>10.4g}  {each['n_variance']:>12.4g}  "
        f"{each['payload_bytes']:>6}  {each['leverage']:>9.2f}"
        for each in [found, *found["alternatives"]]
    ]
    lines.append(f"{'shuffled':<24}{found['shuffled_half_width_95']:>10.4g}  {_shuffled(found)}")
    lines.append(f"{'a trusted server':<24}{found['central_half_width_95']:>10.4g}")
    told = [_how_exact(found), _how_much_it_is_worth(found)]
    return "\n".join([*lines, "", *([_from_where_on(found)] if "floor" in found else told)])


def _shuffled(found: dict[str, Any]) -> str:
    return (
        f"(ε {found['epsilon']}, δ {found['shuffled_delta']:.3g}), and "
        f"ε {found['shuffled_report_epsilon']} for a report alone"
    )


def _from_where_on(found: dict[str, Any]) -> str:
    people, floor = found["people"], found["floor"]
    if floor >= 1:
        return f"{people:,} people are too few to find any text."
    return (
        f"Of {people:,} people, a text that {math.ceil(floor * people):,} or more answer is found "
        f"with a probability of 99 %, and its share told to ± {found['half_width_95']:.3g}."
    )


def _how_exact(found: dict[str, Any]) -> str:
    ratio = found["limit_ratio"]
    above = "" if ratio is None else f", {ratio:.3f} times the least variance that can be had"
    return (
        f"{found['people']:,} people tell it to ± {found['half_width_95']:.3g}{above}; for "
        f"± {_error(found):.3g} it takes {found['people_for_error']:,} people."
    )


def _how_much_it_is_worth(found: dict[str, Any]) -> str:
    return (
        f"{found['people']:,} deniable answers carry the information of about "
        f"{found['direct_equivalent']:,} direct ones."
    )


def _error(found: dict[str, Any]) -> float:
    """That of as many people as are enough for what was asked for."""
    width, people, enough = (found[k] for k in ("half_width_95", "people", "people_for_error"))
    return float(width) * math.sqrt(people / enough)


PLAN = Verb(
    "plan",
    "what error to expect, and how many people it takes",
    _arguments,
    _run,
    example="deniable plan --kind bit --epsilon 1 --people 20000",
)
