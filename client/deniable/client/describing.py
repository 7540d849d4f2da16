"""What a person is told before consent: what is asked, why, by whom, and what it gives away.

A survey's author writes part of it. Signed or not, that is shown escaped, each piece on one line.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from deniable.client.escaping import escaped
from deniable.client.policy import Policy
from deniable.shared.privacy.epsilon import decimal_text

if TYPE_CHECKING:
    from deniable.shared.survey.document import Survey

MOST_TEXT = 2_000  # characters; a document may have no more


@dataclass(frozen=True)
class DescribedQuestion:
    name: str
    asked: str  # what may be answered, in a few words
    epsilon: str
    odds: str  # how far one answer to it can change what anyone believes


@dataclass(frozen=True)
class Description:
    """Every text is fit for a dialog as it stands; `text` is all of it, a line each."""

    survey: str  # its id
    name: str
    title: str
    purpose: str
    owner: str
    opens: date
    closes: date
    rounds: int
    repeat_rounds: int  # so many rounds share one report; 1: each has its own
    questions: tuple[DescribedQuestion, ...]
    epsilon_per_round: str
    epsilon: str  # of all rounds
    when: str
    gives_away: str
    caps: str  # how much of the app's own limits it uses

    @property
    def text(self) -> str:
        """All of it for a dialog, in lines."""
        return "\n".join(
            [
                self.title,
                f"Why: {self.purpose}",
                f"Asked by: {self.owner}",
                f"{self.when[:1].upper()}{self.when[1:]}.",
                *(f"  {each.name}: {each.asked}; {each.odds}" for each in self.questions),
                "Each answer is randomized on this device before anything is written or sent.",
                self.gives_away,
                self.caps,
            ]
        )


def describe(id_: str, survey: Survey, policy: Policy) -> Description:
    from deniable.shared.survey.phrases import asked_when, gives_away, repeated

    return Description(
        survey=id_,
        name=survey.name,
        title=_shown(survey.title),
        purpose=_shown(survey.purpose),
        owner=_shown(survey.owner),
        opens=survey.opens,
        closes=survey.closes,
        rounds=survey.rounds,
        repeat_rounds=survey.repeat_rounds,
        questions=_questions(survey),
        epsilon_per_round=survey.round_epsilon,
        epsilon=survey.lifetime_epsilon,
        when=asked_when(survey),
        gives_away=" ".join((*gives_away(survey), *repeated(survey))),
        caps=_caps(survey, policy),
    )


def _questions(survey: Survey) -> tuple[DescribedQuestion, ...]:
    from deniable.shared.privacy.promises import odds_change

    return tuple(
        DescribedQuestion(
            _shown(each.name),
            _shown(each.asked),
            str(each.epsilon),
            f"one answer changes the odds {odds_change(each.epsilon.billionths)}",
        )
        for each in survey.questions
    )


def _caps(survey: Survey, policy: Policy) -> str:
    """All rounds, or those after which the app's own limit ends it."""
    asked, most = survey.round_billionths, policy.total_cap
    if asked > policy.round_cap:
        return (
            f"It asks for ε {decimal_text(asked)} in one round, and this app allows "
            f"{decimal_text(policy.round_cap)}: it is not answered."
        )
    draws = min(survey.draws, most // asked)
    rounds = min(survey.rounds, draws * survey.repeat_rounds)
    until = "" if rounds == survey.rounds else f", and then this app answers no more: {rounds} of"
    until = until and f"{until} {survey.rounds} rounds"
    one = f"{survey.repeat_rounds} rounds together use" if survey.repeats else "One round uses"
    return (
        f"{one} ε {decimal_text(asked)} of the {decimal_text(most)} that this app ever "
        f"spends, all of it at most ε {decimal_text(asked * draws)}{until}."
    )


def _shown(text: str) -> str:
    return escaped(text, MOST_TEXT)
