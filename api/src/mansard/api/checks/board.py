"""What ``doctor`` checks of a Jetson: its release, power modes, clocks, and the moment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from mansard.api.checks import Check, failed, missing, ok, warning
from mansard.core.errors import MansardError
from mansard.core.records import MachineIdentity
from mansard.core.storage.files import check_descriptors
from mansard.device.clocks.domains import Domain
from mansard.device.clocks.settings import Clocks, find_clocks
from mansard.device.conditions import Watch
from mansard.device.conditions.sources import find_overcurrent, find_thermometers, find_throttling
from mansard.device.conditions.surroundings import GpuProcesses
from mansard.device.nvpmodel.modes import read_modes
from mansard.device.nvpmodel.tool import query
from mansard.device.system import find_tool

_PACKAGE = "install the board's package nvidia-l4t-nvpmodel, or run outside the container"
_QUERY_TIMEOUT_S = 10.0
_DEBUGFS = "sys/kernel/debug"
# NVIDIA's boards slow down near 97 to 105 °C by their design guides; a run adds some 10 to 15.
_HOT_C = 85.0


def check_release(machine: MachineIdentity) -> Iterator[Check]:
    """Whether the module and its release are known; without them numbers are missing."""
    board = machine.board
    if board is None:
        return
    if board.module is None:
        yield missing(
            "module",
            board.unknown["module"],
            "rails, peaks and gating are unknown for it; report its part number "
            "('cat /proc/device-tree/chosen/ids')",
        )
    else:
        yield ok("module", f"{board.module}, {board.part_number}, {board.soc}")
    if board.l4t is None:
        yield missing(
            "L4T",
            board.unknown["l4t"],
            "in a container, mount /etc/nv_tegra_release; on the board install nvidia-l4t-core",
        )
    elif board.jetpack is None:
        yield missing(
            "L4T", board.unknown["jetpack"], "results are marked with L4T alone; update Mansard"
        )
    else:
        yield ok("L4T", f"{board.l4t}, JetPack {board.jetpack}")


def check_modes(root: Path) -> Iterator[Check]:
    """Configuration, tool and present mode; a fault is reported once."""
    configuration = _check_configuration(root)
    yield configuration
    if find_tool(root, "nvpmodel") is None:
        yield missing("nvpmodel", "the board's tool is not here, so no mode can be set", _PACKAGE)
    elif configuration.status == "ok":  # else the tool would only repeat its complaint
        yield _check_present_mode(root)


def _check_configuration(root: Path) -> Check:
    try:
        modes = read_modes(root)
    except MansardError as error:
        return failed("power modes", error, _PACKAGE)
    names = ", ".join(one.mode.name for one in modes.modes) or "none"
    if modes.fit.notes or modes.fit.refused:
        whys = (*modes.fit.notes[:1], *(modes.why_refused(one.name) for one in modes.fit.refused))
        return warning(
            "power modes",
            f"{modes.where}: {'; '.join(whys)}; modes that can be set: {names}",
            "install the nvpmodel.conf of this module (package nvidia-l4t-nvpmodel, or the "
            "image's own), then reboot",
        )
    if modes.config.refused:
        why = modes.why_refused(modes.config.refused[0].name)
        return warning(
            "power modes",
            f"{modes.where}: {why}; modes read: {names}",
            "repair the file, or reinstall the package nvidia-l4t-nvpmodel",
        )
    if modes.config.ignored:
        junk = modes.config.ignored
        return warning(
            "power modes",
            f"{modes.where}: {len(junk)} lines are invalid, first {junk[0]!r}; modes read: {names}",
            "repair the file, or reinstall the package nvidia-l4t-nvpmodel",
        )
    return ok("power modes", f"{names}; default {modes.default or 'not named'}")


def _check_present_mode(root: Path) -> Check:
    try:
        now = query(root, timeout_s=_QUERY_TIMEOUT_S)
    except MansardError as error:
        return failed("nvpmodel", error, "run 'sudo nvpmodel -q' by hand")
    if now.complaints:
        return warning(
            "nvpmodel",
            f"in mode {now.name}, but it reports: {now.complaints[0]}",
            "run 'sudo nvpmodel -q --verbose' by hand; a reboot sets a mode whole again",
        )
    return ok("nvpmodel", f"in mode {now.name}")


def check_clocks(root: Path, machine: MachineIdentity) -> Iterator[Check]:
    """The clock now; on a board also what can be set, and what cannot be for want of rights."""
    yield _check_now(root, machine)
    if machine.kind == "jetson":
        clocks = find_clocks(root)
        yield _check_domains(clocks)
        yield _check_memory(root, clocks)
        yield _check_rights(clocks)


def _check_now(root: Path, machine: MachineIdentity) -> Check:
    with Watch(root, machine.cpus) as watch:
        pass
    conditions = watch.conditions
    if conditions.cpu_clock_hz is None:
        fix = "usual in a virtual machine; clocks stay unknown in the records"
        if machine.kind == "jetson":
            fix = "in a container mount /sys; clocks stay unknown in the records"
        return missing("clocks", conditions.unknown["cpu_clock_hz"], fix)
    return ok("clocks", f"{conditions.cpu_clock_hz.after / 1e6:.0f} MHz now")


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
        top = f"up to {top_hz / 1e6:.0f} MHz" if top_hz else "its highest rate is unknown"
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
    except OSError as error:
        check_descriptors(error, folder)
        return False


def check_present(root: Path, machine: MachineIdentity) -> Iterator[Check]:
    """On a board: what would disturb a measurement that were started now."""
    if machine.kind != "jetson":
        return
    yield _check_temperature(root)
    yield _check_throttling(root, machine)
    yield _check_overcurrent(root)
    yield _check_gpu_processes(root)


def _check_temperature(root: Path) -> Check:
    thermometers = find_thermometers(root)
    hottest_c = thermometers.read_c()
    if hottest_c is None:
        why = thermometers.why_not or "no sensor of CPU or GPU answers"
        return missing("temperature", why, "temperatures stay unknown; in a container mount /sys")
    if hottest_c >= _HOT_C:
        return warning(
            "temperature",
            f"{hottest_c:.1f} °C before any work",
            "let the board cool down, and turn its fan up",
        )
    return ok("temperature", f"{hottest_c:.1f} °C")


def _check_throttling(root: Path, machine: MachineIdentity) -> Check:
    events = find_throttling(root, machine.cpus)
    if not events.are_known:
        return missing("throttling", events.why_not, "it stays unknown; in a container mount /sys")
    active = [
        path.parent.name
        for path, state in zip(events.alarms, events.read_alarms(), strict=True)
        if state
    ]
    if active:
        return warning(
            "throttling",
            f"{', '.join(active)} slows the board down now",
            "let it cool down, turn its fan up, or choose a lower power mode",
        )
    return ok("throttling", "none now")


def _check_overcurrent(root: Path) -> Check:
    events = find_overcurrent(root)
    if not events.are_known:
        return missing("over-current", events.why_not, "events stay unknown; usual before r35")
    alarms = sum(1 for state in events.read_alarms() if state)
    n_events = sum(count for count in events.read_counts() if count)
    if alarms or n_events:
        return warning(
            "over-current",
            f"{n_events} events since the board was started, {alarms} alarms on now",
            "use a stronger power supply, or a lower power mode",
        )
    return ok("over-current", "no event since the board was started")


def _check_gpu_processes(root: Path) -> Check:
    processes = GpuProcesses(root).find()
    if processes.names is None:
        is_root = os.geteuid() == 0
        return missing(
            "GPU processes",
            f"they cannot be seen: {processes.why_not}",
            "look for other work at GR3D_FREQ in tegrastats" if is_root else "run as root (sudo)",
        )
    if processes.names:
        return warning(
            "GPU processes",
            f"others use the GPU: {', '.join(processes.names)}",
            "end them; the desktop too: 'sudo systemctl isolate multi-user.target'",
        )
    return ok("GPU processes", "no others")
