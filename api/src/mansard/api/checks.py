"""What ``doctor`` checks of any machine, of its engines, and of those of containers.

Python, cores, meters, kernels, room on the disk, engines that run networks, counters. A check is
one thing that was looked at. ``board_checks`` holds those of a Jetson.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from mansard.containers.engine import ContainerEngine, GpuKind, choose_access, connect, gpu_kind
from mansard.containers.images.building import ready_image
from mansard.containers.images.fitting import choose_image
from mansard.containers.images.table import user_table
from mansard.containers.settings import device_groups, find_devices
from mansard.core.errors import ContainerError, DeviceError, MansardError, MeasurementError
from mansard.core.records import Gpu, MachineIdentity, PowerSample
from mansard.core.storage.files import check_descriptors
from mansard.core.text import masked
from mansard.device.cards import cuda_devices, cuda_extra, pci_cards, setting_right
from mansard.device.holding.board_lock import board_lock
from mansard.device.holding.journal import find_journal, journal_folders
from mansard.device.meters.finding import find_meters
from mansard.device.meters.meter import Meter, Meters
from mansard.device.system import find_tool
from mansard.device.topology import cpu_quota
from mansard.device.totals import total_power
from mansard.microbench.cpu.launching import check_kernels
from mansard.microbench.cuda.probe import GpuProbe, probe_gpu
from mansard.microbench.cuda.trial_specs import choose_trials

if TYPE_CHECKING:
    from mansard.inference.engines.engine import EngineProbe

_REMEDIES = {
    "ort": "install onnxruntime; until then networks are predicted, but not run",
    "tensorrt": "install TensorRT from NVIDIA's package index",
    "trtexec": "install TensorRT's programs, or set PATH to where trtexec lies",
}
_ON_JETSON = {
    "tensorrt": "measure in a container, whose image has it, or use JetPack's Python; with "
    "JetPack 5 use --engine trtexec",
    "trtexec": "measure in a container, whose image has it, or install JetPack's package tensorrt",
}
_NOT_ON_CARD = (
    "install onnxruntime-gpu with CUDA and cuDNN; until then networks run on the card by TensorRT "
    "alone"
)
_NO_GPU = "load the GPU's driver: 'nvidia-smi' (a board: 'tegrastats') must answer"


def check_engines(machine: MachineIdentity) -> Iterator[Check]:
    """Every engine; those that need a GPU only where there is one, or where they are installed."""
    from mansard.inference.engines import ENGINES, find_engine

    has_gpu = bool(machine.accelerators) and not machine.is_simulated
    for engine in map(find_engine, ENGINES):
        probe = engine.probe()
        if probe.version is None and engine.name != "ort" and not has_gpu:
            continue
        remedies = _REMEDIES | (_ON_JETSON if machine.kind == "jetson" else {})
        yield _check(engine.name, probe, remedies[engine.name], has_gpu=has_gpu)


def _check(name: str, probe: EngineProbe, remedy: str, *, has_gpu: bool) -> Check:
    if probe.providers is None:
        reason = probe.unknown["providers"]
        if probe.version is None:
            return missing(name, reason, remedy)
        return missing(name, f"{probe.version}, but {reason}", _NO_GPU)
    absent = "".join(f"; no {each}: {reason}" for each, reason in probe.absent.items())
    cores = _dla_cores() if name == "tensorrt" else ""
    told = f"{probe.version}, runs on {', '.join(probe.providers)}{cores}{absent}"
    if has_gpu and probe.providers == ("cpu",):
        return missing(name, told, _NOT_ON_CARD)
    return ok(name, told)


def _dla_cores() -> str:
    from mansard.inference.engines.tensorrt.building import count_dla_cores

    try:
        n_cores = count_dla_cores()
    except MansardError as error:
        return f"; DLA cores unknown: {error.what}"
    return f", {n_cores or 'no'} DLA core{'' if n_cores == 1 else 's'}"


# A module parameter of the driver for cards: https://developer.nvidia.com/ERR_NVGPUCTRPERM
_RESTRICTED = "RmProfilingAdminOnly: 1"


def check_counters(root: Path, machine: MachineIdentity) -> Iterator[Check]:
    """Nsight Compute, and whether this user may read counters; only where there is a GPU, or it."""
    from mansard.inference.counters.ncu import find_ncu

    has_gpu = bool(machine.accelerators) and not machine.is_simulated
    try:
        ncu = find_ncu()
    except MansardError as error:
        if has_gpu:
            yield missing("ncu", error.what, error.fix or "install it")
        return
    told = f"Nsight Compute {ncu.version}"
    try:
        parameters = (root / "proc/driver/nvidia/params").read_text(errors="replace")
    except OSError as error:  # a Jetson's driver has none: there it is root
        check_descriptors(error, root / "proc/driver/nvidia/params")
        parameters = _RESTRICTED if machine.kind == "jetson" else ""
    if _RESTRICTED in parameters and os.geteuid() != 0:
        fix = "run 'sudo -E \"$(which mansard)\" ncu run'; this user can only import counters"
        yield warning("ncu", f"{told}; this user may not read counters", fix)
    else:
        yield ok("ncu", told)


_LOCAL = "or measure without a container: LOCAL=1"
_WAYS = {"runtime": "by the runtime nvidia", "requests": "by Docker's request", "cdi": "by CDI"}
# An image with CUDA's libraries takes 6 to 12 GB unpacked, and as much again while it is built.
_ROOM_BYTES = {"none": 3e9, "jetson": 20e9, "card": 20e9}


def check_containers(root: Path, machine: MachineIdentity) -> Iterator[Check]:
    """What there is to run containers with, from the engine to the image that fits.

    A machine without an NVIDIA GPU is measured without a container: there a missing engine
    is no fault.
    """
    gpu = gpu_kind(machine)
    try:
        with connect() as engine:
            yield _check_engine(engine, gpu)
            if gpu != "none":
                yield _check_access(engine, gpu)
                yield _check_devices(root, gpu)
            yield _check_image(engine, machine)
            if gpu == "jetson":
                yield _check_image(engine, machine, "TensorRT image", ("tensorrt", "trtexec"))
            yield _check_disk(engine, gpu)
    except MansardError as error:
        if machine.kind == "jetson" or machine.accelerators:
            detail = f"{error.where}: {error.what}" if error.where else error.what
            yield missing("containers", detail, error.fix or _LOCAL)
        else:
            yield ok("containers", f"none needed here ({error.what.partition(':')[0]})")


def _check_engine(engine: ContainerEngine, gpu: GpuKind) -> Check:
    facts = engine.facts
    parts = [f"{facts.name} {facts.version} at {masked(engine.address)}"]
    parts += [f"storage {facts.storage}"] if facts.storage else []
    parts += ["rootless"] if facts.is_rootless else []
    detail = ", ".join(parts)
    if facts.is_podman and gpu != "none":
        return warning(
            "containers",
            f"{detail}: its Docker API leaves GPUs out without a word (seen up to 4.9)",
            f"use Docker, {_LOCAL}",
        )
    return ok("containers", detail)


def _check_access(engine: ContainerEngine, gpu: GpuKind) -> Check:
    facts = engine.facts
    runtime = "there" if facts.has_nvidia_runtime else "not there"
    cdi = f"looks into {', '.join(facts.cdi_folders)}" if facts.cdi_folders else "off"
    seen = f"runtime nvidia {runtime}, CDI {cdi}"
    try:
        access = choose_access(facts, gpu)
    except ContainerError as error:
        return missing("GPU in containers", error.what, f"{error.fix}; {_LOCAL}")
    return ok("GPU in containers", f"{_WAYS[access.kind]}: {access.why} ({seen})")


def _check_devices(root: Path, gpu: GpuKind) -> Check:
    devices = find_devices(root)
    if not devices:
        tool = "tegrastats" if gpu == "jetson" else "nvidia-smi"
        return missing(
            "GPU devices",
            "none of the GPU's devices is in /dev: its driver is not loaded",
            f"look what '{tool}' says, and run this on the machine itself",
        )
    groups = device_groups(root)
    access = f"of groups {', '.join(map(str, groups))}, handed on" if groups else "open to all"
    return ok("GPU devices", f"{len(devices)} in /dev, {access}")


def _check_image(
    engine: ContainerEngine,
    machine: MachineIdentity,
    name: str = "container image",
    engines: tuple[str, ...] = (),
) -> Check:
    """The image that fits; with ``engines`` the one for networks on the first that there is."""
    try:
        fit = choose_image(machine, user_table(), engines=engines)
        ready = ready_image(engine, fit.image)
    except MansardError as error:
        return failed(name, error, "name one in images.toml: docs/use/containers.md")
    if ready is None:
        first = "'mansard measure MODEL'" if engines else "'mansard bench'"
        return missing(
            name,
            f"{fit.image.name} fits ({fit.why}), but is not built yet",
            f"'mansard image build {fit.image.name}' does it, and so does the first {first}",
        )
    return ok(name, f"{ready.tag}: {fit.why}")


def _check_disk(engine: ContainerEngine, gpu: GpuKind) -> Check:
    free_bytes = engine.facts.free_bytes()
    if free_bytes is None:
        return missing(
            "image disk",
            f"{engine.facts.data_root or 'the engine'} cannot be seen from here",
            f"an image takes {_ROOM_BYTES[gpu] / 1e9:.0f} GB while it is built: look there",
        )
    free = f"{free_bytes / 1e9:.1f} GB free in {engine.facts.data_root}"
    if free_bytes < _ROOM_BYTES[gpu]:
        return warning(
            "image disk",
            f"{free}; an image takes {_ROOM_BYTES[gpu] / 1e9:.0f} GB while it is built",
            "'docker system prune' removes what is not in use; or move data-root to a larger disk",
        )
    return ok("image disk", free)


_ENOUGH_BYTES = 1 << 30  # a whole sweep with raw samples needs some 100 MB
_UNTIL_THEN = "until then energy stays unknown"


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at; everything but ``ok`` has a remedy.

    ``missing``: something is not there, and what depends on it stays unknown or unset.
    ``warning``: it is there, but something is wrong with it. Only ``broken`` makes measuring
    impossible.
    """

    name: str
    status: Literal["ok", "missing", "warning", "broken"]
    detail: str
    fix: str | None


def ok(name: str, detail: str) -> Check:
    """A check that found all well."""
    return Check(name=name, status="ok", detail=detail, fix=None)


def missing(name: str, detail: str, fix: str) -> Check:
    """A check that did not find what it looked for."""
    return Check(name=name, status="missing", detail=detail, fix=fix)


def warning(name: str, detail: str, fix: str) -> Check:
    """A check that found something wrong, or that could not be made."""
    return Check(name=name, status="warning", detail=detail, fix=fix)


def broken(name: str, detail: str, fix: str) -> Check:
    """A check that found why nothing can be measured."""
    return Check(name=name, status="broken", detail=detail, fix=fix)


def failed(name: str, error: MansardError, fix: str) -> Check:
    """A check that ended in an error; ``fix`` where the error brings no remedy of its own."""
    detail = f"{error.where}: {error.what}" if error.where else error.what
    return warning(name, detail, error.fix or fix)


def check_machine(root: Path, machine: MachineIdentity) -> Iterator[Check]:
    """What Python and the kernel say of the machine."""
    yield ok("Python", f"{platform.python_version()} on {platform.system()}")
    cores = f"{len(machine.cpus)} physical cores that we may use (CPUs {list(machine.cpus)})"
    what = "simulated, " if machine.is_simulated else ""
    yield ok("machine", f"{machine.name}, {what}{machine.architecture}, {cores}")
    if machine.caches:
        sizes = (f"L{c.level} {c.size_bytes // 1024} KiB × {c.n_instances}" for c in machine.caches)
        yield ok("caches", ", ".join(sizes))
    else:
        yield missing(
            "caches",
            "the system does not describe its caches",
            "bandwidths are measured, but cannot be assigned to cache levels",
        )
    quota = cpu_quota(root)
    share = "none" if quota is None else f"this container may use {quota:g} CPUs' worth of time"
    if quota is not None and quota < 1:
        fix = "allow at least one whole CPU, or every sample will be interrupted"
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
    found = probe_gpu()
    if found.gpu is None:
        yield _unmeasured_card(seen, found, machine)
    else:
        left_out = choose_trials(found.gpu, "quick", found.versions).left_out
        yield ok("NVIDIA GPU", "; ".join([seen, _told(found.gpu), *found.notes, *left_out]))
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


def _unmeasured_card(seen: str, found: GpuProbe, machine: MachineIdentity) -> Check:
    """What keeps kernels from running on the card: libraries, or a driver that does not answer."""
    reason, _, fix = found.reason.partition("; ")
    if "cupy" not in found.versions:
        fix = f"install 'mansard[{cuda_extra(machine.driver)}]', or measure in a container"
    if not cuda_devices():
        reason = f"CUDA's driver gives this process no access; {reason}"
        fix = f"{_ACCESS}; then {fix or 'look again'}"
    return missing(
        "NVIDIA GPU",
        f"{seen}; kernels cannot run on it from here: {reason}",
        fix or "look at what 'nvidia-smi' says",
    )


def _told(gpu: Gpu) -> str:
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
        yield missing(
            "other load",
            f"load average {load:.2f} on {len(machine.cpus)} cores: not a quiet machine",
            "end other programs; disturbed samples are rejected, trials may come out unstable",
        )
    else:
        yield ok("other load", f"load average {load:.2f}")
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
        yield _missing_meter(name, reason)
    if machine.kind != "jetson":
        return
    if meters.found:
        yield _check_total(meters, samples)
    if find_tool(root, "tegrastats") is None:
        yield missing(
            "tegrastats",
            "the board's tool is not here; 'mansard telemetry --live' needs it",
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
            "rails are kept one by one; energy of the whole board stays unknown",
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
            f"{' + '.join(total.rails)} reads {now.power_w:.3f} W, which no machine takes",
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
            yield ok("sweeps", "none running, none cut off")
        else:
            detail = f"one was cut off, and the machine is still as it left it: {path}"
            yield warning("sweeps", detail, "run 'mansard restore'")
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
            "free some space, or run where there is more: raw samples are kept",
        )
    else:
        yield ok("disk", f"{free_bytes / 1e9:.1f} GB free in {here}")


def _can_be_made(folder: Path) -> bool:
    for path in (folder, *folder.parents):
        if os.path.lexists(path):
            return path.is_dir() and os.access(path, os.W_OK | os.X_OK)
    return False
