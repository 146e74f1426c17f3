"""Which nodes run as one kernel, as TensorRT and ONNX Runtime fuse them."""

from mansard.estimator.fusion.accounting import BodyGroups, FusedGroup, Fusion, PassGroups
from mansard.estimator.fusion.fuse import fuse

__all__ = ["BodyGroups", "FusedGroup", "Fusion", "PassGroups", "fuse"]
