"""Scores that a network has of samples, the classes that they predict, ranks of the right ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mansard.core.errors import MeasurementError
from mansard.inference.accuracy.batches import batches
from mansard.inference.accuracy.plan import PreparedSamples
from mansard.inference.npz import Array
from mansard.inference.plan import NetworkTrial

Classes = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float64]


def run_samples(
    loaded: Any, network: NetworkTrial, samples: PreparedSamples, output: str, folder: Path
) -> Iterator[Scores]:
    """Scores (samples × classes) of each batch of ``samples``, of ``output``.

    ``loaded``: the network as its engine has it. Raises MeasurementError, InputError, StorageError.
    """
    for n_new, fed in batches(samples, network.input_specs, folder):
        found = loaded.outputs(fed)
        if output not in found:
            raise MeasurementError(f"the engine gives no output {output!r}")
        yield class_scores(found[output], n_new)


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
    found: Classes = np.argmax(scores, axis=1)
    return np.where(np.isnan(scores).any(axis=1), scores.shape[1], found)


def ranks(scores: Scores, labels: Classes) -> Classes:
    """How many classes stand before the right one: 0 where the network is right.

    Of equal scores the lower class stands first, so that a network with one score for all
    classes is right by chance alone. Where a score is NaN it is the number of classes.
    """
    own = scores[np.arange(len(labels)), labels][:, None]
    is_lower = np.arange(scores.shape[1])[None, :] < labels[:, None]
    before = (scores > own) | ((scores == own) & is_lower)
    found: Classes = before.sum(axis=1)
    return np.where(np.isnan(scores).any(axis=1), scores.shape[1], found)
