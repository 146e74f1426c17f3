"""A few points that stand for many: spread, repeatable, corners included."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.device.power_modes.selection import normalise, spread

# The clocks of an AGX Orin, in MHz; the CPU's every second step.
GPU = (306, 408, 510, 612, 714, 816, 918, 1020, 1122, 1224, 1300.5)
EMC = (204, 665, 2133, 3199)
CPU = tuple(115.2 + 153.6 * step for step in range(14))
CORES = (2, 4, 6, 8, 10, 12)
ORIN = tuple(itertools.product(GPU, EMC, CPU, CORES))


def smallest_distance(points: Sequence[Sequence[float]], chosen: Sequence[int]) -> float:
    scaled = normalise(points)[list(chosen)]
    pairs = itertools.combinations(scaled, 2)
    return min(math.dist(first, second) for first, second in pairs)


@pytest.mark.parametrize("n", [4, 12, 30])
def test_a_pick_is_spread_wider_than_a_random_choice(n: int) -> None:
    better = 0
    for seed in range(100):
        by_chance = random.Random(seed).sample(range(len(ORIN)), n)
        chosen = spread(ORIN, n, seed)
        better += smallest_distance(ORIN, chosen) >= smallest_distance(ORIN, by_chance)
    assert better >= 95


def test_a_pick_tries_many_values_of_each_clock() -> None:
    chosen = [ORIN[index] for index in spread(ORIN, 12, 0)]
    n_values = [len(set(values)) for values in zip(*chosen, strict=True)]
    # A choice of corners, which are farthest apart, would have two of each.
    assert all(n >= least for n, least in zip(n_values, (6, 4, 6, 4), strict=True)), n_values


def test_a_pick_has_the_fastest_and_the_slowest() -> None:
    for n in (2, 3, 12):
        slowest, *_, fastest = [ORIN[index] for index in spread(ORIN, n, 1)]
        assert list(slowest) == [306, 204, 115.2, 2]
        assert list(fastest) == [1300.5, 3199, CPU[-1], 12]


def test_a_pick_of_one_is_the_fastest() -> None:
    assert [ORIN[index] for index in spread(ORIN, 1, 1)] == [ORIN[-1]]


def test_a_doubled_clock_is_as_far_wherever_it_starts() -> None:
    # log 2 to log 16: 1/3 for each doubling.
    assert normalise([(2.0,), (4.0,), (8.0,), (16.0,)])[:, 0] == pytest.approx([0, 1 / 3, 2 / 3, 1])


POINTS = st.lists(
    st.tuples(st.sampled_from([1.0, 2.0, 5.0]), st.floats(1, 1e10)), min_size=1, max_size=40
)


@given(points=POINTS, n=st.integers(0, 50), seed=st.integers(0, 2**32))
def test_a_pick_is_a_part_without_repeats(
    points: list[tuple[float, float]], n: int, seed: int
) -> None:
    chosen = spread(points, n, seed)
    assert len(chosen) == len(set(chosen)) == min(n, len(points))
    assert set(chosen) <= set(range(len(points)))
    assert chosen == spread(points, n, seed)
