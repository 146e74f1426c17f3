"""The CPUs of a simulated tree: switches, topology, caches, clocks, idle states."""

from __future__ import annotations

from mansard.simulator.figures import Cluster, Figures
from mansard.simulator.tools.board import format_list
from mansard.simulator.tree import Tree

CPU = "/sys/devices/system/cpu"


def add_cpus(tree: Tree, board: Figures) -> None:
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


def _add_cpu(tree: Tree, board: Figures, cluster: Cluster, index: int, cpu: int) -> None:
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


def _policy(cluster: Cluster) -> str:
    return f"{CPU}/cpufreq/policy{cluster.cpus[0]}"


def _add_policy(tree: Tree, cluster: Cluster) -> None:
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
