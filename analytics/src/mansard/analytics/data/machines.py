"""What identifies the machine and the processor of a run."""

from __future__ import annotations

from mansard.core.hashing import content_hash
from mansard.core.records import MachineIdentity, Manifest, Processor


def machine_id(machine: MachineIdentity) -> str:
    """A short name for one machine: equal boards differ, an updated kernel does not.

    Two runs belong to one machine only if the system's own machine id, the
    processor, the usable CPUs and the caches are all the same; a simulated board is
    never the same as a real one.
    """
    parts = [machine.machine_hash, machine.name, machine.architecture, machine.is_simulated]
    return content_hash([*parts, machine.cpus, machine.caches])


def processor_of(manifest: Manifest) -> Processor:
    """What the kernels or networks of a run ran on: a plan is for one processor."""
    return "cpu" if manifest.gpu is None else "gpu"


_OF_MACHINES = frozenset({"programs", "generations"})  # kinds of runs


def whole_machine(manifest: Manifest) -> bool:
    """Whether a run is of a whole machine with a GPU: programs and servers may use all of it."""
    return manifest.kind in _OF_MACHINES and manifest.machine.kind != "cpu"


def device_id(manifest: Manifest) -> str:
    """A short name for one processor of one machine; a GPU is not the CPU beside it.

    The device of a program or a server is the whole machine, unless it has nothing but a CPU. SMs
    that a mode switches off belong to the GPU all the same.
    """
    gpu = manifest.gpu
    if whole_machine(manifest):
        return content_hash([machine_id(manifest.machine), "whole"])
    gpu_fields = None if gpu is None else [gpu.name, gpu.sm, gpu.l2_bytes, gpu.mig]
    return content_hash([machine_id(manifest.machine), gpu_fields])
