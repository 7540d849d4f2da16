"""Follow-up survey: the questions to ask now, chosen from the final counts of one round.

    text      becomes a choice among the texts that were found, and an option for all others
    choice    keeps the options that are clearly above zero; the others become one option
    number    is asked within the band [a, b] that contains the quantile in 80 % of cases

Other questions are left out, as are those for which the results would change nothing.

A number outside [a, b] counts as the nearer end, so the share at or below any point inside does not
change, and the same relative noise applies to a shorter range. The band needs no high confidence:
if it misses the quantile, the follow-up shows this, because its interval then reaches an end.

Each question keeps its ε, or less if the people who answered the first survey have less left of
what an app allows a survey in a quarter. The draft has the name of the first survey, so that a
client charges both to the same cap.

The noise of the follow-up is fresh, so its intervals for exactly its respondents hold, however the
questions were chosen. Intervals for the population would need other people in the second survey.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import numpy as np

from deniable.server.estimation import ESTIMATORS, estimates
from deniable.server.estimation.distribution import (
    LEVELS,
    band,
    informative_parts,
    quantile_interval,
)
from deniable.server.estimation.statements import Cells, final_reading
from deniable.server.planning.forecast import Expected
from deniable.server.planning.planned_question import read
from deniable.server.store import PublishedSurvey, RoundTally
from deniable.shared.errors import Refused, quantity
from deniable.shared.privacy.epsilon import Epsilon, decimal_text
from deniable.shared.survey.document import Survey, quarter_of
from deniable.shared.survey.kinds.base import Question
from deniable.shared.survey.kinds.choice import Choice
from deniable.shared.survey.kinds.number import Number
from deniable.shared.survey.kinds.text import Text
from deniable.shared.survey.participation import answered_per_block
from deniable.shared.survey.questions import Follows

BAND_CONFIDENCE = 0.8
QUANTILES = tuple(str(level) for level in LEVELS)  # the options that results show
EPSILON_STEP = 10**6  # billionths: three decimals
KEPT = (
    *("name", "languages", "title", "purpose", "owner", "opens", "closes", "round", "grace_days"),
    *("retention_days", "minimum_reports", "show_when", "sealed_to", "looks"),
)  # keys of the first survey
MAX_DAYS = 90  # for which a follow-up is drafted
SIGNIFICANT_DIGITS = 12  # of the ends of a range

Chosen = Mapping[str, Any]  # keys of a question in a survey file; Any: TOML values


@dataclass(frozen=True)
class Choices:
    """Questions of the follow-up, and why the other questions are left out, by name."""

    questions: Mapping[str, Chosen]
    left_out: Mapping[str, str]


def follow_up(survey: Survey, tally: RoundTally, quantile: str) -> Choices:
    """Choose the questions from the counts of one round."""
    questions, left_out = dict[str, Chosen](), dict[str, str]()
    confidence = final_reading(survey.looks).confidence
    for question in survey.questions:
        reports, cells = tally.of(survey, question)
        choose = RULES.get(question.kind, _left_out) if reports else _no_report
        chosen = choose(question, reports, cells, confidence, float(quantile))
        if isinstance(chosen, str):
            left_out[question.name] = chosen
        else:
            questions[question.name] = chosen
    return Choices(questions, left_out)


def follows(identifier: str, tally: RoundTally, quantile: str) -> Follows:
    """Return what a follow-up survey states about how its questions were chosen."""
    counted = json.dumps([identifier, tally.round, tally.reports, tally.cells.tolist()])
    digest = hashlib.sha256(counted.encode()).hexdigest()
    return Follows(identifier, f"quantile {quantile} of round {tally.round}", digest)


def rule_of(followed: Follows) -> tuple[str, int]:
    """Return the quantile and the round of a rule."""
    _, quantile, _, _, number = followed.rule.split()
    return quantile, int(number)


def mismatch(draft: Survey, survey: Survey, tally: RoundTally | None) -> str | None:
    """Return how a follow-up survey differs from what these counts lead to, or None.

    An option may continue a text that was found, because long texts are counted without their ends.
    """
    assert draft.follows is not None, "callers check that the survey follows another"
    quantile, _ = rule_of(draft.follows)
    if tally is None or follows(draft.follows.survey, tally, quantile) != draft.follows:
        return "the counts of that round have another digest"
    made = follow_up(survey, tally, quantile).questions
    for question in draft.questions:
        asked, chosen = question.fields(), made.get(question.name, {})
        same = question.kind == chosen.get("kind") and all(
            asked.get(key) == chosen.get(key) for key in ("low", "high")
        )
        options, found = asked.get("options", []), chosen.get("options", [])
        pairs = zip(options, found, strict=False)
        if not (same and len(options) == len(found) and all(o.startswith(f) for o, f in pairs)):
            return f"the counts lead to another question {question.name}"
    return None


# The rules: keys of a question in a survey file, or why the question is left out


def _no_report(*_: object) -> str:
    return "no one answered it"


def _left_out(question: Question, *_: object) -> str:
    return f"a {question.kind} cannot be asked more precisely"


def _among_texts(
    question: Text, reports: int, cells: Cells, confidence: float, _: float
) -> Chosen | str:
    texts = [text.label for text in estimates(question, cells, reports, confidence)]
    found = [text for text in texts if text.strip()]  # an option cannot be blank
    return _choice(found, "other") if found else "no text is common enough to be found"


def _among_clear_options(
    question: Choice, reports: int, cells: Cells, confidence: float, _: float
) -> Chosen | str:
    estimator = ESTIMATORS[question.estimation](question, cells[None], np.array([reports]))
    made = estimator.statements(confidence)
    clear = dict(zip(question.options, made.estimate[0] >= made.floor[0], strict=True))
    named = [option for option in question.options if option != question.other]
    kept = [option for option in named if clear[option]]
    if not kept:
        return "no option is clearly above zero"
    if len(kept) + 1 >= len(question.options):
        return "no two of its options could be merged"
    return _choice(kept, question.other or "other")


def _on_band(question: Number, reports: int, cells: Cells, _: float, level: float) -> Chosen | str:
    table, first = question.mechanism, float(question.range[0])
    parts = informative_parts(table, reports, BAND_CONFIDENCE)
    if parts is None:
        return "its reports are too few or too coarse for a distribution"
    low, high = band(table, cells[None].astype(np.float64), parts, BAND_CONFIDENCE)
    ends = quantile_interval(level, low[0], high[0])
    if ends == (0.0, 1.0):
        return "its quantile may be anywhere in the range"
    below, above = (float(f"{first + question.span * end:.{SIGNIFICANT_DIGITS}g}") for end in ends)
    return {"kind": Number.kind, "low": below, "high": above}


def _choice(kept: Sequence[str], other: str) -> Chosen:
    while other in kept:
        other = f"any {other}"
    return {"kind": Choice.kind, "options": [*kept, other], "other": other}


# Any: each function takes the questions of its kind
RULES: Mapping[str, Callable[[Any, int, Cells, float, float], Chosen | str]] = {
    Text.kind: _among_texts,
    Choice.kind: _among_clear_options,
    Number.kind: _on_band,
}


# The draft


def epsilons(survey: Survey, names: Sequence[str], budget: int, opens: date) -> dict[str, str]:
    """Return the ε of each question, within what is left of a budget in billionths."""
    spent = spent_before(survey, budget, opens)
    asked = {name: survey.costs[name] for name in names}
    left, total = budget - spent, sum(asked.values())
    if total <= left:
        return {name: decimal_text(cost) for name, cost in asked.items()}
    scaled = {
        name: cost * max(0, left) // total // EPSILON_STEP * EPSILON_STEP
        for name, cost in asked.items()
    }
    if not all(scaled.values()):
        raise Refused(
            f"people who answered {survey.name} may have spent ε {decimal_text(spent)} in this "
            f"quarter, and the budget is ε {decimal_text(budget)}, so nothing is left: ask again "
            "in a later quarter, or give --budget, the ε that your app allows a survey in a quarter"
        )
    return {name: decimal_text(cost) for name, cost in scaled.items()}


def spent_before(survey: Survey, budget: int, opens: date) -> int:
    """Return the largest ε that a person has spent on the survey in the quarter of a day."""
    if quarter_of(opens) > quarter_of(survey.closes):
        return 0
    return max(answered_per_block(survey, budget)) * survey.round_billionths


def drafted(
    published: PublishedSurvey,
    tally: RoundTally,
    quantile: str,
    choices: Choices,
    epsilon: Mapping[str, str],
    budget: int,
    opens: date,
) -> str:
    """Return the survey file, with comments."""
    survey, chosen = published.survey, follows(published.id, tally, quantile)
    document = json.loads(published.document)
    first = document["survey"]
    table = {key: first[key] for key in first if key in KEPT} | {
        "opens": opens,
        "closes": opens + min(survey.closes - survey.opens, timedelta(days=MAX_DAYS)),
        "round": "once",
        **chosen.fields(),
    }
    cost = sum(Epsilon(text).billionths for text in epsilon.values())
    spent = spent_before(survey, budget, opens)
    allowed, before, asked, left = map(decimal_text, (budget, spent, cost, budget - spent - cost))
    reports = quantity(tally.reports, "report")
    comments = (
        f"Follow-up of {survey.name}, by {reports} of its round {tally.round}.",
        *(f"Left out: {name}, because {why}." for name, why in choices.left_out.items()),
        f"An app allows a survey ε {allowed} in a quarter. People who answered before have spent",
        f"at most ε {before} of it, this survey costs ε {asked}, and ε {left} is left.",
        "Its intervals are about exactly its respondents, because results chose its questions.",
    )
    parts = [_table("[survey]", table, comments)]
    for asked in document["question"]:
        if fields := choices.questions.get(name := asked["name"]):
            fields = {"name": name, **fields, "epsilon": epsilon[name]}
            expected = _expected(fields, survey, tally.reports)
            texts = _texts(asked, fields.get("options", ()))
            parts.append(_table("[[question]]", {**fields, **texts}, [expected]))
    return "\n".join(parts)


def _texts(asked: Chosen, options: Sequence[str]) -> Chosen:
    """Return the texts of the first survey's question, with labels for these options."""

    def chosen(labels: Sequence[str]) -> list[str]:
        called = dict(zip(asked["options"], labels, strict=True))
        return [called.get(option, option) for option in options]

    texts = {key: asked[key] for key in ("title", "unit") if key in asked}
    labels = asked.get("labels")
    if isinstance(labels, dict):
        return texts | {"labels": {tag: chosen(part) for tag, part in labels.items()}}
    return texts | ({"labels": chosen(labels)} if labels else {})


def _expected(fields: Chosen, survey: Survey, people: int) -> str:
    """Describe the precision to expect if the same number of people answer."""
    question, confidence = read(fields), final_reading(survey.looks).confidence
    again = f"If {quantity(people, 'person answers', 'people answer')} again:"
    table = ESTIMATORS[question.estimation].table(question)
    if table is None:
        margin = 100 * Expected(question, None, confidence).margin(people)
        return f"{again} each share is known to about {margin:.2g} points either way."
    parts = informative_parts(table, people, confidence)
    return f"{again} the distribution divides this range into {quantity(parts or 0, 'part')}."


def _table(head: str, keys: Mapping[str, Any], comments: Sequence[str]) -> str:
    lines = [f"# {comment}" for comment in comments] + [head]
    lines += [f"{key} = {_toml(value)}" for key, value in keys.items()]
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    """Return a value of a survey file: lists and texts as in JSON."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key} = {_toml(part)}' for key, part in value.items())}}}"
    return str(value) if isinstance(value, date) else json.dumps(value, ensure_ascii=False)
