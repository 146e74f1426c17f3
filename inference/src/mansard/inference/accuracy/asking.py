"""A loaded network that is fed with samples: its scores of classes, batch after batch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mansard.core.errors import MeasurementError
from mansard.inference.accuracy.plan import SampleFile
from mansard.inference.accuracy.samples import batches
from mansard.inference.accuracy.scores import class_scores
from mansard.inference.plan import NetworkTrial

Scores = npt.NDArray[np.float64]


def ask(
    loaded: Any, network: NetworkTrial, samples: SampleFile, output: str, folder: Path
) -> Iterator[Scores]:
    """Scores (samples × classes) of each batch of ``samples``, of ``output``.

    ``loaded``: the network as its engine has it. Raises MeasurementError, InputError, StorageError.
    """
    for n_new, fed in batches(samples, network.input_specs, folder):
        found = loaded.outputs(fed)
        if output not in found:
            raise MeasurementError(f"the engine gives no output {output!r}")
        yield class_scores(found[output], n_new)
