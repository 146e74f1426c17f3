"""What tables call their columns, precisions, units and memory levels."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mansard.analytics.published.units import Dimension, words_of
from mansard.core.precision import PRECISIONS
from mansard.core.records import RateWorkUnit

# What a column may be. Those with a dimension need a unit.
FIELDS: Mapping[str, Dimension | None] = MappingProxyType(
    {
        "mode": None,
        "network": None,
        "batch": None,
        "precision": None,
        "unit": None,
        "level": None,
        "phase": None,
        "method": None,
        "remark": None,
        "sms": None,
        "cpus": None,
        "peak": "work rate",
        "bandwidth": "byte rate",
        "launch": "time",
        "time": "time",
        "throughput": "images/s",
        "power": "power",
        "energy": "energy",
        "power_limit": "power",
        "gpu": "frequency",
        "emc": "frequency",
        "cpu": "frequency",
    }
)
NAMES = MappingProxyType(
    {
        **dict.fromkeys(
            ("mode", "power mode", "powermode", "mode name", "power mode name", "nvpmodel"), "mode"
        ),
        **dict.fromkeys(
            ("network", "net", "model", "model name", "modelname", "dnn", "workload"), "network"
        ),
        **dict.fromkeys(("batch", "batch size", "batchsize", "bs"), "batch"),
        **dict.fromkeys(("precision", "dtype", "datatype", "data type"), "precision"),
        **dict.fromkeys(("unit", "compute unit", "core type"), "unit"),
        **dict.fromkeys(("level", "memory level"), "level"),
        **dict.fromkeys(("method", "kernel", "engine", "framework", "operation"), "method"),
        **dict.fromkeys(("remark", "remarks", "doubt"), "remark"),
        **dict.fromkeys(("sms", "n sms", "num sms", "sm count", "active sms"), "sms"),
        **dict.fromkeys(("cpus", "n cpus", "cores", "n cores", "cpu cores"), "cpus"),
        "phase": "phase",
    }
)
SPREADS = frozenset({"std", "stdev", "stddev", "sd", "sem", "var", "variance", "error", "ci"})
# Times and powers that are not a run's, or not its usual ones: read only where the user says so.
OTHERS = frozenset(
    {
        *("min", "max", "p90", "p95", "p99", "best", "worst"),
        *("idle", "baseline", "static", "warmup", "timestamp", "start", "end"),
        *("build", "compile", "load", "setup"),
    }
)
# One rail's power is not the board's: read only where the user says so.
RAILS = frozenset({"gpu", "cpu", "soc", "cv", "ddr", "dram", "mem", "memory", "wifi", "rail"})
# What a time or an energy may be "per" without being that of a batch.
ITEMS = frozenset(
    {"image", "img", "inference", "inf", "frame", "sample", "item", "input", "request"}
)
LAUNCH = frozenset({"launch", "dispatch"})
LIMIT = frozenset({"limit", "budget", "cap", "tdp"})
CLOCKS = MappingProxyType(
    {
        **dict.fromkeys(("gpu", "gpc", "sm"), "gpu"),
        **dict.fromkeys(("emc", "mem", "memory", "dram", "ddr"), "emc"),
        "cpu": "cpu",
    }
)
BARE = MappingProxyType(  # quantities that say no unit
    {
        **dict.fromkeys(("time", "latency", "duration", "runtime"), "time"),
        **dict.fromkeys(("bandwidth", "bw"), "bandwidth"),
        **dict.fromkeys(("flops", "performance", "perf"), "peak"),
        "power": "power",
        "energy": "energy",
        "throughput": "throughput",
    }
)
FORMATS = MappingProxyType(
    {
        **{name: name for name in PRECISIONS},
        **dict.fromkeys(("float64", "double", "f64"), "fp64"),
        **dict.fromkeys(("float32", "single", "f32"), "fp32"),
        **dict.fromkeys(("float16", "half", "f16"), "fp16"),
        "bfloat16": "bf16",
    }
)
UNITS: Mapping[str, RateWorkUnit] = MappingProxyType(
    {
        **dict.fromkeys(("tensor", "tensor core", "tensor cores", "tc"), "tensor core"),
        **dict.fromkeys(("cuda", "cuda core", "cuda cores", "fma", "cpu"), "CUDA core"),
    }
)
LEVELS = MappingProxyType({"dram": "DRAM", "l1": "L1", "l2": "L2", "l3": "L3"})


def parse_precision_name(text: str) -> str | None:
    """The precision that a table means by ``text``, or None."""
    return FORMATS.get(text.casefold())


def parse_unit_name(text: str) -> RateWorkUnit | None:
    """ "tensor core" or "CUDA core" for what a table calls so, or None."""
    return UNITS.get(" ".join(words_of(text)).casefold())


def parse_level_name(text: str) -> str | None:
    """DRAM, L1, L2 or L3 for what a table calls so, or None."""
    return LEVELS.get(text.casefold())
