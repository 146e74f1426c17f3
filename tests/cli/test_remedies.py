"""Every command of ours that an error or a note names as a remedy parses, and runs where it can."""

from __future__ import annotations

import ast
import contextlib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from mansard.cli.__main__ import with_groups
from mansard.cli.app import make_app
from mansard.simulator import create_board
from tests.cli.in_process import mansard

ROOT = Path(__file__).resolve().parents[2]
_QUOTED = re.compile(r"'(mansard [^']+)'")
_GLOBAL = frozenset(("-v", "-q", "--debug", "--verbose", "--quiet"))
_FIELD = "1"  # stands for what a formatted string has from its data: a name, a number, a folder


def _texts(tree: ast.AST) -> Iterator[tuple[int, str, bool]]:
    """Line, text and whether it is a ``fix=`` of every string but docstrings."""
    fixes = {
        id(keyword.value)
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        for keyword in call.keywords
        if keyword.arg == "fix"
    }
    inside = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in node.values
    }
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) in inside | statements:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value, id(node) in fixes
        elif isinstance(node, ast.JoinedStr):
            parts = (
                str(part.value) if isinstance(part, ast.Constant) else _FIELD
                for part in node.values
            )
            yield node.lineno, "".join(parts), id(node) in fixes


def _commands() -> Iterator[tuple[str, str]]:
    """Place and command line of each remedy in the sources."""
    for path in sorted(ROOT.glob("*/src/mansard/**/*.py")):
        for line, text, is_fix in _texts(ast.parse(path.read_text("utf-8"))):
            named = _QUOTED.findall(text)
            if is_fix and not named and text.startswith("mansard "):
                named = re.split(r",? or (?=mansard )", text)
            for command in named:
                yield f"{path.relative_to(ROOT)}:{line}", command


COMMANDS = sorted(set(_commands()))
APPLICATION: Any = typer.main.get_command(make_app())


def _parse(words: list[str]) -> None:
    """Parse a command line as ``mansard`` does; raises what the parser raises."""
    words = with_groups([word for word in words if word not in _GLOBAL])
    command = APPLICATION
    name, parent = "mansard", None
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        parent = command.context_class(command, info_name=name, parent=parent)
        name = words.pop(0)
        assert name in command.commands, f"there is no command {name!r}"
        command = command.commands[name]
    if words and not hasattr(command, "commands"):  # else a command is mentioned, no line to type
        command.make_context(name, words, parent=parent)


def test_the_remedies_were_found() -> None:
    assert len(COMMANDS) > 40


@pytest.mark.parametrize(("place", "command"), COMMANDS, ids=lambda text: str(text)[:80])
def test_every_remedy_parses(place: str, command: str) -> None:
    words = shlex.split(re.sub(r"\b(N|SECONDS)\b", "1", command))[1:]
    if words[0] == _FIELD:
        pytest.skip("the command is a value of the text")
    command_line = [word for word in words if word not in {"…", "..."}]
    with contextlib.suppress(SystemExit):  # of --help and --version
        _parse(command_line)


# Remedies that need nothing but a board or an empty folder, and their exit codes.
SELF_CONTAINED = (
    ("mansard doctor", "--board", 0),
    ("mansard board modes", "--board", 0),
    ("mansard board restore", "--board", 0),
    ("mansard board plan", "--board", 0),
    ("mansard models list", "", 0),
    ("mansard bench --profile full", "--board --dry-run --no-networks", 0),
    ("mansard board telemetry --live", "", 1),
)


@pytest.mark.parametrize(("command", "more", "code"), SELF_CONTAINED)
def test_a_self_contained_remedy_runs(command: str, more: str, code: int, tmp_path: Path) -> None:
    board = create_board("agx-orin", tmp_path)
    words = [*shlex.split(command)[1:]]
    for option in more.split():
        words += [option, str(board)] if option == "--board" else [option]
    done = mansard(*words, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert command in {text for _, text in COMMANDS}
