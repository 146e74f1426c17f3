"""Checks of clocks: on a board those that can be locked, elsewhere whether they are told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from mansard.cli.check import Check, missing, ok
from mansard.core.records import MachineIdentity

if TYPE_CHECKING:
    from mansard.device.clocks.domains import Domain
    from mansard.device.clocks.settings import Clocks

_DEBUGFS = "sys/kernel/debug"


def check_clocks(root: Path, machine: MachineIdentity) -> Iterator[Check]:
    """The clock now; on a board also what can be set, and what cannot be for want of rights."""
    yield _check_now(root, machine)
    if machine.kind == "jetson":
        from mansard.device.clocks.settings import find_clocks

        clocks = find_clocks(root)
        yield _check_domains(clocks)
        yield _check_memory(root, clocks)
        yield _check_rights(clocks)


def _check_now(root: Path, machine: MachineIdentity) -> Check:
    from mansard.device.conditions import Watch

    with Watch(root, machine.cpus) as watch:
        pass
    found = watch.conditions
    if found.cpu_clock_hz is None:
        fix = "usual in a virtual machine; clocks stay unknown in the records"
        if machine.kind == "jetson":
            fix = "in a container mount /sys; clocks stay unknown in the records"
        return missing("clocks", found.unknown["cpu_clock_hz"], fix)
    return ok("clocks", f"{found.cpu_clock_hz.after / 1e6:.0f} MHz now")


def _check_domains(clocks: Clocks) -> Check:
    single = [domain for domain in (*clocks.cpu[:1], clocks.gpu) if domain is not None]
    absent = [name for name, there in (("CPU", clocks.cpu), ("GPU", clocks.gpu)) if not there]
    if absent:
        return missing(
            "clock control",
            f"no files for the clock of {' and '.join(absent)}",
            "in a container mount /sys; on the board use NVIDIA's own kernel",
        )
    return ok("clock control", ", ".join(_describe(domain) for domain in single))


def _describe(domain: Domain) -> str:
    steps = domain.available_hz
    if not steps:
        return f"{domain.name} with unknown steps"
    return f"{domain.name} {steps[0] / 1e6:.0f} to {steps[-1] / 1e6:.0f} MHz in {len(steps)} steps"


def _check_memory(root: Path, clocks: Clocks) -> Check:
    emc = clocks.emc
    if emc is not None and emc.can_be_held:
        top_hz = emc.top_hz(root)
        top = f"up to {top_hz / 1e6:.0f} MHz" if top_hz else "its highest rate is not told"
        return ok("memory clock", f"can be locked, {top}")
    what = "can be capped, but not locked" if emc is not None else "no files for it"
    if not _is_listable(root / _DEBUGFS):
        return missing(
            "memory clock",
            f"{what}: /{_DEBUGFS} cannot be read",
            "run as root (sudo); if it is empty then, 'mount -t debugfs none /sys/kernel/debug'",
        )
    return missing(
        "memory clock",
        f"{what}: no clock of the memory below /{_DEBUGFS}",
        "use NVIDIA's own kernel; until then the memory's clock is left to the system",
    )


def _check_rights(clocks: Clocks) -> Check:
    held = [domain for domain in clocks.domains() if domain.why_not]
    if not held:
        return ok("rights", "every clock may be set")
    why, _, fix = held[0].why_not.partition("; ")
    more = f"; {len(held) - 1} other clocks cannot be set either" if len(held) > 1 else ""
    return missing(
        "rights",
        f"{why}{more}",
        f"{fix or 'run as root (sudo)'}; until then only the present mode is measured",
    )


def _is_listable(folder: Path) -> bool:
    try:
        return any(folder.iterdir())
    except OSError:
        return False
