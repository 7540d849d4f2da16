"""`deniable odds`: the meaning of an ε for one person."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator

from deniable.shared.cli.verb import Verb, add_json, show

DEFAULT_EPSILONS = ("0.1", "0.5", "1", "2", "4", "6")
BELIEFS_PERCENT = (1, 10, 50)  # beliefs before the report


def _arguments(parser: ArgumentParser) -> None:
    parser.description = (
        "For each ε: how often a yes-or-no report is true, the largest factor by which the reports "
        "can change the odds about a person, and the most that a belief about the person can grow. "
        "Use the total ε: add up the questions of a round, and the rounds of a survey."
    )
    parser.add_argument(
        "epsilon", nargs="*", metavar="E", help=f"default {' '.join(DEFAULT_EPSILONS)}"
    )
    add_json(parser)


def _run(args: Namespace) -> int:
    rows = [odds(text) for text in args.epsilon or DEFAULT_EPSILONS]
    return show(args, {"rows": rows}, _lines(rows))


def _lines(rows: list[dict[str, str]]) -> Iterator[str]:
    yield f"{'ε':<6}{'a report is true':<19}{'odds × at most':<17}{'belief before → at most after'}"
    for row in rows:
        after = "   ".join(f"{belief} % → {row[f'from_{belief}']}" for belief in BELIEFS_PERCENT)
        yield f"{row['epsilon']:<6}{row['true']:<19}{row['factor']:<17}{after}"


def odds(text: str) -> dict[str, str]:
    """Return the row for one ε. Beliefs and odds are rounded up.

    >>> odds("1")["from_10"], odds("2")["factor"]
    ('23.2 %', '7.4')
    """
    from deniable.shared.privacy.epsilon import Epsilon, odds_factor, percent
    from deniable.shared.privacy.mechanisms import RandomizedResponse

    epsilon = Epsilon(text)
    after = {f"from_{belief}": _after(epsilon.billionths, belief) for belief in BELIEFS_PERCENT}
    true = percent(RandomizedResponse(epsilon).keep)
    return {
        "epsilon": str(epsilon),
        "true": true,
        "factor": odds_factor(epsilon.billionths),
    } | after


def _after(billionths: int, belief: int) -> str:
    from deniable.shared.privacy.epsilon import largest_belief

    tenths = largest_belief(billionths, belief, 1000)
    return f"{tenths / 10:g} %" if tenths < 1000 else "over 99.9 %"


ODDS = Verb(
    "odds",
    "explain an ε: what it means for one person",
    _arguments,
    _run,
    group="ask",
    example="deniable odds 0.5 1 2",
)
