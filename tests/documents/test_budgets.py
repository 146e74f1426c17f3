"""How much code a command enters: no number rises above the one that is recorded here.

A reader follows a command through so many files. Goals are those of the plan of the house; a change
that brings a number down writes it here.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mansard import api
from mansard.estimator import zoo
from tests.cli.decide_runs import published_runs

ROOT = Path(__file__).resolve().parents[2]
_TRACING = Path(__file__).with_name("tracing.py")
_MODULES = [path for source in ROOT.glob("*/src") for path in source.rglob("*.py")]


class Budget(NamedTuple):
    """``most``: what is recorded; ``goal``: what the plan wants."""

    most: int
    goal: int


BUDGETS = {
    "files that 'mansard score' enters": Budget(76, 60),
    "functions that 'mansard score' enters": Budget(472, 460),
    "functions between the command and the first Conv": Budget(12, 12),
    "files that 'mansard recommend' of one mode enters": Budget(112, 112),
    "files that 'mansard bench' enters before its first row": Budget(163, 110),
    "names of the façade": Budget(90, 90),
    "files that the guide of the code names": Budget(21, 24),
    "lines of these files": Budget(6070, 6070),
    "class names used twice": Budget(3, 15),
    "imports of our own modules inside functions": Budget(49, 49),
}


def check(what: str, found: int) -> None:
    """Fails where ``found`` is more than was recorded."""
    assert found <= BUDGETS[what].most, f"{what}: {found}, recorded {BUDGETS[what].most}"


def traced(until: str, *words: object, folder: Path) -> dict[str, Any]:
    """What the command enters as far as the function ``until``, see tracing.py."""
    command = [sys.executable, str(_TRACING), until, *map(str, words)]
    # Functions that Numba compiles are entered when it does, so none is in its cache yet.
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "numba")}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stderr.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return zoo.write("resnet18", tmp_path_factory.mktemp("model"))


def test_score_enters_few_files(model: Path) -> None:
    found = traced("-", "score", model.name, folder=model.parent)
    check("files that 'mansard score' enters", found["files"])
    check("functions that 'mansard score' enters", found["functions"])


def test_the_first_arithmetic_of_a_conv_is_near(model: Path) -> None:
    found = traced("operators/conv.py:conv", "score", model.name, folder=model.parent)
    begin = found["way"].index("cli/counting/score.py:score")
    assert found["way"][-1] == "estimator/operators/conv.py:conv"
    check("functions between the command and the first Conv", len(found["way"]) - begin - 2)


def test_recommend_of_one_mode_enters_few_files(tmp_path: Path) -> None:
    runs = published_runs(tmp_path / "runs")
    words = ("recommend", "seen", "--runs", runs, "--mode", "gpu400-emc800")
    found = traced("-", *words, folder=tmp_path)
    check("files that 'mansard recommend' of one mode enters", found["files"])


def test_bench_enters_few_files_before_its_first_row(tmp_path: Path) -> None:
    words = ("bench", "resnet18", "--local", "--profile", "brief", "--processor", "cpu")
    found = traced("run_writer.py:_keep_row", *words, folder=tmp_path)
    assert found["way"][-1] == "measuring/run_writer.py:_keep_row"
    check("files that 'mansard bench' enters before its first row", found["files"])


def test_the_facade_has_few_names() -> None:
    check("names of the façade", len([name for name in dir(api) if not name.startswith("_")]))


def test_the_guide_of_the_code_is_an_afternoon() -> None:
    guide = (ROOT / "docs/understand/reading.md").read_text(encoding="utf-8")
    paths = {found.partition("/")[::2] for found in re.findall(r"`([a-z_]+/[a-z_/]+\.py)`", guide)}
    files = [ROOT / room / "src/mansard" / room / rest for room, rest in paths]
    check("files that the guide of the code names", len(files))
    check("lines of these files", sum(len(path.read_text().splitlines()) for path in files))


def test_few_class_names_are_used_twice() -> None:
    names = Counter(
        node.name
        for path in _MODULES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    )
    check("class names used twice", sum(n > 1 for n in names.values()))


def test_few_of_our_own_modules_are_imported_inside_functions() -> None:
    lazy = {
        (path, node.lineno)
        for path in _MODULES
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("mansard")
    }
    check("imports of our own modules inside functions", len(lazy))
