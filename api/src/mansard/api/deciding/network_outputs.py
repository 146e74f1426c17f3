"""What classifiers say of samples: recorded in files, or run here, on the CPU.

And how long the decision takes that is made of what they say.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mansard.analytics.decisions.offload.costs import median_of_blocks
from mansard.analytics.decisions.offload.files import read_columns, read_predictions
from mansard.analytics.decisions.offload.records import Amount
from mansard.analytics.decisions.offload.samples import (
    NAMES,
    are_probabilities,
    check_headers,
    reduced,
    two_largest,
)
from mansard.core.errors import InputError, MansardError, MeasurementError, UsageError
from mansard.core.processes.programs import let_interrupts_end_waits
from mansard.core.records import OffloadRule
from mansard.inference.accuracy import read_labels, run_samples
from mansard.inference.engines import find_engine
from mansard.inference.inputs import make_inputs
from mansard.inference.npz import StoredArray, read_arrays
from mansard.inference.offloading.decision import time_decisions
from mansard.inference.plan import SEED
from mansard.sweeps.accuracies import AccuracySettings
from mansard.sweeps.networks import choose_provider
from mansard.sweeps.offloads import check_trained
from mansard.sweeps.preparation import NetworkSettings, Preparation
from mansard.sweeps.reporter import SILENT, Reporter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mansard.inference.plan import NetworkTrial, PreparedSamples

_BATCH = 16  # of samples that are fed at once; where a file's own is another, that


def network_outputs(
    local: str,
    remote: str | None,
    data: AccuracySettings,
    reporter: Reporter = SILENT,
    predictions: Path | None = None,
) -> dict[str, NDArray[Any]]:
    """Samples for ``tune_offload``: p1, p2, the local network's class, label, remote class.

    ``local`` and ``remote``: ONNX files of classifiers, run by ONNX Runtime on this CPU, one after
    the other. Scores that are not all between 0 and 1 are taken for logits. ``predictions``: a file
    of remote classes, one for each sample of the data set. Raises UsageError, ModelError,
    InputError, MeasurementError.
    """
    import numpy as np

    models = [name for name in (local, remote) if name is not None]
    for name in models:
        check_trained(name)
    choose_provider(find_engine("ort").probe(), "cpu", has_gpu=False)
    with Preparation(NetworkSettings(batches=(_BATCH,), accuracy=data)) as preparation:
        preparation.prepare(models, reporter, form="operators")
        folder, answers = preparation.new_folder(), []
        for network, samples in preparation.with_samples:
            if not samples.file.is_labelled:
                raise UsageError(f"{data.data} has no labels", fix="give them with --labels")
            trial = network.trial(engine="ort", provider="cpu", waiting="block", with_layers=False)
            preparation.write([trial], folder, reporter)
            preparation.write_samples(samples.file.file, folder, reporter)
            answers.append(_run(trial, samples.file, network.class_output()[0], folder, reporter))
        network, samples = preparation.with_samples[0]
        labels = read_labels(folder / samples.file.file)
        n_classes = network.class_output()[1]
        answered: NDArray[Any] | None = None
        if predictions is not None:
            assert samples.dataset is not None  # noqa: S101 - labelled samples are of one
            n_all = samples.dataset.n_samples
            answered = read_predictions(predictions, n_all, n_classes)[list(samples.indexes)]
    rows = answers[0]
    kind = "probabilities" if are_probabilities(rows) else "logits"
    reporter.note(f"note: {Path(local).name} gives {kind}")
    p1, p2 = two_largest(rows, kind, n_classes, local)
    columns = {"p1": p1, "p2": p2, "predicted": rows[:, 2], "label": labels}
    columns["n_classes"] = np.array(n_classes)
    if answered is None and remote is not None:
        answered = answers[1][:, 2]
    return columns if answered is None else {**columns, "remote": answered}


def _run(
    trial: NetworkTrial, samples: PreparedSamples, output: str, folder: Path, reporter: Reporter
) -> NDArray[np.float64]:
    """``samples.reduced`` of all scores, from a process of its own; raises MeasurementError."""
    import multiprocessing

    import numpy as np

    context = multiprocessing.get_context("spawn")
    reader, writer = context.Pipe(duplex=False)
    arguments = (writer, trial, samples, output, folder)
    process = context.Process(target=_answer, args=arguments, daemon=True)
    process.start()
    writer.close()
    parts: list[NDArray[np.float64]] = []
    n_done, n_all = 0, samples.n_samples
    with reporter.progress(f"Running {trial.model}") as progress:
        try:
            let_interrupts_end_waits()
            while n_done < n_all:
                part = reader.recv()
                if isinstance(part, MansardError):
                    raise part
                parts.append(part)
                n_done += len(part)
                progress.update(n_done, n_all, None, f"{n_done} of {n_all} samples")
        except EOFError as error:
            process.join()
            raise MeasurementError(
                f"the process that ran {trial.model} ended with code {process.exitcode}",
                fix="a negative code is a signal: −9 where the memory ran out, −11 for a crash",
            ) from error
        finally:
            process.kill()
            process.join()
    return np.concatenate(parts)


def _answer(
    writer: Any, trial: NetworkTrial, samples: PreparedSamples, output: str, folder: Path
) -> None:
    """Send the ``reduced`` scores of each batch, or the error: a crash ends this process alone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the first process, which ends this
    try:
        n_threads = len(os.sched_getaffinity(0))
        loaded = find_engine("ort").load(trial, folder, make_inputs(trial, folder, SEED), n_threads)
        for scores in run_samples(loaded, trial, samples, output, folder):
            writer.send(reduced(scores))
    except MansardError as error:
        writer.send(error)


def read_samples(source: Path | Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """The arrays or columns of samples, by the names that they have there."""
    if not isinstance(source, Path):
        import numpy as np

        return {name: np.asarray(column) for name, column in source.items()}
    if source.suffix.lower() == ".npz":

        def check(stored: Mapping[str, StoredArray]) -> None:
            headers = {name: (array.shape, array.dtype) for name, array in stored.items()}
            check_headers(headers, str(source))

        names = {name for synonyms in NAMES.values() for name in synonyms}
        return read_arrays(source, names, check)
    if source.suffix.lower() not in {".csv", ".parquet"}:
        fix = "give .npz, .csv or .parquet"
        raise InputError(f"is not a {source.suffix or 'such'} table", where=str(source), fix=fix)
    return read_columns(source)


def time_whole_decision(n_classes: int) -> Amount:
    """Seconds of a decision on this host as the offload client makes it, by a logistic.

    From ``n_classes`` logits: the two largest of them, the softmax, and the rule.
    """
    rule = OffloadRule(threshold=0.5, logistic=(0.0, 1.0, -1.0))
    (timed,) = time_decisions((n_classes,), "logits", rule)
    return median_of_blocks(timed.seconds_s)
