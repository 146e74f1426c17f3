"""Made-up but plausible runs, built from ceilings chosen by hand.

Imported as ``tests.analytics.factory``: ``conftest.py`` puts the repository on the path.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mansard.analytics.data.limits import ROW_TABLES
from mansard.core.power_mode import core_count_mode
from mansard.core.records import (
    Accuracy,
    Cache,
    Conditions,
    ContentionPoint,
    EnergyWindow,
    GenerationRun,
    MachineIdentity,
    Manifest,
    Measurement,
    MultiRun,
    NamedWindow,
    OffloadRun,
    PowerMode,
    ProgramRepetition,
    ProgramRun,
    RailEnergy,
    Record,
    Source,
    Trial,
)
from mansard.core.storage.documents import write_document
from mansard.core.storage.jsonl import RowWriter

KIB, MIB = 1024, 1024**2
HOSTILE = "</script><img src=x onerror=alert(1)>"
# Symmetric about 1, so that the median of the blocks is exactly the ceiling.
SPREAD = (1.0, 0.998, 1.002, 0.996, 1.004, 0.999, 1.001, 0.997, 1.003)
STREAM_FACTOR = {"read": 1.0, "copy": 0.8, "scale": 0.85, "triad": 0.9}
FMA_LENGTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True)
class Ceilings:
    """FLOP/s per precision and byte/s per level; the read kernel reaches the latter."""

    peaks: dict[str, float] = field(default_factory=lambda: {"fp32": 128e9, "fp64": 64e9})
    levels: dict[str, float] = field(
        default_factory=lambda: {"L1": 256e9, "L2": 128e9, "L3": 64e9, "DRAM": 16e9}
    )


ONE_CORE = Ceilings(
    {"fp32": 64e9, "fp64": 32e9}, {"L1": 128e9, "L2": 64e9, "L3": 32e9, "DRAM": 12.8e9}
)
TWO_CORES = Ceilings()


def machine(
    name: str = "Example CPU", machine_hash: str | None = "a" * 16, *, is_simulated: bool = False
) -> MachineIdentity:
    return MachineIdentity(
        kind="cpu",
        name=name,
        is_simulated=is_simulated,
        architecture="x86_64",
        cpus=(0, 1),
        caches=(
            Cache(level=1, size_bytes=32 * KIB, line_bytes=64, shared_cpus=(0,), n_instances=2),
            Cache(level=2, size_bytes=MIB, line_bytes=64, shared_cpus=(0,), n_instances=2),
            Cache(level=3, size_bytes=32 * MIB, line_bytes=64, shared_cpus=(0, 1), n_instances=1),
        ),
        memory_bytes=24 * 1024**3,
        operating_system="Debian GNU/Linux 12",
        kernel_release="6.1.0",
        machine_hash=machine_hash,
        accelerators=(),
        board=None,
        cuda=None,
        driver=None,
        unknown=dict.fromkeys(("board", "cuda", "driver"), "not a board")
        | ({} if machine_hash is not None else {"machine_hash": "neither serial nor machine-id"}),
    )


def manifest(
    run_id: str,
    n_cpus: int = 2,
    n_trials: int = 0,
    on: MachineIdentity | None = None,
    meters_missing: dict[str, str] | None = None,
    *,
    mode: PowerMode | None = None,
    idle: tuple[EnergyWindow, ...] | None = None,
    total: tuple[str, ...] | None = None,
    kind: str = "kernels",
    started_utc: str = "2026-01-02T03:04:05Z",
    label: str = "",
) -> Manifest:
    """A run of one mode; ``total`` are the rails of its total, where it has a meter."""
    missing = {"rapl": "/sys/class/powercap/intel-rapl:0/energy_uj is missing: no meter here"}
    return Manifest(
        run_id=run_id,
        kind=kind,
        tool_version="0.1.0",
        commit=None,
        versions={"python": "3.11.7", "numba": "0.68.1", "numpy": "2.4.6"},
        machine=on or machine(),
        mode_requested=mode or core_count_mode(n_cpus),
        mode_read_back=mode or core_count_mode(n_cpus),
        plan_hash="f" * 16,
        profile="quick",
        n_trials=n_trials,
        meters=("ina3221",) if total else (),
        meters_missing=missing if meters_missing is None else meters_missing,
        total_rails=total,
        total_rule=f"the sum of {' and '.join(total)}" if total else None,
        boundary="the module" if total else None,
        idle=idle,
        gpu=None,
        image=None,
        image_digest=None,
        seed=1,
        started_utc=started_utc,
        finished_utc="2026-01-02T03:06:05Z",
        started_monotonic_s=100.0,
        finished_monotonic_s=220.0,
        label=label,
        unknown={
            "commit": "not installed from a clone",
            **dict.fromkeys(("image", "image_digest"), "not run in a container"),
            "gpu": "the kernels ran on the CPU",
            **({} if total else dict.fromkeys(_TOTAL, "no meter, no rails")),
            **({} if idle is not None else {"idle": "no meter was read"}),
        },
    )


_TOTAL = ("total_rails", "total_rule", "boundary")


def calm(**known: object) -> Conditions:
    """Conditions of a machine that reports nothing but what is ``known``."""
    values = dict.fromkeys(Conditions.__struct_fields__[1:]) | known
    missing = [name for name, value in values.items() if value is None]
    reasons = dict.fromkeys(missing, "this machine does not report it")
    return Conditions(**values, unknown=reasons)


def measurement(run_id: str, seconds_s: Sequence[float], **known: Any) -> Measurement:
    """A network that took so many seconds; everything else is ``known`` or plain."""
    values: dict[str, Any] = {
        "source": "measured",
        "model": "net",
        "model_hash": "a" * 16,
        "phase": "inference",
        "engine": "ort",
        "engine_version": "1.31.1",
        "processor": "cpu",
        "provider": "cpu",
        "options": {},
        "threads": 2,
        "cpus": (0, 1),
        "precision": "fp32",
        "batch": 1,
        "dimensions": {},
        "inputs": "random numbers",
        "copies": "none",
        "launching": "call",
        "waiting": "spin",
        "failure": None,
        "calls_per_sample": 1,
        "block": tuple(range(len(seconds_s))),
        "rejected_s": (),
        "rejected_reason": (),
        "stability": "stable",
        "stability_interval": 0.001,
        "call_seconds_s": tuple(seconds_s),
        "profiled_s": None,
        "layers": None,
        "energy": None,
        "memory_bytes": None,
        "load_s": None,
        "first_call_s": None,
        "conditions": calm(),
        "disturbances": (),
        "started_utc": "2026-01-02T03:04:05Z",
        "duration_s": 1.0,
    }
    reasons = {"failure": "it ran", "energy": "no meter was read"}
    values |= known
    what = [
        values[name] for name in ("model", "engine", "provider", "threads", "precision", "batch")
    ]
    values.setdefault("trial_id", hashlib.sha256(repr(what).encode()).hexdigest()[:16])
    missing = [name for name, value in values.items() if value is None]
    unknown = {name: reasons.get(name, "not asked for") for name in missing}
    return Measurement(run_id=run_id, seconds_s=tuple(seconds_s), unknown=unknown, **values)


def window(
    powers_w: dict[str, float],
    total: Sequence[str],
    *,
    window_s: float = 2.0,
    repetitions: int = 0,
    start_s: float = 100.0,
) -> EnergyWindow:
    """A window in which each rail drew a steady power."""
    return EnergyWindow(
        start_s=start_s,
        window_s=window_s,
        repetitions=repetitions,
        rails=tuple(
            RailEnergy(
                rail=rail,
                energy_j=power_w * window_s,
                n_samples=40,
                n_changed=30,
                n_gaps=0,
                step_w=0.04,
                unknown={"error_j": "not a counter"},
            )
            for rail, power_w in powers_w.items()
        ),
        total_j=sum(powers_w[rail] for rail in total) * window_s,
        unknown=dict.fromkeys(("error_j", "is_settled", "disturbed_s"), "not recorded"),
    )


def trial(
    run_id: str,
    kernel: str,
    rate: float,
    *,
    precision: str = "fp32",
    fma_per_element: int | None = None,
    working_set_bytes: int = 16 * KIB,
    cpus: Sequence[int] = (0, 1),
    spread: Sequence[float] = SPREAD,
    n_per_block: int = 3,
    stability: str = "stable",
    energy: tuple[EnergyWindow, ...] | None = None,
    conditions: Conditions | None = None,
    disturbances: tuple[str, ...] = (),
    source: Source = "measured",
) -> Trial:
    """One trial whose blocks ran at ``rate`` (FLOP/s or byte/s) times each of ``spread``."""
    is_fma = kernel == "fma"
    work = 2_000_000 * (fma_per_element or 1) if kernel != "read" else 1_000_000
    traffic = 64_000 if is_fma else working_set_bytes * 10
    amount = work if is_fma else traffic
    key = f"{run_id}|{kernel}|{precision}|{fma_per_element}|{working_set_bytes}"
    unknown = dict.fromkeys(("n_sms", "clock_hz"), "the kernel ran on the CPU")
    if energy is None:
        unknown["energy"] = "no meter was read"
    if fma_per_element is None:
        unknown["fma_per_element"] = "this kernel has no chain"
    return Trial(
        run_id=run_id,
        trial_id=hashlib.sha256(key.encode()).hexdigest()[:16],
        source=source,
        kernel=kernel,
        family="fma" if is_fma else "stream",
        processor="cpu",
        backend="numba-cpu",
        precision=precision,
        fma_per_element=fma_per_element,
        operands="chaotic",
        scope="core",
        memory="host",
        cpus=tuple(cpus),
        n_sms=None,
        working_set_bytes=working_set_bytes,
        work_flop=work,
        traffic_bytes=traffic,
        traffic_counting="each load and each store once; stores bypass the caches",
        repetitions_per_sample=4,
        seconds_s=tuple(amount / (rate * part) for part in spread for _ in range(n_per_block)),
        block=tuple(at for at, _ in enumerate(spread) for _ in range(n_per_block)),
        clock_hz=None,
        rejected_s=(0.5,),
        rejected_reason=("1 involuntary context switch",),
        stability="unstable" if stability == "unstable" else "stable",
        stability_interval=0.002,
        energy=energy,
        conditions=conditions or calm(),
        disturbances=disturbances,
        source_hash="c" * 16,
        started_utc="2026-01-02T03:04:06Z",
        duration_s=0.5,
        unknown=unknown,
    )


def fma_trials(
    run_id: str, ceilings: Ceilings = TWO_CORES, cpus: Sequence[int] = (0, 1)
) -> list[Trial]:
    return [
        trial(
            run_id,
            "fma",
            # short chains wait for their loads and stores
            min(peak, ceilings.levels.get("L1", 1e12) * length / 8),
            precision=precision,
            fma_per_element=length,
            cpus=cpus,
        )
        for precision, peak in ceilings.peaks.items()
        for length in FMA_LENGTHS
    ]


def stream_trials(
    run_id: str, ceilings: Ceilings = TWO_CORES, cpus: Sequence[int] = (0, 1)
) -> list[Trial]:
    """A staircase over total working sets, steps at the capacities that ``cpus`` use."""
    edges = {"L1": 32 * KIB * len(cpus), "L2": MIB * len(cpus), "L3": 32 * MIB}
    sizes = [int(8 * KIB * 2 ** (step / 2)) for step in range(29)]
    found = []
    for size in sizes:
        level = next((name for name, edge in edges.items() if size <= edge), "DRAM")
        if level not in ceilings.levels:
            continue
        for kernel, factor in STREAM_FACTOR.items():
            rate = ceilings.levels[level] * factor
            found.append(trial(run_id, kernel, rate, working_set_bytes=size, cpus=cpus))
    return found


def write_run(
    folder: Path,
    run: Manifest,
    rows: Sequence[Record],
) -> Path:
    """A run's folder, with the rows of its kind."""
    folder.mkdir(parents=True)
    write_document(folder / "manifest.json", run)
    row_type = _ROW_TYPES[run.kind]
    with RowWriter(folder / f"{ROW_TABLES[run.kind]}.jsonl", row_type) as writer:
        writer.extend(rows)  # one sync, not one for each row
    return folder


_ROW_TYPES: dict[str, type[Record]] = {
    "kernels": Trial,
    "networks": Measurement,
    "programs": ProgramRun,
    "generations": GenerationRun,
    "accuracies": Accuracy,
    "multi": MultiRun,
    "offloads": OffloadRun,
    "contention": ContentionPoint,
}


def write_networks(
    runs: Path,
    rows: Sequence[Measurement],
    n_cpus: int = 2,
    *,
    started_utc: str = "2026-01-02T04:00:00Z",
    **known: Any,
) -> Path:
    """A run of networks in the folder ``runs``: ``rows`` are of one run, on the example CPU."""
    n_trials: int = known.pop("n_trials", len(rows))
    run = manifest(
        rows[0].run_id, n_cpus, n_trials, kind="networks", started_utc=started_utc, **known
    )
    return write_run(runs / run.run_id, run, rows)


def write_programs(runs: Path, rows: Sequence[ProgramRun], n_cpus: int = 2, **known: Any) -> Path:
    """A run of programs in the folder ``runs``: ``rows`` are of one run."""
    run = manifest(rows[0].run_id, n_cpus, len(rows), kind="programs", **known)
    return write_run(runs / run.run_id, run, rows)


def program(run_id: str, walls_s: Sequence[float], **known: Any) -> ProgramRun:
    """A program that ran so often; everything else is ``known`` or plain.

    ``power_w``: a meter's mean over each run; ``windows``: of each run; ``metric``: likewise.
    """
    power_w = known.pop("power_w", None)
    windows, metric = known.pop("windows", ()), known.pop("metric", None)
    repetitions = [
        repetition(wall_s, power_w=power_w, windows=windows, metric=metric) for wall_s in walls_s
    ]
    values: dict[str, Any] = {
        "trial_id": "p" * 16,
        "source": "measured",
        "workload": "llm",
        "command": ("./llm", "--prompt", "hello"),
        "folder": "/home/user",
        "program_hash": "c" * 16,
        "metric_pattern": None if metric is None else "tokens/s: ([0-9.]+)",
        "repetitions": tuple(repetitions),
        "stability": "stable",
        "stability_interval": 0.001,
        "conditions": calm(),
        "disturbances": (),
        "started_utc": "2026-01-02T05:00:00Z",
        "duration_s": sum(walls_s),
    } | known
    unknown = {name: "not asked for" for name, value in values.items() if value is None}
    return ProgramRun(run_id=run_id, unknown=unknown, **values)


def repetition(
    wall_s: float,
    *,
    power_w: float | None = None,
    windows: Sequence[NamedWindow] = (),
    metric: float | None = None,
) -> ProgramRepetition:
    """One run of a program; ``power_w`` is drawn on one rail, VDD_IN."""
    energy = None
    if power_w is not None:
        energy = window({"VDD_IN": power_w}, ("VDD_IN",), window_s=wall_s, repetitions=1)
    values: dict[str, Any] = {"energy": energy, "peak_w": power_w, "metric": metric}
    return ProgramRepetition(
        start_s=100.0,
        wall_s=wall_s,
        user_s=wall_s,
        system_s=0.0,
        peak_memory_bytes=MIB,
        windows=tuple(windows),
        unknown={name: "not asked for" for name, value in values.items() if value is None},
        **values,
    )


def write_two_modes(runs: Path) -> Path:
    """One machine measured at one and two cores, nothing missing."""
    for name, ceilings, cpus in (("run-1c", ONE_CORE, (0,)), ("run-2c", TWO_CORES, (0, 1))):
        trials = [*fma_trials(name, ceilings, cpus), *stream_trials(name, ceilings, cpus)]
        write_run(runs / name, manifest(name, len(cpus), len(trials)), trials)
    return runs
