"""What a trial is watched and metered with, and what was seen while it ran."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

import msgspec

from mansard.core.records import Conditions, EnergyWindow, Gpu, PowerMode, PowerSample
from mansard.device.conditions import OtherWork, Sources, Watch, disturbances
from mansard.device.meters.meter import Meters
from mansard.measuring.metering import EnergyMetering
from mansard.measuring.plan import RunPlan


def utc_now() -> str:
    """The time now, in ISO 8601 with seconds, in UTC."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


@dataclass(frozen=True)
class Took:
    """How long a trial took, and when it began; or when it was found dead."""

    duration_s: float
    started_utc: str = field(default_factory=utc_now)


class Instruments(msgspec.Struct, frozen=True, kw_only=True):
    """What a trial is watched and metered with."""

    root: Path
    mode: PowerMode  # as it was read back
    sources: Sources  # of clocks, temperatures and events: found once for all trials
    meters: Meters
    keep: Callable[[PowerSample], None]  # gets every raw reading of the meters
    gpu: Gpu | None  # as it is in this mode
    files: Path | None = None  # folder of the files that the plan names
    outputs: Path | None = None  # folder that a trial writes files into, such as engine files
    # Says what the trial does now, and how many seconds that may take at most. To be called before
    # anything of more than a minute, else the measurement is taken for hung after 15.
    announce: Callable[[str, float], None] = lambda _now, _at_most_s: None

    def metering(self, plan: RunPlan, period_s: float = 0.0) -> EnergyMetering | None:
        """The meters, set up as the plan's protocol wants them; None where there are none.

        ``period_s``: between two readings; 0 is the meters' own.
        """
        if not self.meters.found:
            return None
        return EnergyMetering(self.meters, plan.protocol, self.keep, period_s or None)


class Observation:
    """``with Observation(instruments, plan) as seen: …``: the machine while a trial runs."""

    def __init__(self, instruments: Instruments, plan: RunPlan) -> None:
        self._instruments, self._plan = instruments, plan
        self._watch = Watch(instruments.root, plan.cpus, sources=instruments.sources)
        self._start_s = 0.0
        self.started_utc = ""
        self.duration_s = 0.0
        self.own_engines: Collection[str] = ()  # that the trial itself uses: "DLA0"
        self.other_work: OtherWork | None = None  # of other programs, where it was watched

    def __enter__(self) -> Observation:
        self.started_utc, self._start_s = utc_now(), self._instruments.meters.clock.now_s()
        self._watch.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.__exit__(None, None, None)
        self.duration_s = self._instruments.meters.clock.now_s() - self._start_s

    def restart(self) -> None:
        """Let what was seen so far not count: what it takes to get ready disturbs nothing."""
        self._watch.restart()

    def limit_memory_use(self, windows: Sequence[EnergyWindow]) -> None:
        """Let the memory's use be that in ``windows`` alone, in which the trial runs on."""
        self._watch.windows = windows

    @property
    def conditions(self) -> Conditions:
        """What the machine did from the first reading to the last."""
        return self._watch.conditions

    @property
    def disturbances(self) -> tuple[str, ...]:
        """Why the trial is kept but not averaged in; empty where nothing disturbed it."""
        return disturbances(
            self.conditions,
            self._instruments.mode,
            uses_gpu=self._plan.processor == "gpu",
            cpus=self._plan.cpus,
            own_engines=self.own_engines,
            other_work=self.other_work,
        )


class Unseen:
    """What is known of a trial, as an ``Observation`` has it, that its process did not survive."""

    def __init__(self, how: str, duration_s: float) -> None:
        names = [name for name in Conditions.__struct_fields__ if name != "unknown"]
        self.conditions = Conditions(
            **dict.fromkeys(names),
            unknown=dict.fromkeys(names, how),
        )
        self.disturbances: tuple[str, ...] = ()
        self.duration_s = duration_s
        self.started_utc = utc_now()  # when it was found; nothing says the start
