"""When two names are one power mode: by spelling, NVIDIA's tables of the board, or settings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import msgspec

from mansard.core.hardware.named_modes import NamedModes, boards_called
from mansard.core.power_mode import plain_name

ROUNDED = 1.02  # clocks are rounded in tables, and to a board's own steps
_SAME_HZ = 1e6  # names and tables cut clocks to whole MHz
CLOCKS = ("gpu_hz", "memory_hz", "cpu_hz")
COUNTS = ("n_sms", "n_cpus", "power_limit_w")
SETTINGS = (*CLOCKS, *COUNTS)  # of a power mode, as records and frames name them
# The settings that identify a mode of a GPU and of a CPU; equal values of others prove nothing.
_TELLING = (("gpu_hz", "memory_hz"), ("cpu_hz", "n_cpus"))

Settings = Mapping[str, float | None]
_NOTHING: Settings = MappingProxyType({})


class KnownMode(msgspec.Struct, frozen=True):
    """A mode by its name and what is known of its ``settings``."""

    name: str
    settings: Settings = _NOTHING


class ModeMatch(msgspec.Struct, frozen=True):
    """The ``name`` of the matching mode and ``why`` it matches; empty if the names are equal."""

    name: str
    why: str

    def notes(self, asked: str) -> tuple[str, ...]:
        """That the mode ``asked`` for is this one, in a line; empty where it has its letters."""
        return (f"{asked} is {self.name}: {self.why}",) if self.why else ()


def find_mode(
    asked: KnownMode, known: Iterable[KnownMode], boards: Sequence[NamedModes] = ()
) -> ModeMatch | None:
    """The mode of ``known`` that ``asked`` names; None where none or several match.

    Modes match by name, by spelling, by NVIDIA's tables of the ``boards`` that the device may be,
    or by settings, in this order. Modes whose settings contradict each other never match.
    """
    usable = [mode for mode in known if not contradict(asked.settings, mode.settings)]
    for mode in usable:
        if mode.name == asked.name:
            return ModeMatch(mode.name, "")
    for mode in usable:
        if plain_name(mode.name) == plain_name(asked.name):
            return ModeMatch(mode.name, "the names differ in spelling alone")
    by_table = [mode for mode in usable if name_one_mode(asked.name, mode.name, boards)]
    if len(by_table) == 1:
        return ModeMatch(by_table[0].name, f"by NVIDIA's modes of {_shown(boards)}")
    by_settings = [mode for mode in usable if agree(asked.settings, mode.settings)]
    if len(by_settings) == 1:
        return ModeMatch(by_settings[0].name, "their clocks, cores and SMs are equal")
    return None


def name_one_mode(one: str, other: str, boards: Sequence[NamedModes]) -> bool:
    """Whether two names mean the same mode of each of ``boards`` that has one of them.

    So MAXN is MAXN_SUPER on an Orin Nano, and not on an Orin NX, which has both.
    """
    pairs = [(board.find(one), board.find(other)) for board in boards]
    pairs = [pair for pair in pairs if pair != (None, None)]
    return bool(pairs) and all(mine is not None and mine == its for mine, its in pairs)


def is_one_mode(one: str, other: str, device: str) -> bool:
    """Whether two names mean one mode of ``device``, by spelling or by NVIDIA's tables."""
    return plain_name(one) == plain_name(other) or name_one_mode(one, other, boards_called(device))


def contradict(one: Settings, other: Settings) -> bool:
    """Whether a setting that both know differs by more than clocks are rounded."""
    return any(
        mine is not None and its is not None and not _is_near(name, mine, its)
        for name in SETTINGS
        for mine, its in [(one.get(name), other.get(name))]
    )


def _is_near(name: str, mine: float, its: float) -> bool:
    return are_near_hz(mine, its) if name in CLOCKS else math.isclose(mine, its)


def are_near_hz(one_hz: float, other_hz: float) -> bool:
    """Whether two clocks differ by no more than tables and releases round them."""
    return max(one_hz, other_hz) <= ROUNDED * min(one_hz, other_hz)


def agree(one: Settings, other: Settings) -> bool:
    """Whether all settings that either knows are known of both and equal, and make a mode."""
    names = [name for name in SETTINGS if (one.get(name), other.get(name)) != (None, None)]
    if not any(set(telling) <= set(names) for telling in _TELLING):
        return False
    for name in names:
        mine, its = one.get(name), other.get(name)
        if mine is None or its is None:
            return False
        if abs(mine - its) >= (_SAME_HZ if name in CLOCKS else 1e-9):
            return False
    return True


def boards_with(boards: Sequence[NamedModes], modes: Iterable[KnownMode]) -> tuple[NamedModes, ...]:
    """Those of ``boards`` that have every one of ``modes`` that any board has; all if none does."""
    named = [mode for mode in modes if any(board.find(mode.name) for board in boards)]
    fitting = tuple(board for board in boards if all(board.find(mode.name) for mode in named))
    return fitting or tuple(boards)


def _shown(boards: Sequence[NamedModes]) -> str:
    return " or ".join(dict.fromkeys(board.board for board in boards))
