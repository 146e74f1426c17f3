"""Files and folders that a program depends on are part of what it is."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mansard.core.errors import UsageError
from mansard.inference.programs.dependencies import check_dependencies
from mansard.inference.programs.plan import hash_program, make_program_trial


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "source/inner").mkdir(parents=True)
    (tmp_path / "source/a.py").write_text("a = 1\n")
    (tmp_path / "source/inner/b.py").write_text("b = 1\n")
    return tmp_path / "source"


CHANGES: list[Callable[[Path], object]] = [
    lambda folder: (folder / "a.py").write_text("a = 2\n"),
    lambda folder: (folder / "inner/b.py").write_text("b = 2\n"),
    lambda folder: (folder / "a.py").rename(folder / "c.py"),
    lambda folder: (folder / "inner/empty").touch(),
    lambda folder: (folder / "inner/b.py").unlink(),
]


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_changes_in_a_folder_changes_the_program(
    change: Callable[[Path], object], folder: Path
) -> None:
    before = hash_program(["true"], {}, [folder])
    assert hash_program(["true"], {}, [folder]) == before != hash_program(["true"], {})
    change(folder)
    assert hash_program(["true"], {}, [folder]) != before


def test_what_running_it_writes_is_not_part_of_it(folder: Path) -> None:
    before = hash_program(["true"], {}, [folder])
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__/a.cpython-313.pyc").write_bytes(b"compiled")
    os.utime(folder / "a.py", (1, 1))
    assert hash_program(["true"], {}, [folder]) == before


def test_a_pipe_in_a_folder_is_not_read(folder: Path) -> None:
    os.mkfifo(folder / "pipe")  # to open it would wait for ever: nobody writes to it
    assert hash_program(["true"], {}, [folder]) == hash_program(["true"], {}, [folder])


def test_a_large_file_is_read_whole(tmp_path: Path) -> None:
    # A file among the arguments is hashed by its ends where it is larger than this.
    path = tmp_path / "weights"
    with path.open("wb") as file:
        file.truncate(80 << 20)
    before = make_program_trial(["true"], depends=[path]).program_hash
    with path.open("r+b") as file:
        file.seek(40 << 20)
        file.write(b"x")
    assert make_program_trial(["true"], depends=[path]).program_hash != before


def test_what_cannot_be_a_dependency_is_refused_in_a_line(folder: Path) -> None:
    for path, runs, why in (
        (folder / "gone", Path("runs"), "there is no such file or folder"),
        (Path("x" * 5000), Path("runs"), "there is no such file or folder"),
        (Path("\udcff"), Path("runs"), "is not text in UTF-8"),
        (folder, folder / "runs", "the folder of runs is in it"),
        (folder, folder, "the folder of runs is in it"),
    ):
        with pytest.raises(UsageError, match=why):
            check_dependencies([path], runs)
    check_dependencies([folder, folder / "a.py"], folder.parent / "runs")
