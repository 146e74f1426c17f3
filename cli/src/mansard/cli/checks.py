"""The checks of ``mansard doctor``: one function each, tried on the real system."""

from __future__ import annotations

import os
import platform
from typing import Literal

import msgspec

from mansard.core.records import MachineIdentity


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at. Only ``broken`` makes measuring impossible."""

    name: str
    status: Literal["ok", "missing", "broken"]
    detail: str
    fix: str | None


def run_checks() -> tuple[Check, ...]:
    """Every check on this machine, in the order a reader wants them."""
    from mansard.device.identity import identify

    machine = identify()
    return (
        _check_python(),
        _check_machine(machine),
        _check_caches(machine),
        _check_quota(),
        _check_pinning(machine),
        _check_load(machine),
        _check_kernels(),
        _check_clocks(machine),
        *_check_meters(),
        _check_accelerators(machine),
    )


def _ok(name: str, detail: str) -> Check:
    return Check(name=name, status="ok", detail=detail, fix=None)


def _check_python() -> Check:
    return _ok("Python", f"{platform.python_version()} on {platform.system()}")


def _check_machine(machine: MachineIdentity) -> Check:
    cores = f"{len(machine.cpus)} physical cores that we may use (CPUs {list(machine.cpus)})"
    return _ok("machine", f"{machine.name}, {machine.architecture}, {cores}")


def _check_caches(machine: MachineIdentity) -> Check:
    if not machine.caches:
        return Check(
            name="caches",
            status="missing",
            detail="the system does not describe its caches",
            fix="bandwidths are measured, but cannot be assigned to cache levels",
        )
    sizes = (f"L{c.level} {c.size_bytes // 1024} KiB × {c.n_instances}" for c in machine.caches)
    return _ok("caches", ", ".join(sizes))


def _check_quota() -> Check:
    from mansard.device.cgroup import cpu_quota
    from mansard.device.system import SYSTEM_ROOT

    quota = cpu_quota(SYSTEM_ROOT)
    if quota is None:
        return _ok("CPU quota", "none")
    return Check(
        name="CPU quota",
        status="missing" if quota < 1 else "ok",
        detail=f"this container may use {quota:g} CPUs' worth of time",
        fix="allow at least one whole CPU, or every sample will be interrupted"
        if quota < 1
        else None,
    )


def _check_pinning(machine: MachineIdentity) -> Check:
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {machine.cpus[0]})
    except OSError as error:
        return Check(
            name="pinned threads",
            status="broken",
            detail=f"CPU {machine.cpus[0]}: {error.strerror}",
            fix="allow sched_setaffinity, for example in the container's seccomp profile",
        )
    finally:
        os.sched_setaffinity(0, allowed)
    return _ok("pinned threads", "allowed")


def _check_load(machine: MachineIdentity) -> Check:
    load = os.getloadavg()[0]
    if load > 0.5 * len(machine.cpus):
        return Check(
            name="other load",
            status="missing",
            detail=f"load average {load:.2f} on {len(machine.cpus)} cores: not a quiet machine",
            fix="end other programs; disturbed samples are rejected, trials may come out unstable",
        )
    return _ok("other load", f"load average {load:.2f}")


def _check_kernels() -> Check:
    from mansard.core.errors import MeasurementError
    from mansard.microbench.selfcheck import check_kernels

    try:
        return _ok("kernels", check_kernels())
    except MeasurementError as error:
        return Check(name="kernels", status="broken", detail=error.what, fix=error.fix)


def _check_clocks(machine: MachineIdentity) -> Check:
    from mansard.device.state import read_state

    state = read_state(machine.cpus)
    if state.clock_hz is None:
        return Check(
            name="clocks",
            status="missing",
            detail=state.unknown["clock_hz"],
            fix="usual in a virtual machine; clocks stay unknown in the records",
        )
    return _ok("clocks", f"{state.clock_hz / 1e6:.0f} MHz now")


def _check_meters() -> tuple[Check, ...]:
    from mansard.device.meters.meter import find_meters

    meters = find_meters()
    found = (_ok(meter.name, f"rails {', '.join(meter.rails)}") for meter in meters.found)
    missing = (
        Check(name=name, status="missing", detail=reason, fix="until then energy stays unknown")
        for name, reason in meters.missing.items()
    )
    return (*found, *missing)


def _check_accelerators(machine: MachineIdentity) -> Check:
    if not machine.accelerators:
        return _ok("NVIDIA GPU", "none seen")
    return Check(
        name="NVIDIA GPU",
        status="missing",
        detail=", ".join(machine.accelerators),
        fix="this version measures the CPU only; kernels for the GPU come with a later one",
    )
