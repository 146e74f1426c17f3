"""Folders that look like boards to what identifies a machine."""

from __future__ import annotations

from pathlib import Path

TREE = "proc/device-tree"


def write(root: Path, path: str, content: str | bytes) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode() if isinstance(content, str) else content)


def write_orin(root: Path, online: str = "0-11") -> None:
    """An AGX Orin 64GB on JetPack 6, some of whose cores may be off."""
    write(root, f"{TREE}/model", "NVIDIA Jetson AGX Orin Developer Kit\0")
    compatible = "nvidia,p3737-0000+p3701-0005\0nvidia,p3701-0005\0nvidia,tegra234\0"
    write(root, f"{TREE}/compatible", compatible)
    write(root, f"{TREE}/chosen/ids", "3701-0005-500 3737-0000-TS4\0")
    write(root, f"{TREE}/serial-number", "1421022012345\0")
    release = "# R36 (release), REVISION: 4.7, GCID: 1, BOARD: generic, EABI: aarch64\n# KERNEL\n"
    write(root, "etc/nv_tegra_release", release)
    write(root, "proc/meminfo", "MemTotal:       64325000 kB\n")
    write_cpus(root, "0-11", online)


def write_cpus(root: Path, present: str, online: str) -> None:
    """CPUs of clusters of four; as the kernel does, only those that are on are described."""
    folder = "sys/devices/system/cpu"
    write(root, f"{folder}/present", f"{present}\n")
    write(root, f"{folder}/online", f"{online}\n")
    first, _, last = online.partition("-")
    on = range(int(first), int(last) + 1)
    for cpu in on:
        write(root, f"{folder}/cpu{cpu}/topology/thread_siblings_list", f"{cpu}\n")
        cluster = [other for other in on if other // 4 == cpu // 4]
        sharers = f"{cluster[0]}-{cluster[-1]}"
        levels = ((1, "64K", str(cpu)), (2, "256K", str(cpu)), (3, "2048K", sharers))
        for index, (level, size, shared) in enumerate(levels):
            cache = f"{folder}/cpu{cpu}/cache/index{index}"
            kind = "Data" if level == 1 else "Unified"
            fields = {"level": str(level), "type": kind, "size": size, "shared_cpu_list": shared}
            for name, value in fields.items():
                write(root, f"{cache}/{name}", f"{value}\n")
            write(root, f"{cache}/coherency_line_size", "64\n")
