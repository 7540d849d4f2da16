"""`deniable certify --audit`: what reports give away at least, measured where they leave."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from deniable.shared.cli.verb import Verb
from deniable.shared.errors import WrongUse

if TYPE_CHECKING:
    from deniable.shared.privacy.audit import Audited

REPORTS = 100_000
REPORTS_PER_TRANSCRIPT = 1_000  # what making one takes
SIZE = 8  # options or steps, of what takes so many
SURVEY = """
[survey]
name = "audit"
title = "An audit"
purpose = "See what is given away."
owner = "Nobody"
opens = 2026-01-01
closes = 2026-01-02
round = "day"
{0}
[[question]]
name = "crashed"
kind = "bit"
epsilon = "{1}"
[[question]]
name = "browser"
kind = "choice"
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
        help="measure instead: ε that payloads and whole transcripts give away at least",
    )
    parser.add_argument(
        "--trials",
        type=int,
        default=REPORTS,
        metavar="N",
        help=f"of an audit: reports of either answer, and N / {REPORTS_PER_TRANSCRIPT:,} "
        f"transcripts ({REPORTS:,})",
    )


def run(chosen: Namespace) -> int:
    import json

    from deniable.shared.privacy.audit import ERROR

    if chosen.trials < REPORTS_PER_TRANSCRIPT:
        raise WrongUse(f"--trials is {REPORTS_PER_TRANSCRIPT:,} or more, got {chosen.trials}")
    found = list(_counted(_audits(chosen.kind, chosen.epsilon, chosen.trials)))
    holds = all(each.holds for each in found)
    if chosen.json:
        rows = [{**asdict(each), "holds": each.holds} for each in found]
        print(json.dumps({"holds": holds, "error": ERROR, "audits": rows}))
    else:
        _print(found, holds, ERROR)
    return 0 if holds else 1


def _audits(kind: str | None, epsilon: str, trials: int) -> Iterator[Audited]:
    """Every mechanism, or those of a kind; then what a client posts in all."""
    from deniable.client.testing.transcripts import audit_transcripts
    from deniable.shared.privacy.audit import audit
    from deniable.shared.privacy.epsilon import Epsilon
    from deniable.shared.privacy.mechanisms import mechanisms

    asked = Epsilon(epsilon)
    for each in mechanisms(kind).values():
        size = SIZE if SIZE in each.proved_sizes else each.proved_sizes[0]
        try:
            yield audit(each(asked, size), trials)
        except ValueError as error:  # a table that is made for each survey: only some are kept
            print(f"{each.name}: {error}", file=sys.stderr)
    for what, repeat in TRANSCRIPTS.items():
        survey = SURVEY.format(repeat, asked).encode()
        yield audit_transcripts(what, survey, trials // REPORTS_PER_TRANSCRIPT)


def _counted(audits: Iterator[Audited]) -> Iterator[Audited]:
    """The same, and says how far it is."""
    for number, each in enumerate(audits, 1):
        if sys.stderr.isatty():
            print(f"\r{number} audits", end="", file=sys.stderr)
        yield each
    if sys.stderr.isatty():
        print(file=sys.stderr)


def _print(found: list[Audited], holds: bool, error: float) -> None:
    print(f"{'mechanism':<32}{'ε':>6}  {'at least':>9}  {'trials':>9}")
    for each in found:
        mark = "" if each.holds else "  MORE THAN ITS ε"
        print(
            f"{each.mechanism:<32}{each.epsilon:>6}  {each.at_least:>9.4f}  {each.trials:>9,}{mark}"
        )
    print(
        f"A bound is above the truth with probability {error:g} at the most; few trials give low "
        "ones. " + ("None is above its ε." if holds else "NOT every one is at most its ε.")
    )


AUDIT = Verb(
    "certify",
    "with --audit, measure what reports give away at least",
    arguments,
    run,
    example="deniable certify --audit --epsilon 1",
    option="audit",
)
