"""Questions and options of a survey document: strict parsing, proof of privacy, and output.

`cross = [["crashed", "browser"]]` names pairs of questions that the server counts together: how
often each symbol of one occurs with each symbol of the other. The reports stay the same, so this
costs no further ε.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from deniable.shared.errors import InvalidEpsilon, InvalidSurvey
from deniable.shared.privacy.epsilon import Epsilon
from deniable.shared.survey.keys import SEALING_KEY_FORM, checked_public
from deniable.shared.survey.kinds import KINDS
from deniable.shared.survey.kinds.base import Labels, Over, Question
from deniable.shared.survey.reader import Reader

TINY = Epsilon("0.000001")
QUESTION_TEXTS = ("title", "unit", "labels")

Names = tuple[str, str]
RESERVED = ("of",)  # `answer(survey, of="ended")`
OVERS: dict[str, Over] = {"first": "first", "last": "last", "any": "any", "all": "all"}

MAX_TITLE_CHARACTERS, MAX_UNIT_CHARACTERS, MAX_LABEL_CHARACTERS = 200, 20, 100
MAX_ROUNDS = 10_000
MAX_PAIRS = 10
FOLLOWS_KEYS = ("follows", "follows_rule", "follows_tally")
DIGEST = re.compile("[0-9a-f]{64}")
FOLLOWS_RULE = re.compile(r"quantile 0\.[0-9]{1,9} of round (0|[1-9][0-9]{0,8})")
SHOW_WHEN = re.compile("± ([1-9]|[1-4][0-9]|50) points")
LARGEST_CHANGE = re.compile(r"(0\.\d?[1-9]|[1-9]\d?(?:\.\d?[1-9])?) points", re.ASCII)
USUAL_MARGIN = 25  # an interval then covers half of a question's range
MAX_PAIR_CELLS = 1_024  # limit on the product of the two questions' cells


def parse_question(reader: Reader, usual: Over | None = "first") -> Question:
    """Parse a question's table; `usual_mechanism` chooses the defaults.

    `usual` is the default of `over`; None stands for that of the question's kind.
    """
    name, kind = reader.name("name"), reader.one_of("kind", KINDS)
    if name in RESERVED:
        raise reader.error(
            "name", f"{name!r} has a meaning of its own in clients; use another name"
        )
    question = _parsed(KINDS[kind], reader, name)
    display, over = read_labels(reader, question), _over(reader, KINDS[kind], usual)
    question = replace(question, display=display, over=over)
    integers = reader.optional("integers", list)
    reader.done()
    if not question.mechanism.is_private():
        raise _not_private(reader.path, question)
    if integers is not None and integers != [str(i) for i in question.mechanism.integers]:
        named = f"{question.mechanism.name} at ε {question.epsilon}"
        problem = f"are not the probabilities of {named}; leave them out and publish again"
        raise reader.error("integers", problem)
    return question


def question_document(question: Question) -> dict[str, Any]:
    """Return the published form, with all choices and every probability in units of 2^-64."""
    return {**what_is_asked(question), **question.display.fields()}


def what_is_asked(question: Question) -> dict[str, Any]:
    """Return the published form without the texts for people."""
    return {
        "name": question.name,
        "kind": question.kind,
        "over": question.over,
        **question.fields(),
        "epsilon": str(question.epsilon),
        "mechanism": question.mechanism.name,
        "integers": [str(integer) for integer in question.mechanism.integers],
    }


def read_labels(reader: Reader, question: Question) -> Labels:
    """Parse the texts of a question."""
    title = _line(reader, "title", MAX_TITLE_CHARACTERS)
    unit = _line(reader, "unit", MAX_UNIT_CHARACTERS)
    if unit and not question.has_unit:
        raise reader.error("unit", f"applies only to a number, not to a {question.kind}; remove it")
    options = question.labels if "options" in question.fields() else ()
    return Labels(title, unit, _option_labels(reader, options))


def _over(reader: Reader, kind: type[Question], usual: Over | None) -> Over:
    if "over" not in reader:
        return usual or kind.usual_over
    named = reader.one_of("over", OVERS)
    if named not in kind.overs:
        problem = f"{named!r} applies only to bits; a {kind.kind} takes {' or '.join(kind.overs)}"
        raise reader.error("over", problem)
    return OVERS[named]


def _line(reader: Reader, key: str, limit: int) -> str:
    if key not in reader:
        return ""
    text = reader.text(key, f'write one line, like {key} = "..."')
    if len(text) > limit:
        raise reader.error(key, f"must have at most {limit} characters, got {len(text)}")
    return text


def _option_labels(reader: Reader, options: Sequence[str]) -> tuple[str, ...]:
    labels: list[Any] | None = reader.optional("labels", list)  # Any: a document may hold anything
    if labels is None:
        return ()
    if len(labels) != len(options):
        problem = f"must have one label for each of {len(options)} options, got {len(labels)}"
        raise reader.error("labels", problem)
    if not all(isinstance(label, str) and _is_label(label) for label in labels):
        problem = f"must be lines of 1 to {MAX_LABEL_CHARACTERS} characters each"
        raise reader.error("labels", problem)
    if len(set(labels)) < len(labels):
        raise reader.error("labels", "must differ from each other; two options have the same label")
    return tuple(labels)


def _is_label(text: str) -> bool:
    return bool(text.strip()) and len(text) <= MAX_LABEL_CHARACTERS and text.isprintable()


def read_cross(reader: Reader, questions: Sequence[Question]) -> tuple[Names, ...]:
    """Parse the pairs of questions that a survey counts together."""
    entries: list[Any] = reader.optional("cross", list) or []  # Any: a document may hold anything
    if len(entries) > MAX_PAIRS:
        raise reader.error("cross", f"must have at most {MAX_PAIRS} pairs, got {len(entries)}")
    by_name = {question.name: question for question in questions}
    pairs: list[Names] = []
    for entry in entries:
        first, second = _pair(reader, entry, by_name)
        if (first, second) in pairs or (second, first) in pairs:
            raise reader.error("cross", f"{first} and {second} are repeated; name each pair once")
        cells = by_name[first].mechanism.cells * by_name[second].mechanism.cells
        if cells > MAX_PAIR_CELLS:
            problem = f"{first} and {second} have {cells:,} combined counts, more than "
            advice = f"{MAX_PAIR_CELLS:,}; cross questions with fewer options"
            raise reader.error("cross", problem + advice)
        pairs.append((first, second))
    return tuple(pairs)


def read_asks_one(reader: Reader) -> bool:
    """Parse `ask`: return whether each install is asked one question, drawn at random."""
    ask: int | None = reader.optional("ask", int)
    if ask not in (None, 1):
        allowed = "1 (one question, drawn at random) or left out (all questions)"
        raise reader.error("ask", f"must be {allowed}; got {ask}")
    return ask == 1


def read_repeat_rounds(reader: Reader) -> int:
    """Parse `repeat_rounds`; 1 if neither key is given, so that each round has its own report."""
    if "repeat" in reader and reader.one_of("repeat", ("fresh", "latched")) == "latched":
        reader.take("repeat_rounds", int, "write the number of rounds, like repeat_rounds = 3")
        return reader.count("repeat_rounds", 2, 2, MAX_ROUNDS)
    if "repeat_rounds" in reader:
        problem = 'needs repeat = "latched"; add that, or remove this key'
        raise reader.error("repeat_rounds", problem)
    return 1


def read_show_when(reader: Reader) -> int | None:
    """Parse the planned margin of error at which estimates are shown, such as "± 10 points".

    A survey with neither this key nor `minimum_reports` has the usual margin.
    """
    if "show_when" not in reader:
        return None if "minimum_reports" in reader else USUAL_MARGIN
    text = reader.text("show_when", f'write a margin of error, like "± {USUAL_MARGIN} points"')
    if not (found := SHOW_WHEN.fullmatch(text)):
        raise reader.error("show_when", f'must be "± 1 points" to "± 50 points", got {text!r}')
    return int(found[1])


def read_most_change(reader: Reader) -> float | None:
    """Parse the largest change of a true value from one round to the next, such as "0.5 points"."""
    if "most_change" not in reader:
        return None
    text = reader.text("most_change", 'write a change, like "2 points"')
    if not (found := LARGEST_CHANGE.fullmatch(text)):
        problem = f'must be "0.01 points" to "99.99 points", got {text!r}'
        raise reader.error("most_change", problem)
    return float(found[1])


class Follows(NamedTuple):
    """Survey whose results chose this one's questions, with what is needed to check the choice."""

    survey: str  # its id
    rule: str  # parameters of the choice
    tally: str  # SHA-256 of the counts that it used

    def fields(self) -> dict[str, str]:
        """Return the keys of the document."""
        return dict(zip(FOLLOWS_KEYS, self, strict=True))


def read_follows(reader: Reader) -> Follows | None:
    """Parse `follows`, `follows_rule` and `follows_tally`, which belong together."""
    if not [key for key in FOLLOWS_KEYS if key in reader]:
        return None
    texts = [reader.text(key, "copy it from `deniable survey next`") for key in FOLLOWS_KEYS]
    forms = DIGEST, FOLLOWS_RULE, DIGEST
    for key, form, text in zip(FOLLOWS_KEYS, forms, texts, strict=True):
        if not form.fullmatch(text):
            raise reader.error(key, f"is not as `deniable survey next` writes it: {text!r}")
    return Follows(*texts)


def read_sealing_key(reader: Reader) -> str | None:
    """Parse the public key to which reports are sealed, if any."""
    key = "sealed_to"
    if key not in reader:
        return None
    return checked_public(reader.text(key, f"it {SEALING_KEY_FORM}"), f"{reader.path}.{key}")


def _pair(reader: Reader, pair: object, by_name: dict[str, Question]) -> Names:
    if not (isinstance(pair, list) and len(pair) == 2 and all(isinstance(x, str) for x in pair)):
        problem = 'must be a list of pairs of names, like [["crashed", "browser"]]'
        raise reader.error("cross", problem)
    for name in pair:
        if name not in by_name:
            raise reader.error("cross", f"no question is named {name!r}; correct the name")
        if not by_name[name].answer_labels:
            kind = by_name[name].kind
            raise reader.error("cross", f"{name!r} is a {kind}; cross bits and choices only")
    first, second = pair
    if first == second:
        raise reader.error("cross", f"{first!r} is crossed with itself; name two questions")
    return first, second


def _not_private(path: str, question: Question) -> InvalidSurvey:
    from deniable.shared.privacy.verification import refusal

    problem = refusal(question.mechanism)
    if question.epsilon < TINY:  # rounding reduces the diagonal of a fine table
        fix = "this ε is too small for a table this fine; use 0.000001 or more"
        return InvalidSurvey(f"{path}.epsilon", f"{problem}; {fix}")
    return InvalidSurvey(f"{path}.mechanism", f"{problem}; name another mechanism")


def _parsed(kind: type[Question], reader: Reader, name: str) -> Question:
    text = reader.take("epsilon", str, 'write decimal text, like epsilon = "0.5"')
    try:
        epsilon = Epsilon(text)
    except InvalidEpsilon as error:
        raise reader.error("epsilon", str(error)) from None
    try:
        return kind.parse(reader, name, epsilon)
    except InvalidSurvey:
        raise
    except ValueError as error:  # the mechanism does not support this size
        raise reader.error("mechanism", str(error)) from None
