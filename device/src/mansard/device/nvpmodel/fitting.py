"""Whether a configuration is the module's own: modes that cannot be, and whose file it is.

A carrier's image can bring the nvpmodel.conf of another module. Its modes switch cores that are not
there, have names that the module's own file lacks, or cap the GPU where its kernel never gets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from mansard.core.hardware import (
    NAMED_MODES,
    Module,
    NamedMode,
    NamedModes,
    are_near_hz,
    boards_of,
)
from mansard.core.power_mode import plain_name
from mansard.core.records import PowerMode
from mansard.core.text import listed
from mansard.core.units import format_frequency
from mansard.device.nvpmodel.caps import find_path
from mansard.device.nvpmodel.sections import ModeSection, Param, RefusedMode, mode_name
from mansard.device.system import below, read_text

_REACHED = 1.05  # a cap that far above the kernel's highest clock belongs to another kernel
_SUPER = "maxnsuper"
_FEWEST_EQUAL = 2  # modes that identify the file's module: many modules have a MAXN without caps


class WrittenMode(msgspec.Struct, frozen=True):
    """A mode as the file has it, the CPUs that it switches on, and its section."""

    section: ModeSection
    mode: PowerMode  # without a board: cores by the file alone
    switched_on: tuple[int, ...]

    @property
    def name(self) -> str:
        """Without NVIDIA's ``MODE_``."""
        return mode_name(self.section.name)


class Fit(msgspec.Struct, frozen=True):
    """``refused``: modes that the module cannot have, and why. ``notes``: what else differs."""

    refused: tuple[RefusedMode, ...] = ()
    notes: tuple[str, ...] = ()


def fit_to_module(
    written: Sequence[WrittenMode],
    module: Module | None,
    soc: str | None,
    cpus: Sequence[int],
    highest_gpu_hz: float | None,
) -> Fit:
    """Which modes of a file are not those of ``module``.

    ``soc``: the chip that the file is for. ``cpus``: those of the board; ``highest_gpu_hz``: by its
    kernel. What is unknown refuses nothing.
    """
    whys = {mode.section.id: _misfit(mode, module, soc, cpus, highest_gpu_hz) for mode in written}
    refused = tuple(
        RefusedMode(mode.section.id, mode.name, why)
        for mode in written
        if (why := whys[mode.section.id])
    )
    notes = list(_notes(written, module, {mode.id for mode in refused}))
    if module is None:  # a file may serve boards of several sizes
        notes += [
            f"{mode.name} switches on {absent}, which this machine does not have: left out"
            for mode in written
            if (absent := _absent(mode, cpus))
        ]
    return Fit(refused, tuple(notes))


def read_highest_gpu_hz(root: Path | None, gpu: Param | None) -> float | None:
    """The highest clock of the GPU that the kernel lists where the file says; None without."""
    path = None if root is None or gpu is None else find_path(root, gpu, "FREQ_TABLE")
    if root is None or path is None:
        return None
    words = (read_text(below(root, path)) or "").split()
    return max((float(word) for word in words if word.isdecimal()), default=None)


def _misfit(
    written: WrittenMode,
    module: Module | None,
    soc: str | None,
    cpus: Sequence[int],
    highest_gpu_hz: float | None,
) -> str:
    """Why the mode cannot be set here; empty where it can."""
    if module is not None and soc is not None and soc != module.soc:
        return f"the file is for {soc}, and {module.name} is {module.soc}"
    if module is None:
        return ""
    if absent := _absent(written, cpus):
        return f"it switches on {absent}, and this machine has CPUs {_range(cpus)}"
    boards = boards_of(module)
    if boards and not any(_has(board, written.name) for board in boards):
        others = [board for board in NAMED_MODES if _find_equal(board, written)]
        if others:
            has = listed(list(dict.fromkeys(mode.name for board in boards for mode in board.modes)))
            return f"it is a mode of {_names(others)}; {module.name} has {has}"
    return _beyond_kernel(written, module, highest_gpu_hz)


def _absent(mode: WrittenMode, cpus: Sequence[int]) -> str:
    """The CPUs that a mode switches on and that are not there, in words."""
    return listed([f"cpu{cpu}" for cpu in mode.switched_on if cpus and cpu not in cpus])


def _beyond_kernel(mode: WrittenMode, module: Module, highest_hz: float | None) -> str:
    if highest_hz is None:
        return ""
    wanted_hz = mode.mode.gpu_hz
    if wanted_hz is None and plain_name(mode.name) == _SUPER:
        wanted_hz = module.super_gpu_hz
    if wanted_hz is None or wanted_hz <= _REACHED * highest_hz:
        return ""
    is_super = ": the file is of the Super configuration, the kernel not"
    return (
        f"its GPU clock is {format_frequency(wanted_hz)}, and the highest of this kernel is "
        f"{format_frequency(highest_hz)}{is_super if module.super_gpu_hz else ''}"
    )


def _notes(
    written: Sequence[WrittenMode], module: Module | None, refused: set[int]
) -> Iterator[str]:
    """Whose file it is, where it is another module's, and which of its modes differ."""
    boards = boards_of(module)
    if module is None or not boards:
        return
    n_own = max(_n_equal(board, written) for board in boards)
    others = [board for board in NAMED_MODES if board.module != module]
    n_other = max(_n_equal(board, written) for board in others)
    if n_other <= n_own or n_other < _FEWEST_EQUAL:
        return
    whose = [board for board in others if _n_equal(board, written) == n_other]
    yield (
        f"the file is that of {_names(whose)}, and this is {module.name} "
        f"({module.part_numbers[0]}): install the module's own nvpmodel.conf"
    )
    for ours in written:
        if ours.section.id not in refused and not any(_find_equal(board, ours) for board in boards):
            published = next((mode for board in boards if (mode := board.find(ours.name))), None)
            if published is not None:
                difference = _difference(ours, published)
                yield f"{ours.name} differs from that of {module.name}: {difference}"


def _has(board: NamedModes, name: str) -> bool:
    return any(plain_name(mode.name) == plain_name(name) for mode in board.modes)


def _n_equal(board: NamedModes, written: Sequence[WrittenMode]) -> int:
    return sum(_find_equal(board, mode) is not None for mode in written)


def _find_equal(board: NamedModes, ours: WrittenMode) -> NamedMode | None:
    """The board's mode of that name if it has the same caps and cores."""
    for mode in board.modes:
        if plain_name(mode.name) != plain_name(ours.name) or mode.n_cpus != ours.mode.n_cpus:
            continue
        caps = ((mode.gpu_hz, ours.mode.gpu_hz), (mode.memory_hz, ours.mode.memory_hz))
        if all(_is_near(*pair) for pair in (*caps, (mode.cpu_hz, ours.mode.cpu_hz))):
            return mode
    return None


def _is_near(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return are_near_hz(one, other)


def _difference(ours: WrittenMode, published: NamedMode) -> str:
    clocks = (("GPU", "gpu_hz"), ("EMC", "memory_hz"), ("CPU", "cpu_hz"))
    parts = [
        f"{name} {format_frequency(mine)} instead of {format_frequency(other)}"
        for name, field in clocks
        if (mine := getattr(ours.mode, field)) is not None
        and (other := getattr(published, field)) is not None
        and not _is_near(mine, other)
    ]
    if ours.mode.n_cpus != published.n_cpus:
        parts.append(f"{ours.mode.n_cpus} cores instead of {published.n_cpus}")
    return ", ".join(parts) or "another clock without a cap"


def _names(boards: Sequence[NamedModes]) -> str:
    shown = dict.fromkeys(f"{board.board} ({board.module.part_numbers[0]})" for board in boards)
    return listed(list(shown), "or")


def _range(cpus: Sequence[int]) -> str:
    ordered = sorted(cpus)
    is_row = ordered == list(range(ordered[0], ordered[-1] + 1))
    return f"{ordered[0]} to {ordered[-1]}" if is_row else ", ".join(map(str, ordered))
