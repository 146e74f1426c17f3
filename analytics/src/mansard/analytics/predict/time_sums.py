"""Σ max(work / peak, traffic / bandwidth) over many groups, in many modes at once.

Written directly it takes groups × modes evaluations. With x = 1/P and y = 1/B a group of work w
and traffic q is compute-bound in the modes where w·x ≥ q·y, which is q/w ≤ x/y. With the groups
in the order of q/w and the modes in the order of x/y each mode has a first so many groups that
are compute-bound, and the sum is x · Σ(their w) + y · Σ(q of the others): two sums that are
known beforehand. So it takes groups + modes steps, and is the same sum to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mansard.analytics.predict.coefficient_table import Array


@dataclass(frozen=True, eq=False)
class Ridges:
    """Modes in the order of x/y, which is that of their ridge points P/B falling.

    ``ratio`` is x/y in that order, ``places`` says where in it each mode is.
    """

    ratio: Array
    places: NDArray[np.int64]


def ridges(second_per_flop: Array, second_per_byte: Array) -> Ridges:
    """Sort modes; both are above 0, or ``second_per_byte`` is 0 where nothing is moved."""
    with np.errstate(divide="ignore"):
        ratio = second_per_flop / second_per_byte
    order = np.argsort(ratio)
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return Ridges(ratio[order], places)


def bound_sums(flop: Array, n_bytes: Array, modes: Ridges) -> tuple[Array, Array]:
    """For each mode the work of the groups that work bounds, and the traffic of the others.

    ``flop`` is above 0. FLOP and bytes of the groups, each in the same order.
    """
    ratio = n_bytes / flop
    groups = np.argsort(ratio)
    # From this place on, in the order of the modes, work bounds the group.
    firsts = np.searchsorted(modes.ratio, ratio[groups])
    stretches = np.diff(firsts, prepend=0, append=len(modes.ratio))
    n_bound = np.repeat(np.arange(len(groups) + 1), stretches)[modes.places]
    bound_flop = np.concatenate([[0.0], np.cumsum(flop[groups])])
    moved = n_bytes[groups][::-1]
    other_bytes = np.concatenate([np.cumsum(moved)[::-1], [0.0]])
    return bound_flop[n_bound], other_bytes[n_bound]
