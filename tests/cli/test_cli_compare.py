"""``mansard compare``: what changed between two folders, modes or runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from mansard.cli.deciding import compare
from tests.analytics.factory import (
    KIB,
    TWO_CORES,
    Ceilings,
    fma_trials,
    manifest,
    stream_trials,
    write_two_modes,
)
from tests.analytics.factory import write_run as write_one
from tests.analytics.gpu_factory import gpu_manifest, gpu_trial
from tests.analytics.gpu_runs import Run
from tests.cli.decide_runs import answer, document, published_runs


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return write_two_modes(tmp_path / "runs")


def slower_memory(folder: Path) -> Path:
    ceilings = Ceilings(levels={**TWO_CORES.levels, "DRAM": 8e9})
    trials = [*fma_trials("later", ceilings), *stream_trials("later", ceilings)]
    write_one(folder / "later", manifest("later", 2, len(trials)), trials)
    return folder


def test_modes_of_one_name_are_paired_and_the_rest_is_listed(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = answer(capsys, "compare", runs, slower_memory(tmp_path / "later"))
    assert code == 0
    assert "4 of 18 quantities that were tested differ" in out
    assert "worse: lower" in out
    assert "DRAM read" in out
    assert "L1 read" not in out  # it did not change
    assert f"only in {runs}: {runs}: 1c" in err.replace("\n", " ")


def test_two_modes_of_one_folder(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (one,) = document(capsys, "compare", runs, runs, "--mode", "1c", "--other-mode", "2c")[
        "comparisons"
    ]
    ratios = {change["quantity"]: change["ratio"] for change in one["changes"]}
    assert ratios["fp32 peak"] == pytest.approx(2.0)  # 64 and 128 GFLOP/s
    assert ratios["DRAM read"] == pytest.approx(1.25)  # 12.8 and 16 GB/s
    assert "mode: 1c and 2c" in one["differences"]


def test_single_runs_can_be_named(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (one,) = document(capsys, "compare", runs / "run-1c", runs / "run-1c")["comparisons"]
    assert one["first"] == one["second"]
    assert not any(change["is_significant"] for change in one["changes"])
    assert {change["ratio"] for change in one["changes"]} == {1.0}


def test_unchanged_quantities_are_shown_when_asked_for(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = answer(capsys, "compare", runs, runs, "--mode", "2c", "--all")
    assert "within 1 %" in out
    _, out, _ = answer(capsys, "compare", runs, runs, "--mode", "2c", "--all", "--threshold", "0")
    assert "within" not in out.split("quantities")[0]
    assert "no clear difference" in out


def test_the_threshold_says_what_counts(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Memory at 16 GB/s and at 8: half; what is allowed is a factor of 1.9 either way.
    later = slower_memory(tmp_path / "later")
    found = document(capsys, "compare", runs, later, "--threshold", "0.9")["comparisons"]
    assert [one["threshold"] for one in found] == [0.9]
    changed = {each["quantity"]: each["is_significant"] for each in found[0]["changes"]}
    assert changed["DRAM read"] is True
    _, out, _ = answer(capsys, "compare", runs, runs, "--mode", "2c", "--threshold", "0.02")
    assert "differ by more than 2 % and their scatter" in out


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["--mode", "9c"], 2, "no run is of mode '9c'; there are 1c, 2c"),
        (["--other-mode", "9c"], 2, "no run is of mode '9c'"),
        (["--threshold", "5"], 2, "a threshold of 5 is not a share; say 0.01 for 1 %"),
    ],
)
def test_what_cannot_be_compared_is_one_line(
    runs: Path, capsys: pytest.CaptureFixture[str], options: list[str], code: int, says: str
) -> None:
    found, out, err = answer(capsys, "compare", runs, runs, *options)
    assert (found, out) == (code, "")
    assert says in err
    assert err.count("\n") == 1


def test_a_folder_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = answer(capsys, "compare", tmp_path / "no", tmp_path / "no")
    assert code == 1
    assert "there is no such folder" in err


def test_published_tables_alone_cannot_be_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = published_runs(tmp_path / "runs")
    code, out, err = answer(capsys, "compare", folder, folder)
    assert (code, out) == (1, "")
    assert "published tables are not compared" in err


def test_more_operations_of_integers_are_better(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, rate in (("before", 9e12), ("after", 18e12)):
        kernel = Run("mma", "tensor", rate, "int8", working_set_bytes=768 * KIB)
        write_one(tmp_path / name / "run", gpu_manifest("run"), [gpu_trial("run", kernel)])
    code, out, _ = answer(capsys, "compare", tmp_path / "before", tmp_path / "after", "--all")
    assert code == 0
    (row,) = [line for line in out.splitlines() if "int8 tensor peak" in line]
    assert "TOP/s" in row
    assert "FLOP" not in row
    assert "better: higher" in row


def test_a_p_value_is_printed_to_three_digits() -> None:
    assert [compare._p(p) for p in (None, 0.0, 0.00099, 0.001, 0.0014, 1.0)] == [
        *("not tested", "< 0.001", "< 0.001", "0.001", "0.001", "1.000")
    ]
