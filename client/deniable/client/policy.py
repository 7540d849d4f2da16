"""The app's policy: the surveys that it answers, and the largest budget (ε) it will ever spend.

The policy ships with the app's code. A survey may ask for less, never for more, and a server cannot
change the policy.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from deniable.shared.errors import InvalidEpsilon, InvalidPolicy
from deniable.shared.privacy.epsilon import decimal_text, parse_billionths
from deniable.shared.survey.kinds import KINDS  # imports a kind only when it is used
from deniable.shared.survey.participation import (
    LIFETIME,
    MAX_EPSILON,
    MAX_EPSILON_PER_SURVEY,
    QUARTER,
    drawn_rounds,
)

if TYPE_CHECKING:
    from deniable.shared.privacy.mechanism import Draw
    from deniable.shared.survey.document import Survey

_HEX = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Policy:
    """Limits that an app sets.

    keys                      raw Ed25519 public keys in hex; only surveys that they signed are
                              answered
    max_epsilon_per_round     the maximum ε of one survey in one round
    max_epsilon_per_survey    the maximum ε of one survey name and signing key in each quarter. The
                              smallest cap decides in how many rounds of it an install answers
    max_epsilon               the maximum ε that this install, or each person, spends in each
                              quarter. On the first day of the next quarter, it is renewed
    max_epsilon_per_question  the same for each question name, over all surveys: republishing a
                              question must not refill its budget
    per                       "quarter"; with "lifetime", the caps hold for ever, every round is
                              answered until they are reached, and none after that
    questions                 the questions that the app answers, by name, with the kind of each:
                              "bit", "number", "choice", "text" or "vector". A survey that asks for
                              one of them as another kind is refused before any value is examined
    labels                    the names of the labels that may be sent in clear with a report. A
                              survey that declares another one is refused, unless the device draws
                              it (arms)
    surveys                   ids, if the app answers only those surveys: the only protection
                              against a server that shows different people different surveys
    """

    keys: Collection[str]
    max_epsilon_per_round: str = "2"
    max_epsilon_per_survey: str = MAX_EPSILON_PER_SURVEY
    max_epsilon: str = MAX_EPSILON
    max_epsilon_per_question: str | None = None
    per: str = QUARTER
    surveys: Collection[str] | None = None
    questions: Mapping[str, str] | None = None
    labels: Collection[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "keys", _hex_texts("keys", self.keys, "deniable keys show FILE"))
        if self.surveys is not None:
            pinned = _hex_texts("surveys", self.surveys, "deniable survey list")
            object.__setattr__(self, "surveys", pinned)
        if self.questions is not None:
            object.__setattr__(self, "questions", _kinds(self.questions))
        object.__setattr__(self, "labels", _label_names(self.labels))
        if self.per not in (QUARTER, LIFETIME):
            raise InvalidPolicy(f'per: write "{QUARTER}" or "{LIFETIME}", got {self.per!r}')
        _ = self.round_cap, self.survey_cap, self.total_cap  # refuse mistakes here, not later
        _ = self.question_cap

    @cached_property
    def round_cap(self) -> int:
        """`max_epsilon_per_round` in billionths."""
        return _cap("max_epsilon_per_round", self.max_epsilon_per_round)

    @cached_property
    def survey_cap(self) -> int:
        """`max_epsilon_per_survey` in billionths."""
        return _cap("max_epsilon_per_survey", self.max_epsilon_per_survey)

    @cached_property
    def total_cap(self) -> int:
        """`max_epsilon` in billionths."""
        return _cap("max_epsilon", self.max_epsilon)

    @cached_property
    def question_cap(self) -> int | None:
        """`max_epsilon_per_question` in billionths, if there is one."""
        if self.max_epsilon_per_question is None:
            return None
        return _cap("max_epsilon_per_question", self.max_epsilon_per_question)

    @property
    def renews(self) -> bool:
        """True if the caps hold for a quarter, and rounds are drawn so that the budget lasts."""
        return self.per == QUARTER

    def excess(self, survey: Survey) -> str | None:
        """Return why the ε of one round of a survey is above a cap, or None."""
        asked = survey.round_billionths
        for cap, extent in ((self.round_cap, "in one round"), (self.survey_cap, "for one survey")):
            if asked > cap:
                return (
                    f"survey {survey.name!r} asks for ε {decimal_text(asked)} in one round, and "
                    f"the app allows {decimal_text(cap)} {extent}"
                )
        return None

    def budget_of(self, survey: Survey) -> int:
        """Return the ε of a survey in one quarter that every cap allows, for at least one round.

        Otherwise a smaller cap would end the quarter early for installs that answered before.
        """
        cost = survey.round_billionths
        caps = [(self.survey_cap, cost), (self.total_cap, cost)]
        if self.question_cap is not None:
            caps += ((self.question_cap, asked) for asked in survey.costs.values())
        return max(1, min(cap // asked for cap, asked in caps)) * cost

    def answered_rounds(self, survey: Survey, number: int, key: bytes) -> Iterator[int]:
        """Yield the rounds, or first rounds of spans, that a person answers, from this one on.

        They are drawn from the person's key, unless the caps hold for ever.
        """
        if self.renews:
            return drawn_rounds(survey, number, key, self.budget_of(survey))
        first = survey.span_of(number).start
        return iter(range(first, survey.last_round + 1, survey.repeat_rounds))

    def allows(self, survey: str) -> bool:
        """Return whether the policy pins this survey, or none at all."""
        return self.surveys is None or survey in self.surveys

    def undeclared(self, names: Collection[str]) -> str | None:
        """Return the first name that the app has not declared, if it declares its questions."""
        declared = names if self.questions is None else self.questions
        return next((name for name in names if name not in declared), None)

    def mismatch(self, kinds: Mapping[str, str]) -> str | None:
        """Return how the survey's kinds differ from those that the app declares, or None."""
        for name, kind in kinds.items():
            declared = kind if self.questions is None else self.questions.get(name)
            if declared != kind:
                difference = f"declares a {declared}" if declared else "does not declare it"
                return f"question {name!r} is asked as a {kind}, and the app {difference}"
        return None

    def unlabelled(self, survey: Survey) -> str | None:
        """Return why a survey's labels may not be sent, or None."""
        for label in survey.labels:
            if not label.is_drawn and label.name not in self.labels:
                return (
                    f"survey {survey.name!r} sends the label {label.name!r}, which the app forbids"
                )
        return None

    def checked_labels(self, labels: Mapping[str, str]) -> Mapping[str, str]:
        """Return the app's labels; raise InvalidPolicy for those that it may not send."""
        if not isinstance(labels, Mapping):
            raise InvalidPolicy('labels: give each label its value, like labels={"version": "3.0"}')
        for name, value in labels.items():
            from deniable.shared.survey.labels import value_problem  # most apps set no label

            problem = value_problem(value) if name in self.labels else "is not named in the policy"
            if problem:
                raise InvalidPolicy(f"labels: {name!r} {problem}")
        return dict(labels)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the trusted keys and surveys: a list cached under another policy is not used."""
        trusted = " ".join([*sorted(self.keys), "|", *sorted(self.surveys or ())])
        return hashlib.sha256(trusted.encode()).hexdigest()[:16]


class Settings(NamedTuple):
    """The arguments of a client that several of its parts need."""

    server: str  # URL of the server
    policy: Policy
    now: Callable[[], datetime]
    monotonic: Callable[[], float]
    draw: Draw
    timeout: float  # seconds for one exchange
    send_within: float  # seconds
    relayed: bool  # whether only sealed surveys are answered


def _kinds(questions: Mapping[str, str]) -> Mapping[str, str]:
    if not questions or not hasattr(questions, "items"):
        raise InvalidPolicy(
            'questions: give each question its kind, like questions={"crashed": "bit"}; '
            f"the kinds are {', '.join(KINDS)}"
        )
    for name, kind in questions.items():
        if kind not in KINDS:
            raise InvalidPolicy(
                f"questions: the kind of {name!r} is one of {', '.join(KINDS)}; got {kind!r}"
            )
    return {str(name): str(kind) for name, kind in questions.items()}


def _label_names(names: object) -> Collection[str]:
    listed = names if isinstance(names, Collection) and not isinstance(names, str | bytes) else [""]
    if not all(isinstance(name, str) and name for name in listed):
        raise InvalidPolicy('labels: give a list of names, like labels=["version"]')
    return tuple(map(str, listed))


def _cap(name: str, text: object) -> int:
    if not isinstance(text, str):
        raise InvalidPolicy(
            f'{name}: write the cap as decimal text, like {name}="2", which is exact; '
            f"got {type(text).__name__}"
        )
    try:
        cap = parse_billionths(text)
    except InvalidEpsilon as error:
        raise InvalidPolicy(f"{name}: {error}") from None
    if cap == 0:
        raise InvalidPolicy(f"{name}: a cap of 0 allows no report; create no client instead")
    return cap


def _hex_texts(name: str, texts: Collection[object], source: str) -> tuple[str, ...]:
    listed = () if isinstance(texts, (str, bytes)) else tuple(texts)
    if not listed:
        raise InvalidPolicy(f'{name}: give a list of hex texts, like {name}=["…"]; see: {source}')
    for text in listed:
        if not isinstance(text, str) or not _HEX.fullmatch(text.lower()):
            raise InvalidPolicy(f"{name}: give 64 hex digits for each; got {text!r}; see: {source}")
    return tuple(str(text).lower() for text in listed)
