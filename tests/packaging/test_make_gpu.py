"""``make test-gpu``: without pip where a Python has what it needs, else with the pinned extras."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NEEDED = ("cupy", "hypothesis", "msgspec", "numba", "numpy", "pytest")
CHECK = "import sys\nprint('check', *sys.argv[1:])\nsys.exit(CODE if sys.argv[1] == 'run' else 0)\n"
RUN, REPORT = "check run --out .card_check/results", "check report .card_check/results"
# A Python that imports everything once pip has run, and writes down what it is asked for.
LOGGING = """#!/bin/sh
echo "$*" >> asked
case "$*" in
    "-m pip"*) touch installed;;
    "-c"*) test -e installed;;
esac
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The Makefile and its tool, in a folder with a blank in its name."""
    if shutil.which("make") is None:
        pytest.skip("there is no make")
    made = tmp_path / "the tree"
    for name in ("Makefile", "tools/card-python"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, made / name)
    write_check(made, code=0)
    return made


def write_check(folder: Path, *, code: int) -> None:
    """A check that prints what it is asked for, and whose lines fail with ``code``."""
    (folder / "tools" / "card_check").mkdir(exist_ok=True)
    text = CHECK.replace("CODE", str(code))
    (folder / "tools" / "card_check" / "__main__.py").write_text(text)


def make(folder: Path, python: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", "test-gpu", f"PYTHON={python}", *(f"{k}={v}" for k, v in settings.items())],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "PIP_NO_INDEX": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def python_without_pip(folder: Path, *modules: str) -> Path:
    """A Python of its own that has these modules, and nothing to install others with."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for name in modules:
        (site / f"{name}.py").touch()
    return folder / "bin" / "python"


def test_a_python_that_has_everything_needs_no_pip(folder: Path, tmp_path: Path) -> None:
    done = make(folder, python_without_pip(tmp_path / "image", *NEEDED))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [RUN]  # the analysis is not there: no report
    assert not (folder / ".venv").exists()


def test_what_was_carried_counts_as_there(folder: Path, tmp_path: Path) -> None:
    carried = folder / ".card_check" / "site"
    carried.mkdir(parents=True)
    (carried / "msgspec.py").touch()
    done = make(folder, python_without_pip(tmp_path / "image", *(set(NEEDED) - {"msgspec"})))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [RUN]


def test_lines_that_fail_fail_the_command_after_the_report(folder: Path, tmp_path: Path) -> None:
    write_check(folder, code=1)
    done = make(folder, python_without_pip(tmp_path / "image", *NEEDED, "altair", "polars"))
    assert done.returncode != 0
    assert done.stdout.splitlines() == [RUN, REPORT]


def test_what_a_python_lacks_is_named_and_the_pinned_extras_are_installed(
    folder: Path, tmp_path: Path
) -> None:
    python = python_without_pip(tmp_path / "image", *(set(NEEDED) - {"cupy", "msgspec"}))
    own = folder / ".venv" / "bin" / "python"
    own.parent.mkdir(parents=True)
    own.write_text(LOGGING)
    own.chmod(0o755)
    (folder / "requirements").mkdir()
    for name in ("pyproject.toml", "requirements/base.txt", "requirements/dev.txt"):
        (folder / name).touch()
    time.sleep(0.02)  # make compares times
    (folder / ".venv" / ".dev").touch()
    done = make(folder, python, CUDA="cuda13")
    assert done.returncode == 0, done.stderr
    assert f"{python} does not import: cupy msgspec" in done.stderr
    libraries, own_code = [
        line for line in (folder / "asked").read_text().splitlines() if line.startswith("-m pip")
    ]
    assert libraries.endswith(
        "--no-deps --no-compile --require-hashes -r requirements/base.txt -r requirements/dev.txt"
        " -r requirements/cuda13.txt"
    )
    assert own_code.endswith("--no-deps --no-build-isolation -e .")
    assert "tools/card_check run --out .card_check/results" in (folder / "asked").read_text()


def test_where_nothing_can_be_installed_the_command_fails(folder: Path, tmp_path: Path) -> None:
    python = python_without_pip(tmp_path / "image")
    own = folder / ".venv" / "bin" / "python"
    own.parent.mkdir(parents=True)
    own.write_text("#!/bin/sh\nexit 1\n")
    own.chmod(0o755)
    (folder / "requirements").mkdir()
    for name in ("pyproject.toml", "requirements/base.txt", "requirements/dev.txt"):
        (folder / name).touch()
    done = make(folder, python)
    assert done.returncode != 0
    assert RUN not in done.stdout
