"""Whether what a network needs fits what a machine can give.

Both are ranges. It fits where the most that may be needed is within the least that is surely
given; it does not fit where the least need is above the most that may be given; between them
nothing is certain. Needs grow with the context and the batch, so the largest that fits is found by
bisection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from mansard.core.hardware.memory import MemoryCapacity
from mansard.estimator.engine_memory import MemoryNeed

Certainty = Literal["fits", "uncertain", "does not fit"]
FitVerdict = Literal["fits", "fits with less", "uncertain", "does not fit"]


class BuildFit(msgspec.Struct, frozen=True, kw_only=True):
    """Whether TensorRT can build the engine file on the machine itself."""

    verdict: Certainty
    needs: tuple[MemoryNeed, ...]
    low_bytes: int
    high_bytes: int


class MemoryFit(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a network fits. ``context`` and ``batch``: that were asked for.

    ``longest_context``: with this batch; ``largest_batch``: with this context; None: none surely
    fits, or the network has no context. ``less``: what surely fits where this does not.
    ``smaller``: the next smaller format or precision that fits.
    """

    model: str
    engine: str
    precision: str
    context: int | None
    batch: int
    verdict: FitVerdict
    needs: tuple[MemoryNeed, ...]
    low_bytes: int
    high_bytes: int
    capacity: MemoryCapacity
    longest_context: int | None
    largest_batch: int | None
    less: str | None
    smaller: str | None
    build: BuildFit | None
    notes: tuple[str, ...]


def need_ends(needs: Sequence[MemoryNeed]) -> tuple[int, int]:
    """The least and the most bytes of all parts together."""
    return sum(need.low_bytes for need in needs), sum(need.high_bytes for need in needs)


def certainty(needs: Sequence[MemoryNeed], capacity: MemoryCapacity) -> Certainty:
    """Whether ``needs`` are within ``capacity``, by the ends of both."""
    low, high = need_ends(needs)
    if high <= capacity.low_bytes:
        return "fits"
    return "does not fit" if low > capacity.high_bytes else "uncertain"


def limited(capacity: MemoryCapacity, share: float | None) -> MemoryCapacity:
    """``capacity`` where an engine has at most ``share`` of all memory."""
    if share is None:
        return capacity
    most = round(share * capacity.total_bytes)
    return msgspec.structs.replace(
        capacity,
        low_bytes=min(capacity.low_bytes, most),
        high_bytes=min(capacity.high_bytes, most),
    )


def largest(fits: Callable[[int], bool], most: int, step: int = 1) -> int | None:
    """The largest multiple of ``step``, up to ``most``, that ``fits``; None: not even the first.

    ``fits`` is monotone: what fits, fits with less.
    """
    n_most = most // step
    if n_most < 1 or not fits(step):
        return None
    low, high = 1, 2
    while high <= n_most and fits(high * step):
        low, high = high, 2 * high
    high = min(high, n_most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle * step) else (low, middle)
    return low * step


def with_less(
    certain: Certainty,
    asked: tuple[int | None, int],
    longest_context: int | None,
    largest_batch: int | None,
) -> tuple[FitVerdict, str | None]:
    """The verdict, and what surely fits instead: a smaller batch before a shorter context.

    What is uncertain stays so; what does not fit as it was asked for may fit with less.
    """
    context, batch = asked
    if certain == "fits":
        return "fits", None
    less = None
    if batch > 1 and largest_batch is not None:
        less = f"batch {largest_batch}"
    elif context is not None and longest_context is not None:
        less = f"a context of {longest_context:,} tokens"
    is_less = less is not None and certain == "does not fit"
    return ("fits with less" if is_less else certain), less
