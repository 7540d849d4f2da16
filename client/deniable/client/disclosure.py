"""Texts for people: a survey before consent, the reports of this device, and the ε spent.

Part of the text comes from a survey's author. Even if it is signed, each piece is escaped and put
on one line.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any

from deniable.client.diagnostics import escaped
from deniable.client.policy import Policy
from deniable.client.state import outbox
from deniable.client.state.database import State
from deniable.client.state.ledger import Consent, Identity, Ledger, count_others, read_ledger
from deniable.client.state.outbox import HistoryEntry, history_of
from deniable.shared.privacy.epsilon import decimal_text

if TYPE_CHECKING:
    from deniable.shared.survey.document import Survey

MAX_TEXT_CHARACTERS = 2_000  # maximum length of text from a document


# A survey, before consent


@dataclass(frozen=True)
class DescribedQuestion:
    name: str
    asked: str  # short description of the possible answers
    epsilon: str
    odds: str  # how far its reports can change anyone's belief


@dataclass(frozen=True)
class Description:
    """A survey as text. Each field can be shown in a dialog; `text` is all of them, in lines."""

    survey: str  # the survey's id
    name: str
    title: str
    purpose: str
    owner: str
    opens: date
    closes: date
    rounds: int
    repeat_rounds: int  # the number of rounds that share one report; 1: each has its own
    questions: tuple[DescribedQuestion, ...]
    epsilon_per_round: str
    epsilon: str  # ε of all rounds
    when: str
    gives_away: str
    caps: str  # the part of the app's own limit that the survey uses

    @property
    def text(self) -> str:
        """Complete description for a dialog, in lines."""
        return "\n".join(
            [
                self.title,
                f"Why: {self.purpose}",
                f"Asked by: {self.owner}",
                f"{self.when[:1].upper()}{self.when[1:]}.",
                *(f"  {q.name}: {q.asked}; {q.odds}" for q in self.questions),
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
        questions=_questions(survey, policy),
        epsilon_per_round=survey.round_epsilon,
        epsilon=survey.lifetime_epsilon,
        when=asked_when(survey),
        gives_away=" ".join((*gives_away(survey), *repeated(survey))),
        caps=_caps(survey, policy),
    )


def _questions(survey: Survey, policy: Policy) -> tuple[DescribedQuestion, ...]:
    reports = _reports(survey, policy)
    return tuple(
        DescribedQuestion(
            _shown(question.name),
            _shown(question.asked),
            str(question.epsilon),
            f"no one can be sure of your answer: {_growth(question.epsilon.billionths, reports)}",
        )
        for question in survey.questions
    )


def _growth(billionths: int, reports: int) -> str:
    """Return how far one report, and all reports together, can raise a suspicion."""
    from deniable.shared.privacy.epsilon import suspicion_growth

    one = suspicion_growth(billionths)
    if reports <= 1:
        return one
    return f"after one report, {one}; after {reports}, {suspicion_growth(reports * billionths)}"


def _reports(survey: Survey, policy: Policy) -> int:
    """Return the number of reports, each with noise of its own, that the app's limit allows."""
    return min(survey.draws, policy.total_cap // survey.round_billionths)


def _caps(survey: Survey, policy: Policy) -> str:
    """Describe the budget of all rounds, or of those that the app's own limit allows."""
    asked, limit = survey.round_billionths, policy.total_cap
    if asked > policy.round_cap:
        return (
            f"This survey asks for {decimal_text(asked)} privacy units (ε) in one round. This app "
            f"allows only {decimal_text(policy.round_cap)}, so it will not answer."
        )
    draws = _reports(survey, policy)
    rounds = min(survey.rounds, draws * survey.repeat_rounds)
    used, whole = decimal_text(asked * draws), decimal_text(limit)
    first = f"This survey uses {used} of the {whole} privacy units (ε) this app will ever use"
    if survey.rounds > 1:
        span = f"every {survey.repeat_rounds} rounds" if survey.repeats else "each round"
        first += f", {decimal_text(asked)} in {span}"
    if rounds < survey.rounds:
        first += f"; after {rounds} of its {survey.rounds} rounds the app stops answering"
    return f"{first}."


def _shown(text: str) -> str:
    return escaped(text, MAX_TEXT_CHARACTERS)


# The budget


@dataclass(frozen=True)
class QuestionBudget:
    name: str
    spent: str
    left: str  # never more than the total that is left


@dataclass(frozen=True)
class Budget:
    """The ε spent and left, as exact decimal text."""

    spent: str
    left: str
    questions: tuple[QuestionBudget, ...] = ()

    @property
    def text(self) -> str:
        """Budget for a screen, in lines."""
        lines = [f"Spent: ε {self.spent} over all surveys and rounds; left: ε {self.left}."]
        questions = (f"    {q.name}: ε {q.spent} spent, ε {q.left} left" for q in self.questions)
        return "\n".join([*lines, *questions])


def budget(ledger: Ledger, policy: Policy) -> Budget:
    """Return the budget under this policy. If an earlier policy allowed more, nothing is left."""
    left, cap = max(0, policy.total_cap - ledger.total), policy.question_cap
    questions = []
    for name in sorted({*ledger.questions, *(policy.questions or ())}):
        spent = ledger.questions.get(name, 0)
        rest = left if cap is None else min(left, max(0, cap - spent))
        questions.append(QuestionBudget(escaped(name), decimal_text(spent), decimal_text(rest)))
    return Budget(decimal_text(ledger.total), decimal_text(left), tuple(questions))


# The reports of this device

DELIVERIES = {
    "waiting": "waiting to be sent",
    "accepted": "sent and accepted by the server",
    "relayed": "sent to the relay, which forwards it together with other reports",
    "refused": "sent and refused by the server",
    "given-up": "not sent",
    "dropped": "not sent",
    "withdrawn": "deleted before it was sent, because consent was withdrawn",
}


@dataclass(frozen=True)
class Summary:
    """A person's reports and ledger. `entries` are unescaped; `text` is escaped for a screen."""

    consent: bool = False
    entries: tuple[HistoryEntry, ...] = ()
    ledger: Ledger = field(default_factory=Ledger)
    dropped: int = 0
    others: int = 0  # people other than the install's own

    @property
    def text(self) -> str:
        """Summary for a screen, in lines: the output of `deniable sent`."""
        return "\n".join(_summary_lines(self))

    def as_json(self) -> dict[str, Any]:  # Any: a JSON document
        """Return the summary as `deniable sent --json` prints it."""
        spent = sorted(self.ledger.questions.items())
        return {
            "consent": self.consent,
            "reports": [_entry_json(entry) for entry in self.entries],
            "dropped": self.dropped,
            "spent": {
                "epsilon": decimal_text(self.ledger.total),
                "questions": {name: decimal_text(cost) for name, cost in spent},
            },
        }


def read_summary(folder: str | os.PathLike[str], person: str | None = None) -> Summary:
    return summary(State(folder), Identity(person))


def summary(state: State, identity: Identity) -> Summary:
    if not state.begun:
        return Summary()
    with state.transaction(durable=False) as db:
        given, person = Consent(identity).obstacle(db) is None, identity.person(db)
        ledger, lost = read_ledger(db, person), outbox.dropped(db, person)
        others = count_others(db) if identity == Identity(None) else 0
        return Summary(given, tuple(history_of(db, person)), ledger, lost, others)


def _entry_json(entry: HistoryEntry) -> dict[str, Any]:  # Any: a JSON document
    return {
        "survey": entry.survey,
        "name": entry.name,
        "round": entry.round,
        "day": entry.day,
        "said": [asdict(symbol) for symbol in entry.symbols],
        "verdict": entry.delivery,
        "detail": entry.detail,
    }


def _summary_lines(summary: Summary) -> Iterator[str]:
    yield f"Consent: {'given' if summary.consent else 'not given; nothing is stored or sent'}."
    if not summary.entries:
        yield "There are no reports: none was made, or the history was erased."
    for entry in summary.entries:
        yield from _entry_lines(entry)
    if summary.dropped:
        yield f"\n{summary.dropped} reports were dropped because too many were waiting."
    if summary.others:
        yield f"\nNot shown: {summary.others} other people. Choose one with --person ID."
    if summary.ledger.questions:
        yield from _spent_lines(summary.ledger)


def _entry_lines(entry: HistoryEntry) -> Iterator[str]:
    delivery = DELIVERIES.get(entry.delivery) or escaped(entry.delivery)
    reason = f" ({escaped(entry.detail)})" if entry.detail else ""
    yield f"\n{escaped(entry.day)}  {escaped(entry.name)}, round {entry.round}: {delivery}{reason}"
    repeats = next((symbol.repeats for symbol in entry.symbols), None)
    if repeats is not None:
        yield f"    the same report as in round {repeats}, at no further ε:"
    for symbol in entry.symbols:
        several = symbol.drawn_from > 1
        drawn = f" (drawn from {symbol.drawn_from} questions)" if several else ""
        line = f"{symbol.question}{drawn}: {symbol.says}; {symbol.odds} (ε {symbol.epsilon})"
        yield escaped(f"    {line}", 1000)


def _spent_lines(ledger: Ledger) -> Iterator[str]:
    yield f"\nSpent so far: ε {decimal_text(ledger.total)} over all surveys and rounds."
    for name, cost in sorted(ledger.questions.items()):
        yield f"    {escaped(name)}: ε {decimal_text(cost)}"
    if sum(ledger.questions.values()) > ledger.total:
        yield "    (if a survey asks one random question, each is charged, but the total only once)"
