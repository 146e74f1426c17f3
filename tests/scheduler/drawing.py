"""Random problems."""

from __future__ import annotations

import random

from mansard.core.records.schedule import (
    Accelerator,
    Goal,
    LayerGroup,
    NetworkChain,
    PccsFit,
    Problem,
)

FIT = PccsFit(  # close to that of an AGX Xavier
    normal_byte_per_s=44.4e9,
    intensive_byte_per_s=87.5e9,
    peak_byte_per_s=127.4e9,
    minor_points=3.09,
    contention_byte_per_s=42.2e9,
    total_byte_per_s=57.6e9,
    points_per_byte_per_s=0.6e-9,
    error_points=1.23,
    left_out_points=2.0,
)
PCCS = {"gpu": FIT, "dla0": FIT}


def problem(
    seed: int,
    sizes: tuple[int, ...],
    n_accelerators: int = 2,
    max_transitions: int = 1,
    goal: Goal = "makespan",
) -> Problem:
    """Networks of so many groups, with times of 1 to 10 ms and costs up to 1 ms."""
    draw = random.Random(seed)
    names = ["gpu", "dla0", "dla1"][:n_accelerators]

    def each(least: float, most: float) -> dict[str, float]:
        return {name: draw.uniform(least, most) for name in names}

    networks = tuple(
        NetworkChain(
            name=f"n{n}",
            groups=tuple(
                LayerGroup(
                    name=f"g{g}",
                    time_s=each(1e-3, 1e-2),
                    energy_j=each(0.01, 0.1),
                    demand_byte_per_s=each(1e9, 9e10),
                    leave_s=each(0, 1e-3),
                    enter_s=each(0, 1e-3),
                )
                for g in range(size)
            ),
            weight=draw.uniform(1, 3),
            batch=draw.randint(1, 3),
            max_latency_s=draw.uniform(1.5e-2, 4e-2) if goal == "misses" else 0.0,
        )
        for n, size in enumerate(sizes)
    )
    return Problem(
        accelerators=tuple(
            Accelerator(name=name, kind="gpu" if name == "gpu" else "dla") for name in names
        ),
        networks=networks,
        goal=goal,
        max_transitions=max_transitions,
        idle_w=5.0,
    )
