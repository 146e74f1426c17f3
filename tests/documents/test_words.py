"""Words that no page, help text or message uses: idioms that a native engineer would not write.

Each pattern has the plain word beside it. ``docs/reference/glossary.md`` has the terms to use.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INSTEAD = {
    r"\bso many\b": "a number, or 'N'",
    r"\bwhat lacks\b|\blacks? to\b": "missing",
    r"\bstands? at\b|\bstand there\b|\bstands? beside\b": "is",
    r"\b(is|are) told\b": "reports",
    r"\b(is|are) not known\b|\bnone is known\b": "unknown, undetermined",
    r"\bnothing tells\b|\bnobody\b|\bnothing of it\b": "unknown; no …",
    r"\bheld? against\b|\bholds .{1,40} against\b": "compared with",
    r"\bat hand\b": "this",
    r"\bthe likes\b|\bof that kind\b": "such",
    r"\bas likely as\b|\bhave the same fate\b|\bhas the same fate\b": "say what is meant",
    r"\bhow well the time\b": "timing precision",
    r"\bput back as\b|\bas it was found\b|\bas they were found\b": "restored",
    r"\bwhose name holds\b": "whose name contains",
    r"\btake together\b": "combine",
    r"\bso that it may\b|\bthat may be had\b|\bcan be had\b": "available",
    r"\bby far and\b|\bwhence\b|\bthereof\b|\btherein\b|\bhereby\b|\bwherein\b": "where, of it",
    r"(?<!there )\bis no (?!longer|more|such|less|better|worse|smaller|larger)\w+": "is not a …",
    r"\bmore than it (takes|took)\b": "longer",
    r"\bin the place of\b": "instead of",
    r"\bis gone\b(?! from)": "ended, removed",
    r"\bin no (?:model|energy|sum)\b": "not used for predictions, not counted",
    r"(?<!image )(?<!service )\bnot known\b(?!\|)": "unknown",
    r"\bfor want of\b": "for lack of",
    r"\banew\b": "again; rebuild, reboot",
    r"\bputs? (?:it|the (?:board|machine)) back\b|\bbe put back\b": "restore",
    r"\bstands? (?:alone|behind|between|for the)\b": "comes after, is used as",
    r"\bis told\b|\btells? of\b": "reports",
    r"\b(?:let it|it may) last\b|\bno length would\b": "run it longer",
    r"\bthis very\b|\bwithout a word\b": "this; silently",
    r"\bwhether a mode keeps\b(?! up)|\blimit at least\b": "whether any mode meets the 33 ms limit",
    r"\bquiet machine\b": "machine is busy",
}
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
# Sources of published figures quote their titles.
SOURCES = sorted(
    path for path in ROOT.glob("*/src/mansard/**/*.py") if "simulator/boards" not in path.as_posix()
)
_PATTERN = re.compile("|".join(f"(?:{pattern})" for pattern in INSTEAD), re.IGNORECASE)


def prose(page: Path) -> list[tuple[int, str]]:
    """Lines of a page outside blocks of code, without code in them."""
    lines, in_code = [], False
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code:
            lines.append((number, re.sub(r"`[^`]*`", "", line)))
    return lines


def texts(source: Path) -> list[tuple[int, str]]:
    """Texts with spaces in a file of ours, but for docstrings: pages have those of commands."""
    tree = ast.parse(source.read_text("utf-8"))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    return [
        (node.lineno, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value
        if id(node) not in docstrings
    ]


def wrong_words(lines: list[tuple[int, str]]) -> list[str]:
    return [f"{number}: {match[0]}" for number, line in lines for match in _PATTERN.finditer(line)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_none_of_these_words(page: Path) -> None:
    assert wrong_words(prose(page)) == []


@pytest.mark.parametrize("source", SOURCES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_message_has_none_of_these_words(source: Path) -> None:
    assert wrong_words(texts(source)) == []


def test_the_words_are_found() -> None:
    assert wrong_words([(1, "So many rows are not known."), (2, "a median")]) == [
        "1: So many",
        "1: are not known",
    ]
    assert wrong_words([(3, "the time is in no model; the board is put back")]) == [
        "3: in no model"
    ]
