"""`deniable certify --audit`: measure a lower bound on the ε that real reports reveal."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING

from deniable.shared.cli.verb import Verb, show, with_progress
from deniable.shared.errors import WrongUse

if TYPE_CHECKING:
    from deniable.shared.privacy.verification import Audited

REPORTS = 100_000
REPORTS_PER_TRANSCRIPT = 1_000  # one transcript costs about as much as this many reports
SIZE = 8  # options or steps, where the mechanism allows them
SURVEY = """
[survey]
name = "audit"
title = "An audit"
purpose = "Measure what reports reveal."
owner = "Example"
opens = 2026-01-01
closes = 2026-01-02
round = "day"
{0}
[[question]]
name = "crashed"
kind = "bit"
over = "first"
epsilon = "{1}"
[[question]]
name = "browser"
kind = "choice"
over = "first"
options = ["firefox", "chrome", "other"]
epsilon = "{1}"
"""
TRANSCRIPTS = {
    "transcript, fresh": "",
    "transcript, latched": 'repeat = "latched"\nrepeat_rounds = 2',
}


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--audit",
        action="store_true",
        default=None,
        help="instead of proving ε, measure a lower bound on the ε that real reports reveal",
    )
    parser.add_argument(
        "--trials",
        type=int,
        default=REPORTS,
        metavar="N",
        help=f"for an audit: N reports of each answer, and N / {REPORTS_PER_TRANSCRIPT:,} "
        f"transcripts (default: {REPORTS:,})",
    )


def run(args: Namespace) -> int:
    from deniable.shared.privacy.verification import ERROR

    if args.trials < REPORTS_PER_TRANSCRIPT:
        raise WrongUse(f"--trials: give {REPORTS_PER_TRANSCRIPT:,} or more, got {args.trials}")
    audits = list(with_progress(_audits(args.kind, args.epsilon, args.trials), "audits"))
    holds = all(audited.holds for audited in audits)
    rows = [{**audited._asdict(), "holds": audited.holds} for audited in audits]
    show(args, {"holds": holds, "error": ERROR, "audits": rows}, _lines(audits, holds, ERROR))
    return 0 if holds else 1


def _audits(kind: str | None, epsilon: str, trials: int) -> Iterator[Audited]:
    """Audit every mechanism, or those of a kind, and then everything that a client posts."""
    from deniable.client.testing.transcripts import audit_transcripts
    from deniable.shared.privacy.epsilon import Epsilon
    from deniable.shared.privacy.mechanisms import mechanisms
    from deniable.shared.privacy.verification import audit

    declared = Epsilon(epsilon)
    for mechanism in mechanisms(kind).values():
        size = SIZE if SIZE in mechanism.proved_sizes else mechanism.proved_sizes[0]
        try:
            yield audit(mechanism(declared, size), trials)
        except ValueError as error:  # only some optimal tables are stored as examples
            print(f"{mechanism.name}: {error}", file=sys.stderr)
    for name, repeat in TRANSCRIPTS.items():
        survey = SURVEY.format(repeat, declared).encode()
        yield audit_transcripts(name, survey, trials // REPORTS_PER_TRANSCRIPT)


def _lines(audits: list[Audited], holds: bool, error: float) -> Iterator[str]:
    yield f"{'mechanism':<32}{'ε':>6}  {'at least':>9}  {'trials':>9}"
    for row in audits:
        mark = "" if row.holds else "  MORE THAN ITS ε"
        yield f"{row.mechanism:<32}{row.epsilon:>6}  {row.at_least:>9.4f}  {row.trials:>9,}{mark}"
    verdict = "Every limit is at most its ε." if holds else "NOT every limit is at most its ε."
    yield (
        f"Each lower limit exceeds the truth with probability at most {error:g}; with few "
        f"trials the limits may be low. {verdict}"
    )


AUDIT = Verb(
    "certify",
    "with --audit, measure a lower bound on the ε that reports reveal",
    arguments,
    run,
    group="research",
    example="deniable certify --audit --epsilon 1",
    option="audit",
)
