"""Which of the kernels that were run from one level of memory makes its roof.

A roof bounds every mix of loads and stores, so it is the fastest kernel. Two kinds are left out:

- One that did not settle, where another did: its rate may be of a moment, not of the memory.
- One that is faster than the others allow. A kernel that loads r and stores s arrays takes between
  max(r·a, s·b) and r·a + s·b for each element, where a load takes a and a store b. With the same
  overlap its rate is at most (r + s)/(r' + s') · max(r'/r, s'/s) of that of a kernel with r' and
  s': a copy at most 2 of a read, 4/3 of a triad, 1 of a scale. LOOSE allows for another overlap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from mansard.analytics.models.roofs.ceilings import Ceiling, best_of, settled_of

LOOSE = 1.25
# Arrays that are loaded and stored: docs/understand/measuring.md. Of other kernels nothing is
# known.
_LOADS_AND_STORES: Mapping[str, tuple[int, int]] = MappingProxyType(
    {"read": (1, 0), "copy": (1, 1), "scale": (1, 1), "triad": (2, 1)}
)
NOT_SETTLED = "did not settle as others did"
TOO_FAST = "is faster than the other kernels allow"


@dataclass(frozen=True)
class RoofChoice:
    """``roof``: of the highest lower end; ``traffic``: what networks' traffic is priced at.

    ``left_out``: kernels that would have made the roof, each with the reason why it does not.
    """

    roof: Ceiling
    traffic: Ceiling
    left_out: tuple[tuple[Ceiling, str], ...]


def choose_roof(ceilings: Sequence[Ceiling]) -> RoofChoice:
    """The roof of some ceilings, at least one, of one level; without a value where none has one.

    Most of what a network moves it reads: weights, and the inputs of each layer. So its traffic
    is priced at the rate of ``read`` where that counts, and is no faster than the roof.
    """
    measured = [each for each in ceilings if each.value is not None]
    settled = settled_of(measured)
    fast = {id(each) for each in settled if _is_too_fast(each, settled)}
    counted = [each for each in settled if id(each) not in fast]
    roof = best_of(counted or ceilings)
    reads = [each for each in counted if each.kernel == "read" and _prices(each, roof)]
    left_out = [
        (each, TOO_FAST if id(each) in fast else NOT_SETTLED)
        for each in measured
        if all(each is not one for one in counted) and best_of([roof, each]) is each
    ]
    return RoofChoice(roof, reads[0] if reads else roof, tuple(left_out))


def _prices(reads: Ceiling, roof: Ceiling) -> bool:
    """Whether reads are no faster than the roof, and known as well."""
    is_known = reads.low is not None or roof.low is None
    return is_known and _rate(reads) <= _rate(roof)


def _is_too_fast(kernel: Ceiling, others: Sequence[Ceiling]) -> bool:
    """Whether most of the others, beyond noise, say that ``kernel`` cannot be that fast."""
    bounds = [
        other.high * bound
        for other in others
        if other is not kernel
        and other.high is not None  # without an interval it may itself be what is wrong
        and (bound := most_ratio(kernel.kernel, other.kernel)) is not None
    ]
    least = kernel.low or _rate(kernel)
    return 2 * sum(least > LOOSE * bound for bound in bounds) > len(bounds)


def most_ratio(kernel: str | None, other: str | None) -> float | None:
    """The most that the rate of ``kernel`` can be of that of ``other``; None: not bounded."""
    if kernel is None or other is None or not {kernel, other} <= _LOADS_AND_STORES.keys():
        return None
    loads, stores = _LOADS_AND_STORES[kernel]
    other_loads, other_stores = _LOADS_AND_STORES[other]
    if other_stores and not stores:
        return None  # nothing tells how fast loads are beside stores
    share = max(other_loads / loads, other_stores / stores if stores else 0.0)
    return (loads + stores) / (other_loads + other_stores) * share


def _rate(ceiling: Ceiling) -> float:
    return ceiling.value or 0.0
