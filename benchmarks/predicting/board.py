"""A made-up board with as many modes as are asked for, and real networks to run in them."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mansard.analytics.data.frames import layer_frame
from mansard.analytics.data.model_frames import COEFFICIENT_SCHEMA, MODE_SCHEMA
from mansard.estimator import zoo
from mansard.estimator.scoring import score

Array = NDArray[np.float64]
BATCHES, PRECISIONS = (1, 4, 16, 64), ("fp32", "tf32", "fp16")
N_GPU, N_MEMORY, N_CPU = 25, 20, 60  # clocks of the grid: 30,000 modes
N_SMS = 16


def zoo_layers(n_networks: int) -> pl.DataFrame:
    """LAYER_SCHEMA of the first networks of the zoo, each in all batches and precisions."""
    scores = []
    for name in zoo.names()[:n_networks]:
        model = zoo.read(name)
        dims = {key: size for key, size in zoo.entry(name).dims if key != "batch"}
        scores += [
            score(model, name=name, batch=batch, precision=precision, dims=dims)
            for batch in BATCHES
            for precision in PRECISIONS
        ]
    return layer_frame(scores)


def board_frames(*, is_grid: bool, n_modes: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """MODE_SCHEMA and COEFFICIENT_SCHEMA of a board like an AGX Orin; the costs are made up.

    A grid's modes share clocks and with them coefficients; else no two are alike in any.
    """
    gpu_hz, memory_hz, cpu_hz = _clocks(is_grid=is_grid, n_modes=n_modes)
    names = [f"mode {at}" for at in range(len(gpu_hz))]
    modes = pl.DataFrame(
        {"mode": names, "gpu_hz": gpu_hz, "memory_hz": memory_hz, "cpu_hz": cpu_hz}
    ).with_columns(device=pl.lit("board"), n_sms=N_SMS, n_cpus=12, power_limit_w=None)
    rows = [
        pl.DataFrame({"mode": names, "value": value}).with_columns(
            device=pl.lit("board"),
            quantity=pl.lit(quantity),
            subject=pl.lit(subject),
            unit=pl.lit(unit),
            low=pl.col("value") * 0.97,
            high=pl.col("value") * 1.03,
            source=pl.lit("modelled"),
            error=pl.lit(0.03),
            n_fitted=10,
            is_extrapolated=False,
            reason=None,
        )
        for (quantity, subject, unit), value in _laws(gpu_hz, memory_hz, cpu_hz).items()
    ]
    return (
        modes.select(pl.col(name).cast(kind) for name, kind in MODE_SCHEMA.items()),
        pl.concat(rows).select(
            pl.col(name).cast(kind) for name, kind in COEFFICIENT_SCHEMA.items()
        ),
    )


def _clocks(*, is_grid: bool, n_modes: int) -> tuple[Array, Array, Array]:
    ends = ((306e6, 1300e6, N_GPU), (665e6, 3199e6, N_MEMORY), (422e6, 2201e6, N_CPU))
    if is_grid:
        axes = np.meshgrid(*(np.linspace(low, high, n) for low, high, n in ends))
        gpu_hz, memory_hz, cpu_hz = (axis.ravel()[:n_modes] for axis in axes)
        return gpu_hz, memory_hz, cpu_hz
    rng = np.random.default_rng(7)
    gpu_hz, memory_hz, cpu_hz = (rng.uniform(low, high, n_modes) for low, high, _ in ends)
    return gpu_hz, memory_hz, cpu_hz


def _laws(gpu_hz: Array, memory_hz: Array, cpu_hz: Array) -> dict[tuple[str, str, str], Array]:
    cycles = N_SMS * gpu_hz
    volts_squared = ((0.6 + 0.3 * gpu_hz / 1e9) / 0.9) ** 2
    return {
        ("peak", "fp32", "CUDA core"): 256 * cycles,
        ("peak", "fp16", "CUDA core"): 512 * cycles,
        ("peak", "tf32", "tensor core"): 1024 * cycles,
        ("peak", "fp16", "tensor core"): 2048 * cycles,
        ("bandwidth", "DRAM", ""): np.minimum(0.92 * 64 * memory_hz, 204.5 * gpu_hz),
        ("launch", "", ""): 2e-6 + 6e-6 * 1e9 / cpu_hz,
        ("flop_energy", "fp32", "CUDA core"): 3e-12 * volts_squared,
        ("flop_energy", "fp16", "CUDA core"): 1.6e-12 * volts_squared,
        ("flop_energy", "tf32", "tensor core"): 1e-12 * volts_squared,
        ("flop_energy", "fp16", "tensor core"): 0.5e-12 * volts_squared,
        ("byte_energy", "DRAM", ""): 60e-12 * volts_squared,
        ("constant_power", "", ""): 6 + 4 * gpu_hz / 1e9 + memory_hz / 1e9 + cpu_hz / 1e9,
    }
