"""Which values are small enough to be kept."""

from __future__ import annotations

from mansard.estimator.element_types import ElementType

MAX_INTEGERS = 4096  # window indices of a vision transformer fit, an embedding table does not
MAX_FLOATS = 16  # scales of a Resize, and the arithmetic on them


def may_keep(dtype: ElementType, n_elements: int) -> bool:
    """Whether a tensor is small enough for its value to be kept."""
    if dtype.name == "string":
        return False
    return n_elements <= (MAX_FLOATS if dtype.is_float else MAX_INTEGERS)
