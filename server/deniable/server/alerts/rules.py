"""Alert rules such as `crashed > 5 %`, judged by intervals, and the file that lists them.

A rule holds only if the whole interval, usually that for the population, lies beyond the bound.
The intervals of a round hold however often it is read, as its `looks` allow, so evaluating a rule
often does not cause additional false alarms.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from deniable.server.results.display import STYLES, Figures, figures
from deniable.server.results.document import About, Results, Round
from deniable.shared.errors import WrongUse

EXAMPLE = 'write it like "crashed > 5 %", "minutes < 30" or "browser.safari > 0.2"'
MAX_WATCHED_ROUNDS = 32  # newest rounds that alerts look at
FORGED = " (this round contains forged reports)"
MAX_NAMED = 8  # largest number of labels that a message lists
_RULE = re.compile(
    r"\s*(?P<question>[A-Za-z_][A-Za-z0-9_]*)(?:\.(?P<label>.+?))?\s*(?P<side>[<>])"
    r"\s*(?P<bound>[-+−]?(?:\d[\d,]*)?\.?\d+)\s*(?P<unit>[^<>]*?)\s*"
)


@dataclass(frozen=True)
class Verdict:
    """Rule, judged in one round."""

    rule: Rule
    period: Round
    figures: Figures
    bound: float  # in the statistic's units
    people: str

    @property
    def holds(self) -> bool:
        """Return whether the whole interval lies beyond the bound."""
        shown = self.figures
        return shown.low > self.bound if self.rule.above else shown.high < self.bound

    @property
    def is_refuted(self) -> bool:
        """Return whether the whole interval lies on the other side of the bound."""
        shown = self.figures
        return shown.high <= self.bound if self.rule.above else shown.low >= self.bound

    @property
    def sentence(self) -> str:
        shown, period = self.figures, self.period
        first, last = period.first_day, period.last_day
        days = first if first == last else f"{first} to {last}"
        repeated = ", for repeated looks" if period.any_time else ""
        return (
            f"{self.rule.subject} is {shown.whole} in round {period.round} ({days}); the interval "
            f"for the {self.people} is {shown.interval}{repeated}{FORGED if period.warning else ''}"
        )


@dataclass(frozen=True)
class Rule:
    """Question, or one label of it, and a bound on its estimate."""

    question: str
    label: str
    above: bool
    bound: float
    unit: str
    text: str

    @classmethod
    def parse(cls, text: str) -> Rule:
        if (match := _RULE.fullmatch(text)) is None:
            raise WrongUse(f"cannot read the rule {text!r}; {EXAMPLE}")
        bound = float(match["bound"].replace(",", "").replace("−", "-"))
        above, unit = match["side"] == ">", match["unit"]
        return cls(match["question"], match["label"] or "", above, bound, unit, text.strip())

    @property
    def subject(self) -> str:
        return f"{self.question}.{self.label}" if self.label else self.question

    def check(self, about: Mapping[str, About]) -> float:
        """Return the bound in the statistic's units; raise WrongUse if the rule does not fit."""
        if (facts := about.get(self.question)) is None:
            raise WrongUse(f"no question is named {self.question!r}; there are: {', '.join(about)}")
        if facts.kind == "text":
            raise WrongUse("a text cannot be judged, because its interval holds for one look only")
        style = STYLES[facts.statistic]
        unit = style.behind(facts.unit).strip()
        if self.unit and self.unit != unit:
            measured = f"is measured in {unit}" if unit else "has no unit"
            raise WrongUse(f"{self.question} {measured}, so the bound cannot be in {self.unit}")
        bound = self.bound / style.factor if self.unit else self.bound
        if facts.statistic == "share" and not 0 <= bound <= 1:
            raise WrongUse(
                "a share is from 0 to 1, or from 0 % to 100 %; for 5 %, write 0.05 or 5 %"
            )
        return bound

    def judge(self, results: Results, period: Round) -> Verdict | None:
        """Judge the rule in one round; return None without an estimate."""
        bound, about = self.check(results.about), results.about[self.question]
        rows = {row.label: row for row in period.questions[self.question]}
        listed = ", ".join(f"{self.question}.{label}" for label in [*rows][:MAX_NAMED])
        if not self.label and len(rows) > 1:
            raise WrongUse(f"{self.question} has several labels; name one: {listed}")
        if self.label and self.label not in rows:
            if self.question in (period.rows_left_out or {}):
                return None
            raise WrongUse(f"{self.question} has no label {self.label!r}; there are: {listed}")
        row = rows[self.label] if self.label else next(iter(rows.values()))
        shown = figures(row, about.statistic, about.unit)
        people = about.people or "population"
        return Verdict(self, period, shown, bound, people) if shown else None


def newest_verdict(rule: Rule, results: Results, rounds: Sequence[Round]) -> Verdict | None:
    """Judge a rule in the newest of these rounds, oldest first, that has an estimate."""
    rule.check(results.about)
    verdicts = (rule.judge(results, period) for period in reversed(rounds))
    return next(filter(None, verdicts), None)


# The file for `deniable serve --alerts`


class SurveyRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    survey: str
    when: str


class AlertSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Contents of the file."""

    webhook: str = ""  # without it, alerts are only logged
    silent_rounds: Annotated[int, Meta(ge=0, le=MAX_WATCHED_ROUNDS)] = (
        2  # rounds without reports that count as silence; 0: never
    )
    rule: tuple[SurveyRule, ...] = ()

    def rules(self) -> Iterator[tuple[str, Rule]]:
        """Yield each rule with the name or id of its survey."""
        for listed in self.rule:
            yield listed.survey, Rule.parse(listed.when)


def read_alerts(path: Path) -> AlertSettings:
    """Read the file; raise WrongUse if it is unreadable or a rule is invalid."""
    try:
        settings = msgspec.toml.decode(path.read_bytes(), type=AlertSettings)
    except (OSError, ValueError) as error:
        raise WrongUse(f"{path}: {error}") from None
    for _ in settings.rules():  # parses each
        pass
    return settings
