"""`deniable certify`: prove the ε of every mechanism, or print the integers of one."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING

from deniable.shared.cli.verb import Verb, add_json, show
from deniable.shared.errors import WrongUse

if TYPE_CHECKING:
    from deniable.shared.privacy.certify import Certificate
    from deniable.shared.privacy.mechanism import Mechanism


def _certify_arguments(parser: ArgumentParser) -> None:
    parser.description = (
        "Without --kind: prove every mechanism over a grid of ε and sizes. With --kind: print the "
        "integers of one mechanism, so that you can check them independently."
    )
    parser.add_argument("--kind", choices=("bit", "number", "choice", "vector"))
    parser.add_argument("--mechanism", metavar="NAME", help="default: the one with the least error")
    parser.add_argument("--epsilon", metavar="E", default="1", help="decimal text, 0 < E <= 20")
    parser.add_argument("--options", metavar="K", type=int, help="options of a choice")
    parser.add_argument("--dimension", metavar="D", type=int, help="coordinates of a vector")
    parser.add_argument("--low", type=float, default=0.0, help="of a number; changes no integer")
    parser.add_argument("--high", type=float, default=1.0, help="of a number; changes no integer")
    parser.add_argument("--grid", metavar="M", type=int, help="steps of a number: M + 1 rows")
    add_json(parser)


def _certify(args: Namespace) -> int:
    return _one(args) if args.kind else _all(args)


def _one(args: Namespace) -> int:
    from deniable.shared.privacy.certify import certify, table

    mechanism = _named(args)
    certificate = certify(mechanism)
    claim = f"{mechanism.name}, ε {mechanism.epsilon}: realised ε {certificate.realised}"
    show(args, table(mechanism) if args.json else None, [claim, "--json prints the integers."])
    return 0 if certificate.holds else 1


def _named(args: Namespace) -> Mechanism:
    """Return the mechanism that a question with these options would have."""
    from deniable.shared.privacy.epsilon import Epsilon
    from deniable.shared.privacy.mechanisms import mechanism, mechanisms, sizes

    kind, name = args.kind, args.mechanism
    if name is not None and name not in mechanisms(kind):
        known = ", ".join(mechanisms(kind))
        raise WrongUse(f"--mechanism for a {kind} must be one of {known}; got {name}")
    if not args.low < args.high:
        raise WrongUse(f"--high must be above --low, got {args.low} and {args.high}")
    sizes_given = (args.options, args.grid, args.dimension)
    size = next((size for size in sizes_given if size is not None), None)
    least, most = sizes(kind, name)
    if size is not None and not least <= size <= most:
        raise WrongUse(
            f"--options, --grid or --dimension of a {name or kind} must be {least} to {most}, "
            f"got {size}"
        )
    try:
        return mechanism(kind, Epsilon(args.epsilon), size, name)
    except ValueError as error:  # this table is made for each survey
        raise WrongUse(str(error)) from None


def _all(args: Namespace) -> int:
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
    document = {"holds": holds, "pairs": len(certificates), "mechanisms": summary}
    show(args, document, _summary_lines(summary, len(certificates), holds))
    return 0 if holds else 1


def _summary(name: str, certificates: list[Certificate]) -> dict[str, object]:
    own = [c for c in certificates if c.mechanism == name]
    return {
        "mechanism": name,
        "pairs": len(own),
        "holds": all(c.holds for c in own),
        "worst_excess": str(max(0, *(-c.loss for c in own))),
        "worst_loss": f"{max(c.loss for c in own):.2e}",
        "worst_loss_up_to_epsilon_4": f"{max(c.loss for c in own if float(c.epsilon) <= 4):.2e}",
    }


def _summary_lines(summary: list[dict[str, object]], pairs: int, holds: bool) -> Iterator[str]:
    yield f"{'mechanism':<24}{'pairs':>6}  {'worst excess':>12}  {'worst loss':>10}  {'to ε 4':>10}"
    for row in summary:
        yield (
            f"{row['mechanism']:<24}{row['pairs']:>6}  {row['worst_excess']:>12}  "
            f"{row['worst_loss']:>10}  {row['worst_loss_up_to_epsilon_4']:>10}"
        )
    conclusion = "all spend at most their ε" if holds else "NOT all spend at most their ε"
    yield f"{pairs} pairs of ε and size proved by integer arithmetic: {conclusion}."


CERTIFY = Verb(
    "certify",
    "prove every mechanism's ε by exact arithmetic",
    _certify_arguments,
    _certify,
    example="deniable certify --kind bit --epsilon 1 --json",
)
