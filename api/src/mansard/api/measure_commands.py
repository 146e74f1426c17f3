"""The command that makes one measurement: of a network or a program, in one mode."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from mansard.api.predictions import PredictionRequest
from mansard.core.formats.onnx import onnx_files
from mansard.core.power_mode import parse_custom_name
from mansard.core.units import format_frequency

if TYPE_CHECKING:
    from mansard.analytics.data.dataset import Dataset
    from mansard.analytics.decisions.records import Candidate
    from mansard.core.records import MachineIdentity, ProgramRun


def measure_command(
    candidate: Candidate,
    dataset: Dataset,
    machine: MachineIdentity | None,
    asked: PredictionRequest,
) -> str | None:
    """``mansard measure resnet50 --mode 30W --batch 1``; None where no command can measure it.

    ``machine``: that of the candidate's device; None where it is known by the tables of others
    alone. A network needs a file, or to be of the zoo.
    """
    from mansard.analytics.data.store import is_url

    if machine is None:
        return None
    places = [] if asked.board is None else ["--board", str(asked.board)]
    folder = asked.runs[0] if len(asked.runs) == 1 else "runs"
    if is_url(folder):
        return None
    places += [] if folder == "runs" else ["--runs", folder]
    mode = ["--mode", _mode_text(candidate.mode)]
    program = _program_of(candidate.network, dataset)
    if program is not None:
        words = program_words(program, is_again=candidate.is_measured)
        return shlex.join(["mansard", "measure", *mode, *places, *words])
    model = _model_of(candidate.network, asked)
    if model is None or candidate.is_measured:
        return None
    words = ["mansard", "measure", model, *mode, "--batch", str(candidate.batch)]
    words += ["--processor", "cpu"] if is_cpu_beside_gpu(candidate.device, dataset) else []
    if asked.precisions:
        words += ["--precision", candidate.precision]
    for name, size in asked.dims.items():
        words += ["--dim", f"{name}={size}"]
    return shlex.join([*words, *places])


def is_cpu_beside_gpu(device: str, dataset: Dataset) -> bool:
    """Whether the device is a CPU where the GPU would be taken if nothing was said."""
    from mansard.analytics.data.names import device_labels

    labels = device_labels(dataset.all_manifests)
    ours = [each for each in dataset.all_manifests if labels[each.run_id] == device]
    return any(each.gpu is None and each.machine.kind != "cpu" for each in ours)


def _mode_text(mode: str) -> str:
    """As ``--mode`` takes it: a mode that was set clock by clock by its settings."""
    settings = parse_custom_name(mode)
    if settings is None:
        return mode
    clocks = {"gpu": settings.gpu, "emc": settings.emc, "cpu": settings.cpu}
    parts = [f"{key}={format_frequency(at.hz)}" for key, at in clocks.items() if at is not None]
    if not parts:
        return mode  # a number of cores has a mode of its own
    return ",".join([*parts, *([] if settings.n_cpus is None else [f"cores={settings.n_cpus}"])])


def _program_of(network: str, dataset: Dataset) -> ProgramRun | None:
    """The newest run of the program, or of that whose window ``network`` is; None of neither."""
    runs = [each for each in dataset.programs if network in _names_of(each)]
    return max(runs, key=lambda each: each.started_utc, default=None)


def _names_of(program: ProgramRun) -> set[str]:
    """What predictions call the program and its windows."""
    from mansard.analytics.data.names import display_name, window_name
    from mansard.analytics.models.scaling.observations import windows_by_name

    windows = windows_by_name(program.repetitions)
    return {
        display_name(program.workload),
        *(window_name(program.workload, name) for name in windows),
    }


def program_words(program: ProgramRun, *, is_again: bool = False) -> list[str]:
    """What ``mansard measure`` is told to run the program as it was run before."""
    words = ["--name", program.workload]
    if program.metric_pattern is not None:
        words += ["--metric", program.metric_pattern]
    return [*words, *(["--again"] if is_again else []), "--", *program.command]


def _model_of(network: str, asked: PredictionRequest) -> str | None:
    """The file that was named, or the network's name where it is of the zoo."""
    from mansard.estimator import zoo

    for each in asked.networks:
        files = [path for path in onnx_files(each.name) or () if Path(path).stem == network]
        if files:
            return str(files[0])
    return network if network in zoo.names() else None
