"""Runs of the simulated Orin in several power modes, metered, so that a whole page can be made.

The rates are those of ``gpu_runs`` at 612 MHz: what runs on SMs goes with their clock, what comes
from main memory with the lesser of the memory's clock and the GPU's port, which moves 204.5 bytes
a cycle. Costs are ``gpu_factory.COSTS_J`` times V², V = 0.6 + 0.3 f / GHz; the constant power is
6 W, 4 W for each GHz of the GPU and 1 W for each GHz of the memory.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from msgspec.structs import replace

from mansard.core.records import PowerMode, Trial
from tests.analytics.factory import MIB, window, write_run
from tests.analytics.gpu_factory import (
    CONSTANT_SHARE,
    COSTS_J,
    RAIL,
    gpu_manifest,
    gpu_trial,
    mode_30w,
)
from tests.analytics.gpu_runs import DRAM, HZ, Run, all_runs

# GPU clock, memory clock in Hz.
MODES: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "15W": (408e6, 2133e6),
        "30W": (612e6, 3199e6),
        "50W": (816e6, 3199e6),
        "MAXN": (1300.5e6, 3199e6),
    }
)


def write_board(
    runs: Path,
    modes: Mapping[str, tuple[float, float]] = MODES,
    error: Callable[[int], float] = lambda _: 1.0,
) -> Path:
    """One run for each of ``modes``, complete, with energies.

    ``error``: what the meter reads over what is drawn, by the number of the trial.
    """
    for name, (gpu_hz, memory_hz) in modes.items():
        run_id = f"run-{name}"
        trials = [
            _trial(run_id, run, gpu_hz, memory_hz, error(number))
            for number, run in enumerate(all_runs())
        ]
        manifest = gpu_manifest(run_id, len(trials), mode=power_mode(name, gpu_hz, memory_hz))
        write_run(runs / run_id, manifest, trials)
    return runs


def power_mode(name: str, gpu_hz: float, memory_hz: float) -> PowerMode:
    return replace(mode_30w(), name=name, gpu_hz=gpu_hz, memory_hz=memory_hz)


def volts_squared(gpu_hz: float) -> float:
    return (0.6 + 0.3 * gpu_hz / 1e9) ** 2


def constant_w(gpu_hz: float, memory_hz: float) -> float:
    return 6.0 + 4.0 * gpu_hz / 1e9 + memory_hz / 1e9


def _trial(run_id: str, run: Run, gpu_hz: float, memory_hz: float, error: float = 1.0) -> Trial:
    plain = gpu_trial(run_id, _at(run, gpu_hz, memory_hz), clock_hz=gpu_hz, metered=False)
    name = f"{plain.precision} tensor" if plain.family == "tensor" else plain.precision
    share = CONSTANT_SHARE if plain.operands == "constant" else 1.0
    level = "L1" if plain.scope == "sm" else "DRAM" if _is_from_memory(run) else "L2"
    joules = share * COSTS_J.get(name, 0.0) * plain.work_flop
    joules += COSTS_J[level] * plain.traffic_bytes
    repetitions = round(2.0 / plain.seconds_s[0])
    watts = constant_w(gpu_hz, memory_hz) + joules * volts_squared(gpu_hz) * repetitions / 2.0
    found = window({RAIL: error * watts}, (RAIL,), repetitions=repetitions)
    unknown = {name: why for name, why in plain.unknown.items() if name != "energy"}
    return replace(plain, energy=(found, found), unknown=unknown)


def _at(run: Run, gpu_hz: float, memory_hz: float) -> Run:
    """``run`` at other clocks than those of ``gpu_runs``."""
    on_sms = gpu_hz / HZ
    from_memory = min(0.92 * 64 * memory_hz, 204.5 * gpu_hz) / DRAM
    if not _is_from_memory(run):
        factor = on_sms
    elif run.family == "fma":
        # Short chains wait for memory, long ones for the SMs: 8 bytes for 2 FLOP of each FMA.
        waits = (run.fma_per_element or 1) / 4 * DRAM
        factor = min(on_sms * run.rate, from_memory * waits) / run.rate
    else:
        factor = on_sms if run.family in {"latency", "tensor"} else from_memory
    return dataclasses.replace(run, rate=run.rate * factor)


def _is_from_memory(run: Run) -> bool:
    return run.scope != "sm" and run.working_set_bytes > 3 * MIB
