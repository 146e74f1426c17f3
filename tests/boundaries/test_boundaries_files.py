"""Whatever is written into a folder of runs, or removed from it, goes through ``storage.files``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools import structure

# The modules that work inside folders of runs.
ROOMS = ("measuring/src", "analytics/src", "sweeps/src", "api/src")
# Functions that touch files, with the place of ``within`` among their arguments.
WITHIN = {
    "write_rows": 3,
    "write_document": 2,
    "write_atomic": 2,
    "write_page": 3,
    "replacing": 1,
    "RowWriter": 2,
    "RowReader": 3,
    "make_folder": 1,
    "read_rows": 2,
    "read_document": 2,
    "read_whole": 1,
    "open_file": 1,
    "open_rows": 1,
}
# Places and files that the user names: not inside a folder of runs, or the folder itself.
OF_THE_USER = {
    ("cells.py", "read_whole"),  # a table to import
    ("importing.py", "read_whole"),  # a file of a tool
    ("importing.py", "open_file"),  # likewise
    ("answer_pages.py", "write_page"),
    ("layers_page.py", "write_page"),
    ("figure.py", "write_atomic"),  # -o FILE
    ("engine_layers.py", "read_whole"),  # a profile, a description
    ("schedules.py", "make_folder"),  # --html FILE
    ("haxconn_logs.py", "read_whole"),  # --from FOLDER
    ("problem_files.py", "write_atomic"),  # --save-problem FILE
    ("files.py", "read_whole"),  # samples, costs of modes
    ("files.py", "write_atomic"),  # a curve
    ("demos.py", "make_folder"),  # the demo's folder itself
    ("scores.py", "make_folder"),
    ("watching.py", "RowReader"),  # looks that were recorded
    ("watching.py", "RowWriter"),  # --record FILE
    ("watching.py", "open_rows"),
    ("data.py", "read_document"),  # a single run, named to compare
    ("baseline.py", "read_document"),  # to compare with
    ("baseline.py", "write_document"),  # compare --save FILE
}
# Ways around it. ``rename`` and ``replace`` are also Polars' and Python's.
AROUND = {"unlink", "rmdir", "write_text", "write_bytes", "touch", "mkdir", "rmtree", "mkdtemp"}
AROUND |= {"symlink_to", "hardlink_to", "copyfile", "copytree", "copy2", "move", "makedirs"}
AROUND |= {"NamedTemporaryFile", "TemporaryDirectory", "mkstemp", "truncate"}


def calls() -> Iterator[tuple[Path, str, ast.Call]]:
    """Each call in those rooms by the last part of its name."""
    for room in ROOMS:
        for path in sorted((structure.ROOT / room).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call):
                    name = ast.unparse(node.func).rpartition(".")[2]
                    yield path, name, node


def has_within(name: str, call: ast.Call) -> bool:
    named = {keyword.arg for keyword in call.keywords}
    return len(call.args) > WITHIN[name] or "within" in named


def test_every_writer_and_reader_says_which_folder_it_may_not_leave() -> None:
    found = [(path, name, call) for path, name, call in calls() if name in WITHIN]
    assert len(found) > 25  # the calls were found
    without = {(path.name, name) for path, name, call in found if not has_within(name, call)}
    assert without <= OF_THE_USER, without - OF_THE_USER
    assert without == OF_THE_USER  # no exception is left over


def test_nothing_writes_or_removes_in_another_way() -> None:
    around = [f"{path.name}:{call.lineno} {name}" for path, name, call in calls() if name in AROUND]
    assert around == []


def test_no_file_is_opened_for_writing() -> None:
    for path, name, call in calls():
        if name == "open":
            modes = [each.value for each in call.args if isinstance(each, ast.Constant)]
            writes = any(isinstance(mode, str) and set(mode) & set("wax+") for mode in modes)
            # A table in a temporary folder of its own.
            assert not writes or path.name == "watching.py", f"{path.name}:{call.lineno}"


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("write_rows(a, B, c)", False),
        ("write_rows(a, B, c, runs)", True),
        ("write_rows(a, B, c, within=runs)", True),
    ],
)
def test_the_check_itself(text: str, *, is_found: bool) -> None:
    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call)
    assert has_within("write_rows", call) == is_found
