"""`deniable certify`: prove the ε of every mechanism, or print the integers of one mechanism."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING

from deniable.shared.cli.verb import Verb, add_json, show, with_progress
from deniable.shared.errors import WrongUse
from deniable.shared.survey.kinds import KINDS

if TYPE_CHECKING:
    from deniable.shared.privacy.mechanism import Mechanism
    from deniable.shared.privacy.verification import Certificate

TIMED = 200  # reports that are made to find the shortest time


def _certify_arguments(parser: ArgumentParser) -> None:
    parser.description = (
        "Without --kind: prove every mechanism over a grid of ε and sizes. With --kind: print the "
        "integers of one mechanism, so that you can check them independently. With --mechanism "
        "package.module:Class: prove, check and audit a class of your own."
    )
    parser.add_argument("--kind", choices=tuple(KINDS), help="kind of the question")
    parser.add_argument(
        "--mechanism",
        metavar="NAME",
        help="default: the usual mechanism; or package.module:Class for your own",
    )
    parser.add_argument("--epsilon", metavar="E", default="1", help="decimal text, 0 < E <= 20")
    for option in _size_options():
        parser.add_argument(
            f"--{option}", metavar=option[0].upper(), type=int, help="size of the mechanism"
        )
    for end, default in (("low", 0.0), ("high", 1.0)):
        effect = f"{end} end of a number's range; does not change the integers"
        parser.add_argument(f"--{end}", type=float, default=default, help=effect)
    add_json(parser)


def _size_options() -> list[str]:
    return list(dict.fromkeys(kind.size_option for kind in KINDS.values() if kind.size_option))


def _certify(args: Namespace) -> int:
    if args.mechanism is not None and ":" in args.mechanism:
        return _checked(args)
    return _one(args) if args.kind else _all(args)


def _checked(args: Namespace) -> int:
    from deniable.shared.errors import InvalidMechanism
    from deniable.shared.mechanisms import check_mechanism, load_mechanism

    subject = load_mechanism(args.mechanism)
    try:
        checks, problem = check_mechanism(subject), None
    except InvalidMechanism as error:
        checks, problem = [], str(error)
    document = {"mechanism": args.mechanism, "holds": not problem, "checks": checks}
    show(args, {**document, "problem": problem}, [*checks, problem or "Every check passed."])
    return 1 if problem else 0


def _one(args: Namespace) -> int:
    from deniable.shared.privacy.verification import certify, table

    mechanism = _named(args)
    certificate = certify(mechanism)
    claim = f"{mechanism.name}, ε {mechanism.epsilon}: realised ε {certificate.realised}"
    lines = [claim, _cost(mechanism), "--json prints the integers."]
    show(args, table(mechanism) if args.json else None, lines)
    return 0 if certificate.holds else 1


def _cost(mechanism: Mechanism) -> str:
    """Return the size of a report, and the shortest time to make one on this machine."""
    from timeit import repeat

    from deniable.shared.privacy.mechanism import kernel_draw

    answer = mechanism.answer_at(mechanism.answers // 2)
    best = min(repeat(lambda: mechanism.randomize(answer, kernel_draw), number=1, repeat=TIMED))
    size = mechanism.payload_size
    return f"A report has {size} byte{'s'[: size > 1]}; making one takes {best * 1e6:.3g} µs here."


def _named(args: Namespace) -> Mechanism:
    """Return the mechanism that a question with these options would have."""
    from deniable.shared.privacy.epsilon import Epsilon
    from deniable.shared.privacy.mechanisms import mechanism, mechanisms, sizes

    kind, name = KINDS[args.kind].mechanism_kind, args.mechanism
    if name is not None and name not in mechanisms(kind):
        known = ", ".join(mechanisms(kind))
        raise WrongUse(f"--mechanism for a {args.kind} must be one of {known}; got {name}")
    if not args.low < args.high:
        raise WrongUse(f"--high must be above --low, got {args.low} and {args.high}")
    given = [getattr(args, option) for option in _size_options()]
    size = next((size for size in given if size is not None), None)
    least, most = sizes(kind, name)
    if size is not None and not least <= size <= most:
        option = KINDS[args.kind].size_option or "options"
        raise WrongUse(f"--{option} of a {name or args.kind} must be {least} to {most}, got {size}")
    try:
        return mechanism(kind, Epsilon(args.epsilon), size, name)
    except ValueError as error:  # no example of an optimal table is stored
        raise WrongUse(str(error)) from None


def _all(args: Namespace) -> int:
    from deniable.shared.privacy.verification import certify, grid

    proofs = with_progress(grid(), "proofs")
    certificates = [certify(mechanism) for mechanism in proofs]
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
    group="research",
    example="deniable certify --kind bit --epsilon 1 --json",
)
