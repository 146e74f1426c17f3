"""Graphics cards through NVML, by NVIDIA's own nvidia-ml-py where it is installed.

Which fields answer differs between cards, drivers and boards: Orin has only its name, AGX
Thor power and temperature but no clocks. So every field is tried by reading it, never
looked up. Source of functions and units (mW, mJ, °C, MHz): NVIDIA, NVML API Reference.
The energy counter exists from Volta on; it counts from the loading of the driver.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from mansard.core.errors import DeviceError
from mansard.core.records import PowerSample
from mansard.core.text import printable
from mansard.device.cards import as_text, load_nvml
from mansard.device.meters.meter import READS_POWER
from mansard.device.system import SYSTEM_ROOT


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """What one card answers; ``unknown`` has NVML's own words for each None."""

    index: int
    name: str | None
    power_w: float | None
    energy_j: float | None
    temperature_c: float | None
    gpu_clock_hz: float | None
    memory_clock_hz: float | None
    unknown: dict[str, str]


# field -> (function, further arguments by name, factor to our unit)
_FIELDS: dict[str, tuple[str, tuple[str, ...], float]] = {
    "power_w": ("nvmlDeviceGetPowerUsage", (), 1e-3),
    "energy_j": ("nvmlDeviceGetTotalEnergyConsumption", (), 1e-3),
    "temperature_c": ("nvmlDeviceGetTemperature", ("NVML_TEMPERATURE_GPU",), 1.0),
    "gpu_clock_hz": ("nvmlDeviceGetClockInfo", ("NVML_CLOCK_SM",), 1e6),
    "memory_clock_hz": ("nvmlDeviceGetClockInfo", ("NVML_CLOCK_MEM",), 1e6),
}


class NvmlMeter:
    """Power of each card that tells it, and its energy counter where it has one."""

    name = "NVML"
    boundary = "graphics cards"
    # NVML does not say how often it renews its counter: 20 to 100 ms have been seen. A reading that
    # is late against the step misplaces it; the sampler reads less often where that costs too much.
    period_s = 0.01
    pace_s = None

    def __init__(
        self, library: Any, cards: dict[str, tuple[int, bool, bool]], clock: Callable[[], float]
    ) -> None:
        self._nvml = library
        self._clock = clock
        self._fields = {rail: (power, energy) for rail, (_, power, energy) in cards.items()}
        self._handles = {
            rail: library.nvmlDeviceGetHandleByIndex(index) for rail, (index, _, _) in cards.items()
        }
        self.rails = tuple(cards)
        self.total_rule = f"sum of the graphics cards {', '.join(cards)}"

    def read(self) -> tuple[PowerSample, ...]:
        return tuple(self._read_card(rail) for rail in self.rails)

    def step_w(self, rail: str) -> float | None:  # noqa: ARG002
        return None

    def step_note(self, rail: str) -> str:  # noqa: ARG002
        return "NVML does not say: the smallest change seen stands for the step"

    def sensor(self, rail: str) -> str:
        return rail

    def _read_card(self, rail: str) -> PowerSample:
        has_power, has_energy = self._fields[rail]
        power_w = energy_j = None
        unknown = {} if has_energy else dict(READS_POWER)
        if not has_power:
            unknown["power_w"] = "the card counts energy only"
        before_s = after_s = self._clock()
        try:
            if has_energy:
                energy_j = _ask(self._nvml, self._handles[rail], "energy_j")
                after_s = self._clock()  # of the counter: power beside it is a mean
            if has_power:
                power_w = _ask(self._nvml, self._handles[rail], "power_w")
            if not has_energy:
                after_s = self._clock()
        except self._nvml.NVMLError as error:
            energy_j = power_w = None
            unknown = dict.fromkeys(("power_w", "energy_j"), f"NVML: {error}")
        return PowerSample(
            rail=rail,
            monotonic_s=(before_s + after_s) / 2,
            power_w=power_w,
            energy_j=energy_j,
            unknown=unknown,
        )


def open_nvml_meter(
    root: Path = SYSTEM_ROOT, clock: Callable[[], float] = time.monotonic
) -> tuple[NvmlMeter | None, str]:
    """The meter of all cards that tell power or energy, or None and the reason."""
    if root != SYSTEM_ROOT:
        return None, f"its library answers for this machine, not for the one under {root}"
    try:
        library = load_nvml()
        cards = read_cards(library)
    except DeviceError as error:
        return None, str(error)
    useful = {
        f"gpu{card.index}": (card.index, card.power_w is not None, card.energy_j is not None)
        for card in cards
        if card.power_w is not None or card.energy_j is not None
    }
    if useful:
        return NvmlMeter(library, useful, clock), ""
    if not cards:
        return None, "NVML shows no card; in a container, start it with access to the GPU"
    reasons = (f"{card.name or f'card {card.index}'}: {card.unknown['power_w']}" for card in cards)
    return None, f"no card tells its power ({'; '.join(reasons)})"


def read_cards(library: Any) -> tuple[Card, ...]:
    """Every card with every field that it answers now; raises DeviceError."""
    try:
        n_cards = library.nvmlDeviceGetCount()
    except library.NVMLError as error:
        raise DeviceError(f"NVML cannot count the cards: {error}") from error
    return tuple(_probe(library, index) for index in range(n_cards))


def _probe(library: Any, index: int) -> Card:
    values: dict[str, float | None] = dict.fromkeys(_FIELDS)
    unknown: dict[str, str] = {}
    name = None
    try:
        handle = library.nvmlDeviceGetHandleByIndex(index)
    except library.NVMLError as error:
        unknown = dict.fromkeys(("name", *_FIELDS), str(error))
    else:
        for field in _FIELDS:
            try:
                values[field] = _ask(library, handle, field)
            except library.NVMLError as error:
                unknown[field] = str(error)
            if values[field] == 0 and field in {"power_w", "energy_j"}:
                # A card that answers draws something: boards are known to say 0 instead.
                values[field], unknown[field] = None, "NVML says 0, which cannot be"
        try:
            name = printable(as_text(library.nvmlDeviceGetName(handle)))
        except library.NVMLError as error:
            unknown["name"] = str(error)
    return Card(index=index, name=name, unknown=unknown, **values)


def _ask(library: Any, handle: Any, field: str) -> float:
    function, arguments, factor = _FIELDS[field]
    value = getattr(library, function)(handle, *(getattr(library, name) for name in arguments))
    return float(value) * factor
