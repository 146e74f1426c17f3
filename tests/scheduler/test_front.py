"""The front of one network against every assignment of it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mansard.core.errors import InputError
from mansard.scheduler.front import front
from tests.scheduler import brute_force, drawing


@given(
    seed=st.integers(0, 10_000),
    size=st.integers(1, 6),
    n_accelerators=st.integers(1, 3),
    most=st.integers(0, 3),
)
@settings(deadline=None, max_examples=40)
def test_the_front_is_what_no_assignment_beats(
    seed: int, size: int, n_accelerators: int, most: int
) -> None:
    problem = drawing.problem(seed, (size,), n_accelerators, max_transitions=most)
    chain = problem.networks[0]
    points = []
    for names in brute_force.assignments(chain, most):
        time_s = sum(g.time_s[name] for g, name in zip(chain.groups, names, strict=True))
        for left, entered, a, b in zip(
            chain.groups, chain.groups[1:], names, names[1:], strict=False
        ):
            time_s += left.leave_s[a] + entered.enter_s[b] if a != b else 0.0
        energy_j = sum(g.energy_j[name] for g, name in zip(chain.groups, names, strict=True))
        points.append((time_s, energy_j + 5.0 * time_s, names))
    unbeaten = sorted(
        point
        for point in points
        if not any(o[0] <= point[0] and o[1] <= point[1] and o != point for o in points)
    )
    found = front(problem, chain.name)
    assert [p.time_s for p in found] == pytest.approx([time_s for time_s, _, _ in unbeaten])
    assert [p.energy_j for p in found] == pytest.approx([energy_j for _, energy_j, _ in unbeaten])
    assert [p.accelerators for p in found] == [names for _, _, names in unbeaten]


def test_a_network_without_energies_has_no_front() -> None:
    problem = drawing.problem(1, (2,))
    bare = msgspec.structs.replace(problem.networks[0].groups[1], energy_j={"gpu": 1.0})
    chain = msgspec.structs.replace(
        problem.networks[0], groups=(problem.networks[0].groups[0], bare)
    )
    without = msgspec.structs.replace(problem, networks=(chain,))
    with pytest.raises(InputError, match=r"n0, g1: its energy on dla0 is unknown"):
        front(without, "n0")
    with pytest.raises(InputError, match=r"zoo: no network of the problem has this name"):
        front(problem, "zoo")
