"""Modes that set clocks and cores one by one: ``gpu=612MHz,cores=4`` and the mode it means."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import msgspec

from mansard.core.errors import UsageError
from mansard.core.power_mode import CLOCKS, ModeSettings, core_count_mode, custom_name
from mansard.core.records import CpuCluster, MachineIdentity, PowerMode
from mansard.core.units import format_frequency, parse_frequency
from mansard.device.power_modes.settable import (
    KEYS,
    CoreGroup,
    ModeChoices,
    ValueTable,
    WrittenValue,
    read_amount,
)

EXAMPLE = "gpu=612MHz,emc=2133MHz,cpu=1190MHz,cores=4"
_ALIASES = {"memory": "emc", "mem": "emc", "core": "cores", "cpus": "cores"}
_SM_KEYS = {"sm", "sms", "tpc", "tpcs"}
_SMS_FIXED = (
    "multiprocessors are gated by the board's own modes alone, before the GPU driver starts: "
    "choose one of them by name (mansard board modes shows the SMs of each)"
)


def is_settings(text: str) -> bool:
    """Whether ``text`` sets clocks or cores one by one."""
    return "=" in text


def split_names(text: str) -> tuple[str, ...]:
    """The names of a list with commas, each once; raises UsageError for an empty one."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    if "" in names:
        raise UsageError(f"there is an empty mode in {text!r}", fix="name each one")
    return names


def parse_settings(text: str) -> tuple[ModeSettings, ...]:
    """The settings of each mode in ``text``, separated by ';'; raises UsageError."""
    wanted = dict.fromkeys(parse_one(part) for part in text.split(";") if part.strip())
    return tuple(wanted)


def parse_one(text: str) -> ModeSettings:
    """The settings of one mode: ``key=value`` with commas between; raises UsageError."""
    pairs = split_pairs(text)
    cores = pairs.pop("cores", None)
    clocks = {key: parse_frequency(value) for key, value in pairs.items()}
    n_cpus = None if cores is None else int(read_amount("cores", cores, "cores").value)
    return ModeSettings(n_cpus=n_cpus, **clocks)


def split_pairs(text: str, keys: tuple[str, ...] = KEYS) -> dict[str, str]:
    """Keys and values of ``gpu=612MHz,cores=4``, each key once; raises UsageError."""
    pairs: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not value:
            raise UsageError(
                f"{part.strip()!r} is not a setting", fix=f"write key=value, such as {EXAMPLE}"
            )
        key = setting_key(name, keys)
        if key in pairs:
            raise UsageError(f"{key} is set twice in {text!r}", fix="keep one of them")
        pairs[key] = value
    return pairs


def setting_key(name: str, keys: tuple[str, ...] = KEYS) -> str:
    """The key that ``name`` stands for; raises UsageError that says what can be set."""
    key = name.strip().lower()
    if key in _SM_KEYS:
        raise UsageError(f"{name} cannot be set", fix=_SMS_FIXED)
    if key not in keys:
        key = _ALIASES.get(key, key)
    if key not in keys:
        raise UsageError(f"{name!r} is not a setting", fix=f"use {', '.join(keys)}")
    return key


_UNCAPPED = "left as it is: no cap can be read"


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """Exact settings; what is None stays as it is."""

    gpu_hz: float | None = None
    emc_hz: float | None = None
    cpu_hz: float | None = None
    dla_hz: float | None = None
    n_cpus: int | None = None


def resolve(settings: ModeSettings, choices: ModeChoices) -> Point:
    """The exact settings that were meant; raises UsageError that lists what is available."""
    n_cpus = settings.n_cpus
    if n_cpus is not None:
        choices.table("cores").require("cores", WrittenValue(float(n_cpus), 0.0, str(n_cpus)))
    clocks_hz = {
        f"{key}_hz": choices.table(key).require(
            key, WrittenValue(wanted.hz, wanted.slack_hz, wanted.text)
        )
        for key in CLOCKS
        if (wanted := getattr(settings, key)) is not None
    }
    point = Point(n_cpus=n_cpus, **clocks_hz)
    _check_reachable(point, choices)
    return point


def exact_point(values: Mapping[str, float]) -> Point:
    """The settings that the values of a grid's axes are, by their keys."""
    clocks = {f"{key}_hz": value for key, value in values.items() if key != "cores"}
    cores = values.get("cores")
    return Point(n_cpus=None if cores is None else int(cores), **clocks)


def custom_modes(text: str, choices: ModeChoices) -> tuple[PowerMode, ...]:
    """The modes of ``gpu=612MHz,cores=4``, separated by ';'; raises UsageError."""
    return tuple(
        custom_mode(resolve(settings, choices), choices) for settings in parse_settings(text)
    )


def _check_reachable(point: Point, choices: ModeChoices) -> None:
    """Raise UsageError for a clock that only a cluster has whose cores are off."""
    if point.cpu_hz is None:
        return
    tables = [cluster.table for cluster, _ in choices.on(point.n_cpus)]
    if not any(table.find(WrittenValue(point.cpu_hz)) for table in tables if table.steps):
        steps = tuple(sorted({step for table in tables for step in table.steps}))
        raise UsageError(
            f"none of the cores that are on has {format_frequency(point.cpu_hz)}",
            fix=f"switch more cores on; {ValueTable(steps).offer(point.cpu_hz)}",
        )


def custom_mode(point: Point, choices: ModeChoices) -> PowerMode:
    """The mode that ``point`` makes of the present one, under its canonical name."""
    present = choices.present
    n_cpus = point.n_cpus if point.n_cpus is not None else present.n_cpus
    if point == Point(n_cpus=point.n_cpus) and present.kind == "cores":
        return core_count_mode(n_cpus)  # a plain machine whose clocks are left alone
    clusters, cpu_hz = _cpu(point, choices)
    gpu_hz = point.gpu_hz if point.gpu_hz is not None else present.gpu_hz
    emc_hz = point.emc_hz if point.emc_hz is not None else present.memory_hz
    dla_hz = point.dla_hz if point.dla_hz is not None else present.dla_hz
    clocks = {"cpu_hz": cpu_hz, "gpu_hz": gpu_hz, "memory_hz": emc_hz, "dla_hz": dla_hz}
    missing = [name for name, hz in clocks.items() if hz is None]
    others = {name: why for name, why in present.unknown.items() if name not in clocks}
    return msgspec.structs.replace(
        present,
        # The name has the DLA's clock only if it was set: few modes differ in it.
        name=custom_name(n_cpus, gpu_hz=gpu_hz, emc_hz=emc_hz, cpu_hz=cpu_hz, dla_hz=point.dla_hz),
        # On a plain machine cores are used or not, never switched off, and clocks only capped.
        kind="cores" if present.kind == "cores" else "clocks",
        n_cpus=n_cpus,
        clusters=clusters,
        unknown={**others, **{name: present.unknown.get(name, _UNCAPPED) for name in missing}},
        **clocks,
    )


def _cpu(point: Point, choices: ModeChoices) -> tuple[tuple[CpuCluster, ...], float | None]:
    """The clusters that are on with their caps, and the cap of the fastest in Hz."""
    present = choices.present
    if point.cpu_hz is None and point.n_cpus is None:
        return present.clusters, present.cpu_hz
    clusters = tuple(
        _capped(cluster, cpus, point, present) for cluster, cpus in choices.on(point.n_cpus)
    )
    caps = [cluster.max_hz for cluster in clusters if cluster.max_hz is not None]
    return clusters, max(caps, default=None)


def _capped(
    cluster: CoreGroup, cpus: tuple[int, ...], point: Point, present: PowerMode
) -> CpuCluster:
    """A cluster that is on, with its cap; one that lacks the wanted clock takes the next below."""
    caps = [old.max_hz for old in present.clusters if set(old.cpus) & set(cluster.cpus)]
    if point.cpu_hz is None and caps:
        hz = caps[0]
    else:
        # A cluster that comes on takes the clock of the fastest that is on already.
        fastest = max((old.max_hz for old in present.clusters if old.max_hz), default=None)
        hz = point.cpu_hz if point.cpu_hz is not None else fastest
        if hz is not None and cluster.table.steps:
            hz = cluster.table.floor(hz)
    return CpuCluster(cpus=cpus, max_hz=hz, unknown={} if hz else {"max_hz": _UNCAPPED})


class SettableModes(ABC):
    """The part that a Jetson and a plain machine share: modes made of settings and grid points."""

    def __init__(self, root: Path, machine: MachineIdentity) -> None:
        self._root = root
        self._cpus = machine.cpus

    @abstractmethod
    def read_choices(self) -> ModeChoices:
        """Cores and clocks that can be set, from the present mode on."""

    @cached_property
    def _choices(self) -> ModeChoices:
        return self.read_choices()

    def choices(self) -> ModeChoices:
        """The same, read once."""
        return self._choices

    def notes(self) -> tuple[str, ...]:
        """No notes: a mode that names what cannot be set is refused with the reason."""
        return ()

    def custom(self, settings: ModeSettings) -> PowerMode:
        """The mode that these settings mean; raises UsageError."""
        return custom_mode(resolve(settings, self._choices), self._choices)

    def settings(self, text: str) -> tuple[PowerMode, ...]:
        """The modes of ``cpu=2GHz,cores=2``, separated by ';'; raises UsageError."""
        return custom_modes(text, self._choices)

    def make(self, values: Mapping[str, float]) -> PowerMode:
        """The mode that one point of a grid is."""
        return custom_mode(exact_point(values), self._choices)
