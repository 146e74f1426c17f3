"""Graphics cards through NVML: use, clocks, memory, temperature, fan, and why they slow down.

Source of functions, units (MHz, °C, per cent, bytes) and bits: NVIDIA, NVML API Reference, "Device
Queries" and nvmlClocksEventReasons. Each field is tried at every look; what a card does not tell is
unknown, in NVML's own words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from mansard.core.errors import DeviceError
from mansard.core.records import GpuNow, Limit, LimitCause, ZoneNow
from mansard.core.text import printable
from mansard.device.cards import as_text, card_handle, load_nvml, nvml_errors
from mansard.device.conditions.sources import (
    DRIVER_HEAT,
    HARDWARE,
    HARDWARE_HEAT,
    POWER_BRAKE,
    POWER_CAP,
)

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
        return now, zone, _limits(gpu, reasons or 0, celsius), fan


def _limits(gpu: str, reasons: int, celsius: float | None) -> tuple[Limit, ...]:
    """Of what the card says about its clocks that which slows it down."""
    at = "" if celsius is None else f" ({celsius:.0f} °C)"
    limits: list[Limit] = []
    for bit, cause, why in _REASONS:
        if not reasons & bit or (bit == HARDWARE and reasons & _SURER):
            continue
        words = f"{why}{at}" if cause == "thermal" else why
        # The power limit is a part of the mode: at it a card runs as its mode allows.
        is_throttling = bit != POWER_CAP
        limits.append(Limit(cause=cause, parts=(gpu,), is_throttling=is_throttling, why=words))
    return tuple(limits)
