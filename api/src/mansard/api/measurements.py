"""What is measured in each mode, beside what is predicted of it.

Networks, their layers, programs, several networks at once in stages on several devices, and
contention for memory with what runs know of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mansard.api.inputs import Networks, as_list
from mansard.api.result import Result
from mansard.api.rows import times_of_networks, times_of_programs
from mansard.core.errors import MansardError, MeasurementError, UsageError
from mansard.core.extras import has_extra, install_command, require_extra
from mansard.core.records import EngineBuild, Manifest, Measurement, MultiRun, ProgramRun
from mansard.core.text import listed
from mansard.inference.multi.trial import MULTI
from mansard.inference.programs.trial import PROGRAMS
from mansard.inference.rows import NOT_BUILT, is_for_now
from mansard.sweeps.builds import BuiltFile, sweep_builds
from mansard.sweeps.kernels import plan_contention
from mansard.sweeps.layers import LayerSettings, PartPreparation
from mansard.sweeps.mappings import MultiRequest, sweep_mappings
from mansard.sweeps.networks import MeasureRequest, measured_rows, sweep_networks, with_image
from mansard.sweeps.preparation import Preparation
from mansard.sweeps.programs import ProgramRequest, run_program
from mansard.sweeps.reporter import SILENT, Reporter
from mansard.sweeps.rows import rows_of, start_key
from mansard.sweeps.sweep import DryRun, SweepRequest, dry_run, sweep

if TYPE_CHECKING:
    from mansard.analytics.data.accuracies import NetworkAccuracy
    from mansard.analytics.models.contention import VictimContention
    from mansard.analytics.models.predict.group_times import GroupTimes
    from mansard.analytics.models.predict.memory_use import MemoryTraffic
    from mansard.analytics.models.predict.parts import PartSum, PartTimes
    from mansard.analytics.models.predict.row_times import NetworkTimes, ProgramTimes
    from mansard.inference.multi.mappings import Mapping


class MeasuredMulti(msgspec.Struct, frozen=True):
    """A row, and the mode that it was measured in."""

    machine: str
    mode: str
    row: MultiRun


class MultiResult(Result, frozen=True):
    """What ran, now or before, and what could not be measured."""

    rows: tuple[MeasuredMulti, ...]
    failure: MansardError | None

    def check(self) -> None:
        """Raise ``failure``, or name the mappings that could not be run."""
        if self.failure is not None:
            raise self.failure
        failed = [mapping.row for mapping in self.rows if mapping.row.failure is not None]
        if failed:
            raise MeasurementError(
                f"{len(failed)} of {len(self.rows)} mappings could not be run; the first: "
                f"{failed[0].failure}",
                fix="to try one again, move the folder of its run away",
            )


def run_mappings(
    request: MultiRequest, mappings: Sequence[Mapping], reporter: Reporter = SILENT
) -> MultiResult:
    """Run each of ``mappings`` in each mode, and keep every row in ``request.runs``.

    Mappings of the same networks that follow one another share their files and a run of each mode;
    the files are removed after it. What was measured before, or comes twice, is not measured
    again. Raises UsageError for a mapping that nothing could run, and any MansardError that keeps
    everything from being measured.
    """
    swept = sweep_mappings(request, mappings, reporter)
    rows = tuple(
        MeasuredMulti(manifest.machine.name, manifest.mode_read_back.name, row)
        for manifest, row in sorted(rows_of(request.runs, swept.run_ids, MULTI), key=start_key)
    )
    return MultiResult(rows, swept.failure)


class ContentionResult(Result, frozen=True):
    """What was measured of the modes asked for, now or before, and what could not be measured."""

    contention: tuple[VictimContention, ...]
    failure: MansardError | None

    def check(self) -> None:
        """Raise ``failure``, or name the accelerators of which too few points count."""
        if self.failure is not None:
            raise self.failure
        bare = [victim for victim in self.contention if victim.surface is None]
        if bare:
            raise MeasurementError(
                f"too few points of {listed([victim.victim for victim in bare])} count: "
                f"{bare[0].remark}",
                fix="stop other programs; the same command measures them again",
            )


def measure_contention(request: SweepRequest, reporter: Reporter = SILENT) -> ContentionResult:
    """Measure what each of two accelerators loses of its memory's traffic beside the other.

    They are the GPU and the CPUs, or two halves of the CPUs. What was measured before is not
    measured again; an interrupted sweep resumes. Raises any MansardError that keeps everything
    from being measured.
    """
    require_extra("report")  # for the result; fail before measuring, not after
    swept = sweep(request, partial(plan_contention, request), reporter)
    from mansard.api.data import measured_contention

    known = measured_contention([request.runs], newest_only=True) if swept.run_ids else ()
    run_ids = frozenset(swept.run_ids)
    measured = tuple(victim for victim in known if not run_ids.isdisjoint(victim.run_ids))
    return ContentionResult(measured, swept.failure)


def dry_run_contention(request: SweepRequest, reporter: Reporter = SILENT) -> Iterator[DryRun]:
    """What ``measure_contention`` would do on each board; nothing is touched."""
    return dry_run(request, partial(plan_contention, request), reporter)


class MeasuredNetwork(Result, frozen=True):
    """A row, and the mode that it was measured in."""

    machine: str
    mode: str
    row: Measurement


class MeasureResult(Result, frozen=True):
    """What was measured, now or before, beside what is predicted, and what could not be.

    ``times``: of the newest row of each network in each mode; ``accuracies``: of networks that were
    fed with samples. Both are empty where the folder as a whole cannot be read, which a note says.
    """

    rows: tuple[MeasuredNetwork, ...]
    times: tuple[NetworkTimes, ...]
    accuracies: tuple[NetworkAccuracy, ...]
    failure: MansardError | None
    memory: tuple[MemoryTraffic, ...] = ()  # of boards that report their memory's use
    builds: tuple[EngineBuild, ...] = ()  # of the engine files that were needed to measure

    def check(self) -> None:
        """Raise ``failure``, if there is one, or name the networks that could not be run."""
        if self.failure is not None:
            raise self.failure
        failed = [network for network in self.rows if network.row.failure is not None]
        wrong = [network for network in self.accuracies if network.remark]
        if wrong and not failed:
            first = wrong[0]
            raise MeasurementError(
                f"the accuracy of {first.network} in {first.precision} could not be measured: "
                f"{first.remark}",
                fix="to try again, move the folder of its run away",
            )
        if failed:
            reasons = [str(network.row.failure) for network in failed]
            names = listed(list(dict.fromkeys(network.row.model for network in failed)))
            lasting = [why for why in reasons if not is_for_now(why)]
            again = "to try one again, move the folder of its run away"
            if any(why.startswith(NOT_BUILT) for why in lasting):
                again += ", and of what could not be built also the .json in RUNS/engines"
            if not lasting:
                again = "the same command tries again"
            raise MeasurementError(
                f"{len(failed)} of {len(self.rows)} measurements failed, of {names}",
                fix=f"the remarks above say why; {again}",
            )


def measure_networks(
    request: MeasureRequest | Networks, reporter: Reporter = SILENT, *, runs: Path | None = None
) -> MeasureResult:
    """Run networks in power modes, and keep every row in the folder of runs.

    ``request``: networks, or a request with modes, engine and board. ``runs``: the folder,
    instead of the request's. Returns one row for each network, precision, batch and mode, and
    the medians compared with predictions. Interrupted measurements resume; rows of an earlier
    run are not measured again. Raises any MansardError that keeps everything from being measured.

    >>> import mansard as m
    >>> request = m.MeasureRequest(
    ...     models=("tiny.onnx",), profile="brief", processor="cpu", is_local=True
    ... )
    >>> measured = m.measure_networks(request, runs="tiny-runs")
    >>> measured.rows[0].row.model, measured.failure
    ('tiny', None)
    """
    if not isinstance(request, MeasureRequest):
        names = tuple(map(str, as_list(request)))
        if not names or not all(names):
            raise UsageError("no network is named", fix="give a name or an ONNX file")
        request = MeasureRequest(models=names)
    if runs is not None:
        request = msgspec.structs.replace(request, runs=runs)
    request = with_image(request)
    with Preparation(request.settings) as preparation:
        return _measure(request, preparation, reporter)


def _measure(
    request: MeasureRequest, preparation: Preparation, reporter: Reporter
) -> MeasureResult:
    swept = sweep_networks(request, preparation, reporter)
    rows = _measured(request.runs, swept.run_ids)
    builds = tuple(preparation.built.values())
    if not has_extra("report"):
        times = times_of_networks(measured_rows(request.runs, swept.run_ids))
        reporter.note(f"note: for predictions and a report: {install_command('report')}")
        return MeasureResult(rows, times, (), swept.failure, (), builds)
    from mansard.api.data import beside_predictions

    times, accuracies, memory = beside_predictions(request.runs, frozenset(swept.run_ids), reporter)
    return MeasureResult(rows, times, accuracies, swept.failure, memory, builds)


def _measured(
    runs: Path, run_ids: Iterable[str], *, of_parts: bool = False
) -> tuple[MeasuredNetwork, ...]:
    return tuple(
        MeasuredNetwork(manifest.machine.name, manifest.mode_read_back.name, row)
        for manifest, row in measured_rows(runs, run_ids, of_parts=of_parts)
    )


class BuildResult(Result, frozen=True):
    """The engine files of networks on each board, and what could not be built."""

    files: tuple[BuiltFile, ...]
    failure: MansardError | None

    def check(self) -> None:
        """Raise ``failure``, if there is one, or name the networks that could not be built."""
        if self.failure is not None:
            raise self.failure
        builds = [file.build for file in self.files if file.state == "failed"]
        failed = [build for build in builds if build is not None]
        if not failed:
            return
        again = "to try again, remove the .json file of the engine file"
        if all(build.is_transient for build in failed):
            again = "the same command tries again"
        raise MeasurementError(
            f"{len(failed)} of {len(self.files)} engine files could not be built; the first: "
            f"{failed[0].model}: {failed[0].failure}",
            fix=again,
        )


def build(
    request: MeasureRequest, reporter: Reporter = SILENT, *, is_dry_run: bool = False
) -> BuildResult:
    """Build the engine files that ``measure_networks`` of ``request`` would load, and keep them.

    They are built in the highest of the modes asked for, and kept in ``request.runs``; those that
    are there are not built again. Nothing is measured. ``is_dry_run``: nothing is built either.
    Raises any MansardError that keeps everything from being built.
    """
    request = with_image(request)
    with Preparation(request.settings) as preparation:
        return BuildResult(*sweep_builds(request, preparation, reporter, is_dry_run=is_dry_run))


class LayersResult(Result, frozen=True):
    """Whole networks and their parts, and the sum of these against the whole.

    ``parts``: of the newest row of each part in each mode.
    """

    whole: MeasureResult
    rows: tuple[MeasuredNetwork, ...]  # of the parts
    parts: tuple[PartTimes, ...]
    sums: tuple[PartSum, ...]
    groups: tuple[GroupTimes, ...]  # stages and groups by accelerator, where some of these were run
    failure: MansardError | None

    def check(self) -> None:
        """Raise what could not be measured."""
        self.whole.check()
        if self.failure is not None:
            raise self.failure
        failed = [part.row.model for part in self.rows if part.row.failure is not None]
        if failed:
            raise MeasurementError(
                f"{len(failed)} of {len(self.rows)} measurements failed, of "
                f"{listed(list(dict.fromkeys(failed)))}",
                fix="the remarks above say why; to try one again, move the folder of its run away",
            )


def measure_layers(
    request: MeasureRequest, alone: LayerSettings, reporter: Reporter = SILENT
) -> LayersResult:
    """Run ``request.models`` whole, then their layers or stages one by one, in each mode.

    Networks are measured as by ``measure_networks``, and kept in the same runs; parts have a run
    of their own in each mode. An int8 network has its ranges in its file, as its parts have: those
    that a builder finds itself are of the whole alone. Raises any MansardError that keeps
    everything from being measured.
    """
    require_extra("report")
    if request.settings.is_dynamic:
        raise UsageError("a layer has the shapes of its batch", fix="leave --dynamic out")
    settings = msgspec.structs.replace(request.settings, has_scales=True)
    request = msgspec.structs.replace(request, settings=settings)
    request = with_image(request)
    with Preparation(request.settings) as prepared:
        prepared.later_partitions = alone.partitions
        whole = _measure(request, prepared, reporter)
        ran = [network.row for network in whole.rows if network.row.failure is None]
        with PartPreparation(prepared, request.profile, alone, ran) as preparation:
            swept = sweep_networks(request, preparation, reporter)
    rows = _measured(request.runs, swept.run_ids, of_parts=True)
    from mansard.api.data import beside_whole_networks

    parts, sums, groups = beside_whole_networks(request.runs, frozenset(swept.run_ids), reporter)
    return LayersResult(whole, rows, parts, sums, groups, swept.failure)


class MeasuredProgram(msgspec.Struct, frozen=True):
    """A program in one mode; ``manifest`` says in which, and on which machine."""

    manifest: Manifest
    run: ProgramRun
    times: tuple[ProgramTimes, ...]  # of the program as a whole, and of each window by name


class ProgramResult(Result, frozen=True):
    """A program in the modes asked for, measured now or before, and what could not be measured."""

    measured: tuple[MeasuredProgram, ...]
    failure: MansardError | None

    def check(self) -> None:
        """Raise ``failure``, if there is one."""
        if self.failure is not None:
            raise self.failure


def measure_program(request: ProgramRequest, reporter: Reporter = SILENT) -> ProgramResult:
    """Run a program in each mode as often as it takes, with time, memory and energy.

    Its streams are those of this process. What was measured before is not measured again, unless
    asked for. Raises ProgramFailed with the program's own exit code where it fails: the modes
    before are kept, and the board is put back; UsageError, and what keeps a board from being
    measured.
    """
    swept = run_program(request, reporter)
    rows = rows_of(request.runs, swept.run_ids, PROGRAMS)
    measured = (
        MeasuredProgram(manifest, row, times)
        for (manifest, row), times in zip(rows, times_of_programs(rows), strict=True)
    )
    return ProgramResult(tuple(measured), swept.failure)
