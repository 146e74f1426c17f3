"""Which machine this is: read from the system, never guessed."""

from __future__ import annotations

import hashlib
import platform
import re
from pathlib import Path
from typing import Literal

from mansard.core.hashing import ID_CHARACTERS
from mansard.core.records import MachineIdentity
from mansard.device.cgroup import cpu_quota, memory_limit_bytes
from mansard.device.system import SYSTEM_ROOT, read_text, usable_cpus
from mansard.device.topology import data_caches, physical_cores

_JETSON = re.compile(r"jetson|tegra|orin|xavier", re.IGNORECASE)


def identify(
    root: Path = SYSTEM_ROOT, allowed_cpus: tuple[int, ...] | None = None
) -> MachineIdentity:
    """The machine under ``root``; ``cpus`` holds one logical CPU per physical core.

    ``allowed_cpus`` defaults to the CPUs this process may run on. A container's quota of
    CPU time limits their number, and its memory limit the memory.
    """
    cpus = _within_quota(physical_cores(root, allowed_cpus or usable_cpus()), cpu_quota(root))
    memory_bytes = _memory_bytes(root)
    machine_hash = _machine_hash(root)
    unknown = {}
    if memory_bytes is None:
        unknown["memory_bytes"] = "/proc/meminfo has no MemTotal line"
    if machine_hash is None:
        unknown["machine_hash"] = "neither a serial number nor /etc/machine-id can be read"
    return MachineIdentity(
        kind=_kind(root),
        name=_name(root),
        architecture=platform.machine(),
        cpus=cpus,
        caches=data_caches(root, cpus),
        memory_bytes=memory_bytes,
        operating_system=_operating_system(root),
        kernel_release=read_text(root / "proc/sys/kernel/osrelease") or platform.release(),
        machine_hash=machine_hash,
        accelerators=_accelerators(root),
        unknown=unknown,
    )


def _within_quota(cpus: tuple[int, ...], quota: float | None) -> tuple[int, ...]:
    # A thread more than the quota pays for would have all of them stopped in turns.
    return cpus if quota is None else cpus[: max(1, int(quota))]


def _board(root: Path) -> str | None:
    return read_text(root / "proc/device-tree/model")


def _kind(root: Path) -> Literal["cpu", "jetson"]:
    # Until the CUDA kernels arrive, a machine with an NVIDIA card is measured as a CPU.
    board = _board(root)
    return "jetson" if board and _JETSON.search(board) else "cpu"


def _name(root: Path) -> str:
    board = _board(root)
    if board:
        return board
    fields = _cpuinfo(root)
    name = fields.get("model name") or fields.get("Hardware")
    return re.sub(r"\s+", " ", name) if name else f"{platform.machine()} processor"


def _cpuinfo(root: Path) -> dict[str, str]:
    fields: dict[str, str] = {}
    for line in (read_text(root / "proc/cpuinfo") or "").splitlines():
        key, separator, value = line.partition(":")
        if separator:
            fields.setdefault(key.strip(), value.strip())
    return fields


def _memory_bytes(root: Path) -> int | None:
    match = re.search(r"^MemTotal:\s*(\d+) kB$", read_text(root / "proc/meminfo") or "", re.M)
    if match is None:
        return None
    total_bytes = int(match[1]) * 1024
    return min(total_bytes, memory_limit_bytes(root) or total_bytes)


def _operating_system(root: Path) -> str:
    match = re.search(r'^PRETTY_NAME="?(.*?)"?$', read_text(root / "etc/os-release") or "", re.M)
    return match[1] if match else platform.system()


def _machine_hash(root: Path) -> str | None:
    # Jetson boards carry a serial number; two boards flashed from one image share a machine id.
    serial = read_text(root / "proc/device-tree/serial-number")
    identifier = serial or read_text(root / "etc/machine-id")
    if not identifier:
        return None
    # Salted, so that the published hash cannot be matched with the id used elsewhere.
    salted = f"mansard machine {identifier}".encode()
    return hashlib.sha256(salted).hexdigest()[:ID_CHARACTERS]


def _accelerators(root: Path) -> tuple[str, ...]:
    folder = root / "proc/driver/nvidia/gpus"
    cards = []
    for information in sorted(folder.glob("*/information")):
        match = re.search(r"^Model:\s*(.+)$", read_text(information) or "", re.M)
        cards.append(match[1] if match else "NVIDIA GPU of unknown model")
    return tuple(cards)
