"""Sentences about results: headlines, notes for readers, and the effect of a relay's shuffle."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from decimal import ROUND_CEILING, Context, Decimal
from itertools import groupby
from typing import Any, Literal

from deniable.server.estimation.frequent_texts import FALSE_DISCOVERY
from deniable.server.estimation.statements import CONFIDENCE, Reading, Statement
from deniable.server.planning.forecast import Expected
from deniable.server.results.display import (
    STYLES,
    Figures,
    Style,
    decimals,
    effect_figures,
    smoothed_figures,
)
from deniable.server.results.document import (
    About,
    ByLabel,
    Forecast,
    Median,
    Round,
    RoundFacts,
    Shuffled,
    Smoothed,
)
from deniable.server.shuffling.accountant import survey_epsilon
from deniable.server.shuffling.composition import rounds_epsilon
from deniable.server.store import RoundState
from deniable.shared.errors import WrongUse, quantity
from deniable.shared.survey.document import Survey
from deniable.shared.survey.kinds.base import Question

MAX_NAMED = 3  # largest number of options that a headline names as possible leaders
MAX_DISAGREEMENTS = 3  # sentences about groups that differ
PEOPLE_DIGITS = 2  # significant digits of an expected number of people
NOTES = f"""
Results describe the people who reported, not those who did not.

Each interval on its own contains the truth in {CONFIDENCE:.0%} of cases, counting everything that
is ever shown of the round.

`low` to `high` refers to the population that the respondents came from; `low_these` to `high_these`
refers to exactly the respondents, for whom only the privacy noise is random.

All of a question's intervals from `low_all` to `high_all` hold jointly in {CONFIDENCE:.0%} of
cases: use them for the highest of a list. Estimates below `floor` cannot be distinguished from 0.

A `change` since an earlier round is valid even if the same people answered in both; its `low_these`
and `high_these` refer to exactly the respondents.

Estimates are unbiased and never clipped; `consistent` is the closest possible value.

`leverage` is how many honest answers one forged report can be worth.
"""
BY_LOOKS = {
    "any-time": """
While a round is open or collecting late reports, its intervals hold for repeated looks. They become
narrower when it is final. Each of the two alone has a `confidence` of 97.5 %.
""",
    "twice": """
Results of a round are shown twice: at a first look, and when the round is final. Each of the two
alone has a `confidence` of 97.5 %. In between, the estimates stay as they were at the first look.
""",
    "once": """
Results of a round are shown once it is final.
""",
}
STEPS = """
While a round is open or collecting late reports, its displayed results change in steps of {0} or
more reports, so that no reader sees single reports. When it is final, all its reports are shown.
"""
CLOSED_EARLY = """
If the survey is closed before a round is final, the number of the round's reports may depend on
what was seen. Its intervals then hold for repeated looks, and do not become narrower.
"""
TEXTS = f"""
For a text question, the answers that stand out are listed as people wrote them. `floors` gives the
number of people that a text needs to be found.

Unlike other intervals, those of texts never hold for repeated looks, but for one. So does the
probability of listing a text that no one gave.

If no report is forged, that probability is at most {FALSE_DISCOVERY:.0%} per round. The `note` of a
text has its p-value.
"""
VECTORS = """
The coverage of a vector's intervals, for one look and for repeated looks, is measured, not proved.
"""
ONE_OF = """
Each install was asked one of the {0} questions, drawn at random. A question's estimates come from
those who were asked it, and describe all who reported.

`low_these` and `high_these` refer only to those who were asked the question.

A forger chooses the question: among all who reported, of whom one in {0} answered it, a forged
report weighs {0} times its `leverage`.
"""
LATCHED = """
Each install sends one report for {0} rounds at a time. It contains the first answer in these
rounds, so a change is visible in the next {0} rounds at the earliest.

Such rounds contain the same reports: do not average them, and do not judge a difference between
them by their intervals.
"""
BY_LABEL = """
Labels are sent in clear next to the randomized answers. A value with fewer than 20 reports counts
as “other”, and so does each value that an app did not give. The joint intervals of a label hold for
all of its values. `effects` are differences from the first value, `against`. Values may differ
because different people have them: only arms, which devices draw at random, show effects, and these
refer to those who report. Until a round is final, each value's numbers are those of its last step.
"""
FOLLOWS = """
Results of another survey (`follows`) chose these questions, perhaps from the same people. So all
intervals, including `low` to `high` and the band of a distribution, are about exactly the
respondents, not about the population. For them, only the fresh noise is random.

An interval that reaches an end of a number's range includes all answers beyond that end.
"""
CROSSED = """
`cross` gives the share of people who gave two answers, counted from the same reports: it adds no ε.
"""

STATES: dict[RoundState, str] = {
    "open": "open, then collecting late reports",
    "collecting": "collecting late reports",
    "final": "final",
}
CROWDS = {"batch": "in the smallest batch", "round": "who reported"}
DELTA = "0.000001"
LABEL_DIGITS = 2  # significant digits of the people with the same labels
MAX_PEOPLE = 1_000_000  # with more people, ε is even smaller
EPSILON_DIGITS = 3
OBSERVERS = {
    "batch": "to anyone who sees the relay's batches arrive, as the server does",
    "round": "to anyone who sees the whole round but not its batches",
}


def one_label(row: Figures) -> str:
    """Describe the only label's estimate, with its interval."""
    low, high = row.text(row.low), row.text(row.high)
    return row.style.sentence.format(value=row.whole, label=row.label, low=low, high=high)


def several_labels(rows: Sequence[Figures], most: int) -> str:
    """Name the leading options, or count the options of a long list that are above zero."""
    clear = sum(row.is_clear for row in rows)
    if not clear:
        return "No option stands out from zero yet."
    if len(rows) > most:
        verb = "is" if clear == 1 else "are"
        return f"{clear:,} of {len(rows):,} options {verb} clearly above zero."
    first, *others = sorted(rows, key=lambda row: -row.estimate)
    rivals = [row for row in others if row.high >= first.low]
    if not rivals:
        return f"{first.label} is first ({first.whole}){_second(others)}."
    if len(rivals) >= MAX_NAMED:
        return f"Too close to call: any of {1 + len(rivals):,} options may be first."
    *names, last = (row.label for row in (first, *rivals))
    return f"{', '.join(names)} and {last} lead. The data cannot say which is ahead."


def texts_found(count: int) -> str:
    return f"{quantity(count, 'answer is', 'answers are')} common enough to be found."


def change(row: Figures, since: str) -> str:
    """Describe one label's difference from an earlier round or period."""
    if words := _direction(row):
        return f"{words[0]} since {since}: {words[1]}."
    return f"No clear change since {since} (difference: {row.interval})."


def smoothed(row: Smoothed, about: About, label: str, period: str, most_change: float) -> str:
    """State a smoothed estimate, and the model that its interval needs."""
    made, several = smoothed_figures(row, about), "s" if row.rounds > 1 else ""
    drift = made.style.factor * most_change / 100 * (about.range[1] - about.range[0])
    unit = made.style.behind_margin(about.unit)
    return (
        f"Smoothed over {row.rounds} {period}{several}{label and f', {label}'}: {made.whole}, "
        f"between {made.text(made.low)} and {made.text(made.high)}{made.unit}, if the true "
        f"{about.statistic} changes by at most {drift:.3g}{unit} a {period}."
    )


def effect(row: Figures, value: str, against: str, reports: int) -> str:
    """Describe a difference between two values of a label, and how many reports narrow it."""
    if direction := _direction(row):
        words = f"{value} is {direction[0]} than {against} ({direction[1]})."
    else:
        words = f"No clear difference between {value} and {against} ({row.interval})."
    margin = smaller_error(row.style.factor * row.half)
    more = math.ceil(reports * ((row.style.factor * row.half / margin) ** 2 - 1))
    unit = "" if row.unit == row.style.points else row.unit.strip()
    wanted = row.style.margin(margin / row.style.factor, unit)
    return f"{words} About {rounded_people(more)} more reports would make it {wanted}."


def effect_sentences(
    parts: Sequence[ByLabel], name: str, about: About, called: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Yield sentences about one question in the values of one label.

    Of several options, only clear differences have a sentence. The intervals are joint, so all of
    these sentences together are true in 95 % of cases.
    """
    for part in parts:
        listed = part.effects.questions.get(name) if part.effects else None
        if not part.effects or not listed:
            continue
        rows = effect_figures(listed, about.statistic, about.unit)
        clear = [row for row in rows if row.is_clear]
        for row in rows if len(rows) == 1 else clear:
            label = f"{(called or {}).get(row.label, row.label)}: " if len(rows) > 1 else ""
            words = effect(row, part.value, part.effects.against, part.reports + parts[0].reports)
            yield f"{label}{words}"
        if len(rows) > 1 and len(clear) < len(rows):
            rest = f"the other {quantity(len(rows) - len(clear), 'option')}"
            others = rest if clear else f"any of {len(rows):,} options"
            values = f"{part.value} and {part.effects.against}"
            yield f"No clear difference between {values} in {others}."


def median_name(median: Median) -> str:
    return f"median of {median.groups}"


def disagreements(median: Median, called: Mapping[str, str] | None = None) -> Iterator[str]:
    """Yield the notes of a median's first options, and the number of other options with one."""
    noted = [row for row in median.rows if row.note]
    for row in noted[:MAX_DISAGREEMENTS]:
        label = (called or {}).get(row.label, row.label)
        yield f"{label}: {row.note}" if len(median.rows) > 1 else str(row.note)
    if (more := len(noted) - MAX_DISAGREEMENTS) > 0:
        yield f"the groups also differ in {quantity(more, 'other option')}"


def empty_labels(names: Sequence[str], period: Round, minimum: int) -> Iterator[str]:
    """Yield a sentence for each label without a shown value, in a round with estimates."""
    shown = {part.name for part in period.labels or ()}
    for name in names if period.reports >= minimum else ():
        if name not in shown:
            yield f"No results by {name}: too few reports carry one of its values."


def _direction(row: Figures) -> tuple[str, str] | None:
    """Return by how much a value is higher or lower, and its bounds, if the data can say."""
    low, high = (row.text(end).lstrip("+−") for end in (row.low, row.high))
    size = row.whole.lstrip("+−")
    if row.low > 0:
        return f"{size} higher", f"{low} to {high} higher"
    if row.high < 0:
        return f"{size} lower", f"{high} to {low} lower"
    return None


def privacy_cost(
    question: Question, shown: Statement, label: str = "", asked_one_of: int = 1
) -> str:
    """Return the margin of open answers, their number, and the people for a smaller margin.

    All refer to the same population and looks as the statement that is shown. The worth of an
    answer depends on the share: it is given for both ends of the interval, and the rest for its
    share nearest to one half. Other answers are assumed to be spread evenly. With `asked_one_of`
    questions, each install answers only one, so the number of people is multiplied.
    """
    style, reports = STYLES[question.statistic], shown.reports
    expected = Expected(question, None, shown.confidence, shown.looks)
    ends = [expected]
    if question.statistic == "share":
        low, high = (min(max(end, 0.0), 1.0) for end in (shown.low, shown.high))
        expected = replace(expected, share=min(max(0.5, low), high))
        ends = [expected, *(replace(expected, share=end) for end in (low, high))]
    smaller = smaller_error(style.factor * shown.margin) / style.factor
    people = rounded_people(asked_one_of * expected.people_for(smaller))
    open_margin = shown.margin * math.sqrt(expected.worth(reports) / reports)
    openly, deniably, wanted = (
        style.margin(margin, question.unit) for margin in (open_margin, shown.margin, smaller)
    )
    worth = _worth([round(end.worth(reports)) for end in ends])
    people_asked = "this person" if reports == 1 else f"these {reports:,} people"
    return (
        f"Asked openly, {people_asked} would have given {openly}"
        f"{f' for {label}' if label else ''}; deniably, it is {deniably}. "
        f"Their answers are worth {worth} asked openly. "
        f"For {wanted} you need about {people} people."
    )


def _worth(answers: Sequence[int]) -> str:
    """Format the range of a number of open answers.

    >>> _worth([80, 430]), _worth([0, 12]), _worth([1_204, 1_203]), _worth([0, 0])
    ('80 to 430', 'at most 12', '1,200', 'less than one answer')
    """
    if max(answers) < 1:
        return "less than one answer"
    low, high = rounded_people(min(answers)), rounded_people(max(answers))
    if low == high:
        return low
    return f"{low} to {high}" if min(answers) else f"at most {high}"


def smaller_error(error: float) -> float:
    """Return the largest 1, 2 or 5 times a power of ten that is at most half the error.

    >>> smaller_error(2.8), smaller_error(1.2), smaller_error(0.3), smaller_error(20)
    (1.0, 0.5, 0.1, 10.0)
    """
    power = 10.0 ** math.floor(math.log10(error / 2) + 1e-9)
    return float(f"{max(m * power for m in (1, 2, 5) if m * power <= error / 2 + 1e-12):.12g}")


def rounded_people(people: int) -> str:
    """Format a number of people with two significant digits.

    >>> rounded_people(160_080), rounded_people(1_134), rounded_people(87)
    ('160,000', '1,100', '87')
    """
    digits = max(0, len(str(people)) - PEOPLE_DIGITS)
    return f"{round(people, -digits):,}"


def _second(others: Sequence[Figures]) -> str:
    """Name the second label if it is clearly ahead of the others."""
    if len(others) < 2 or others[0].low <= max(row.high for row in others[1:]):
        return ""
    return f", {others[0].label} second ({others[0].whole})"


def notes(survey: Survey) -> tuple[str, ...]:
    """Return the notes that this survey's results need."""
    ways = {question.estimation for question in survey.questions}
    texts = (
        NOTES,
        BY_LOOKS[survey.looks],
        STEPS.format(survey.step),
        CLOSED_EARLY,
        TEXTS if "texts" in ways else "",
        VECTORS if "coordinates" in ways else "",
        ONE_OF.format(len(survey.questions)) if survey.asks_one else "",
        LATCHED.format(survey.repeat_rounds) if survey.repeats else "",
        FOLLOWS if survey.follows else "",
        CROSSED if survey.cross else "",
        BY_LABEL if survey.labels else "",
    )
    paragraphs = (paragraph for text in texts for paragraph in text.strip().split("\n\n"))
    return tuple(" ".join(paragraph.split()) for paragraph in paragraphs if paragraph)


def round_note(
    survey: Survey,
    number: int,
    state: RoundState,
    reading: Reading,
    day: Callable[[date], str] = date.isoformat,
    *,
    waiting: bool = False,
) -> str | None:
    """Describe when a round's results are shown or change; None if nothing is unusual.

    `waiting` is true if reports have arrived, but too few to be shown.
    """
    first, last = (
        day(time.date()) for time in (survey.first_look(number), survey.taken_until(number))
    )
    arrived = "reports have arrived; " if waiting else ""
    if reading.covers == "nothing":
        planned = f"{first} and {last}" if survey.looks == "twice" else last
        return f"{STATES[state]}; {arrived}results are shown on {planned}"
    if reading.covers == "first look":
        return f"{STATES[state]}; these results are from {first}; final ones follow on {last}"
    if waiting:
        least = 2 * survey.step * survey.drawn_from
        about = f"the first results appear after about {least} reports"
        return f"{STATES[state]} until {last}; {arrived}{about}"
    if state != "final":
        return f"{STATES[state]} until {last}; its intervals hold for repeated looks until then"
    if reading.any_time:
        return "closed before it was final, so its intervals hold for repeated looks"
    return None


def forecast_sentence(made: Forecast, style: Style, unit: str) -> str:
    """Return the margin now, and the one to expect without more reports."""
    places = decimals(style.factor * made.final_margin)
    now = style.margin(made.margin, unit, places)
    return f"{now} now, {style.margin(made.final_margin, None, places)} then"


# The relay's shuffle


def shuffled(survey: Survey, facts: RoundFacts) -> tuple[Shuffled, ...]:
    """Return the (ε, δ) of one report within the smallest batch, and within its round."""
    # An observer sees repeated reports several times.
    if not facts.relayed or not facts.relayed.smallest_batch or survey.repeats:
        return ()
    smallest = facts.relayed.smallest_batch
    batch = _shuffled(survey, "batch", smallest)
    if _leading(facts.reports) <= smallest or survey.labels:
        return (batch,)
    return batch, _shuffled(survey, "round", _leading(facts.reports))


def shuffled_with_labels(survey: Survey, people: int) -> Shuffled:
    """Return the (ε, δ) of one report in a batch, among this many with the same labels or fewer."""
    return _shuffled(survey, "batch", _leading(people, LABEL_DIGITS))


def crowds(survey: Survey, people: int) -> dict[int, str]:
    """Return the ε of one report among all, 90 % and half of these people, if they are honest."""
    sizes = (people, people * 9 // 10, people // 2)
    return {size: _upward(survey_epsilon(survey, size, float(DELTA))) for size in sizes}


def crowd_facts(survey: Survey, people: int) -> dict[str, Any]:  # Any: JSON
    """Return what a shuffle among this many people hides: for one report, and for all rounds."""
    if not 2 <= people <= MAX_PEOPLE:
        raise WrongUse(f"--crowd must be from 2 to {MAX_PEOPLE:,}, got {people:,}")
    if survey.repeats:
        raise WrongUse("--crowd: an observer can link repeated reports, so a shuffle hides none")
    facts: dict[str, Any] = {"crowd": people, "delta": DELTA, "shuffled": crowds(survey, people)}
    if survey.draws > 1:
        facts["shuffled_lifetime"] = _upward(rounds_epsilon(survey, people, float(DELTA)))
    return facts


def crowd_sentences(survey: Survey, facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield the facts about a shuffle as sentences."""
    sealed = "" if survey.sealed_to else "if it were sealed, and "
    alike = " with the same labels" if survey.labels else ""
    for people, epsilon in facts["shuffled"].items():
        yield (
            f"{sealed}shuffled among {people:,} honest people{alike}, one report reveals at most "
            f"ε {epsilon} (δ {facts['delta']}) instead of ε {survey.round_epsilon}"
        )
    if "shuffled_lifetime" in facts:
        yield (
            f"with {facts['crowd']:,} honest people{alike} in each round, all {survey.draws} "
            f"reports of a person reveal at most ε {facts['shuffled_lifetime']} "
            f"(δ {facts['delta']}) instead of ε {survey.lifetime_epsilon}"
        )


def shuffle_sentences(period: Round, epsilon: str) -> Iterator[str]:
    """Yield sentences about a relay's shuffle; `epsilon` is that of an unshuffled report."""
    for shuffle in period.shuffled or ():
        yield (
            f"If the relay is honest and does not collude with the server, and the "
            f"{quantity(shuffle.people, 'person', 'people')} {CROWDS[shuffle.among]} "
            f"{'is' if shuffle.people == 1 else 'are'} honest, one report reveals at "
            f"most (ε {shuffle.epsilon}, δ {shuffle.delta}) instead of ε {epsilon} "
            f"{OBSERVERS[shuffle.among]}."
        )
    for name, parts in groupby(period.labels or (), key=lambda part: part.name):
        if limits := [_limit(part.value, part.shuffled) for part in parts if part.shuffled]:
            listed = ", ".join(limits)
            yield f"By {name}, one report reveals at most {listed} with the same labels."
    if period.relayed and period.relayed.alone:
        yield (
            "Some of these reports came without a relay: they reveal up to "
            f"ε {epsilon}, and the server could see their addresses."
        )
    if period.relayed and period.relayed.dropped:
        yield (
            f"Relays dropped {quantity(period.relayed.dropped, 'report')}, because no batch would "
            "have hidden each one."
        )


def _limit(value: str, shuffle: Shuffled) -> str:
    people = quantity(shuffle.people, "person", "people")
    return f"ε {shuffle.epsilon} for {value} ({people})"


def _shuffled(survey: Survey, among: Literal["batch", "round"], people: int) -> Shuffled:
    epsilon = survey_epsilon(survey, people, float(DELTA))
    return Shuffled(among=among, people=people, epsilon=_upward(epsilon), delta=DELTA)


def _leading(reports: int, digits: int = 1) -> int:
    """Round down to a few significant digits: this saves computations, and ε is only overstated.

    >>> _leading(123_456), _leading(99), _leading(10**9), _leading(1_234, 2), _leading(7, 2)
    (100000, 90, 1000000, 1200, 7)
    """
    unit = int("1".ljust(len(str(reports)) - digits + 1, "0"))
    return min(reports // unit * unit, MAX_PEOPLE)


def _upward(epsilon: float) -> str:
    """Round up to three digits.

    >>> _upward(0.1486712), _upward(2.0), _upward(0.00012301)
    ('0.149', '2', '0.000124')
    """
    rounded = Context(prec=EPSILON_DIGITS, rounding=ROUND_CEILING).create_decimal(Decimal(epsilon))
    text = f"{rounded:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
