"""Contention for memory: measured on one board or several; what runs know of it, with its fits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mansard.core.errors import MansardError, MeasurementError
from mansard.core.text import listed
from mansard.sweeps.reporter import SILENT, Reporter

if TYPE_CHECKING:
    from mansard.analytics.data.dataset import Dataset
    from mansard.analytics.models.contention import VictimContention
    from mansard.sweeps.sweep import DryRun, SweepRequest


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
    from mansard.sweeps.kernels import plan_contention
    from mansard.sweeps.sweep import sweep

    swept = sweep(request, partial(plan_contention, request), reporter)
    known = measured_contention([request.runs], newest_only=True) if swept.run_ids else ()
    run_ids = frozenset(swept.run_ids)
    measured = tuple(victim for victim in known if not run_ids.isdisjoint(victim.run_ids))
    return ContentionResult(measured, swept.failure)


def dry_run_contention(request: SweepRequest, reporter: Reporter = SILENT) -> Iterator[DryRun]:
    """What ``measure_contention`` would do on each board; nothing is touched."""
    from mansard.sweeps.kernels import plan_contention
    from mansard.sweeps.sweep import dry_run

    return dry_run(request, partial(plan_contention, request), reporter)


def measured_contention(
    runs: Sequence[str | Path], *, newest_only: bool = False
) -> tuple[VictimContention, ...]:
    """What folders of runs know of contention, by machine, mode and accelerator, with its fit.

    ``newest_only``: leave out what does not go with the newest run of a device instead of refusing
    it. Raises InputError, StorageError.
    """
    from mansard.analytics.data.opening import open_runs

    return contention_of(open_runs(runs, newest_only=newest_only))


def contention_of(dataset: Dataset) -> tuple[VictimContention, ...]:
    """What a dataset knows of contention, with its fits."""
    from mansard.analytics.models.contention import measured_contention as find

    return tuple(map(_with_fit, find(dataset)))


def _with_fit(found: VictimContention) -> VictimContention:
    import numpy as np

    from mansard.analytics.models.contention import FitLine
    from mansard.scheduler.contention import curve, fit_pccs

    if found.surface is None:
        return found
    fit = fit_pccs(found.surface)
    most = found.surface.external_byte_per_s[-1]
    lines = []
    for own in found.surface.own_byte_per_s:
        external, speed = curve(fit, own)
        ends = [*(x for x in external if x < most), most]
        speeds = np.interp(ends, external, speed).tolist()
        lines.append(FitLine(own_byte_per_s=own, external_byte_per_s=(*ends,), speed=(*speeds,)))
    unknown = {name: why for name, why in found.unknown.items() if name != "fit"}
    return msgspec.structs.replace(found, fit=fit, fit_lines=tuple(lines), unknown=unknown)
