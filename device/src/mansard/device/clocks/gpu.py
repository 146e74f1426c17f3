"""The GPU's clock: its devfreq entry, whose place changes with every generation of board.

Source: facts gathered from public sysfs listings of boards from TX1 to Thor: the entry's
name, or that of its device-tree node, is gpu, gp10b, gv11b, ga10b, gb10b or gpu-gpc-0.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from mansard.device.clocks.domain import Domain, read_frequencies, why_not_writable
from mansard.device.system import below, exists, find_paths, follow_links, read_text

_NAME = re.compile(r"(gpu|gp10b|gv11b|ga10b|gb10b)(-(gpc|nvd)-[0-9])?")
_PLACES = (
    "/sys/class/devfreq/*",
    "/sys/devices/*/devfreq/*",
    "/sys/devices/*/devfreq_dev",
    "/sys/devices/platform/*/devfreq/*",
    "/sys/devices/platform/*/devfreq_dev",
    "/sys/devices/platform/bus@0/*/devfreq/*",
    "/sys/devices/platform/bus@0/*/devfreq_dev",
)
# Settings of the GPU's device that nvpmodel or jetson_clocks change beside its clock.
_DEVICE_SETTINGS = ("railgate_enable", "power/control", "tpc_pg_mask", "fbp_pg_mask")


def find_gpu_clocks(root: Path) -> tuple[Domain, ...]:
    """The GPU's clocks, that of its streaming multiprocessors first; empty without a GPU.

    Thor has a second one, gpu-nvd-0, for its video engines.
    """
    found: dict[Path, Domain] = {}
    for place in _PLACES:
        for folder in find_paths(root, place):
            real = follow_links(below(root, folder))
            if real not in found and _is_gpu(root, folder):
                found[real] = _clock(root, folder)
    return tuple(sorted(found.values(), key=lambda clock: "nvd" in clock.name))


def _is_gpu(root: Path, folder: str) -> bool:
    if not exists(root, f"{folder}/max_freq"):
        return False
    parts = folder.split("/")
    device = parts[-2] if parts[-1] == "devfreq_dev" else parts[-1]
    names = [device.rpartition(".")[2], device, _node_name(root, folder)]
    return any(_NAME.fullmatch(name) for name in names)


def _node_name(root: Path, folder: str) -> str:
    return read_text(below(root, f"{folder}/device/of_node/name")) or ""


def _clock(root: Path, folder: str) -> Domain:
    maximum, minimum = f"{folder}/max_freq", f"{folder}/min_freq"
    return Domain(
        name="gpu-nvd" if "nvd" in folder.rpartition("/")[2] else "gpu",
        kind="gpu",
        available_hz=read_frequencies(root, f"{folder}/available_frequencies", 1),
        max_path=maximum,
        min_path=minimum,
        cur_path=f"{folder}/cur_freq",
        why_not=why_not_writable(root, maximum, minimum),
    )


def gpu_settings(root: Path, clocks: tuple[Domain, ...]) -> tuple[str, ...]:
    """Files beside the GPU's clocks that the board's tools change: governor, gating, power."""
    paths: list[str] = []
    for clock in clocks:
        folder = (clock.max_path or "").rpartition("/")[0]
        paths.append(f"{folder}/governor")
        real = os.path.relpath(follow_links(below(root, folder)), follow_links(root))
        device = f"/{real}".partition("/devfreq")[0]
        if real.startswith("../"):
            continue  # it leads out of the board
        paths += [f"{device}/{name}" for name in _DEVICE_SETTINGS]
    for alias in ("/sys/devices/gpu.0", "/sys/devices/platform/gpu.0"):
        paths += [f"{alias}/{name}" for name in _DEVICE_SETTINGS]
    return tuple(path for path in paths if exists(root, path))
