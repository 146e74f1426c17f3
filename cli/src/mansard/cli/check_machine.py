"""Checks of the machine itself: Python, cores, caches, a container's share, its cards."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from pathlib import Path

from mansard.cli.check import Check, missing, ok
from mansard.core.records import MachineIdentity


def check_machine(root: Path, machine: MachineIdentity) -> Iterator[Check]:
    """What Python and the kernel say of the machine."""
    yield ok("Python", f"{platform.python_version()} on {platform.system()}")
    cores = f"{len(machine.cpus)} physical cores that we may use (CPUs {list(machine.cpus)})"
    what = "simulated, " if machine.is_simulated else ""
    yield ok("machine", f"{machine.name}, {what}{machine.architecture}, {cores}")
    yield _check_caches(machine)
    yield _check_quota(root)


def _check_caches(machine: MachineIdentity) -> Check:
    if not machine.caches:
        return missing(
            "caches",
            "the system does not describe its caches",
            "bandwidths are measured, but cannot be assigned to cache levels",
        )
    sizes = (f"L{c.level} {c.size_bytes // 1024} KiB × {c.n_instances}" for c in machine.caches)
    return ok("caches", ", ".join(sizes))


def _check_quota(root: Path) -> Check:
    from mansard.device.cgroup import cpu_quota

    quota = cpu_quota(root)
    if quota is None:
        return ok("CPU quota", "none")
    share = f"this container may use {quota:g} CPUs' worth of time"
    if quota < 1:
        return missing(
            "CPU quota", share, "allow at least one whole CPU, or every sample will be interrupted"
        )
    return ok("CPU quota", share)


def check_accelerators(machine: MachineIdentity) -> Iterator[Check]:
    """Cards, driver and toolkit: seen, though this version measures none of them."""
    versions = [
        f"{name} {version}"
        for name, version in (("driver", machine.driver), ("CUDA", machine.cuda))
        if version is not None
    ]
    if not machine.accelerators:
        yield ok("NVIDIA GPU", ", ".join(["no card seen", *versions]))
        return
    yield missing(
        "NVIDIA GPU",
        ", ".join([*machine.accelerators, *versions]),
        "this version measures the CPU only; kernels for the GPU come with a later one",
    )
