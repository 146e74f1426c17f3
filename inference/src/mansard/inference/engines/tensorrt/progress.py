"""How far a build is, from the phases that TensorRT reports."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mansard.inference.plan import BUILDING_S

# Between two announcements, so that the channel is not filled.
PAUSE_S = 2.0


@dataclass
class _Phase:
    parent: str | None
    n_steps: int
    n_done: int = 0


class BuildProgress:
    """Phases within phases, as one fraction that never falls; TensorRT calls from its threads.

    ``stopped``: what a callback raised. Nothing may be raised through TensorRT, so the build is
    cancelled, and the caller of the builder raises this.
    """

    def __init__(
        self,
        title: str,
        announce: Callable[[str, float], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stopped: BaseException | None = None
        self._title, self._announce, self._clock = title, announce, clock
        self._lock = threading.Lock()
        self._phases: dict[str, _Phase] = {}
        self._fraction = 0.0
        self._told_s = clock()

    def start(self, name: str, parent: str | None, n_steps: int) -> None:
        """A phase begins."""
        with self._lock:
            self._phases[name] = _Phase(parent, max(n_steps, 1))

    def step(self, name: str) -> bool:
        """A step of it is done; False asks to cancel the build."""
        with self._lock:
            if (phase := self._phases.get(name)) is not None:
                phase.n_done += 1
            try:
                self._tell(name)
            except BaseException as error:
                self.stopped = self.stopped or error
            return self.stopped is None

    def finish(self, name: str) -> None:
        """A phase ends; not all of its steps may have been done."""
        with self._lock:
            self._phases.pop(name, None)

    @property
    def fraction(self) -> float:
        """From 0 to 1: steps of the outermost phase, and the part of the step that it is in."""
        within: dict[str, float] = {}
        for name, phase in reversed(self._phases.items()):
            done = min((phase.n_done + within.get(name, 0.0)) / phase.n_steps, 1.0)
            if phase.parent is None:
                self._fraction = max(self._fraction, done)
            else:
                within[phase.parent] = max(within.get(phase.parent, 0.0), done)
        return self._fraction

    def _tell(self, name: str) -> None:
        fraction, now_s = self.fraction, self._clock()
        if now_s - self._told_s >= PAUSE_S:
            self._told_s = now_s
            self._announce(f"{self._title}: {name}, {fraction:.0%}", BUILDING_S)


def monitor(bindings: Any, progress: BuildProgress) -> Any:
    """``progress`` as a monitor of TensorRT's; the caller keeps it until the build has ended."""

    class Monitor(bindings.IProgressMonitor):  # type: ignore[misc]
        """Passes each phase and step to ``progress``."""

        def __init__(self) -> None:
            bindings.IProgressMonitor.__init__(self)

        def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
            progress.start(phase_name, parent_phase, num_steps)

        def step_complete(self, phase_name: str, step: int) -> bool:  # noqa: ARG002
            return progress.step(phase_name)

        def phase_finish(self, phase_name: str) -> None:
            progress.finish(phase_name)

    return Monitor()
