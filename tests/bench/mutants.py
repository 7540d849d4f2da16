"""Small faults in a source text, one at a time, for `mutate.py` to plant.

A fault shifts or reverses a comparison, changes a number by one, swaps + and - or `and` and `or`,
negates a condition, or removes a statement. It never touches type annotations and docstrings, which
do not run, or assertions, which rule out states that never occur.
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

# Mutants that no test can detect, because they are equivalent: the reason, and the changed lines.
EQUIVALENT = {
    "a search begins there, and continues until it is certain": (
        "FIRST_PRECISION = (191)",
        "FIRST_PRECISION = (193)",
        "bits *= (3)",
        "nearest, farthest = np.log(-below[:, 0] / total / (1001)), np.log(centre + 10 * spread)",
        "nearest, farthest = np.log(-below[:, 0] / total / (999)), np.log(centre + 10 * spread)",
        "nearest, farthest = np.log(-below[:, (1)] / total / 1000), np.log(centre + 10 * spread)",
    ),
    "more digits than are kept, or the last of those that are": (
        "PROOF_PRECISION = (383)",
        "PROOF_PRECISION = (385)",
        "ODDS_PRECISION_BITS = (127)",
        "ODDS_PRECISION_BITS = (129)",
        "context = Context(prec=(59))",
        "context = Context(prec=(61))",
        "VALUE_BITS = (95)",
        "VALUE_BITS = (97)",
        "adjacent = (vector[i - 1] if i > 0 else (1)) + (vector[i + 1] if i < last else 0)",
        "adjacent = (vector[i - 1] if i > 0 else (-1)) + (vector[i + 1] if i < last else 0)",
        "adjacent = (vector[i - 1] if i > 0 else 0) + (vector[i + 1] if i < last else (1))",
        "adjacent = (vector[i - 1] if i > 0 else 0) + (vector[i + 1] if i < last else (-1))",
    ),
    "the number of reports scales what is compared, and so does not change which is least": (
        "return mechanism.predicted_error((2))",
    ),
    "the sides are never equal: e^ε is no ratio, and 0.001 % no multiple of 2^-64": (
        "return (larger << bits < exp_interval(*epsilon.ratio, bits).low * smaller)",
        'return f"{share:.3g} %" if (share > 0.001) else "under 0.001 %"',
    ),
    "(a - b)^2 is (a + b)^2 less 4 a b: over a b, least for the same size": (
        "return ((d * end - (options - d << PRECISION))) ** 2",
    ),
    "10.0 is written 10, as is the whole number": (
        "if (tenths <= 100):",
        "if tenths < (101):",
    ),
    "a share that equals the excess becomes 0 either way, and leaves the excess as it is": (
        "positive = np.count_nonzero((descending >= excess), axis=-1, keepdims=True)",
    ),
    "reports are counted in another way, or in other portions: to the same counts": (
        "if (encoding.cells < FEW_SYMBOLS):",
        "FEW_SYMBOLS, FEW_ROWS = (2), 1_024",
        "FEW_SYMBOLS, FEW_ROWS = (4), 1_024",
        "FEW_SYMBOLS, FEW_ROWS = 3, (1023)",
        "FEW_SYMBOLS, FEW_ROWS = 3, (1025)",
        "if (len(column) < FEW_ROWS):",
        "if (not (len(column) <= FEW_ROWS)):",
        "ROWS = (254)",
    ),
    "where it differs, its result is not used": (
        "low = beta_quantile(np.maximum(successes, (0)), trials - successes + 1, tail)",
        "high = beta_quantile(successes + 1, np.maximum(failures, (0)), 1 - tail)",
    ),
    "of one, or of several that are alike, the last is the first": (
        "published, number = uploads[(-1)].survey, uploads[0].round",
        "published, number = uploads[0].survey, uploads[(-1)].round",
        "return counts[(-1)] if len(counts) == 1 else np.concatenate(counts)",
        'symbols = np.ascontiguousarray(columns).view(f"<u{columns.shape[1]}")[:, (-1)]',
    ),
}


@dataclass(frozen=True)
class Mutant:
    """Fault: its first line, the affected lines before and after, and the whole faulty text."""

    line: int
    before: str
    after: str
    source: str


def mutants(source: str) -> Iterator[Mutant]:
    r"""Return every mutant of the source.

    >>> print(*(mutant.after for mutant in mutants("a = 1 if b < c else d")), sep="\n")
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
            line = (encoded[first:begin] + middle + encoded[end:last]).decode()
            return " ".join(line.split()).partition(" # ")[0]  # the comment may differ

        changed = encoded[:begin] + after.encode() + encoded[end:]
        before = shown(encoded[begin:end])
        return Mutant(node.lineno, before, shown(after.encode()), changed.decode())

    for node in _nodes(ast.parse(source)):
        for node_part, after in _faults(node):
            yield replaced(node_part, after)


def _nodes(tree: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    match tree:
        case ast.Assert() | ast.JoinedStr() | ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return
    if isinstance(tree, ast.expr | ast.stmt):
        yield tree
    for field, value in ast.iter_fields(tree):
        if field not in LEFT_ALONE:
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _nodes(child)


def _faults(node: ast.expr | ast.stmt) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """Yield each part to replace, and its replacement."""
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            yield from ((node, f"({number + 1!r})"), (node, f"({number - 1!r})"))
        case ast.Compare(ops=ops):
            for index, op in enumerate(ops):
                swapped = [*ops[:index], SWAPPED[type(op)](), *ops[index + 1 :]]
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
