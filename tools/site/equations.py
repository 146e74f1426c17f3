"""TeX of the documents as MathML, which browsers draw without a script or a font of their own.

A code host draws the same TeX between dollars. Only what the documents use is known; an unknown
command is a ValueError, which fails the site's build.
"""

from __future__ import annotations

import re
from html import escape
from types import MappingProxyType

_LETTERS = MappingProxyType(
    {
        r"\alpha": "α", r"\beta": "β", r"\Delta": "Δ", r"\varepsilon": "ε", r"\eta": "η",
        r"\lambda": "λ", r"\Lambda": "Λ", r"\nu": "ν", r"\pi": "π", r"\Phi": "Φ",
        r"\varphi": "φ", r"\rho": "ρ", r"\sigma": "σ", r"\tau": "τ", r"\ell": "ℓ",
        r"\infty": "∞", r"\ln": "ln", r"\exp": "exp",
    }
)  # fmt: skip
_OPERATORS = MappingProxyType(
    {
        r"\cdot": "·", r"\times": "×", r"\ge": "≥", r"\le": "≤", r"\in": "∈", r"\to": "→",
        r"\propto": "∝", r"\approx": "≈", r"\pm": "±", r"\|": "‖", "-": "−", "*": "∗",
    }
)  # fmt: skip
_SPACES = MappingProxyType(
    {r"\,": "0.17em", r"\;": "0.28em", r"\ ": "0.3em", r"\quad": "1em", r"\qquad": "2em"}
)
_WITH_LIMITS = MappingProxyType({r"\sum": "∑", r"\max": "max", r"\min": "min"})
_SIMPLE = MappingProxyType(
    {word: f"<mi>{sign}</mi>" for word, sign in _LETTERS.items()}
    | {word: f"<mo>{sign}</mo>" for word, sign in _OPERATORS.items()}
    | {word: f'<mspace width="{width}"></mspace>' for word, width in _SPACES.items()}
    | {word: f'<mo movablelimits="true">{sign}</mo>' for word, sign in _WITH_LIMITS.items()}
    | {sign: f'<mo stretchy="false">{sign}</mo>' for sign in "()[]|"}
    | dict.fromkeys((r"\big", r"\bigl", r"\bigr", r"\textstyle"), "")
)
# What takes arguments: how many, and the elements around them.
_AROUND = MappingProxyType(
    {
        r"\frac": (2, "<mfrac>{}{}</mfrac>"),
        r"\binom": (2, '<mo>(</mo><mfrac linethickness="0">{}{}</mfrac><mo>)</mo>'),
        r"\sqrt": (1, "<msqrt>{}</msqrt>"),
        r"\hat": (1, '<mover>{}<mo stretchy="false">^</mo></mover>'),
        r"\bar": (1, '<mover>{}<mo stretchy="false">¯</mo></mover>'),
        r"\overline": (1, '<mover>{}<mo stretchy="true">¯</mo></mover>'),
    }
)
_WORD = re.compile(
    r"\\(?:text|mathrm)\{[^}]*\}|\\[a-zA-Z]+|\\.|[0-9]+(?:\.[0-9]+)?|\S"  # a text is one word
)
# Code is left alone; then equations of their own, then those in a line.
_EQUATIONS = re.compile(
    r"(?P<code>^ *```.*?^ *```|``.*?``|`[^`\n]*`)|\$\$(?P<block>.+?)\$\$|\$(?P<line>[^$\n`]+?)\$",
    re.MULTILINE | re.DOTALL,
)


def with_equations(markdown: str) -> str:
    """``markdown`` with its TeX as MathML; raises ValueError for what is unknown here."""

    def drawn(found: re.Match[str]) -> str:
        if found["code"] is not None:
            return found[0]
        # Inside a span: MkDocs takes a line that begins with <math> for a paragraph of its own.
        if found["block"] is not None:
            elements = f'<math display="block">{mathml(found["block"])}</math>'
            return f'<span class="equation">{elements}</span>'
        parts = _Words(_WORD.findall(found["line"])).parts()
        elements = "<wbr>".join(f"<math>{each}</math>" for each in parts)
        return f"<span>{elements}</span>".replace("|", "&#124;")  # it would end a table's cell

    return _EQUATIONS.sub(drawn, markdown)


def mathml(tex: str) -> str:
    """The elements of one equation, without ``<math>`` around them."""
    return _Words(_WORD.findall(tex)).row()


class _Words:
    """The words of an equation that are still to be read, and what they are."""

    def __init__(self, words: list[str]) -> None:
        self._words = words

    def row(self, end: str | None = None) -> str:
        """All atoms up to ``end``, each with what stands below and above it."""
        parts = []
        while self._words and self._words[0] != end:
            parts.append(self._scripted())
        if end is not None:
            self._take()
        return "".join(parts)

    def parts(self) -> list[str]:
        """The equation in parts between which a line may end: before ``=`` and ``+``."""
        parts: list[str] = []
        depth = 0
        while self._words:
            word = self._words[0]
            depth += (word in ("(", "[")) - (word in (")", "]"))
            if not parts:
                parts.append("")
            elif word in ("=", "+") and depth == 0:
                parts.append(f'<mo form="infix">{self._take()}</mo>')
                continue
            parts[-1] += self._scripted()
        return parts

    def _take(self) -> str:
        if not self._words:
            raise ValueError("an equation ends too early")
        return self._words.pop(0)

    def _scripted(self) -> str:
        has_limits = self._words[0] in _WITH_LIMITS
        base, below, above = self._atom(), "", ""
        while self._words and self._words[0] in ("^", "_", "'"):
            sign = self._take()
            if sign == "_":
                below = self._argument()
            else:
                above += "<mo>′</mo>" if sign == "'" else self._argument()
        scripts = "".join(f"<mrow>{each}</mrow>" for each in (below, above) if each)
        if not scripts:
            return base
        names = ("munder", "mover", "munderover") if has_limits else ("msub", "msup", "msubsup")
        name = names[2 if below and above else 0 if below else 1]
        return f"<{name}><mrow>{base}</mrow>{scripts}</{name}>"

    def _argument(self) -> str:
        r"""A group in braces or one atom: ``\frac12`` has two, each of one digit."""
        if self._words and self._words[0].isdigit() and len(self._words[0]) > 1:
            self._words[:1] = [self._words[0][0], self._words[0][1:]]
        return self._atom()

    def _atom(self) -> str:
        word = self._take()
        if word == "{":
            return f"<mrow>{self.row('}')}</mrow>"
        if word == r"\left":
            opening = self._take()
            row = self.row(r"\right")
            left, right = (_OPERATORS.get(sign, escape(sign)) for sign in (opening, self._take()))
            return f"<mrow><mo>{left}</mo>{row}<mo>{right}</mo></mrow>"
        if word.startswith((r"\text{", r"\mathrm{")):
            text = escape(word.partition("{")[2][:-1]).replace(" ", "&#160;")
            return f"<mtext>{text}</mtext>"
        if word in _AROUND:
            count, elements = _AROUND[word]
            return elements.format(*(f"<mrow>{self._argument()}</mrow>" for _ in range(count)))
        return _simple(word)


def _simple(word: str) -> str:
    """One letter, number, operator or space."""
    if word in _SIMPLE:
        return _SIMPLE[word]
    if word.startswith("\\") or word in "&#~^_}":
        raise ValueError(f"{word} is unknown here: tools/site/equations.py")
    element = "mn" if word[0].isdigit() else "mi" if word.isalpha() else "mo"
    return f"<{element}>{escape(word)}</{element}>"
