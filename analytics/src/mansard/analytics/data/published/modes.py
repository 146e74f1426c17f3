"""Power modes of tables: settings that a table leaves out, and one name for each mode.

A table that says "15W" and no more means what ``nvpmodel`` sets in 15W: SMs, cores, clocks. What
the table says is never changed. The device's name tells the board. Where it may be one of several,
those count that have every mode the table names and contradict none of its numbers; a setting is
filled where all of them agree.

A table that says "MODE_15W" and one that says "15W" mean one mode, and so do two tables that give
it the same settings: ``core.hardware.find_mode`` decides. Two names in one table are two modes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from types import MappingProxyType

from mansard.analytics.data.names import display_name
from mansard.core.hardware import (
    CLOCKS,
    COUNTS,
    SETTINGS,
    KnownMode,
    Module,
    NamedModes,
    boards_called,
    contradict,
    find_mode,
)
from mansard.core.power_mode import plain_name
from mansard.core.records import (
    Processor,
    PublishedLayer,
    PublishedMode,
    PublishedRate,
    PublishedRun,
    with_known,
)
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
    """Modes completed from NVIDIA's table, by name, and a note on each addition."""

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
        matches = [match for board in boards if (match := board.find(name)) is not None]
        lacking = [setting for setting in wanted if getattr(mode, setting) is None]
        values = {setting: {getattr(match, setting) for match in matches} for setting in lacking}
        agreed = {
            setting: least
            for setting, options in values.items()
            if len(options) == 1 and (least := min(options)) is not None
        }
        filled[name] = with_known(mode, **agreed)
        if agreed:
            added.setdefault(tuple(agreed), []).append(name)
        for setting in lacking:
            if setting not in agreed and len(values[setting]) > 1:
                said = " or ".join(sorted(_text(setting, value) for value in values[setting]))
                disagreed.setdefault(_SETTINGS[setting], []).append(f"{name} {said}")
    return FilledModes(filled, tuple(_notes(device, boards, added, disagreed)))


def _different(boards: Iterable[NamedModes]) -> tuple[NamedModes, ...]:
    """Boards with distinct modes, the first of equals: the AGX Orin kit has the 64GB module's."""
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


_SHOWN = 5  # modes in a note
_MOST_ALIKE = 64  # where more modes have equal settings, none of them is chosen
Row = PublishedRate | PublishedRun | PublishedLayer
Table = dict[str, KnownMode]  # its modes by their names there


@dataclass(frozen=True)
class SameModes:
    """The common names of the modes of each table.

    ``names``: the common name, by table and name there. ``notes``: lines with reasons, by table.
    """

    names: Mapping[tuple[str, str], str] = field(default_factory=dict)
    notes: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(eq=False)
class _Mode:
    """A mode: its settings from all tables, its name in each, and why they are one mode."""

    known: KnownMode
    spelled: dict[str, str]
    why: str = ""


def find_same_modes(rows: Iterable[Row]) -> SameModes:
    """The modes of ``rows`` that have another name in another table of their device.

    NVIDIA's spelling wins, then the shortest, then the first in the alphabet.
    """
    devices: dict[tuple[str, Processor], dict[str, Table]] = {}
    for row in rows:
        tables = devices.setdefault((display_name(row.device), row.processor), {})
        modes, name = tables.setdefault(row.table_id, {}), row.mode.name
        settings = {key: getattr(row.mode, key) for key in SETTINGS}
        modes[name] = _with(modes.get(name, KnownMode(name)), settings)
    names: dict[tuple[str, str], str] = {}
    said: dict[str, dict[str, list[str]]] = {}  # by table and reason
    for (device, _), tables in devices.items():
        if len(tables) == 1:
            continue
        # Every board that the name may mean: two tables may be of two releases of JetPack.
        boards = boards_called(device)
        in_files = {mode.name for board in boards for mode in board.modes}
        for same in _modes(tables, boards):
            spellings = sorted(same.spelled.values(), key=lambda name: (len(name), name))
            taken = next((name for name in spellings if name in in_files), spellings[0])
            for table, name in same.spelled.items():
                if name != taken:
                    names[table, name] = taken
                    pair = f"{name} is {taken}"
                    said.setdefault(table, {}).setdefault(same.why, []).append(pair)
    return SameModes(names, {table: [*_lines(reasons)] for table, reasons in said.items()})


def _lines(reasons: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """A line for each reason."""
    for why, pairs in reasons.items():
        more = [f"{len(pairs) - _SHOWN:,} more"] if len(pairs) > _SHOWN else []
        yield f"{listed([*pairs[:_SHOWN], *more])}: {why}"


def _with(mode: KnownMode, settings: Mapping[str, float | None]) -> KnownMode:
    """``mode`` with its missing settings added."""
    known = {key: value for key, value in mode.settings.items() if value is not None}
    return KnownMode(mode.name, {**settings, **known})


def _modes(tables: Mapping[str, Table], boards: Sequence[NamedModes]) -> Sequence[_Mode]:
    """Each mode of one device, whatever the tables call it."""
    known_modes: list[_Mode] = []
    index: dict[object, dict[_Mode, None]] = {}  # a table may have thousands of modes
    for table, modes in tables.items():
        # Exact names come first, so that no other spelling takes their place.
        known = {mode.known.name for mode in known_modes}
        for name, mode in sorted(modes.items(), key=lambda pair: pair[0] not in known):
            same, why = _find(mode, index.get(_by_name(mode, boards), ()), table, boards)
            if same is None:
                near = [index.get(key, {}) for key in _near_settings(mode)]
                others = [
                    candidate for alike in near if len(alike) <= _MOST_ALIKE for candidate in alike
                ]
                same, why = _find(mode, others, table, boards)
            if same is None:
                same = _Mode(mode, {})
                known_modes.append(same)
            same.known = _with(same.known, mode.settings)
            same.spelled[table] = name
            same.why = why or same.why
            for key in (_by_name(same.known, boards), _by_settings(same.known)):
                index.setdefault(key, {})[same] = None
    return known_modes


def _find(
    mode: KnownMode, others: Iterable[_Mode], table: str, boards: Sequence[NamedModes]
) -> tuple[_Mode | None, str]:
    """The one of ``others`` that the mode of ``table`` is, and why; never two of one table."""
    usable = [
        other
        for other in dict.fromkeys(others)
        if table not in other.spelled and not contradict(mode.settings, other.known.settings)
    ]
    match = find_mode(mode, [candidate.known for candidate in usable], boards)
    if match is None:
        return None, ""
    return next(candidate for candidate in usable if candidate.known.name == match.name), match.why


def _near_settings(mode: KnownMode) -> Iterator[object]:
    """The keys under which there may be a mode with equal settings."""
    clocks, counts = _by_settings(mode)
    if not any(clocks):
        return
    steps = [(None,) if mhz is None else (mhz - 1, mhz, mhz + 1) for mhz in clocks]
    yield from ((near, counts) for near in product(*steps))


def _by_name(mode: KnownMode, boards: Sequence[NamedModes]) -> object:
    """Its name in NVIDIA's table of each board, else its plain name."""
    in_tables = tuple(match and match.name for match in (board.find(mode.name) for board in boards))
    return in_tables if any(in_tables) else plain_name(mode.name)


def _by_settings(mode: KnownMode) -> tuple[tuple[int | None, ...], tuple[float | None, ...]]:
    """Clocks in whole MHz, and counts."""
    clocks_hz = map(mode.settings.get, CLOCKS)
    clocks = tuple(None if hz is None else int(hz // 1e6) for hz in clocks_hz)
    return clocks, tuple(map(mode.settings.get, COUNTS))
