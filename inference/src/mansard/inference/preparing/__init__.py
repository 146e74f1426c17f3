"""Networks prepared to be run: from a model's file, or one of the zoo, to what an engine loads.

Only a host prepares: the process that measures needs neither onnx nor the estimator.
"""

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

__all__ = [
    "Calibrating",
    "CutChoice",
    "PreparedNetwork",
    "PreparedPart",
    "check_stages",
    "cut",
    "cut_choices",
    "group_cuts",
    "prepare",
    "split",
    "verify",
    "write",
]
