"""Made-up runs in any number, for benchmarks of what reads them; all figures are invented."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np

from mansard.core.records import (
    Cache,
    Conditions,
    EnergyWindow,
    MachineIdentity,
    Manifest,
    PowerMode,
    PowerSample,
    RailEnergy,
    Trial,
)
from mansard.core.storage.documents import write_document
from mansard.core.storage.jsonl import RowWriter

KERNELS = ("read", "copy", "scale", "triad")
PRECISIONS = ("fp32", "fp64")
N_SIZES, N_LENGTHS = 45, 10
TRIALS_OF_A_MODE = len(KERNELS) * N_SIZES + len(PRECISIONS) * N_LENGTHS
N_BLOCKS, N_IN_BLOCK = 10, 10
RAILS = ("VDD_GPU_SOC", "VDD_CPU_CV")
_ROWS_AT_ONCE = 10_000


def write_modes(runs: Path, n_modes: int) -> None:
    """Runs of ``n_modes`` power modes of one board, 200 trials of 100 repetitions in each."""
    random = np.random.default_rng(1)
    for number in range(n_modes):
        run_id = f"{number:016x}"
        folder = runs / run_id
        folder.mkdir(parents=True)
        write_document(folder / "manifest.json", _manifest(run_id, number, n_modes))
        share = (number + 1) / n_modes
        with RowWriter(folder / "trials.jsonl", Trial) as writer:
            writer.extend(_trials(run_id, share, random))


def write_samples(folder: Path, n_samples: int) -> None:
    """Power samples of two rails, every 10 ms, beside the trials of a run."""
    random = np.random.default_rng(2)
    unknown = {"energy_j": "this meter reads power"}
    with RowWriter(folder / "samples.jsonl", PowerSample) as writer:
        for start in range(0, n_samples, _ROWS_AT_ONCE):
            powers_w = random.normal(12.0, 0.5, _ROWS_AT_ONCE).round(3).tolist()
            writer.extend(
                PowerSample(
                    rail=RAILS[at % 2],
                    monotonic_s=100.0 + (at // 2) / 100,
                    power_w=power_w,
                    energy_j=None,
                    unknown=unknown,
                )
                for at, power_w in enumerate(powers_w[: n_samples - start], start)
            )


def _trials(run_id: str, share: float, random: np.random.Generator) -> Iterator[Trial]:
    template = _template(run_id)
    sizes = [int(8192 * 1.4**n) for n in range(N_SIZES)]
    shapes = [
        *(("stream", name, "fp32", None, size) for name in KERNELS for size in sizes),
        *(("fma", "fma", name, 2**n, 16384) for name in PRECISIONS for n in range(N_LENGTHS)),
    ]
    for at, (family, kernel, precision, length, size) in enumerate(shapes):
        work = 2_000_000 * length if length else 0
        traffic = 64_000 if length else 10 * size
        rate = share * (128e9 * (length / (length + 8)) if length else 200e9 / (1 + at % N_SIZES))
        noise = random.normal(1.0, 0.002, N_BLOCKS * N_IN_BLOCK)
        seconds_s = ((work or traffic) / rate * noise).tolist()
        unknown = dict(template.unknown) | ({} if length else {"fma_per_element": "no chain"})
        yield msgspec.structs.replace(
            template,
            trial_id=f"{at:016x}",
            family=family,
            kernel=kernel,
            precision=precision,
            fma_per_element=length,
            working_set_bytes=size,
            work_flop=work,
            traffic_bytes=traffic,
            seconds_s=tuple(seconds_s),
            energy=_windows(share, 2.0 / seconds_s[0], 3),
            unknown=unknown,
        )


def _windows(share: float, repetitions: float, n_windows: int) -> tuple[EnergyWindow, ...]:
    powers_w = dict(zip(RAILS, (4.0 + 20 * share, 3.0 + 5 * share), strict=True))
    rails = tuple(
        RailEnergy(
            rail=rail,
            energy_j=2 * power_w,
            n_samples=200,
            n_changed=150,
            n_gaps=0,
            step_w=0.04,
            unknown={"error_j": "made up"},
        )
        for rail, power_w in powers_w.items()
    )
    total_j = 2 * sum(powers_w.values())
    return tuple(
        EnergyWindow(
            start_s=100.0 + 2 * at,
            window_s=2.0,
            repetitions=int(repetitions),
            rails=rails,
            total_j=total_j,
            unknown=dict.fromkeys(("error_j", "is_settled", "disturbed_s"), "made up"),
        )
        for at in range(n_windows)
    )


def _template(run_id: str) -> Trial:
    conditions = Conditions.__struct_fields__[1:]
    return Trial(
        run_id=run_id,
        trial_id="",
        source="simulated",
        kernel="fma",
        family="fma",
        processor="cpu",
        backend="numba-cpu",
        precision="fp32",
        fma_per_element=1,
        operands="chaotic",
        scope="core",
        memory="host",
        cpus=(0, 1),
        n_sms=None,
        working_set_bytes=0,
        work_flop=0,
        traffic_bytes=0,
        traffic_counting="each load and each store once",
        repetitions_per_sample=4,
        seconds_s=(),
        block=tuple(np.repeat(range(N_BLOCKS), N_IN_BLOCK).tolist()),
        clock_hz=None,
        rejected_s=(0.5,),
        rejected_reason=("1 involuntary context switch",),
        stability="stable",
        stability_interval=0.002,
        energy=(),
        conditions=Conditions(
            **dict.fromkeys(conditions), unknown=dict.fromkeys(conditions, "made up")
        ),
        disturbances=(),
        source_hash="c" * 16,
        started_utc="2026-01-02T03:04:06Z",
        duration_s=8.0,
        unknown=dict.fromkeys(("n_sms", "clock_hz"), "the kernel ran on the CPU"),
    )


def _manifest(run_id: str, number: int, n_modes: int) -> Manifest:
    share = (number + 1) / n_modes
    mode = PowerMode(
        name=f"mode {number}",
        kind="clocks",
        n_cpus=2,
        clusters=(),
        cpu_hz=2e9 * share,
        gpu_hz=None,
        memory_hz=3e9,
        dla_hz=None,
        n_sms=None,
        power_limit_w=None,
        unknown=dict.fromkeys(("gpu_hz", "dla_hz", "n_sms", "power_limit_w"), "made up"),
    )
    return Manifest(
        run_id=run_id,
        kind="kernels",
        tool_version="0.1.0",
        commit=None,
        versions={},
        machine=_machine(),
        mode_requested=mode,
        mode_read_back=mode,
        plan_hash="f" * 16,
        profile="full",
        n_trials=TRIALS_OF_A_MODE,
        meters=("ina3221",),
        meters_missing={},
        total_rails=RAILS,
        total_rule="the sum of both",
        boundary="the module",
        idle=_windows(0.0, 0.0, 5),
        gpu=None,
        image=None,
        image_digest=None,
        seed=1,
        started_utc="2026-01-02T03:04:05Z",
        finished_utc="2026-01-02T04:04:05Z",
        started_monotonic_s=100.0,
        finished_monotonic_s=3700.0,
        unknown=dict.fromkeys(("commit", "gpu", "image", "image_digest"), "made up"),
    )


def _machine() -> MachineIdentity:
    sizes = ((1, 32 * 1024, (0,), 2), (2, 1024**2, (0,), 2), (3, 32 * 1024**2, (0, 1), 1))
    return MachineIdentity(
        kind="cpu",
        name="Made-up CPU",
        is_simulated=True,
        architecture="x86_64",
        cpus=(0, 1),
        caches=tuple(
            Cache(level=level, size_bytes=size, line_bytes=64, shared_cpus=cpus, n_instances=n)
            for level, size, cpus, n in sizes
        ),
        memory_bytes=24 * 1024**3,
        operating_system="Debian GNU/Linux 12",
        kernel_release="6.1.0",
        machine_hash="a" * 16,
        accelerators=(),
        board=None,
        cuda=None,
        driver=None,
        unknown=dict.fromkeys(("board", "cuda", "driver"), "made up"),
    )
