"""Which nodes run as one kernel, as TensorRT and ONNX Runtime fuse them."""

from mansard.estimator.fusion.accounting import BodyGroups, Fusion, Group, PassGroups
from mansard.estimator.fusion.fuse import fuse

__all__ = ["BodyGroups", "Fusion", "Group", "PassGroups", "fuse"]
