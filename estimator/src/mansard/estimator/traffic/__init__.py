"""Three models of the bytes that a network moves: algorithmic, fused, and with a cache."""

from mansard.estimator.traffic.algorithmic import input_bytes, traffic, write_bytes
from mansard.estimator.traffic.cached import cached_traffic, effective_cache_bytes
from mansard.estimator.traffic.fused import fused_traffic

__all__ = [
    "cached_traffic",
    "effective_cache_bytes",
    "fused_traffic",
    "input_bytes",
    "traffic",
    "write_bytes",
]
