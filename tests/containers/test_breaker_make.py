"""What is given to make reaches the command as text: nothing of it is run on the way."""

from __future__ import annotations

import shutil
import subprocess
import time
from itertools import pairwise
from pathlib import Path

import pytest

from tests.containers.throwaway import REPOSITORY

SHOW = '#!/bin/sh\nfor word in "$@"; do printf "%s\\n" "$word"; done\n'
HOSTILE = (
    "15W; touch pwned",
    "$(touch pwned)",
    "$(shell touch pwned)",
    "`touch pwned`",
    'it\'s "quoted", $HOME, a#b, 100%',
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The Makefile with a command that prints its arguments, and nothing left to be set up."""
    if shutil.which("make") is None:
        pytest.skip("there is no make")
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    shutil.copy(REPOSITORY / "Makefile", tmp_path)
    (programs / "mansard").write_text(SHOW)
    (programs / "mansard").chmod(0o755)
    (tmp_path / "requirements").mkdir()
    for name in ("pyproject.toml", "requirements/base.txt", ".venv/bin/python"):
        (tmp_path / name).touch()
    time.sleep(0.02)  # make compares times
    (tmp_path / ".venv" / ".base").touch()
    return tmp_path


@pytest.mark.parametrize("is_given", [True, False], ids=["argument", "environment"])
@pytest.mark.parametrize("text", HOSTILE)
def test_settings_are_text(folder: Path, text: str, is_given: bool) -> None:
    names = ("MODE", "HOST", "HOSTS", "IMAGE", "IMAGES", "BOARD", "RUNS")
    settings = {name: f"{name} {text}" for name in names}
    given = [f"{name}={value}" for name, value in settings.items()] if is_given else []
    done = subprocess.run(
        ["make", "bench", *given],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", **({} if is_given else settings)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    words = done.stdout.splitlines()
    options = ("--mode", "--host", "--host", "--image", "--images", "--board", "--runs")
    for option, value in zip(options, settings.values(), strict=True):
        assert (option, value) in list(pairwise(words))
    assert not (folder / "pwned").exists()


def test_settings_that_are_not_given_are_no_options(folder: Path) -> None:
    """Mansard refuses an option with an empty value."""
    for settings in ([], ["MODE=", "HOST=", "PICK="]):
        done = subprocess.run(
            ["make", "bench", *settings],
            cwd=folder,
            env={"PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.splitlines() == ["bench", "--runs", "runs", "--profile", "quick"]
