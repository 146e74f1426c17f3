"""Networks as they are prepared for an engine: looked at once, written where they are missing."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from mansard.analytics.data.scores import keep_scores
from mansard.core.errors import MansardError
from mansard.core.formats.onnx import model_files
from mansard.core.records import Copies, EngineBuild, Gpu, ModelScore, PowerMode, Waiting
from mansard.core.storage.files import make_folder, storage_errors
from mansard.core.storage.leftovers import temporary_folder
from mansard.estimator import zoo
from mansard.inference.plan import (
    SEED,
    AccuracyTrial,
    BuildPlan,
    BuildSettings,
    BuildTrial,
    NetworkTrial,
    make_plan,
)
from mansard.sweeps.accuracies import (
    AccuracySettings,
    DataSets,
    calibration_words,
    note_calibration,
    note_preprocessing,
)
from mansard.sweeps.engine_builds import Builds, build_missing
from mansard.sweeps.reporter import Reporter
from mansard.sweeps.targets import BenchTarget

if TYPE_CHECKING:
    from mansard.inference.engines.engine import EngineProbe
    from mansard.inference.preparing.networks import PreparedNetwork
    from mansard.inference.preparing.quantising import Form
    from mansard.inference.preparing.samples import SampleChoice
    from mansard.measuring.protocol import Protocol

PreparationT = TypeVar("PreparationT", bound="Preparation")


class NetworkSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How networks are run; the defaults are those of the command."""

    engine: str | None = None  # ort, tensorrt or trtexec; None: TensorRT on a Jetson, else ort
    provider: str | None = None  # cpu, cuda or tensorrt; None: the fastest available
    batches: tuple[int, ...] = ()  # none: that of each file, 1 where it leaves it open
    precisions: tuple[str, ...] = ()  # none: that of each file
    dims: Mapping[str, int] = msgspec.field(default_factory=dict)  # sizes of named dimensions
    inputs: Path | None = None  # .npz of what the networks are fed; None: random numbers
    accuracy: AccuracySettings = AccuracySettings()
    threads: int | None = None  # None: as many as the mode has CPUs
    copies: Copies = "none"
    waiting: Waiting = "spin"
    with_graph: bool = False  # as a CUDA graph
    with_layers: bool = True
    build: BuildSettings = BuildSettings()  # of engine files, where the engine needs them
    is_dynamic: bool = False  # one engine file for all batches of a network
    has_scales: bool = False  # int8 files have their ranges in them, whatever the builder could do


def sources_of(model: str) -> Sequence[Path | str]:
    """The networks that ``model`` names: files, those of a folder, or names of the zoo.

    Raises InputError for a folder without any.
    """
    return model_files(model) or zoo.family(model) or (model,)


class Preparation:
    """Files that an engine loads, in temporary folders; they are removed when this ends.

    Several boards share it, each in a thread of its own. A file is written once, and only where a
    trial of it is missing; each board has a folder of links to its own.
    """

    title = "networks"  # what is measured, for progress

    def __init__(self, settings: NetworkSettings) -> None:
        self.settings = settings
        self.protocol: Protocol | None = None  # None: that of the profile
        # The CPUs that all are run on, one set after the other; an empty one: all of the mode.
        self.partitions: tuple[tuple[int, ...], ...] = ((),)
        # Those that parts will be run on later: faults are said before anything is measured.
        self.later_partitions: tuple[tuple[int, ...], ...] = ()
        self.networks: list[PreparedNetwork] = []  # what is run, in its order
        self.chains: list[PreparedNetwork] = []  # for what a node takes: preparing/chains.py
        # For accuracy, and to calibrate engine files with; by their file.
        self.samples: dict[str, SampleChoice] = {}
        self.with_samples: list[
            tuple[PreparedNetwork, SampleChoice]
        ] = []  # whose accuracy is measured
        self.is_dry_run = False  # then no engine file is built
        self.built: dict[str, EngineBuild] = {}  # engine files that were needed, by name
        self._builds = Builds(
            settings.build,
            settings.dims,
            is_dynamic=settings.is_dynamic,
            has_scales=settings.has_scales,
        )
        self._stack = ExitStack()
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._is_done = False
        self._checked: set[str] = set()  # files of networks whose stages were compared with them

    @property
    def store(self) -> Path:
        """The folder of all files that were written."""
        return make_folder(self._folder / "files", self._folder)

    def __enter__(self: PreparationT) -> PreparationT:
        self._folder = self._stack.enter_context(temporary_folder())
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def prepare(
        self,
        models: Sequence[str],
        reporter: Reporter,
        *,
        is_lenient: bool = False,
        form: Form = "tensorrt",
    ) -> None:
        """Look at every network once, at every batch and precision; nothing is written.

        Raises what is wrong with a file, unless ``is_lenient``: then it is left out with a note.
        ``form``: of int8; where the engine is not known yet, what every engine can run.
        """
        from mansard.inference.preparing import prepare, write_chains

        with self._lock:
            if self._is_done:
                return
            wanted = [
                (source, batch, precision)
                for model in models
                for source in sources_of(model)
                for batch in self.settings.batches or (None,)
                for precision in self.settings.precisions or (None,)
            ]
            datasets = DataSets(self.settings.accuracy, self.settings.precisions)
            with reporter.progress("Preparing networks") as progress:
                for number, (source, batch, precision) in enumerate(wanted):
                    progress.update(number, len(wanted), None, str(source))
                    try:
                        network = self._add(source, batch, precision, datasets, form)
                    except MansardError as error:
                        if not is_lenient:
                            raise
                        reporter.note(f"note: {source} is not run: {error}")
                        continue
                    if isinstance(source, Path):  # that the zoo's have no weights is known
                        for line in network.notes:
                            reporter.note(f"note: {network.model}: {line}")
                progress.update(len(wanted), len(wanted), None, "done")
            if self.networks:
                folder = make_folder(self._folder / "chains", self._folder)
                with storage_errors(folder):
                    chains = write_chains(folder)
                self.chains += [prepare(path, seed=SEED) for path in chains]
            note_calibration(self.networks, self.settings.accuracy, reporter)
            note_preprocessing(self.with_samples, reporter)
            self._is_done = True

    def _add(
        self,
        source: Path | str,
        batch: int | None,
        precision: str | None,
        datasets: DataSets,
        form: Form,
    ) -> PreparedNetwork:
        """Look at one network; its accuracy is measured at one batch size, the first."""
        from mansard.inference.preparing import Calibrating, prepare

        network = prepare(
            source,
            batch=batch,
            dims=self.settings.dims,
            inputs=self.settings.inputs,
            seed=SEED,
            precision=precision,
            calibrating=Calibrating(form, datasets.calibrate),
        )
        is_first = not self.settings.batches or batch == self.settings.batches[0]
        samples = datasets.samples(network) if is_first else None
        if samples is not None:
            self.samples[samples.file.file] = samples
            self.with_samples.append((network, samples))
        self.networks.append(network)
        return network

    def new_folder(self) -> Path:
        """A new folder for the files of one board."""
        return make_folder(self._folder / f"board-{next(self._numbers)}", self._folder)

    def write(
        self, trials: Sequence[NetworkTrial | BuildTrial], folder: Path, reporter: Reporter
    ) -> None:
        """Write the files of ``trials`` that are missing in ``folder``; raises StorageError."""
        from mansard.inference.preparing import check_space, write

        files = {trial.file for trial in trials}
        missing = [
            network
            for network in (*self.networks, *self.chains, *self._builds.others.values())
            if network.file in files and not (folder / network.file).exists()
        ]
        if not missing:
            return
        store = self.store
        self._check_stages(missing, reporter)
        with self._lock, reporter.progress("Writing networks") as progress:
            check_space([network.files for network in missing], store)
            for number, network in enumerate(missing):
                progress.update(number, len(missing), None, network.model)
                for name in write(network, store):
                    with storage_errors(folder / name), suppress(FileExistsError):
                        os.link(store / name, folder / name)
            progress.update(len(missing), len(missing), None, "done")

    def _check_stages(self, written: Sequence[PreparedNetwork], reporter: Reporter) -> None:
        """Run the stages of networks that ``written`` are cut out of, once; raises ModelError."""
        from mansard.inference.preparing import PreparedPart, check_stages

        parts = [part for part in written if isinstance(part, PreparedPart)]
        wholes = {part.whole.file: part.whole for part in parts if part.part.kind != "layer"}
        with self._lock:
            for file in wholes.keys() - self._checked:
                whole = wholes[file]
                with reporter.progress("Comparing stages with the whole network") as progress:
                    progress.update(0, 1, None, whole.model)
                    why = check_stages(whole, self.store)
                    progress.update(1, 1, None, "done")
                self._checked.add(file)
                if why:
                    reporter.note(
                        f"note: {whole.model}: its stages are not compared with it: {why}"
                    )

    def builds(self, probe: EngineProbe, device: str) -> dict[str, BuildTrial]:
        """The engine file of each network, by the name of its ONNX file, as ``Builds.trials``."""
        with self._lock:
            builds = self._builds.trials(self.networks, probe, device)
            self.samples |= self._builds.samples
            return builds

    def build(
        self,
        wanted: Iterable[BuildTrial],
        probe: EngineProbe,
        gpu: Gpu | None,
        target: BenchTarget,
        modes: Sequence[PowerMode],
        *,
        runs: Path,
        reporter: Reporter,
    ) -> None:
        """Build the ``wanted`` engine files that are missing in ``runs``; as ``build_missing``."""
        files, machine = self.new_folder(), target.controller.identify()
        trials = tuple({trial.engine_file: trial for trial in wanted}.values())
        if not trials:
            return
        if self.is_dry_run:
            many = "1 engine file" if len(trials) == 1 else f"{len(trials)} engine files"
            reporter.note(f"{many} of the networks are needed, and built first where missing")
            return

        def write_files(missing: Sequence[BuildTrial]) -> None:
            self.write(missing, files, reporter)
            for name in {trial.settings.calibration_file for trial in missing} - {""}:
                self.write_samples(name, files, reporter)

        def plan_in(mode: PowerMode) -> BuildPlan:
            return make_plan(BuildPlan, machine, mode, trials, probe.versions, gpu)

        rows = build_missing(
            plan_in, target, modes, runs, reporter, files=files, write_files=write_files
        )
        self.built.update({row.engine_file: row for row in rows})

    def trials(
        self, engine: str, provider: str, builds: Mapping[str, BuildTrial]
    ) -> tuple[NetworkTrial, ...]:
        """One for each network, in their order; on the CPU also the chains of tiny nodes.

        What a GPU needs to start a kernel is measured with its kernels. ``builds``: their engine
        files, as ``builds`` has them.
        """
        settings = self.settings
        chains = self.chains if provider == "cpu" else []
        return tuple(
            network.trial(
                engine=engine,
                provider=provider,
                n_threads=settings.threads,
                copies=settings.copies,
                waiting=settings.waiting,
                with_graph=settings.with_graph,
                with_layers=settings.with_layers and network not in chains,
                engine_file=builds[network.file].engine_file if network.file in builds else "",
            )
            for network in (*self.networks, *chains)
        )

    def accuracy_trials(
        self, engine: str, provider: str, builds: Mapping[str, BuildTrial]
    ) -> tuple[AccuracyTrial, ...]:
        """One for each network that has samples; how it is timed makes no difference."""
        return tuple(
            AccuracyTrial(
                network=network.trial(
                    engine=engine,
                    provider=provider,
                    waiting="block",
                    with_layers=False,
                    engine_file=builds[network.file].engine_file if network.file in builds else "",
                ),
                weights_hash=network.files.source_hash,
                samples=samples.file,
                calibration=calibration_words(network, builds.get(network.file)),
                output=network.class_output()[0],
            )
            for network, samples in self.with_samples
        )

    def write_samples(self, name: str, folder: Path, reporter: Reporter) -> None:
        """Write the samples ``name`` if missing in ``folder``; raises InputError, StorageError."""
        from mansard.inference.preparing import write_samples

        if (folder / name).exists():
            return
        samples = self.samples[name]
        with self._lock, reporter.progress("Writing samples") as progress:
            progress.update(0, 1, None, samples.file.in_words)
            write_samples(samples, self.store)
            with storage_errors(folder / name), suppress(FileExistsError):
                os.link(self.store / name, folder / name)
            progress.update(1, 1, None, "done")

    @property
    def scores(self) -> tuple[ModelScore, ...]:
        """Of the networks as they are run."""
        return tuple(network.score for network in self.networks)


@contextmanager
def keeping_scores(runs: Path, preparation: Preparation) -> Iterator[None]:
    """Add the scores of what is prepared to those in ``runs`` once something was measured there.

    A file of scores that cannot be read is an error before anything is measured.
    """
    keep_scores(runs, ())
    try:
        yield
    finally:
        if runs.exists():
            keep_scores(runs, preparation.scores)
