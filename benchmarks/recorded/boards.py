"""Times of the same networks on several boards, as pairs of boards with networks left out."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from types import MappingProxyType

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mansard.analytics.data.names import plain_network
from mansard.analytics.data.published.recordings import shipped_recordings

Array = NDArray[np.float64]
Network = tuple[str, str]  # its name without the size, and its size or phase
Times = Mapping[Network, float]  # s of one batch

SEED = 28_112_026
_MOST_LEFT_OUT = 12  # of a draw: large recordings shall not count more than small ones
_YOLO = "benchmarks/justincdavis+trtutils__benchmark__data__models__{}.json"
_MLPERF = "benchmarks/mlcommons+inference_results_v2.0__closed_NVIDIA__orin_xaviernx_perf_power.csv"
_NEUSIGHT = "gemm/sitar-lab+NeuSight__label_e2e_latency.csv"
_ORINS = MappingProxyType(
    {
        "OrinAGX-64GB": "Jetson AGX Orin 64GB",
        "OrinAGX-32GB": "Jetson AGX Orin 32GB",
        "OrinNano-8GB": "Jetson Orin Nano 8GB",
    }
)
# FLOP/s in FP16 (tensor cores where there are any, dense), and CUDA cores times Hz: data sheets.
NOMINAL = MappingProxyType(
    {
        "Jetson AGX Orin 64GB": (42.6e12, 2048 * 1.3e9),
        "Jetson AGX Orin": (42.6e12, 2048 * 1.3e9),
        "Jetson AGX Orin 32GB": (26.7e12, 1792 * 0.93e9),
        "Jetson Orin NX 16GB": (15.0e12, 1024 * 0.918e9),
        "Jetson Orin Nano 8GB": (10.2e12, 1024 * 0.625e9),
        "Jetson Orin Nano": (10.2e12, 1024 * 0.625e9),
        "Jetson AGX Xavier": (11.3e12, 512 * 1.377e9),
        "Jetson Xavier NX 8GB": (6.8e12, 384 * 1.1e9),
        "Jetson Xavier NX": (6.8e12, 384 * 1.1e9),
        "Jetson TX2": (1.33e12, 256 * 1.3e9),
        "Jetson Nano": (0.47e12, 128 * 0.9216e9),
    }
)


@dataclass(frozen=True, eq=False)
class BoardSet:
    """Networks on several boards by one engine. ``is_new``: no prior was chosen on it."""

    name: str
    boards: Mapping[str, Times]
    is_new: bool


@dataclass(frozen=True, eq=False)
class Draw:
    """Anchors (s on both boards) and networks that are left out, of one pair of boards."""

    boards: tuple[str, str]
    anchors: Array  # anchors × 2
    left_out: Array  # networks × 2


def read_sets(data: Path, trtutils: Path | None = None) -> tuple[BoardSet, ...]:
    """All recordings. ``trtutils``: that project's ``benchmark/data/models``, for its GPUs."""
    sets = [
        BoardSet("YOLO, TensorRT, 3 Orins", _engine(data, "tensorrt"), is_new=False),
        BoardSet("YOLO and its pictures by CUDA, 3 Orins", _engine(data, "trtutils(cuda)"), False),
        BoardSet("YOLO and its pictures by the CPU", _engine(data, "trtutils(cpu)"), False),
        BoardSet("YOLO, eager PyTorch, 2 Orins", _engine(data, "ultralytics(torch)"), False),
        BoardSet("13 networks, TensorRT, 6 boards", shipped("Nota"), is_new=False),
        BoardSet("YOLO, TensorRT, Orin NX", _with(("Jetson Orin NX 16GB",)), is_new=True),
        BoardSet("YOLO, TensorRT, Xavier NX", _with(("Jetson Xavier NX 8GB",)), is_new=True),
        BoardSet("MLPerf 2.0, one stream", _mlperf(data), is_new=True),
        BoardSet("NeuSight, 4 GPUs", _neusight(data), is_new=True),
    ]
    if trtutils is not None:
        gpus = {name: _times(trtutils / f"{name}.json") for name in ("3080Ti", "3090", "TitanRTX")}
        sets.append(BoardSet("YOLO, TensorRT, 3 graphics cards", gpus, is_new=True))
    return tuple(sets)


def shipped(author: str) -> dict[str, Times]:
    """Times of ``author`` that ship with Mansard, by board."""
    rows = shipped_recordings().filter(pl.col("board").str.ends_with(f"({author})"))
    boards: dict[str, dict[Network, float]] = {}
    for board, network, time_s in rows.select("board", "network", "time_s").iter_rows():
        plain, side_px = plain_network(network)
        boards.setdefault(board.removesuffix(f" ({author})"), {})[plain, str(side_px)] = time_s
    return dict(boards)


def _with(names: tuple[str, ...]) -> dict[str, Times]:
    """The boards ``names``, and the three Orins beside which they are judged."""
    boards = shipped("Justin Davis")
    return {name: boards[name] for name in (*names, *_ORINS.values())}


def _engine(data: Path, engine: str) -> dict[str, Times]:
    boards = {name: _times(data / _YOLO.format(file), engine) for file, name in _ORINS.items()}
    return {name: times for name, times in boards.items() if times}


def _times(path: Path, engine: str = "tensorrt") -> dict[Network, float]:
    networks = json.loads(path.read_text(encoding="utf-8"))[engine]
    return {
        (name, size): row["median"] / 1e3
        for name, sizes in networks.items()
        for size, row in sizes.items()
    }


def _mlperf(data: Path) -> dict[str, Times]:
    boards: dict[str, dict[Network, float]] = {}
    with (data / _MLPERF).open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["scenario"] == "SingleStream" and row["median_latency_ns"]:
                own = boards.setdefault(row["system"], {})
                own[row["model"], ""] = float(row["median_latency_ns"]) / 1e9
    return dict(boards)


def _neusight(data: Path) -> dict[str, Times]:
    boards: dict[str, dict[Network, float]] = {}
    with (data / _NEUSIGHT).open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if not row["device"].startswith("AMD"):
                network, _, phase = row["run"].partition("-")
                boards.setdefault(row["device"], {})[network, phase] = float(row["e2e_ms"]) / 1e3
    return dict(boards)


def draws(recording: BoardSet, k: int, n_draws: int) -> Iterator[Draw]:
    """``n_draws`` random choices of ``k`` anchors on each ordered pair of boards.

    A network in any size is never left out where it is an anchor in another. Of a recording with a
    new board only pairs with it count.
    """
    rng = np.random.default_rng([SEED, k, *recording.name.encode()])
    first = next(iter(recording.boards))
    only_first = recording.is_new and first.startswith("Jetson")
    for one, other in permutations(recording.boards, 2):
        if only_first and first not in (one, other):
            continue
        both = sorted(recording.boards[one].keys() & recording.boards[other].keys())
        times = np.array([[recording.boards[name][net] for name in (one, other)] for net in both])
        for _ in range(n_draws if len(both) >= k + 2 else 0):
            order = rng.permutation(len(both))
            seen = {both[at][0] for at in order[:k]}
            rest = [at for at in order[k:] if both[at][0] not in seen][:_MOST_LEFT_OUT]
            if rest:
                yield Draw((one, other), times[order[:k]], times[rest])
