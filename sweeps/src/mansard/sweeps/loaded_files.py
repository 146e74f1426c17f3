"""What planned trials load on one board: ONNX files, samples, engine files; made where missing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mansard.inference.accuracy.plan import AccuracyTrial
from mansard.inference.engine_files import EngineFiles
from mansard.inference.multi.plan import MultiTrial, stage_networks
from mansard.inference.plan import NetworkTrial
from mansard.measuring.runner import missing_trials
from mansard.sweeps.modes import ModePlan

if TYPE_CHECKING:
    from mansard.core.records import Gpu, PowerMode
    from mansard.inference.engines.engine import EngineProbe
    from mansard.inference.plan import BuildTrial
    from mansard.measuring.plan import PlannedTrial, RunPlan
    from mansard.sweeps.preparation import Preparation
    from mansard.sweeps.reporter import Reporter
    from mansard.sweeps.targets import BenchTarget


class LoadedFiles:
    """The files of one board; ``runs`` keeps the rows, and the engine files that were built."""

    def __init__(self, preparation: Preparation, runs: Path, reporter: Reporter) -> None:
        self._preparation, self._runs, self._reporter = preparation, runs, reporter
        self._folder = preparation.new_folder()
        self._engine_files: set[str] = set()  # that missing trials load

    def plan(self, plan: RunPlan, **fields: Any) -> ModePlan:
        """``plan`` with the files of the trials that the runs lack; ``fields``: of ``ModePlan``."""
        ids = {trial.trial_id for trial in missing_trials(plan, self._runs)}
        missing = [trial for trial in plan.trials if trial.trial_id in ids]
        networks = [network for trial in missing for network in _networks_of(trial)]
        self._engine_files |= {network.engine_file for network in networks}
        write = partial(self._write, missing, networks)
        return ModePlan(plan, len(missing), self._folder, write, **fields)

    def build(
        self,
        builds: Iterable[BuildTrial],
        probe: EngineProbe,
        gpu: Gpu | None,
        target: BenchTarget,
        modes: Sequence[PowerMode],
    ) -> None:
        """Build those of ``builds`` that missing trials load and the runs lack."""
        wanted = [build for build in builds if build.engine_file in self._engine_files]
        self._preparation.build(
            wanted, probe, gpu, target, modes, runs=self._runs, reporter=self._reporter
        )

    def _write(self, trials: Sequence[PlannedTrial], networks: Sequence[NetworkTrial]) -> None:
        onnx = [trial for trial in networks if not trial.engine_file or trial.inputs_file]
        self._preparation.write(onnx, self._folder, self._reporter)
        built = {trial.engine_file for trial in networks}
        EngineFiles(self._runs).link(filter(None, built), self._folder)
        for trial in trials:
            if isinstance(trial, AccuracyTrial):
                self._preparation.write_samples(trial.samples.file, self._folder, self._reporter)


def _networks_of(trial: PlannedTrial) -> Sequence[NetworkTrial]:
    if isinstance(trial, MultiTrial):
        return stage_networks(trial)
    network = trial.network if isinstance(trial, AccuracyTrial) else trial
    return (network,) if isinstance(network, NetworkTrial) else ()
