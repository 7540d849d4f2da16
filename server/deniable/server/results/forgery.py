"""Rounds whose counts honest reports cannot give: how many are forged at least, and what it can do.

What forged reports inside of the possible region do is bounded by their leverage only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deniable.server.estimation.forgery_test import Fit as Found
from deniable.server.estimation.forgery_test import fits
from deniable.server.results.counts import alike, counts_of, stacked
from deniable.server.results.display import STYLES
from deniable.server.results.document import Fit
from deniable.server.store import RoundTally
from deniable.shared.survey.document import Survey
from deniable.shared.survey.kinds.base import Question

NO_REPORT = Fit(p_value=1.0, forged=0, shift=0.0, sentence="No report has come.")


def round_fits(survey: Survey, tallies: Sequence[RoundTally | None]) -> list[dict[str, Fit]]:
    """By question, for each of these rounds; without reports everything fits."""
    by_question = {
        question.name: _question_fits(survey, question, tallies) for question in survey.questions
    }
    return [
        dict(zip(by_question, fits, strict=True))
        for fits in zip(*by_question.values(), strict=True)
    ]


def _question_fits(
    survey: Survey, question: Question, tallies: Sequence[RoundTally | None]
) -> list[Fit]:
    found = [NO_REPORT] * len(tallies)
    counts = [counts_of(survey, question, tally, looks=False) for tally in tallies]
    kept = [place for place, tally in enumerate(tallies) if tally]
    for places in alike(kept, lambda _: False, question.mechanism.cells):
        cells, reports = stacked([counts[place] for place in places])
        some = fits(question.mechanism, cells, reports, len(survey.questions))
        for place, each in zip(places, some, strict=True):
            found[place] = _fit(question, counts[place].reports, each)
    return found


def _fit(question: Question, reports: int, found: Found) -> Fit:
    share = found.forged / reports if found.forged else 0.0
    shift = share * question.mechanism.leverage * question.span
    words = _sentence(question, reports, found.p_value, found.forged, shift)
    return Fit(p_value=found.p_value, forged=found.forged, shift=shift, sentence=words)


def warning(survey: Survey, tally: RoundTally | None, fits: Mapping[str, Fit]) -> str | None:
    """What to say before any figure of the round; None where honest reports can give it."""
    parts = [
        _part(question, tally.of(survey, question)[0], fits[question.name])
        for question in survey.questions
        if tally is not None and fits[question.name].forged
    ]
    if not parts:
        return None
    return (
        f"forged reports are in this round, do not rely on its figures: {'; '.join(parts)}. "
        "There may be more, which look like honest ones"
    )


def _sentence(question: Question, reports: int, p_value: float, forged: int, shift: float) -> str:
    """The verdict with its p-value."""
    if not forged:
        return (
            f"Honest reports can give these counts (p {_probability(p_value)}); forged ones that "
            "look like them are not noticed."
        )
    return (
        f"Honest reports give counts so far outside with probability {_probability(p_value)}: "
        f"at least {forged:,} of {reports:,} are forged, and those alone can shift an estimate by "
        f"up to {_shift(question, shift)}."
    )


def _probability(p_value: float) -> str:
    """A bound; 1 where nothing lies outside."""
    return "1" if p_value >= 1 else f"below {p_value:.1g}"


def _shift(question: Question, shift: float) -> str:
    style = STYLES[question.statistic]
    unit = f" {question.unit}" if question.unit else style.points
    return f"{style.factor * shift:,.3g}{unit}"


def _part(question: Question, reports: int, found: Fit) -> str:
    return (
        f"{question.name}: at least {found.forged:,} of {reports:,} reports cannot be "
        f"honest, and alone can shift an estimate by up to {_shift(question, found.shift)}"
    )
