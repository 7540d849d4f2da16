"""The verb `odds`: what an ε means for one person, before it is chosen."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace

from deniable.shared.cli.verb import Verb

USUAL = ("0.1", "0.5", "1", "2", "4", "6")
BELIEFS = (1, 10, 50)  # before, in percent


def _arguments(parser: ArgumentParser) -> None:
    parser.description = (
        "Of each ε: how often a yes-or-no report is true, by how much all that is sent at this ε "
        "changes the odds about a person at most, and how sure anyone may become who was so sure "
        "before. Add up what adds up first: the questions of a round, the rounds of a survey."
    )
    parser.add_argument("epsilon", nargs="*", metavar="E", help=f"default {' '.join(USUAL)}")
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")


def _run(arguments: Namespace) -> int:
    rows = [odds(text) for text in arguments.epsilon or USUAL]
    if arguments.json:
        print(json.dumps({"rows": rows}))
        return 0
    print(
        f"{'ε':<6}{'a report is true':<19}{'odds × at most':<17}{'sure before, and at most after'}"
    )
    for row in rows:
        after = "   ".join(f"{belief} % → {row[f'from_{belief}']}" for belief in BELIEFS)
        print(f"{row['epsilon']:<6}{row['true']:<19}{row['factor']:<17}{after}")
    return 0


def odds(text: str) -> dict[str, str]:
    """One row. What anyone may come to believe is rounded up, as the odds are.

    >>> odds("1")["from_10"], odds("2")["factor"]
    ('23.2 %', '7.4')
    """
    from deniable.shared.privacy.epsilon import Epsilon
    from deniable.shared.privacy.mechanisms import RandomizedResponse
    from deniable.shared.privacy.promises import odds_factor, percent

    epsilon = Epsilon(text)
    after = {f"from_{belief}": _after(epsilon.billionths, belief) for belief in BELIEFS}
    true = percent(RandomizedResponse(epsilon).keep)
    return {
        "epsilon": str(epsilon),
        "true": true,
        "factor": odds_factor(epsilon.billionths),
    } | after


def _after(billionths: int, belief: int) -> str:
    """Bayes' rule at the largest ratio that there is: b E / (b E + 1 - b)."""
    from deniable.shared.privacy.epsilon import BILLION
    from deniable.shared.privacy.thresholds import exp_interval

    bits = 128
    more = belief * exp_interval(billionths, BILLION, bits).high
    tenths = -(-1000 * more // (more + (100 - belief << bits)))
    return f"{tenths / 10:g} %" if tenths < 1000 else "over 99.9 %"


ODDS = Verb(
    "odds",
    "what an ε means for one person",
    _arguments,
    _run,
    example="deniable odds 0.5 1 2",
)
