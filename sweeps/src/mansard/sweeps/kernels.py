"""Planners of kernels: alone, for roofs; two processors at once, which contend for memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mansard.core.records import MachineIdentity, PowerMode
from mansard.microbench.contention.plan import make_contention_plan
from mansard.microbench.plan import Probe, make_plan
from mansard.sweeps.modes import ModePlan, plan_modes
from mansard.sweeps.reporter import Reporter
from mansard.sweeps.sweep import SweepRequest
from mansard.sweeps.targets import BenchTarget, find_processor

if TYPE_CHECKING:
    from mansard.microbench.plan import KernelPlan


def find_probe(
    request: SweepRequest, target: BenchTarget, modes: Sequence[PowerMode], reporter: Reporter
) -> Probe:
    """What kernels run on; raises as ``find_processor``."""
    # Core counts are modes of the CPU alone.
    of_cpu = all(mode.kind == "cores" for mode in modes)
    processor = request.processor or ("cpu" if of_cpu else None)
    return find_processor(target, target.controller.identify(), processor, reporter)


def plan_kernels(
    machine: MachineIdentity, modes: Sequence[PowerMode], request: SweepRequest, probe: Probe
) -> list[ModePlan]:
    """The plan of each mode's kernels, in the order of ``modes``; raises UsageError."""
    # The stand-in for a simulated board's GPU runs in virtual time: it costs what is computed in
    # it, which is each launch, so samples are longer, and no trial is out of time.
    is_virtual = machine.is_simulated and probe.gpu is not None
    paced = {"sample_s": 0.02, "time_cap_s": 60.0} if is_virtual else {}

    def plan(mode: PowerMode) -> KernelPlan:
        planned = make_plan(machine, mode, request.profile, probe)
        return replace(planned, protocol=replace(planned.protocol, **paced))

    return [
        replace(mode_plan, is_bounded=not is_virtual, is_virtual=is_virtual)
        for mode_plan in plan_modes(plan, modes, request.runs, request.identity)
    ]


def plan_contention(
    request: SweepRequest, target: BenchTarget, modes: Sequence[PowerMode], reporter: Reporter
) -> list[ModePlan]:
    """The plan of what two processors lose beside one another in each mode.

    They are the GPU and the CPUs, or two halves of the CPUs.
    """
    machine, on_cpu = target.controller.identify(), target.probe("cpu")
    probe = find_probe(request, target, modes, reporter)
    probe = replace(probe, versions={**on_cpu.versions, **probe.versions})
    plans = plan_modes(
        lambda mode: make_contention_plan(machine, mode, request.profile, probe),
        modes,
        request.runs,
        request.identity,
    )
    return [replace(plan, subject="contention") for plan in plans]
