"""``make test-gpu``: without pip where a Python has what it needs, else with the pinned extras."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NEEDED = ("cupy", "hypothesis", "msgspec", "numba", "numpy")
# As ``python -m pytest`` runs it.
PYTEST = "import os, sys\nprint('pytest', *sys.argv[1:])\nprint(os.environ['PYTHONPATH'])\n"
PEER = "import sys\nprint('peer', *sys.argv[1:])\nsys.exit(3)\n"
# A Python that imports everything once pip has run, and writes down what it is asked for.
LOGGING = """#!/bin/sh
echo "$*" >> asked
case "$*" in
    "-m pip"*) touch installed;;
    "-c import"*) test -e installed;;
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
    (made / "benchmarks").mkdir()
    (made / "benchmarks" / "gpu_peer.py").write_text(PEER)
    return made


def make(folder: Path, python: Path | str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", "test-gpu", f"PYTHON={python}", *(f"{k}={v}" for k, v in settings.items())],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "PIP_NO_INDEX": "1", "PYTHONPATH": "/carried"},
        capture_output=True,
        text=True,
        check=False,
    )


def python_without_pip(folder: Path, *modules: str) -> Path:
    """A Python of its own that has these modules, pytest, and nothing to install others with."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for name in modules:
        (site / f"{name}.py").touch()
    (site / "pytest.py").write_text(PYTEST)
    return folder / "bin" / "python"


def test_a_python_that_has_everything_needs_no_pip(folder: Path, tmp_path: Path) -> None:
    python = python_without_pip(tmp_path / "image", *NEEDED)
    done = make(folder, python, RUNS="my runs", PROFILE="brief")
    assert done.returncode == 0, done.stderr  # 3 says that there is no GPU
    ran, path, peer = done.stdout.splitlines()
    assert ran == "pytest tests/gpu -p no:cacheprovider -rs"
    assert peer == "peer --profile brief --runs my runs"
    assert path.split(os.pathsep)[-1] == "/carried"
    assert f"{folder}/microbench/src" in path.split(os.pathsep)
    assert not (folder / ".venv").exists()


def test_what_a_python_lacks_is_named_and_the_pinned_extras_are_installed(
    folder: Path, tmp_path: Path
) -> None:
    python = python_without_pip(tmp_path / "image", *(set(NEEDED) - {"cupy", "msgspec"}))
    own = folder / ".venv" / "bin" / "python"
    own.parent.mkdir(parents=True)
    own.write_text(LOGGING)
    own.chmod(0o755)
    for name in ("pyproject.toml", "constraints.txt"):
        (folder / name).touch()
    time.sleep(0.02)  # make compares times
    (folder / ".venv" / ".dev").touch()
    done = make(folder, python, CUDA="cuda13")
    assert done.returncode == 0, done.stderr
    assert f"{python} does not import: cupy msgspec" in done.stderr
    (install,) = [
        line for line in (folder / "asked").read_text().splitlines() if line.startswith("-m pip")
    ]
    assert install.endswith("-c constraints.txt -c constraints-cuda13.txt -e .[dev,cuda13]")
    assert "-m pytest tests/gpu -p no:cacheprovider -rs" in (folder / "asked").read_text()


def test_where_nothing_can_be_installed_the_command_fails(folder: Path, tmp_path: Path) -> None:
    python = python_without_pip(tmp_path / "image")
    own = folder / ".venv" / "bin" / "python"
    own.parent.mkdir(parents=True)
    own.write_text("#!/bin/sh\nexit 1\n")
    own.chmod(0o755)
    for name in ("pyproject.toml", "constraints.txt"):
        (folder / name).touch()
    done = make(folder, python)
    assert done.returncode != 0
    assert "pytest tests/gpu" not in done.stdout
