"""The modes of a graphics card: power limits and locked clocks, where the user may set them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import msgspec

from mansard.core.errors import DeviceError, UsageError
from mansard.core.power_mode import parse_modes
from mansard.core.records import MachineIdentity, PowerMode
from mansard.device.cards import (
    NO_LOCK,
    CardLimits,
    CardState,
    read_card,
    read_card_limits,
    setting_right,
)
from mansard.device.power_modes.custom_modes import split_pairs
from mansard.device.power_modes.settable import Unit, ValueTable, format_amount, read_amount
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
            return (f"what the card can be set to is not known: {error}",)
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
