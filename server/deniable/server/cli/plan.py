"""The verb `plan`: what error to expect, how many people it takes, by which mechanism."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from typing import Any

from deniable.shared.cli.verb import Verb
from deniable.shared.errors import WrongUse
from deniable.shared.survey.kinds import KINDS


def _arguments(parser: ArgumentParser) -> None:
    parser.description = (
        "Say what one question will tell, before anyone is asked: with so many people, or how many "
        "it takes for a given error."
    )
    parser.add_argument("--kind", choices=tuple(KINDS), required=True, help="of the question")
    parser.add_argument("--epsilon", metavar="E", default="1", help="decimal text, 0 < E <= 20")
    fields = (field for kind in KINDS.values() for field in kind.plan_fields)
    for field in {field.name: field for field in fields}.values():
        parser.add_argument(
            f"--{field.name}",
            metavar=field.name[0].upper(),
            type=int if field.is_whole else float,
            default=field.default,
            help=field.help,
        )
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
    from deniable.server.planning.forecast import plan
    from deniable.server.planning.planned_question import asked, check_error, check_people

    people, error = arguments.people, arguments.error
    if people is None and error is None:
        raise WrongUse("say how many people answer, --people N, or how exact it must be, --error X")
    question = asked(arguments.kind, arguments.epsilon, vars(arguments), arguments.mechanism)
    found = plan(
        question,
        None if people is None else check_people(people),
        None if error is None else check_error(error),
        arguments.bytes,
    )
    print(json.dumps(found, ensure_ascii=False) if arguments.json else _text(found))
    return 0


def _text(found: dict[str, Any]) -> str:
    from deniable.server.planning.forecast import sentences

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
    return "\n".join([*lines, "", *sentences(found, lambda error: f"± {error:.3g}")])


def _shuffled(found: dict[str, Any]) -> str:
    return (
        f"(ε {found['epsilon']}, δ {found['shuffled_delta']:.3g}), and "
        f"ε {found['shuffled_report_epsilon']} for a report alone"
    )


PLAN = Verb(
    "plan",
    "what error to expect, and how many people it takes",
    _arguments,
    _run,
    example="deniable plan --kind bit --epsilon 1 --people 20000",
)
