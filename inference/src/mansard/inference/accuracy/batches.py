"""Samples of an .npz as batches, what a network scores for them, the classes that it predicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mansard.core.errors import MeasurementError
from mansard.inference.inputs import cast, numpy_name
from mansard.inference.npz import Array, npz_fault, stored_arrays
from mansard.inference.plan import LABELS, InputSpec, NetworkTrial, Normalisation, PreparedSamples

Classes = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float64]


def run_samples(
    loaded: Any, network: NetworkTrial, samples: PreparedSamples, output: str, folder: Path
) -> Iterator[Scores]:
    """Scores (samples × classes) of each batch of ``samples``, of ``output``.

    ``loaded``: the network as its engine has it. Raises MeasurementError, InputError, StorageError.
    """
    for n_new, fed in batches(samples, network.input_specs, folder):
        outputs = loaded.outputs(fed)
        if output not in outputs:
            raise MeasurementError(f"the engine gives no output {output!r}")
        yield class_scores(outputs[output], n_new)


def class_scores(output: Array, n_samples: int) -> Scores:
    """Scores as samples × classes, of an output of those sizes with others of 1.

    Raises MeasurementError for another shape.
    """
    n_classes = output.size // output.shape[0] if output.ndim and output.size else 0
    if output.ndim < 2 or n_classes < 2 or max(output.shape[1:]) != n_classes:
        raise MeasurementError(f"the output is {list(output.shape)}: no scores of classes")
    return output.reshape(len(output), n_classes)[:n_samples].astype(np.float64)


def predicted(scores: Scores) -> Classes:
    """The class of the highest score, of equal ones the first; of NaN: the number of classes."""
    classes: Classes = np.argmax(scores, axis=1)
    return np.where(np.isnan(scores).any(axis=1), scores.shape[1], classes)


def ranks(scores: Scores, labels: Classes) -> Classes:
    """How many classes stand before the right one: 0 where the network is right.

    Of equal scores the lower class stands first, so that a network with one score for all
    classes is right by chance alone. Where a score is NaN it is the number of classes.
    """
    label_scores = scores[np.arange(len(labels)), labels][:, None]
    is_lower = np.arange(scores.shape[1])[None, :] < labels[:, None]
    before = (scores > label_scores) | ((scores == label_scores) & is_lower)
    n_before: Classes = before.sum(axis=1)
    return np.where(np.isnan(scores).any(axis=1), scores.shape[1], n_before)


_MOST_LABELS = 10_000_000  # a hundred times the largest set that is measured with


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
    """How many samples are new in each batch, and the arrays to feed.

    The last batch is filled up with its own first rows. Raises InputError, StorageError.
    """
    path = folder / samples.file
    with stored_arrays(path, [spec.name for spec in specs]) as arrays:
        n_left, n_batch = samples.n_samples, specs[0].shape[0]
        while n_left:
            n_new = min(n_left, n_batch)
            fed = {}
            for spec in specs:
                rows = arrays[spec.name].rows(n_new)
                fed[spec.name] = _filled(_fed(rows, samples.normalisation, spec), n_batch)
            yield n_new, fed
            n_left -= n_new


def _filled(rows: Array, n_rows: int) -> Array:
    return rows if len(rows) == n_rows else np.resize(rows, (n_rows, *rows.shape[1:]))


def _fed(rows: Array, normalisation: Normalisation | None, spec: InputSpec) -> Array:
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
