"""Contention for memory, measured on one board or several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from mansard.api.contention import measured_contention
from mansard.api.measurements import ModePlan, plan_modes
from mansard.api.reporter import SILENT, Reporter
from mansard.api.sweeps import DryRun, SweepRequest, dry_run, sweep
from mansard.api.targets import BenchTarget, find_processor
from mansard.core.errors import MansardError, MeasurementError
from mansard.core.records import PowerMode
from mansard.core.text import listed

if TYPE_CHECKING:
    from mansard.analytics.models.contention import VictimContention


class ContentionResult(msgspec.Struct, frozen=True):
    """What was measured of the modes asked for, now or before, and what could not be measured."""

    contention: tuple[VictimContention, ...]
    failure: MansardError | None

    def check(self) -> None:
        """Raise ``failure``, or name the accelerators of which too few points count."""
        if self.failure is not None:
            raise self.failure
        bare = [each for each in self.contention if each.surface is None]
        if bare:
            raise MeasurementError(
                f"too few points of {listed([each.victim for each in bare])} count: "
                f"{bare[0].remark}",
                fix="end what else runs; the same command measures them again",
            )


def measure_contention(request: SweepRequest, reporter: Reporter = SILENT) -> ContentionResult:
    """Measure what each of two accelerators loses of its memory's traffic beside the other.

    They are the GPU and the CPUs, or two halves of the CPUs. What was measured before is not
    measured again; an interrupted sweep resumes. Raises any MansardError that keeps everything
    from being measured.
    """
    swept = sweep(request, partial(_plan, request), reporter)
    found = measured_contention([request.runs], newest_only=True) if swept.run_ids else ()
    return ContentionResult(
        tuple(each for each in found if swept.run_ids & {*each.run_ids}), swept.failure
    )


def dry_run_contention(request: SweepRequest, reporter: Reporter = SILENT) -> Iterator[DryRun]:
    """What ``measure_contention`` would do on each board; nothing is touched."""
    return dry_run(request, partial(_plan, request), reporter)


def _plan(
    request: SweepRequest, target: BenchTarget, modes: Sequence[PowerMode], reporter: Reporter
) -> list[ModePlan]:
    from mansard.microbench.contention.plan import make_contention_plan

    machine, on_cpu = target.controller.identify(), target.probe("cpu")
    of_cpu = all(mode.kind == "cores" for mode in modes)
    processor = request.processor or ("cpu" if of_cpu else None)
    found = find_processor(target, machine, processor, reporter)
    found = msgspec.structs.replace(found, versions={**on_cpu.versions, **found.versions})
    plans = plan_modes(
        lambda mode: make_contention_plan(machine, mode, request.profile, found),
        modes,
        request.runs,
    )
    return [msgspec.structs.replace(each, of="contention") for each in plans]
