"""What a sceptic would write in ten lines to carry a time, power or energy to other modes.

Each takes the settings of all modes, what was measured in the modes ``at`` and the modes ``to``
that it predicts; each has one to three weights and no interval.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from mansard.core.hardware import SETTINGS

Array = NDArray[np.float64]
Rows = NDArray[np.int64]
Baseline = Callable[[Mapping[str, Array], Array, Rows, Rows], Array]


def _engine(values: Mapping[str, Array]) -> tuple[Array, Array]:
    """The clock of the processor that a network runs on, and the count of what it clocks."""
    clock, count = ("gpu_hz", "n_sms")
    if np.isnan(values[clock]).any():
        clock, count = ("cpu_hz", "n_cpus")
    counts = values[count]
    return values[clock], np.ones_like(counts) if np.isnan(counts).any() else counts


def inverse_clock(values: Mapping[str, Array], seen: Array, at: Rows, to: Rows) -> Array:
    """c / f: the geometric mean of what was measured."""
    return _proportional(1 / _engine(values)[0], seen, at, to)


def inverse_rate(values: Mapping[str, Array], seen: Array, at: Rows, to: Rows) -> Array:
    """c / (f · n), with the number of SMs or cores."""
    clock, count = _engine(values)
    return _proportional(1 / (clock * count), seen, at, to)


def same(values: Mapping[str, Array], seen: Array, at: Rows, to: Rows) -> Array:
    """The geometric mean of what was measured, in every mode."""
    return _proportional(np.ones_like(values["gpu_hz"]), seen, at, to)


def _proportional(shape: Array, seen: Array, at: Rows, to: Rows) -> Array:
    return np.asarray(np.exp(np.log(seen / shape[at]).mean()) * shape[to])


def line(values: Mapping[str, Array], seen: Array, at: Rows, to: Rows) -> Array:
    """a/f + b/m + c with a, b, c ≥ 0, by relative least squares."""
    return _line(1 / _engine(values)[0], 1 / values["memory_hz"], seen, at, to)


def rising_line(values: Mapping[str, Array], seen: Array, at: Rows, to: Rows) -> Array:
    """Of a power: a·f + b·m + c, likewise."""
    return _line(_engine(values)[0], values["memory_hz"], seen, at, to)


def _line(engine: Array, memory: Array, seen: Array, at: Rows, to: Rows) -> Array:
    columns = [np.ones_like(engine), engine / engine.mean()]
    if not np.isnan(memory).any():
        columns.append(memory / memory.mean())
    rows = np.stack(columns, axis=1)
    weights, _ = nnls(rows[at] / seen[:, None], np.ones(len(at)))
    return np.asarray(np.maximum(rows[to] @ weights, 1e-12))


def nearest(values: Mapping[str, Array], seen: Array, at: Rows, to: Rows) -> Array:
    """What was measured in the mode whose settings are nearest, of logarithms."""
    distance = np.zeros((len(to), len(at)))
    for name in SETTINGS:
        if not np.isnan(values[name]).any():
            logs = np.log(values[name])
            distance += (logs[to][:, None] - logs[at][None]) ** 2
    return np.asarray(seen[distance.argmin(axis=1)])


BASELINES: Mapping[str, Mapping[str, Baseline]] = {
    "latency": {
        "1/f": inverse_clock,
        "1/(f·n)": inverse_rate,
        "a/f+b/m+c": line,
        "nearest": nearest,
    },
    "power": {"a·f+b·m+c": rising_line, "same": same, "nearest": nearest},
    "energy": {"same": same, "nearest": nearest},
}
