"""The energy of a kernel: it runs without pause while the meters are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import msgspec

from mansard.core.clock import Clock
from mansard.core.errors import MeasurementError
from mansard.core.records import MOST_DISTURBED, EnergyWindow, PowerSample
from mansard.device.meters.meter import Meters
from mansard.device.meters.sampler import LONGEST_PACE_S, N_STEPS_MIN, Sampler, idle_window
from mansard.measuring.protocol import Protocol
from mansard.measuring.raw_samples import RawSample, SampleSource, waited_s

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


# Of samples in a row: how long they were disturbed, s.
Disturbed: TypeAlias = Callable[[Sequence[RawSample]], float]


@dataclass(frozen=True)
class Stretch:
    """A stretch of running without pause, on the monotonic clock."""

    raw: tuple[RawSample, ...]
    repetitions: int  # of each sample

    @property
    def start_s(self) -> float:
        return self.raw[0].started_s

    @property
    def end_s(self) -> float:
        return max(sample.started_s + sample.duration_s for sample in self.raw)

    @property
    def length_s(self) -> float:
        return self.end_s - self.start_s

    def followed_by(self, other: Stretch) -> Stretch:
        """Both as one."""
        return Stretch(self.raw + other.raw, self.repetitions)


def energy_between(
    sampler: Sampler,
    meters: Meters,
    n_changed_min: int,
    start_s: float,
    end_s: float,
    repetitions: int = 1,
) -> tuple[EnergyWindow | None, str]:
    """The energy of a stretch that has passed, or why it is not known."""
    if not meters.found:
        return None, NO_METER
    try:
        window = sampler.window(
            start_s, end_s, n_changed_min=n_changed_min, repetitions=repetitions
        )
    except MeasurementError as error:
        return None, str(error)
    return window, ""


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
        self,
        source: SampleSource,
        repetitions: int,
        should_stop: Callable[[], bool],
        disturbed: Disturbed = waited_s,
    ) -> Metered:
        """Let the power settle, then take the protocol's windows; never raises for a meter.

        A meter cannot leave out what is ``disturbed``, so a window with much of it is taken again.
        """
        sampler = Sampler(self._meters, self._period_s)
        try:
            with sampler:
                runner = _Runner(source, repetitions, self._protocol.sample_s, should_stop)
                settled = _settle(runner, sampler, self._protocol, self._meters.clock)
                stretches: list[Stretch] = []
                while len(stretches) < self._protocol.n_energy_windows and not should_stop():
                    stretches.append(_take_calmest(runner, sampler, self._protocol, disturbed))
                if stretches:
                    _run_past(stretches[-1].end_s, runner, sampler, should_stop)
                windows = [
                    settled.mark(_watched(stretch, sampler, self._protocol, disturbed))
                    for stretch in stretches
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
        return Stretch(tuple(raw), self._repetitions)

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


def _take_calmest(
    runner: _Runner, sampler: Sampler, protocol: Protocol, disturbed: Disturbed
) -> Stretch:
    """A window that is little disturbed, or the calmest of those that the time of one allows."""
    left_s = protocol.energy_window_cap_s
    best = _take_window(runner, sampler, protocol, left_s)
    left_s -= best.length_s
    while _share(best, disturbed) > MOST_DISTURBED and left_s >= best.length_s:
        stretch = _take_window(runner, sampler, protocol, left_s)
        is_calmer = _share(stretch, disturbed) < _share(best, disturbed)
        if is_calmer and stretch.length_s < left_s:  # else it may lack readings
            best = stretch
        left_s -= stretch.length_s
    return best


def _share(stretch: Stretch, disturbed: Disturbed) -> float:
    return disturbed(stretch.raw) / stretch.length_s


def _take_window(runner: _Runner, sampler: Sampler, protocol: Protocol, most_s: float) -> Stretch:
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
        if (measurable and long_enough) or window.window_s >= most_s:
            return stretch
        stretch = stretch.followed_by(runner.run(_CHUNK_S))


def _window(stretch: Stretch, sampler: Sampler, protocol: Protocol) -> EnergyWindow:
    return sampler.window(
        stretch.start_s,
        stretch.end_s,
        n_changed_min=protocol.n_changed_min,
        repetitions=len(stretch.raw) * stretch.repetitions,
    )


def _watched(
    stretch: Stretch, sampler: Sampler, protocol: Protocol, disturbed: Disturbed
) -> EnergyWindow:
    """The window of a stretch, with how long it was disturbed."""
    window = _window(stretch, sampler, protocol)
    unknown = {name: why for name, why in window.unknown.items() if name != "disturbed_s"}
    disturbed_s = min(disturbed(stretch.raw), window.window_s)
    return msgspec.structs.replace(window, disturbed_s=disturbed_s, unknown=unknown)


def _run_past(
    end_s: float, runner: _Runner, sampler: Sampler, should_stop: Callable[[], bool]
) -> None:
    """Let the kernel run on until each counter has moved since the end of the last window.

    What a counter shows at that end is then bounded by a step at the same power.
    """
    run_s = 0.0
    while not sampler.has_moved_since(end_s) and run_s < LONGEST_PACE_S and not should_stop():
        run_s += runner.run(_TAIL_S).length_s
        sampler.read()
