"""A simulated board as files, in their state before anything has run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import msgspec

from mansard.simulator.boards.spec import (
    CLK,
    CPU,
    BoardSpec,
    ClusterSpec,
    GpuSpec,
    ModeSpec,
    ParamSpec,
)
from mansard.simulator.tools.board import format_list


class Tree(msgspec.Struct, frozen=True):
    """Files by the board's absolute path, and links to other paths of the board."""

    files: dict[str, bytes]
    links: dict[str, str]  # link -> what it points to, both absolute

    def put(self, folder: str, values: Mapping[str, object]) -> None:
        """Add a folder's files; each ends with a newline as the kernel's do."""
        for name, value in values.items():
            text = "\n".join(map(str, value)) if isinstance(value, tuple) else str(value)
            self.files[f"{folder}/{name}"] = f"{text}\n".encode()

    def link(self, path: str, target: str) -> None:
        """Add a link; it is written relative, as those in /sys are."""
        self.links[path] = target


def write_tree(tree: Tree, root: Path) -> None:
    """Write it below ``root``, which may exist; raises OSError."""
    for folder in sorted({path.rpartition("/")[0] for path in (*tree.files, *tree.links)}):
        (root / folder.lstrip("/")).mkdir(parents=True, exist_ok=True)
    for path, content in tree.files.items():
        (root / path.lstrip("/")).write_bytes(content)
    for path, target in tree.links.items():
        link = root / path.lstrip("/")
        link.symlink_to(os.path.relpath(target, Path(path).parent))


def render_conf(figures: BoardSpec) -> str:
    """The whole file; the EMC header lacks its blank, as in the real ones."""
    default = f"< PM_CONFIG DEFAULT={figures.default} >"
    return "\n".join(
        (
            f"# {figures.model}: simulated by Mansard, there is no such board",
            "",
            *(_param(param) for param in figures.params),
            *(_mode(mode) for mode in figures.modes),
            "# the default power mode",
            default,
            "",
        )
    )


def _param(param: ParamSpec) -> str:
    opening = "<PARAM" if param.name == "EMC" else "< PARAM"
    lines = "".join(f"{argument} {path}\n" for argument, path in param.arguments)
    return f"{opening} TYPE={param.kind} NAME={param.name} >\n{lines}"


def _mode(mode: ModeSpec) -> str:
    lines = "".join(f"{' '.join(setting)}\n" for setting in mode.settings)
    return f"< POWER_MODEL ID={mode.id} NAME={mode.name} >\n{lines}"


NOTE = "This tree is simulated by Mansard: no board is behind it, and its readings are made up."
_BASE = "/sys/firmware/devicetree/base"
_FEATURES = "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm"


def add_system(tree: Tree, board: BoardSpec) -> None:
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


def _add_device_tree(tree: Tree, board: BoardSpec) -> None:
    # Strings of the device tree end with a NUL byte and have no newline.
    strings = {
        "model": (f"{board.model} (simulated)",),
        "compatible": board.compatible,
        "serial-number": (board.serial,),
    }
    for name, values in strings.items():
        tree.files[f"{_BASE}/{name}"] = "".join(f"{value}\0" for value in values).encode()
    tree.link("/proc/device-tree", _BASE)


def _add_proc(tree: Tree, board: BoardSpec) -> None:
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
            "vmstat": "pswpin 0\npswpout 0",
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
    """/proc/stat of CPUs that were busy and idle for these numbers of ticks of 10 ms."""
    busy, idle = (sum(pair[i] for pair in ticks.values()) for i in (0, 1))
    lines = [f"cpu  {busy} 0 0 {idle} 0 0 0 0 0 0"]
    lines.extend(f"cpu{cpu} {b} 0 0 {i} 0 0 0 0 0 0" for cpu, (b, i) in sorted(ticks.items()))
    return "\n".join((*lines, "intr 0", "ctxt 0", "btime 0", "processes 1000"))


def add_cpus(tree: Tree, board: BoardSpec) -> None:
    """All of /sys/devices/system/cpu, every core on and every clock uncapped."""
    cpus = list(board.cpus)
    everything = format_list(cpus)
    tree.put(
        CPU,
        {
            "present": everything,
            "possible": everything,
            "online": everything,
            "offline": "",
            "kernel_max": 63,
        },
    )
    for index, cluster in enumerate(board.clusters):
        _add_policy(tree, cluster)
        for cpu in cluster.cpus:
            _add_cpu(tree, board, cluster, index, cpu)


def _add_cpu(tree: Tree, board: BoardSpec, cluster: ClusterSpec, index: int, cpu: int) -> None:
    folder = f"{CPU}/cpu{cpu}"
    if cpu != 0 or board.cpu0_switch:
        tree.put(folder, {"online": 1})
    tree.put(
        f"{folder}/topology",
        {
            "core_id": cpu,
            "physical_package_id": 0,
            "cluster_id": index,
            "thread_siblings_list": cpu,
            "core_siblings_list": format_list(list(board.cpus)),
        },
    )
    tree.link(f"{folder}/cpufreq", _policy(cluster))
    alone, sharers = str(cpu), format_list(list(cluster.cpus))
    caches = [
        ("Data", 1, 64 * 1024, alone),
        ("Instruction", 1, 64 * 1024, alone),
        ("Unified", 2, cluster.l2_bytes, alone if board.l3_bytes else sharers),
    ]
    if board.l3_bytes:
        caches.append(("Unified", 3, board.l3_bytes, sharers))
    for number, (kind, level, size_bytes, shared) in enumerate(caches):
        tree.put(
            f"{folder}/cache/index{number}",
            {
                "type": kind,
                "level": level,
                "size": f"{size_bytes // 1024}K",
                "coherency_line_size": 64,
                "shared_cpu_list": shared,
            },
        )
    for state, name in enumerate(("WFI", "c7")):
        tree.put(f"{folder}/cpuidle/state{state}", {"name": name, "disable": 0})


def _policy(cluster: ClusterSpec) -> str:
    return f"{CPU}/cpufreq/policy{cluster.cpus[0]}"


def _add_policy(tree: Tree, cluster: ClusterSpec) -> None:
    listed = " ".join(map(str, cluster.cpus))
    tree.put(
        _policy(cluster),
        {
            "affected_cpus": listed,
            "related_cpus": listed,
            "cpuinfo_min_freq": cluster.khz[0],
            "cpuinfo_max_freq": cluster.khz[-1],
            "scaling_available_frequencies": " ".join(map(str, cluster.khz)),
            "scaling_available_governors": "conservative ondemand userspace powersave "
            "performance schedutil",
            "scaling_driver": "tegra-cpufreq",
            "scaling_governor": "schedutil",
            "scaling_min_freq": cluster.first_khz,
            "scaling_max_freq": cluster.khz[-1],
            "scaling_cur_freq": cluster.first_khz,
        },
    )


def add_clocks(tree: Tree, board: BoardSpec) -> None:
    """devfreq domains, debugfs clocks, and nvpmodel's caps, all uncapped."""
    for gpu in board.gpus:
        _add_gpu(tree, gpu)
    if board.gpu_folder:
        _add_gpu_device(tree, board, board.gpu_folder)
    # No process uses the GPU's memory; the form is that of nvgpu's list of clients.
    clients = f"{'CLIENT':<20} {'PROCESS':>16} {'PID':>8} {'SIZE':>11}\n{'total':<20} {'0K':>37}"
    tree.put("/sys/kernel/debug/nvmap/iovmm", {"clients": clients})
    _add_memory(tree, board)
    for clock in board.clocks:
        folder, _, name = clock.cap.rpartition("/")
        tree.put(folder, {name: clock.max_hz})
        # debugfs has the same clock under its own name: nafll_dla0_core
        debug = f"{CLK}/{name if name.startswith('nafll') else f'nafll_{name}'}"
        tree.put(debug, {"rate": clock.max_hz, "state": 1, "min_rate": 0})
        tree.put(debug, {"max_rate": clock.max_hz, "mrq_rate_locked": 0})


def add_engines(tree: Tree, board: BoardSpec) -> None:
    """Video engines and accelerators, all of them asleep."""
    caps = [clock.cap for clock in board.clocks if ".host1x/" in clock.cap]
    folders = {cap.split("/acm/")[0].split("/clk_cap/")[0] for cap in caps}
    folders |= {f"{board.host1x}/{name}" for name in board.video}
    for folder in sorted(folders):
        tree.put(f"{folder}/power", {"control": "auto", "runtime_status": "suspended"})


def devfreq_files(hz: tuple[int, ...]) -> dict[str, object]:
    """The files of every devfreq folder, without the GPU's own."""
    return {
        "available_frequencies": " ".join(map(str, hz)),
        "min_freq": hz[0],
        "max_freq": hz[-1],
        "cur_freq": hz[0],
        "target_freq": hz[0],
        "governor": "nvhost_podgov",
        "available_governors": "nvhost_podgov userspace performance simple_ondemand",
        "polling_interval": 25,
    }


def _add_gpu(tree: Tree, gpu: GpuSpec) -> None:
    folder = PurePosixPath(gpu.devfreq)
    tree.put(gpu.devfreq, {**devfreq_files(gpu.hz), "load": 0})
    device = folder.parent.parent
    of_node = f"/sys/firmware/devicetree/base/{device.name}"
    tree.files[f"{of_node}/name"] = f"{gpu.of_name}\0".encode()
    tree.link(f"{device}/of_node", of_node)
    tree.link(f"{gpu.devfreq}/device", str(device))
    tree.links.setdefault(f"{device}/devfreq_dev", gpu.devfreq)
    tree.link(f"/sys/class/devfreq/{folder.name}", gpu.devfreq)


def _add_gpu_device(tree: Tree, board: BoardSpec, folder: str) -> None:
    tree.put(folder, {"railgate_enable": 1, "load": 0})
    if board.n_tpcs:
        tree.put(folder, {"tpc_pg_mask": 0})
    if any(param.name == "FBP_POWER_GATING" for param in board.params):
        tree.put(folder, {"fbp_pg_mask": 0})
    tree.put(f"{folder}/power", {"control": "auto", "runtime_status": "active"})
    # The driver's own name for its device, which nvpmodel.conf uses.
    alias = "/sys/devices/platform/gpu.0" if board.l4t[0] >= 36 else "/sys/devices/gpu.0"
    tree.link(alias, folder)


def _add_memory(tree: Tree, board: BoardSpec) -> None:
    highest = board.emc_hz[-1]
    if board.cactmon:
        folder, _, name = board.cactmon.rpartition("/")
        tree.put(folder, {name: 0})
    if board.bwmgr:
        tree.put(board.bwmgr, devfreq_files(board.emc_hz))
        tree.link("/sys/class/devfreq/bwmgr", board.bwmgr)
        return
    if board.emc_cap:
        folder, _, name = board.emc_cap.rpartition("/")
        tree.put(folder, {name: highest})
    tree.put(
        f"{CLK}/emc",
        {
            "rate": board.emc_hz[0],
            "min_rate": board.emc_hz[0],
            "max_rate": highest,
            "mrq_rate_locked": 0,
            "state": 1,
            "possible_rates": " ".join(str(hz // 1000) for hz in board.emc_hz),
        },
    )
