"""Names of dimensions that are sums and products of others: ``past_length + 1``.

Exporters write such names for dimensions they derived themselves. The grammar is that
of SymPy's and PyTorch's printers, integers only::

    sum     = product (("+" | "-") product)*
    product = unary (("*" | "//" | "/" | "%") unary)*
    unary   = "-" unary | power
    power   = atom ("**" unary)?
    atom    = number | name | function "(" sum ("," sum)* ")" | "(" sum ")"

``/`` is exact: 7/2 is three and a half, and floor(7/2) is 3.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from types import MappingProxyType

import msgspec

_LONGEST = 300  # characters: longer ones are not met, and it bounds the work
_DEEPEST = 30  # brackets within brackets
_LARGEST = 2**63
_HIGHEST = 64  # power
_TOKEN = re.compile(r"\s*(?:([0-9]+)|([A-Za-z_][\w.]*)|(//|\*\*|[-+*/%(),]))")


class Expression(msgspec.Struct, frozen=True):
    """A name that can be computed. ``names`` are the dimensions it is made of."""

    names: frozenset[str]
    evaluate: Callable[[Mapping[str, int]], int | None]


def parse_expression(text: str) -> Expression | None:
    """``text`` as an expression; None where it is a plain name, or anything else.

    ``evaluate`` wants a number for each name and gives None where the result is no
    size: negative, a fraction, a division by zero.
    """
    tokens = _tokens(text)
    if tokens is None or len(tokens) < 2:
        return None
    reader = _Reader(tokens)
    try:
        tree = reader.sum()
    except _NoExpressionError:
        return None
    if reader.position < len(tokens):
        return None
    return Expression(frozenset(reader.names), lambda sizes: _size(tree, sizes))


Tree = Callable[[Mapping[str, int]], Fraction]


class _NoExpressionError(Exception):
    """The text is something else."""


def _tokens(text: str) -> list[str] | None:
    if len(text) > _LONGEST:
        return None
    tokens, position = [], 0
    text = text.rstrip()
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            return None
        tokens.append(found[0].strip())
        position = found.end()
    return tokens


def _size(tree: Tree, sizes: Mapping[str, int]) -> int | None:
    try:
        result = tree(sizes)
    except (ArithmeticError, ValueError):
        return None
    if result < 0 or result > _LARGEST or result != int(result):
        return None
    return int(result)


class _Reader:
    """Reads tokens from left to right and builds the function they stand for."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.position = 0
        self.depth = 0
        self.names: set[str] = set()

    def _next(self) -> str:
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    def _take(self) -> str:
        token = self._next()
        if not token:
            raise _NoExpressionError
        self.position += 1
        return token

    def _expect(self, token: str) -> None:
        if self._take() != token:
            raise _NoExpressionError

    def sum(self) -> Tree:
        tree = self._product()
        while self._next() in ("+", "-"):
            tree = _apply(_OPERATORS[self._take()], tree, self._product())
        return tree

    def _product(self) -> Tree:
        tree = self._unary()
        while self._next() in ("*", "/", "//", "%"):
            tree = _apply(_OPERATORS[self._take()], tree, self._unary())
        return tree

    def _unary(self) -> Tree:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise _NoExpressionError
        if self._next() == "-":
            self._take()
            operand = self._unary()
            tree: Tree = lambda sizes: -operand(sizes)  # noqa: E731
        else:
            tree = self._power()
        self.depth -= 1
        return tree

    def _power(self) -> Tree:
        base = self._atom()
        if self._next() != "**":
            return base
        self._take()
        return _apply(_power, base, self._unary())

    def _atom(self) -> Tree:
        text = self._take()
        if text == "(":
            tree = self.sum()
            self._expect(")")
            return tree
        if text.isdigit():
            number = Fraction(text)
            return lambda _sizes: number
        if text[0] in "+-*/%(),":
            raise _NoExpressionError
        if self._next() == "(":
            return self._call(text)
        self.names.add(text)
        return lambda sizes: Fraction(sizes[text])

    def _call(self, name: str) -> Tree:
        function = _FUNCTIONS.get(name.lower())
        if function is None:
            raise _NoExpressionError
        arguments = []
        while self._take() != ")":
            arguments.append(self.sum())
            if self._next() not in (",", ")"):
                raise _NoExpressionError
        least, most, run = function
        if not least <= len(arguments) <= most:
            raise _NoExpressionError
        return _apply(run, *arguments)


def _apply(run: Callable[..., Fraction], *operands: Tree) -> Tree:
    return lambda sizes: run(*(operand(sizes) for operand in operands))


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    whole = int(exponent)
    if not 0 <= whole <= _HIGHEST or exponent != whole or abs(base) > _LARGEST:
        raise ValueError("not a size")
    return base**whole


def _floor(number: Fraction) -> Fraction:
    return Fraction(math.floor(number))


def _ceil(number: Fraction) -> Fraction:
    return Fraction(math.ceil(number))


_OPERATORS: MappingProxyType[str, Callable[[Fraction, Fraction], Fraction]] = MappingProxyType(
    {
        "+": lambda a, b: a + b,
        "-": lambda a, b: a - b,
        "*": lambda a, b: a * b,
        "/": lambda a, b: a / b,
        "//": lambda a, b: Fraction(a // b),
        "%": lambda a, b: a % b,
    }
)

# Least and most arguments, and the function; SymPy's and PyTorch's spellings, in lower case.
_FUNCTIONS: MappingProxyType[str, tuple[int, int, Callable[..., Fraction]]] = MappingProxyType(
    {
        "floor": (1, 1, _floor),
        "floortoint": (1, 1, _floor),
        "ceil": (1, 1, _ceil),
        "ceiling": (1, 1, _ceil),
        "ceiltoint": (1, 1, _ceil),
        "max": (1, 16, max),
        "min": (1, 16, min),
        "mod": (2, 2, _OPERATORS["%"]),
        "floordiv": (2, 2, _OPERATORS["//"]),
    }
)
