"""Three networks at every GPU and memory clock of a Jetson TX2, as others recorded them.

thynics/jetson_dvfs: ``data_transfer_all`` is the sweep of 13 GPU × 4 memory clocks. Of its columns
``gpu_latency_ms`` is the truth: ``fps`` is 1000 / gpu_latency_ms rounded to two decimals in every
row, 0.3 % at the slow end, and ``wall_time_s`` holds all that a run did beside inference. No row
is an outlier: none is slower at a higher GPU clock, none by more than 0.33 % at a higher memory
clock.

Power was recorded once, for VGG19 over the GPU clocks with the memory's clock governed. The times
of ``data_perf`` belong to it: its wall times are those of the power log within 3 %. Those of
``vgg_benchmarks_output`` are 1 to 5 % shorter, and its latencies are those of the sweep's highest
memory clock within 2 %.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from mansard.analytics.data.model_frames import MODE_SCHEMA, OBSERVATION_SCHEMA

DEVICE = "Jetson TX2"
CITATION = "thynics/jetson_dvfs@7ac3f7cbfc57"
NETWORKS = ("inception_v4", "resnet", "vgg19")
GOVERNED = ("data_perf", "vgg_benchmarks_output")  # groups that do not say the memory's clock
_SWEEP = "power_modes/thynics+jetson_dvfs__tx2_gpu_emc_freq_sweep.csv"
_POWER = "power_modes/thynics+jetson_dvfs__tx2_vgg19_power_by_gpu_freq_derived.csv"


def read_sweep(data: Path, group: str = "data_transfer_all") -> pl.DataFrame:
    """OBSERVATION_SCHEMA rows of one group with the clocks ``gpu_hz`` and ``memory_hz`` beside."""
    rows = pl.read_csv(data / _SWEEP).filter(
        (pl.col("group") == group) & pl.col("gpu_latency_ms").is_not_null()
    )
    mode = pl.concat_str(
        pl.format("gpu{}MHz", pl.col("gpu_freq_hz") // 1_000_000),
        pl.format("emc{}MHz", pl.col("emc_freq_hz") // 1_000_000),
        separator="_",
        ignore_nulls=True,
    )
    return rows.select(
        pl.lit(DEVICE).alias("device"),
        mode.alias("mode"),
        pl.col("model").alias("network"),
        pl.lit(1, pl.Int64).alias("batch"),
        pl.lit("unknown").alias("precision"),
        pl.lit("inference").alias("phase"),
        (pl.col("gpu_latency_ms") / 1e3).alias("latency_s"),
        pl.lit(None, pl.Float64).alias("power_w"),
        pl.lit("published").alias("source"),
        pl.lit(CITATION).alias("citation"),
        pl.lit("power was not recorded").alias("reason"),
        pl.col("gpu_freq_hz").cast(pl.Float64).alias("gpu_hz"),
        pl.col("emc_freq_hz").cast(pl.Float64).alias("memory_hz"),
    ).sort("network", "gpu_hz", "memory_hz")


def read_vgg19_power(data: Path, group: str = "data_perf") -> pl.DataFrame:
    """As ``read_sweep``: VGG19 over the GPU clocks, with the power of the whole module (VDD_IN)."""
    watts = pl.read_csv(data / _POWER).select(
        pl.col("gpu_freq_hz").cast(pl.Float64).alias("gpu_hz"),
        (pl.col("VDD_IN_mW") / 1e3).alias("power_w"),
    )
    rows = read_sweep(data, group).filter(pl.col("network") == "vgg19").drop("power_w", "reason")
    joined = rows.join(watts, on="gpu_hz", how="inner", validate="1:1")
    return joined.with_columns(pl.lit(None, pl.String).alias("reason")).sort("gpu_hz")


def modes_of(rows: pl.DataFrame) -> pl.DataFrame:
    """MODE_SCHEMA: the modes of ``rows``, each once."""
    known = rows.select("device", "mode", "gpu_hz", "memory_hz").unique(maintain_order=True)
    return known.with_columns(
        pl.lit(None, kind).alias(name) for name, kind in MODE_SCHEMA.items() if name not in known
    ).select(*MODE_SCHEMA)


def observations_of(rows: pl.DataFrame) -> pl.DataFrame:
    """``rows`` without their clocks: OBSERVATION_SCHEMA."""
    return rows.with_columns(
        pl.lit(None, kind).alias(name)
        for name, kind in OBSERVATION_SCHEMA.items()
        if name not in rows.columns
    ).select(*OBSERVATION_SCHEMA)
