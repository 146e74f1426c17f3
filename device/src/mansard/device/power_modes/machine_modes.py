"""The modes that this machine can be set to.

A Jetson: those of its nvpmodel, and any combination of its clocks and cores. A graphics card:
power limits and locked clocks, where the user may set them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import msgspec

from mansard.core.errors import DeviceError, InputError, UsageError
from mansard.core.power_mode import mode_number, parse_custom_name, parse_modes
from mansard.core.records import MachineIdentity, PowerMode, with_known
from mansard.device.cards import (
    NO_LOCK,
    CardLimits,
    CardState,
    read_card,
    read_card_limits,
    setting_right,
)
from mansard.device.clocks.domains import Domain
from mansard.device.clocks.readback import read_mode
from mansard.device.clocks.settings import Clocks, find_clocks
from mansard.device.clocks.steps import as_taken
from mansard.device.identity import find_module
from mansard.device.nvpmodel.modes import BoardModes, read_modes
from mansard.device.nvpmodel.tool import query
from mansard.device.power_modes.custom_modes import SettableModes, split_pairs
from mansard.device.power_modes.settable import (
    CoreGroup,
    ModeChoices,
    Unit,
    ValueTable,
    format_amount,
    merge,
    read_amount,
)
from mansard.device.system import SYSTEM_ROOT

KEYS = ("power", "gpu", "emc")


class CardChoices(msgspec.Struct, frozen=True):
    """What of a card a grid may set."""

    tables: Mapping[str, ValueTable]

    @property
    def keys(self) -> tuple[str, ...]:
        """The power limit and the clocks."""
        return KEYS

    def table(self, key: str) -> ValueTable:
        """The values of one of ``keys``; raises UsageError where it cannot be set."""
        table = self.tables[key]
        if table.why_not:
            raise UsageError(
                f"{key} cannot be set on this card", fix=f"leave it out: {table.why_not}"
            )
        return table

    def reachable_hz(self, cpu_hz: float, n_cpus: int | None) -> float:
        """A card's mode leaves the CPU alone."""
        del n_cpus
        return cpu_hz


def card_choices(limits: CardLimits) -> CardChoices:
    """The tables of a card by its own limits."""
    return CardChoices(
        {
            "power": _power_table(limits),
            "gpu": _clock_table(limits.gpu_mhz, limits.unknown.get("gpu")),
            "emc": _clock_table(limits.memory_mhz, limits.unknown.get("memory")),
        }
    )


def _power_table(limits: CardLimits) -> ValueTable:
    if limits.least_mw is None or limits.most_mw is None:
        return ValueTable(why_not=limits.unknown.get("power", "it names no limits"), unit="W")
    return ValueTable((limits.least_mw / 1e3, limits.most_mw / 1e3), is_continuous=True, unit="W")


def _clock_table(steps_mhz: tuple[int, ...], why_not: str | None) -> ValueTable:
    if not steps_mhz:
        return ValueTable(why_not=why_not or "it lists no clocks")
    return ValueTable(tuple(mhz * 1e6 for mhz in steps_mhz))


_N_LIMITS = 5  # that "all" means, beside the default
_NAME_PART = re.compile(r"(power|gpu|emc)([0-9.]+(?:W|[kMG]?Hz))")
_CORES = re.compile(r"[0-9]+c")
_CPU = "clocks and cores of the CPU are left alone on a machine with a graphics card"
_SMS = "read by the kernels that run on the card"
_NO_DLA = "a graphics card has no DLA"


class CardModes:
    """What the first graphics card can be asked for."""

    def __init__(self, root: Path, machine: MachineIdentity) -> None:
        self._root = root
        self._n_cpus = len(machine.cpus)

    @cached_property
    def _state(self) -> CardState:
        self._require_here()
        return read_card()

    @cached_property
    def _limits(self) -> CardLimits:
        self._require_here()
        return read_card_limits()

    def _require_here(self) -> None:
        if self._root != SYSTEM_ROOT:
            raise DeviceError("NVML answers for this machine only", where=str(self._root))

    def present(self) -> PowerMode:
        """The card as it is."""
        try:
            limit_mw = self._state.power_limit_mw
            why = self._state.unknown.get("power_limit_mw", "")
        except DeviceError as error:
            limit_mw, why = None, str(error)
        limit_w = None if limit_mw is None else limit_mw / 1e3
        return self._mode("present", "present", limit_w, None, None, why)

    def available(self) -> tuple[PowerMode, ...]:
        """A few power limits from the least to the most, the default among them.

        Only the present state where the card names no limits.
        """
        try:
            least, most = self._limits.least_mw, self._limits.most_mw
        except DeviceError:
            return (self.present(),)
        if least is None or most is None:
            return (self.present(),)
        gap_w = (most - least) / 1e3 / (_N_LIMITS - 1)
        limits_w = {float(round(least / 1e3 + step * gap_w)) for step in range(1, _N_LIMITS - 1)}
        ends = (least, most, self._limits.default_mw)
        limits_w |= {limit / 1e3 for limit in ends if limit is not None}
        return tuple(self._custom(limit_w, None, None) for limit_w in sorted(limits_w))

    def notes(self) -> tuple[str, ...]:
        """The limit that holds now, what can be set, and which right that needs."""
        try:
            tables, limit_mw = self._choices.tables, self._state.power_limit_mw
        except DeviceError as error:
            return (f"the settings that the card accepts are unknown: {error}",)
        now = [] if limit_mw is None else [f"its power limit is {limit_mw / 1e3:g} W now"]
        ranges = [
            f"{key} from {format_amount(table.steps[0], table.unit)} to "
            f"{format_amount(table.steps[-1], table.unit)}"
            for key, table in tables.items()
            if not table.why_not
        ]
        reasons = [f"{key}: {table.why_not}" for key, table in tables.items() if table.why_not]
        right = setting_right() if ranges else ""
        return (
            *now,
            *([f"it takes {', '.join(ranges)}"] if ranges else []),
            *([f"it cannot be set: {'; '.join(reasons)}"] if reasons else []),
            *(
                [f"setting it needs root: {right}; looking and measuring it as it is do not"]
                * bool(right)
            ),
        )

    def named(self, name: str) -> PowerMode:
        """``power250W``, ``power250W_gpu1410MHz`` or ``2c``; raises UsageError."""
        if _CORES.fullmatch(name):
            return parse_modes(name, self._n_cpus)[0]  # the CPU beside the card is measured
        parts = [_NAME_PART.fullmatch(part) for part in name.split("_")]
        if not all(parts) or len({part[1] for part in parts if part}) < len(parts):
            raise UsageError(
                f"unknown power mode {name!r}",
                fix="write 'all', or power=250W, gpu=1410MHz, memory=1593MHz (some or all of them)",
            )
        return self._set({part[1]: part[2] for part in parts if part})

    def settings(self, text: str) -> tuple[PowerMode, ...]:
        """The modes of ``power=250W,gpu=1410MHz``, separated by ';'; raises UsageError."""
        parts = [part for part in text.split(";") if part.strip()]
        return tuple(self._set(split_pairs(part, KEYS)) for part in parts)

    def choices(self) -> CardChoices:
        """Power limits and clocks of the card; raises DeviceError where it cannot be asked."""
        return self._choices

    @cached_property
    def _choices(self) -> CardChoices:
        return card_choices(self._limits)

    def make(self, values: Mapping[str, float]) -> PowerMode:
        """The mode of these settings; a limit that is not among them stays as it is."""
        limit_mw = self._state.power_limit_mw
        limit_w = None if limit_mw is None else limit_mw / 1e3
        return self._custom(values.get("power", limit_w), values.get("gpu"), values.get("emc"))

    def _set(self, pairs: Mapping[str, str]) -> PowerMode:
        tables = {key: self.choices().table(key) for key in pairs}
        return self.make(
            {
                key: tables[key].require(key, read_amount(key, text, tables[key].unit))
                for key, text in pairs.items()
            }
        )

    def _custom(
        self, limit_w: float | None, gpu_hz: float | None, memory_hz: float | None
    ) -> PowerMode:
        units: tuple[tuple[str, float | None, Unit], ...] = (
            ("power", limit_w, "W"),
            ("gpu", gpu_hz, "Hz"),
            ("emc", memory_hz, "Hz"),
        )
        name = "_".join(
            f"{key}{format_amount(value, unit)}" for key, value, unit in units if value is not None
        )
        why = self._state.unknown.get("power_limit_mw", "")
        return self._mode(name, "card", limit_w, gpu_hz, memory_hz, why)

    def _mode(
        self,
        name: str,
        kind: str,
        limit_w: float | None,
        gpu_hz: float | None,
        memory_hz: float | None,
        why_no_limit: str,
    ) -> PowerMode:
        unknown = {"cpu_hz": _CPU, "dla_hz": _NO_DLA, "n_sms": _SMS}
        if limit_w is None:
            unknown["power_limit_w"] = why_no_limit
        clocks = {"gpu_hz": gpu_hz, "memory_hz": memory_hz}
        unknown |= {key: NO_LOCK for key, hz in clocks.items() if hz is None}
        return PowerMode(
            name=name,
            kind=kind,  # type: ignore[arg-type]  # "present" or "card"
            n_cpus=self._n_cpus,
            clusters=(),
            cpu_hz=None,
            gpu_hz=gpu_hz,
            memory_hz=memory_hz,
            dla_hz=None,
            n_sms=None,
            power_limit_w=limit_w,
            unknown=unknown,
        )


_NO_TABLE = "the kernel lists no frequency of it; choose one of the board's own modes by name"


class JetsonModes(SettableModes):
    """What a Jetson can be asked for."""

    @cached_property
    def _board(self) -> BoardModes:
        return read_modes(self._root)

    @cached_property
    def _clocks(self) -> Clocks:
        return find_clocks(self._root)

    def present(self) -> PowerMode:
        """The mode that the board is in, read back from its clocks.

        How much of the GPU is gated is known by the mode that nvpmodel says it is in.
        """
        mode = read_mode(self._root)
        try:
            named = self._board.find(query(self._root).name)
        except (DeviceError, InputError):
            return mode  # a board without nvpmodel, or a container without the tool
        if mode.n_sms is not None or named is None or named.mode.n_sms is None:
            return mode
        return with_known(mode, n_sms=named.mode.n_sms)

    def available(self) -> tuple[PowerMode, ...]:
        """Every mode of nvpmodel, in the order of its configuration, as this board takes it."""
        return tuple(
            as_taken(self._root, board_mode.mode, self._clocks) for board_mode in self._board.modes
        )

    def named(self, name: str) -> PowerMode:
        """``15W``, ``maxn``, ``MODE_30W`` or ``gpu612MHz_4c``; raises UsageError."""
        settings = parse_custom_name(name)
        if settings is not None:
            return self.custom(settings)
        board_mode = self._board.find(name)
        if board_mode is None:
            names = ", ".join(dict.fromkeys(mode.name for mode in self.available())) or "none"
            why = self._board.why_refused(name)
            raise UsageError(
                f"{self._board.where}: {why}"
                if why
                else f"unknown power mode {name!r}{self._numbered(name)}",
                fix=f"this board has {names}, or 'all' for every one",
            )
        return as_taken(self._root, board_mode.mode, self._clocks)

    def _numbered(self, name: str) -> str:
        """That a number is nvpmodel's for a mode, which is known here by its name."""
        number = mode_number(name)
        mode = None if number is None else self._board.by_id(number)
        return "" if mode is None else f" (nvpmodel's number of {mode.mode.name})"

    def read_choices(self) -> ModeChoices:
        """Cores and clocks as the kernel lists them, from the present mode on."""
        clocks = self._clocks
        # Not those of this process: cores that the present mode has off can be switched on.
        cpus = tuple(clocks.online) or self._cpus
        clusters = self._clusters(clocks, cpus)
        emc = clocks.emc
        top_hz = emc.top_hz(self._root) if emc is not None else None
        return ModeChoices(
            present=self.present(),
            cpus=cpus,
            clusters=clusters,
            cpu=merge(tuple(cluster.table for cluster in clusters)),
            gpu=_table(clocks.gpu),
            emc=self._listed(emc.domain if emc else None, "memory_hz", top_hz),
            dla=self._listed(clocks.dla[0] if clocks.dla else None, "dla_hz", None),
        )

    def _clusters(self, clocks: Clocks, cpus: tuple[int, ...]) -> tuple[CoreGroup, ...]:
        """All clusters; one that is wholly off shows no table and is taken to be like the first."""
        clusters = [CoreGroup(_ours(domain.cpus, cpus), _table(domain)) for domain in clocks.cpu]
        seen = {cpu for cluster in clusters for cpu in cluster.cpus}
        module = find_module(self._root)
        groups = [cluster.cpus for cluster in module.cpu_clusters] if module else []
        like = clusters[0].table if clusters else ValueTable(why_not=_NO_TABLE)
        for group in (*groups, cpus):
            off = tuple(cpu for cpu in _ours(group, cpus) if cpu not in seen)
            if off:
                clusters.append(CoreGroup(off, like))
                seen.update(off)
        with_cpus = [cluster for cluster in clusters if cluster.cpus]
        return tuple(sorted(with_cpus, key=lambda cluster: cluster.cpus))

    def _listed(self, domain: Domain | None, field: str, top_hz: float | None) -> ValueTable:
        """A clock's table; where the kernel has none, what the board's own modes set it to."""
        table = _table(domain)
        if domain is None or table.steps:
            return table
        settings_hz = {getattr(mode, field) for mode in self._modes_or_none()} | {top_hz}
        steps = tuple(sorted(hz for hz in settings_hz if hz))
        return ValueTable(steps) if steps else table

    def _modes_or_none(self) -> tuple[PowerMode, ...]:
        try:
            return self.available()
        except (DeviceError, InputError):
            return ()  # the clocks can be set without nvpmodel


def _ours(cpus: tuple[int, ...], ours: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(cpu for cpu in cpus if cpu in ours)


def _table(domain: Domain | None) -> ValueTable:
    # Whether it may be written is not asked here: a dry run needs no permission.
    if domain is None:
        return ValueTable(why_not="this board shows no such clock")
    if not domain.available_hz:
        return ValueTable(why_not=_NO_TABLE)
    return ValueTable(domain.available_hz, domain.is_continuous)
