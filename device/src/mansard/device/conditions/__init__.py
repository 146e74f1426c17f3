"""What a machine does while a trial runs, and whether that disturbed the trial.

The rules of disturbances are here. Their limits: 1 % of clock drift where the mode locks the clock,
and any over-current event, are the protocol's (docs/understand/energy.md); 75 % of the cap where it
does not lock is nvbench's rule. Half a degree a second moves the temperature by one degree, a
sensor's own resolution, within an energy window of 2 s. 1 MiB of swapping is a thousandth of what a
trial moves, or less. 5 % of the CPUs' time is more than a board's services take, and than the
kernel's counts of it are wrong by.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from mansard.core.records import Conditions, PowerMode, Spread
from mansard.core.text import listed
from mansard.device.conditions.mode_settings import mode_lost
from mansard.device.conditions.recording import Watch
from mansard.device.conditions.sources import Sources, find_sources
from mansard.device.conditions.telemetry import OtherWork, Telemetry

MOST_DRIFT = 0.01
LOWEST_SHARE = 0.75
MOST_SLOPE_C_PER_S = 0.5
MOST_SWAPPED_BYTES = 1 << 20
MOST_OTHER_CPU_SHARE = 0.05
# Modes in which Mansard holds every clock that they name at its cap.
_LOCKING = frozenset({"nvpmodel", "clocks", "card"})
# And those in which the sensor's temperature is that of the processor at work: beside a card it is
# the CPU's.
_STEADY = _LOCKING - {"card"}
# They hold buffers as long as a screen or camera is there; that alone disturbs nothing.
_RESIDENTS = (
    *("Xorg", "Xwayland", "gnome-", "gsd-", "mutter", "compiz", "unity", "kwin", "weston"),
    *("openbox", "lxpanel", "lxqt-", "xdg-", "ibus-", "nautilus", "nvargus-daemon"),
)


def disturbances(
    conditions: Conditions,
    mode: PowerMode,
    *,
    uses_gpu: bool = False,
    cpus: Collection[int] = (),
    own_engines: Collection[str] = (),
    other_work: OtherWork | None = None,
) -> tuple[str, ...]:
    """Why a trial under ``conditions`` is kept but not averaged in, in sentences; empty: calm.

    ``uses_gpu``: whether the kernel ran on the GPU. Only then its clock counts, and on a plain
    machine its neighbours. ``cpus``: those in use, whose clusters' caps count; empty: all of
    them. ``own_engines``: those that the trial itself uses. ``other_work``: that of other programs.
    What is unknown disturbs nothing.
    """
    return (
        *_clocks(conditions, mode, uses_gpu, cpus),
        *(conditions.settings_changed or ()),
        *_events(conditions),
        *_temperature(conditions, mode),
        *_processes(conditions, mode, uses_gpu),
        *_others(conditions, own_engines, other_work),
    )


def of_others(conditions: Conditions, mode: PowerMode) -> tuple[str, ...]:
    """The disturbances of a whole program: what other programs did to the machine meanwhile.

    Its own heat, throttling, swapping and engines belong to what is measured.
    """
    return (
        *(conditions.settings_changed or ()),
        *_processes(conditions, mode, uses_gpu=True),
    )


def _clocks(
    conditions: Conditions, mode: PowerMode, uses_gpu: bool, cpus: Collection[int]
) -> Iterator[str]:
    is_locked = mode.kind in _LOCKING
    used = [cluster for cluster in mode.clusters if set(cluster.cpus) & set(cpus)] or mode.clusters
    # The slowest CPU in use may belong to any cluster in use.
    cpu_hz = min(
        (cluster.max_hz for cluster in used if cluster.max_hz is not None), default=mode.cpu_hz
    )
    for name, clock, cap_hz, is_used in (
        ("CPU", conditions.cpu_clock_hz, cpu_hz, True),
        ("GPU", conditions.gpu_clock_hz, mode.gpu_hz, uses_gpu),
        ("memory", conditions.memory_clock_hz, mode.memory_hz, True),
    ):
        if clock is None or cap_hz is None or not is_used:
            # A clock that the mode leaves to the governor may change; a GPU that nothing uses is
            # put to sleep, whatever its clock is locked at.
            continue
        if clock.high > (1 + MOST_DRIFT) * cap_hz and mode.kind != "cores":
            # A plain machine's turbo goes beyond what its kernel calls the highest clock.
            yield f"the {name} clock was at {_mhz(clock.high)}, above its cap of {_mhz(cap_hz)}"
        if is_locked:
            yield from _drift(name, clock, cap_hz)
        elif name != "memory" and clock.high < LOWEST_SHARE * cap_hz:
            yield (
                f"the {name} clock stayed at {_mhz(clock.high)} or below, under "
                f"{100 * LOWEST_SHARE:g} % of its cap of {_mhz(cap_hz)}"
            )


def _drift(name: str, clock: Spread, cap_hz: float) -> Iterator[str]:
    is_above = clock.high > (1 + MOST_DRIFT) * cap_hz  # reported by _clocks
    if clock.low >= (1 - MOST_DRIFT) * (cap_hz if is_above else max(cap_hz, clock.high)):
        return
    if clock.high >= (1 - MOST_DRIFT) * cap_hz:
        yield f"the {name} clock fell to {_mhz(clock.low)} from {_mhz(clock.high)}"
    else:
        yield f"the {name} clock was at {_mhz(clock.low)} instead of {_mhz(cap_hz)}"


def _events(conditions: Conditions) -> Iterator[str]:
    n_throttles, n_overcurrents = conditions.n_throttle_events, conditions.n_overcurrent_events
    if n_throttles:
        yield "throttled once" if n_throttles == 1 else f"throttled {n_throttles} times"
    if n_overcurrents == 1:
        yield "over-current event"
    elif n_overcurrents:
        yield f"{n_overcurrents} over-current events"


def _temperature(conditions: Conditions, mode: PowerMode) -> Iterator[str]:
    slope = conditions.temperature_slope_c_per_s
    # Where the governor moves the clock with the load, the temperature follows it.
    if slope is not None and abs(slope) > MOST_SLOPE_C_PER_S and mode.kind in _STEADY:
        yield f"temperature {'rose' if slope > 0 else 'fell'} by {abs(slope):.1f} °C/s"


def _processes(conditions: Conditions, mode: PowerMode, uses_gpu: bool) -> Iterator[str]:
    if mode.kind == "cores" and not uses_gpu:
        return  # a discrete card shares neither memory nor power with the CPU's kernels
    for name in conditions.gpu_processes or ():
        if not name.startswith(_RESIDENTS):
            yield f"another process on the GPU: {name}"


def _others(
    conditions: Conditions, own_engines: Collection[str], other_work: OtherWork | None
) -> Iterator[str]:
    engines = [name for name in conditions.engines or () if name not in own_engines]
    if engines:
        yield f"also running: {listed(engines)}"
    if other_work is not None and (other_work.share or 0.0) > MOST_OTHER_CPU_SHARE:
        most = f", mostly {other_work.busiest}" if other_work.busiest else ""
        yield f"other programs used {100 * (other_work.share or 0.0):.0f} % of the CPUs' time{most}"
    swapped_bytes = conditions.swapped_bytes or 0
    if swapped_bytes > MOST_SWAPPED_BYTES:
        yield f"{swapped_bytes / 1e6:.3g} MB were swapped"


def _mhz(hz: float) -> str:
    return f"{hz / 1e6:.5g} MHz"


__all__ = [
    "OtherWork",
    "Sources",
    "Telemetry",
    "Watch",
    "disturbances",
    "find_sources",
    "mode_lost",
]
