"""``mansard batch``: what batch sizes cost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.analytics.factory import write_two_modes
from tests.cli.decide_runs import answer, document, published_runs


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_two_modes(tmp_path_factory.mktemp("batch") / "runs")


def test_a_sweep_of_a_network_has_one_row_for_each_batch(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = document(capsys, "batch", "alexnet", "--runs", runs, "--batch", "1,4,16")["batches"]
    assert [(row["mode"], row["batch"]) for row in rows] == [("2c", 1), ("2c", 4), ("2c", 16)]
    for row in rows:
        assert row["items_per_s"] == pytest.approx(row["batch"] / row["latency_s"])
    # Weights are read once for a batch: a larger one does more for each byte, and never less.
    intensities = [row["intensity_flop_per_byte"] for row in rows]
    assert intensities == sorted(intensities)
    assert intensities[0] < intensities[-1]


def test_all_measured_modes_can_be_asked_for(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("batch", "alexnet", "--runs", runs, "--batch", "1", "--mode", "measured")
    rows = document(capsys, *arguments)["batches"]
    assert [row["mode"] for row in rows] == ["1c", "2c"]


def test_the_table_names_network_mode_and_source(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = answer(capsys, "batch", "alexnet", "--runs", runs, "--batch", "1,64")
    assert code == 0
    assert "alexnet in fp32 on Example CPU, 2c (modelled)" in out
    assert "most items per second" in out


def test_notes_about_the_numbers_follow_the_table(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, _, err = answer(capsys, "batch", "alexnet", "--runs", runs, "--batch", "1,2")
    assert err.count("launch costs are left out") == 1


def test_nothing_to_predict_is_said_in_one_line(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = answer(capsys, "batch", "--runs", runs)
    assert (code, out) == (1, "")
    assert "there is nothing to predict" in err
    assert err.count("\n") == 1


def test_a_batch_alone_is_no_best_and_clocks_beyond_are_marked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = published_runs(tmp_path / "runs")
    table = tmp_path / "modes.csv"
    table.write_text("mode,gpu_mhz,memory_hz\nbeyond,2400,2.4e9\n", encoding="utf-8")
    code, out, _ = answer(capsys, "batch", "seen", "--runs", runs, "--mode", table)
    assert code == 0
    assert "outside the measured" in out
    assert "most items per" not in out
    (row,) = document(capsys, "batch", "seen", "--runs", runs, "--mode", table)["batches"]
    assert row["is_extrapolated"]
