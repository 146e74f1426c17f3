"""Commands that documents name exist, and have the options that stand behind them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from mansard.cli.__main__ import with_groups
from mansard.cli.app import make_app

ROOT = Path(__file__).resolve().parents[2]
# `mansard score a.onnx --batch 1` in a line of a block or in code of a sentence; what stands
# behind "--" alone is another program's.
_COMMAND = re.compile(r"(?<!from )(?<!import )mansard ((?:[a-z]+ ?){1,3})([^`\n|#;]*)")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
_GLOBAL = {"--debug", "--help", "-h", "--version", "--quiet", "--verbose"}


def test_every_option_is_there() -> None:
    commands = _options(typer.main.get_command(make_app()))
    found = list(_named())
    assert len(found) > 200
    wrong = [
        f"{place}: {words} {sorted(options)}"
        for place, words, options in found
        if not _is_there(words, options, commands)
    ]
    assert not wrong, "\n".join(wrong)


def _options(group: Any, before: str = "") -> dict[str, set[str]]:
    """Options of each command, by its words: ``zoo write``."""
    found: dict[str, set[str]] = {}
    for name, command in group.commands.items():
        words = f"{before}{name}"
        options = {text for each in command.params for text in (*each.opts, *each.secondary_opts)}
        found[words] = options | _GLOBAL
        if hasattr(command, "commands"):
            found |= _options(command, f"{words} ")
    return found


def _named() -> Iterator[tuple[str, str, frozenset[str]]]:
    """Place, words of the command and its options, of every page; README's commands all run."""
    pages = [ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for page in pages:
        in_block = False
        text = page.read_text("utf-8").replace("\\\n", " ")
        for number, line in enumerate(text.splitlines(), 1):
            if line.lstrip().startswith("```"):
                in_block = not in_block
                continue
            codes = [line] if in_block else re.findall(r"`([^`]+)`", line)
            for code in codes:
                for words, rest in _COMMAND.findall(code):
                    unquoted = re.sub(r"'[^']*'", "", rest)  # another program's line
                    own = re.split(r"(?<!\S)--(?!\S)|&&", unquoted)[0]
                    place = f"{page.relative_to(ROOT)}:{number}"
                    yield place, words.strip(), frozenset(_OPTION.findall(own))


def _is_there(words: str, options: frozenset[str], commands: dict[str, set[str]]) -> bool:
    parts = with_groups(words.split())
    known = next(
        (
            commands[name]
            for length in range(len(parts), 0, -1)
            if (name := " ".join(parts[:length])) in commands
        ),
        None,
    )
    return known is not None and options <= known
