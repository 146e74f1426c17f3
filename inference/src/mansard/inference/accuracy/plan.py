"""The plan of a run that measures accuracy, as a record: which network, fed with which samples."""

from __future__ import annotations

from typing import ClassVar

from mansard.core.records import Record, Schema
from mansard.inference.plan import NetworkTrial
from mansard.measuring.plan import PlannedTrial, RunPlan

LABELS = "labels"  # the array of an .npz that holds the class of each sample


class Normalisation(Record, frozen=True, kw_only=True):
    """From stored pixels to what a network is fed: (pixel / scale - mean) / deviation.

    ``channel_axis``: of one sample; ``mean`` and ``deviation`` have one number for each channel.
    """

    scale: float
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    channel_axis: int


class PreparedSamples(Record, frozen=True, kw_only=True):
    """Samples in the folder of files: an .npz with an array for each input, a sample each row.

    ``labels`` of it are the samples' classes, where ``is_labelled``. ``normalisation`` None: the
    arrays are fed as they are.
    """

    file: str
    file_hash: str  # of what it is made of
    name: str  # of the data set
    n_samples: int
    is_labelled: bool
    preprocessing: str  # in words
    normalisation: Normalisation | None

    @property
    def in_words(self) -> str:
        """``128 samples of val``."""
        return f"{self.n_samples} samples of {self.name}"


class AccuracyTrial(PlannedTrial, frozen=True, kw_only=True):
    """One network to be fed with samples. ``network`` says on which engine, in which precision."""

    network: NetworkTrial
    weights_hash: str  # of the file that the network comes from, and of weights beside it
    samples: PreparedSamples
    calibration: str  # what an int8 network's ranges come from, in words; empty: no int8
    output: str  # that holds a score for each class

    @property
    def title(self) -> str:
        """What is shown while the trial runs."""
        return f"accuracy of {self.network.title}"


class AccuracyPlan(RunPlan, frozen=True, kw_only=True):
    """The plan of a run that measures accuracy. The power mode does not matter to it."""

    schema: ClassVar[Schema] = Schema("accuracy-plan", 1)
    kind: ClassVar[str] = "mansard.inference.accuracy.trial:ACCURACIES"

    trials: tuple[AccuracyTrial, ...]
