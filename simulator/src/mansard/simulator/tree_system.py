"""The parts of a simulated tree that say which machine it is."""

from __future__ import annotations

from mansard.simulator.conf import render_conf
from mansard.simulator.figures import Figures
from mansard.simulator.tree import Tree

NOTE = "This tree is simulated by Mansard: no board is behind it, and its readings are made up."
_BASE = "/sys/firmware/devicetree/base"
_FEATURES = "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm"


def add_system(tree: Tree, board: Figures) -> None:
    """Identity, release, memory, and the configuration of power modes."""
    _add_device_tree(tree, board)
    _add_proc(tree, board)
    major, revision = board.release.split(",", 1)
    comment = f"# {major.strip()},{revision}"
    userspace = "" if board.l4t[0] < 34 else "\nTARGET_USERSPACE_LIB_DIR=nvidia"
    tree.put(
        "/etc",
        {
            "nv_tegra_release": f"{comment}\n# KERNEL_VARIANT: simulated{userspace}",
            "os-release": f'PRETTY_NAME="Ubuntu {board.ubuntu} (simulated)"\nID=ubuntu\n'
            f'VERSION_ID="{board.ubuntu}"',
            "machine-id": f"51a1{board.serial:0>28}",
            "hostname": f"simulated-{board.name}",
            "mansard-simulated": NOTE,
        },
    )
    tree.files["/etc/nvpmodel.conf"] = render_conf(board).encode()
    for param in board.params:
        if param.name == "GPU_POWER_GATING":
            folder, _, name = param.arguments[0][1].rpartition("/")
            tree.put(folder, {name: "gpu_pg_mask_param=512"})
    tree.put("/var/lib/nvpmodel", {"status": f"pmode:{board.default:04d}"})


def _add_device_tree(tree: Tree, board: Figures) -> None:
    # Strings of the device tree end with a NUL byte and have no newline.
    strings = {
        "model": (f"{board.model} (simulated)",),
        "compatible": board.compatible,
        "serial-number": (board.serial,),
    }
    for name, values in strings.items():
        tree.files[f"{_BASE}/{name}"] = "".join(f"{value}\0" for value in values).encode()
    tree.link("/proc/device-tree", _BASE)


def _add_proc(tree: Tree, board: Figures) -> None:
    parts = {cpu: cluster.part for cluster in board.clusters for cpu in cluster.cpus}
    tree.put(
        "/proc",
        {
            "cpuinfo": "\n".join(
                f"processor\t: {cpu}\nmodel name\t: ARMv8 Processor (simulated)\n"
                f"Features\t: {_FEATURES}\nCPU implementer\t: 0x41\nCPU part\t: {parts[cpu]}\n"
                for cpu in board.cpus
            ),
            "meminfo": f"MemTotal:       {board.memory_kb} kB\n"
            f"MemFree:        {board.memory_kb * 3 // 4} kB\n"
            f"MemAvailable:   {board.memory_kb * 4 // 5} kB\n"
            "SwapTotal:      0 kB\nSwapFree:       0 kB",
            "stat": stat_text(dict.fromkeys(board.cpus, (0, 0))),
            "uptime": "100.00 100.00",
            "loadavg": "0.00 0.00 0.00 1/100 1000",
            "version": f"Linux version {board.kernel} (simulated)",
        },
    )
    tree.put("/proc/sys/kernel", {"osrelease": board.kernel})
    # Counted from the serial number: the same tree for the same board.
    start = f"51a10000-0000-4000-8000-{int(board.serial) % 10**12:012d}"
    tree.put("/proc/sys/kernel/random", {"boot_id": start})


def stat_text(ticks: dict[int, tuple[int, int]]) -> str:
    """/proc/stat of CPUs that were busy and idle for so many ticks of 10 ms."""
    busy, idle = (sum(pair[i] for pair in ticks.values()) for i in (0, 1))
    lines = [f"cpu  {busy} 0 0 {idle} 0 0 0 0 0 0"]
    lines.extend(f"cpu{cpu} {b} 0 0 {i} 0 0 0 0 0 0" for cpu, (b, i) in sorted(ticks.items()))
    return "\n".join((*lines, "intr 0", "ctxt 0", "btime 0", "processes 1000"))
