"""What measures one candidate: a network or a program in one mode, and its command."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mansard.analytics.data.names import device_labels, display_name, window_name
from mansard.analytics.models.scaling.use_of_rows import windows_by_name
from mansard.api.deciding.measuring_words import folder_of, mode_text, places, program_words
from mansard.api.deciding.predictions import PredictionRequest
from mansard.core.formats.onnx import model_files, model_name
from mansard.estimator import zoo

if TYPE_CHECKING:
    from mansard.analytics.data.dataset import Dataset
    from mansard.analytics.decisions.records import Candidate
    from mansard.core.records import MachineIdentity, ProgramRun


@dataclass(frozen=True, kw_only=True)
class NextMeasurement:
    """A network (``model``: a file, or a name of the zoo) or a ``program`` in one mode of a board.

    ``precision``: None where none was asked for. ``is_again``: the program was measured there.
    """

    mode: str  # as ``--mode`` takes it
    runs: str
    board: Path | None
    batch: int
    model: str = ""
    precision: str | None = None
    is_cpu: bool = False  # beside a GPU, which would be taken
    dims: tuple[tuple[str, int], ...] = ()
    program: ProgramRun | None = None
    is_again: bool = False

    @property
    def command(self) -> str:
        """``mansard measure resnet50 --mode 30W --batch 1``."""
        where = places(self.runs, self.board)
        mode = ["--mode", self.mode]
        if self.program is not None:
            words = program_words(self.program, is_again=self.is_again)
            return shlex.join(["mansard", "measure", *mode, *where, *words])
        words = ["mansard", "measure", self.model, *mode, "--batch", str(self.batch)]
        words += ["--processor", "cpu"] if self.is_cpu else []
        words += [] if self.precision is None else ["--precision", self.precision]
        for name, size in self.dims:
            words += ["--dim", f"{name}={size}"]
        return shlex.join([*words, *where])


def find_measurement(
    candidate: Candidate,
    dataset: Dataset,
    machine: MachineIdentity | None,
    asked: PredictionRequest,
) -> NextMeasurement | None:
    """What measures ``candidate``; None where no command can.

    ``machine``: that of the candidate's device; None where it is known by the tables of others
    alone. A network needs a file, or to be of the zoo.
    """
    runs = folder_of(asked.runs)
    if machine is None or runs is None:
        return None
    program = _program_of(candidate.network, dataset)
    model = _model_of(candidate.network, asked)
    if program is None and (model is None or candidate.is_measured):
        return None
    return NextMeasurement(
        mode=mode_text(candidate.mode),
        runs=runs,
        board=asked.board,
        batch=candidate.batch,
        model=model or "",
        precision=candidate.precision if asked.precisions else None,
        is_cpu=is_cpu_beside_gpu(candidate.device, dataset),
        dims=tuple(asked.dims.items()),
        program=program,
        is_again=candidate.is_measured,
    )


def is_cpu_beside_gpu(device: str, dataset: Dataset) -> bool:
    """Whether the device is a CPU where the GPU would be taken if nothing was said."""
    labels = device_labels(dataset.all_manifests)
    ours = [run for run in dataset.all_manifests if labels[run.run_id] == device]
    return any(run.gpu is None and run.machine.kind != "cpu" for run in ours)


def _program_of(network: str, dataset: Dataset) -> ProgramRun | None:
    """The newest run of the program, or of that whose window ``network`` is; None of neither."""
    runs = [run for run in dataset.programs if network in _names_of(run)]
    return max(runs, key=lambda run: run.started_utc, default=None)


def _names_of(program: ProgramRun) -> set[str]:
    """What predictions call the program and its windows."""
    windows = windows_by_name(program.repetitions)
    return {
        display_name(program.workload),
        *(window_name(program.workload, name) for name in windows),
    }


def _model_of(network: str, asked: PredictionRequest) -> str | None:
    """The file that was named, or the network's name where it is of the zoo."""
    for wanted in asked.networks:
        files = [path for path in model_files(wanted.name) or () if model_name(path) == network]
        if files:
            return str(files[0])
    return network if network in zoo.names() else None
