"""Networks whose time and power in every mode are known exactly, as observations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl

from mansard.analytics.data.model_frames import MODE_SCHEMA, OBSERVATION_SCHEMA

GHZ = 1e9
Law = Callable[[float, float], float]  # GPU clock and memory clock in GHz -> s or W


def modes(gpu_ghz: Sequence[float], memory_ghz: Sequence[float | None] = (None,)) -> pl.DataFrame:
    """MODE_SCHEMA: every GPU clock with every memory clock; None: the mode does not name it."""
    rows = [
        {
            "device": "board",
            "mode": name(gpu, memory),
            "gpu_hz": gpu * GHZ,
            "memory_hz": None if memory is None else memory * GHZ,
        }
        for gpu in gpu_ghz
        for memory in memory_ghz
    ]
    return pl.DataFrame(rows, schema=MODE_SCHEMA)


def name(gpu: float, memory: float | None = None) -> str:
    return f"g{gpu:g}" if memory is None else f"g{gpu:g} m{memory:g}"


def observe(
    of: pl.DataFrame, time: Law, power: Law | None = None, network: str = "net"
) -> pl.DataFrame:
    """OBSERVATION_SCHEMA: one measured row for each mode of ``of``; a clock not named is 1 GHz."""
    rows = []
    for mode in of.iter_rows(named=True):
        clocks = mode["gpu_hz"] / GHZ, (mode["memory_hz"] or GHZ) / GHZ
        rows.append(
            {
                "device": mode["device"],
                "mode": mode["mode"],
                "network": network,
                "batch": 1,
                "precision": "fp16",
                "phase": "inference",
                "latency_s": time(*clocks),
                "power_w": None if power is None else power(*clocks),
                "source": "measured",
                "reason": "not metered" if power is None else None,
            }
        )
    return pl.DataFrame(rows, schema=OBSERVATION_SCHEMA)


def some(frame: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """The rows of the modes called ``names``."""
    return frame.filter(pl.col("mode").is_in(list(names)))
