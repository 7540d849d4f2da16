"""The verbs that this part brings to the `deniable` command: certify."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from deniable.shared.cli.verb import Verb
from deniable.shared.errors import InvalidSurvey, WrongUse

if TYPE_CHECKING:
    from deniable.shared.privacy.certify import Certificate
    from deniable.shared.privacy.mechanism import Mechanism


def _certify_arguments(parser: ArgumentParser) -> None:
    parser.description = (
        "Without --kind: prove every mechanism over a grid of ε and sizes. With it: print the "
        "integers of one mechanism, for anyone to check by other means."
    )
    parser.add_argument("--kind", choices=("bit", "number", "choice", "vector"))
    parser.add_argument("--mechanism", metavar="NAME", help="left out: the one of least error")
    parser.add_argument("--epsilon", metavar="E", default="1", help="decimal text, 0 < E <= 20")
    parser.add_argument("--options", metavar="K", type=int, help="of a choice")
    parser.add_argument("--dimension", metavar="D", type=int, help="coordinates of a vector")
    parser.add_argument("--low", type=float, default=0.0, help="of a number; changes no integer")
    parser.add_argument("--high", type=float, default=1.0, help="of a number; changes no integer")
    parser.add_argument("--grid", metavar="M", type=int, help="steps of a number: M + 1 rows")
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")


def _certify(arguments: Namespace) -> int:
    return _one(arguments) if arguments.kind else _all(arguments.json)


def _one(arguments: Namespace) -> int:
    from deniable.shared.privacy.certify import certify, table

    mechanism = _named(arguments)
    certificate = certify(mechanism)
    if arguments.json:
        print(json.dumps(table(mechanism)))
    else:
        print(f"{mechanism.name}, ε {mechanism.epsilon}: realised ε {certificate.realised}")
        print("--json prints the integers.")
    return 0 if certificate.holds else 1


def _named(arguments: Namespace) -> Mechanism:
    """The mechanism that a question with these options would have."""
    from deniable.shared.privacy.epsilon import Epsilon
    from deniable.shared.privacy.mechanisms import mechanism, mechanisms, sizes

    kind, name = arguments.kind, arguments.mechanism
    if name is not None and name not in mechanisms(kind):
        known = ", ".join(mechanisms(kind))
        raise WrongUse(f"--mechanism for a {kind} is one of {known}; got {name}")
    if not arguments.low < arguments.high:
        raise InvalidSurvey(
            "--high", f"must be above --low, got {arguments.low} and {arguments.high}"
        )
    given = (arguments.options, arguments.grid, arguments.dimension)
    size = next((each for each in given if each is not None), None)
    least, most = sizes(kind, name)
    if size is not None and not least <= size <= most:
        raise WrongUse(
            f"--options, --grid or --dimension of a {name or kind} is {least} to {most}, got {size}"
        )
    try:
        return mechanism(kind, Epsilon(arguments.epsilon), size, name)
    except ValueError as error:  # a table that is made for each survey
        raise WrongUse(str(error)) from None


def _all(as_json: bool) -> int:
    from deniable.shared.privacy.certify import certify, grid

    certificates: list[Certificate] = []
    for mechanism in grid():
        certificates.append(certify(mechanism))
        if sys.stderr.isatty():
            print(f"\r{len(certificates)} proofs", end="", file=sys.stderr)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    summary = [
        _summary(name, certificates) for name in dict.fromkeys(c.mechanism for c in certificates)
    ]
    holds = all(c.holds for c in certificates)
    if as_json:
        print(json.dumps({"holds": holds, "pairs": len(certificates), "mechanisms": summary}))
    else:
        _print_summary(summary, len(certificates), holds)
    return 0 if holds else 1


def _summary(name: str, certificates: list[Certificate]) -> dict[str, object]:
    mine = [c for c in certificates if c.mechanism == name]
    return {
        "mechanism": name,
        "pairs": len(mine),
        "holds": all(c.holds for c in mine),
        "worst_excess": str(max(0, *(-c.loss for c in mine))),
        "worst_loss": f"{max(c.loss for c in mine):.2e}",
        "worst_loss_up_to_epsilon_4": f"{max(c.loss for c in mine if float(c.epsilon) <= 4):.2e}",
    }


def _print_summary(summary: list[dict[str, object]], pairs: int, holds: bool) -> None:
    print(
        f"{'mechanism':<24}{'pairs':>6}  {'worst excess':>12}  {'worst loss':>10}  {'to ε 4':>10}"
    )
    for row in summary:
        print(
            f"{row['mechanism']:<24}{row['pairs']:>6}  {row['worst_excess']:>12}  "
            f"{row['worst_loss']:>10}  {row['worst_loss_up_to_epsilon_4']:>10}"
        )
    conclusion = "every one gives away at most its ε" if holds else "NOT every one holds its ε"
    print(f"{pairs} pairs of ε and size proved by integer arithmetic: {conclusion}.")


CERTIFY = Verb(
    "certify",
    "prove every mechanism's ε by exact arithmetic",
    _certify_arguments,
    _certify,
    example="deniable certify --kind bit --epsilon 1 --json",
)
