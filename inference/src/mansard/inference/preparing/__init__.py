"""Networks prepared to be run: from a model's file, or one of the zoo, to what an engine loads.

Only a host prepares: the process that measures needs neither onnx nor the estimator.
"""

from mansard.inference.preparing.datasets import find_dataset
from mansard.inference.preparing.networks import Calibrating, PreparedNetwork, prepare
from mansard.inference.preparing.parts import (
    CutChoice,
    PreparedPart,
    check_stages,
    cut,
    cut_choices,
    group_cuts,
    split,
    verify,
    write,
)
from mansard.inference.preparing.preprocessing import parse_preprocessing
from mansard.inference.preparing.samples import random_samples, samples_for, write_samples
from mansard.inference.preparing.writing import check_space, write_chains

__all__ = [
    "Calibrating",
    "CutChoice",
    "PreparedNetwork",
    "PreparedPart",
    "check_space",
    "check_stages",
    "cut",
    "cut_choices",
    "find_dataset",
    "group_cuts",
    "parse_preprocessing",
    "prepare",
    "random_samples",
    "samples_for",
    "split",
    "verify",
    "write",
    "write_chains",
    "write_samples",
]
