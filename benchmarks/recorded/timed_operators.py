"""Operators that others timed on GPUs, with their shapes, as the product takes timed operators.

``timed_convolutions.csv``: 1,200 convolutions on an A100 in fp32 without TF32, cuDNN's kernels
under Nsight Compute (leleucas/Actual-Parameter-Collection-for-Machine-Learning-Operators,
Apache-2.0, commit ef50400e, conv2d/actualpara-perf-distribution: conv2d_results_count0929.csv for
the shapes and pd_a100_tc.csv for FLOP and time, row by row). Taken at random (seed 0) from 3,479 of
4,349 rows: those whose shape is there once and whose counted FLOP are 0.2 to 1.5 times those of the
shape. Others have more groups than one, which the file does not say, or run by FFT.
The rest is in ../shared/data: products of six GPUs (gemm), linear layers and ReLUs of the same A100
(ncu), layers that TensorRT timed (trtexec).
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from mansard.analytics.models.predict.groups import OpClass
from mansard.analytics.models.predict.operator_times import TimedOperator, at_roofs

_BYTES = 4  # of fp32


@dataclass(frozen=True)
class Gpu:
    """What a data sheet says; ``power_w``: that of the board."""

    name: str
    flop_per_s: float
    bytes_per_s: float
    n_sms: int
    cache_bytes: float
    power_w: float


# Board powers as NVIDIA's data sheets of the cards have them; device_configs has the rest.
POWER_W = {
    "Tesla P4": 75.0,
    "Tesla T4": 70.0,
    "Tesla P100-PCIE-16GB": 250.0,
    "Tesla V100-PCIE-32GB": 250.0,
    "NVIDIA A100-PCIE-40GB": 250.0,
    "NVIDIA A100 80GB PCIe": 300.0,
}
_A100 = (19.492e12, 1.555e12)  # FLOP/s in fp32 without TF32, B/s: data sheet of the 40 GB card


def gpus(folder: Path) -> dict[str, Gpu]:
    """The six GPUs of NeuSight."""
    known = {}
    for path in sorted((folder / "gemm/sitar-lab+NeuSight__device_configs").glob("*.json")):
        sheet = json.loads(path.read_text())
        if sheet["Device"] in POWER_W:
            known[sheet["Device"]] = Gpu(
                sheet["Device"],
                sheet["SingleFLOPs"] * 1e9,
                sheet["Mem_Bw"] * 1e9,
                sheet["Num_Sm"],
                sheet["L2Cache"] * 1e6,
                POWER_W[sheet["Device"]],
            )
    return known


def neusight(folder: Path, kind: str, gpu: Gpu) -> list[TimedOperator]:
    """Its "linear", "bmm", "softmax" or "ln" on ``gpu``, at the roofs of the data sheet."""
    path = folder / f"gemm/sitar-lab+NeuSight__test_{kind}.csv"
    with path.open(newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["Device"] == gpu.name]
    made = [_neusight_row(row, kind, gpu.name) for row in rows]
    return at_roofs(made, gpu.flop_per_s, gpu.bytes_per_s)


def _neusight_row(row: dict[str, str], kind: str, device: str) -> TimedOperator:
    shared: dict[str, Any] = {
        "precision": "fp32",
        "work_s": 0.0,
        "traffic_s": 0.0,
        "measured_s": float(row["Latency"]) / 1e3,
        "device": device,
        "engine": "torch",
        "source": "published",
    }
    batch = int(row["B"])
    if kind in {"softmax", "ln"}:
        n = batch * int(row["H"])
        return TimedOperator(
            kind="normalization", work_flop=5.0 * n, traffic_bytes=2.0 * n * _BYTES, **shared
        )
    m, n, k = int(row["M"]), int(row["N"]), int(row["K"])
    return TimedOperator(
        kind="matmul",
        m=m,
        n=n,
        k=k,
        n_products=batch,
        work_flop=2.0 * batch * m * n * k,
        traffic_bytes=float(batch * (m * n + n * k + m * k) * _BYTES),
        **shared,
    )


def convolutions() -> list[TimedOperator]:
    """Those of the A100."""
    with (Path(__file__).parent / "timed_convolutions.csv").open(newline="") as stream:
        made = [_convolution(list(map(int, row.values()))) for row in csv.DictReader(stream)]
    return at_roofs(made, *_A100)


def _convolution(row: list[int]) -> TimedOperator:
    batch, channels, height, width, filters, r, s, u, v, pad_height, pad_width, time_ns = row
    m = batch * ((height + 2 * pad_height - r) // u + 1) * ((width + 2 * pad_width - s) // v + 1)
    k = channels * r * s
    elements = batch * channels * height * width + filters * k + m * filters
    return TimedOperator(
        kind="conv",
        m=m,
        n=filters,
        k=k,
        window=r * s / (u * v),
        precision="fp32",
        work_flop=2.0 * m * filters * k,
        traffic_bytes=float(elements * _BYTES),
        work_s=0.0,
        traffic_s=0.0,
        measured_s=time_ns * 1e-9,
        device="A100",
        engine="cudnn",
        source="published",
    )


def linears(folder: Path) -> list[TimedOperator]:
    """1,381 linear layers on the A100."""
    with (folder / "ncu/leleucas__A100_linear_ncu.csv").open(newline="") as stream:
        made = [
            _linear(int(row["N"]), int(row["cout"]), int(row["cin"]), float(row["Time"]))
            for row in csv.DictReader(stream)
        ]
    return at_roofs(made, *_A100)


def _linear(m: int, n: int, k: int, measured_s: float) -> TimedOperator:
    return TimedOperator(
        kind="matmul",
        m=m,
        n=n,
        k=k,
        precision="fp32",
        work_flop=2.0 * m * n * k,
        traffic_bytes=float((m * n + n * k + m * k) * _BYTES),
        work_s=0.0,
        traffic_s=0.0,
        measured_s=measured_s,
        device="A100",
        engine="cublas",
        source="published",
    )


def relus(folder: Path) -> list[TimedOperator]:
    """4,237 ReLUs on the A100."""
    shapes = json.loads((folder / "ncu/leleucas__A100_relu_shapes.json").read_text())["input_size"]
    with (folder / "ncu/leleucas__A100_relu_ncu.csv").open(newline="") as stream:
        times = [float(row["gpu__time_duration.sum"]) / 1e9 for row in csv.DictReader(stream)]
    made = [
        TimedOperator(
            kind="elementwise",
            precision="fp32",
            work_flop=float(prod(shape)),
            traffic_bytes=2.0 * prod(shape) * _BYTES,
            work_s=0.0,
            traffic_s=0.0,
            measured_s=time_s,
            device="A100",
            engine="torch",
            source="published",
        )
        for shape, time_s in zip(shapes, times, strict=True)
    ]
    return at_roofs(made, *_A100)


_ORIN = "power_modes/branes-ai+graphs__jetson_orin_per_subgraph_latency_by_power_mode.csv"
# AGX Orin at MAXN; a factor of all work or all traffic changes nothing but the baselines' start.
_ORIN_ROOFS = {"fp32": (5.3e12, 204.8e9), "fp16": (42e12, 204.8e9), "bf16": (42e12, 204.8e9)}
_WORDS: dict[str, OpClass] = {"conv": "conv", "linear": "matmul", "matmul": "matmul"}


def orin_networks(folder: Path) -> Iterator[dict[tuple[str, str], list[TimedOperator]]]:
    """Layers by network and batch, of one mode and precision after the other; shapes are unknown.

    The class is by the first module of a fused subgraph: a convolution, a linear layer, a pooling,
    or elementwise. Traffic is counted in 4 bytes in every precision.
    """
    networks: dict[tuple[str, str], dict[tuple[str, str], list[TimedOperator]]] = {}
    with (folder / _ORIN).open(newline="") as stream:
        for row in csv.DictReader(stream):
            place = networks.setdefault((row["power_mode"], row["precision"]), {})
            place.setdefault((row["model"], row["batch"]), []).append(_orin_row(row))
    yield from networks.values()


def _orin_row(row: dict[str, str]) -> TimedOperator:
    words = row["fusion_pattern"].lower()
    kind: OpClass = "elementwise"
    for word, named in _WORDS.items():
        if words.startswith(word):
            kind = named
    if kind == "elementwise" and ("conv" in words or "pool" in words):
        kind = "conv" if "conv" in words else "pooling"
    width = _BYTES if row["precision"] == "fp32" else 2
    flop, moved = float(row["flops"]), float(row["total_bytes"]) * width / _BYTES
    flop_per_s, bytes_per_s = _ORIN_ROOFS[row["precision"]]
    return TimedOperator(
        kind=kind,
        precision=row["precision"],
        work_flop=flop,
        traffic_bytes=moved,
        work_s=flop / flop_per_s,
        traffic_s=moved / bytes_per_s,
        measured_s=float(row["latency_mean_ms"]) / 1e3,
        device="AGX Orin",
        mode=row["power_mode"],
        engine="torch",
        source="published",
    )
