"""The whole check in processes of their own, on a card in software, and what is made of it here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mansard.microbench.cuda.probe import probe_gpu
from tests.boundaries.test_boundaries_imports import BLOCKER
from tools.card_check.steps.gpu_tests import JUNIT, read_results, run_tests

ROOT = Path(__file__).resolve().parents[2]
TOOL = str(ROOT / "tools/card_check")
ALLOWED = "__main__,msgspec,numpy,numba,llvmlite,tools,sitecustomize"


@pytest.fixture(scope="session")
def out(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """What ``run --software h100`` leaves and prints where msgspec, NumPy and Numba are alone."""
    folder = tmp_path_factory.mktemp("check")
    # Every Python that the check starts blocks the other libraries, as the image lacks them.
    blocker = BLOCKER.replace("sys.argv[1]", repr(ALLOWED))
    (folder / "sitecustomize.py").write_text(blocker)
    out = folder / "out"
    done = subprocess.run(
        [sys.executable, TOOL, "run", "--out", str(out), "--software", "h100"],
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return out, done.stdout


def test_it_runs_to_its_table_without_the_libraries_of_the_host(out: tuple[Path, str]) -> None:
    folder, printed = out
    last = printed.splitlines()[-1]
    assert " 0 failed, " in last
    assert int(last.split()[0]) > 20
    for row in ("pass fma fp32", "pass read DRAM", "pass measure -- COMMAND", "pytest is not"):
        assert row in printed
    steps = json.loads((folder / "steps.json").read_text())["steps"]
    assert [one["name"] for one in steps if one["status"] == "done"] == [
        "facts", "kernels", "meter", "peers", "program", "rest",
    ]  # fmt: skip
    # What counts needs no other library either: it fails for the want of ncu alone.
    assert not any("No module" in one["why"] for one in steps)


def test_results_are_few_small_files(out: tuple[Path, str]) -> None:
    folder, _ = out
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert 4 <= len(files) <= 8
    assert all(path.parent == folder for path in files)
    assert all(path.stat().st_size < 16 << 20 for path in files)


def test_a_report_is_made_of_what_came_back(out: tuple[Path, str], tmp_path: Path) -> None:
    folder, _ = out
    results = tmp_path / "results"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tools.card_check", "report", str(folder)),
            *("--into", str(tmp_path / "unpacked"), "--results", str(results)),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    place = tmp_path / "unpacked/software-h100"
    assert "<html" in (place / "report.html").read_text()[:400]
    # A card in software is no result: its document stays beside its report.
    assert not results.exists() or not list(results.iterdir())
    document = (place / "software-h100.md").read_text()
    assert "nothing here was measured" in document
    assert "| pass | fma fp32 | 58 TFLOP/s |" in document
    # The model finds what the card in software was made of: 5.94 pJ, 124 pJ and 98 W.
    cells = [row.split(" | ") for row in document.splitlines() if row.startswith("| info")]
    rows = {row[1]: row[2] for row in cells}
    assert float(rows["energy of an fp32 FLOP"].split()[0]) == pytest.approx(5.94, rel=0.03)
    assert float(rows["energy of a byte of DRAM"].split()[0]) == pytest.approx(124, rel=0.03)
    assert float(rows["constant power"].split()[0]) == pytest.approx(98, rel=0.03)
    assert "step counters: failed" in document


def test_a_folder_without_results_is_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.card_check", "report", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "card_check.tar.gz" in done.stderr


def test_a_python_without_msgspec_is_told_what_to_carry(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        BLOCKER.replace("sys.argv[1]", repr("__main__,tools"))
    )
    done = subprocess.run(
        [sys.executable, TOOL, "run", "--out", str(tmp_path / "out")],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "prepare --python 3." in done.stderr


def test_the_tests_of_a_card_pass_on_one_in_software(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert run_tests(tmp_path, is_software=True) == 0
    results = read_results(tmp_path / JUNIT)
    assert results is not None
    assert results.failed == ()
    assert results.n_passed > 50


def test_without_a_card_there_is_a_table_that_says_so(tmp_path: Path) -> None:
    if probe_gpu().gpu is not None:
        pytest.skip("this machine has a card")
    out, results = tmp_path / "out", tmp_path / "results"
    ran = subprocess.run(
        [sys.executable, TOOL, "run", "--out", str(out), "--seconds", "200"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    assert "FAIL kernels | no GPU to measure: " in ran.stdout
    assert ran.stdout.splitlines()[-1].startswith("0 passed, ")
    made = subprocess.run(
        [
            *(sys.executable, TOOL, "report", str(out)),
            *("--into", str(tmp_path / "unpacked"), "--results", str(results)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 1
    assert not results.exists()
    document = (tmp_path / "unpacked/card/card.md").read_text()
    assert "no GPU to measure: " in document
    assert "0 GiB" not in document
