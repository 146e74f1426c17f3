"""Settings that a table leaves out of NVIDIA's named modes, from the table of the board's modes.

A table that says "15W" and no more means what ``nvpmodel`` sets in 15W: SMs, cores, clocks. What
the table says is never changed. The device's name tells the board. Where it may be one of several,
those count that have every mode the table names and contradict none of its numbers; a setting is
filled where all of them agree.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from msgspec.structs import replace

from mansard.core.hardware import Module, NamedModes, boards_called
from mansard.core.records import Processor, PublishedMode, PublishedRate, PublishedRun
from mansard.core.text import listed
from mansard.core.units import format_frequency

SLACK = 1.02  # clocks are rounded in tables
_SETTINGS = MappingProxyType(
    {
        "n_sms": "SMs",
        "memory_hz": "EMC clock",
        "gpu_hz": "GPU clock",
        "cpu_hz": "CPU clock",
        "n_cpus": "cores",
    }
)
_OF_A_CPU = ("memory_hz", "cpu_hz", "n_cpus")


@dataclass(frozen=True)
class FilledModes:
    """Modes with what NVIDIA's table adds, by name, and a line for each thing that it did."""

    modes: Mapping[str, PublishedMode]
    notes: tuple[str, ...]


def fill_modes(
    device: str, processor: Processor, modes: Mapping[str, PublishedMode]
) -> FilledModes:
    """``modes`` of ``device``, by name, with the settings that NVIDIA's table of its board adds.

    Of a CPU the GPU's settings stay out.
    """
    named = boards_called(device)
    known = {name: mode for name, mode in modes.items() if any(b.find(name) for b in named)}
    boards = _different(
        board for board in named if all(_is_mode(mode, board, name) for name, mode in known.items())
    )
    if not known:
        return FilledModes(modes, ())
    if not boards:
        why = (
            f"the modes of {device} have names of NVIDIA's modes, and other GPU clocks, EMC clocks "
            "or SMs: what the table does not say of them stays unknown"
        )
        return FilledModes(modes, (why,))
    wanted = _OF_A_CPU if processor == "cpu" else tuple(_SETTINGS)
    filled = dict(modes)
    added: dict[tuple[str, ...], list[str]] = {}
    disagreed: dict[str, list[str]] = {}
    for name, mode in known.items():
        found = [each for board in boards if (each := board.find(name)) is not None]
        lacking = [setting for setting in wanted if getattr(mode, setting) is None]
        values = {setting: {getattr(each, setting) for each in found} for setting in lacking}
        agreed = {
            setting: least
            for setting, each in values.items()
            if len(each) == 1 and (least := min(each)) is not None
        }
        filled[name] = _filled(mode, agreed)
        if agreed:
            added.setdefault(tuple(agreed), []).append(name)
        for setting in lacking:
            if setting not in agreed and len(values[setting]) > 1:
                said = " or ".join(sorted(_text(setting, value) for value in values[setting]))
                disagreed.setdefault(_SETTINGS[setting], []).append(f"{name} {said}")
    return FilledModes(filled, tuple(_notes(device, boards, added, disagreed)))


def _different(boards: Iterable[NamedModes]) -> tuple[NamedModes, ...]:
    """Of boards with the same modes the first: the AGX Orin kit has those of the 64GB module."""
    kinds: dict[object, NamedModes] = {}
    for board in boards:
        kinds.setdefault(tuple(board.uncapped(mode) for mode in board.modes), board)
    return tuple(kinds.values())


def _is_mode(mode: PublishedMode, board: NamedModes, name: str) -> bool:
    """Whether ``board`` has the mode, and what the table says of GPU and memory is possible there.

    CPU clocks and cores do not count: tables give those that a program used.
    """
    its = board.find(name)
    return (
        its is not None
        and all(
            (getattr(mode, clock) or 0) <= SLACK * (getattr(its, clock) or math.inf)
            for clock in ("gpu_hz", "memory_hz")
        )
        and mode.n_sms in (None, its.n_sms)
    )


def _filled(mode: PublishedMode, values: Mapping[str, float]) -> PublishedMode:
    unknown = {name: why for name, why in mode.unknown.items() if name not in values}
    return replace(mode, **values, unknown=unknown)


def _notes(
    device: str,
    boards: Sequence[NamedModes],
    added: Mapping[tuple[str, ...], Sequence[str]],
    disagreed: Mapping[str, Sequence[str]],
) -> Iterator[str]:
    named = listed([board.board for board in boards], "or")
    for settings, names in added.items():
        what = listed([_SETTINGS[setting] for setting in settings])
        yield (
            f"{what} of {listed(names)} from NVIDIA's modes of {named}: the table does not say them"
        )
    if disagreed:
        what = "; ".join(f"{setting}: {', '.join(said)}" for setting, said in disagreed.items())
        yield (
            f"{device} may be {named}, which differ, so that these stay unknown: {what}; "
            "import it with the board's whole name as --device to have them filled"
        )


def _text(setting: str, value: float | None) -> str:
    if value is None:
        return "unknown"
    return f"{value:g}" if setting in {"n_sms", "n_cpus"} else format_frequency(value)


def filled_notes(
    rows: Sequence[PublishedRate | PublishedRun], module: Module | None
) -> tuple[str, ...]:
    """What is filled in the modes of one table, a line each.

    ``module``: that the table's figures were checked against. It fills nothing by itself, because
    the device's name alone is kept with the figures.
    """
    first = rows[0]
    if module is not None and not boards_called(first.device):
        return (
            f"{first.device!r} names no board of NVIDIA's: nothing that the table does not say of "
            f"its modes is filled; with --device {module.name!r} it would be",
        )
    modes = {row.mode.name: row.mode for row in rows}
    return fill_modes(first.device, first.processor, modes).notes
