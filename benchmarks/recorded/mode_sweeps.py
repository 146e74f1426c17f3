"""Networks and kernels that others measured in many power modes of one device each.

From ../shared/data/power_modes (SOURCES.md there has commits and licences). Each sweep is a frame
of observations and one of modes, as ``predict_observed`` takes them. Settings that were the same in
all modes, or that the source does not tell, are null.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from mansard.analytics.data.model_frames import MODE_SCHEMA, OBSERVATION_SCHEMA
from recorded.power_modes import AGX, NANO, kernel_times, recorded_modes
from recorded.subgraphs import CPU_HZ
from recorded.tx2 import modes_of, observations_of, read_sweep, read_vgg19_power

_FOLDER = "power_modes"
_SHORTEST_S = 1e-3
_PASCAL = "HKBU-HPML+GPU-DVFS-Job-Schedule__gtx1080ti_core_mem_sweep.csv"
_LLM = "YuvrajSingh-mist+SmolHub__orin_nano_super_llm_4_networks.csv"
_TOTALS = "branes-ai+graphs__agx_orin_model_totals_by_power_mode.csv"


@dataclass(frozen=True, eq=False)
class Sweep:
    """One recording: OBSERVATION_SCHEMA rows of several networks, and their MODE_SCHEMA.

    ``is_pinned``: the clocks were set; otherwise a governor had them below the caps.
    """

    name: str
    observations: pl.DataFrame
    modes: pl.DataFrame
    is_pinned: bool


def read_sweeps(data: Path) -> tuple[Sweep, ...]:
    """All recordings of ``data``, the folder of recorded data."""
    folder = data / _FOLDER
    tx2, vgg19 = read_sweep(data), read_vgg19_power(data)
    return (
        Sweep("TX2, 3 networks", observations_of(tx2), modes_of(tx2), is_pinned=True),
        Sweep("TX2, VGG19 with power", observations_of(vgg19), modes_of(vgg19), is_pinned=True),
        _pascal(folder),
        _language_models(folder),
        _totals(folder),
        *_kernels(data),
    )


def _pascal(folder: Path) -> Sweep:
    """GTX 1080 Ti, 30 kernels at 5 core and 4 memory clocks, with the card's power."""
    rows = pl.read_csv(folder / _PASCAL).select(
        mode=pl.format("core{}_mem{}", "core_mhz", "mem_mhz"),
        network=pl.col("app"),
        latency_s=pl.col("time_ms") / 1e3,
        power_w="power_w",
        gpu_hz=pl.col("core_mhz") * 1e6,
        memory_hz=pl.col("mem_mhz") * 1e6,
    )
    return make_sweep("GTX 1080 Ti, 30 kernels", "GTX 1080 Ti", rows, is_pinned=True)


def _language_models(folder: Path) -> Sweep:
    """Orin Nano Super in its four modes: prefill, without power, and decode, with the rail's."""
    table = pl.read_csv(folder / _LLM)
    parts = [
        table.select(
            mode="mode",
            network=pl.format("{} {}", "network", pl.lit(what)),
            latency_s=pl.col(column) / 1e3,
            power_w=pl.col("power_w") if what == "decode" else pl.lit(None, pl.Float64),
            gpu_hz=pl.col("gpu_mhz") * 1e6,
            memory_hz=pl.col("emc_mhz") * 1e6,
            cpu_hz=pl.col("cpu_mhz") * 1e6,
            n_sms="sms",
        )
        for what, column in (("decode", "decode_ms_per_token"), ("prefill", "prefill_ms"))
    ]
    return make_sweep("Orin Nano Super, 4 LLMs", NANO, pl.concat(parts), is_pinned=False)


def _totals(folder: Path) -> Sweep:
    """AGX Orin 64GB, networks in eager PyTorch in four modes, at batch 1 to 64."""
    caps = recorded_modes().filter(pl.col("device") == AGX)
    rows = (
        pl.read_csv(folder / _TOTALS, infer_schema_length=None)
        .filter(pl.col("campaign").str.starts_with("jetson_orin_agx").not_())
        .select(
            mode="power_mode",
            network=pl.format("{} {} batch {}", "model", "precision", "batch"),
            latency_s=pl.col("sum_subgraph_latency_ms") / 1e3,
        )
        .join(caps.select("mode", "gpu_hz", "memory_hz", "n_sms"), on="mode")
        .with_columns(cpu_hz=pl.col("mode").replace_strict(CPU_HZ, return_dtype=pl.Float64))
    )
    return make_sweep(f"{AGX}, eager PyTorch", AGX, rows, is_pinned=False)


def _kernels(data: Path) -> tuple[Sweep, ...]:
    """Three Orins, PyTorch's STREAM and BLAS by the fastest repetition, in four modes each.

    Kernels of less than a millisecond in the fastest mode are left out: they time the launch.
    """
    times = (
        kernel_times(data)
        .with_columns(network=pl.format("{} {} {}", "operation", "size", "precision"))
        .filter(pl.col("latency_s").min().over("device", "network") > _SHORTEST_S)
        .join(recorded_modes().drop("cpu_hz", "n_cpus", "power_limit_w"), on=["device", "mode"])
    )
    return tuple(
        make_sweep(f"{device}, STREAM and BLAS", device, rows.drop("device"), is_pinned=False)
        for (device,), rows in times.group_by("device", maintain_order=True)
    )


def make_sweep(name: str, device: str, rows: pl.DataFrame, *, is_pinned: bool) -> Sweep:
    """Of rows with a mode, a network, its time, and some settings: what is absent is null."""
    rows = rows.with_columns(
        device=pl.lit(device),
        batch=pl.lit(1, pl.Int64),
        precision=pl.lit("unknown"),
        phase=pl.lit("inference"),
        source=pl.lit("published"),
    )
    rows = rows.with_columns(
        pl.lit(None, kind).alias(column)
        for column, kind in {**MODE_SCHEMA, **OBSERVATION_SCHEMA}.items()
        if column not in rows.columns
    )
    modes = rows.select(pl.col(c).cast(kind) for c, kind in MODE_SCHEMA.items())
    observations = rows.select(pl.col(c).cast(kind) for c, kind in OBSERVATION_SCHEMA.items())
    return Sweep(name, observations, modes.unique("mode", maintain_order=True), is_pinned)
