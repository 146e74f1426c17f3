"""Networks that others ran on the CPU of a Jetson AGX Xavier, in modes of two to eight cores.

From ../shared/data/power_modes (SOURCES.md there has commits and licences). Cores and clocks are
those of NVIDIA's modes; MAXN runs the cores at the module's highest clock.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from recorded.mode_sweeps import Sweep, make_sweep

_TABLE = "power_modes/uav-seg-zoo__agx_xavier32_onnxruntime_cpu_by_cores.csv"
# Mode, CPU clock, cores, memory clock.
_MODES = (
    ("MODE_30W_2CORE", 2100e6, 2, 1600e6),
    ("MODE_30W_4CORE", 1780.0e6, 4, 1600e6),
    ("MODE_30W_6CORE", 1450e6, 6, 1600e6),
    ("MODE_30W_ALL", 1200e6, 8, 1600e6),
    ("MAXN", 2265.6e6, 8, 2133e6),
)


def read_cpu_sweep(data: Path) -> Sweep:
    """Three networks in float and in int8."""
    modes = pl.DataFrame(_MODES, schema=["mode", "cpu_hz", "n_cpus", "memory_hz"], orient="row")
    rows = pl.read_csv(data / _TABLE).select(
        "mode",
        network=pl.format("{} {}", "network", "precision"),
        latency_s=pl.col("latency_ms") / 1e3,
    )
    rows = rows.join(modes, on="mode", maintain_order="left")
    return make_sweep("AGX Xavier's CPU", "Jetson AGX Xavier CPU", rows, is_pinned=False)
