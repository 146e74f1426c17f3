"""How often a network is right: the class that it predicts of each sample."""

from __future__ import annotations

from typing import ClassVar

from mansard.core.records.base import Record, Schema, Source
from mansard.core.records.trial import Processor


class Accuracy(Record, frozen=True, kw_only=True):
    """The classes that one network on one engine predicts of samples. Raw numbers, no shares.

    It is measured once for a network, engine, provider, precision and data set: it does not depend
    on the power mode. ``predicted`` and ``ranks`` have one number for each sample, in the order of
    the data set, so that two rows of one data set can be compared sample by sample.
    """

    schema: ClassVar[Schema] = Schema("accuracy", 1)

    run_id: str
    trial_id: str
    source: Source
    model: str
    model_hash: str  # as that of ModelScore: without the weights
    weights_hash: str  # of the file that the network comes from, and of weights beside it
    engine: str
    engine_version: str
    processor: Processor
    provider: str
    options: dict[str, str]  # of the engine
    precision: str
    batch: int | None  # that it was fed with
    dimensions: dict[str, int]
    calibration: str  # what the ranges of int8 come from, in words; empty: nothing was calibrated
    dataset: str  # its name
    dataset_hash: str  # of the samples as they are stored, their labels and preprocessing
    preprocessing: str  # in words
    output: str  # that holds the scores
    n_samples: int
    n_classes: int | None
    predicted: tuple[int, ...]  # the class of the highest score; n_classes where one is NaN
    ranks: tuple[int, ...] | None  # classes that stand before the right one; 0: it is right
    failure: str | None  # why it could not be run; no predictions then
    started_utc: str
    duration_s: float
