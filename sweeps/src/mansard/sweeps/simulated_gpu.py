"""The GPU of a simulated board: its kernels run on a stand-in, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mansard.core.clock import VirtualClock
from mansard.core.errors import DeviceError
from mansard.core.hardware import (
    MODULES,
    Module,
    memory_bytes_per_s,
    memory_roof_bytes_per_s,
    sm_flop_per_cycle,
    sm_l1_bytes,
)
from mansard.core.records import Gpu, MachineIdentity, Processor
from mansard.device.meters.finding import find_meters
from mansard.measuring.measurer import LocalMeasurer
from mansard.microbench.cuda.sampling import OpenGpu
from mansard.microbench.cuda.software_gpu import Physics, SoftwareGpu
from mansard.microbench.plan import KernelPlan, Probe, cuda_versions
from mansard.microbench.trial import kernel_kind
from mansard.simulator.faults import read_faults
from mansard.simulator.virtual_rails import VirtualClocks, virtual_meters
from mansard.sweeps.targets import LocalTarget

if TYPE_CHECKING:
    from mansard.measuring.events import Event, Measurer
    from mansard.measuring.kind import Job
    from mansard.microbench.kernel import Case, Kernel

_OF_PEAK = 0.8  # of the memory's peak, where no board of the kind was recorded; made up
_JITTER = 0.002  # relative, of a launch's time; made up
_LATENCY_CYCLES = {"L1": 33, "L2": 200, "L2 near": 200, "L2 far": 280}  # made up, of a load
_VERSION = "2"  # of the stand-in's physics: another one makes other runs
_PRECISIONS = ("fp64", "fp32", "fp16", "bf16", "tf32", "int8", "fp8", "fp4")


class StandInTarget(LocalTarget):
    """A simulated board whose GPU kernels run on the stand-in; everything else as on it."""

    def probe(self, processor: Processor) -> Probe:
        """The stand-in for the GPU; raises DeviceError where nothing is known of the module."""

        if processor == "cpu":
            return super().probe(processor)
        libraries = dict.fromkeys(("cupy", "numba-cuda", "cublas"), f"stand-in {_VERSION}")
        gpu = stand_in_gpu(self.controller.identify())
        return Probe(versions=cuda_versions(libraries, gpu), gpu=gpu)

    def measurer(self, files: Path | None = None) -> Measurer:
        """What measures kernels of the GPU in virtual time, and the rest as it is."""

        others = super().measurer(files)

        def measure(job: Job) -> Iterator[Event]:
            if isinstance(job.plan, KernelPlan) and job.plan.gpu is not None:
                return _measure(self._root, self.controller.identify(), job, job.plan.gpu)
            return others(job)

        return measure


def _measure(root: Path, machine: MachineIdentity, job: Job, gpu: Gpu) -> Iterator[Event]:

    time, clocks, faults = VirtualClock(), VirtualClocks(root), read_faults(root)
    gpu = replace(gpu, n_sms=job.plan.mode.n_sms or gpu.n_sms)  # that the mode leaves on
    physics = _physics(machine, gpu, clocks, faults)
    software = SoftwareGpu(physics, time=time, breaks_at=faults.get("gpu_lost", 0))
    kind = kernel_kind(gpu=OpenGpu(gpu, software, time.clock()))
    meters = virtual_meters(find_meters(root, machine), clocks, time, software.load_now)
    return LocalMeasurer(meters=meters, root=root, kind=kind)(job)


def stand_in_gpu(machine: MachineIdentity) -> Gpu:
    """The GPU of the board's module, by its data sheet; raises DeviceError for an unknown one."""

    module = _module(machine)
    return Gpu(
        name="stand-in GPU",
        sm=module.sm,
        n_sms=module.n_sms,
        l1_bytes=sm_l1_bytes(module.sm),
        l2_bytes=module.l2_bytes,
        memory_bytes=machine.memory_bytes,
        memory_bus_bits=module.memory_bus_bits,
        memory_hz=module.memory_hz,
        gpu_hz=module.gpu_hz,
        is_integrated=True,
        ecc=None,
        mig=None,
        driver_cuda=None,
        runtime_cuda=None,
        unknown=dict.fromkeys(
            ("ecc", "mig", "driver_cuda", "runtime_cuda"), "the GPU is a stand-in in software"
        ),
    )


def _module(machine: MachineIdentity) -> Module:

    part = machine.board.part_number if machine.board else None
    module = MODULES.get(part or "")
    if module is None:
        raise DeviceError(
            "there is no stand-in for this board's GPU: its module is unknown",
            fix="leave --processor gpu out",
        )
    return module


def _physics(
    machine: MachineIdentity, gpu: Gpu, clocks: VirtualClocks, faults: Mapping[str, Any]
) -> Physics:
    module = _module(machine)
    rates = {
        (unit, name): float(rate)
        for unit in ("fma", "tensor")
        for name in _PRECISIONS
        if (rate := sm_flop_per_cycle(module.sm, name, unit)) is not None
    }
    # What is not published: packed halves and tf32 at the rate of fp32, doubles at a 64th of it.
    for name, share in (("fp16", 1.0), ("bf16", 1.0), ("tf32", 1.0), ("fp64", 1 / 64)):
        rates.setdefault(("fma", name), share * rates["fma", "fp32"])
    jitter = Random(0)  # noqa: S311
    refused, share = set(faults.get("gpu_refuses", ())), 0.5 if "gpu_miscounts" in faults else 1.0

    def refuses(kernel: Kernel, _case: Case) -> str:
        return "the stand-in refuses it" if refused & {kernel.name, kernel.backend} else ""

    known = memory_roof_bytes_per_s(module, memory_hz=clocks.memory_hz, gpu_hz=clocks.gpu_hz)
    return Physics(
        gpu=gpu,
        clock_hz=lambda _now_s: clocks.gpu_hz,
        flop_per_cycle=rates,
        l2_bytes_per_cycle=64.0,
        cache_latency_s={name: n / clocks.gpu_hz for name, n in _LATENCY_CYCLES.items()},
        memory_bytes_per_s=known or _OF_PEAK * memory_bytes_per_s(module, clocks.memory_hz),
        free_bytes=(gpu.memory_bytes or 0) * 3 // 4,
        factor=lambda _launch: share * (1 + abs(jitter.gauss(0, _JITTER))),
        refuses=refuses,
    )
