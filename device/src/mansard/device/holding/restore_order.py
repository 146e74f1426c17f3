"""The order in which settings go back, so that the kernel takes each of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mansard.device.clocks.emc import LOCKS
from mansard.device.clocks.settings import read_setting
from mansard.device.holding.journal import FileFound

_PAIRS = {"scaling_max_freq": "scaling_min_freq", "max_freq": "min_freq"}
_FLOORS = {floor: ceiling for ceiling, floor in _PAIRS.items()}
_RATES = frozenset(lock.rate for lock in LOCKS)
_SWITCHES = frozenset(lock.switches[0] for lock in LOCKS)
_OTHER_SWITCHES = frozenset(path for lock in LOCKS for path in lock.switches[1:])


def in_order(root: Path, files: Sequence[FileFound]) -> list[FileFound]:
    """Cores on, governors, clocks (each so that its minimum never lies above its maximum), caps
    and the rest, the memory's rate before its lock is opened, cores off."""
    return sorted(files, key=lambda file: (_rank(file), _place_in_pair(root, file, files)))


def _rank(file: FileFound) -> int:
    name = file.path.rpartition("/")[2]
    if name == "online":
        return 0 if file.content.strip() == "1" else 9
    if name.endswith("governor"):
        return 1
    if name in _PAIRS or name in _FLOORS:
        return 2
    if file.path in _RATES:
        return 6
    if file.path in _SWITCHES:
        return 8
    return 7 if file.path in _OTHER_SWITCHES else 4


def _place_in_pair(root: Path, file: FileFound, files: Sequence[FileFound]) -> tuple[str, int]:
    """Of one clock the maximum goes first if it rises, else the minimum."""
    folder, _, name = file.path.rpartition("/")
    if name not in _PAIRS and name not in _FLOORS:
        return file.path, 0
    is_ceiling = name in _PAIRS
    ceiling = f"{folder}/{name if is_ceiling else _FLOORS[name]}"
    wanted = next((_number(one.content) for one in files if one.path == ceiling), None)
    present = _number(read_setting(root, ceiling) or "")
    is_lowered = wanted is not None and present is not None and wanted < present
    return folder, int(is_ceiling == is_lowered)


def _number(text: str) -> int | None:
    return int(text) if text.strip().isdecimal() else None
