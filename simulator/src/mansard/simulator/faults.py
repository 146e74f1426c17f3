"""Faults of a simulated board: a file that its tools and its daemon read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from mansard.core.errors import StorageError, UsageError, reported
from mansard.simulator.tools.board import FAULTS, STATE

Value = Any  # what JSON can hold

KNOWN: dict[str, str] = {
    # tools
    "reboot_modes": "list of mode ids: nvpmodel asks for a reboot and waits for the answer",
    "nvpmodel_refuses": "true: every change of mode fails",
    "gating_busy": "an errno (16, 19): a gating mask cannot be written, so nvpmodel stops half-way",
    "nvpmodel_hangs": "true: nvpmodel never answers",
    "nvpmodel_missing": "true: there is no nvpmodel",
    "query_errors": "list of lines: nvpmodel -q prints each as an NVPM ERROR",
    "jetson_clocks_fails": "true: jetson_clocks prints what it can and exits with 1",
    "jetson_clocks_missing": "true: there is no jetson_clocks",
    "tegrastats_cut": "number: each line of tegrastats ends after that share of it",
    "tegrastats_user": "true: tegrastats prints what a plain user sees, though root runs it",
    "tegrastats_missing": "true: there is no tegrastats",
    "power_cut": "number n: a tool kills its parent and itself before its n-th write",
    # kernel
    "clock_slips": "gpu, cpu or memory: something else puts its limits back after a moment",
    "kernel_rounds": "true: the kernel takes the next lower step than the one asked for",
    "cpufreq_gone": "true: the cpufreq folder of a core that is off disappears",
    "throttle": "true: too hot, clocks fall to 60 percent; false again: it cools at once",
    "over_current": "number: how many over-current events there have been",
    # the stand-in for the GPU
    "gpu_refuses": "list of kernels or backends: its compiler refuses them",
    "gpu_miscounts": "true: kernels take half of the time that they should",
    "gpu_lost": "number n: from the n-th launch on it answers with an illegal access",
    # sensors
    "sensor_stops": "true, or a rail's label: readings stay where they are",
    "sensor_jumps": "a rail's label: it reads ten times its power every third time",
    # files
    "rail_missing": "a rail's label: its monitor has no such channel",
    "labels_swapped": "two labels: each monitor's channel bears the other's name",
    "junk_conf": "true: nvpmodel.conf holds what is none",
    "unwritable": "list of paths: chmod a-w; means nothing to root, who may write all the same",
}
_TOOLS = ("nvpmodel", "jetson_clocks", "tegrastats")


def read_faults(root: Path) -> dict[str, Value]:
    """The faults that are set; empty without a file."""
    try:
        faults = json.loads((root / FAULTS).read_text())
    except (OSError, ValueError):
        return {}
    return faults if isinstance(faults, dict) else {}


def set_fault(root: Path, name: str, value: Value) -> None:
    """Set one fault of ``KNOWN``; ``None`` or ``False`` ends it.

    Those of readings and clocks need the daemon, which takes a moment; those of tools and
    files hold when this returns, and those of files change the tree: they cannot be ended.
    Raises UsageError for an unknown name, StorageError where the tree cannot be written.
    """
    if name not in KNOWN:
        raise UsageError(f"there is no fault {name!r}", fix=f"choose one of: {', '.join(KNOWN)}")
    faults = {key: old for key, old in read_faults(root).items() if key != name}
    if value is not None and value is not False:
        faults[name] = value
    fix = "give the root of a simulated board that can be written"
    with reported(StorageError, f"cannot set the fault {name!r}", where=str(root), fix=fix):
        _change_files(root, name, value)
        write_state(root / FAULTS, faults)


def write_state(path: Path, content: object) -> None:
    """Replace a file of the simulator's own, so that it is never read half written."""
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(content) + "\n")
    os.replace(fresh, path)  # noqa: PTH105


def set_load(root: Path, **shares: float) -> None:
    """How busy the board is, from 0 to 1: ``cpu`` (each core that is on), ``gpu``, ``memory``.

    Without it the CPUs are as busy as this machine's, and the GPU does nothing.
    """
    write_state(root / FAULTS.replace("faults", "load"), shares)


def _change_files(root: Path, name: str, value: Value) -> None:
    tool, _, what = name.rpartition("_")
    if what == "missing" and tool in _TOOLS:
        _hide_tool(root, tool, hidden=bool(value))
    elif name == "junk_conf" and value:
        conf = root / "etc/nvpmodel.conf"
        conf.write_bytes(conf.read_bytes()[:700] + b"\n< POWER_MODEL ID=x NAM\0\xff\xfe >\nMIN\n")
    elif name == "rail_missing" and value:
        _remove_rail(root, str(value))
    elif name == "labels_swapped" and value:
        _swap_labels(root, *value)
    elif name == "unwritable" and value:
        for path in value:
            file = root / str(path).lstrip("/")
            file.chmod(file.stat().st_mode & ~0o222)


def _hide_tool(root: Path, tool: str, *, hidden: bool) -> None:
    folder = "usr/sbin" if tool == "nvpmodel" else "usr/bin"
    place, attic = root / folder / tool, root / STATE / tool
    source, target = (place, attic) if hidden else (attic, place)
    if source.exists():
        source.rename(target)


def label_files(root: Path) -> dict[str, Path]:
    """Rail -> the file that holds its label."""
    globs = ("sys/devices/**/hwmon*/in[1-3]_label", "sys/devices/**/iio:device*/rail_name_*")
    return {file.read_text().strip(): file for glob in globs for file in sorted(root.glob(glob))}


def _label_file(root: Path, label: str) -> Path:
    files = label_files(root)
    if label not in files:
        raise UsageError(f"there is no rail {label!r}", fix=f"choose one of: {', '.join(files)}")
    return files[label]


def _remove_rail(root: Path, label: str) -> None:
    file = _label_file(root, label)
    number = int("".join(filter(str.isdigit, file.name)))
    globs: tuple[str, ...]
    if file.name.startswith("rail_name"):
        globs = (f"in_*{number}_input", f"*_limit_{number}", file.name)
    else:
        globs = (f"in{number}_*", f"curr{number}_*", f"shunt{number}_*", f"in{number + 3}_input")
    for glob in globs:
        for other in file.parent.glob(glob):
            other.unlink()


def _swap_labels(root: Path, first: str, second: str) -> None:
    files = {label: _label_file(root, label) for label in (first, second)}
    files[first].write_text(f"{second}\n")
    files[second].write_text(f"{first}\n")
