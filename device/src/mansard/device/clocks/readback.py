"""The mode that a machine is in, read back from its clocks, and checks that a mode holds."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from mansard.core.errors import DeviceError, MansardError
from mansard.core.records import CpuCluster, PowerMode
from mansard.core.units import format_frequency
from mansard.device.clocks.domains import UNCAPPED_HZ, Domain
from mansard.device.clocks.settings import Clocks, find_clocks, read_setting
from mansard.device.clocks.steps import Write, floor, floored
from mansard.device.nvpmodel.caps import mode_sms, present_masks
from mansard.device.nvpmodel.modes import read_modes
from mansard.device.nvpmodel.sections import ModeSection, Setting
from mansard.device.system import SYSTEM_ROOT, glob, read_text

_COUNTED = "TPC_PG_MASK"  # the mask that multiprocessors are counted by


def read_sms(root: Path) -> int | str:
    """Multiprocessors that are not gated, or the reason why that cannot be read."""
    try:
        modes = read_modes(root)
    except MansardError:
        return "the machine has no nvpmodel.conf with the GPU's gating"
    masks = present_masks(root, modes.config)
    silent = [name for name, text in masks.items() if text is None]
    if silent and masks.get(_COUNTED) is None:
        return f"the GPU's gating mask {silent[-1]} cannot be read"
    settings = (Setting("", name, text) for name, text in masks.items() if text is not None)
    return mode_sms(modes.soc, modes.module, ModeSection(0, "present", tuple(settings)))


_SLACK = 1e-3  # 3199 and 3200 MHz are one rate of the memory to different tools
_NO_LIMIT = "the machine sets clocks and cores, no watts"


def read_mode(
    root: Path = SYSTEM_ROOT, wanted: PowerMode | None = None, clocks: Clocks | None = None
) -> PowerMode:
    """The mode the machine is in; name and kind are those of ``wanted``, else "present".

    Clocks are caps: what they are held at or may rise to. A clock that cannot be read is None
    with its reason.
    """
    clocks = clocks or find_clocks(root)
    on = [domain for domain in clocks.cpu if any(clocks.online.get(cpu) for cpu in domain.cpus)]
    caps = {
        "cpu_hz": max((hz for hz in (_cap(root, domain) for domain in on) if hz), default=None),
        "gpu_hz": _cap(root, clocks.gpu),
        "memory_hz": _memory_hz(root, clocks),
        "dla_hz": min(
            (hz for hz in (_cap(root, domain) for domain in clocks.dla) if hz), default=None
        ),
    }
    sms = read_sms(root)
    unknown = {name: _why(name, clocks) for name, hz in caps.items() if hz is None}
    if isinstance(sms, str):
        unknown["n_sms"] = sms
    return PowerMode(
        name=wanted.name if wanted else "present",
        kind=wanted.kind if wanted else "present",
        n_cpus=_n_cpus(wanted, clocks),
        clusters=tuple(_cluster(root, domain, clocks) for domain in on),
        cpu_hz=caps["cpu_hz"],
        gpu_hz=caps["gpu_hz"],
        memory_hz=caps["memory_hz"],
        dla_hz=caps["dla_hz"],
        n_sms=None if isinstance(sms, str) else sms,
        power_limit_w=None,
        unknown={**unknown, "power_limit_w": _NO_LIMIT},
    )


def _n_cpus(wanted: PowerMode | None, clocks: Clocks) -> int:
    if wanted is not None and wanted.kind == "cores":
        return wanted.n_cpus  # the number in use; all of them stay on
    return max(sum(clocks.online.values()), 1)


def _cap(root: Path, domain: Domain | None) -> float | None:
    hz = domain.read_hz(root, domain.max_path) if domain is not None else None
    if domain is None or hz is None or hz <= 0:
        return None
    if hz < UNCAPPED_HZ:
        return hz
    return domain.available_hz[-1] if domain.available_hz else None


def _memory_hz(root: Path, clocks: Clocks) -> float | None:
    emc = clocks.emc
    return (emc.locked_hz(root) or emc.top_hz(root)) if emc is not None else None


def _cluster(root: Path, domain: Domain, clocks: Clocks) -> CpuCluster:
    hz = _cap(root, domain)
    return CpuCluster(
        cpus=tuple(cpu for cpu in domain.cpus if clocks.online.get(cpu)),
        max_hz=hz,
        unknown={} if hz is not None else {"max_hz": f"{domain.max_path} cannot be read"},
    )


def _why(name: str, clocks: Clocks) -> str:
    reasons = {
        "cpu_hz": (clocks.cpu, "no CPU has a cpufreq folder (usual in a virtual machine)"),
        "gpu_hz": (clocks.gpu, "there is no GPU clock in sysfs"),
        "memory_hz": (clocks.emc, "no memory clock can be read; on a Jetson root can"),
        "dla_hz": (clocks.dla, "no DLA has a cap in sysfs"),
    }
    node, reason = reasons[name]
    return "uncapped, or its files cannot be read" if node else reason


def differences(wanted: PowerMode, actual: PowerMode) -> tuple[str, ...]:
    """Differences to the wanted mode; unknown values are not compared."""
    pairs = (
        ("CPU", wanted.cpu_hz, actual.cpu_hz),
        ("GPU", wanted.gpu_hz, actual.gpu_hz),
        ("memory", wanted.memory_hz, actual.memory_hz),
        ("DLA", wanted.dla_hz, actual.dla_hz),
    )
    lines = [
        f"{name}: wanted {format_frequency(want)}, found {format_frequency(have)}"
        for name, want, have in pairs
        if want is not None and have is not None and abs(want - have) > _SLACK * want
    ]
    if None not in {wanted.n_sms, actual.n_sms} and wanted.n_sms != actual.n_sms:
        lines.append(f"GPU's multiprocessors: wanted {wanted.n_sms}, found {actual.n_sms}")
    if wanted.clusters and wanted.n_cpus != actual.n_cpus:
        lines.insert(0, f"cores: wanted {wanted.n_cpus}, found {actual.n_cpus}")
    return tuple(lines)


_POLL_S = 0.01
_RATE_SLACK = 1e-3  # a rate that the boot processor computes is not round; steps are 2 % and more
# Not nvfancontrol: it drives the fan and sets no clocks; without it a board overheats.
_MEDDLERS = ("nvpmodel", "jtop", "jetson_clocks", "thermald", "tuned", "nvpower")


def check_writes(
    root: Path,
    writes: Sequence[Write],
    clocks: Clocks,
    *,
    is_settled: bool = False,
    patience_s: float = 0.0,
) -> None:
    """Read every setting back; raises DeviceError that says wanted, found and available.

    ``is_settled``: it was right at once, so that another value now was set by another program.
    ``patience_s``: how long the kernel may take until a setting is what was written.
    """
    what = "it was set, and something reset it" if is_settled else "the kernel made it that"
    deadline_s = time.monotonic() + patience_s
    last = {write.path: write for write in writes}
    for write in last.values():
        actual = _reading(root, write)
        while not is_same(actual, write.value):
            if time.monotonic() > deadline_s:
                domain = _domain_of(clocks, write.path)
                raise DeviceError(
                    f"{write.why}: wanted {write.value}, found {actual or 'nothing'}; {what}"
                    f"{_available(domain)}",
                    where=write.path,
                    fix=_remedy(root),
                )
            time.sleep(_POLL_S)
            actual = _reading(root, write)


def _reading(root: Path, write: Write) -> str:
    return (read_setting(root, write.path) or "").strip()


def is_same(actual: str, wanted: str) -> bool:
    """Whether a setting holds what was wanted, but for the rounding of a rate."""
    if actual == wanted:
        return True
    if not (actual.isdecimal() and wanted.isdecimal()):
        return False
    return int(wanted) > 1 and abs(int(actual) - int(wanted)) <= _RATE_SLACK * int(wanted)


def _domain_of(clocks: Clocks, path: str) -> Domain | None:
    for domain in clocks.domains():
        if path in {domain.max_path, domain.min_path, domain.cur_path}:
            return domain
    return None


def _available(domain: Domain | None) -> str:
    if domain is None or not domain.available_hz:
        return ""
    unit_hz = domain.unit_hz
    listed = ", ".join(str(round(hz / unit_hz)) for hz in domain.available_hz)
    return f"; available are {listed}"


def _remedy(root: Path) -> str:
    names = {read_text(path) for path in glob(root / "proc", "[0-9]*/comm")}
    running = [name for name in _MEDDLERS if name in names]
    if running:
        return f"these are running and set clocks: {', '.join(running)}; stop them and try again"
    return "thermal throttling, jtop or another tool sets it; let the board cool"


def check_caps(mode: PowerMode, actual: PowerMode, clocks: Clocks) -> None:
    """Whether a mode that nvpmodel has set is in force; raises DeviceError.

    Its caps may lie between two frequencies: the lower of them is right.
    """
    lines = differences(_as_available(mode, clocks), actual)
    if lines:
        raise DeviceError(
            f"power mode {mode.name} is not in force: {'; '.join(lines)}",
            fix="thermal throttling, jtop or another tool may limit it; let the board cool",
        )


def _as_available(mode: PowerMode, clocks: Clocks) -> PowerMode:
    clusters = [domain for domain in clocks.cpu if mode.cpu_hz is not None]
    fastest = max((floor(domain, mode.cpu_hz or 0) for domain in clusters), default=mode.cpu_hz)
    return msgspec.structs.replace(
        mode,
        cpu_hz=fastest,
        gpu_hz=floored(clocks.gpu, mode.gpu_hz),
        memory_hz=floored(clocks.emc.domain if clocks.emc else None, mode.memory_hz),
    )
