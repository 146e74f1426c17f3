"""One error for whatever a node that breaks its operator's definition makes code stumble over."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from mansard.core.errors import MansardError
from mansard.estimator.tensors import Node

T = TypeVar("T")

# What a rule or formula may stumble over in a malformed node: attributes that are
# missing or of another type, too few inputs, shapes of another rank, absurd sizes.
MALFORMED = (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError)


def guarded(run: Callable[..., T], node: Node, *rest: object) -> T:
    """``run(node, *rest)``; raises ModelError where it stumbles."""
    try:
        return run(node, *rest)
    except MansardError:
        raise
    except MALFORMED as error:
        raise node.error(
            f"does not fit its operator's definition ({type(error).__name__}: {error})",
            "the file is broken or was edited; export it again",
        ) from error
