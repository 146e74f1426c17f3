"""Networks that are run on labelled samples here, on the CPU, for what they say of each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mansard.api.accuracies import AccuracySettings
from mansard.api.networks import choose_provider
from mansard.api.preparation import NetworkSettings, Preparation
from mansard.api.reporter import SILENT, Reporter
from mansard.core.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mansard.inference.plan import NetworkTrial
    from mansard.inference.preparing.prepare import PreparedNetwork
    from mansard.inference.preparing.samples import Samples

_BATCH = 16  # of samples that are fed at once; where a file's own is another, that
_SUM_SLACK = 0.01  # of probabilities, by which they may miss 1


class NetworkData(msgspec.Struct, frozen=True, kw_only=True):
    """Labelled samples, and how images become what a network is fed; see ``AccuracySettings``."""

    data: Path
    labels: Path | None = None
    preprocess: str | None = None
    n_samples: int | None = None


def network_outputs(
    local: str, remote: str | None, data: NetworkData, reporter: Reporter = SILENT
) -> dict[str, NDArray[Any]]:
    """What ``hi`` takes for samples: the local network's scores, labels, the remote one's classes.

    ``local`` and ``remote``: ONNX files of classifiers, run by ONNX Runtime on this CPU, one after
    the other. Scores that are no probabilities are taken for logits. Raises UsageError, ModelError,
    InputError, MeasurementError.
    """
    import numpy as np

    from mansard.inference.accuracy.batches import read_labels

    models = [name for name in (local, remote) if name is not None]
    for name in models:
        if not Path(name).is_file():
            what = f"{name} is no ONNX file"
            raise UsageError(what, fix="networks of the zoo have no trained weights: give a file")
    found: dict[str, NDArray[Any]] = {}
    accuracy = AccuracySettings(
        data=data.data, labels=data.labels, preprocess=data.preprocess, n_samples=data.n_samples
    )
    for name in models:
        settings = NetworkSettings(batches=(_BATCH,), accuracy=accuracy)
        with Preparation(settings) as preparation:
            scores, folder, samples = _run(preparation, name, reporter)
            if not samples.file.is_labelled:
                raise UsageError(f"{data.data} has no labels", fix="give them with --labels")
            labels = read_labels(folder / samples.file.file)
        if name == local and "label" not in found:
            kind = "probabilities" if _are_probabilities(scores) else "logits"
            reporter.note(f"note: {Path(name).name} gives {kind}")
            found |= {kind: scores, "label": labels}
        else:
            found["remote"] = np.argmax(scores, axis=1)
    return found


def _run(
    preparation: Preparation, model: str, reporter: Reporter
) -> tuple[NDArray[np.float64], Path, Samples]:
    """Scores of all samples, the folder of files, and the samples."""
    import numpy as np

    from mansard.inference.accuracy.scores import run_samples
    from mansard.inference.engines import find_engine
    from mansard.inference.inputs import make_inputs
    from mansard.inference.planning import SEED

    preparation.prepare([model], reporter, form="operators")
    ((network, samples),) = preparation.asked
    engine = find_engine("ort")
    choose_provider(engine.probe(), "cpu", has_gpu=False)
    trial = _trial(network)
    folder = preparation.new_folder()
    preparation.write([trial], folder, reporter)
    preparation.write_samples(samples.file.file, folder, reporter)
    parts: list[NDArray[np.float64]] = []
    n_done, n_all = 0, samples.file.n_samples
    with reporter.progress(f"Running {network.model}") as progress:
        loaded = engine.load(trial, folder, make_inputs(trial, folder, SEED), _n_threads())
        try:
            output, _ = network.class_output()
            for scores in run_samples(loaded, trial, samples.file, output, folder):
                parts.append(scores)
                n_done += len(scores)
                progress.update(n_done, n_all, None, f"{n_done} of {n_all} samples")
        finally:
            loaded.close()
    return np.concatenate(parts), folder, samples


def _trial(network: PreparedNetwork) -> NetworkTrial:
    return network.trial(engine="ort", provider="cpu", waiting="block", with_layers=False)


def _n_threads() -> int:
    import os

    return len(os.sched_getaffinity(0))


def _are_probabilities(scores: NDArray[np.float64]) -> bool:
    """Whether all rows are between 0 and 1 and add up to 1, as after a softmax."""
    import numpy as np

    inside = bool((scores >= 0).all() and (scores <= 1).all())
    return inside and bool(np.abs(scores.sum(axis=1) - 1).max(initial=0) < _SUM_SLACK)
