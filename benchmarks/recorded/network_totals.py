"""Times of whole networks that others recorded, with the work and traffic of each network.

Peaks and bandwidths are nominal: a calibration needs only what the parts of a time have in
proportion. Where nobody counted a network's activations its traffic is its weights and its input.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import polars as pl

from mansard.analytics.data.model_frames import OBSERVATION_SCHEMA, PREDICTION_SCHEMA
from mansard.analytics.models.predict.engine import SHARE_SCHEMA
from mansard.analytics.models.predict.prediction import predict_roofed
from recorded.subgraphs import CPU_HZ, TOTAL, read_recording

_IMAGE = 3  # channels
_MEBI, _GIGA, _TERA = 1e6, 1e9, 1e12
# FLOP/s in FP16 (tensor cores where there are any, dense) and B/s, NVIDIA's data sheets.
BOARDS = MappingProxyType(
    {
        "OrinAGX-64GB": (42.6 * _TERA, 204.8 * _GIGA),
        "OrinAGX-32GB": (26.7 * _TERA, 204.8 * _GIGA),
        "OrinNano-8GB": (10.2 * _TERA, 68.3 * _GIGA),
        "Jetson Orin Nano": (10.2 * _TERA, 68.3 * _GIGA),
        "Jetson AGX Orin": (42.6 * _TERA, 204.8 * _GIGA),
        "Jetson Xavier": (11.3 * _TERA, 136.5 * _GIGA),
        "Jetson NX": (6.8 * _TERA, 51.2 * _GIGA),
        "Jetson TX2": (1.33 * _TERA, 59.7 * _GIGA),
        "Jetson Nano": (0.47 * _TERA, 25.6 * _GIGA),
        "TX2, fp32": (0.67 * _TERA, 59.7 * _GIGA),
        "AGX Orin, tf32": (21.3 * _TERA, 204.8 * _GIGA),
    }
)
# Parameters in millions and GFLOP, two for a multiply-add, at 640 × 640: the tables in the README
# of each project (ultralytics v8, YOLOv9, YOLOv10, YOLOv7; YOLOX, whose nano and tiny are of
# 416 × 416 there, 1.08 and 6.45 GFLOP).
YOLO = MappingProxyType(
    {
        "yolov7t": (6.2, 13.8),
        "yolov7m": (36.9, 104.7),
        "yolov8n": (3.2, 8.7),
        "yolov8s": (11.2, 28.6),
        "yolov8m": (25.9, 78.9),
        "yolov9t": (2.0, 7.7),
        "yolov9s": (7.1, 26.4),
        "yolov9m": (20.0, 76.3),
        "yolov10n": (2.3, 6.7),
        "yolov10s": (7.2, 21.6),
        "yolov10m": (15.4, 59.1),
        "yoloxn": (0.91, 1.08 * (640 / 416) ** 2),
        "yoloxt": (5.06, 6.45 * (640 / 416) ** 2),
        "yoloxs": (9.0, 26.8),
        "yoloxm": (25.3, 73.8),
    }
)
# The same and the side of the image: torchvision's documentation, YOLOX's README, and the papers of
# MixNet (arXiv 1907.09595) and EfficientFormer (arXiv 2206.01191).
_NETSPRESSO = MappingProxyType(
    {
        "MobileNetV3-small": (2.54, 0.113, 224),
        "MobileNetV3-large": (5.48, 0.434, 224),
        "ResNet18": (11.7, 3.63, 224),
        "ResNet34": (21.8, 7.33, 224),
        "ResNet50": (25.6, 8.18, 224),
        "MixNet-s": (4.1, 0.512, 224),
        "MixNet-m": (5.0, 0.720, 224),
        "MixNet-l": (7.3, 1.130, 224),
        "EfficientFormer-l1": (12.3, 2.6, 224),
        "YOLOX-s": (9.0, 26.8, 640),
        "YOLOX-m": (25.3, 73.8, 640),
        "YOLOX-l": (54.2, 155.6, 640),
    }
)
_YOLO_FILE = "benchmarks/justincdavis+trtutils__benchmark__data__models__{}.json"
_NETSPRESSO_FILE = "benchmarks/Nota-NetsPresso+netspresso-trainer__tensorrt_latency_by_jetpack.md"
_TX2_FILE = "power_modes/HalimaBouzidi+perf_prediction__TX2__execution_time_prediction.csv"
_PAGODA = "power_modes/dream-lab+pagoda__"


@dataclass(frozen=True, eq=False)
class NetworkTable:
    """Networks on one board in one mode.

    ``predictions``: PREDICTION_SCHEMA, SHARE_SCHEMA and n_launches, the time of each at the roof;
    ``observations``: OBSERVATION_SCHEMA, what it took.
    """

    name: str  # of the recording
    label: str
    predictions: pl.DataFrame
    observations: pl.DataFrame


def read_tables(data: Path) -> tuple[NetworkTable, ...]:
    """All recordings. ``data``: the folder of recorded data."""
    return (*_yolo(data), *_cnns(data), *_netspresso(data), *_pagoda(data), *_eager(data))


def _yolo(data: Path) -> Iterator[NetworkTable]:
    """15 YOLOs in 8 image sizes on 3 boards: of one size all networks, of one network all sizes."""
    for board in ("OrinAGX-32GB", "OrinAGX-64GB", "OrinNano-8GB"):
        times = json.loads((data / _YOLO_FILE.format(board)).read_text())["tensorrt"]

        def row(network: str, size: str, called: str) -> dict[str, object]:
            n_million, gflop = YOLO[network]
            share = (int(size) / 640) ** 2
            moved = 2 * (n_million * _MEBI + _IMAGE * int(size) ** 2)
            seconds = times[network][size]["median"] / 1e3  # noqa: B023 - called in this round
            return _totals(board, called, gflop * _GIGA * share, moved, seconds)  # noqa: B023

        for size in ("320", "640", "1280"):
            yield _table("YOLO, TensorRT", f"{board} {size}", [row(n, size, n) for n in times])
        for name, sizes in times.items():
            rows = [row(name, size, f"{name} {size}") for size in sizes]
            yield _table("one YOLO in 8 image sizes", f"{board} {name}", rows)


def _cnns(data: Path) -> Iterator[NetworkTable]:
    """About 75 CNNs on a TX2 in three image sizes, FP32, with counted activations and layers."""
    board = "TX2, fp32"
    with (data / _TX2_FILE).open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if not row["Model_name"].startswith("basic")]
    for width in ("64", "224", "448"):
        found: dict[str, dict[str, object]] = {}
        for row in rows:
            if row["input_width"] != width:
                continue
            weights = sum(float(row[f"nb_params_{kind}"]) for kind in ("conv", "bn", "fc"))
            moved = 4 * (weights + 2 * float(row["sum_activations"]))
            found[row["Model_name"]] = _totals(
                board,
                row["Model_name"],
                2 * float(row["flops"]),  # it counts multiply-adds
                moved,
                float(row["ACET"]) / 1e3,
                n_launches=int(row["nb_layers"]),
            )
        yield _table("CNNs on a TX2", f"{width} x {width}", found.values())


def _netspresso(data: Path) -> Iterator[NetworkTable]:
    """12 networks in FP16 by TensorRT on 6 boards."""
    tables: dict[str, list[dict[str, object]]] = {}
    board = ""
    for line in (data / _NETSPRESSO_FILE).read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if line.startswith("### "):
            board = line[4:].strip()
        elif len(cells) > 5 and cells[2] in _NETSPRESSO:
            n_million, gflop, size = _NETSPRESSO[cells[2]]
            moved = 2 * (n_million * _MEBI + _IMAGE * size**2)
            row = _totals(board, cells[2], gflop * _GIGA, moved, float(cells[5]) / 1e3)
            tables.setdefault(board, []).append(row)
    for name, rows in tables.items():
        yield _table("12 networks, TensorRT", name, rows)


def _pagoda(data: Path) -> Iterator[NetworkTable]:
    """5 networks of very different size on an AGX Orin, with Pagoda's own counts."""
    with (data / f"{_PAGODA}analytical_flops_mem_per_batch.csv").open(encoding="utf-8") as file:
        counts = {(row["model"], int(row["bs"])): row for row in csv.DictReader(file)}
    with (data / f"{_PAGODA}orin_agx_maxn_observed_time_power.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for batch in (1, 4, 16):
        found = [
            _totals(
                "AGX Orin, tf32",
                row["model"],
                float(counts[row["model"], batch]["flops"]),
                float(counts[row["model"], batch]["mem_acc"]),
                float(row["observed_time"]) / 1e3,
            )
            for row in rows
            if float(row["bs"]) == batch
        ]
        yield _table("Pagoda", f"batch {batch}", found)


def _eager(data: Path) -> Iterator[NetworkTable]:
    """10 networks in eager PyTorch on an AGX Orin in 4 modes, in batches and precisions."""
    recording = read_recording(data)
    found = predict_roofed(
        recording.groups, recording.scores, recording.coefficients, recording.modes
    )
    measured = recording.timed.group_by(TOTAL).agg(measured_s=pl.col("measured_s").sum())
    rows = found.join(measured, on=TOTAL).sort(TOTAL)
    for mode in CPU_HZ:
        own = rows.filter(pl.col("mode") == mode).to_dicts()
        yield _table("10 networks, eager PyTorch", mode, own)


def _totals(
    board: str,
    network: str,
    flop: float,
    n_bytes: float,
    measured_s: float,
    n_launches: int = 0,
) -> dict[str, object]:
    peak, bandwidth = BOARDS[board]
    compute_s, memory_s = flop / peak, n_bytes / bandwidth
    return {
        "device": board,
        "mode": "as recorded",
        "score_id": network,
        "network": network,
        "batch": 1,
        "precision": "fp16",
        "phase": "inference",
        "latency_s": compute_s + memory_s,
        "compute_s": compute_s,
        "memory_s": memory_s,
        "launch_s": 0.0,
        "n_launches": n_launches,
        "interval": "roof",
        "is_extrapolated": False,
        "is_calibrated": False,
        "measured_s": measured_s,
    }


def _table(name: str, label: str, rows: Iterable[Mapping[str, object]]) -> NetworkTable:
    known = list(rows)
    schema = {**PREDICTION_SCHEMA, **SHARE_SCHEMA, "n_launches": pl.Int64}
    observed = [{**row, "latency_s": row["measured_s"], "source": "published"} for row in known]
    return NetworkTable(
        name,
        label,
        pl.DataFrame(known, schema=schema),
        pl.DataFrame(observed, schema=OBSERVATION_SCHEMA),
    )
