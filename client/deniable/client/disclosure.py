"""Texts for people: a survey before consent, the reports of this device, and the ε spent.

Part of the text comes from a survey's author. Even if it is signed, each piece is escaped and put
on one line.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any, NamedTuple

from deniable.client.diagnostics import escaped
from deniable.client.policy import Policy
from deniable.client.state import outbox
from deniable.client.state.drafts import pack_envelope
from deniable.client.state.ledger import Consent, Identity, Ledger, count_others, read_ledger
from deniable.client.state.outbox import HistoryEntry, ReportedSymbol, history_of
from deniable.client.state.store import State, open_state
from deniable.shared.privacy.epsilon import decimal_text
from deniable.shared.survey.document import quarter_of
from deniable.shared.survey.participation import LIFETIME, answered_per_block, next_quarter

if TYPE_CHECKING:
    from deniable.client.net.surveys import Found
    from deniable.shared.privacy.mechanism import Draw
    from deniable.shared.survey.document import Report, Survey
    from deniable.shared.survey.kinds.base import Question
    from deniable.shared.survey.phrases import QuestionText, Texts

MAX_TEXT_CHARACTERS = 2_000  # maximum length of text from a document


# A survey, before consent


class DescribedQuestion(NamedTuple):
    name: str
    title: str
    options: tuple[str, ...]  # their labels; empty where there are none
    unit: str
    asked: str  # the possible answers
    epsilon: str
    odds: str  # how far its reports can raise a suspicion


@dataclass(frozen=True)
class Description:
    """A survey as text. Each field can be shown in a dialog; `text` is all of them, in lines."""

    survey: str  # the survey's id
    name: str
    language: str  # tag of the survey's own texts; empty if the survey names no languages
    title: str
    purpose: str
    owner: str
    opens: date
    closes: date
    rounds: int
    repeat_rounds: int  # the number of rounds that share one report; 1: each has its own
    asks_one: bool  # each install is asked one of the questions, drawn at random
    questions: tuple[DescribedQuestion, ...]
    epsilon_per_round: str
    epsilon: str  # ε of all rounds
    when: str
    privacy: tuple[str, ...]  # what the reports reveal, and what is sent in clear
    kept: str  # until when the server keeps reports
    stop: tuple[str, ...]  # how to stop, and what stays
    caps: str  # the part of the app's own limit that the survey uses
    text: str = field(repr=False)  # complete description for a dialog, in lines


def describe(
    id_: str, survey: Survey, policy: Policy, texts: Texts | None = None, language: str = ""
) -> Description:
    """Describe a survey in English, or with the sentences of another table.

    `language` chooses the survey's own texts.
    """
    from deniable.shared.survey.phrases import ENGLISH, explain_survey

    survey, texts = survey.in_language(language), {**ENGLISH, **(texts or {})}
    told = explain_survey(survey, texts, _reports(survey, policy), _shown)
    title, purpose, owner = map(_shown, (survey.title, survey.purpose, survey.owner))
    caps = _caps(survey, policy, texts)
    lines = (
        title,
        texts["why"].format(purpose=purpose),
        texts["owner"].format(owner=owner),
        told.when,
        told.intro,
        *(line for question in told.questions for line in question.lines),
        *told.privacy,
        caps,
        told.kept,
        *told.stop,
    )
    return Description(
        survey=id_,
        name=survey.name,
        language=survey.language,
        title=title,
        purpose=purpose,
        owner=owner,
        opens=survey.opens,
        closes=survey.closes,
        rounds=survey.rounds,
        repeat_rounds=survey.repeat_rounds,
        asks_one=survey.asks_one,
        questions=tuple(map(_question, survey.questions, told.questions)),
        epsilon_per_round=survey.round_epsilon,
        epsilon=survey.lifetime_epsilon,
        when=told.when,
        privacy=told.privacy,
        kept=told.kept,
        stop=told.stop,
        caps=caps,
        text="\n".join(lines),
    )


def _question(question: Question, told: QuestionText) -> DescribedQuestion:
    options = question.called if "options" in question.fields() else ()
    return DescribedQuestion(
        name=_shown(question.name),
        title=_shown(question.title),
        options=tuple(map(_shown, options)),
        unit=_shown(question.unit),
        asked=told.asked,
        epsilon=str(question.epsilon),
        odds=told.odds,
    )


def _reports(survey: Survey, policy: Policy) -> int:
    """Return the number of reports with fresh noise that the app's limits allow."""
    if policy.renews:
        return max(1, sum(answered_per_block(survey, policy.budget_of(survey))))
    cap = min(policy.total_cap, policy.survey_cap)
    return min(survey.draws, cap // survey.round_billionths)


def _caps(survey: Survey, policy: Policy, texts: Texts) -> str:
    """Describe the budget of the rounds that the app's own limits allow."""
    asked, limit = survey.round_billionths, policy.total_cap
    if policy.excess(survey):
        cap = decimal_text(min(policy.round_cap, policy.survey_cap))
        return texts["caps_refused"].format(asked=decimal_text(asked), limit=cap)
    if policy.renews:
        return _renewed_caps(survey, policy, texts)
    draws = _reports(survey, policy)
    answered = min(survey.rounds, draws * survey.repeat_rounds)
    span = texts["each_span" if survey.repeats else "each_round"]
    caps = texts["caps" if survey.rounds == 1 else "caps_of_rounds"].format(
        used=decimal_text(asked * draws),
        limit=decimal_text(limit),
        each=decimal_text(asked),
        span=span.format(rounds=survey.repeat_rounds),
    )
    if answered == survey.rounds:
        return caps
    return f"{caps} {texts['caps_end'].format(answered=answered, rounds=survey.rounds)}"


def _renewed_caps(survey: Survey, policy: Policy, texts: Texts) -> str:
    most = max(answered_per_block(survey, policy.budget_of(survey)))
    used, limit = most * survey.round_billionths, policy.total_cap
    caps = texts["caps_renewed"].format(used=decimal_text(used), limit=decimal_text(limit))
    blocks = answered_per_block(survey, survey.lifetime_billionths)  # every round is answered
    if sum(blocks) == _reports(survey, policy):
        return caps
    return f"{caps} {texts['caps_drawn'].format(answered=most)}"


def _shown(text: str) -> str:
    return escaped(text, MAX_TEXT_CHARACTERS)


# A question on a terminal, and an example of a report


def is_terminal() -> bool:
    """Return whether a person can read a question and type an answer."""
    try:
        return sys.stdin.isatty() and sys.stderr.isatty()
    except (AttributeError, ValueError):  # there is none, or it is closed
        return False


def ask_on_terminal(description: Description, texts: Texts) -> bool | None:
    """Show a description and ask for consent; None at an end of input."""
    from deniable.shared.survey.phrases import ENGLISH

    texts = {**ENGLISH, **texts}
    print(f"{description.text}\n\n{texts['ask']}", end="", file=sys.stderr, flush=True)
    typed, agreed = sys.stdin.readline(), texts["value_yes"]
    return typed.strip().lower() in (agreed, agreed[:1]) if typed else None


def example_text(id_: str, survey: Survey, today: date, draw: Draw) -> str:
    """Return the fields of a report with their sizes, and a report of fixed example answers."""
    from deniable.shared.envelope import MAGIC, Envelope, encode_report

    answers = {question.name: question.example for question in survey.questions}
    report = survey.report(answers, draw)
    labels, round_ = survey.example_labels, survey.round_of(today)
    payload = encode_report(survey, report.symbols, labels)
    envelope = Envelope(id_, round_, os.urandom(16), 1, payload)
    packed = pack_envelope(survey, envelope)
    shown = ", ".join(f"{q.name}={q.shown_example}" for q in survey.questions)
    fields = [
        (4, f"format: {MAGIC.decode()}"),
        (32, f"survey: {id_}"),
        (4, f"round: {round_}"),
        (16, f"random id of the envelope: {envelope.id.hex()}"),
        (4, "number of reports: 1"),
        (4, f"length of the report: {len(payload)}"),
        *((label.size, f"{label.name}, in clear") for label in survey.labels),
        *_example_fields(survey, report, len(payload) - survey.labels_size),
    ]
    sealed = ", sealed: only the holder of the survey's key can read its fields"
    sealed = sealed if survey.sealed_to else ""
    return "\n".join(
        [
            f"DENIABLE_SHOW: one report is {len(packed)} bytes{sealed}.",
            *(f"{size:5}  {escaped(text, MAX_TEXT_CHARACTERS)}" for size, text in fields),
            escaped(f"This is a report of example answers: {shown}", MAX_TEXT_CHARACTERS),
            "Your answers were not used. Nothing is charged, stored or sent.",
        ]
    )


def _example_fields(survey: Survey, report: Report, size: int) -> list[tuple[int, str]]:
    symbols = zip(survey.questions, report.symbols, strict=True)
    drawn = [(q, symbol) for q, symbol in symbols if symbol is not None]
    if survey.asks_one:
        ((question, symbol),) = drawn
        text = f"{question.name}: {question.describe(symbol)}, padded to the size of every question"
        return [(1, "number of the question"), (size - 1, text)]
    return [(q.mechanism.payload_size, f"{q.name}: {q.describe(symbol)}") for q, symbol in drawn]


# The budget


class QuestionBudget(NamedTuple):
    name: str
    spent: str
    left: str  # never more than the total that is left


class SurveyBudget(NamedTuple):
    """Budget of a survey that is open, and the first day on which an answer can be charged."""

    name: str
    spent: str
    left: str  # never more than the total that is left
    next_answer: date | None  # None: this survey is not answered again


@dataclass(frozen=True)
class Budget:
    """The ε spent since the budget was last renewed, and the ε left, as exact decimal text."""

    spent: str
    left: str
    questions: tuple[QuestionBudget, ...] = ()
    surveys: tuple[SurveyBudget, ...] = ()
    cap: str = ""
    renews: date | None = None  # None if it never renews

    @property
    def text(self) -> str:
        """Budget for a screen, in lines."""
        over, renewed = "over all surveys and rounds", ""
        if self.renews:
            over = f"of at most {self.cap} in this quarter"
            renewed = f" The budget renews on {self.renews}."
        lines = [f"Spent: ε {self.spent} {over}; left: ε {self.left}.{renewed}"]
        questions = (f"    {q.name}: ε {q.spent} spent, ε {q.left} left" for q in self.questions)
        surveys = (
            f"    survey {s.name}: ε {s.spent} spent, ε {s.left} left; "
            + (f"next answer from {s.next_answer}" if s.next_answer else "no further answer")
            for s in self.surveys
        )
        return "\n".join([*lines, *questions, *surveys])


def budget(
    ledger: Ledger, policy: Policy, today: date, plans: Sequence[tuple[Found, date | None]] = ()
) -> Budget:
    """Return the budget under this policy. If an earlier policy allowed more, nothing is left.

    `plans` are the open surveys, each with the first day on which an answer can be charged.
    """
    spent = ledger.spent(quarter_of(today) if policy.renews else LIFETIME)
    left = max(0, policy.total_cap - spent.total)

    def rest(used: int, cap: int | None) -> tuple[str, str]:
        room = left if cap is None else min(left, max(0, cap - used))
        return decimal_text(used), decimal_text(room)

    surveys = []
    for listed, day in plans:
        used = spent.surveys.get((listed.survey.name, listed.key), 0)
        name = _shown(listed.survey.name)
        surveys.append(SurveyBudget(name, *rest(used, policy.survey_cap), day))
    questions = [
        QuestionBudget(escaped(name), *rest(spent.questions.get(name, 0), policy.question_cap))
        for name in sorted({*spent.questions, *(policy.questions or ())})
    ]
    return Budget(
        decimal_text(spent.total),
        decimal_text(left),
        tuple(questions),
        tuple(surveys),
        decimal_text(policy.total_cap),
        next_quarter(today) if policy.renews else None,
    )


# The reports of this device


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
        return self.text_in({})

    def text_in(self, texts: Texts) -> str:
        """Return `text` with the sentences of another table; a key that it lacks stays English."""
        from deniable.shared.survey.phrases import ENGLISH

        return "\n".join(_summary_lines(self, {**ENGLISH, **texts}))

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
    return summary(open_state(folder), Identity(person))


def summary(state: State, identity: Identity) -> Summary:
    if not state.begun:
        return Summary()
    with state.read() as db:
        consent, person = Consent(identity, state.consents.allow_ci), identity.person(db)
        given = consent.obstacle(db) is None
        ledger, lost = read_ledger(db, person), outbox.dropped(db, person)
        others = count_others(db) if identity == Identity(None) else 0
        return Summary(given, tuple(history_of(db, person)), ledger, lost, others)


def _entry_json(entry: HistoryEntry) -> dict[str, Any]:  # Any: a JSON document
    fields = entry._asdict()
    symbols = [symbol._asdict() for symbol in fields.pop("symbols")]
    return fields | {"said": symbols, "verdict": fields.pop("delivery")}


def _summary_lines(summary: Summary, texts: Texts) -> Iterator[str]:
    yield texts["consent_given" if summary.consent else "consent_missing"]
    if not summary.entries:
        yield texts["no_reports"]
    for entry in summary.entries:
        yield from _entry_lines(entry, texts)
    if summary.dropped:
        yield "\n" + texts["dropped"].format(reports=summary.dropped)
    if summary.others:
        yield "\n" + texts["others"].format(people=summary.others)
    if summary.ledger.questions:
        yield from _spent_lines(summary.ledger, texts)


def _entry_lines(entry: HistoryEntry, texts: Texts) -> Iterator[str]:
    delivery = texts.get(f"delivery_{entry.delivery}") or escaped(entry.delivery)
    reason = f" ({escaped(entry.detail)})" if entry.detail else ""
    day, name = escaped(entry.day), escaped(entry.name)
    line = texts["report"].format(day=day, name=name, round=entry.round, delivery=delivery)
    yield f"\n{line}{reason}"
    repeats = next((symbol.repeats for symbol in entry.symbols), None)
    if repeats is not None:
        yield "    " + texts["same_report"].format(round=repeats)
    for symbol in entry.symbols:
        yield escaped(f"    {_symbol_line(symbol, texts)}", 1000)


def _symbol_line(symbol: ReportedSymbol, texts: Texts) -> str:
    from deniable.shared.survey.phrases import explain_report, upper_first

    form = texts["drawn" if symbol.drawn_from > 1 else "not_drawn"]
    known = symbol.chances.get("form") in texts  # not if an earlier version wrote it
    return texts["sent"].format(
        question=form.format(question=symbol.question, questions=symbol.drawn_from),
        epsilon=symbol.epsilon,
        says=texts.get(f"value_{symbol.says}", symbol.says),
        odds=explain_report(symbol.says, symbol.chances, texts)
        if known
        else f"{upper_first(symbol.odds)}.",
    )


def _spent_lines(ledger: Ledger, texts: Texts) -> Iterator[str]:
    yield "\n" + texts["spent"].format(epsilon=decimal_text(ledger.total))
    for name, cost in sorted(ledger.questions.items()):
        yield f"    {escaped(name)}: ε {decimal_text(cost)}"
    if sum(ledger.questions.values()) > ledger.total:
        yield "    " + texts["spent_once"]
