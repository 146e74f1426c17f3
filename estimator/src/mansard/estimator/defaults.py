"""What is taken where nothing is given: usual dimensions of the zoo's networks, and a batch of 1.

Scores, measurements and predictions of one network have to be of the same dimensions, so all of
them take their defaults here.
"""

from __future__ import annotations

from pathlib import Path

from mansard.estimator import zoo
from mansard.estimator.model import Given
from mansard.estimator.scoring import Loaded, Skeleton, load, naming_model, read_skeleton
from mansard.estimator.shape_inference.dimensions import (
    check_batch_given,
    with_open_batch,
    with_usual,
)


def read_network(source: Path | str) -> Skeleton:
    """An ONNX file by its path, or a network of the zoo by its name, without weights.

    Raises ModelError, StorageError or UsageError.
    """
    if isinstance(source, Path):
        return read_skeleton(source)
    usual = {name: size for name, size in zoo.entry(source).dims if name != "batch"}
    return read_skeleton(zoo.read(source), source, usual)


def load_network(source: Path | str) -> Loaded:
    """The same, ready to be scored any number of times."""
    return load(read_network(source))


def with_defaults(loaded: Loaded, given: Given, *, is_guessed_too: bool = True) -> Given:
    """``given``, completed: what is given wins over the usual dimensions, then comes the batch.

    ``is_guessed_too``: as for ``with_open_batch``. Raises UsageError where the batch is given
    twice.
    """
    with naming_model(loaded.where):
        check_batch_given(loaded.model, given)
        given = with_usual(loaded.model, given, loaded.usual)
        return with_open_batch(loaded.model, given, is_guessed_too=is_guessed_too)
