"""``mansard ncu import`` and ``check`` as a user starts them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from mansard.estimator import score, zoo
from tests.analytics.ncu_exports import raw_page

SASS = "sm__sass_thread_inst_executed_op_{}_pred_on.sum"
UNITS = {
    "gpu__time_duration.sum": "ns",
    SASS.format("ffma"): "inst",
    SASS.format("fadd"): "inst",
    SASS.format("fmul"): "inst",
    "sm__inst_executed_pipe_tensor_op_hmma.sum": "inst",
    "lts__d_sectors_fill_sysmem.sum": "sector",
    "lts__t_sectors_aperture_sysmem_op_write.sum": "sector",
}
ORIGIN = ("--citation", "A. Author", "--device", "board", "--network", "alexnet")


def mansard(cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mansard.cli", "ncu", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
    )


def write_export(folder: Path) -> None:
    """AlexNet with a kernel for each of its nodes: 1 µs, its own work and bytes."""
    layers = score(zoo.read("alexnet"), batch=1, precision="fp32").layers
    rows, kernels = [], []
    for layer in layers:
        if layer.work_flop or layer.traffic_bytes:
            sectors = [f"{(each or 0) // 32:,}" for each in (layer.read_bytes, layer.write_bytes)]
            rows.append(["1,000", f"{(layer.work_flop or 0) // 2:,}", "0", "0", "0", *sectors])
            kernels.append("implicit_gemm" if layer.macs else f"{layer.op_type}_kernel")
    (folder / "export.csv").write_text("==PROF== Connected\n" + raw_page(UNITS, rows, kernels))


def test_an_export_is_kept_once_and_checked(tmp_path: Path) -> None:
    write_export(tmp_path)
    arguments = ("import", "export.csv", *ORIGIN, "--precision", "fp32", "--batch", "1", "--json")
    first, again = mansard(tmp_path, *arguments), mansard(tmp_path, *arguments[:-1])
    assert first.returncode == 0, first.stderr
    (row,) = json.loads(first.stdout)
    assert (row["form"], row["was_there"]) == ("raw page", False)
    assert abs(sum(kernel["share"] for kernel in row["kernels"]) - 1) < 1e-9
    assert "implicit_gemm" in again.stdout
    assert "was there before: runs/published/counters-" in again.stdout
    (kept,) = (tmp_path / "runs/published").iterdir()
    assert kept.name == f"counters-{row['id']}.jsonl"
    checked = mansard(tmp_path, "check", "--json")
    assert checked.returncode == 0, checked.stderr
    (network,) = json.loads(checked.stdout)
    assert network["matched"] == "order and size"
    assert abs(network["work_ratio"] - 1) < 1e-3
    assert abs(network["bytes_ratio"] - 1) < 1e-3
    shown = mansard(tmp_path, "check")
    assert "alexnet on board, batch 1, fp32" in shown.stdout
    assert "100 % of the kernels' time joined to single nodes" in shown.stdout


def refused(folder: Path, code: int, said: str, *arguments: str) -> None:
    found = mansard(folder, *arguments)
    assert found.returncode == code, found.stderr
    assert len(found.stderr.strip().splitlines()) == 1
    assert said in found.stderr


def test_bad_input_is_one_line(tmp_path: Path) -> None:
    write_export(tmp_path)
    (tmp_path / "notes.txt").write_text("nothing\n")
    refused(tmp_path, 1, "is no export", "import", "notes.txt", *ORIGIN)
    refused(tmp_path, 2, "8.7", "import", "export.csv", *ORIGIN, "--compute-capability", "x")
    refused(tmp_path, 2, "not 2 times", "import", "export.csv", *ORIGIN, "--iterations", "2")
    assert not (tmp_path / "runs").exists()
    refused(tmp_path, 1, "holds no counters", "check")


def test_a_network_without_an_estimate_is_named(tmp_path: Path) -> None:
    write_export(tmp_path)
    origin = (*ORIGIN[:-1], "mynet")
    assert mansard(tmp_path, "import", "export.csv", *origin).returncode == 0
    found = mansard(tmp_path, "check")
    assert found.returncode == 2
    assert "mynet on board has no estimate" in found.stderr
    zoo.write("alexnet", tmp_path)
    assert mansard(tmp_path, "check", "alexnet.onnx", "--batch", "1").returncode == 0
