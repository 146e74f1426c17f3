"""Checks of any machine, and ``doctor``, which makes all of them."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from pathlib import Path

from mansard.api.checks import Check, broken, missing, ok, warning
from mansard.api.checks.board import check_clocks, check_modes, check_present, check_release
from mansard.api.checks.containers import check_containers, check_counters, check_engines
from mansard.core.errors import DeviceError, MeasurementError
from mansard.core.records import Gpu, MachineIdentity, PowerSample
from mansard.device.cards import cuda_devices, cuda_extra, pci_cards, setting_right
from mansard.device.holding.board_lock import board_lock
from mansard.device.holding.journal import find_journal, journal_folders
from mansard.device.identity import identify
from mansard.device.meters.finding import find_meters
from mansard.device.meters.meter import Meter, Meters
from mansard.device.system import board_root, find_tool
from mansard.device.topology import cpu_quota
from mansard.device.totals import total_power
from mansard.microbench.cpu.launching import check_kernels
from mansard.microbench.cuda.probe import GpuProbe, probe_gpu
from mansard.microbench.cuda.trial_specs import choose_trials


def doctor(board: Path | None = None) -> tuple[Check, ...]:
    """What can be measured on a machine, what is missing, and what to do about it.

    Measuring is impossible if a check is ``broken``. Files that hold junk end no check. Raises
    UsageError where ``board`` is no folder.
    """
    root = board_root(board)
    machine = identify(root)
    on_board = machine.kind == "jetson"
    return (
        *check_machine(root, machine),
        *(check_release(machine) if on_board else ()),
        *check_work(machine),
        *check_engines(machine),
        *(check_modes(root) if on_board else ()),
        *check_clocks(root, machine),
        *check_meters(root, machine),
        *(check_present(root, machine) if on_board else ()),
        *check_state(root),
        *check_accelerators(root, machine),
        *check_counters(root, machine),
        *check_containers(root, machine),
    )


_ENOUGH_BYTES = 1 << 30  # a whole sweep with raw samples needs some 100 MB
_UNTIL_THEN = "until then energy stays unknown"


def check_machine(root: Path, machine: MachineIdentity) -> Iterator[Check]:
    """What Python and the kernel say of the machine."""
    yield ok("Python", f"{platform.python_version()} on {platform.system()}")
    cores = f"{len(machine.cpus)} usable physical cores (CPUs {list(machine.cpus)})"
    what = "simulated, " if machine.is_simulated else ""
    yield ok("machine", f"{machine.name}, {what}{machine.architecture}, {cores}")
    if machine.caches:
        sizes = (f"L{c.level} {c.size_bytes // 1024} KiB × {c.n_instances}" for c in machine.caches)
        yield ok("caches", ", ".join(sizes))
    else:
        yield missing(
            "caches",
            "the system does not report its caches",
            "bandwidths are measured, but cannot be assigned to cache levels",
        )
    quota = cpu_quota(root)
    share = "none" if quota is None else f"this container may use {quota:g} CPUs"
    if quota is not None and quota < 1:
        fix = "allow at least one whole CPU: otherwise every sample is interrupted"
        yield missing("CPU quota", share, fix)
    else:
        yield ok("CPU quota", share)


def check_accelerators(root: Path, machine: MachineIdentity) -> Iterator[Check]:
    """Cards, driver and toolkit; whether kernels run on the card from here, and it can be set."""
    versions = [
        f"{name} {version}"
        for name, version in (("driver", machine.driver), ("CUDA", machine.cuda))
        if version is not None
    ]
    if not machine.accelerators:
        yield _card_without_driver(root, versions)
        return
    seen = ", ".join([*machine.accelerators, *versions])
    probe = probe_gpu()
    if probe.gpu is None:
        yield _unmeasured_card(seen, probe, machine)
    else:
        left_out = choose_trials(probe.gpu, "quick", probe.versions).left_out
        yield ok("NVIDIA GPU", "; ".join([seen, _in_words(probe.gpu), *probe.notes, *left_out]))
    right = setting_right()
    if right:
        yield missing("card modes", "this user may list the card's limits, but not set them", right)
    else:
        yield ok("card modes", "this user may set the card's power limit and clocks")


def _card_without_driver(root: Path, versions: list[str]) -> Check:
    cards = pci_cards(root)
    if not cards:
        return ok("NVIDIA GPU", ", ".join(["no card seen", *versions]))
    return missing(
        "NVIDIA GPU",
        f"{', '.join([*cards, *versions])}; no driver of NVIDIA answers here",
        "load the driver ('nvidia-smi' must answer), or start the container with access to the GPU",
    )


_ACCESS = "start the container with access to the GPU, or look at CUDA_VISIBLE_DEVICES"


def _unmeasured_card(seen: str, probe: GpuProbe, machine: MachineIdentity) -> Check:
    """What keeps kernels from running on the card: libraries, or a driver that does not answer."""
    reason, _, fix = probe.reason.partition("; ")
    if "cupy" not in probe.versions:
        fix = f"install 'mansard[{cuda_extra(machine.driver)}]', or measure in a container"
    if not cuda_devices():
        reason = f"CUDA's driver gives this process no access; {reason}"
        fix = f"{_ACCESS}; then {fix or 'look again'}"
    return missing(
        "NVIDIA GPU",
        f"{seen}; kernels cannot run on it from here: {reason}",
        fix or "look at what 'nvidia-smi' says",
    )


def _in_words(gpu: Gpu) -> str:
    """What counts for measuring on a GPU, in words."""
    parts = [f"compute capability {gpu.sm // 10}.{gpu.sm % 10}", f"{gpu.n_sms} SMs"]
    if gpu.ecc is not None:
        parts.append(f"ECC {'on' if gpu.ecc else 'off'}")
    if gpu.mig is not None:
        parts.append(f"MIG slice {gpu.mig}")
    return ", ".join(parts)


def check_work(machine: MachineIdentity) -> Iterator[Check]:
    """Tried on the real system: pin a thread, look at the load, run every kernel once."""
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {machine.cpus[0]})
    except OSError as error:
        yield broken(
            "pinned threads",
            f"CPU {machine.cpus[0]}: {error.strerror}",
            "allow sched_setaffinity, for example in the container's seccomp profile",
        )
    else:
        os.sched_setaffinity(0, allowed)
        yield ok("pinned threads", "allowed")
    load = os.getloadavg()[0]
    if load > 0.5 * len(machine.cpus):
        yield warning(
            "load",
            f"the machine is busy: load average {load:.2f} on {len(machine.cpus)} cores",
            "stop other programs; disturbed samples are rejected, trials may be unstable",
        )
    else:
        yield ok("load", f"load average {load:.2f}")
    try:
        yield ok("kernels", check_kernels())
    except MeasurementError as error:
        yield broken("kernels", error.what, error.fix or "report this with 'mansard doctor'")


def check_meters(root: Path, machine: MachineIdentity) -> Iterator[Check]:
    """Every meter read once; on a board also how its total is formed, and its tegrastats."""
    meters = find_meters(root, machine)
    samples: list[PowerSample] = []
    for meter in meters.found:
        yield _check_meter(meter, samples)
    for name, reason in meters.missing.items():
        if name != "NVML" or machine.accelerators or pci_cards(root):  # else there is no card
            yield _missing_meter(name, reason)
    if machine.kind != "jetson":
        return
    if meters.found:
        yield _check_total(meters, samples)
    if find_tool(root, "tegrastats") is None:
        yield missing(
            "tegrastats",
            "not found; 'mansard board telemetry --live' needs it",
            "install the board's package nvidia-l4t-tools, or run outside the container",
        )
    else:
        yield ok("tegrastats", "there")


def _missing_meter(name: str, reason: str) -> Check:
    # Reasons end in what to do, but for those that end in a list of cards.
    what, _, advice = reason.rpartition("; ")
    if not what or reason.endswith(")"):
        return missing(name, reason, _UNTIL_THEN)
    return missing(name, what, f"{advice}; {_UNTIL_THEN}")


def _check_meter(meter: Meter, samples: list[PowerSample]) -> Check:
    try:
        reading = meter.read()
    except DeviceError as error:
        return warning(meter.name, f"does not answer: {error.what}", error.fix or _UNTIL_THEN)
    samples.extend(reading)
    rails = ", ".join(f"{rail} {_step(meter, rail)}" for rail in meter.rails)
    for sample in reading:
        if sample.power_w is None and sample.energy_j is None:
            return warning(
                meter.name,
                f"{sample.rail} does not answer: {sample.unknown.get('power_w', 'no reason')}",
                f"read the file by hand with 'cat'; {_UNTIL_THEN}",
            )
    return ok(meter.name, f"rails {rails}")


def _step(meter: Meter, rail: str) -> str:
    step_w = meter.step_w(rail)
    if step_w is None:
        return f"(step unknown: {meter.step_note(rail)})"
    return f"(steps of {step_w * 1e3:.3g} mW: {meter.step_note(rail)})"


def _check_total(meters: Meters, samples: list[PowerSample]) -> Check:
    total = meters.total
    if total is None:
        return missing(
            "total power",
            meters.why_no_total,
            "rails are recorded separately; the energy of the board stays unknown",
        )
    powers_w = {sample.rail: sample.power_w for sample in samples}
    steps_w = meters.facts(meters.period_s).steps_w
    now = total_power(powers_w, total, steps_w)
    if now.power_w is None and all(powers_w.get(rail) is not None for rail in total.rails):
        return warning(
            "total power",
            now.reason,
            "compare with a meter at the input; the total of this board is refused",
        )
    if now.power_w is not None and now.power_w <= 0:
        return warning(
            "total power",
            f"{' + '.join(total.rails)} reads {now.power_w:.3f} W, which no machine draws",
            "start the board (a simulated one: 'mansard demo simulated'), or look at the sensors "
            "with 'cat'",
        )
    return ok("total power", f"{total.rule}; {total.boundary}")


def check_state(root: Path) -> Iterator[Check]:
    """The journal, the lock, the folder of the journal, and the disk of the runs."""
    try:
        with board_lock(root):
            path = find_journal(root)
    except DeviceError as error:
        yield warning("sweeps", error.what, error.fix or "wait until it has ended")
    else:
        if path is None:
            yield ok("sweeps", "none running, none interrupted")
        else:
            detail = f"one was interrupted and its settings are still active: {path}"
            yield warning("sweeps", detail, "run 'mansard board restore'")
    folders = journal_folders(root)
    writable = next((folder for folder in folders if _can_be_made(folder)), None)
    if writable is None:
        yield missing(
            "journal",
            f"neither {' nor '.join(map(str, folders))} can be written: nothing can be set",
            "run as root (sudo), or set XDG_STATE_HOME to a folder that you may write",
        )
    else:
        yield ok("journal", f"kept in {writable}")
    here = Path.cwd()
    free_bytes = shutil.disk_usage(here).free
    if free_bytes < _ENOUGH_BYTES:
        yield warning(
            "disk",
            f"{free_bytes / 1e6:.0f} MB free in {here}",
            "free some space: raw samples are kept",
        )
    else:
        yield ok("disk", f"{free_bytes / 1e9:.1f} GB free in {here}")


def _can_be_made(folder: Path) -> bool:
    for path in (folder, *folder.parents):
        if os.path.lexists(path):
            return path.is_dir() and os.access(path, os.W_OK | os.X_OK)
    return False
