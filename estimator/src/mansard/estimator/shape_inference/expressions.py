"""Names of dimensions that are sums and products of others: ``past_length + 1``.

Exporters write such names for dimensions that they derive. They are read as Python's
expressions (``ast``), restricted to whole numbers, names, ``+ - * / // % **``, brackets
and a few functions, as SymPy and PyTorch print them. ``/`` is exact: 7/2 is three and a
half, and floor(7/2) is 3.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

# Imported where a name is an expression, which few networks have: ``ast`` and ``fractions``.
if TYPE_CHECKING:
    import ast
    from fractions import Fraction

_LONGEST = 300  # characters: exporters write shorter ones, and it bounds the work
_DEEPEST = 30  # brackets within brackets
_LARGEST = 2**63
_HIGHEST = 64  # power
_NAME = r"[A-Za-z_][\w.]*"
_TOKEN = re.compile(rf"\s*([0-9]+|{_NAME}|//|\*\*|[-+*/%(),])")


class Expression(msgspec.Struct, frozen=True):
    """A name that can be computed. ``names`` are the dimensions that it consists of."""

    names: frozenset[str]
    tree: ast.expr
    aliases: Mapping[str, str]  # of names in ``tree``: those of dimensions may hold dots

    def evaluate(self, sizes: Mapping[str, int]) -> int | None:
        """The size, given one for each name; None if it is negative, a fraction or absurd."""
        try:
            result = self._value(self.tree, sizes)
        except (ArithmeticError, ValueError):
            return None
        return int(result) if 0 <= result <= _LARGEST and result == int(result) else None

    def _value(self, tree: ast.expr, sizes: Mapping[str, int]) -> Fraction:
        import ast
        from fractions import Fraction

        if isinstance(tree, ast.BinOp):
            function = _OPERATORS[type(tree.op).__name__]
            return Fraction(function(self._value(tree.left, sizes), self._value(tree.right, sizes)))
        if isinstance(tree, ast.UnaryOp):
            return -self._value(tree.operand, sizes)
        if isinstance(tree, ast.Call):
            _, _, call = _FUNCTIONS[self._called(tree)]
            return Fraction(call(*[self._value(argument, sizes) for argument in tree.args]))
        if isinstance(tree, ast.Name):
            return Fraction(sizes[self.aliases[tree.id]])
        assert isinstance(tree, ast.Constant)  # noqa: S101
        return Fraction(tree.value)  # type: ignore[arg-type]

    def _called(self, call: ast.Call) -> str:
        return self.aliases[call.func.id].lower()  # type: ignore[attr-defined]


def parse_expression(text: str) -> Expression | None:
    """``text`` as an expression; None where it is a plain name, or anything else."""
    tokens = _TOKEN.findall(text) if len(text) <= _LONGEST else []
    if len(tokens) < 2 or _TOKEN.sub("", text).strip():
        return None
    import ast

    # Placeholders keep dots, Python's keywords and numbers such as 007 apart from its grammar.
    aliases = {f"_{i}": token for i, token in enumerate(tokens)}
    words = [
        f"_{i}" if re.match(_NAME, token) else str(int(token)) if token.isdigit() else token
        for i, token in enumerate(tokens)
    ]
    depths = [0]
    for word in words:
        depths.append(depths[-1] + (word == "(") - (word == ")"))
    if max(depths) >= _DEEPEST or [",", ")"] in (words[i : i + 2] for i in range(len(words))):
        return None
    try:
        tree = ast.parse(" ".join(words), mode="eval").body
        names = _names(tree, aliases, 1)
    except (SyntaxError, ValueError):
        return None
    return Expression(frozenset(names), tree, aliases)


def _names(tree: ast.expr, aliases: Mapping[str, str], depth: int) -> set[str]:
    """The names in ``tree``; raises ValueError for what is not arithmetic, or nested too deep.

    A sum of many terms is deep on its left side alone, which is not counted.
    """
    import ast

    if depth > _DEEPEST:
        raise ValueError("nested too deep")
    if isinstance(tree, ast.BinOp) and type(tree.op).__name__ in _OPERATORS:
        inner = depth + isinstance(tree.op, ast.Pow)
        return _names(tree.left, aliases, depth) | _names(tree.right, aliases, inner)
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        return _names(tree.operand, aliases, depth + 1)
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and not tree.keywords:
        least, most, _ = _FUNCTIONS.get(aliases[tree.func.id].lower(), (1, 0, None))
        if least <= len(tree.args) <= most:
            return set().union(*[_names(argument, aliases, depth) for argument in tree.args])
    if isinstance(tree, ast.Name):
        return {aliases[tree.id]}
    if isinstance(tree, ast.Constant):
        return set()
    raise ValueError("not arithmetic")


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    whole = int(exponent)
    if not 0 <= whole <= _HIGHEST or exponent != whole or abs(base) > _LARGEST:
        raise ValueError("not a size")
    return base**whole


_OPERATORS: Mapping[str, Callable[[Fraction, Fraction], Fraction | int]] = MappingProxyType(
    {
        "Add": operator.add,
        "Sub": operator.sub,
        "Mult": operator.mul,
        "Div": operator.truediv,
        "FloorDiv": operator.floordiv,
        "Mod": operator.mod,
        "Pow": _power,
    }
)

# Least and most arguments, and the function; SymPy's and PyTorch's spellings, in lower case.
_FUNCTIONS: Mapping[str, tuple[int, int, Callable[..., Fraction | int]]] = MappingProxyType(
    {
        **dict.fromkeys(("floor", "floortoint"), (1, 1, math.floor)),
        **dict.fromkeys(("ceil", "ceiling", "ceiltoint"), (1, 1, math.ceil)),
        "max": (1, 16, max),
        "min": (1, 16, min),
        "mod": (2, 2, operator.mod),
        "floordiv": (2, 2, operator.floordiv),
    }
)
