"""Trials, manifest and energies of the simulated GPU of ``gpu_runs``."""

from __future__ import annotations

import hashlib
from pathlib import Path

from msgspec.structs import replace

from mansard.core.records import (
    Board,
    EnergyWindow,
    Gpu,
    MachineIdentity,
    Manifest,
    PowerMode,
    Trial,
)
from tests.analytics.factory import (
    KIB,
    MIB,
    SPREAD,
    machine,
    manifest,
    trial,
    window,
    write_run,
)
from tests.analytics.gpu_runs import HZ, N_SMS, Run, all_runs

# What a FLOP and a byte cost in J, by the name of the coefficient, and a second in W.
COSTS_J = {
    "fp64": 20e-12,
    "fp32": 4e-12,
    "fp16": 2e-12,
    "tf32 tensor": 1.6e-12,
    "bf16 tensor": 0.8e-12,
    "fp16 tensor": 0.8e-12,
    "int8 tensor": 0.4e-12,
    "L1": 5e-12,
    "L2": 25e-12,
    "DRAM": 80e-12,
}
CONSTANT_W, IDLE_W = 9.0, 6.0
CONSTANT_SHARE = 0.6  # of a FLOP's cost, with operands that never change
RAIL = "VIN"
LOADS = 1024  # of a repetition of a latency kernel


def orin(n_sms: int = N_SMS) -> Gpu:
    return Gpu(
        name="Orin",
        sm=87,
        n_sms=n_sms,
        l1_bytes=192 * KIB,
        l2_bytes=4 * MIB,
        memory_bytes=64 * 1024**3,
        memory_bus_bits=256,
        memory_hz=None,
        gpu_hz=1300.5e6,
        is_integrated=True,
        ecc=False,
        mig=None,
        driver_cuda="12.6",
        runtime_cuda="12.6",
        unknown={
            "memory_hz": "CUDA tells the GPU's own clock here",
            "mig": "this GPU cannot be divided",
        },
    )


def board() -> MachineIdentity:
    found = Board(
        module="Jetson AGX Orin 64GB",
        part_number="p3701-0005",
        soc="tegra234",
        l4t="36.4.3",
        jetpack="6.2",
    )
    plain = machine("Jetson AGX Orin 64GB", is_simulated=True)
    return replace(plain, kind="jetson", board=found, cuda="12.6", driver="540.4.0", unknown={})


def mode_30w() -> PowerMode:
    return PowerMode(
        name="30W",
        kind="nvpmodel",
        n_cpus=8,
        clusters=(),
        cpu_hz=1728e6,
        gpu_hz=HZ,
        memory_hz=3199e6,
        dla_hz=None,
        n_sms=N_SMS,
        power_limit_w=None,
        unknown=dict.fromkeys(("dla_hz", "power_limit_w"), "the mode does not say"),
    )


def gpu_manifest(
    run_id: str, n_trials: int = 0, *, gpu: Gpu | None = None, mode: PowerMode | None = None
) -> Manifest:
    idle = (window({RAIL: IDLE_W}, (RAIL,)),) * 3
    plain = manifest(
        run_id, 8, n_trials, board(), {}, mode=mode or mode_30w(), idle=idle, total=(RAIL,)
    )
    known = {"gpu", "image", "image_digest"}
    return replace(
        plain,
        gpu=gpu or orin(),
        image="mansard:l4t-r36",
        image_digest=f"sha256:{'d' * 64}",
        unknown={name: why for name, why in plain.unknown.items() if name not in known},
    )


def gpu_trial(
    run_id: str,
    run: Run,
    *,
    clock_hz: float = HZ,
    disturbances: tuple[str, ...] = (),
    metered: bool = True,
) -> Trial:
    """The trial of ``run``; its energy is what COSTS_J and CONSTANT_W give."""
    work, traffic, amount = _amounts(run)
    plain = trial(
        run_id,
        "read",
        1.0,
        precision=run.precision,
        fma_per_element=run.fma_per_element,
        working_set_bytes=run.working_set_bytes,
        disturbances=disturbances,
        source="simulated",
    )
    key = hashlib.sha256(f"{run_id} {run}".encode())
    found = replace(
        plain,
        trial_id=key.hexdigest()[:16],
        seconds_s=tuple(amount / (run.rate * part) for part in SPREAD for _ in range(3)),
        kernel=run.kernel,
        family=run.family,
        processor="gpu",
        backend=run.backend,
        operands=run.operands,
        scope=run.scope,
        memory=run.memory,
        n_sms=N_SMS,
        clock_hz=(clock_hz,) * len(plain.seconds_s),
        work_flop=work,
        traffic_bytes=traffic,
        unknown={n: w for n, w in plain.unknown.items() if n not in {"n_sms", "clock_hz"}},
    )
    return _metered(found) if metered else found


def _amounts(run: Run) -> tuple[int, int, int]:
    """Work and traffic of one repetition, and how much of what the rate counts."""
    if run.family in {"stalled", "launch"}:
        return 0, 0, 1
    if run.family == "latency":
        return 0, 4 * LOADS, LOADS
    if run.family == "stream":
        return 0, 10 * run.working_set_bytes, 10 * run.working_set_bytes
    if run.family == "tensor":
        return 2 * 10**9, 10**5, 2 * 10**9
    work = 2 * (run.working_set_bytes // 4) * (run.fma_per_element or 1)
    return work, 2 * run.working_set_bytes, work


def _metered(row: Trial) -> Trial:
    name = f"{row.precision} tensor" if row.family == "tensor" else row.precision
    level = _level_of(row)
    share = CONSTANT_SHARE if row.operands == "constant" else 1.0
    joules = share * COSTS_J.get(name, 0.0) * row.work_flop
    joules += COSTS_J.get(level, 0.0) * row.traffic_bytes
    repetitions = round(2.0 / row.seconds_s[0])
    watts = CONSTANT_W + joules * repetitions / 2.0
    found: EnergyWindow = window({RAIL: watts}, (RAIL,), repetitions=repetitions)
    unknown = {name: why for name, why in row.unknown.items() if name != "energy"}
    return replace(row, energy=(found, found), unknown=unknown)


def _level_of(row: Trial) -> str:
    if row.scope == "sm":
        return "L1"
    return "L2" if row.working_set_bytes <= 3 * MIB else "DRAM"


def write_orin(runs: Path, run_id: str = "orin-30w") -> Path:
    """The whole board in its 30W mode, nothing missing."""
    trials = [gpu_trial(run_id, run) for run in all_runs()]
    write_run(runs / run_id, gpu_manifest(run_id, len(trials)), trials)
    return runs
