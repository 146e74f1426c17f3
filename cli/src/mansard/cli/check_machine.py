"""Checks of the machine itself: Python, cores, caches, a container's share, its cards."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from pathlib import Path

from mansard.cli.check import Check, missing, ok
from mansard.core.records import Gpu, MachineIdentity


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
    from mansard.device.topology import cpu_quota

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
    """Cards, driver and toolkit, and whether kernels can run on the card from here."""
    versions = [
        f"{name} {version}"
        for name, version in (("driver", machine.driver), ("CUDA", machine.cuda))
        if version is not None
    ]
    if not machine.accelerators:
        yield ok("NVIDIA GPU", ", ".join(["no card seen", *versions]))
        return
    seen = ", ".join([*machine.accelerators, *versions])
    from mansard.microbench.cuda.probe import probe_gpu
    from mansard.microbench.cuda.trials import choose_trials

    found = probe_gpu()
    if found.gpu is None:
        yield missing(
            "NVIDIA GPU",
            f"{seen}; kernels cannot run on it from here: {found.reason}",
            "install 'mansard[cuda12]' (driver 525 or newer) or 'mansard[cuda13]' (580), "
            "or measure in a container",
        )
        return
    left_out = choose_trials(found.gpu, "quick", found.versions).left_out
    notes = [seen, _told(found.gpu), *found.notes, *left_out]
    yield ok("NVIDIA GPU", "; ".join(notes))


def _told(gpu: Gpu) -> str:
    """What counts for measuring on a GPU, in words."""
    parts = [f"compute capability {gpu.sm // 10}.{gpu.sm % 10}", f"{gpu.n_sms} SMs"]
    if gpu.ecc is not None:
        parts.append(f"ECC {'on' if gpu.ecc else 'off'}")
    if gpu.mig is not None:
        parts.append(f"MIG slice {gpu.mig}")
    return ", ".join(parts)
