"""Checks of what measuring itself needs: pinned threads, a quiet machine, right kernels."""

from __future__ import annotations

import os
from collections.abc import Iterator

from mansard.cli.check import Check, broken, missing, ok
from mansard.core.records import MachineIdentity


def check_work(machine: MachineIdentity) -> Iterator[Check]:
    """Tried on the real system: pin a thread, look at the load, run every kernel once."""
    yield _check_pinning(machine)
    yield _check_load(machine)
    yield _check_kernels()


def _check_pinning(machine: MachineIdentity) -> Check:
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {machine.cpus[0]})
    except OSError as error:
        return broken(
            "pinned threads",
            f"CPU {machine.cpus[0]}: {error.strerror}",
            "allow sched_setaffinity, for example in the container's seccomp profile",
        )
    finally:
        os.sched_setaffinity(0, allowed)
    return ok("pinned threads", "allowed")


def _check_load(machine: MachineIdentity) -> Check:
    load = os.getloadavg()[0]
    if load > 0.5 * len(machine.cpus):
        return missing(
            "other load",
            f"load average {load:.2f} on {len(machine.cpus)} cores: not a quiet machine",
            "end other programs; disturbed samples are rejected, trials may come out unstable",
        )
    return ok("other load", f"load average {load:.2f}")


def _check_kernels() -> Check:
    from mansard.core.errors import MeasurementError
    from mansard.microbench.cpu.selfcheck import check_kernels

    try:
        return ok("kernels", check_kernels())
    except MeasurementError as error:
        return broken("kernels", error.what, error.fix or "report this with 'mansard doctor'")
