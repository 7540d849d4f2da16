"""Descriptions of a survey for its author, its server and the person who is asked.

ENGLISH has every sentence that a person reads before consent, on the public page and about the
reports that were sent. `explain_survey` and `explain_report` take another table with the same keys
for another language; a key that it lacks stays English. `python -m tests.reference` copies
ABOUT_SURVEYS to the JavaScript client.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from deniable.shared.privacy.epsilon import (
    MAX_SHOWN_BILLIONTHS,
    decimal_text,
    largest_belief,
    lifetime_promise,
    parse_billionths,
    round_promise,
)
from deniable.shared.survey.participation import MAX_EPSILON, MAX_EPSILON_PER_SURVEY

if TYPE_CHECKING:
    from deniable.shared.survey.document import Survey
    from deniable.shared.survey.kinds.base import Question

Texts = Mapping[str, str]

ABOUT_SURVEYS: Texts = {
    "why": "Why: {purpose}",
    "owner": "Asked by: {owner}",
    "when": "When: {every}, from {opens} to {closes}.",
    "every_once": "once",
    "every_day": "every day",
    "every_week": "every week",
    "every_month": "every month",
    "rounds": "{every} ({rounds} times)",
    "questions": "You are asked:",
    "one_question": "You are asked one of these questions. This device picks it by chance:",
    "question": "- {title}",
    "answers": "  Your answer: {asked}.",
    "odds": "  From your report, {growth}.",
    "odds_of_several": "  From one report, {growth}. From {reports} reports together, {all}.",
    "answer_bit": "yes or no",
    "answer_number": "a number from {low} to {high}",
    "answer_choice": "one of: {options}",
    "answer_text": "a short text, of which the first {length} bytes count",
    "answer_vector": "{dimension} numbers, a vector of length at most 1",
    "unit": "{asked} ({unit})",
    "more_options": "{options} and {more} more",
    "growth": "a suspicion of 10 % can grow to at most {share} % (ε {epsilon})",
    "growth_beyond": "a suspicion of 10 % can grow beyond {share} % (ε {epsilon})",
    "over": "  {asked}.",
    "over_first": "the first answer",
    "over_last": "the last answer",
    "over_any": "whether the answer was yes at least once",
    "over_all": "whether the answer was yes every time",
    "over_round": "{asked} in the {period}",
    "over_once": "survey",
    "over_day": "day",
    "over_week": "week",
    "over_month": "month",
    "over_among": "{asked}, among installs that run again before {until}",
    "over_among_first": "{asked}, among installs that run again before {until} (in the first "
    "round)",
    "drafts": "Until a round ends, the device keeps only a randomized report, which each answer "
    "may replace. The reports of the first round are sent between {days}.",
    "days_between": "{first} and {last}",
    "day_of_month": "{day} {month}",
    "months": "January February March April May June July August September October November "
    "December",
    "noise": "This device may change each answer by chance before it is stored or sent. So no one "
    "can be sure of your answer.",
    "round": "If someone sees all that you send in one round, {growth}.",
    "span": "If someone sees all that you send in {rounds} rounds that share a report, {growth}.",
    "survey": "If they see all {rounds} rounds, {growth}.",
    "kept_report": "In every {rounds} rounds, your first answer is changed by chance, once, to "
    "make a report. This device keeps that report. It sends it again in the other rounds, at no "
    "further ε.",
    "late_change": "Later answers in these rounds are not reported, so the reports do not reveal "
    "whether or when an answer changed. A change shows in the next report at the earliest. It "
    "costs its ε there.",
    "linked": "The reports of these rounds are equal, with up to {bits} bits. Assume that anyone "
    "who sees them can link those of one device. They reveal nothing else about your answers.",
    "not_linked": "The reports of these rounds are equal, and at most {reports} different ones "
    "are possible. So many other devices send the same ones.",
    "clear": "Sent in clear with each report: {names}.",
    "clear_survey": "the survey",
    "clear_round": "the round",
    "any_text": "a short text",
    "address": "While a report arrives, the server sees the network address of this device. So it "
    "can tell that you take part.",
    "sealed": "Only the server can open a report. If the app uses a relay, then the relay, not "
    "the server, sees the network address. It also learns the survey and round of the report.",
    "invitation": "Your invitation code is sent with the report. The server stores only that the "
    "code was used. The person who gave you this code, working together with the server, may know "
    "which report is yours.",
    "one_day": "one day",
    "days": "{days} days",
    "kept": "The server deletes a report {days} after its round stops taking reports. The last "
    "ones are deleted on {until}. Backups and archives may keep reports longer. The counts stay.",
    "stop": "To stop, switch it off in the app. Nothing more is sent, and unsent answers are "
    "deleted.",
    "forget": "The app can also forget you. It then erases its keys, your reports and your choice "
    "from this device. It keeps the record of the ε that you have spent.",
    "counted": "Counted reports stay counted, because nothing in them shows whose they are.",
    "caps": "This survey uses {used} of the {limit} privacy units (ε) this app will ever use.",
    "caps_of_rounds": "This survey uses {used} of the {limit} privacy units (ε) this app will "
    "ever use, {each} in {span}.",
    "each_round": "each round",
    "each_span": "every {rounds} rounds",
    "caps_end": "After {answered} of its {rounds} rounds the app stops answering.",
    "caps_renewed": "This survey uses at most {used} of the {limit} privacy units (ε) that this "
    "app uses in each quarter. The budget renews on the first day of the next quarter.",
    "caps_drawn": "The app answers at most {answered} of the rounds in a quarter. This device "
    "draws them at random in advance. Your answers do not affect the draw.",
    "caps_refused": "This survey asks for {asked} privacy units (ε) in one round. This app allows "
    "only {limit}, so it will not answer.",
}
ABOUT_REPORTS: Texts = {
    "consent_given": "Consent: given.",
    "consent_missing": "Consent: not given; nothing is stored or sent.",
    "no_reports": "There are no reports: none was made, or the history was erased.",
    "report": "{day}  {name}, round {round}: {delivery}",
    "delivery_waiting": "waiting to be sent",
    "delivery_accepted": "sent and accepted by the server",
    "delivery_relayed": "sent to the relay, which forwards it together with other reports",
    "delivery_refused": "sent and refused by the server",
    "delivery_given-up": "not sent",
    "delivery_dropped": "not sent",
    "delivery_withdrawn": "deleted before it was sent, because consent was withdrawn",
    "same_report": "the same report as in round {round}, at no further ε:",
    "not_drawn": "{question}",
    "drawn": "{question} (drawn from {questions} questions)",
    "sent": "{question}, ε {epsilon}. Sent: {says}. {odds}",
    "dropped": "Reports that were dropped because too many were waiting: {reports}.",
    "others": "Other people, who are not shown: {people}. Choose one with --person ID.",
    "spent": "Spent so far: ε {epsilon} over all surveys and rounds.",
    "spent_once": "(if a survey asks one random question, each is charged, but the total only "
    "once)",
    "value_yes": "yes",
    "value_no": "no",
    "sent_option": "If your true answer is {says}, '{says}' is sent {keep} times in {per}; if it "
    "is {other}, {lie} times, so {doubt}.",
    "sent_options": "An option is in what is sent {keep} times in {per} if it is your true "
    "answer; if not, {lie} times, so {doubt}.",
    "sent_number": "This is sent {keep} times in {per} if it is true; if the truth is farthest "
    "from it, {lie} times, so {doubt}.",
    "sent_text": "The buckets that are sent hold a text {keep} times in {per} if it is your true "
    "answer; if not, {lie} times, so {doubt}.",
    "sent_direction": "A direction is sent {keep} times in {per} if it is one of the closest to "
    "your true answer; if not, {lie} times, so {doubt}.",
    "any_other": "any other",
    "no_one_can_tell": "no one can tell",
    "no_one_can_be_sure": "no one can be fully sure",
    "ask": "Send such reports? Type yes or no: ",
}
ABOUT_DEFAULTS: Texts = {
    "default_caps": "By default, an app uses at most ε {limit} in each quarter. Then the budget "
    "renews. One survey may use at most ε {used} of it.",
    "default_all": "So each install answers every round.",
    "default_drawn": "So each install answers {answered} of {rounds} rounds in a quarter, drawn at "
    "random in advance. Of {installs} installs, about {share} answer each {period}.",
    "default_installs": "By default, only some installs answer each round: for {answers} answers "
    "you need about {installs} installs.",
    "default_refused": "By default, an app refuses this survey: the limit is ε {limit} in one "
    "round.",
}
ENGLISH: Texts = {**ABOUT_SURVEYS, **ABOUT_REPORTS, **ABOUT_DEFAULTS}

# with more bits than this, few of a thousand installs send the same report
FINGERPRINT_BITS = math.log2(1_000)
MAX_SHOWN_OPTIONS = 20
INSTALLS = 100_000  # in an example


class QuestionText(NamedTuple):
    asked: str  # the possible answers
    odds: str  # how far the reports can raise a suspicion
    lines: tuple[str, ...]  # the question, the possible answers and the odds


class SurveyText(NamedTuple):
    """Everything that a person should know about a survey, in sentences."""

    when: str
    intro: str  # introduces the questions
    questions: tuple[QuestionText, ...]
    privacy: tuple[str, ...]  # what the reports reveal, and what is sent in clear
    kept: str
    stop: tuple[str, ...]


def explain_survey(
    survey: Survey, texts: Texts = ENGLISH, reports: int = 1, shown: Callable[[str], str] = str
) -> SurveyText:
    """Describe a survey to the person it asks.

    `reports` is the number of reports, each with noise of its own, for the odds of a question.
    `shown` escapes what the author of the survey wrote.
    """
    texts = {**ENGLISH, **texts}
    questions = []
    for question in survey.questions:
        asked = shown(answer_text(question, texts))
        odds = question_odds(question.epsilon.billionths, reports, texts)
        title = texts["question"].format(title=shown(question.title))
        about = upper_first(asked_about(survey, question, texts))
        over = [texts["over"].format(asked=about)] if survey.redraws else []
        lines = (title, texts["answers"].format(asked=asked), *over, odds)
        questions.append(QuestionText(asked, odds.strip(), lines))
    days = texts["one_day" if survey.retention_days == 1 else "days"]
    days = days.format(days=f"{survey.retention_days:,}")
    last = survey.taken_until(survey.last_round) + timedelta(days=survey.retention_days)
    return SurveyText(
        when=_when(survey, texts),
        intro=texts["one_question" if survey.asks_one else "questions"],
        questions=tuple(questions),
        privacy=(
            texts["noise"],
            *_growth_of_rounds(survey, texts),
            *repeated(survey, texts),
            *when_sent(survey, texts),
            sent_in_clear(survey, texts, shown),
            texts["address"],
            *([texts["sealed"]] if survey.sealed_to else []),
            *([texts["invitation"]] if survey.by_invitation else []),
        ),
        kept=texts["kept"].format(days=days, until=last.date()),
        stop=(texts["stop"], texts["forget"], texts["counted"]),
    )


def asked_about(survey: Survey, question: Question, texts: Texts = ENGLISH) -> str:
    """Return the part of a round that a question asks about, as text."""
    asked, period = texts[f"over_{question.over}"], texts[f"over_{survey.period}"]
    asked = texts["over_round"].format(asked=asked, period=period)
    if not survey.redraws:
        return asked
    until = day_and_month(survey.taken_until(survey.first_round), texts)
    among = texts["over_among" if survey.rounds == 1 else "over_among_first"]
    return among.format(asked=asked, until=until)


def when_reports_leave(survey: Survey, number: int, texts: Texts = ENGLISH) -> str:
    """Return the days on which the redrawn reports of a round leave: "1 and 8 January"."""
    return between_days(survey.round_ends(number), survey.leaves_until(number), texts)


def when_sent(survey: Survey, texts: Texts = ENGLISH) -> tuple[str, ...]:
    """Return when reports leave, if not within their round; empty if they do."""
    if not survey.redraws:
        return ()
    days = when_reports_leave(survey, survey.first_round, texts)
    return (texts["drafts"].format(days=days),)


def between_days(first: datetime, last: datetime, texts: Texts = ENGLISH) -> str:
    """Return two days that follow "between", without repeating their month.

    >>> between_days(datetime(2027, 1, 1), datetime(2027, 1, 8))
    '1 and 8 January'
    >>> between_days(datetime(2027, 1, 30), datetime(2027, 2, 3))
    '30 January and 3 February'
    """
    same = (first.year, first.month) == (last.year, last.month)
    begin = str(first.day) if same else day_and_month(first, texts)
    return texts["days_between"].format(first=begin, last=day_and_month(last, texts))


def day_and_month(day: date, texts: Texts = ENGLISH) -> str:
    """Return a day without its year; `strftime` would use the system's language."""
    month = texts["months"].split()[day.month - 1]
    return texts["day_of_month"].format(day=day.day, month=month)


def answer_text(question: Question, texts: Texts = ENGLISH) -> str:
    """Return the possible answers. A kind without a text in the table describes itself."""
    form = texts.get(f"answer_{question.kind}")
    if form is None:
        return question.asked
    asked = form
    if "{" in form:
        values = {name: _number(value) for name, value in question.fields().items()}
        asked = form.format_map(values | {"options": _options(question, texts)})
    return texts["unit"].format(asked=asked, unit=question.unit) if question.unit else asked


def _number(value: object) -> object:
    if not isinstance(value, int | float):
        return value
    return f"{int(value) if value == int(value) else value:,}".replace("-", "−")


def _options(question: Question, texts: Texts) -> str:
    listed = ", ".join(question.called[:MAX_SHOWN_OPTIONS])
    if (more := len(question.called) - MAX_SHOWN_OPTIONS) > 0:
        return texts["more_options"].format(options=listed, more=f"{more:,}")
    return listed


def suspicion_growth(billionths: int, texts: Texts = ENGLISH) -> str:
    """Return how far a report of this ε can raise a suspicion of 10 %.

    >>> suspicion_growth(1_000_000_000)
    'a suspicion of 10 % can grow to at most 24 % (ε 1)'
    >>> suspicion_growth(20_000_000_000)
    'a suspicion of 10 % can grow beyond 99 % (ε 20)'
    """
    share = largest_belief(min(billionths, MAX_SHOWN_BILLIONTHS), 10, 100)
    form = texts["growth" if share < 100 else "growth_beyond"]
    return form.format(share=min(share, 99), epsilon=decimal_text(billionths))


def question_odds(billionths: int, reports: int, texts: Texts) -> str:
    """Return how far one report, and all reports together, can raise a suspicion."""
    one = suspicion_growth(billionths, texts)
    if reports <= 1:
        return texts["odds"].format(growth=one)
    every = suspicion_growth(reports * billionths, texts)
    return texts["odds_of_several"].format(growth=one, reports=f"{reports:,}", all=every)


def explain_report(says: str, chances: Mapping[str, str], texts: Texts = ENGLISH) -> str:
    """Return how certain a report is, for the person who sends it.

    >>> from deniable.shared.privacy.mechanism import Chances
    >>> chances = Chances("option", 2**63, 2**62).values("no", ("no", "yes"))
    >>> explain_report("no", chances).partition("; ")[2]
    'if it is yes, 25 times, so no one can tell.'
    """
    other = chances["other"]
    values = {
        **chances,
        "says": _value(says, texts),
        "other": _value(other, texts) if other else texts["any_other"],
        "doubt": texts[chances["doubt"]],
    }
    return texts[chances["form"]].format_map(values)


def _value(name: str, texts: Texts) -> str:
    return texts.get(f"value_{name}", name)


def _when(survey: Survey, texts: Texts) -> str:
    every = texts[f"every_{survey.period}"]
    if survey.rounds > 1:
        every = texts["rounds"].format(every=every, rounds=f"{survey.rounds:,}")
    return texts["when"].format(every=every, opens=survey.opens, closes=survey.closes)


def _growth_of_rounds(survey: Survey, texts: Texts) -> tuple[str, ...]:
    one = suspicion_growth(survey.round_billionths, texts)
    every = suspicion_growth(survey.lifetime_billionths, texts)
    first = texts["span" if survey.repeats else "round"]
    return (
        first.format(rounds=f"{survey.repeat_rounds:,}", growth=one),
        *(
            [texts["survey"].format(rounds=f"{survey.rounds:,}", growth=every)]
            * (survey.rounds > 1)
        ),
    )


def asked_when(survey: Survey) -> str:
    """Return the survey's days and rounds as text."""
    every = survey.calendar.every
    rounds = every if survey.rounds == 1 else f"{every}, {survey.rounds} rounds"
    return f"asked from {survey.opens} to {survey.closes}, {rounds}"


def gives_away(survey: Survey) -> tuple[str, str]:
    """Return the privacy cost of one round and of all rounds, as two lines of one sentence."""
    one = round_promise(survey.round_billionths, survey.repeat_rounds)
    whole = lifetime_promise(survey.round_billionths, survey.rounds, survey.repeat_rounds)
    return f"{upper_first(one)};", f"{whole}."


def repeated(survey: Survey, texts: Texts = ENGLISH) -> tuple[str, ...]:
    """Return what a latched report hides and reveals; empty if each round has its own report."""
    if not survey.repeats:
        return ()
    bits = report_bits(survey)
    linked = (
        texts["linked"].format(bits=f"{bits:,.0f}")
        if bits > FINGERPRINT_BITS
        else texts["not_linked"].format(reports=f"{2**bits:,.0f}")
    )
    kept = texts["kept_report"].format(rounds=f"{survey.repeat_rounds:,}")
    return kept, texts["late_change"], linked


def default_participation(survey: Survey, texts: Texts = ENGLISH) -> tuple[str, ...]:
    """Return what the default limits of an app mean for a survey."""
    answered, rounds = _default_draw(survey)
    if not answered:
        return (texts["default_refused"].format(limit=MAX_EPSILON_PER_SURVEY),)
    caps = texts["default_caps"].format(limit=MAX_EPSILON, used=MAX_EPSILON_PER_SURVEY)
    if answered == rounds:
        return caps, texts["default_all"]
    drawn = texts["default_drawn"].format(
        answered=answered,
        rounds=rounds,
        installs=f"{INSTALLS:,}",
        share=f"{two_digits(INSTALLS * answered / rounds):,}",
        period=survey.calendar.name if survey.repeat_rounds == 1 else "round",
    )
    return caps, drawn


def installs_of_survey(survey: Survey, answers: int, texts: Texts = ENGLISH) -> tuple[str, ...]:
    """Return how many installs this many answers per round need; empty if all installs answer."""
    answered, rounds = _default_draw(survey)
    if answered in (0, rounds):
        return ()
    installs = f"{two_digits(answers * rounds / answered):,}"
    needed = texts["default_installs"].format(answers=f"{answers:,}", installs=installs)
    return (needed,)


def _default_draw(survey: Survey) -> tuple[int, int]:
    """Return how many rounds of the first quarter an install answers by default, and their total.

    The first number is 0 if the install refuses the survey.
    """
    budget, cost = parse_billionths(MAX_EPSILON_PER_SURVEY), survey.round_billionths
    block = survey.block_of(survey.first_round)
    if block is None:
        return min(1, budget // cost), 1
    return block.answered(cost, budget), len(block.rounds)


def two_digits(count: float) -> int:
    """Round a count to two digits.

    >>> two_digits(15_384.6), two_digits(7)
    (15000, 7)
    """
    return round(float(f"{count:.2g}"))


def sent_in_clear(survey: Survey, texts: Texts = ENGLISH, shown: Callable[[str], str] = str) -> str:
    """Return what is sent in clear with a report, labels included."""
    labels = (
        f"{label.name} ({', '.join(label.listed) or texts['any_text']})" for label in survey.labels
    )
    names = texts["clear_survey"], texts["clear_round"], *map(shown, labels)
    return texts["clear"].format(names=", ".join(names))


def upper_first(text: str) -> str:
    """Capitalize the first letter of a sentence, unless it is ε.

    >>> upper_first("a day is like 2026-12-01, got 'May'"), upper_first("ε is above 0")
    ("A day is like 2026-12-01, got 'May'", 'ε is above 0')
    """
    return text if text.startswith("ε") else text[:1].upper() + text[1:]


def report_bits(survey: Survey) -> float:
    """Return an upper bound, in bits, on how well one report identifies its install."""
    symbols = [question.mechanism.symbols for question in survey.questions]
    return math.log2(sum(symbols)) if survey.asks_one else sum(map(math.log2, symbols))
