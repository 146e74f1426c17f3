"""One name for a power mode that several tables of one device spell apart.

A table that says "MODE_15W" and one that says "15W" mean one mode, and so do two tables that give
it the same settings: ``core.hardware.find_mode`` decides. Two names in one table are two modes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mansard.analytics.data.names import display_name
from mansard.core.hardware import (
    SETTINGS,
    KnownMode,
    NamedModes,
    boards_called,
    contradict,
    find_mode,
)
from mansard.core.records import Processor, PublishedLayer, PublishedRate, PublishedRun

Row = PublishedRate | PublishedRun | PublishedLayer
Table = dict[str, KnownMode]  # its modes by their names there


@dataclass(frozen=True)
class SameModes:
    """By table and name there what else a mode is called, and by table a line for each."""

    names: Mapping[tuple[str, str], str] = field(default_factory=dict)
    notes: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass
class _Mode:
    """What any table says of a mode, its name in each, and why the later ones are it."""

    known: KnownMode
    spelled: dict[str, str]
    why: str = ""


def find_same_modes(rows: Iterable[Row]) -> SameModes:
    """The modes of ``rows`` that have another name in another table of their device.

    Of the spellings NVIDIA's is taken, else the shortest, and of these the first in the alphabet.
    """
    devices: dict[tuple[str, Processor], dict[str, Table]] = {}
    for row in rows:
        tables = devices.setdefault((display_name(row.device), row.processor), {})
        modes, name = tables.setdefault(row.table_id, {}), row.mode.name
        said = {key: getattr(row.mode, key) for key in SETTINGS}
        modes[name] = _with(modes.get(name, KnownMode(name)), said)
    names: dict[tuple[str, str], str] = {}
    notes: dict[str, list[str]] = {}
    for (device, _), tables in devices.items():
        # All that the name may mean: two tables may be of two states of the board's software.
        boards = boards_called(device)
        in_files = {mode.name for board in boards for mode in board.modes}
        for found in _modes(tables, boards):
            spellings = sorted(found.spelled.values(), key=lambda name: (len(name), name))
            taken = next((name for name in spellings if name in in_files), spellings[0])
            for table, name in found.spelled.items():
                if name != taken:
                    names[table, name] = taken
                    notes.setdefault(table, []).append(f"{name} is {taken}: {found.why}")
    return SameModes(names, notes)


def _with(mode: KnownMode, said: Mapping[str, float | None]) -> KnownMode:
    """``mode`` with what it does not know yet."""
    known = {key: value for key, value in mode.settings.items() if value is not None}
    return KnownMode(mode.name, {**said, **known})


def _modes(tables: Mapping[str, Table], boards: Sequence[NamedModes]) -> Iterator[_Mode]:
    """Each mode of one device, whatever the tables call it."""
    found: list[_Mode] = []
    for table, modes in tables.items():
        others = list(found)  # of the tables before: each is one mode of this table at most
        # Names that have their letters there come first, so that no other takes their place.
        known = {mode.known.name for mode in others}
        for name, mode in sorted(modes.items(), key=lambda each: each[0] not in known):
            match = find_mode(mode, [each.known for each in others], boards)
            if match is None:
                found.append(_Mode(mode, {table: name}))
                continue
            same = next(
                each
                for each in others
                if each.known.name == match.name
                and not contradict(mode.settings, each.known.settings)
            )
            others.remove(same)
            same.known = _with(same.known, mode.settings)
            same.spelled[table] = name
            same.why = match.why or same.why
    yield from found
