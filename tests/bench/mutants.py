"""Small faults in a source text, one at a time: what `mutate.py` plants.

A comparison turned at its edge or around, a whole or broken number one off, + for -, `and` for
`or`, a condition turned into its opposite, a statement left out. Annotations, docstrings and
assertions (which state what cannot be) are left alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass

SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
LEFT_ALONE = ("annotation", "returns", "type_params")


@dataclass(frozen=True)
class Mutant:
    """Lines of the file from `line` on, joined; `source` is the whole text with the fault."""

    line: int
    before: str
    after: str
    source: str


def mutants(source: str) -> Iterator[Mutant]:
    """
    >>> print(*(mutant.after for mutant in mutants("a = 1 if b < c else d")), sep="\\n")
    a = 1 if (not (b < c)) else d
    a = 1 if (b <= c) else d
    a = (2) if b < c else d
    a = (0) if b < c else d
    """
    encoded, lines = source.encode(), [0]
    for text in encoded.splitlines(keepends=True):
        lines.append(lines[-1] + len(text))

    def replaced(node: ast.expr | ast.stmt, after: str) -> Mutant:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        begin = lines[node.lineno - 1] + node.col_offset
        end = lines[node.end_lineno - 1] + node.end_col_offset
        first, last = lines[node.lineno - 1], lines[node.end_lineno]

        def shown(middle: bytes) -> str:
            return " ".join((encoded[first:begin] + middle + encoded[end:last]).decode().split())

        changed = encoded[:begin] + after.encode() + encoded[end:]
        before = shown(encoded[begin:end])
        return Mutant(node.lineno, before, shown(after.encode()), changed.decode())

    for node in _nodes(ast.parse(source)):
        for place, after in _faults(node):
            yield replaced(place, after)


def _nodes(tree: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    if isinstance(tree, ast.Assert | ast.JoinedStr):
        return
    if isinstance(tree, ast.expr | ast.stmt):
        yield tree
    for field, value in ast.iter_fields(tree):
        if field not in LEFT_ALONE:
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _nodes(child)


def _faults(node: ast.expr | ast.stmt) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """What to replace, and by what."""
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            yield from ((node, f"({number + 1!r})"), (node, f"({number - 1!r})"))
        case ast.Compare(ops=ops):
            for place, op in enumerate(ops):
                swapped = [*ops[:place], SWAPPED[type(op)](), *ops[place + 1 :]]
                yield node, _text(node, ops=swapped)
        case ast.BinOp(op=op) | ast.BoolOp(op=op) if type(op) in SWAPPED:
            yield node, _text(node, op=SWAPPED[type(op)]())
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            yield test, f"(not ({ast.unparse(test)}))"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield node, f"({ast.unparse(operand)})"
        case ast.Expr(value=ast.Constant()):
            return  # a docstring
        case ast.Expr() | ast.AugAssign() | ast.Raise() | ast.Delete():
            yield node, "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield node, "pass"
        case _:
            return


def _text(node: ast.expr, **changed: object) -> str:
    twin = copy(node)
    for field, value in changed.items():
        setattr(twin, field, value)
    return f"({ast.unparse(twin)})"
