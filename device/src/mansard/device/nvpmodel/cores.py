"""The CPUs of a board by its configuration and kernel: those a mode switches, their clusters."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from mansard.core.records import CpuCluster
from mansard.device.nvpmodel.caps import NOT_SET, Cap, first_cpu, read_cap
from mansard.device.nvpmodel.sections import Config, ModeSection, Param
from mansard.device.system import below, parse_cpu_list, read_text
from mansard.device.topology import CPU_FOLDER, list_cpus, related_cpus

_ONLINE_PATH = re.compile(r"/sys/devices/system/cpu/cpu([0-9]{1,3})/online")
_CORE_NAME = re.compile(r"CORE_([0-9]{1,3})")
_MAX_CPU = 1023
# Clusters that do not follow one another. Source: NVIDIA's data sheet of TX2; its CPUs 1 and
# 2 are the Denver cores, as the modes without them in its nvpmodel.conf show too.
_SCATTERED = {"CPU_DENVER": (1, 2), "CPU_A57": (0, 3, 4, 5)}


class Group(msgspec.Struct, frozen=True):
    """CPUs that share a clock, and the parameters that set it."""

    cpus: tuple[int, ...]
    params: tuple[Param, ...]


class Cores(msgspec.Struct, frozen=True):
    """The CPUs of a board: all that a mode can switch, those that exist, and their groups."""

    cpus: tuple[int, ...]
    groups: tuple[Group, ...]
    switches: dict[tuple[str, str], int]  # (parameter, argument) -> the CPU it is for


def find_cores(config: Config, cpu_params: tuple[Param, ...], root: Path | None) -> Cores:
    """The board's CPUs by its configuration, and by the kernel where there is a ``root``.

    One configuration serves boards of several sizes: CPUs that the kernel does not have are
    left out, and without a kernel to ask those that no mode mentions.
    """
    switches = _switches(config)
    listed = {
        switches[key]
        for section in config.modes
        for setting in section.settings
        if (key := (setting.param, setting.argument)) in switches
    }
    firsts = [cpu for param in cpu_params if (cpu := first_cpu(param)) is not None]
    existing = set(existing_cpus(root)) if root is not None else set()
    cpus = tuple(sorted(existing or listed | set(firsts) | {0}))
    return Cores(cpus, _groups(cpu_params, cpus, root), switches)


def existing_cpus(root: Path) -> tuple[int, ...]:
    """The CPUs that the kernel has, on or off: by its list, and by their folders."""
    try:
        present = parse_cpu_list(read_text(below(root, f"{CPU_FOLDER}/present")) or "")
    except ValueError:
        present = ()
    return tuple(sorted({*present, *list_cpus(root)}))


def switched_on(section: ModeSection, cores: Cores) -> tuple[int, ...]:
    """The CPUs that a mode switches on by their own lines, whether or not they exist."""
    return tuple(
        sorted(
            cpu
            for setting in section.settings
            if (cpu := cores.switches.get((setting.param, setting.argument))) is not None
            and setting.value.strip() != "0"
        )
    )


def cpus_on(section: ModeSection, cores: Cores) -> tuple[int, ...]:
    """The CPUs that are on under a mode; one that it does not mention stays on."""
    off: set[int] = set()
    for setting in section.settings:
        cpu = cores.switches.get((setting.param, setting.argument))
        if cpu is not None:
            (off.discard if setting.value.strip() != "0" else off.add)(cpu)
    return tuple(cpu for cpu in cores.cpus if cpu not in off)


def clusters_on(section: ModeSection, cores: Cores, on: tuple[int, ...]) -> tuple[CpuCluster, ...]:
    """The clusters with a CPU that is on, with their caps."""
    clusters = []
    for group in cores.groups:
        cpus = tuple(cpu for cpu in group.cpus if cpu in on)
        if cpus:
            cap = _last_cap(section, group.params)
            clusters.append(
                CpuCluster(
                    cpus=cpus,
                    max_hz=cap.hz,
                    unknown={} if cap.hz is not None else {"max_hz": cap.why},
                )
            )
    return tuple(clusters)


def _last_cap(section: ModeSection, params: tuple[Param, ...]) -> Cap:
    # Cores of one policy that are set one by one: the kernel keeps the last value written.
    order = {setting.param: place for place, setting in enumerate(section.settings)}
    caps = [
        (order.get(param.name, -1), cap)
        for param in params
        if (cap := read_cap(section, param)).why != NOT_SET
    ]
    return max(caps, key=lambda pair: pair[0])[1] if caps else Cap(None, NOT_SET)


def _switches(config: Config) -> dict[tuple[str, str], int]:
    """(parameter, argument) -> the CPU that it switches on and off."""
    switches: dict[tuple[str, str], int] = {}
    for param in config.params:
        for argument, path in param.arguments.items():
            match = _ONLINE_PATH.fullmatch(path)
            if match is not None and int(match[1]) <= _MAX_CPU:
                switches[param.name, argument] = int(match[1])
    for section in config.modes:
        for setting in section.settings:
            match = _CORE_NAME.fullmatch(setting.argument)
            key = (setting.param, setting.argument)
            if setting.param == "CPU_ONLINE" and match is not None and key not in switches:
                switches[key] = int(match[1])  # a dump without its head
    return switches


def _groups(
    params: tuple[Param, ...], cpus: tuple[int, ...], root: Path | None
) -> tuple[Group, ...]:
    placed = {
        cpu: param for param in params if (cpu := first_cpu(param)) in cpus and cpu is not None
    }
    groups: dict[tuple[int, ...], list[Param]] = {}
    for cpu, param in sorted(placed.items()):
        policy = related_cpus(root, cpu) if root is not None else ()
        shared = policy or _by_order(param, cpu, sorted(placed), cpus)
        groups.setdefault(tuple(one for one in shared if one in cpus), []).append(param)
    seen = {cpu for shared in groups for cpu in shared}
    for cpu in cpus if groups else ():  # CPUs whose clock no parameter sets
        if cpu not in seen:
            policy = related_cpus(root, cpu) if root is not None else ()
            rest = tuple(one for one in cpus if one not in seen and (not policy or one in policy))
            groups[rest or (cpu,)] = []
            seen.update(rest or (cpu,))
    return tuple(Group(shared, tuple(found)) for shared, found in groups.items())


def _by_order(param: Param, cpu: int, firsts: list[int], cpus: tuple[int, ...]) -> tuple[int, ...]:
    """The CPUs of a cluster up to the next one's first, or as the chip is known to be."""
    if param.name in _SCATTERED and len(firsts) > 1:
        return _SCATTERED[param.name]
    later = [first for first in firsts if first > cpu]
    return tuple(one for one in cpus if cpu <= one < (later[0] if later else _MAX_CPU + 1))
