"""Which power mode the machine is in, as its own files say."""

from __future__ import annotations

from pathlib import Path

from mansard.core.frequency import format_frequency
from mansard.core.records import CpuCluster, PowerMode
from mansard.device.clocks.domain import UNCAPPED_HZ, Domain
from mansard.device.clocks.gating import read_sms
from mansard.device.clocks.nodes import Clocks, find_clocks
from mansard.device.system import SYSTEM_ROOT

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
    on = [one for one in clocks.cpu if any(clocks.online.get(cpu) for cpu in one.cpus)]
    found = {
        "cpu_hz": max((hz for hz in (_cap(root, one) for one in on) if hz), default=None),
        "gpu_hz": _cap(root, clocks.gpu),
        "memory_hz": _memory_hz(root, clocks),
        "dla_hz": min((hz for hz in (_cap(root, one) for one in clocks.dla) if hz), default=None),
    }
    sms = read_sms(root)
    unknown = {name: _why(name, clocks) for name, hz in found.items() if hz is None}
    if isinstance(sms, str):
        unknown["n_sms"] = sms
    return PowerMode(
        name=wanted.name if wanted else "present",
        kind=wanted.kind if wanted else "present",
        n_cpus=_n_cpus(wanted, clocks),
        clusters=tuple(_cluster(root, one, clocks) for one in on),
        cpu_hz=found["cpu_hz"],
        gpu_hz=found["gpu_hz"],
        memory_hz=found["memory_hz"],
        dla_hz=found["dla_hz"],
        n_sms=None if isinstance(sms, str) else sms,
        power_limit_w=None,
        unknown={**unknown, "power_limit_w": _NO_LIMIT},
    )


def _n_cpus(wanted: PowerMode | None, clocks: Clocks) -> int:
    if wanted is not None and wanted.kind == "cores":
        return wanted.n_cpus  # so many are used; all of them stay on
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


def differences(wanted: PowerMode, found: PowerMode) -> tuple[str, ...]:
    """In what the machine is not in the mode that was wanted; unknown figures are not compared."""
    pairs = (
        ("CPU", wanted.cpu_hz, found.cpu_hz),
        ("GPU", wanted.gpu_hz, found.gpu_hz),
        ("memory", wanted.memory_hz, found.memory_hz),
        ("DLA", wanted.dla_hz, found.dla_hz),
    )
    lines = [
        f"{name}: wanted {format_frequency(want)}, found {format_frequency(have)}"
        for name, want, have in pairs
        if want is not None and have is not None and abs(want - have) > _SLACK * want
    ]
    if None not in {wanted.n_sms, found.n_sms} and wanted.n_sms != found.n_sms:
        lines.append(f"GPU's multiprocessors: wanted {wanted.n_sms}, found {found.n_sms}")
    if wanted.clusters and wanted.n_cpus != found.n_cpus:
        lines.insert(0, f"cores: wanted {wanted.n_cpus}, found {found.n_cpus}")
    return tuple(lines)
