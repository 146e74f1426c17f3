"""A look at a board in the form of a line of tegrastats, so that one summary serves both."""

from __future__ import annotations

import time
from collections.abc import Iterator

from mansard.core.records import BoardSample
from mansard.device.tegrastats.sample import Cpu, EngineLoad, TegrastatsSample, Temperature, Usage

_NO_MAXIMUM = "a look has no maximum"


def as_line(sample: BoardSample) -> TegrastatsSample:
    """What a line of tegrastats has of a look; rails without power are left out, as it does."""
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
