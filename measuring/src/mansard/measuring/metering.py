"""The energy of a kernel: it runs without pause while the meters are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from mansard.core.clock import Clock
from mansard.core.errors import MeasurementError
from mansard.core.records import EnergyWindow, PowerSample
from mansard.device.meters.meter import Meters
from mansard.device.meters.sampler import LONGEST_PACE_S, N_STEPS_MIN, Sampler, idle_window
from mansard.measuring.protocol import Protocol
from mansard.measuring.raw_samples import RawSample, SampleSource

_CHUNK_S = 0.25  # how often it is looked whether a window has seen enough
_MOST_ERROR = 0.1  # of the power of a settling stretch, by the steps of the meter's counter
_TAIL_S = 0.05  # of running on behind the last window, until each counter has moved


@dataclass(frozen=True)
class Metered:
    """The energy windows of one trial, or the reason why there are none."""

    windows: tuple[EnergyWindow, ...] | None
    reason: str | None


NO_METER = "no meter; 'mansard doctor' says what is missing"
UNMETERED = Metered(None, NO_METER)


@dataclass(frozen=True)
class Stretch:
    """A stretch of running without pause, on the monotonic clock."""

    start_s: float
    end_s: float
    repetitions: int


class EnergyMetering:
    """Meters over a kernel that runs on; ``keep`` gets every raw reading in the end.

    ``period_s``: between two readings; None is the meters' own.
    """

    def __init__(
        self,
        meters: Meters,
        protocol: Protocol,
        keep: Callable[[PowerSample], None],
        period_s: float | None = None,
    ) -> None:
        self._meters = meters
        self._protocol = protocol
        self._keep = keep
        self._period_s = period_s

    def run(
        self, source: SampleSource, repetitions: int, should_stop: Callable[[], bool]
    ) -> Metered:
        """Let the power settle, then take the protocol's windows; never raises for a meter."""
        sampler = Sampler(self._meters, self._period_s)
        try:
            with sampler:
                runner = _Runner(source, repetitions, self._protocol.sample_s, should_stop)
                settled = _settle(runner, sampler, self._protocol, self._meters.clock)
                stretches: list[Stretch] = []
                while len(stretches) < self._protocol.n_energy_windows and not should_stop():
                    stretches.append(_take_window(runner, sampler, self._protocol))
                if stretches:
                    _run_past(stretches[-1].end_s, runner, sampler, should_stop)
                windows = [
                    settled.mark(_window(stretch, sampler, self._protocol)) for stretch in stretches
                ]
            for sample in sampler.samples:
                self._keep(sample)
        except MeasurementError as error:
            return Metered(None, str(error))
        if not windows:
            return Metered(None, "stopped before its first window")
        return Metered(tuple(windows), None)

    def idle(self) -> EnergyWindow:
        """A window in which nothing of ours runs; raises MeasurementError."""
        with Sampler(self._meters) as sampler:
            window = idle_window(sampler, self._protocol.idle_s, self._meters.clock)
        for sample in sampler.samples:
            self._keep(sample)
        return window


class _Runner:
    """Runs the kernel for about so many seconds and says from when to when it did."""

    def __init__(
        self,
        source: SampleSource,
        repetitions: int,
        sample_s: float,
        should_stop: Callable[[], bool],
    ) -> None:
        self._source = source
        self._repetitions = repetitions
        self._should_stop = should_stop
        # A repetition may take longer than a sample is to last.
        self._sample_s = max(sample_s, self._take(1)[0].duration_s)

    def run(self, duration_s: float) -> Stretch:
        raw = self._take(max(1, round(duration_s / self._sample_s)))
        end_s = max(sample.started_s + sample.duration_s for sample in raw)
        return Stretch(raw[0].started_s, end_s, len(raw) * self._repetitions)

    def _take(self, n_samples: int) -> list[RawSample]:
        raw = self._source.take(n_samples, self._repetitions, self._should_stop)
        if not raw:
            raise MeasurementError("stopped before the window was through")
        return raw


class _Power(NamedTuple):
    """The mean power of a rail over a stretch, and how far off it may be by the meter's steps."""

    mean_w: float
    error_w: float

    def agrees_with(self, other: _Power, change: float) -> bool:
        """Whether they differ by less than ``change``, relative, or than the meter can tell."""
        told_w = max(self.error_w, other.error_w, change * abs(self.mean_w))
        return abs(self.mean_w - other.mean_w) <= told_w


@dataclass(frozen=True)
class _Settled:
    """Whether the power no longer changed before the windows; None where that is not known."""

    is_settled: bool | None
    why_not_known: str = ""

    def mark(self, window: EnergyWindow) -> EnergyWindow:
        """The window with this in it."""
        unknown = {name: why for name, why in window.unknown.items() if name != "is_settled"}
        if self.is_settled is None:
            unknown["is_settled"] = self.why_not_known
        return msgspec.structs.replace(window, is_settled=self.is_settled, unknown=unknown)


def _settle(runner: _Runner, sampler: Sampler, protocol: Protocol, clock: Clock) -> _Settled:
    """Run until the power of two stretches in a row agrees, or the time for it is up."""
    end_s = clock.now_s() + protocol.settle_cap_s
    before: dict[str, _Power] = {}
    is_compared = False
    while True:
        powers = _settling_powers(runner, sampler, protocol.settle_s, end_s, clock)
        if powers and powers.keys() == before.keys():
            is_compared = True
            if all(
                power.agrees_with(before[rail], protocol.settle_change)
                for rail, power in powers.items()
            ):
                return _Settled(True)
        if clock.now_s() >= end_s:
            break
        before = powers
    if is_compared:
        return _Settled(False)
    cap = f"{protocol.settle_cap_s:g} s"
    return _Settled(None, f"the meter changes too seldom to compare two stretches within {cap}")


def _settling_powers(
    runner: _Runner, sampler: Sampler, settle_s: float, cap_s: float, clock: Clock
) -> dict[str, _Power]:
    """The power of each rail that tells one, over a stretch that is long against its pace.

    Empty where the time is up at ``cap_s`` before a counter has moved often enough.
    """
    stretch = runner.run(settle_s)
    end_s = stretch.end_s
    while True:
        sampler.read()
        steps_s = sampler.step_times(stretch.start_s)
        if all(len(times_s) >= N_STEPS_MIN for times_s in steps_s.values()):
            # Where a counter has just moved, its energy is known best.
            known_s = min([end_s, *(times_s[-1] for times_s in steps_s.values())])
            window = sampler.window(stretch.start_s, known_s, n_changed_min=1, repetitions=0)
            powers = _powers(window)
            if not steps_s or all(
                power.error_w <= _MOST_ERROR * power.mean_w for power in powers.values()
            ):
                return powers
        if clock.now_s() >= cap_s:
            return {}
        end_s = runner.run(settle_s).end_s


def _powers(window: EnergyWindow) -> dict[str, _Power]:
    return {
        rail.rail: _Power(rail.energy_j / window.window_s, (rail.error_j or 0.0) / window.window_s)
        for rail in window.rails
        if rail.energy_j is not None
    }


def _take_window(runner: _Runner, sampler: Sampler, protocol: Protocol) -> Stretch:
    """One window: as long as it must be, and until the sensor has changed often enough."""
    stretch = runner.run(min(_CHUNK_S, protocol.energy_window_s))
    while True:
        sampler.read()  # so that the samples reach over the end
        window = _window(stretch, sampler, protocol)
        # A rail outside the total may sit on one step of its sensor for ever.
        measurable = window.total_j is not None or all(
            rail.energy_j is not None for rail in window.rails
        )
        long_enough = window.window_s >= protocol.energy_window_s
        if (measurable and long_enough) or window.window_s >= protocol.energy_window_cap_s:
            return stretch
        chunk = runner.run(_CHUNK_S)
        repetitions = stretch.repetitions + chunk.repetitions
        stretch = Stretch(stretch.start_s, chunk.end_s, repetitions)


def _window(stretch: Stretch, sampler: Sampler, protocol: Protocol) -> EnergyWindow:
    return sampler.window(
        stretch.start_s,
        stretch.end_s,
        n_changed_min=protocol.n_changed_min,
        repetitions=stretch.repetitions,
    )


def _run_past(
    end_s: float, runner: _Runner, sampler: Sampler, should_stop: Callable[[], bool]
) -> None:
    """Let the kernel run on until each counter has moved since the end of the last window.

    What a counter shows at that end is then bounded by a step at the same power.
    """
    run_s = 0.0
    while not sampler.has_moved_since(end_s) and run_s < LONGEST_PACE_S and not should_stop():
        stretch = runner.run(_TAIL_S)
        run_s += stretch.end_s - stretch.start_s
        sampler.read()
