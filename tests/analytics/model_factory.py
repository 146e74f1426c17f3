"""A lawful board that exists nowhere, in the frames of ``data.model_frames``: source "simulated".

It is built like an AGX Orin of 16 SMs, whose laws are known here exactly:

- peak: 16 SMs × FLOP per cycle and SM × f_gpu
- bandwidth: min(0.92 · 64 byte · f_emc, 204.5 byte · f_gpu)
- ε: ε at 1 GHz × (V / V at 1 GHz)², where V = 0.6 V + 0.3 V · f_gpu / GHz
- π₀: 6 W + 4 W · f_gpu / GHz + 1 W · f_emc / GHz
- launch: 5 µs + 2 µs · GHz / f_gpu

The clocks are the real board's, the costs are round numbers. Three networks of six groups: one
of heavy convolutions, one that mostly moves, one of many small products.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import polars as pl

from mansard.analytics.data.model_frames import (
    COEFFICIENT_SCHEMA,
    GROUP_SCHEMA,
    MODE_SCHEMA,
    OBSERVATION_SCHEMA,
    PREDICTION_SCHEMA,
)

DEVICE = "Made-up Orin GPU"
GPU_HZ = (306e6, 612e6, 816e6, 1020e6, 1300.5e6)
MEMORY_HZ = (665.6e6, 2133e6, 3199e6)
N_SMS = 16
FLOP_PER_CYCLE = MappingProxyType(
    {("fp32", "CUDA core"): 256, ("fp16", "CUDA core"): 512, ("fp16", "tensor core"): 2048}
)
FLOP_J = MappingProxyType(
    {("fp32", "CUDA core"): 3e-12, ("fp16", "CUDA core"): 1.6e-12, ("fp16", "tensor core"): 0.5e-12}
)
BYTE_J, HALF_WIDTH = 60e-12, 0.02
BATCHES, PRECISIONS = (1, 4, 16), ("fp16", "fp32")
# GFLOP, weights in MB, activations in MB and class of each group, at batch 1 in fp32.
NETWORKS: Mapping[str, Sequence[tuple[float, float, float, str]]] = MappingProxyType(
    {
        "heavy": [(0.4 * 2**at, 2.0, 6.0 / (at + 1), "conv") for at in range(6)],
        "mobile": [
            (0.05 * (at + 1), 0.1, 12.0, "depthwise" if at % 2 else "conv") for at in range(6)
        ],
        "small": [(0.004, 0.5, 0.05, "matmul") for _ in range(6)],
    }
)


def board_modes(
    gpu_hz: Sequence[float] = GPU_HZ, memory_hz: Sequence[float] = MEMORY_HZ
) -> pl.DataFrame:
    """MODE_SCHEMA: every GPU clock with every memory clock; the fastest is called MAXN."""
    rows = [
        {
            "device": DEVICE,
            "mode": mode_name(gpu, memory),
            "gpu_hz": gpu,
            "memory_hz": memory,
            "cpu_hz": 2.2e9,
            "n_sms": N_SMS,
            "n_cpus": 12,
            "power_limit_w": None,
        }
        for gpu in gpu_hz
        for memory in memory_hz
    ]
    return pl.DataFrame(rows, schema=MODE_SCHEMA)


def mode_name(gpu_hz: float, memory_hz: float) -> str:
    if (gpu_hz, memory_hz) == (GPU_HZ[-1], MEMORY_HZ[-1]):
        return "MAXN"
    return f"gpu{gpu_hz / 1e6:.0f}-emc{memory_hz / 1e6:.0f}"


def true_value(quantity: str, key: tuple[str, str], gpu_hz: float, memory_hz: float) -> float:
    """A coefficient by the laws above, SI; ``key`` is subject and unit."""
    gpu_ghz, memory_ghz = gpu_hz / 1e9, memory_hz / 1e9
    volts_squared = ((0.6 + 0.3 * gpu_ghz) / 0.9) ** 2
    if quantity == "peak":
        return N_SMS * FLOP_PER_CYCLE[key] * gpu_hz
    if quantity == "flop_energy":
        return FLOP_J[key] * volts_squared
    return {
        "bandwidth": min(0.92 * 64 * memory_hz, 204.5 * gpu_hz),
        "launch": 5e-6 + 2e-6 / gpu_ghz,
        "byte_energy": BYTE_J * volts_squared,
        "constant_power": 6.0 + 4.0 * gpu_ghz + 1.0 * memory_ghz,
    }[quantity]


def board_coefficients(modes: pl.DataFrame | None = None) -> pl.DataFrame:
    """COEFFICIENT_SCHEMA: all coefficients of each mode, with intervals of ± 2 %."""
    rows = [
        {
            "device": row["device"],
            "mode": row["mode"],
            "quantity": quantity,
            "subject": key[0],
            "unit": key[1],
            "value": (value := true_value(quantity, key, row["gpu_hz"], row["memory_hz"])),
            "low": value * (1 - HALF_WIDTH),
            "high": value * (1 + HALF_WIDTH),
            "source": "simulated",
            "error": None,
            "n_fitted": None,
            "is_extrapolated": False,
            "reason": None,
        }
        for row in (board_modes() if modes is None else modes).iter_rows(named=True)
        for quantity, key in _quantities()
    ]
    return pl.DataFrame(rows, schema=COEFFICIENT_SCHEMA)


def network_groups(
    batches: Sequence[int] = BATCHES, precisions: Sequence[str] = PRECISIONS
) -> pl.DataFrame:
    """GROUP_SCHEMA of each network at each batch in each precision."""
    rows = [
        {
            "score_id": score_name(network, batch, precision),
            "group": at,
            "name": f"{op_class} {at}",
            "op_class": op_class,
            "tensor_precision": precision if precision == "fp16" else None,
            "tensor_flop": gflop * 1e9 * batch if precision == "fp16" else 0.0,
            "cuda_precision": precision,
            "function_flop": 0.0,
            "cuda_flop": gflop * 1e7 * batch if precision == "fp16" else gflop * 1e9 * batch,
            "traffic_bytes": (weights + moved * batch) * 1e6 / (2 if precision == "fp16" else 1),
            "n_launches": 1,
            "reason": None,
        }
        for network, groups in NETWORKS.items()
        for batch in batches
        for precision in precisions
        for at, (gflop, weights, moved, op_class) in enumerate(groups)
    ]
    return pl.DataFrame(rows, schema=GROUP_SCHEMA)


def score_name(network: str, batch: int, precision: str) -> str:
    return f"{network}-{batch}-{precision}"


def network_predictions(
    modes: pl.DataFrame | None = None,
    batches: Sequence[int] = BATCHES,
    precisions: Sequence[str] = PRECISIONS,
) -> pl.DataFrame:
    """PREDICTION_SCHEMA by the board's own laws; each interval is ± 2 %."""
    groups = network_groups(batches, precisions)
    rows = [
        _prediction(mode, network, batch, precision, groups)
        for mode in (board_modes() if modes is None else modes).iter_rows(named=True)
        for network in NETWORKS
        for batch in batches
        for precision in precisions
    ]
    return pl.DataFrame(rows, schema=PREDICTION_SCHEMA)


def network_observations(factor: float = 1.1, modes: pl.DataFrame | None = None) -> pl.DataFrame:
    """OBSERVATION_SCHEMA: each prediction times ``factor``, as if it had been measured."""
    found = network_predictions(modes).with_columns(
        latency_s=pl.col("latency_s") * factor,
        source=pl.lit("simulated"),
        engine=pl.lit("onnxruntime cuda"),
        citation=pl.lit(None, pl.String),
        latency_deviation=pl.lit(None, pl.Float64),
        power_deviation=pl.lit(None, pl.Float64),
        cpu_s=pl.lit(None, pl.Float64),
    )
    return found.select(list(OBSERVATION_SCHEMA))


def _prediction(
    mode: Mapping[str, float], network: str, batch: int, precision: str, groups: pl.DataFrame
) -> dict[str, object]:
    inside = groups.filter(pl.col("score_id") == score_name(network, batch, precision))
    parts = [_group(row, mode) for row in inside.iter_rows(named=True)]
    time_s, energy_j = sum(part[0] for part in parts), sum(part[1] for part in parts)
    kinds = {"compute": 0.0, "memory": 0.0, "launch": 0.0}
    for own_s, _, bound in parts:
        kinds[bound] += own_s
    return {
        "device": mode["device"],
        "mode": mode["mode"],
        "interval": "spread",
        "score_id": score_name(network, batch, precision),
        "network": network,
        "batch": batch,
        "precision": precision,
        "phase": "inference",
        **_spread("latency", "s", time_s),
        **_spread("energy", "j", energy_j),
        **_spread("power", "w", energy_j / time_s),
        "time_bound": max(kinds, key=lambda kind: kinds[kind]),
        "energy_bound": "constant",
        "source": "modelled",
        "is_extrapolated": False,
        "is_calibrated": False,
    }


def _spread(name: str, unit: str, value: float) -> dict[str, float]:
    return {
        f"{name}_{unit}": value,
        f"{name}_low_{unit}": value * (1 - HALF_WIDTH),
        f"{name}_high_{unit}": value * (1 + HALF_WIDTH),
    }


def _group(row: Mapping[str, object], mode: Mapping[str, float]) -> tuple[float, float, str]:
    """Seconds, joules and bound of one group."""

    def of(quantity: str, subject: str = "", unit: str = "") -> float:
        return true_value(quantity, (subject, unit), mode["gpu_hz"], mode["memory_hz"])

    work_s = work_j = 0.0
    for unit, kind in (("tensor core", "tensor"), ("CUDA core", "cuda")):
        flop, precision = float(str(row[f"{kind}_flop"])), row[f"{kind}_precision"]
        if flop and precision is not None:
            work_s = max(work_s, flop / of("peak", str(precision), unit))
            work_j += flop * of("flop_energy", str(precision), unit)
    traffic = float(str(row["traffic_bytes"]))
    memory_s, launch_s = traffic / of("bandwidth"), of("launch")
    time_s = max(work_s, memory_s) + launch_s
    energy_j = work_j + traffic * of("byte_energy") + time_s * of("constant_power")
    shares = {"compute": work_s, "memory": memory_s, "launch": launch_s}
    return time_s, energy_j, max(shares, key=lambda kind: shares[kind])


def _quantities() -> Iterator[tuple[str, tuple[str, str]]]:
    for key in FLOP_PER_CYCLE:
        yield "peak", key
    yield "bandwidth", ("DRAM", "")
    yield "launch", ("", "")
    for key in FLOP_J:
        yield "flop_energy", key
    yield "byte_energy", ("DRAM", "")
    yield "constant_power", ("", "")
