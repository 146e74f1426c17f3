"""Why a board runs slower than it could, in words: heat, current, the mode, another program.

Sources: those of ``conditions.sources`` (cooling devices, over-current counters, alarms of current
sensors); Documentation/driver-api/thermal/sysfs-api.rst of the Linux kernel: ``trip_point_N_type``
passive is where the kernel slows devices down, ``trip_point_N_temp`` in m°C.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from pathlib import Path

import msgspec

from mansard.core.records import Limit, ZoneNow
from mansard.core.text import listed, printable
from mansard.device.conditions.sources import find_overcurrent, find_throttling
from mansard.device.system import read_text

_BUSY = 0.9  # a part as busy as this should run at its cap
_AT_WORK = 0.5  # an idle part's clock falls without any limit
_SLOW = 0.9  # of the cap; a step of the clocks' tables is 5 to 10 %
_SLACK = 0.02  # steps of tables against what the mode asks for
# NVIDIA's Jetson Linux developer guide, "Over-current events".
_OVERCURRENTS = {
    "oc1": "under-voltage",
    "oc2": "average over-current",
    "oc3": "momentary over-current",
}


class PartNow(msgspec.Struct, frozen=True, kw_only=True):
    """One clock with what bounds it: of a CPU cluster, the GPU or the memory."""

    name: str
    busy_share: float | None
    clock_hz: float | None
    cap_hz: float | None
    highest_hz: float | None  # that the chip has
    mode_hz: float | None  # that the power mode allows; None: not known


class Limits:
    """Remembers counters and alarms from look to look, and says what limits the board now."""

    def __init__(self, root: Path, cpus: Sequence[int]) -> None:
        self._throttling = find_throttling(root, cpus)
        self._overcurrent = find_overcurrent(root)
        self._devices = [
            printable(read_text(path.parent / "type") or path.parent.name, 64)
            for path in self._throttling.alarms
        ]
        self._counts: tuple[int | None, ...] = self._throttling.read_counts()
        self._states: tuple[int | None, ...] = ()
        self._events: tuple[int | None, ...] = self._overcurrent.read_counts()
        self._alarms: tuple[int | None, ...] = ()
        self._slow_before: frozenset[str] = frozenset()
        self._has_looked = False
        self._n_throttles = self._n_overcurrents = 0

    @property
    def why_not(self) -> dict[str, str]:
        """Why throttling or over-current cannot be seen here, by the field that lacks it."""
        pairs = (
            ("n_throttle_events", self._throttling),
            ("n_overcurrent_events", self._overcurrent),
        )
        return {field: events.why_not for field, events in pairs if not events.are_known}

    @property
    def n_throttle_events(self) -> int | None:
        """How often throttling began since the first look; None where it cannot be seen."""
        return self._n_throttles if self._throttling.are_known else None

    @property
    def n_overcurrent_events(self) -> int | None:
        """Over-current events since the first look; None where they cannot be seen."""
        return self._n_overcurrents if self._overcurrent.are_known else None

    def read(
        self, parts: Sequence[PartNow], zones: Sequence[ZoneNow], mode: str | None
    ) -> tuple[Limit, ...]:
        """What limits the board now, throttling first; never raises."""
        limits = [*self._heat(parts, zones), *self._current()]
        limits += _cap_below_mode(parts, mode, is_hot=bool(limits))
        if not limits:
            limits += self._unexplained(parts)
        self._has_looked = True
        return (*limits, *_by_mode(parts, mode))

    def _heat(self, parts: Sequence[PartNow], zones: Sequence[ZoneNow]) -> list[Limit]:
        states, counts = self._throttling.read_alarms(), self._throttling.read_counts()
        n_counted = _increase(self._counts, counts)
        n_risen = _rises(self._states, states)
        self._states, self._counts = states, counts
        if self._has_looked:  # what was counted before the watching is not ours
            self._n_throttles += n_counted + min(n_risen, 1)  # one heat sets several devices
        on = [device for device, state in zip(self._devices, states, strict=True) if state]
        if not on and not n_counted:
            return []
        slowed = list(dict.fromkeys(_part_of(device) for device in on)) or ["CPU"]
        who = listed(on) if on else "the processor's own throttle counter"
        below = _at_clocks(
            part for part in parts if _is_slow(part) and (part.busy_share or 0.0) >= _AT_WORK
        )
        why = f"too hot: {_hottest(zones)}; on: {who}"
        return [
            Limit(
                cause="thermal",
                parts=tuple(slowed),
                is_throttling=True,
                why="; ".join(filter(None, (why, below))),
            )
        ]

    def _current(self) -> list[Limit]:
        events, alarms = self._overcurrent.read_counts(), self._overcurrent.read_alarms()
        n_counted, n_risen = _increase(self._events, events), _rises(self._alarms, alarms)
        kinds = [
            _OVERCURRENTS.get(path.name[:3], path.name)
            for path, before, after in zip(
                self._overcurrent.counters, self._events, events, strict=True
            )
            if _increase((before,), (after,))
        ]
        self._events, self._alarms = events, alarms
        if self._has_looked:
            # One event sets alarms of several rails and may be counted as well.
            self._n_overcurrents += max(n_counted, min(n_risen, 1))
        rails = [
            _rail_of(path)
            for path, alarm in zip(self._overcurrent.alarms, alarms, strict=True)
            if alarm
        ]
        words = [f"{n_counted} more events counted ({listed(kinds)})"] if n_counted else []
        if rails:
            words.append(f"over its current limit now: {listed(list(dict.fromkeys(rails)))}")
        if not words:
            return []
        return [
            Limit(
                cause="over-current",
                parts=("board",),
                is_throttling=True,
                why=f"too much current: {'; '.join(words)}",
            )
        ]

    def _unexplained(self, parts: Sequence[PartNow]) -> list[Limit]:
        """Parts that are busy and slow in two looks in a row, though nothing says why."""
        slow = {
            part.name: part
            for part in parts
            if _is_slow(part) and (part.busy_share or 0.0) >= _BUSY
        }
        stuck = [part for name, part in slow.items() if name in self._slow_before]
        self._slow_before = frozenset(slow)
        if not stuck:
            return []
        return [
            Limit(
                cause="unknown",
                parts=tuple(part.name for part in stuck),
                is_throttling=True,
                why=f"busy and slow: {_at_clocks(stuck)}; the kernel does not say why (governor, "
                "firmware, power)",
            )
        ]


def _is_slow(part: PartNow) -> bool:
    return bool(part.clock_hz and part.cap_hz and part.clock_hz < _SLOW * part.cap_hz)


def _at_clocks(parts: Iterable[PartNow]) -> str:
    """Parts grouped by clock, in words: CPU 0-3 and GPU at 600 of 1300 MHz."""
    names: dict[str, list[str]] = {}
    for part in parts:
        clock = f"{_mhz(part.clock_hz)} of {_mhz(part.cap_hz)} MHz"
        names.setdefault(clock, []).append(part.name)
    return ", ".join(f"{listed(who)} at {clock}" for clock, who in names.items())


def _hottest(zones: Sequence[ZoneNow]) -> str:
    readings = [(zone, zone.temperature_c) for zone in zones if zone.temperature_c is not None]
    over = [(zone, c) for zone, c in readings if zone.trip_c is not None and c >= zone.trip_c]
    if not readings:
        return "no temperature can be read"
    zone, celsius = max(over or readings, key=itemgetter(1))
    limit = f", slows down from {zone.trip_c:.0f} °C" if zone.trip_c is not None else ""
    return f"{zone.zone} is at {celsius:.1f} °C{limit}"


def _cap_below_mode(parts: Sequence[PartNow], mode: str | None, *, is_hot: bool) -> list[Limit]:
    """Caps lower than the power mode's: of another program, or of the kernel's thermal driver."""
    low = [
        part
        for part in parts
        if part.cap_hz and part.mode_hz and part.cap_hz < (1 - _SLACK) * part.mode_hz
    ]
    if not low:
        return []
    words = [
        f"{part.name} may rise to {_mhz(part.cap_hz)} MHz, mode {mode} allows {_mhz(part.mode_hz)}"
        for part in low
    ]
    fix = "the kernel lowers it while it is hot"
    if not is_hot:
        fix = "another program set it; setting the mode again restores it (sudo nvpmodel -m …)"
    return [
        Limit(
            cause="cap",
            parts=tuple(part.name for part in low),
            is_throttling=True,
            why=f"{'; '.join(words)}: {fix}",
        )
    ]


def _by_mode(parts: Sequence[PartNow], mode: str | None) -> list[Limit]:
    """Caps below what the chip has: the power mode, or on a plain machine its limits."""
    capped = [
        part
        for part in parts
        if part.cap_hz and part.highest_hz and part.cap_hz < (1 - _SLACK) * part.highest_hz
    ]
    if not capped:
        return []
    words = [f"{part.name} {_mhz(part.cap_hz)} of {_mhz(part.highest_hz)} MHz" for part in capped]
    who = f"mode {mode} allows" if mode is not None else "the settings allow"
    return [
        Limit(
            cause="mode",
            parts=tuple(part.name for part in capped),
            is_throttling=False,
            why=f"{who} {', '.join(words)}",
        )
    ]


def _part_of(device: str) -> str:
    """Which part a cooling device slows down: cpu-throttle-alert, devfreq-17000000.gpu."""
    name = device.lower()
    if "gpu" in name or "ga10b" in name or "gv11b" in name:
        return "GPU"
    return "CPU" if "cpu" in name or "processor" in name or "powerclamp" in name else "board"


def _rail_of(alarm: Path) -> str:
    """The label of the rail that an alarm, such as curr1_crit_alarm, belongs to."""
    channel = alarm.name[len("curr")]
    return printable(read_text(alarm.parent / f"in{channel}_label") or alarm.name, 64)


def _increase(before: Sequence[int | None], after: Sequence[int | None]) -> int:
    pairs = zip(before, after, strict=True)
    return sum(max(b - a, 0) for a, b in pairs if a is not None and b is not None)


def _rises(before: Sequence[int | None], after: Sequence[int | None]) -> int:
    """How many alarms went on; those that were on at the first look did not."""
    if not before:
        return 0
    return sum(bool(b) and not a for a, b in zip(before, after, strict=True))


def _mhz(hz: float | None) -> str:
    return "?" if hz is None else f"{hz / 1e6:.0f}"
