"""``mansard models batch``: what batch sizes cost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.analytics.factory import measurement, write_networks, write_two_modes
from tests.analytics.gpu_factory import write_orin
from tests.cli.cells import row
from tests.cli.decide_runs import answer, document, published_runs


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_two_modes(tmp_path_factory.mktemp("batch") / "runs")


def test_a_sweep_of_a_network_has_one_row_for_each_batch(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = document(capsys, "batch", "alexnet", "--runs", runs, "--batch", "1,4,16")["batches"]
    assert [(each["mode"], each["batch"]) for each in rows] == [("2c", 1), ("2c", 4), ("2c", 16)]
    for each in rows:
        assert each["items_per_s"] == pytest.approx(each["batch"] / each["latency_s"])
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
    assert "alexnet in fp32 on Example, 2c (modelled)" in out
    assert "most items per second" in out


def test_a_network_on_its_roof_takes_at_best_that(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    _, out, _ = answer(capsys, "batch", "alexnet", "--runs", runs, "--batch", "1")
    _, time, rate, *_ = row(out, "1")
    (found,) = document(capsys, "batch", "alexnet", "--runs", runs, "--batch", "1")["batches"]
    assert found["interval"] == "roof"
    assert time.startswith("at best ")
    assert rate.startswith("at most ")
    assert float(time.split()[2]) <= found["latency_s"] * 1e3
    assert float(rate.split()[2]) >= 1 / found["latency_s"]


def test_a_measured_network_has_the_interval_of_its_runs_and_no_precision_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    table = tmp_path / "table.csv"
    table.write_text(
        "mode,network,batch,time_ms,power_w\nMAXN,seen,1,20.0,10.0\n", encoding="utf-8"
    )
    named = ("--citation", "made up", "--device", "Jetson Madeup", "--runs", tmp_path / "runs")
    assert answer(capsys, "import", table, *named)[0] == 0
    _, out, err = answer(capsys, "batch", "seen", "--runs", tmp_path / "runs")
    assert "seen on Jetson Madeup (published), MAXN (published)" in out
    # t(4) · 1.2 %: e^0.03332 - 1 = 3.39 % of 20 ms is 0.68 ms; t(4) · 0.8 % of 10 W: 0.23 W
    assert {"20.00 ± 0.68 ms", "10.00 ± 0.23 W"} < set(row(out, "1"))
    assert "single measurement: ± 3.3 % of time and ± 2.2 % of power" in err


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


def test_what_was_measured_stands_beside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    runs = write_two_modes(tmp_path / "runs")
    write_networks(runs, [measurement("nets", (0.08,) * 9, model="alexnet", batch=4)])
    _, out, _ = answer(capsys, "batch", "alexnet", "--runs", runs, "--batch", "1,4")
    assert "2c (modelled), with times measured by onnxruntime cpu" in out
    # 80 ms for four
    assert row(out, "4")[5:7] == ["80.0 ms", "50.0"]
    assert "80.0 ms" not in row(out, "1")
    (first, second) = document(
        capsys, "batch", "alexnet", "--runs", runs, "--batch", "1,4"
    )["batches"]  # fmt: skip
    assert (first["measured_s"], second["measured_s"]) == (None, 0.08)


def test_the_intensity_of_integers_is_in_operations_a_byte(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    runs = write_orin(tmp_path / "runs")
    asked = ("batch", "alexnet", "--runs", runs, "--batch", "1,8", "--precision", "fp16,int8")
    _, out, _ = answer(capsys, *asked)
    of_floats, of_integers = out.split("alexnet in int8")
    assert "FLOP/byte" in of_floats
    assert "OP/byte" in of_integers
    assert "FLOP" not in of_integers
