"""The Pareto front against its definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.analytics.decisions.alternatives import pareto_front, pareto_mask
from tests.analytics.decide_factory import frame, row

COORDINATE = st.sampled_from([1.0, 2.0, 3.0, 4.0, float("nan")])  # few values: many ties


@given(st.lists(st.tuples(COORDINATE, COORDINATE, COORDINATE), max_size=30))
def test_the_front_is_what_no_other_dominates(points: list[tuple[float, float, float]]) -> None:
    def dominates(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
        pairs = list(zip(one, other, strict=True))
        return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)

    expected = [
        not any(np.isnan(point)) and not any(dominates(other, point) for other in points)
        for point in points
    ]
    assert pareto_mask(np.array(points).reshape(-1, 3)).tolist() == expected


@given(st.lists(st.tuples(COORDINATE, COORDINATE), max_size=30), st.sampled_from([1, 2]))
def test_fewer_columns_are_compared_alike(points: list[tuple[float, float]], n: int) -> None:
    few = np.array(points).reshape(-1, 2)[:, :n]
    # A third column that is the same in all rows decides nothing.
    padded = np.column_stack([few, np.full((len(few), 3 - n), 7.0)])
    assert pareto_mask(few).tolist() == pareto_mask(padded).tolist()


def test_a_front_of_very_many_is_found_whole() -> None:
    x = np.arange(50_000.0)
    front = np.column_stack([x, x[::-1], x * 0])  # 2.5e9 pairs, were they all compared
    beaten = front + 0.5  # each half a step behind one of the front
    mask = pareto_mask(np.concatenate([beaten, front]))
    assert not mask[:50_000].any()
    assert mask[50_000:].all()


def test_batches_compete_by_the_energy_of_an_item() -> None:
    rows = frame(
        [
            row("15W", 0.010, 0.10),  # 10 W, 0.1 J per item
            row("30W", 0.010, 0.20),  # as fast, 20 W: dominated
            row("15W", 0.020, 0.16, batch=2),  # slower, 8 W, 0.08 J per item
            row("30W", 0.008, 0.16),  # the fastest
        ]
    )
    front = pareto_front(rows)
    assert front.select("mode", "batch").rows() == [("15W", 1), ("15W", 2), ("30W", 1)]
    assert front["latency_s"].to_list() == [0.010, 0.020, 0.008]


def test_networks_have_fronts_of_their_own_and_order_is_kept() -> None:
    rows = frame([row("b", 2.0, 2.0, network="two"), row("a", 1.0, 1.0), row("c", 3.0, 3.0)])
    assert pareto_front(rows)["mode"].to_list() == ["b", "a"]


@pytest.mark.parametrize("energies", [(None, None), (None, 5.0)])
def test_without_any_energy_the_fastest_is_the_front(
    energies: tuple[float | None, float | None],
) -> None:
    rows = frame([row("fast", 1.0, energies[0]), row("slow", 2.0, energies[1])])
    # One energy is known: then only those with an energy can be compared in all three.
    expected = ["fast"] if energies == (None, None) else ["slow"]
    assert pareto_front(rows)["mode"].to_list() == expected


def test_an_empty_frame_has_an_empty_front() -> None:
    assert pareto_front(frame([])).is_empty()
