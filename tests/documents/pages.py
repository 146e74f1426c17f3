"""The commands of README and docs: fenced blocks of a page, in order, and what their comments say.

A block is a fence ``sh``, ``console`` or ``python``. A comment in front, which a page does not
show, says what a reader knows from the text around it:

    <!-- board: agx-orin -->            a simulated board, as MANSARD_BOARD names it
    <!-- given: mine.onnx, val/ -->     the reader's own files: a file that the page shows, or
                                        one of given.py, where that has another name as in
                                        "runs/ as cores"; checkout: a clone, set up
    <!-- file: grid.toml -->            what a fence of any language shows is this file
    <!-- exits: 3 -->                   the last command's exit code, 0 by default
    <!-- may fail: a busy machine -->   run, but its failure is none of the page's
    <!-- long -->                       left to ``make test-docs``
    <!-- not run: needs a card -->      the block is left out
    <!-- not run (--host): why -->      its commands that hold this text are left out
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LANGUAGES = ("sh", "console", "python")
_COMMENT = re.compile(
    r"<!-- (board|file|given|exits|may fail|long|not run)(?: \(([^)]+)\))?(?:: ([^\n]+?))? -->"
)
# The fields of a block that a comment gives.
_FIELDS: dict[str, Callable[[str], dict[str, Any]]] = {
    "board": lambda value: {"board": value},
    "exits": lambda value: {"exit_code": int(value)},
    "file": lambda _: {},
    "given": lambda value: {"given": tuple(each.strip() for each in value.split(","))},
    "long": lambda _: {"is_long": True},
    "may fail": lambda value: {"may_fail": value},
}
_EACH_LINE = re.MULTILINE | re.DOTALL
_FENCE = re.compile(r"^( *)```+ *(\w*)[^\n]*\n(.*?)^\1```+ *$", _EACH_LINE)


@dataclass(frozen=True)
class Block:
    """One fence of a page."""

    page: str
    line: int
    language: str
    text: str
    board: str = ""
    given: tuple[str, ...] = ()
    exit_code: int = 0
    may_fail: str = ""  # why; with exit code 1, as a command that cannot measure ends
    is_long: bool = False
    left_out: dict[str, str] = field(default_factory=dict)  # text of commands, "" for all: reason

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def commands(self) -> list[str]:
        """What is run: of a ``console`` block the lines after ``$``, without what they print."""
        if "" in self.left_out:
            return []
        if self.language == "python":
            return [self.text]
        commands = _typed(self.text) if self.language == "console" else _joined(self.text)
        return [each for each in commands if not any(text in each for text in self.left_out)]


def pages() -> list[Path]:
    """README, CONTRIBUTING and every page under docs."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def shown_files(page: Path) -> dict[str, str]:
    """The files that ``page`` shows, by name."""
    text = page.read_text("utf-8")
    shown = re.finditer(
        r"^ *<!-- file: (\S+) -->\n( *)```+ *\w*\n(.*?)^\2```+ *$", text, _EACH_LINE
    )
    return {found[1]: textwrap.dedent(found[3]) for found in shown}


def blocks(page: Path) -> list[Block]:
    """The blocks of ``page``; raises ValueError for a comment that says nothing."""
    text = page.read_text("utf-8")
    name = str(page.relative_to(ROOT)) if page.is_relative_to(ROOT) else page.name
    found, end = [], 0
    for fence in _FENCE.finditer(text):
        between, end = text[end : fence.start()], fence.end()
        if fence[2] in LANGUAGES:
            line = text.count("\n", 0, fence.start()) + 1
            content = textwrap.dedent(fence[3])
            found.append(Block(name, line, fence[2], content, **_said(between, f"{name}:{line}")))
    return found


def unnamed_commands(page: Path) -> list[str]:
    """Fences without a language that hold commands of ours: no test would run them."""
    text = page.read_text("utf-8")
    return [
        f"{page.relative_to(ROOT)}:{text.count(chr(10), 0, fence.start()) + 1}"
        for fence in _FENCE.finditer(text)
        if not fence[2] and re.search(r"^ *(\$ )?(mansard|make) \w", fence[3], re.MULTILINE)
    ]


def _said(between: str, where: str) -> dict[str, Any]:
    """The fields of the comments right in front of a fence."""
    said: dict[str, Any] = {}
    left_out: dict[str, str] = {}
    for line in reversed(between.splitlines()):
        if not line.strip():
            continue
        comment = _COMMENT.fullmatch(line.strip())
        if comment is None:
            if line.lstrip().startswith("<!--"):
                raise ValueError(f"{where}: the comment {line.strip()} cannot be read")
            break
        name, part, value = comment[1], comment[2], comment[3]
        if name in ("not run", "may fail") and not value:
            raise ValueError(f"{where}: what is not run or may fail has a reason")
        if name == "not run":
            left_out[part or ""] = value
        else:
            said |= _FIELDS[name](value)
    return said | {"left_out": left_out}


def _joined(text: str) -> list[str]:
    """Commands of a script: a line, with those that it continues; a whole loop is one."""
    lines = [line for line in text.splitlines() if line.strip()]
    if re.search(r"<<|^(for|while|if)\b|^\S+\(\)", text, re.MULTILINE):
        return [text]
    commands: list[str] = []
    for line in lines:
        if commands and commands[-1].endswith("\\"):
            commands[-1] += f"\n{line}"
        elif not line.lstrip().startswith("#"):
            commands.append(line)
    return commands


def _typed(text: str) -> list[str]:
    """Commands after ``$``, with the lines that they continue, and those after ``>``."""
    commands: list[str] = []
    is_open = False
    for line in text.splitlines():
        if line.startswith("$ "):
            commands.append(line[2:])
        elif commands and (is_open or line.startswith("> ")):
            commands[-1] += "\n" + line.removeprefix("> ")
        else:
            continue
        is_open = commands[-1].endswith("\\")
    return commands
