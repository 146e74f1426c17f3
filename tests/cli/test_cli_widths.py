"""Everything that commands print on terminals of 80 and 120 columns: no line wider, no word cut.

Each function that prints a table has to be among them: see the last test.
"""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path
from typing import NamedTuple

import pytest
from rich.cells import cell_len

import mansard.cli
from mansard.cli.__main__ import run
from tests.cli.in_process import streams
from tests.cli.scenes import Scene, all_scenes

WIDTHS = (80, 120)
VERY_WIDE = 1000
PRINTERS = {"print_table", "print_tables", "print_fitting", "print_facts", "print_shortened"}


class Shown(NamedTuple):
    """What a scene printed at a width; lines that are whole whatever the width; who printed."""

    lines: list[str]
    whole: set[str]
    printers: set[tuple[str, str]]


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> list[Scene]:
    return all_scenes(tmp_path_factory.mktemp("scenes"))


@pytest.fixture(scope="module")
def shown(scenes: list[Scene]) -> dict[int, dict[str, Shown]]:
    """What each scene prints on terminals of these widths."""
    return {
        width: {scene.name: shown_at(width, scene) for scene in scenes}
        for width in (VERY_WIDE, *WIDTHS)  # first the widest: what is measured once is noted there
    }


def shown_at(width: int, scene: Scene) -> Shown:
    before = Path.cwd()
    os.chdir(scene.cwd)
    try:
        with streams(width) as printed:
            if callable(scene.show):
                scene.show()
            else:
                run([str(word) for word in scene.show])
    finally:
        os.chdir(before)
    out, err = printed
    lines = [line for text in printed.texts() for line in text.splitlines()]
    return Shown(lines, out.whole | err.whole, out.printers | err.printers)


@pytest.mark.parametrize("width", WIDTHS)
def test_no_line_is_wider_than_the_terminal(shown: dict[int, dict[str, Shown]], width: int) -> None:
    wide = {
        f"{name}: {line}"
        for name, found in shown[width].items()
        for line in found.lines
        # A word that is too long stands alone; what is to be copied is one line.
        if cell_len(line) > width and len(line.split()) > 1 and line not in found.whole
    }
    assert wide == set()


@pytest.mark.parametrize("width", WIDTHS)
def test_no_word_is_cut(shown: dict[int, dict[str, Shown]], width: int) -> None:
    cut = {
        f"{name}: {word}"
        for name, found in shown[width].items()
        for word in words(found.lines) - words(shown[VERY_WIDE][name].lines)
    }
    assert cut == set()


def words(lines: list[str]) -> set[str]:
    """Words without the digits, which differ from one time to the next.

    Not those that only a narrow table has: the line under its header, marks of its notes, what is
    left out and where it is.
    """
    found = {
        re.sub("[0-9]+", "0", word).strip(";,:")
        for line in lines
        for word in line.split()
        if not set(word) <= set("─━╸╺ ")
    }
    return found - {"", "[0]", "more", *NARROW}


NARROW = {"Left", "out", "--format", "csv", "or", "json", "--json", "has", "it", "them"}
NARROW |= {"gets"}  # of a column without a value, which a wide table drops without a word
NARROW |= {"--html", "0", "of", "modes", "--all", "the", "rest", "prints", "all"}


def test_every_function_that_prints_a_table_is_shown(shown: dict[int, dict[str, Shown]]) -> None:
    there = set()
    folder = Path(str(mansard.cli.__file__)).parent
    for path in folder.rglob("*.py"):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef) and called(function) & PRINTERS:
                there.add((str(path.relative_to(folder)), function.name))
    reached = {each for found in shown[80].values() for each in found.printers}
    # Without the libraries of the report: tests/packaging has none.
    assert there - reached == {("measuring/bench.py", "_print_measured")}


def test_nothing_else_writes_to_stdout() -> None:
    """What prints past ``tables`` and ``console`` would be as wide as it likes."""
    folder = Path(str(mansard.cli.__file__)).parent
    writers = {
        str(path.relative_to(folder))
        for path in folder.rglob("*.py")
        if re.search(
            r"\b(typer\.echo|print|sys\.stdout\.(buffer\.)?write)\(", path.read_text("utf-8")
        )
    }
    # The version; documents of JSON and CSV; a live screen with a layout of its own.
    others = {"app.py", "json_output.py", "schemas.py", "counting/score.py", "board/watch.py"}
    assert writers == {"console.py", "tables.py", *others}


def called(function: ast.FunctionDef) -> set[str]:
    """The names of what a function calls."""
    return {
        node.func.id
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
