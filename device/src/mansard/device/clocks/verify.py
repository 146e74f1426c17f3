"""Whether what was set is what the machine now says, and who may have changed it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from mansard.core.errors import DeviceError
from mansard.core.records import PowerMode
from mansard.device.clocks.domain import Domain
from mansard.device.clocks.nodes import Clocks
from mansard.device.clocks.readback import differences
from mansard.device.clocks.settings import read_setting
from mansard.device.clocks.steps import Write
from mansard.device.clocks.targets import floor
from mansard.device.system import glob, read_text

_SLACK = 1e-3  # a rate that the boot processor computes is not round; steps are 2 % and more
# Not nvfancontrol: it drives the fan and sets no clocks; without it a board overheats.
_MEDDLERS = ("nvpmodel", "jtop", "jetson_clocks", "thermald", "tuned", "nvpower")


def check_writes(root: Path, writes: Sequence[Write], clocks: Clocks, *, is_settled: bool) -> None:
    """Read every setting back; raises DeviceError that says wanted, found and available.

    ``is_settled``: it was right at once, so that another value now is somebody else's doing.
    """
    what = "it was set, and something has set it back" if is_settled else "the kernel made it that"
    last = {write.path: write for write in writes}
    for write in last.values():
        found = (read_setting(root, write.path) or "").strip()
        if not _is_equal(found, write.value):
            domain = _domain_of(clocks, write.path)
            raise DeviceError(
                f"{write.why}: wanted {write.value}, found {found or 'nothing'}; {what}"
                f"{_available(domain)}",
                where=write.path,
                fix=_remedy(root),
            )


def _is_equal(found: str, wanted: str) -> bool:
    if found == wanted:
        return True
    if not (found.isdecimal() and wanted.isdecimal()):
        return False
    return int(wanted) > 1 and abs(int(found) - int(wanted)) <= _SLACK * int(wanted)


def _domain_of(clocks: Clocks, path: str) -> Domain | None:
    for domain in clocks.domains():
        if path in {domain.max_path, domain.min_path, domain.cur_path}:
            return domain
    return None


def _available(domain: Domain | None) -> str:
    if domain is None or not domain.available_hz:
        return ""
    unit_hz = domain.unit_hz
    listed = ", ".join(str(round(hz / unit_hz)) for hz in domain.available_hz)
    return f"; available are {listed}"


def _remedy(root: Path) -> str:
    names = {read_text(path) for path in glob(root / "proc", "[0-9]*/comm")}
    running = [name for name in _MEDDLERS if name in names]
    if running:
        return f"these are running and set clocks: {', '.join(running)}; stop them and try again"
    return "thermal throttling, jtop or another tool sets it; let the board cool"


def check_caps(mode: PowerMode, found: PowerMode, clocks: Clocks) -> None:
    """Whether a mode that nvpmodel has set is in force; raises DeviceError.

    Its caps may lie between two frequencies: the lower of them is right.
    """
    lines = differences(_as_available(mode, clocks), found)
    if lines:
        raise DeviceError(
            f"power mode {mode.name} is not in force: {'; '.join(lines)}",
            fix="thermal throttling, jtop or another tool may hold it down; let the board cool",
        )


def _as_available(mode: PowerMode, clocks: Clocks) -> PowerMode:
    def lower(domain: Domain | None, hz: float | None) -> float | None:
        return floor(domain, hz) if domain is not None and hz is not None else hz

    clusters = [one for one in clocks.cpu if mode.cpu_hz is not None]
    fastest = max((floor(one, mode.cpu_hz or 0) for one in clusters), default=mode.cpu_hz)
    return msgspec.structs.replace(
        mode,
        cpu_hz=fastest,
        gpu_hz=lower(clocks.gpu, mode.gpu_hz),
        memory_hz=lower(clocks.emc.domain if clocks.emc else None, mode.memory_hz),
    )
