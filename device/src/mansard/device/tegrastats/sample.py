"""One line of tegrastats in SI units: W, Hz, bytes, °C; shares of time in percent, as printed.

tegrastats prints MB and kB of 1024: an Orin Nano's 7620MB are the 7.4 GiB that ``free`` shows.
Clocks are printed in MHz; a bare number behind an engine is its clock ("NVENC clock in MHz":
NVIDIA, Jetson Linux Developer Guide, "tegrastats Utility", Reported Statistics).

``as_line`` puts a look at a board into this form, so that one summary serves both.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Literal

import msgspec

from mansard.core.records import BoardSample

OFFLINE = "offline: the sensor's domain is off (printed as -256C)"
NOT_PRINTED = "this release prints no maximum"

Shape = tuple[tuple[str, str, str], ...]  # kind, name as written, detail of the spelling


class Usage(msgspec.Struct, frozen=True, gc=False):
    """Memory in use, of all there is; ``unit`` is the spelling, MB or kB."""

    used_bytes: int
    total_bytes: int
    unit: str


class FreeBlocks(msgspec.Struct, frozen=True, gc=False):
    """The largest free block (lfb) and how many of it there are; IRAM prints no count."""

    n_blocks: int | None
    block_bytes: int
    unit: str


class MemoryAmount(msgspec.Struct, frozen=True, gc=False):
    """Memory of one kind: what of SWAP is cached."""

    size_bytes: int
    unit: str


class Cpu(msgspec.Struct, frozen=True, gc=False):
    """One core. ``elided``: the copied line has "..." for this and further cores."""

    state: Literal["on", "off", "elided"]
    load_percent: float | None
    clock_hz: int | None


class EngineLoad(msgspec.Struct, frozen=True, gc=False):
    """A memory controller, GPU, DLA, codec or other engine, under its name in the line.

    ``clocks_hz`` has one clock for each graphics cluster (GPC) where the line has a list.
    """

    name: str
    is_on: bool
    load_percent: float | None
    clocks_hz: tuple[int, ...]
    spelling: Literal["", "@", "@["]  # before the clocks: 716, @716 or @[716,716]

    @property
    def clock_hz(self) -> int | None:
        """The fastest of the clocks; None where the line has none."""
        return max(self.clocks_hz, default=None)


class Temperature(msgspec.Struct, frozen=True, gc=False):
    """One sensor; ``unknown`` has the reason of each None."""

    name: str
    celsius: float | None
    maximum_celsius: float | None
    unknown: dict[str, str]


class Rail(msgspec.Struct, frozen=True, gc=False):
    """Power of one rail now, averaged since tegrastats began, and its maximum (from r39).

    None: the line has no such number. Thor prints negative power for a GPU that is idle.
    """

    name: str
    power_w: float
    average_w: float | None
    maximum_w: float | None


class TegrastatsSample(msgspec.Struct, frozen=True, gc=False):
    """All of one line. A field that the line does not have is None or empty.

    ``prefix`` is the text before the first field, as written: a date, a script's
    ``epoch---``, or nothing; ``times.time_of`` reads it. ``unparsed`` has every token that
    is no field this version knows. ``shape`` is the order and spelling of the line.
    """

    prefix: str
    shape: Shape
    ram: Usage | None
    ram_free: FreeBlocks | None
    swap: Usage | None
    swap_cached: MemoryAmount | None
    iram: Usage | None
    iram_free: FreeBlocks | None
    mts_foreground_percent: float | None  # of the time the TX2's Denver cores translate code
    mts_background_percent: float | None
    cpus: tuple[Cpu, ...]
    shared_clock_hz: int | None  # of the spelling [0%,5%,off]@2601; also in each core that is on
    engines: tuple[EngineLoad, ...]
    temperatures: tuple[Temperature, ...]
    # Columns and not rows: rails change with every line, and rows would have to be made anew.
    rail_names: tuple[str, ...]
    powers_w: tuple[float, ...]
    averages_w: tuple[float | None, ...]
    maximums_w: tuple[float | None, ...]
    unparsed: tuple[str, ...]

    @property
    def rails(self) -> tuple[Rail, ...]:
        """The rails in the line's order."""
        columns = (self.rail_names, self.powers_w, self.averages_w, self.maximums_w)
        return tuple(map(Rail, *columns))

    def engine(self, *names: str) -> EngineLoad | None:
        """The first engine of one of these names."""
        return next((reported for reported in self.engines if reported.name in names), None)

    @property
    def emc(self) -> EngineLoad | None:
        """The external memory controller."""
        return self.engine("EMC_FREQ", "EMC")

    @property
    def gpu(self) -> EngineLoad | None:
        """The GPU; where the line has two (GR3D2), the first."""
        return self.engine("GR3D_FREQ", "GR3D")

    def rail(self, name: str) -> Rail | None:
        """The first rail with this label."""
        return next((reported for reported in self.rails if reported.name == name), None)


_NO_MAXIMUM = "a single sample has no maximum"


def as_line(sample: BoardSample) -> TegrastatsSample:
    """A look as a line of tegrastats; rails without power are left out, as there."""
    rails = [(rail.rail, rail.power_w) for rail in sample.rails if rail.power_w is not None]
    n_rails = len(rails)
    return TegrastatsSample(
        prefix=time.strftime("%m-%d-%Y %H:%M:%S ", time.gmtime(sample.time_s)),
        shape=(),
        ram=_usage(sample.memory_used_bytes, sample.memory_total_bytes),
        ram_free=None,
        swap=_usage(sample.swap_used_bytes, sample.swap_total_bytes),
        swap_cached=None,
        iram=None,
        iram_free=None,
        mts_foreground_percent=None,
        mts_background_percent=None,
        cpus=_cpus(sample),
        shared_clock_hz=None,
        engines=tuple(_engines(sample)),
        temperatures=tuple(
            Temperature(zone.zone, zone.temperature_c, None, {"maximum_celsius": _NO_MAXIMUM})
            for zone in sample.zones
        ),
        rail_names=tuple(name for name, _ in rails),
        powers_w=tuple(power_w for _, power_w in rails),
        averages_w=(None,) * n_rails,
        maximums_w=(None,) * n_rails,
        unparsed=(),
    )


def _usage(used: int | None, total: int | None) -> Usage | None:
    return Usage(used, total, "MB") if used is not None and total is not None else None


def _cpus(sample: BoardSample) -> tuple[Cpu, ...]:
    on = {cpu.cpu: cpu for cpu in sample.cpus}
    return tuple(
        Cpu(
            "on" if number in on else "off",
            _percent(on[number].busy_share) if number in on else None,
            _whole(on[number].clock_hz) if number in on else None,
        )
        for number in range(max(on, default=-1) + 1)
    )


def _engines(sample: BoardSample) -> Iterator[EngineLoad]:
    if sample.memory_busy_share is not None or sample.memory_clock_hz is not None:
        yield _engine("EMC_FREQ", sample.memory_busy_share, sample.memory_clock_hz)
    for at, gpu in enumerate(sample.gpus):
        yield _engine(f"GR3D{at or ''}_FREQ", gpu.busy_share, gpu.clock_hz)


def _engine(name: str, share: float | None, hz: float | None) -> EngineLoad:
    clocks_hz = () if hz is None else (round(hz),)
    return EngineLoad(name, True, _percent(share), clocks_hz, "@" if clocks_hz else "")


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _whole(hz: float | None) -> int | None:
    return None if hz is None else round(hz)
