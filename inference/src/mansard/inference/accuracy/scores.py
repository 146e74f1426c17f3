"""From scores of classes to the class that a network says, and the place of the right one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mansard.core.errors import MeasurementError
from mansard.inference.inputs import Array

Classes = npt.NDArray[np.int64]


def class_scores(output: Array, n_samples: int) -> npt.NDArray[np.float64]:
    """Scores as samples × classes, of an output of those sizes with others of 1.

    Raises MeasurementError for another shape.
    """
    n_classes = output.size // output.shape[0] if output.ndim and output.size else 0
    if output.ndim < 2 or n_classes < 2 or max(output.shape[1:]) != n_classes:
        raise MeasurementError(f"the output is {list(output.shape)}: no scores of classes")
    return output.reshape(len(output), n_classes)[:n_samples].astype(np.float64)


def predicted(scores: npt.NDArray[np.float64]) -> Classes:
    """The class of the highest score, of equal ones the first; of NaN: the number of classes."""
    found: Classes = np.argmax(scores, axis=1)
    return np.where(np.isnan(scores).any(axis=1), scores.shape[1], found)


def ranks(scores: npt.NDArray[np.float64], labels: Classes) -> Classes:
    """How many classes stand before the right one: 0 where the network is right.

    Of equal scores the lower class stands first, so that a network which says the same of all
    classes is right by chance alone. Where a score is NaN it is the number of classes.
    """
    own = scores[np.arange(len(labels)), labels][:, None]
    is_lower = np.arange(scores.shape[1])[None, :] < labels[:, None]
    before = (scores > own) | ((scores == own) & is_lower)
    found: Classes = before.sum(axis=1)
    return np.where(np.isnan(scores).any(axis=1), scores.shape[1], found)
