"""The settings that make a power mode: their values when it was set, and which have changed.

Clocks, cores, governors and caps are the settings that Mansard or the board's tools may change
(``find_settings``); the number of the mode stands in nvpmodel's own notes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from pathlib import Path

import msgspec

from mansard.core.errors import DeviceError
from mansard.core.text import listed, printable
from mansard.device.clocks.readback import is_same
from mansard.device.clocks.settings import Clocks, find_clocks, find_settings, real_path
from mansard.device.nvpmodel.tool import STATUS_PATH
from mansard.device.system import read_text

_SHOWN_CHARACTERS = 40  # of a shown value
_CORE = re.compile(r".*/cpu([0-9]{1,4})/online")
_OF_CORE = re.compile(r".*/cpu([0-9]{1,4})/.*")
_CAP = re.compile(r".*max_freq")


class SettingChange(msgspec.Struct, frozen=True):
    """A setting by the board's path: what it was in the mode, and what it is."""

    path: str
    was: str
    now: str | None  # None: it is gone, or cannot be read any more


class SettingsInForce(msgspec.Struct, frozen=True):
    """What each setting was while the mode was in force, by the board's path."""

    files: dict[str, Path]
    values: dict[str, str]

    def changes(self) -> tuple[SettingChange, ...]:
        """The settings whose value has changed; never raises.

        Outside /sys a file is empty for a moment while it is written: that is not a change.
        """
        present = ((path, was, read_text(self.files[path])) for path, was in self.values.items())
        return tuple(
            SettingChange(path, was, now)
            for path, was, now in present
            if now is None or (now and not is_same(now, was))
        )

    def losses(self, *, is_throttled: bool) -> tuple[str, ...]:
        """How the machine has left the mode, in sentences; empty if it has not.

        A machine that is too hot lowers its caps by itself and raises them again: it is still in
        the mode.
        """
        changes = self.changes()
        if is_throttled:
            changes = tuple(change for change in changes if not _is_lowered_cap(change))
        return describe(changes)


def find_mode_settings(root: Path, clocks: Clocks | None = None) -> SettingsInForce:
    """The settings of the machine as they are now; those that cannot be read are left out."""
    clocks = clocks or find_clocks(root)
    emc = clocks.emc
    reading = None
    if emc is not None and emc.lock is not None and emc.locked_hz(root) is None:
        reading = emc.lock.rate  # it sets the memory's clock only where that is locked
    files = {path: real_path(root, path) for path in find_settings(root, clocks) if path != reading}
    files[STATUS_PATH] = root / STATUS_PATH.lstrip("/")
    values = {path: read_text(file) for path, file in files.items()}
    readable = {path: text for path, text in values.items() if text}
    return SettingsInForce({path: files[path] for path in readable}, readable)


def mode_lost(mode: str, losses: Iterable[str]) -> DeviceError:
    """The error for a machine that leaves ``mode`` while trials are measured."""
    return DeviceError(
        f"the machine has left power mode {printable(mode)}: {'; '.join(losses)}; what was "
        "measured since is not kept",
        fix="stop what sets it (nvpmodel, jtop, jetson_clocks); the same command measures the rest",
    )


def describe(changes: Collection[SettingChange], written: Collection[str] = ()) -> tuple[str, ...]:
    """``changes`` and settings that were ``written`` meanwhile, in sentences; empty: none."""
    switched = {
        int(core[1]): change for change in changes if (core := _CORE.fullmatch(change.path))
    }
    kinds: dict[str, list[SettingChange]] = {"power mode": [], "governor": [], "setting": []}
    for change in changes:
        core = _OF_CORE.fullmatch(change.path)
        if core is None or int(core[1]) not in switched:  # the files of a core come and go with it
            is_governor = change.path.endswith("governor")
            kind = "governor" if is_governor else "setting"
            kinds["power mode" if change.path == STATUS_PATH else kind].append(change)
    lines = []
    for how, is_on in (("off", False), ("on", True)):
        cores = [str(core) for core in sorted(switched) if (switched[core].now == "1") == is_on]
        if cores:
            names = f"core {cores[0]} was" if len(cores) == 1 else f"cores {listed(cores)} were"
            lines.append(f"{names} switched {how}")
    lines += [f"another {kind}: {_shown(of_kind)}" for kind, of_kind in kinds.items() if of_kind]
    unseen = sorted({*written} - {change.path for change in changes})
    if unseen:
        lines.append(f"another program wrote {printable(unseen[0])}{_and_more(len(unseen))}")
    return tuple(lines)


def _shown(changes: Collection[SettingChange]) -> str:
    first = min(changes, key=lambda change: change.path)
    now = "gone" if first.now is None else printable(first.now, _SHOWN_CHARACTERS)
    was = printable(first.was, _SHOWN_CHARACTERS) or "empty"
    return f"{printable(first.path)} is {now}, it was {was}{_and_more(len(changes))}"


def _and_more(n_changed: int) -> str:
    return "" if n_changed == 1 else f" (and {n_changed - 1} more)"


def _is_lowered_cap(change: SettingChange) -> bool:
    now, was = change.now or "", change.was
    is_cap = _CAP.fullmatch(change.path) is not None
    return is_cap and now.isdecimal() and was.isdecimal() and int(now) < int(was)
