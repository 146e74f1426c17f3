"""Numbers of small tensors, which shapes and indices are computed from."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from mansard.estimator.numbers import INT64, Numbers, cut, joined


def numbers(*shape: int) -> Numbers:
    """0, 1, 2, … in this shape."""
    n = 1
    for size in shape:
        n *= size
    return Numbers(INT64, shape, struct.pack(f"<{n}q", *range(n)))


def listed(found: Numbers) -> list[int]:
    return list(struct.unpack(f"<{found.n_elements}q", found.data))


def test_parts_along_an_axis() -> None:
    first, second = cut(numbers(6), (2, 4), 0)
    assert (listed(first), listed(second)) == ([0, 1], [2, 3, 4, 5])
    # rows of 3: 0 1 2 and 3 4 5
    left, right = cut(numbers(2, 3), (1, 2), 1)
    assert (left.shape, listed(left)) == ((2, 1), [0, 3])
    assert (right.shape, listed(right)) == ((2, 2), [1, 2, 4, 5])


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(0, 1))
def test_parts_that_are_joined_are_the_whole(sizes: list[int], axis: int) -> None:
    shape = (sum(sizes), 3) if axis == 0 else (3, sum(sizes))
    whole = numbers(*shape)
    assert joined(cut(whole, sizes, axis), shape, axis) == whole
