"""The same prediction by Mansard, in plain NumPy and in pandas, and one ranking of it.

Each side is given the frames of the engine and gives, for each score, the TOP modes of least
energy among those of at most SLOWEST times the least latency, in order; how many modes are on the
front of latency and energy; and latency and energy of every SAMPLED-th mode. NumPy and pandas are
told what Mansard finds out: that every mode has all coefficients, and which peak is whose; no
side is given the groups that do nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mansard.analytics.models.predict.engine import predict_scores

COLUMNS = ("tensor_flop", "cuda_flop", "traffic_bytes", "n_launches")
TOP, SLOWEST, SAMPLED = 10, 2.0, 997
N_CHUNK = 2000  # modes at a time, for NumPy: a matrix of modes × groups stays in the cache
Array = NDArray[np.float64]
Frames = tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame, pl.DataFrame]
Answer = dict[str, tuple[list[str], int, list[float], list[float]]]


def by_mansard(frames: Frames) -> Answer:
    """The engine; the modes of a score lie together in what it gives."""
    return _ranks_of(predict_scores(*frames).select("latency_s", "energy_j").collect(), frames)


def by_whole_frame(frames: Frames) -> Answer:
    """The engine with every column that it has: intervals, power, bounds, reasons, notes."""
    return _ranks_of(predict_scores(*frames).collect(), frames)


def _ranks_of(found: pl.DataFrame, frames: Frames) -> Answer:
    scores, names = frames[1]["score_id"], frames[3]["mode"].to_numpy()
    time_s, energy_j = (
        found[name].to_numpy().reshape(len(scores), -1) for name in ("latency_s", "energy_j")
    )
    return {score: _ranked(names, time_s[at], energy_j[at]) for at, score in enumerate(scores)}


def by_numpy(frames: Frames) -> Answer:
    """A matrix of modes × groups for each score."""
    groups, scores, coefficients, modes = frames
    names = modes["mode"].to_numpy()
    values = _values(coefficients)
    parts = groups.partition_by("score_id", as_dict=True)
    answer: Answer = {}
    for score in scores["score_id"]:
        inside = parts[(score,)]
        tensor, cuda = _precisions(inside)
        tensor_flop, cuda_flop, traffic, launches = (
            inside[name].cast(pl.Float64).to_numpy() for name in COLUMNS
        )
        tensor_x, cuda_x = 1 / values["peak", tensor], 1 / values["peak", cuda]
        byte_x = 1 / values["bandwidth", "DRAM|"]
        time_s = np.empty(len(names))
        for start in range(0, len(names), N_CHUNK):
            at = slice(start, start + N_CHUNK)
            work_s = np.maximum(tensor_x[at, None] * tensor_flop, cuda_x[at, None] * cuda_flop)
            time_s[at] = np.maximum(work_s, byte_x[at, None] * traffic).sum(axis=1)
        time_s += launches.sum() * values["launch", "|"]
        energy_j = (
            tensor_flop.sum() * values["flop_energy", tensor]
            + cuda_flop.sum() * values["flop_energy", cuda]
            + traffic.sum() * values["byte_energy", "DRAM|"]
            + values["constant_power", "|"] * time_s
        )
        answer[score] = _ranked(names, time_s, energy_j)
    return answer


def by_pandas(frames: Frames) -> Answer:
    """Groups × modes as one frame for each score, summed by mode."""
    import pandas as pd

    groups, scores, coefficients, modes = frames
    names = modes["mode"].to_numpy()
    wide = pd.DataFrame({"|".join(key): value for key, value in _values(coefficients).items()})
    parts = groups.partition_by("score_id", as_dict=True)
    answer: Answer = {}
    for score in scores["score_id"]:
        tensor, cuda = _precisions(parts[(score,)])
        inside = pd.DataFrame({name: parts[(score,)][name].to_numpy() for name in COLUMNS})
        board = wide.reset_index(names="place")
        crossed: Any = inside.merge(board, how="cross")
        work_s = np.maximum(
            crossed["tensor_flop"] / crossed[f"peak|{tensor}"],
            crossed["cuda_flop"] / crossed[f"peak|{cuda}"],
        )
        roof_s = np.maximum(work_s, crossed["traffic_bytes"] / crossed["bandwidth|DRAM|"])
        crossed["time_s"] = roof_s + crossed["n_launches"] * crossed["launch||"]
        crossed["dynamic_j"] = (
            crossed["tensor_flop"] * crossed[f"flop_energy|{tensor}"]
            + crossed["cuda_flop"] * crossed[f"flop_energy|{cuda}"]
            + crossed["traffic_bytes"] * crossed["byte_energy|DRAM|"]
        )
        summed = crossed.groupby("place")[["time_s", "dynamic_j"]].sum()
        time_s = summed["time_s"].to_numpy()
        energy_j = summed["dynamic_j"].to_numpy() + wide["constant_power||"].to_numpy() * time_s
        answer[score] = _ranked(names, time_s, energy_j)
    return answer


def _values(coefficients: pl.DataFrame) -> dict[tuple[str, str], Array]:
    """Each coefficient in all modes, by its quantity and its subject and unit."""
    parts = coefficients.partition_by("quantity", "subject", "unit", as_dict=True)
    return {
        (str(quantity), f"{subject}|{unit}"): part["value"].to_numpy()
        for (quantity, subject, unit), part in parts.items()
    }


def _precisions(inside: pl.DataFrame) -> tuple[str, str]:
    """Subject and unit of the peaks of a score: all of its groups have the same ones."""
    cuda = inside["cuda_precision"].drop_nulls().unique().to_list()
    tensor = inside["tensor_precision"].drop_nulls().unique().to_list()
    if len(cuda) > 1 or len(tensor) > 1:
        raise ValueError(f"a score in several precisions: {cuda}, {tensor}")
    of_cuda = f"{cuda[0]}|CUDA core"
    return (f"{tensor[0]}|tensor core" if tensor else of_cuda), of_cuda


def _ranked(
    names: NDArray[np.object_], time_s: Array, energy_j: Array
) -> tuple[list[str], int, list[float], list[float]]:
    order = np.argsort(energy_j)
    latency_s = time_s[order]
    top = order[latency_s <= SLOWEST * latency_s.min()][:TOP]
    least_before = np.concatenate([[np.inf], np.minimum.accumulate(latency_s)[:-1]])
    n_front = int((latency_s < least_before).sum())
    return (
        names[top].tolist(),
        n_front,
        time_s[::SAMPLED].tolist(),
        energy_j[::SAMPLED].tolist(),
    )


SIDES: Mapping[str, Callable[[Frames], Answer]] = MappingProxyType(
    {"mansard": by_mansard, "all columns": by_whole_frame, "numpy": by_numpy, "pandas": by_pandas}
)
