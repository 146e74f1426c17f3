"""The modes of a Jetson: those of its nvpmodel, and any combination of its clocks and cores."""

from __future__ import annotations

from functools import cached_property

import msgspec

from mansard.core.errors import DeviceError, InputError, UsageError
from mansard.core.power_mode import mode_number, parse_custom_name
from mansard.core.records import PowerMode
from mansard.device.clocks.domains import Domain
from mansard.device.clocks.readback import read_mode
from mansard.device.clocks.settings import Clocks, find_clocks
from mansard.device.clocks.steps import as_taken
from mansard.device.identity import find_module
from mansard.device.nvpmodel.modes import BoardModes, read_modes
from mansard.device.nvpmodel.tool import query
from mansard.device.power_modes.custom_modes import SettableModes
from mansard.device.power_modes.settable import CoreGroup, ModeChoices, ValueTable, merge

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
        unknown = {name: why for name, why in mode.unknown.items() if name != "n_sms"}
        return msgspec.structs.replace(mode, n_sms=named.mode.n_sms, unknown=unknown)

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
