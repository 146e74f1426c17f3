"""Which nodes run as one kernel, as TensorRT and ONNX Runtime fuse them."""

from mansard.estimator.fusion.fuse import fuse
from mansard.estimator.fusion.groups import BodyGroups, Fusion, Group, PassGroups

__all__ = ["BodyGroups", "Fusion", "Group", "PassGroups", "fuse"]
