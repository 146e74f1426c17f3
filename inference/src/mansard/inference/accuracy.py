"""The kind of measurement "accuracies": which classes a network predicts for labelled samples.

Samples of an .npz are read as batches; of each sample the predicted class is kept, and the rank of
the right one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mansard.core.errors import InputError, MeasurementError, StorageError
from mansard.core.records import Accuracy
from mansard.inference.builds import built_options
from mansard.inference.engines import find_engine
from mansard.inference.engines.engine import Engine, check_provider
from mansard.inference.inputs import cast, make_inputs, numpy_name
from mansard.inference.memory import limited_to_available
from mansard.inference.npz import Array, npz_fault, stored_arrays
from mansard.inference.plan import (
    LABELS,
    AccuracyPlan,
    AccuracyTrial,
    InputSpec,
    NetworkTrial,
    Normalisation,
    PreparedSamples,
)
from mansard.inference.rows import head, is_for_now, why_no_batch
from mansard.measuring.instruments import Instruments, Took, utc_now
from mansard.measuring.kind import MeasurementKind, Opened

Classes = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float64]
_MOST_LABELS = 10_000_000  # a hundred times the largest set that is measured with


def run_samples(
    loaded: Any, network: NetworkTrial, samples: PreparedSamples, output: str, folder: Path
) -> Iterator[Scores]:
    """The scores in ``output``, samples × classes, one array for each batch of ``samples``.

    ``loaded``: the network as its engine loaded it. Raises MeasurementError, InputError and
    StorageError.
    """
    for n_new, fed in batches(samples, network.input_specs, folder):
        yield output_scores(loaded.outputs(fed), output, n_new)


def output_scores(outputs: Mapping[str, Array], name: str, n_samples: int) -> Scores:
    """The scores in output ``name`` of a call, as ``class_scores``; raises MeasurementError."""
    if name not in outputs:
        raise MeasurementError(f"the engine gives no output {name!r}")
    return class_scores(outputs[name], n_samples)


def class_scores(output: Array, n_samples: int) -> Scores:
    """``output`` as samples × classes; its other dimensions must be 1.

    Raises MeasurementError for another shape.
    """
    n_classes = output.size // output.shape[0] if output.ndim and output.size else 0
    if output.ndim < 2 or n_classes < 2 or max(output.shape[1:]) != n_classes:
        raise MeasurementError(f"the output is {list(output.shape)}: no scores of classes")
    return output.reshape(len(output), n_classes)[:n_samples].astype(np.float64)


def predicted(scores: Scores) -> Classes:
    """The class with the highest score, the first of equal ones; n_classes where one is NaN."""
    classes: Classes = np.argmax(scores, axis=1)
    return np.where(np.isnan(scores).any(axis=1), scores.shape[1], classes)


def ranks(scores: Scores, labels: Classes) -> Classes:
    """How many classes rank before the right one: 0 where the network is right.

    Of equal scores the lower class ranks first, so that a network with one score for all
    classes is right by chance alone. n_classes where a score is NaN.
    """
    label_scores = scores[np.arange(len(labels)), labels][:, None]
    is_lower = np.arange(scores.shape[1])[None, :] < labels[:, None]
    before = (scores > label_scores) | ((scores == label_scores) & is_lower)
    n_before: Classes = before.sum(axis=1)
    return np.where(np.isnan(scores).any(axis=1), scores.shape[1], n_before)


def read_labels(path: Path) -> npt.NDArray[np.int64]:
    """The classes of all samples; raises InputError and StorageError."""
    with stored_arrays(path, [LABELS]) as arrays:
        labels = arrays.get(LABELS)
        if labels is None:
            raise npz_fault(f"there is no array {LABELS!r}", path)
        if labels.dtype.kind not in "iu" or len(labels.shape) != 1:
            raise npz_fault(
                f"{LABELS!r} is {labels.dtype} {list(labels.shape)}, and should be one integer "
                "for each sample",
                path,
            )
        if labels.shape[0] > _MOST_LABELS:
            raise npz_fault(f"{LABELS!r} has more than {_MOST_LABELS:,} classes", path)
        return labels.rows(labels.shape[0]).astype(np.int64)


def batches(
    samples: PreparedSamples, specs: Sequence[InputSpec], folder: Path
) -> Iterator[tuple[int, Mapping[str, Array]]]:
    """Each batch: how many of its samples are new, and the arrays to feed.

    The last batch is padded with its own first rows. Raises InputError, StorageError.
    """
    path = folder / samples.file
    with stored_arrays(path, [spec.name for spec in specs]) as arrays:
        n_left, n_batch = samples.n_samples, specs[0].shape[0]
        while n_left:
            n_new = min(n_left, n_batch)
            fed = {}
            for spec in specs:
                rows = arrays[spec.name].rows(n_new)
                fed[spec.name] = _filled(fed_rows(rows, samples.normalisation, spec), n_batch)
            yield n_new, fed
            n_left -= n_new


def _filled(rows: Array, n_rows: int) -> Array:
    return rows if len(rows) == n_rows else np.resize(rows, (n_rows, *rows.shape[1:]))


def fed_rows(rows: Array, normalisation: Normalisation | None, spec: InputSpec) -> Array:
    """Stored rows as the input ``spec`` takes them: pixels are normalised."""
    if normalisation is not None:
        rows = normalised(rows, normalisation)
    if rows.dtype == np.float32:
        rows = cast(rows, spec.type_name)
    return np.ascontiguousarray(rows, numpy_name(spec.type_name))


def normalised(pixels: Array, how: Normalisation) -> npt.NDArray[np.float32]:
    """Pixels of several samples as a network is fed; float32."""
    shape: list[int] = [1] * pixels.ndim
    shape[how.channel_axis + 1] = -1
    mean, deviation = (
        np.asarray(channels, np.float32).reshape(shape) for channels in (how.mean, how.deviation)
    )
    numbers = pixels.astype(np.float32) / np.float32(how.scale)
    return np.asarray((numbers - mean) / deviation, np.float32)


_LOADING_S = 3600.0  # at most
_BATCH_S = 600.0  # likewise, of one batch: silence beyond it is a hang
_TOLD_EVERY_S = 5.0


@dataclass(frozen=True)
class _Predictions:
    """The predicted classes of all samples."""

    options: dict[str, str]
    n_classes: int
    predicted: Classes
    ranks: Classes | None


def measure_accuracy(
    spec: AccuracyTrial, plan: AccuracyPlan, instruments: Instruments, engine: Engine
) -> Accuracy:
    """Feed one network with its samples; where that fails, the row has a ``failure``.

    Raises MeasurementError where no folder of files was given, or a file is missing.
    """
    folder = instruments.files
    if folder is None:
        raise MeasurementError("no folder of networks was given", fix="report this")
    network = spec.network
    for name in ("" if network.engine_file else network.file, spec.samples.file):
        if name and not (folder / name).is_file():
            raise MeasurementError("there is no such file", where=str(folder / name))
    started_utc, start_s = utc_now(), time.monotonic()
    outcome: _Predictions | str
    try:
        outcome = _predict(spec, plan, instruments, engine, folder)
    except (MeasurementError, InputError, StorageError) as error:
        outcome = str(error)
    except MemoryError:
        outcome = "too little memory"
    return _row(spec, plan, outcome, Took(time.monotonic() - start_s, started_utc))


def _predict(
    spec: AccuracyTrial,
    plan: AccuracyPlan,
    instruments: Instruments,
    engine: Engine,
    folder: Path,
) -> _Predictions:
    network, samples = spec.network, spec.samples
    labels = read_labels(folder / samples.file) if samples.is_labelled else None
    classes: list[Classes] = []
    own_ranks: list[Classes] = []
    n_done, n_classes = 0, 0
    with ExitStack() as stack:
        if network.provider == "cpu":
            stack.enter_context(limited_to_available())
        instruments.announce(f"loading {network.title}", _LOADING_S)
        built_options(network, plan, folder)  # raises where it is not for this device
        inputs = make_inputs(network, folder, plan.seed)
        loaded = engine.load(network, folder, inputs, network.n_threads or len(plan.cpus))
        stack.callback(loaded.close)
        told_s = 0.0
        for scores in run_samples(loaded, network, samples, spec.output, folder):
            if time.monotonic() - told_s > _TOLD_EVERY_S:
                told_s = time.monotonic()
                done = f"{spec.title}, {n_done} of {samples.n_samples}"
                instruments.announce(done, _BATCH_S)
            n_new, n_classes = scores.shape
            classes.append(predicted(scores))
            if labels is not None:
                batch_labels = labels[n_done : n_done + n_new]
                if (
                    batch_labels.size
                    and not 0 <= batch_labels.min() <= batch_labels.max() < n_classes
                ):
                    raise MeasurementError(f"a label is not one of the {n_classes} classes")
                own_ranks.append(ranks(scores, batch_labels))
            n_done += n_new
        options = dict(loaded.options)
    return _Predictions(
        options=options,
        n_classes=n_classes,
        predicted=np.concatenate(classes),
        ranks=np.concatenate(own_ranks) if own_ranks else None,
    )


def _row(
    spec: AccuracyTrial,
    plan: AccuracyPlan,
    outcome: _Predictions | str,
    took: Took,
) -> Accuracy:
    """The row; ``outcome`` is the predictions, or why there are none."""
    network, samples = spec.network, spec.samples
    predictions, failure = (None, outcome) if isinstance(outcome, str) else (outcome, None)
    unknown = why_no_batch(network)
    if predictions is None:
        unknown |= dict.fromkeys(("n_classes", "ranks"), f"it could not be run: {failure}")
    else:
        unknown["failure"] = "it ran"
        if predictions.ranks is None:
            unknown["ranks"] = "the data set has no labels"
    return Accuracy(
        **head(network, plan, spec.trial_id),
        weights_hash=spec.weights_hash,
        processor=plan.processor,
        provider=network.provider,
        options=predictions.options if predictions else {},
        calibration=spec.calibration,
        dataset=samples.name,
        dataset_hash=samples.file_hash,
        preprocessing=samples.preprocessing,
        output=spec.output,
        n_samples=samples.n_samples,
        n_classes=predictions.n_classes if predictions else None,
        predicted=tuple(predictions.predicted.tolist()) if predictions else (),
        ranks=None
        if predictions is None or predictions.ranks is None
        else tuple(predictions.ranks.tolist()),
        failure=failure,
        started_utc=took.started_utc,
        duration_s=took.duration_s,
        unknown=unknown,
    )


@contextmanager
def _open(plan: AccuracyPlan) -> Iterator[Opened[Accuracy]]:
    """Raises MeasurementError where an engine of the plan cannot be used in this process."""
    networks = [spec.network for spec in plan.trials]
    engines = {network.engine for network in networks}
    probes = {name: find_engine(name).probe() for name in engines}
    for network in networks:
        check_provider(network, probes[network.engine])

    def measure(spec: AccuracyTrial, instruments: Instruments) -> Accuracy:
        engine = find_engine(spec.network.engine)
        return measure_accuracy(spec, plan, instruments, engine)

    yield Opened(measure, plan.gpu_in_mode, plan.unknown.get("gpu", ""))


def _crashed(plan: AccuracyPlan, spec: AccuracyTrial, how: str, duration_s: float) -> Accuracy:
    """The row of a network whose measuring process died."""
    return _row(spec, plan, how, Took(duration_s))


ACCURACIES: MeasurementKind[AccuracyPlan, Accuracy] = MeasurementKind(
    "accuracies",
    AccuracyPlan,
    Accuracy,
    _open,
    rows_name="accuracies.jsonl",
    is_result=lambda row: not is_for_now(row.failure),
    crashed=_crashed,
    most_events=10_000,  # progress is reported every 5 s until all samples are done
)
