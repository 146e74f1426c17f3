"""What a look reads with state from look to look: cards through NVML, the power mode, energy.

Source of NVML's functions, units (MHz, °C, per cent, bytes) and bits: NVIDIA, NVML API Reference,
"Device Queries" and nvmlClocksEventReasons. Each field is tried at every look; what a card does not
answer is unknown, in NVML's own words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from mansard.core.errors import DeviceError, MansardError
from mansard.core.records import GpuNow, Limit, LimitCause, PowerMode, PowerSample, RailNow, ZoneNow
from mansard.core.text import printable
from mansard.device.cards import as_text, card_handle, load_nvml, nvml_errors
from mansard.device.conditions.sources import (
    DRIVER_HEAT,
    HARDWARE,
    HARDWARE_HEAT,
    POWER_BRAKE,
    POWER_CAP,
)
from mansard.device.meters.meter import Meter, Meters, silent
from mansard.device.nvpmodel.modes import BoardModes, read_modes
from mansard.device.nvpmodel.tool import STATUS_PATH, parse_status, query
from mansard.device.system import read_text
from mansard.device.totals import total_power

_Answer = TypeVar("_Answer")
# nvmlClocksEventReasons; idle (0x1) and clocks that were set (0x2, 0x100) slow nothing down.
_REASONS: tuple[tuple[int, LimitCause, str], ...] = (
    (DRIVER_HEAT, "thermal", "its driver slows it down: too hot"),
    (HARDWARE_HEAT, "thermal", "its hardware slows it down: too hot"),
    (HARDWARE, "thermal", "its hardware slows it down: heat, or a brake of the power supply"),
    (POWER_BRAKE, "power", "the power supply asks it to slow down (power brake)"),
    (POWER_CAP, "power", "it is at its power limit"),
)
_SURER = DRIVER_HEAT | HARDWARE_HEAT | POWER_BRAKE  # than HARDWARE, which is set beside them


class CardsNow(msgspec.Struct, frozen=True):
    """What all cards tell at one look."""

    gpus: tuple[GpuNow, ...]
    zones: tuple[ZoneNow, ...]
    limits: tuple[Limit, ...]
    fan_drive_share: float | None


NO_CARDS = CardsNow((), (), (), None)


class Cards:
    """The cards of this machine; none where NVML does not answer, with ``why_not``."""

    def __init__(self) -> None:
        self.why_not = ""
        self._handles: list[Any] = []
        try:
            self._nvml = load_nvml()
            n_cards = self._nvml.nvmlDeviceGetCount()
            self._handles = [card_handle(self._nvml, index, None) for index in range(n_cards)]
        except DeviceError as error:
            self.why_not = str(error)
        except self._nvml.NVMLError as error:
            self.why_not = f"NVML cannot count the cards: {error}"

    def read(self) -> CardsNow:
        """One look at every card; never raises."""
        readings = [self._read(f"gpu{at}", handle) for at, handle in enumerate(self._handles)]
        drives = [fan for _, _, _, fan in readings if fan is not None]
        return CardsNow(
            tuple(gpu for gpu, _, _, _ in readings),
            tuple(zone for _, zone, _, _ in readings),
            tuple(limit for _, _, limits, _ in readings for limit in limits),
            max(drives, default=None),
        )

    def _read(self, gpu: str, card: Any) -> tuple[GpuNow, ZoneNow, tuple[Limit, ...], float | None]:
        nvml, unknown, zone_unknown = self._nvml, dict[str, str](), dict[str, str]()

        def ask(
            field: str, function: Callable[[], _Answer], reasons: dict[str, str] = unknown
        ) -> _Answer | None:
            try:
                return function()
            except nvml_errors(nvml) as error:
                reasons[field] = f"NVML: {str(error).lower()}"
                return None

        name = ask("name", lambda: printable(as_text(nvml.nvmlDeviceGetName(card)), 80))
        use = ask("busy_share", lambda: nvml.nvmlDeviceGetUtilizationRates(card).gpu / 100)
        clock = ask("clock_hz", lambda: nvml.nvmlDeviceGetClockInfo(card, nvml.NVML_CLOCK_SM) * 1e6)
        cap = ask("cap_hz", lambda: nvml.nvmlDeviceGetMaxClockInfo(card, nvml.NVML_CLOCK_SM) * 1e6)
        memory = ask("memory_used_bytes", lambda: nvml.nvmlDeviceGetMemoryInfo(card))
        if memory is None:
            unknown["memory_total_bytes"] = unknown["memory_used_bytes"]
        celsius = ask(
            "temperature_c",
            lambda: float(nvml.nvmlDeviceGetTemperature(card, nvml.NVML_TEMPERATURE_GPU)),
            zone_unknown,
        )
        trip = ask(
            "trip_c",
            lambda: float(
                nvml.nvmlDeviceGetTemperatureThreshold(
                    card, nvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
                )
            ),
            zone_unknown,
        )
        reasons = ask("", lambda: int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(card)), {})
        fan = ask("", lambda: nvml.nvmlDeviceGetFanSpeed(card) / 100, {})
        now = GpuNow(
            gpu=gpu,
            name=name,
            busy_share=use,
            clock_hz=clock,
            cap_hz=cap,
            memory_used_bytes=None if memory is None else int(memory.used),
            memory_total_bytes=None if memory is None else int(memory.total),
            unknown=unknown,
        )
        zone = ZoneNow(zone=gpu, temperature_c=celsius, trip_c=trip, unknown=zone_unknown)
        return now, zone, _limits(zone, reasons or 0), fan


# An H100 whose driver slowed it down had 66 to 79 °C, and a limit of 89 °C: NVML's reason holds for
# the temperature of the memory too (nvmlClocksEventReasons, SwThermalSlowdown).
_FAR_BELOW_C = 5.0


def _limits(zone: ZoneNow, reasons: int) -> tuple[Limit, ...]:
    """Of what the card says about its clocks that which slows it down."""
    celsius, trip_c, parts = zone.temperature_c, zone.trip_c, (zone.zone,)
    at = "" if celsius is None else f" ({celsius:.0f} °C)"
    if celsius is not None and trip_c is not None and celsius < trip_c - _FAR_BELOW_C:
        at = f" (the GPU has {celsius:.0f} of {trip_c:.0f} °C; its memory may be hotter)"
    limits: list[Limit] = []
    for bit, cause, why in _REASONS:
        if not reasons & bit or (bit == HARDWARE and reasons & _SURER):
            continue
        words = f"{why}{at}" if cause == "thermal" else why
        # The power limit is a part of the mode: at it a card runs as its mode allows.
        is_throttling = bit != POWER_CAP
        limits.append(Limit(cause=cause, parts=parts, is_throttling=is_throttling, why=words))
    return tuple(limits)


_ASK_TOOL_S = 30.0  # between two calls of nvpmodel, where its notes cannot be read


class ModeReader:
    """The power mode by nvpmodel's notes; by the tool where those cannot be read."""

    def __init__(self, root: Path, clock: Callable[[], float]) -> None:
        self._root, self._clock = root, clock
        self._notes = root / STATUS_PATH.lstrip("/")
        self._asked_s: float | None = None
        self._name: str | None = None
        self.mode: PowerMode | None = None  # what it sets, where its configuration says
        self.why_not = ""
        self._modes: BoardModes | None = None
        try:
            self._modes = read_modes(root)
        except MansardError as error:
            self.why_not = str(error)

    def read(self) -> str | None:
        """Its name; None where it is not known, with ``why_not``."""
        number = parse_status(read_text(self._notes) or "")
        mode = self._modes.by_id(number) if self._modes is not None and number is not None else None
        if mode is not None:
            self._name, self.mode = mode.mode.name, mode.mode
        else:
            self._ask()
        return self._name

    def _ask(self) -> None:
        now_s = self._clock()
        if self._asked_s is not None and now_s - self._asked_s < _ASK_TOOL_S:
            return
        self._asked_s = now_s
        try:
            self._name = query(self._root).name
        except MansardError as error:
            self._name, self.mode, self.why_not = None, None, str(error)
            return
        named = self._modes.find(self._name) if self._modes is not None else None
        self.mode = named.mode if named is not None else None


TWO_LOOKS = "it needs two samples"
LONGEST_PAUSE_S = 30.0  # over which a trapezoid is drawn; looks further apart need more


class PowerNow(msgspec.Struct, frozen=True, kw_only=True):
    """All rails, and the board's total; ``why_not`` where that has no power."""

    rails: tuple[RailNow, ...]
    power_w: float | None
    energy_j: float | None
    why_not: str
    unmetered_s: float


class RunningEnergy:
    """Adds up the energy of rails: a counter's difference, or a trapezoid of power.

    Over a pause a counter goes on; a trapezoid would be invented, so the pause is counted instead.
    """

    def __init__(self, meters: Meters, longest_pause_s: float = LONGEST_PAUSE_S) -> None:
        self._meters, self._longest_pause_s = meters, longest_pause_s
        self._last: dict[str, PowerSample] = {}
        self._energies_j: dict[str, float] = {}
        self._unmetered_s: dict[str, float] = {}

    def read(self, now_s: float) -> PowerNow:
        """One reading of every meter; never raises."""
        rails = tuple(
            self._take(sample)
            for meter in self._meters.found
            for sample in _read_meter(meter, now_s)
        )
        power_w, energy_j, why_not = self._total(rails)
        return PowerNow(
            rails=rails,
            power_w=power_w,
            energy_j=energy_j,
            why_not=why_not,
            unmetered_s=max(self._unmetered_s.values(), default=0.0),
        )

    def _take(self, sample: PowerSample) -> RailNow:
        rail, power_w, unknown = sample.rail, sample.power_w, dict[str, str]()
        last = self._last.get(rail)
        if power_w is None and sample.energy_j is None:
            why = sample.unknown["power_w"]
            energy_j = self._energies_j.get(rail)
            unknown = (
                {"power_w": why} if energy_j is not None else {"power_w": why, "energy_j": why}
            )
            return RailNow(rail=rail, power_w=None, energy_j=energy_j, unknown=unknown)
        self._last[rail] = sample
        self._energies_j.setdefault(rail, 0.0)
        if last is not None:
            power_w = self._add(last, sample)
        if power_w is None:
            unknown = {"power_w": f"the meter counts energy: {TWO_LOOKS}"}
        return RailNow(
            rail=rail,
            power_w=None if power_w is None else round(power_w, 6),
            energy_j=round(self._energies_j[rail], 6),
            unknown=unknown,
        )

    def _add(self, last: PowerSample, now: PowerSample) -> float | None:
        """Add the energy since ``last``; returns the power now."""
        rail, seconds = now.rail, now.monotonic_s - last.monotonic_s
        if now.energy_j is not None and last.energy_j is not None:
            added_j = now.energy_j - last.energy_j
            if added_j < 0:  # the driver was loaded anew, and counts from 0 again
                self._pause(rail, seconds)
                return now.power_w
            self._energies_j[rail] += added_j
            mean_w = added_j / seconds if seconds > 0 else None
            return mean_w if now.power_w is None else now.power_w
        if now.power_w is not None and last.power_w is not None:
            if seconds <= self._longest_pause_s:
                self._energies_j[rail] += (now.power_w + last.power_w) / 2 * seconds
            else:
                self._pause(rail, seconds)
        return now.power_w

    def _pause(self, rail: str, seconds: float) -> None:
        self._unmetered_s[rail] = self._unmetered_s.get(rail, 0.0) + seconds

    def _total(self, rails: Iterable[RailNow]) -> tuple[float | None, float | None, str]:
        meters = self._meters
        if meters.total is None:
            missing = "; ".join(f"{name}: {why}" for name, why in meters.missing.items())
            return None, None, missing if not meters.found and missing else meters.why_no_total
        powers_w = {rail.rail: rail.power_w for rail in rails}
        why = {rail.rail: rail.unknown.get("power_w", "") for rail in rails}
        steps_w = {
            rail: step_w
            for meter in meters.found
            for rail in meter.rails
            if (step_w := meter.step_w(rail)) is not None
        }
        total = total_power(powers_w, meters.total, steps_w, why)
        energies_j = [self._energies_j.get(rail) for rail in meters.total.rails]
        known_j = [energy_j for energy_j in energies_j if energy_j is not None]
        if total.power_w is None:
            return None, None, total.reason
        whole_j = round(sum(known_j), 6) if len(known_j) == len(energies_j) else None
        return round(total.power_w, 6), whole_j, ""


def _read_meter(meter: Meter, now_s: float) -> tuple[PowerSample, ...]:
    try:
        return meter.read()
    except DeviceError as error:
        return tuple(silent(rail, now_s, str(error)) for rail in meter.rails)
