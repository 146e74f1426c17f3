"""``models ncu import`` and ``check`` as a user starts them, and the report of their results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mansard.estimator import score, zoo
from tests.analytics.factory import write_two_modes
from tests.analytics.ncu_exports import SASS, raw_page
from tests.cli.decide_runs import answer

UNITS = {
    "gpu__time_duration.sum": "ns",
    SASS.format("ffma"): "inst",
    SASS.format("fadd"): "inst",
    SASS.format("fmul"): "inst",
    "sm__inst_executed_pipe_tensor.sum": "inst",
    "lts__d_sectors_fill_sysmem.sum": "sector",
    "lts__t_sectors_aperture_sysmem_op_write.sum": "sector",
}
ORIGIN = ("--citation", "A. Author", "--device", "board")
Capsys = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_export(tmp_path_factory.mktemp("exports"))


def write_export(folder: Path) -> Path:
    """AlexNet with a kernel for each of its nodes: 1 µs, its own work and bytes."""
    layers = score(zoo.read("alexnet"), batch=1, precision="fp32").layers
    rows, kernels = [], []
    for layer in layers:
        if layer.work_flop or layer.traffic_bytes:
            sectors = [f"{(each or 0) // 32:,}" for each in (layer.read_bytes, layer.write_bytes)]
            rows.append(["1,000", f"{(layer.work_flop or 0) // 2:,}", "0", "0", "0", *sectors])
            kernels.append("implicit_gemm" if layer.macs else f"{layer.op_type}_kernel")
    path = folder / "export.csv"
    path.write_text("==PROF== Connected\n" + raw_page(UNITS, rows, kernels))
    return path


def keep(capsys: Capsys, export: Path, runs: Path, network: str, *more: str) -> str:
    given = (*ORIGIN, "--network", network, "--precision", "fp32", *more)
    code, out, err = answer(capsys, "ncu", "import", export, *given, "--runs", runs)
    assert code == 0, err
    return str(out)


def test_an_export_is_kept_once_and_checked(export: Path, tmp_path: Path, capsys: Capsys) -> None:
    runs = tmp_path / "runs"
    first = keep(capsys, export, runs, "alexnet", "--batch", "1", "--json")
    again = keep(capsys, export, runs, "alexnet", "--batch", "1")
    (row,) = json.loads(first)["exports"]
    assert (row["form"], row["was_there"]) == ("raw page", False)
    assert row["kernels"][0]["share"] > row["kernels"][-1]["share"] > 0
    assert "implicit_gemm" in again
    assert "already imported: " in again
    (kept,) = (runs / "published").iterdir()
    assert kept.name == f"counters-{row['id']}.jsonl"
    code, out, err = answer(capsys, "ncu", "check", "--runs", runs, "--json")
    assert code == 0, err
    (network,) = json.loads(out)["networks"]
    assert network["matched"] == "order and size"
    assert abs(network["work_ratio"] - 1) < 1e-3
    assert abs(network["bytes_ratio"] - 1) < 1e-3
    _, shown, _ = answer(capsys, "ncu", "check", "--runs", runs)
    assert "alexnet on board, batch 1, fp32" in shown
    assert "100 % of the kernels' time joined to single nodes" in shown


@pytest.mark.parametrize(
    ("code", "said", "arguments"),
    [
        (1, "missing.csv", ("missing.csv", *ORIGIN)),
        (1, "is not an export", (__file__, *ORIGIN)),
        (2, "write it as 8.7", ("EXPORT", *ORIGIN, "--compute-capability", "x")),
        (2, "unknown precision", ("EXPORT", *ORIGIN, "--precision", "f")),
        (2, "not 2 times", ("EXPORT", *ORIGIN, "--calls", "2")),
        (2, "--citation has no value", ("EXPORT", "--citation", " ", "--device", "board")),
    ],
)
def test_bad_input_is_one_line(
    code: int, said: str, arguments: tuple[Any, ...], export: Path, tmp_path: Path, capsys: Capsys
) -> None:
    given = [export if each == "EXPORT" else each for each in arguments]
    found, _, err = answer(capsys, "ncu", "import", *given, "--runs", tmp_path / "runs")
    assert (found, len(err.strip().splitlines())) == (code, 1), err
    assert said in err
    assert not (tmp_path / "runs").exists()


def test_import_says_which_command_reads_counters(
    export: Path, tmp_path: Path, capsys: Capsys
) -> None:
    gui, report = tmp_path / "gui.csv", tmp_path / "net.ncu-rep"
    gui.write_text('\ufeff"ID";"Function Name";"Duration [us]"\n"0";"k";"1,50"\n')
    report.write_bytes(b"NVR\0\x08\0\0\0")
    for path in (export, gui, report):
        code, _, err = answer(capsys, "import", path, *ORIGIN, "--runs", tmp_path / "runs")
        assert code == 1
        assert "use 'mansard models ncu import'" in err


def test_nothing_to_check(tmp_path: Path, capsys: Capsys) -> None:
    code, _, err = answer(capsys, "ncu", "check", "--runs", tmp_path)
    assert code == 1
    assert "holds no counters" in err


def test_a_network_without_an_estimate_is_named(
    export: Path, tmp_path: Path, capsys: Capsys
) -> None:
    keep(capsys, export, tmp_path, "mynet")
    code, _, err = answer(capsys, "ncu", "check", "--runs", tmp_path)
    assert code == 2
    assert "mynet on board has no estimate" in err
    _, _, err = answer(capsys, "ncu", "check", "--runs", tmp_path, "--network", "other")
    assert "use one of mynet" in err
    model = zoo.write("alexnet", tmp_path)
    code, _, err = answer(capsys, "ncu", "check", model, "--runs", tmp_path)
    assert (code, "--batch" in err) == (1, True)
    code, _, err = answer(capsys, "ncu", "check", model, "--runs", tmp_path, "--batch", "1")
    assert code == 0, err


def test_the_report_has_the_counters_of_its_folder(
    export: Path, tmp_path: Path, capsys: Capsys
) -> None:
    runs = write_two_modes(tmp_path / "runs")
    assert answer(capsys, "report", "--runs", runs)[0] == 0
    assert 'id="counted"' not in (runs / "report.html").read_text("utf-8")
    keep(capsys, export, runs, "alexnet", "--batch", "1")
    keep(capsys, export, runs, "unknown<net>")
    code, _, err = answer(capsys, "report", "--runs", runs)
    assert code == 0, err
    assert "unknown<net> on board has no estimate" in err
    page = (runs / "report.html").read_text("utf-8")
    assert 'id="counted"' in page
    assert "alexnet on board, batch 1, fp32" in page
    assert "A. Author" in page
    assert "unknown<net>" not in page


def test_a_kept_table_that_was_changed_is_a_note_in_the_report(
    export: Path, tmp_path: Path, capsys: Capsys
) -> None:
    runs = write_two_modes(tmp_path / "runs")
    keep(capsys, export, runs, "alexnet", "--batch", "1")
    (kept,) = (runs / "published").glob("counters-*")
    kept.write_text(kept.read_text().replace("implicit_gemm", "other", 1))
    code, _, err = answer(capsys, "ncu", "check", "--runs", runs)
    assert code == 1
    assert "does not hold the table that its name says" in err
    code, _, err = answer(capsys, "report", "--runs", runs)
    assert code == 0, err
    assert "counters are not shown" in err
