"""Engine files built and kept without a measurement: which engine builds them, which are missing.

They have the names under which a measurement of the same networks looks for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from mansard.core.errors import MansardError, MeasurementError, UsageError
from mansard.core.records import EngineBuild, MachineIdentity, PowerMode
from mansard.inference.builds import device_name
from mansard.inference.engine_files import EngineFiles
from mansard.sweeps.accuracies import int8_form
from mansard.sweeps.engine_builds import BUILDERS, builds_files, choose_builder
from mansard.sweeps.modes import ModePlan
from mansard.sweeps.networks import MeasureRequest
from mansard.sweeps.preparation import Preparation
from mansard.sweeps.reporter import Reporter
from mansard.sweeps.sweep import dry_run, reachable_hosts, sweep
from mansard.sweeps.targets import BenchTarget, find_processor

if TYPE_CHECKING:
    from mansard.inference.engines.engine import EngineProbe
    from mansard.inference.plan import BuildTrial


class BuiltFile(msgspec.Struct, frozen=True):
    """One engine file on one machine, and what became of it.

    ``state``: "built" by this call, "kept" from an earlier one, "failed" now or earlier for a
    reason that lasts, "missing" where nothing was built. ``build`` is None where it is missing.
    """

    machine: str
    network: str
    batch: int | None
    precision: str
    engine: str
    device: str  # that it is for
    path: Path
    state: Literal["built", "kept", "failed", "missing"]
    build: EngineBuild | None


def sweep_builds(
    request: MeasureRequest, preparation: Preparation, reporter: Reporter, *, is_dry_run: bool
) -> tuple[tuple[BuiltFile, ...], MansardError | None]:
    """Build the engine files of ``request.models`` that ``request.runs`` lacks, on each board.

    Returns the files of each board, in the order of the networks, and why boards failed.
    ``is_dry_run``: nothing is built. Raises any MansardError that keeps everything from being
    built, UsageError for an engine that builds none.
    """
    named = request.settings.engine
    if named is not None and not builds_files(named):
        raise UsageError(
            f"{named} loads ONNX files: it builds no engine files",
            fix=f"use --engine {' or '.join(BUILDERS)}",
        )
    boards = _Boards(request, preparation, is_dry_run)
    if is_dry_run:
        failure = None
        try:
            for _ in dry_run(request, boards.build, reporter):
                pass
        except MansardError as error:
            if not boards.files:
                raise
            failure = error  # of other boards
        return tuple(boards.files), failure
    if request.hosts:
        reachable_hosts(request)  # reports faults of hosts before anything else
        preparation.prepare(request.models, reporter)  # and faults of networks once for all boards
    swept = sweep(request, boards.build, reporter)
    return tuple(boards.files), swept.failure


@dataclass
class _Boards:
    """The boards of one request, each built for in a thread of its own, and their files."""

    request: MeasureRequest
    preparation: Preparation
    is_dry_run: bool
    files: list[BuiltFile] = field(default_factory=list)

    def build(
        self, target: BenchTarget, modes: Sequence[PowerMode], reporter: Reporter
    ) -> list[ModePlan]:
        """Build for one board; nothing is measured afterwards, so the list of plans is empty."""
        machine, settings = target.controller.identify(), self.request.settings
        gpu = None
        if settings.build.compute_capability is None:
            gpu = find_processor(target, machine, self.request.processor, reporter).gpu
        probe = choose_builder(target, machine, settings.engine, reporter)
        _check_device(probe, settings.build.compute_capability)
        form = int8_form(probe.engine, "tensorrt")
        self.preparation.prepare(self.request.models, reporter, form=form)
        device = device_name(gpu, machine, settings.build)
        builds = self.preparation.builds(probe, device).values()
        trials = {trial.engine_file: trial for trial in builds}
        runs = self.request.runs
        engine_files = EngineFiles(runs)
        present = {name for name in trials if engine_files.find(name) is not None}
        if not self.is_dry_run:
            self.preparation.build(
                trials.values(), probe, gpu, target, modes, runs=runs, reporter=reporter
            )
        self.files += [
            _file(trial, machine, device, engine_files, is_kept=name in present)
            for name, trial in trials.items()
        ]
        return []


def _check_device(probe: EngineProbe, compute_capability: str | None) -> None:
    """Raise MeasurementError where there is neither a GPU to build on nor one that is named."""
    if probe.providers is None and compute_capability is None:
        raise MeasurementError(
            f"{probe.engine} {probe.version} cannot build here: {probe.unknown['providers']}",
            fix="build on the machine that runs it, or name the card with --compute-capability 8.6 "
            "where TensorRT for RTX is the builder",
        )


def _file(
    trial: BuildTrial,
    machine: MachineIdentity,
    device: str,
    engine_files: EngineFiles,
    *,
    is_kept: bool,
) -> BuiltFile:
    row = engine_files.row(trial.engine_file)
    state: Literal["built", "kept", "failed", "missing"] = "missing"
    if row is not None and row.failure is not None:
        state = "failed"
    elif row is not None and engine_files.find(trial.engine_file) is not None:
        state = "kept" if is_kept else "built"
    return BuiltFile(
        machine=machine.name,
        network=trial.model,
        batch=trial.batch,
        precision=trial.precision,
        engine=trial.engine,
        device=device,
        path=engine_files.folder / trial.engine_file,
        state=state,
        build=None if state == "missing" else row,
    )
