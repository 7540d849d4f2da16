"""Formulas as they are written in docstrings, as MathML that browsers typeset without a script.

    relation    sums with = < > <= >= ≈ ~ -> , between
    sum         products with + - ± between
    product     powers side by side, with · or /: a / b c is a fraction over b, times c; what stands
                before the / is its numerator
    power       an atom with ^ and _, each followed by an atom; brackets after them are not shown
    atom        a number, a name, (relation), |relation|, √ atom

A name of one letter is a variable, a longer one a function or a word. Words with spaces stand in
quotes.

>>> mathml("V / n")
'<math display="block"><mrow><mfrac><mi>V</mi><mi>n</mi></mfrac></mrow></math>'
"""

from __future__ import annotations

import re
from html import escape

from deniable.shared.errors import WrongUse

WORD = re.compile(r'\s*("[^"]*"|\d[\d,]*(?:\.\d+)?|[^\W\d_]+[₀₁₂]?|<=|>=|->|[^\s])')
SHOWN = {"<=": "≤", ">=": "≥", "->": "→", "-": "−"}
RELATIONS = ("=", "<", ">", "<=", ">=", "≈", "~", "->", ",")


def mathml(text: str) -> str:
    """Raises WrongUse for what is no formula."""
    reader = _Reader(text)
    inside = reader.relation()
    if reader.next is not None:
        raise WrongUse(f"formula {text!r}: {reader.next!r} stands where nothing is expected")
    return f'<math display="block">{inside}</math>'


class _Reader:
    """By recursive descent: each method reads one thing, and returns its markup."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._words = WORD.findall(text)
        self._place = 0
        self._barred = False  # a bar closes what a bar opened: bars are not nested

    @property
    def next(self) -> str | None:
        return self._words[self._place] if self._place < len(self._words) else None

    def _take(self) -> str:
        word = self.next
        if word is None:
            raise WrongUse(f"formula {self._text!r} ends too early")
        self._place += 1
        return word

    def relation(self) -> str:
        parts = [self._sum()]
        while self.next in RELATIONS:
            sign = self._take()
            space = ' lspace="0" rspace="1em"' if sign == "," else ""
            parts += [f"<mo{space}>{escape(SHOWN.get(sign, sign))}</mo>", self._sum()]
        return f"<mrow>{''.join(parts)}</mrow>"

    def _sum(self) -> str:
        parts = [_sign(self._take())] if self.next in ("-", "±") else []
        parts.append(self._product())
        while self.next in ("+", "-", "±"):
            parts += [_sign(self._take()), self._product()]
        return "".join(parts)

    def _product(self) -> str:
        parts = [self._power()]
        ending = (None, *RELATIONS, ")", "+", "-", "±")
        while self.next not in ending and not (self.next == "|" and self._barred):
            if self.next == "/":
                self._take()
                parts = [f"<mfrac>{_one(parts)}{_bare(self._power())}</mfrac>"]
            elif self.next == "·":
                parts += [_sign(self._take()), self._power()]
            else:
                parts += ['<mspace width="0.17em"/>', self._power()]
        return "".join(parts)

    def _power(self) -> str:
        found = self._atom()
        while self.next in ("^", "_"):
            tag = "msup" if self._take() == "^" else "msub"
            found = f"<{tag}>{found}{_bare(self._atom())}</{tag}>"
        return found

    def _atom(self) -> str:
        word = self._take()
        if word == "(":
            inside = self.relation()
            self._close(")")
            return f"<mrow><mo>(</mo>{inside}<mo>)</mo></mrow>"
        if word == "|":
            self._barred = True
            inside = self.relation()
            self._close("|")
            self._barred = False
            return f'<mrow><mo stretchy="false">|</mo>{inside}<mo stretchy="false">|</mo></mrow>'
        if word == "√":
            return f"<msqrt>{_bare(self._atom())}</msqrt>"
        if word == "-":
            return f"<mrow>{_sign(word)}{self._power()}</mrow>"
        if word.startswith('"') and word != '"':
            return f"<mtext>{escape(word[1:-1])}</mtext>"
        if word[0].isdigit():
            return f"<mn>{escape(word)}</mn>"
        if word[0].isalpha() or word == "∞":
            return f"<mi>{escape(word)}</mi>"
        raise WrongUse(f"formula {self._text!r}: {word!r} begins nothing")

    def _close(self, wanted: str) -> None:
        if self._take() != wanted:
            raise WrongUse(f"formula {self._text!r}: {wanted} is missing")


def _sign(sign: str) -> str:
    return f"<mo>{SHOWN.get(sign, sign)}</mo>"


def _one(parts: list[str]) -> str:
    return _bare(parts[0]) if len(parts) == 1 else f"<mrow>{''.join(parts)}</mrow>"


OPEN, SHUT = "<mrow><mo>(</mo>", "<mo>)</mo></mrow>"


def _bare(markup: str) -> str:
    """Without the brackets around all of it, where a bar or a raised line groups already."""
    whole = markup.startswith(OPEN) and markup.endswith(SHUT)
    return markup[len(OPEN) : -len(SHUT)] if whole else markup
